"""Measures by a language model: LAVE (paper 4, "Method") and Llama inclusion (paper 2).

LAVE's judge gives a reason and then a rating from 1 to 3, after eight demonstrations; the score is (rating − 1) / 2. A
correct but general answer ("bird" for "blue jay") is rated as wrong or partly right, where hP rewards it. The judge of
inclusion says whether the answer agrees with the label. Both are shown the real prompt: to "What is behind the dog?"
the answer "dog" is wrong.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from taxtune.metrics.judging import (
    MAX_TEXT,
    Judge,
    JudgePrompt,
    Verdicts,
    check_questions,
    judge_of,
    read_rating,
    read_yes_no,
)
from taxtune.metrics.registry import (
    MEASURES,
    FloatArray,
    Identity,
    Images,
    ManyReferencesMeasure,
    MeasureSettings,
    Questions,
    Texts,
)
from taxtune.models import check_model
from taxtune.resources import prompts_dir

__all__ = ["JudgedMeasure", "Lave", "LaveOptions", "LlamaInclusion", "filter_references", "read_demonstrations"]

#: References rarer than this share of the most frequent one are left out (paper 4, "Prompt for VQA Evaluation").
RARE = 0.25


class JudgedMeasure(ManyReferencesMeasure):
    """A measure that asks a judge; NaN where the judge gave no verdict or could not be asked.

    Args:
        model: "local:MODEL" or a model that litellm reaches.
        settings: Settings of the judge's model, folder of replies.
        judge: The judge, instead of one made from these.
    """

    needs_questions = True
    #: The file of the prompt, the most tokens of a reply, and what a reply without a verdict is.
    template: str
    max_tokens: int
    no_verdict: str

    def __init__(self, model: str, settings: MeasureSettings, judge: Judge | None = None) -> None:
        super().__init__(f"{self.kind.kind}:{model}")
        self._judge = judge or judge_of(model, settings, max_tokens=self.max_tokens)
        self._prompt = JudgePrompt(self.template)

    @property
    def notes(self) -> tuple[str, ...]:
        """The numbers of unscored answers, with the reasons."""
        return self._judge.notes(self.no_verdict)

    def check(self) -> list[str]:
        """Checks, without a call, that the judge can be asked; returns remarks for the user.

        Raises:
            ModelError: If its key, its provider or its weights are missing.
        """
        return check_model(self._judge.llm)

    def identity(self) -> Identity:
        """The judge's model and decoding, and the content of its prompt."""
        return {"measure": self.kind.kind, "prompt": self._prompt.digest, **self._judge.llm.identity}


class LaveOptions(NamedTuple):
    """Variants of the prompt (paper 4, Table 3, "Ablation Studies").

    Attributes:
        shots: Number of demonstrations shown, the first ones, at most 8; None is all of them.
        rationale: Whether the judge gives its reason before the rating.
        filter_references: Whether rare references are left out.
    """

    shots: int | None = None
    rationale: bool = True
    filter_references: bool = True


