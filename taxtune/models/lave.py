"""LAVE: a language model rates answers as the judge of paper 4 does ("Method").

The judge gives a reason and then a rating from 1 to 3, after eight demonstrations; the score is
(rating − 1) / 2. A correct but general answer ("bird" for "blue jay") is rated as wrong or partly
right, where hP rewards it. The judge is shown the real prompt: to "What is behind the dog?" the
answer "dog" is wrong.

A reply is read where a rating stands, not at the first figure that fits: a rationale is full of
figures.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from taxtune.errors import DataError
from taxtune.metrics.base import (
    FloatArray,
    Identity,
    ManyReferencesMeasure,
    MeasureSettings,
    Questions,
    Texts,
)
from taxtune.metrics.registry import MEASURES
from taxtune.models.ask import check_model
from taxtune.models.base import ModelSettings
from taxtune.models.judging import MAX_TEXT, Judge, JudgePrompt, Verdicts, plain_reply
from taxtune.models.names import make_model
from taxtune.resources import prompts_dir

__all__ = ["Lave", "LaveOptions", "filter_references", "read_demonstrations", "read_rating"]

_MAX_TOKENS = 256  # of a rationale and a rating
_GENERAL = "general.yaml"
_YES_NO = "yes-no.yaml"
#: References rarer than this share of the most frequent one are left out (paper 4, "Prompt for VQA
#: Evaluation").
RARE = 0.25
_NO_QUESTIONS = "Give the column with the questions, or one question for all rows."


@dataclass(frozen=True, slots=True)
class LaveOptions:
    """Variants of the prompt (paper 4, Table 3, "Ablation Studies").

    Attributes:
        shots: Number of demonstrations shown, the first ones, at most 8; None is all of them.
        rationale: Whether the judge gives its reason before the rating.
        filter_references: Whether rare references are left out.
    """

    shots: int | None = None
    rationale: bool = True
    filter_references: bool = True


class Lave(ManyReferencesMeasure):
    """A score of 0, 0.5 or 1 for each answer; NaN if the judge gave no rating or cannot be asked.

    Args:
        model: "local:MODEL" or a model that litellm reaches.
        settings: Settings of the judge's model, folder of replies.
        judge: The judge, instead of one made from these.
        options: Variants of the prompt.
    """

    kind = MEASURES["lave"]
    needs_questions = True

    def __init__(
        self,
        model: str,
        settings: MeasureSettings,
        judge: Judge | None = None,
        options: LaveOptions | None = None,
    ) -> None:
        super().__init__(f"lave:{model}")
        self._judge = judge or _make_judge(model, settings)
        self._prompt = JudgePrompt("lave.j2")
        self.options = options or LaveOptions()
        self._general = read_demonstrations(_GENERAL)[: self.options.shots]
        self._yes_no = read_demonstrations(_YES_NO)[: self.options.shots]

    @property
    def notes(self) -> tuple[str, ...]:
        """The numbers of unscored answers, with the reasons."""
        return self._judge.notes("gives no rating from 1 to 3")

    def check(self) -> list[str]:
        """Checks without a call that the judge can be asked; returns remarks for the user.

        Raises:
            ModelError: If its key, its provider or its weights are missing.
        """
        return check_model(self._judge.llm)

    def identity(self) -> Identity:
        """Returns the judge's model and decoding, and the content of prompt and demonstrations."""
        shown = repr((self._general, self._yes_no)).encode("utf-8", "replace")
        return {
            "measure": "lave",
            "prompt": self._prompt.digest,
            "demonstrations": hashlib.sha256(shown).hexdigest()[:16],
            "rationale": int(self.options.rationale),
            "filter_references": int(self.options.filter_references),
            **self._judge.llm.identity,
        }

    def prompt(
        self, question: str, references: Sequence[str], answer: str, caption: str | None = None
    ) -> str:
        """Returns the judge's prompt about an answer.

        Args:
            question: The question about the image.
            references: The answers that people gave.
            answer: The answer to rate.
            caption: A description of the image, or None.
        """
        if self.options.filter_references:
            references = filter_references(references)
        demonstrations = self._yes_no if _is_yes_no(references) else self._general
        return self._prompt.render(
            captions=caption is not None,
            caption=caption,
            rationale=self.options.rationale,
            demonstrations=demonstrations,
            question=question,
            references=references,
            answer=answer,
        )

    def rate(
        self,
        answers: Sequence[str],
        references: Sequence[Sequence[str]],
        questions: Questions,
        captions: Sequence[str | None] | None = None,
    ) -> Verdicts:
        """Asks the judge about each answer.

        Args:
            answers: Texts, n of them.
            references: The references of each, one or more; blank ones are left out.
            questions: The question of each answer.
            captions: A description of each image, or None.

        Returns:
            Scores in {0, 0.5, 1} or NaN, with the judge's rationales. An answer that has no
            reference, or a text of more than 20,000 characters, is not asked about.

        Raises:
            DataError: If there are no questions, or one is blank.
            ModelError: If the judge cannot be asked at all.
        """
        _check_questions(questions)
        if captions is None:
            captions = [None] * len(answers)
        prompts: list[str | None] = []
        rows = zip(answers, references, questions or (), captions, strict=True)
        for answer, given, question, caption in rows:
            kept = [reference for reference in given if reference.strip()]
            texts = (answer, "".join(kept), question, caption or "")
            if kept and max(map(len, texts)) <= MAX_TEXT:
                prompts.append(self.prompt(question, kept, answer, caption))
            else:
                prompts.append(None)
        why_not = f"no reference, or a text longer than {MAX_TEXT:,} characters"
        return self._judge.judge(prompts, _score, why_not)

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer with all its references, shape (n,); see `rate`."""
        return self.rate(answers, references, questions).values


def _make_judge(model: str, settings: MeasureSettings) -> Judge:
    model_settings = settings.judge
    if not isinstance(model_settings, ModelSettings):
        model_settings = ModelSettings(
            task="text-generation",
            max_tokens=_MAX_TOKENS,
            api_base=settings.api_base,
            concurrency=settings.concurrency,
            device=settings.device,
            batch_size=settings.batch_size,
        )
    return Judge(make_model(model, model_settings), place=settings.cache_dir)


def _check_questions(questions: Questions) -> None:
    if questions is None:
        raise DataError(
            "LAVE needs the prompt that was asked, but none was given.", remedy=_NO_QUESTIONS
        )
    blank = [i for i, question in enumerate(questions) if not question.strip()]
    if blank:
        raise DataError(
            f"The prompt of answer {blank[0] + 1} is empty ({len(blank):,} are).",
            remedy=_NO_QUESTIONS,
        )


def _is_yes_no(references: Sequence[str]) -> bool:
    words = {reference.strip(" \t.!").casefold() for reference in references}
    return bool(words) and words <= {"yes", "no"}


def read_demonstrations(name: str) -> list[dict[str, Any]]:
    """Returns the demonstrations of a file of `prompts/judge/lave`.

    Each has a question, references, an answer, a rationale, a rating and maybe a caption.
    """
    import yaml

    file = prompts_dir() / "judge" / "lave" / name
    demonstrations: list[dict[str, Any]] = yaml.safe_load(file.read_text("utf-8"))
    for demonstration in demonstrations:
        demonstration["rationale"] = " ".join(demonstration["rationale"].split())
    return demonstrations


def filter_references(references: Sequence[str]) -> list[str]:
    """Returns the references without those rarer than a quarter of the most frequent one, in order.

    References that differ in case and white space only count as the same.
    """
    keys = [" ".join(reference.casefold().split()) for reference in references]
    counts = Counter(keys)
    least = RARE * max(counts.values(), default=0)
    pairs = zip(references, keys, strict=True)
    return [reference for reference, key in pairs if counts[key] >= least]


# -- ratings ---------------------------------------------------------------------------------------

# A rating: a figure or its word, maybe with decimals that are zero ("3.0"), in brackets, or with
# what it is out of.
_VALUE = (
    r"[\(\[<]*(?<![\w.,/+\-])(?P<value>[0-9]+(?:\.[0-9]+)?|one|two|three)(?![\w%])[\)\]>]*"
    r"(?:\s*(?:/|\(?(?:out\s+)?of)\s*(?P<scale>[0-9]+|three)\b\)?)?"
)
_WORDS = {"one": 1, "two": 2, "three": 3}
# "Rating:", "Final rating (1-3) =", "Rating [1, 2 or 3]:"; what stands in brackets is the scale.
_NAMED = re.compile(
    rf"\bratings?\b(?:\s*[\(\[][^\)\]\n]{{0,40}}[\)\]])?\s*(?:is\s|[:=|]|->)\s*(?:{_VALUE})?", re.I
)
_ALONE = re.compile(
    rf"(?:^|[.!?]\s|\b(?:so|therefore),?\s|^final\s+(?:answer|score):\s*)\s*{_VALUE}[.!]*$", re.I
)
# A range ("1-3", "1 or 2"), a change of mind ("3 -> 2"), "2+", and "3 would be too generous": no
# rating is given.
_RANGE = re.compile(
    r"\s*(?:(?:-|–|—|to|or|and|,|/|->|→)\s*(?:[0-9]|one\b|two\b|three\b)|\+|would\b|could\b|may\b)",
    re.I,
)
# A model that writes on makes up a further example, whose rating is not this answer's.
_NEXT_EXAMPLE = re.compile(
    r"^\s*(?:#+\s*)?(?:example\b|question\s*:|image description\s*:)", re.I | re.M
)


def read_rating(reply: str) -> int | None:
    """Returns the rating, 1, 2 or 3, that a reply gives, or None.

    The last "Rating: N" decides; with "Rating: N/A" or "Rating: 1-3" the reply has none. Where
    there is no such line, a figure alone as the last line or sentence does. N is 1, 2, 3, "3.0" or
    "three", maybe out of three. Other figures, ranges and conditionals ("3 would be too generous")
    are no ratings. Thoughts, quotations in mid-sentence and a further example made up after the
    rating are left out.
    """
    text = plain_reply(reply, quoted=False)
    if text is None:
        return None
    named = list(_NAMED.finditer(text))
    if named:
        for example in _NEXT_EXAMPLE.finditer(text):
            if example.start() >= named[0].end():
                named = [match for match in named if match.start() < example.start()]
                break
        return _rating(named[-1], text)
    lines = text.strip().splitlines() or [""]
    last = lines[-1].strip()
    alone = _ALONE.search(last)
    return None if alone is None else _rating(alone, last)


def _rating(match: re.Match[str], text: str) -> int | None:
    value = match["value"]
    if value is None or match["scale"] not in (None, "3", "three"):
        return None
    if _RANGE.match(text, match.end()):
        return None
    number = float(_WORDS.get(value.lower(), value))
    return int(number) if number in (1, 2, 3) else None


def _score(reply: str) -> float | None:
    rating = read_rating(reply)
    return None if rating is None else (rating - 1) / 2
