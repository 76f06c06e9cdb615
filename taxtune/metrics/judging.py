"""Judges: a language model reads question, references and answer and gives a verdict on the answer.

Replies are kept on disk. A call that fails and a reply without a verdict are both *unscored*, counted apart, never 0. A
reply is read where a verdict stands, not at the first figure that fits: a rationale is full of figures.

The judge of LAVE (paper 4, "Method") gives a reason and then a rating from 1 to 3, after eight demonstrations; the
score is (rating − 1) / 2. A correct but general answer ("bird" for "blue jay") is rated as wrong or partly right, where
hP rewards it. The judge is shown the real prompt: to "What is behind the dog?" the answer "dog" is wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from taxtune.models import (
    Answer,
    Failure,
    Model,
    ModelSettings,
    Request,
    ask,
    check_model,
    make_model,
    open_replies,
)
from taxtune.resources import prompts_dir
from taxtune.thoughts import without_thoughts

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "MAX_TEXT",
    "Judge",
    "JudgePrompt",
    "Lave",
    "LaveOptions",
    "Verdicts",
    "filter_references",
    "plain_reply",
    "read_demonstrations",
    "read_rating",
]

#: Longest text, in characters, that a judge is shown; a longer answer is not an answer, and costs as much as a book.
MAX_TEXT = 20_000
_MAX_TOKENS = 256  # of a rationale and a rating
#: References rarer than this share of the most frequent one are left out (paper 4, "Prompt for VQA Evaluation").
RARE = 0.25


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A judge's verdicts on n answers.

    Attributes:
        values: The verdicts as scores, shape (n,); NaN is unscored.
        replies: The judge's replies; None where there is none, for the reason in `problems`.
        problems: Why there is no reply, or None.
        retryable: Number of failed calls that may succeed later.
        from_store: Number of replies from the disk; tokens and cost (US dollars, None if unknown) are of new calls.
    """

    values: NDArray[np.float64]
    replies: tuple[str | None, ...]
    problems: tuple[str | None, ...]
    retryable: int = 0
    from_store: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None


@cache
def _environment(folder: str) -> Environment:
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(prompts_dir() / folder),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # As a string of JSON: neither a line break nor a quotation mark in an answer can pass for the prompt's own words.
    environment.filters["quoted"] = lambda text: json.dumps(
        " ".join(str(text).split()), ensure_ascii=False
    )
    return environment


class JudgePrompt:
    """A judge's prompt: the file `name` of a folder in `prompts/`."""

    def __init__(self, name: str, folder: str = "judge") -> None:
        self.name, self._folder = name, folder
        self.digest = hashlib.sha256((prompts_dir() / folder / name).read_bytes()).hexdigest()[:16]

    def render(self, **values: Any) -> str:
        """The prompt with its values."""
        return _environment(self._folder).get_template(self.name).render(**values).strip()


class Judge:
    """A language model that judges, with its replies kept in a folder."""

    def __init__(self, llm: Model, *, place: Path | None = None) -> None:
        self.llm = llm
        self._place = place
        self._seen: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()

    def judge(
        self,
        prompts: Sequence[str | None],
        read: Callable[[str], float | None],
        why_not: str = "not judged",
    ) -> Verdicts:
        """Asks about each prompt and reads the verdicts.

        Args:
            prompts: The prompts; None for an answer that is not asked about, and stays unscored.
            read: Returns the score that a reply gives, or None where it gives none.
            why_not: Why a prompt is None, for the account.

        Raises:
            ModelError: If the judge cannot be asked at all.
            DataError: If the file of replies cannot be read or written.
        """
        with open_replies(self._place) as store:
            requests = [Request(prompt) for prompt in prompts if prompt is not None]
            results = iter(ask(self.llm, requests, store, what="judging"))
        asked = [None if prompt is None else next(results) for prompt in prompts]
        answers = [result for result in asked if isinstance(result, Answer)]
        failures = [result for result in asked if isinstance(result, Failure)]
        replies = tuple(result.text if isinstance(result, Answer) else None for result in asked)
        scores = [None if reply is None else read(reply) for reply in replies]
        unread = len(answers) - sum(score is not None for score in scores)
        self._seen.update(
            {
                "judged": len(prompts),
                "unread": unread,
                "failed": len(failures),
                why_not: asked.count(None),
            }
        )
        self._reasons.update(failure.reason for failure in failures)
        new = [answer for answer in answers if not answer.cached]
        costs = [answer.cost_usd for answer in new if answer.cost_usd is not None]
        return Verdicts(
            values=np.array(
                [np.nan if score is None else score for score in scores], dtype=np.float64
            ),
            replies=replies,
            problems=tuple(
                why_not
                if result is None
                else result.reason
                if isinstance(result, Failure)
                else None
                for result in asked
            ),
            retryable=sum(failure.retryable for failure in failures),
            from_store=len(answers) - len(new),
            prompt_tokens=sum(answer.prompt_tokens for answer in new),
            completion_tokens=sum(answer.completion_tokens for answer in new),
            cost_usd=sum(costs) if costs else None,
        )

    def notes(self, problem: str) -> tuple[str, ...]:
        """The account of unscored answers; `problem`: what a reply without a verdict is ("gives no rating")."""
        counts = Counter(self._seen)
        judged, unread, failed = (counts.pop(key, 0) for key in ("judged", "unread", "failed"))
        causes = [(unread, f"the judge's reply {problem}.")]
        if failed:
            reason, _ = self._reasons.most_common(1)[0]
            causes.append((failed, f"the call failed; most frequent reason: {reason}"))
        causes += [(count, f"{why}.") for why, count in counts.items()]
        return tuple(f"{count:,} of {judged:,} unscored: {why}" for count, why in causes if count)