class Lave(JudgedMeasure):
    """A score of 0, 0.5 or 1 for each answer; see `JudgedMeasure`. `options` are variants of the prompt."""

    kind = MEASURES["lave"]
    template, max_tokens, no_verdict = "lave.j2", 256, "gives no rating from 1 to 3"

    def __init__(
        self, model: str, settings: MeasureSettings, judge: Judge | None = None, options: LaveOptions | None = None
    ) -> None:
        super().__init__(model, settings, judge)
        self.options = options or LaveOptions()
        self._general, self._yes_no = (
            read_demonstrations(name)[: self.options.shots] for name in ("general.yaml", "yes-no.yaml")
        )

    def identity(self) -> Identity:
        """The judge's model and decoding, and the content of prompt and demonstrations."""
        shown = hashlib.sha256(repr((self._general, self._yes_no)).encode("utf-8", "replace")).hexdigest()[:16]
        options = {"rationale": int(self.options.rationale), "filter_references": int(self.options.filter_references)}
        return {**super().identity(), **options, "demonstrations": shown}

    def prompt(self, question: str, references: Sequence[str], answer: str, caption: str | None = None) -> str:
        """The judge's prompt about an answer, with the references that people gave and maybe a caption."""
        kept = filter_references(references) if self.options.filter_references else list(references)
        yes_no = bool(kept) and all(reference.strip(" \t.!").casefold() in ("yes", "no") for reference in kept)
        return self._prompt.render(
            captions=caption is not None,
            caption=caption,
            rationale=self.options.rationale,
            demonstrations=self._yes_no if yes_no else self._general,
            question=question,
            references=kept,
            answer=answer,
        )

    def rate(
        self,
        answers: Sequence[str],
        references: Sequence[Sequence[str]],
        questions: Sequence[str] | None,
        captions: Sequence[str | None] | None = None,
    ) -> Verdicts:
        """Asks the judge about each answer.

        Args:
            answers: Texts, n of them.
            references: The references of each, one or more; blank ones are left out.
            questions: The question of each answer.
            captions: A description of each image, or None.

        Returns:
            Scores in {0, 0.5, 1} or NaN, with the judge's rationales. An answer that has no reference, or a text of
            more than 20,000 characters, is not asked about.

        Raises:
            DataError: If the questions are missing.
            ModelError: If the judge cannot be asked at all.
        """
        questions = check_questions(questions, "LAVE")
        captions = captions if captions is not None else [None] * len(answers)
        prompts = []
        for answer, given, question, caption in zip(answers, references, questions, captions, strict=True):
            real = [reference for reference in given if reference.strip()]
            too_long = max(len(answer), sum(map(len, real)), len(question), len(caption or "")) > MAX_TEXT
            prompts.append(None if too_long or not real else self.prompt(question, real, answer, caption))
        return self._judge.judge(prompts, _read, f"no reference, or a text longer than {MAX_TEXT:,} characters")

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """The score of each answer with all its references, shape (n,); see `rate`."""
        return self.rate(answers, references, questions).values


def _read(reply: str) -> float | None:
    rating = read_rating(reply)
    return None if rating is None else (rating - 1) / 2


def read_demonstrations(name: str) -> list[dict[str, Any]]:
    """The demonstrations of `prompts/judge/lave`: question, references, answer, rationale, rating and maybe caption."""
    import yaml

    shown: list[dict[str, Any]] = yaml.safe_load((prompts_dir() / "judge" / "lave" / name).read_text("utf-8"))
    return [{**one, "rationale": " ".join(one["rationale"].split())} for one in shown]


def filter_references(references: Sequence[str]) -> list[str]:
    """The references without those rarer than a quarter of the most frequent one, in order.

    References that differ in case and white space only count as the same.
    """
    keys = [" ".join(reference.casefold().split()) for reference in references]
    counts = Counter(keys)
    least = RARE * max(counts.values(), default=0)
    return [reference for reference, key in zip(references, keys, strict=True) if counts[key] >= least]


class LlamaInclusion(JudgedMeasure):
    """1 where the judge says yes, 0 where it says no, NaN where it says neither; see `JudgedMeasure`."""

    kind = MEASURES["llama-inclusion"]
    template, max_tokens, no_verdict = "inclusion.j2", 64, "is neither yes nor no"

    def verdicts(
        self, answers: Sequence[str], labels: Sequence[str], questions: Sequence[str] | None = None
    ) -> Verdicts:
        """Asks about each answer with its label and its prompt; scores are 0, 1 or NaN. Errors as for `Lave.rate`.

        An answer without a label, or with a text of more than 20,000 characters, is not asked about.
        """
        shown = check_questions(questions, "Llama inclusion")
        prompts = [
            self._prompt.render(question=question, label=label, answer=answer)
            if label.strip() and max(map(len, (answer, label, question))) <= MAX_TEXT
            else None
            for answer, label, question in zip(answers, labels, shown, strict=True)
        ]
        return self._judge.judge(prompts, read_yes_no, f"no label, or a text longer than {MAX_TEXT:,} characters")

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """The score of each answer with any of its labels, shape (n,).

        1 where the judge says yes to one of them, else NaN where one is unscored, since it might be the right one, and
        0 where the judge says no to all; NaN without labels. Errors as for `verdicts`.
        """
        questions = check_questions(questions, "Llama inclusion")
        owner = [i for i, (_, given) in enumerate(zip(answers, references, strict=True)) for _ in given]
        labels = [label for given in references for label in given]
        values = self.verdicts([answers[i] for i in owner], labels, [questions[i] for i in owner]).values
        scores = np.full(len(answers), np.nan)
        scores[owner] = 0.0
        np.add.at(scores, owner, values)  # the sum with a NaN is NaN
        scores[np.array(owner, dtype=int)[values == 1]] = 1.0
        return scores
