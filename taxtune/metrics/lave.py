"""LAVE: a language model rates an answer given the question and the references (paper 4, "Method").

The judge gives a reason and then a rating from 1 to 3, after eight demonstrations; the score is (rating − 1) / 2. LAVE
asks whether the question is answered: a correct but general answer ("bird" where the references say "blue jay") is
rated as wrong or partly right, where hP rewards it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.errors import DataError
from taxtune.metrics.base import FloatArray, Identity, ManyReferencesMeasure, MeasureSettings
from taxtune.metrics.demonstrations import Demonstration, read_demonstrations
from taxtune.metrics.judge_replies import read_rating
from taxtune.metrics.judging import LLAMA, MAX_TEXT, Judge, JudgePrompt, Verdicts, check_questions, judge_of
from taxtune.metrics.registry import measure
from taxtune.models import check_model
from taxtune.resources import prompts_dir

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Lave", "LaveOptions", "filter_references", "is_yes_no", "make_lave"]

#: References rarer than this share of the most frequent one are left out (paper 4, "Prompt for VQA Evaluation").
RARE = 0.25
_MAX_TOKENS = 256


@dataclass(frozen=True, slots=True)
class LaveOptions:
    """What can be varied (paper 4, Table 3, "Ablation Studies").

    Attributes:
        shots: How many demonstrations are shown, the first ones; None is all of them.
        rationale: Whether the judge gives its reason before the rating.
        filter_references: Whether rare references are left out.
        demonstrations: A YAML file of demonstrations in place of ours; None is ours.
        yes_no_demonstrations: The same for yes/no questions.
    """

    shots: int | None = None
    rationale: bool = True
    filter_references: bool = True
    demonstrations: Path | None = None
    yes_no_demonstrations: Path | None = None


class Lave(ManyReferencesMeasure):
    """A score of 0, 0.5 or 1 an answer; NaN where the judge gave no rating or could not be asked.

    Args:
        name: The specification.
        judge: The judge.
        options: What the prompt holds.

    Raises:
        DataError: If a file of demonstrations is not what it must be.
    """

    needs_questions = True

    def __init__(self, name: str, judge: Judge, options: LaveOptions | None = None) -> None:
        super().__init__(name, "LAVE")
        self.options = options or LaveOptions()
        self._judge = judge
        self._prompt = JudgePrompt("lave.j2")
        own = prompts_dir() / "judge" / "lave"
        self._general = self._shown(self.options.demonstrations or own / "general.yaml")
        self._yes_no = self._shown(self.options.yes_no_demonstrations or own / "yes-no.yaml")

    def _shown(self, path: Path) -> tuple[Demonstration, ...]:
        shown = read_demonstrations(path)
        shots = self.options.shots
        if shots is not None and not 0 <= shots <= len(shown):
            raise DataError(f"There are {len(shown)} demonstrations.", file=path, value=shots, remedy="Ask for fewer.")
        return shown if shots is None else shown[:shots]

    @property
    def notes(self) -> tuple[str, ...]:
        """How many have no score, and why."""
        return self._judge.notes("gives no rating from 1 to 3")

    def check(self) -> list[str]:
        """Checks, without asking it anything, that the judge can be asked; returns what the user should know.

        Raises:
            ModelError: If it cannot: its key, its provider or its weights are missing.
        """
        return check_model(self._judge.llm)

    def identity(self) -> Identity:
        """Returns the judge's model and decoding, and the content of prompt and demonstrations."""
        shown = hashlib.sha256(repr((self._general, self._yes_no)).encode("utf-8", "replace")).hexdigest()[:16]
        options: Identity = {
            "rationale": int(self.options.rationale),
            "filter_references": int(self.options.filter_references),
            "prompt": self._prompt.digest,
            "demonstrations": shown,
        }
        return {"measure": "lave", **options, **self._judge.llm.identity}

    def prompt(self, question: str, references: Sequence[str], answer: str, caption: str | None = None) -> str:
        """Returns what the judge is asked about one answer.

        Args:
            question: The question that was asked.
            references: The answers that people gave, duplicates included, at least one.
            answer: The candidate answer.
            caption: A description of the image, or None to show none.
        """
        kept = filter_references(references) if self.options.filter_references else list(references)
        return self._prompt.render(
            captions=caption is not None,
            caption=caption,
            rationale=self.options.rationale,
            demonstrations=self._yes_no if is_yes_no(kept) else self._general,
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
            questions: The question that was asked for each.
            captions: A description of each image, or None.

        Returns:
            Scores in {0, 0.5, 1} or NaN, with the judge's rationales. An answer that has no reference, or a text of
            more than 20,000 characters, is not asked about.

        Raises:
            DataError: If the questions are missing.
            ModelError: If the judge cannot be asked at all.
        """
        questions = check_questions(
            questions, len(answers), "LAVE", "Give the column with the questions, or one question for all rows."
        )
        captions = captions if captions is not None else [None] * len(answers)
        prompts = []
        for answer, given, question, caption in zip(answers, references, questions, captions, strict=True):
            real = [reference for reference in given if reference.strip()]
            too_long = max(len(answer), sum(map(len, real)), len(question), len(caption or "")) > MAX_TEXT
            prompts.append(None if too_long or not real else self.prompt(question, real, answer, caption))
        return self._judge.judge(prompts, _read, f"no reference, or a text longer than {MAX_TEXT:,} characters")

    def scores_many(
        self,
        answers: Sequence[str],
        references: Sequence[Sequence[str]],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer with all its references, shape (n,); see `rate`, which is told why.

        Raises:
            DataError: If the questions are missing.
            ModelError: If the judge cannot be asked at all.
        """
        return self.rate(answers, references, questions).values


def filter_references(references: Sequence[str]) -> list[str]:
    """Returns the references without those rarer than a quarter of the most frequent one, in order.

    What differs in case and white space only is counted as the same.
    """
    keys = [" ".join(reference.casefold().split()) for reference in references]
    counts = Counter(keys)
    least = RARE * max(counts.values(), default=0)
    return [reference for reference, key in zip(references, keys, strict=True) if counts[key] >= least]


def is_yes_no(references: Sequence[str]) -> bool:
    """Tells whether every reference is yes or no."""
    return bool(references) and all(r.strip(" \t.!").casefold() in ("yes", "no") for r in references)


def _read(reply: str) -> float | None:
    rating = read_rating(reply)
    return None if rating is None else (rating - 1) / 2


@measure(
    "lave",
    label="LAVE",
    summary="a language model rates the answer from 1 to 3, given the question and the references",
    source="paper 4",
    default_model=LLAMA,
    needs=("question",),
    factory=True,
)
def make_lave(model: str | None, settings: MeasureSettings, options: LaveOptions | None = None) -> Lave:
    """Returns the measure with a judge: "local:MODEL" or a model that litellm reaches."""
    assert model is not None  # the registry has a default
    if options is None:
        own = settings.demonstrations, settings.yes_no_demonstrations
        options = LaveOptions(demonstrations=own[0], yes_no_demonstrations=own[1])
    return Lave(f"lave:{model}", judge_of(model, settings, max_tokens=_MAX_TOKENS), options)