# -- LAVE --------------------------------------------------------------------------------------------------------------


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


class Lave(ManyReferencesMeasure):
    """A score of 0, 0.5 or 1 for each answer; NaN where the judge gave no rating or could not be asked.

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
        if judge is None:
            shared = {
                name: getattr(settings, name)
                for name in ("api_base", "concurrency", "device", "batch_size")
            }
            in_short = ModelSettings(task="text-generation", max_tokens=_MAX_TOKENS, **shared)
            judge = Judge(make_model(model, settings.judge or in_short), place=settings.cache_dir)
        self._judge, self._prompt = judge, JudgePrompt("lave.j2")
        self.options = options or LaveOptions()
        self._general, self._yes_no = (
            read_demonstrations(name)[: self.options.shots]
            for name in ("general.yaml", "yes-no.yaml")
        )

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
        shown = hashlib.sha256(
            repr((self._general, self._yes_no)).encode("utf-8", "replace")
        ).hexdigest()[:16]
        options = {
            "rationale": int(self.options.rationale),
            "filter_references": int(self.options.filter_references),
        }
        prompt = {"measure": "lave", "prompt": self._prompt.digest, "demonstrations": shown}
        return {**prompt, **options, **self._judge.llm.identity}

    def prompt(
        self, question: str, references: Sequence[str], answer: str, caption: str | None = None
    ) -> str:
        """The judge's prompt about an answer, with the references that people gave and maybe a caption."""
        kept = filter_references(references) if self.options.filter_references else list(references)
        yes_no = bool(kept) and all(
            reference.strip(" \t.!").casefold() in ("yes", "no") for reference in kept
        )
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
            Scores in {0, 0.5, 1} or NaN, with the judge's rationales. An answer that has no reference, or a text of
            more than 20,000 characters, is not asked about.

        Raises:
            DataError: If there are no questions, or one is blank.
            ModelError: If the judge cannot be asked at all.
        """
        remedy = "Give the column with the questions, or one question for all rows."
        if questions is None:
            raise DataError(
                "LAVE needs the prompt that was asked, but none was given.", remedy=remedy
            )
        if blank := [i for i, question in enumerate(questions) if not question.strip()]:
            raise DataError(
                f"The prompt of answer {blank[0] + 1} is empty ({len(blank):,} are).", remedy=remedy
            )
        captions = captions if captions is not None else [None] * len(answers)
        prompts = []
        for answer, given, question, caption in zip(
            answers, references, questions, captions, strict=True
        ):
            real = [reference for reference in given if reference.strip()]
            too_long = (
                max(len(answer), sum(map(len, real)), len(question), len(caption or "")) > MAX_TEXT
            )
            prompts.append(
                None if too_long or not real else self.prompt(question, real, answer, caption)
            )
        return self._judge.judge(
            prompts, _read, f"no reference, or a text longer than {MAX_TEXT:,} characters"
        )

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], *, questions: Questions = None
    ) -> FloatArray:
        """The score of each answer with all its references, shape (n,); see `rate`."""
        return self.rate(answers, references, questions).values


def _read(reply: str) -> float | None:
    rating = read_rating(reply)
    return None if rating is None else (rating - 1) / 2


def read_demonstrations(name: str) -> list[dict[str, Any]]:
    """The demonstrations of `prompts/judge/lave`: question, references, answer, rationale, rating and maybe caption."""
    import yaml

    shown: list[dict[str, Any]] = yaml.safe_load(
        (prompts_dir() / "judge" / "lave" / name).read_text("utf-8")
    )
    return [{**one, "rationale": " ".join(one["rationale"].split())} for one in shown]


def filter_references(references: Sequence[str]) -> list[str]:
    """The references without those rarer than a quarter of the most frequent one, in order.

    References that differ in case and white space only count as the same.
    """
    keys = [" ".join(reference.casefold().split()) for reference in references]
    counts = Counter(keys)
    least = RARE * max(counts.values(), default=0)
    return [
        reference for reference, key in zip(references, keys, strict=True) if counts[key] >= least
    ]


# -- replies -----------------------------------------------------------------------------------------------------------

# A rating: a figure or its word, maybe with decimals that are zero ("3.0"), in brackets, or with what it is out of.
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
# A range ("1-3", "1 or 2"), a change of mind ("3 -> 2"), "2+", and "3 would be too generous": no rating is given.
_RANGE = re.compile(
    r"\s*(?:(?:-|–|—|to|or|and|,|/|->|→)\s*(?:[0-9]|one\b|two\b|three\b)|\+|would\b|could\b|may\b)",
    re.I,
)
# What the judge quotes in mid-sentence ('the candidate says "Rating: 3"') is another's.
_QUOTED = re.compile(r"(?<=[\w,])(\s+)([\"'`])((?:\\.|(?!\2)[^\n\\])+)(?:\2|\Z)")
_RATED = re.compile(r"\brat(?:e|ing)\b.*\d", re.I)
# A model that writes on makes up a further example, whose rating is not this answer's.
_NEXT_EXAMPLE = re.compile(
    r"^\s*(?:#+\s*)?(?:example\b|question\s*:|image description\s*:)", re.I | re.M
)
# Of a reply that went out of hand, so many characters at either end are read: the verdict stands at one of them.
_MOST = 10_000


def read_rating(reply: str) -> int | None:
    """The rating, 1, 2 or 3, that a reply gives, or None.

    The last "Rating: N" decides; with "Rating: N/A" or "Rating: 1-3" the reply has none. Where there is no such line, a
    figure alone as the last line or sentence does. N is 1, 2, 3, "3.0" or "three", maybe out of three. Other figures,
    ranges and conditionals ("3 would be too generous") are no ratings. Thoughts, quotations in
    mid-sentence and a further example made up after the rating are left out.
    """
    text = plain_reply(reply, quoted=False)
    if text is None:
        return None
    named = list(_NAMED.finditer(text))
    if named:
        ends = [
            match.start()
            for match in _NEXT_EXAMPLE.finditer(text)
            if match.start() >= named[0].end()
        ]
        return _rating([match for match in named if not ends or match.start() < ends[0]][-1], text)
    line = (text.strip().splitlines() or [""])[-1].strip()
    alone = _ALONE.search(line)
    return None if alone is None else _rating(alone, line)


def _rating(match: re.Match[str], text: str) -> int | None:
    value = match["value"]
    if (
        value is None
        or match["scale"] not in (None, "3", "three")
        or _RANGE.match(text, match.end())
    ):
        return None
    number = float(_WORDS.get(value.lower(), value))
    return int(number) if number in (1, 2, 3) else None


def plain_reply(reply: str, *, quoted: bool = True) -> str | None:
    """A reply without thoughts and mark-up; None where the model was still thinking when it was cut off.

    Args:
        reply: The reply.
        quoted: Whether ratings that are quoted in mid-sentence stay.
    """
    text = without_thoughts(reply)
    if text is None:
        return None
    text = text if len(text) <= 2 * _MOST else f"{text[:_MOST]}\n{text[-_MOST:]}"
    # Full-width and circled figures, and the keycaps that emoji are made of, are figures.
    text = unicodedata.normalize("NFKC", text).replace("\ufe0f", "").replace("\u20e3", "")
    text = text.translate(str.maketrans("“”‘’", "\"\"''"))
    # A server may pass on the tokens that end a turn; and some models write "<rating>3</rating>".
    text = re.sub(r"<\|[^<>|\n]{1,40}\|>|</\w+>|<(?:start|end)_of_turn>", "\n", text)
    text = re.sub(r"<(rating|answer|verdict)>", r"\n\1: ", text, flags=re.I)
    if not quoted:
        text = _QUOTED.sub(lambda match: match[1] if _RATED.search(match[3]) else match[0], text)
    text = re.sub(r"\\(?:boxed|text|textbf|mathbf)\s*\{([^{}]*)\}", r"\1", text)
    return re.sub(r"[*`$\"~]|(?<![^\W_])_+|_+(?![^\W_])|(?<!\w)'|'(?!\w)", "", text)
