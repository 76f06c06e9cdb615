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
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as model

from taxtune.errors import DataError
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

__all__ = [
    "Demonstration",
    "Lave",
    "LaveOptions",
    "LlamaInclusion",
    "filter_references",
    "is_yes_no",
    "make_lave",
    "make_llama_inclusion",
    "read_demonstrations",
]

#: References rarer than this share of the most frequent one are left out (paper 4, "Prompt for VQA Evaluation").
RARE = 0.25
_MAX_TOKENS, _MAX_TOKENS_YES_NO = 256, 64

Text = Annotated[str, StringConstraints(pattern=r"\S")]


@model(frozen=True, config=ConfigDict(extra="forbid", coerce_numbers_to_str=True))
class Demonstration:
    """A rated answer that the judge is shown: people's answers, the candidate, why it has its rating of 1, 2 or 3."""

    question: Text
    references: Annotated[
        tuple[Text, ...],
        Field(min_length=1),
        BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
    ]
    answer: Text
    rationale: Annotated[Text, AfterValidator(lambda text: " ".join(text.split()))]
    rating: Annotated[int, Field(strict=True, ge=1, le=3)]
    caption: Text | None = None


def read_demonstrations(path: Path) -> tuple[Demonstration, ...]:
    """Reads a YAML list of demonstrations: question, references, answer, rationale, rating and maybe caption.

    Raises:
        DataError: If the file cannot be read, a key is unknown or missing, or a value is of the wrong type, as YAML's
            bare yes and no are, which are read as true and false.
    """
    import yaml

    from taxtune.recipe_file import load_yaml

    try:
        entries = load_yaml(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        detail = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DataError(f"The demonstrations cannot be read: {detail}.", file=path) from error
    try:
        return TypeAdapter(tuple[Demonstration, ...]).validate_python(entries or None)
    except ValidationError as error:
        first = error.errors()[0]
        where = [part + 1 if i == 0 and isinstance(part, int) else part for i, part in enumerate(first["loc"])]
        raise DataError(
            f"Demonstration {' '.join(map(str, where)) or 'list'}: {first['msg']}.",
            file=path,
            value=first["input"],
            remedy=f'The keys are {", ".join(vars(Demonstration)["__dataclass_fields__"])}; write "yes" and "no" in '
            "quotation marks.",
        ) from None


@dataclass(frozen=True, slots=True)
class LaveOptions:
    """Variants of the prompt (paper 4, Table 3, "Ablation Studies").

    Attributes:
        shots: Number of demonstrations shown, the first ones; None is all of them.
        rationale: Whether the judge gives its reason before the rating.
        filter_references: Whether rare references are left out.
        demonstrations: A YAML file of demonstrations; None is the package's own.
        yes_no_demonstrations: The same for yes/no questions.
    """

    shots: int | None = None
    rationale: bool = True
    filter_references: bool = True
    demonstrations: Path | None = None
    yes_no_demonstrations: Path | None = None


class Lave(ManyReferencesMeasure):
    """A score of 0, 0.5 or 1 for each answer; NaN where the judge gave no rating or could not be asked.

    Args:
        name: The specification.
        judge: The judge.
        options: Variants of the prompt.

    Raises:
        DataError: If a file of demonstrations cannot be used.
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
        shown, shots = read_demonstrations(path), self.options.shots
        if shots is not None and not 0 <= shots <= len(shown):
            raise DataError(f"There are {len(shown)} demonstrations.", file=path, value=shots, remedy="Ask for fewer.")
        return shown[:shots]

    @property
    def notes(self) -> tuple[str, ...]:
        """The numbers of unscored answers, with the reasons."""
        return self._judge.notes("gives no rating from 1 to 3")

    def check(self) -> list[str]:
        """Checks, without a call, that the judge can be asked; returns remarks for the user.

        Raises:
            ModelError: If its key, its provider or its weights are missing.
        """
        return check_model(self._judge.llm)

    def identity(self) -> Identity:
        """The judge's model and decoding, and the content of prompt and demonstrations."""
        shown = hashlib.sha256(repr((self._general, self._yes_no)).encode("utf-8", "replace")).hexdigest()[:16]
        options: Identity = {
            "rationale": int(self.options.rationale),
            "filter_references": int(self.options.filter_references),
            "prompt": self._prompt.digest,
            "demonstrations": shown,
        }
        return {"measure": "lave", **options, **self._judge.llm.identity}

    def prompt(self, question: str, references: Sequence[str], answer: str, caption: str | None = None) -> str:
        """The judge's prompt about an answer, with the references that people gave and maybe a caption."""
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
            questions: The question of each answer.
            captions: A description of each image, or None.

        Returns:
            Scores in {0, 0.5, 1} or NaN, with the judge's rationales. An answer that has no reference, or a text of
            more than 20,000 characters, is not asked about.

        Raises:
            DataError: If the questions are missing.
            ModelError: If the judge cannot be asked at all.
        """
        questions = check_questions(questions, len(answers), "LAVE")
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


def filter_references(references: Sequence[str]) -> list[str]:
    """The references without those rarer than a quarter of the most frequent one, in order.

    References that differ in case and white space only count as the same.
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


def make_lave(model: str | None, settings: MeasureSettings, options: LaveOptions | None = None) -> Lave:
    """The measure with a judge: "local:MODEL" or a model that litellm reaches."""
    assert model is not None  # the registry has a default
    if options is None:
        own = settings.demonstrations, settings.yes_no_demonstrations
        options = LaveOptions(demonstrations=own[0], yes_no_demonstrations=own[1])
    return Lave(f"lave:{model}", judge_of(model, settings, max_tokens=_MAX_TOKENS), options)


class LlamaInclusion(ManyReferencesMeasure):
    """1 where the judge says yes, 0 where it says no, NaN where it says neither or could not be asked.

    Args:
        name: The specification.
        judge: The judge.
    """

    needs_questions = True

    def __init__(self, name: str, judge: Judge) -> None:
        super().__init__(name, "LI")
        self._judge = judge
        self._prompt = JudgePrompt("inclusion.j2")

    @property
    def notes(self) -> tuple[str, ...]:
        """The numbers of unscored answers, with the reasons."""
        return self._judge.notes("is neither yes nor no")

    def identity(self) -> Identity:
        """The judge's model and decoding, and the prompt's content."""
        return {"measure": "llama-inclusion", "prompt": self._prompt.digest, **self._judge.llm.identity}

    def verdicts(
        self, answers: Sequence[str], labels: Sequence[str], questions: Sequence[str] | None = None
    ) -> Verdicts:
        """Asks about each answer with its label and its prompt; scores are 0, 1 or NaN. Errors as for `Lave.rate`.

        An answer without a label, or with a text of more than 20,000 characters, is not asked about.
        """
        shown = check_questions(questions, len(answers), "Llama inclusion")
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
        owner = [i for i, (_, given) in enumerate(zip(answers, references, strict=True)) for _ in given]
        questions = check_questions(questions, len(answers), "Llama inclusion")
        values = self.verdicts(
            [answers[i] for i in owner],
            [label for given in references for label in given],
            [questions[i] for i in owner],
        ).values
        scores = np.full(len(answers), np.nan)
        for i, given in enumerate(references):
            if given:
                own, values = values[: len(given)], values[len(given) :]
                scores[i] = 1.0 if (own == 1).any() else own.sum()  # the sum with a NaN is NaN
        return scores


def make_llama_inclusion(model: str | None, settings: MeasureSettings) -> LlamaInclusion:
    """The measure with a judge: "local:MODEL" or a model that litellm reaches."""
    assert model is not None  # the registry has a default
    return LlamaInclusion(f"llama-inclusion:{model}", judge_of(model, settings, max_tokens=_MAX_TOKENS_YES_NO))
