"""Judges: a language model reads question, references and answer and gives a verdict on the answer.

Replies are kept on disk. A call that fails and a reply without a verdict are both *unscored*, counted apart, never 0. A
reply is read where a verdict stands, not at the first figure or word that fits: a rationale is full of figures.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.models import Answer, Failure, Model, ModelSettings, Request, ask, make_model, open_replies
from taxtune.resources import prompts_dir

if TYPE_CHECKING:
    from jinja2 import Environment

    from taxtune.metrics.registry import MeasureSettings

__all__ = [
    "MAX_TEXT",
    "Judge",
    "JudgePrompt",
    "Verdicts",
    "check_questions",
    "judge_of",
    "plain_reply",
    "read_rating",
    "read_yes_no",
]

#: Longest text, in characters, that a judge is shown; a longer answer is not an answer, and costs as much as a book.
MAX_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A judge's verdicts on n answers.

    Attributes:
        values: The verdicts as scores, shape (n,); NaN is unscored.
        replies: The judge's replies; None where there is none, for the reason in `problems`.
        unread: Number of replies without a verdict.
        failed: Number of failed calls, of which `retryable` may succeed later.
        not_asked: Number of answers that the judge was not asked about, by reason.
        from_store: Number of replies from the disk; tokens and cost (US dollars, None if unknown) are of new calls.
    """

    values: NDArray[np.float64]
    replies: tuple[str | None, ...]
    problems: tuple[str | None, ...] = ()
    unread: int = 0
    failed: int = 0
    not_asked: dict[str, int] = field(default_factory=dict)
    retryable: int = 0
    from_store: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None

    @property
    def unscored(self) -> int:
        """Number of answers without a score."""
        return int(np.isnan(self.values).sum())


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
    environment.filters["quoted"] = lambda text: json.dumps(" ".join(str(text).split()), ensure_ascii=False)
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
        self, prompts: Sequence[str | None], read: Callable[[str], float | None], why_not: str = "not judged"
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
        unread = sum(reply is not None and score is None for reply, score in zip(replies, scores, strict=True))
        not_asked = {why_not: count} if (count := asked.count(None)) else {}
        self._seen.update(judged=len(prompts), unread=unread, failed=len(failures), **not_asked)
        self._reasons.update(failure.reason for failure in failures)
        new = [answer for answer in answers if not answer.cached]
        costs = [answer.cost_usd for answer in new if answer.cost_usd is not None]
        return Verdicts(
            values=np.array([np.nan if score is None else score for score in scores], dtype=np.float64),
            replies=replies,
            problems=tuple(
                why_not if result is None else result.reason if isinstance(result, Failure) else None
                for result in asked
            ),
            unread=unread,
            failed=len(failures),
            not_asked=not_asked,
            retryable=sum(failure.retryable for failure in failures),
            from_store=len(answers) - len(new),
            prompt_tokens=sum(answer.prompt_tokens for answer in new),
            completion_tokens=sum(answer.completion_tokens for answer in new),
            cost_usd=sum(costs) if costs else None,
        )

    def notes(self, problem: str) -> tuple[str, ...]:
        """The account of unscored answers; `problem`: what a reply without a verdict is ("is neither yes nor no")."""
        counts = Counter(self._seen)
        judged, unread, failed = (counts.pop(key, 0) for key in ("judged", "unread", "failed"))
        causes = [(unread, f"the judge's reply {problem}.")]
        if failed:
            reason, _ = self._reasons.most_common(1)[0]
            causes.append((failed, f"the call failed; most frequent reason: {reason}"))
        causes += [(count, f"{why}.") for why, count in counts.items()]
        return tuple(f"{count:,} of {judged:,} unscored: {why}" for count, why in causes if count)


def judge_of(model: str, settings: MeasureSettings, *, max_tokens: int) -> Judge:
    """The judge of a measure: a model with the measure's settings."""
    in_short = ModelSettings(
        task="text-generation",
        max_tokens=max_tokens,
        api_base=settings.api_base,
        concurrency=settings.concurrency,
        device=settings.device,
        batch_size=settings.batch_size,
    )
    return Judge(make_model(model, settings.judge or in_short), place=settings.cache_dir)


def check_questions(questions: Sequence[str] | None, whose: str) -> Sequence[str]:
    """The prompts of the answers, which a judge must be shown.

    Raises:
        DataError: If there are none, or one is blank.
    """
    remedy = "Give the column with the questions, or one question for all rows."
    if questions is None:
        raise DataError(f"{whose} needs the prompt that was asked, but none was given.", remedy=remedy)
    blank = [i for i, question in enumerate(questions) if not question.strip()]
    if blank:
        raise DataError(f"The prompt of answer {blank[0] + 1} is empty ({len(blank):,} are).", remedy=remedy)
    return questions


# -- replies -----------------------------------------------------------------------------------------------------------

# A rating: a figure or its word, maybe with decimals that are zero ("3.0"), in brackets, or with what it is out of.
_VALUE = (
    r"[\(\[<]*(?<![\w.,/+\-])(?P<value>[0-9]+(?:\.[0-9]+)?|one|two|three)(?![\w%])[\)\]>]*"
    r"(?:\s*(?:/|\(?(?:out\s+)?of)\s*(?P<scale>[0-9]+|three)\b\)?)?"
)
_WORDS = {"one": 1, "two": 2, "three": 3}
# "Rating:", "Final rating (1-3) =", "Rating [1, 2 or 3]:"; what stands in brackets is the scale.
_NAMED = re.compile(rf"\bratings?\b(?:\s*[\(\[][^\)\]\n]{{0,40}}[\)\]])?\s*(?:is\s|[:=|]|->)\s*(?:{_VALUE})?", re.I)
_ALONE = re.compile(rf"(?:^|[.!?]\s|\b(?:so|therefore),?\s|^final\s+(?:answer|score):\s*)\s*{_VALUE}[.!]*$", re.I)
# A range ("1-3", "1 or 2"), a change of mind ("3 -> 2"), "2+", and "3 would be too generous": no rating is given.
_RANGE = re.compile(
    r"\s*(?:(?:-|–|—|to|or|and|,|/|->|→)\s*(?:[0-9]|one\b|two\b|three\b)|\+|would\b|could\b|may\b)", re.I
)
# What the judge quotes in mid-sentence ('the candidate says "Rating: 3"') is another's.
_QUOTED = re.compile(r"(?<=[\w,])(\s+)([\"'`])((?:\\.|(?!\2)[^\n\\])+)(?:\2|\Z)")
_RATED = re.compile(r"\brat(?:e|ing)\b.*\d", re.I)
# A model that writes on makes up a further example, whose rating is not this answer's.
_NEXT_EXAMPLE = re.compile(r"^\s*(?:#+\s*)?(?:example\b|question\s*:|image description\s*:)", re.I | re.M)
_VERDICT = re.compile(
    r"[\W\d]*(?P<named>(?:(?:the|my)\s+)?(?:final\s+)?(?:answer|verdict|agrees)\s*(?::|=|is\b)\W*)?"
    r"(?P<verdict>yes|no)\b(?P<rest>.*)",
    re.I,
)
_THOUGHT = re.compile(r"</?(?:think|thinking|reasoning)>", re.I)
# Of a reply that went out of hand, so many characters at either end are read: the verdict stands at one of them.
_MOST = 10_000


def read_rating(reply: str) -> int | None:
    """The rating, 1, 2 or 3, that a reply gives, or None.

    The last "Rating: N" decides; with "Rating: N/A" or "Rating: 1-3" the reply has none. Where there is no such line, a
    figure alone as the last line or sentence does. N is 1, 2, 3, "3.0" or "three", maybe out of three. Other figures,
    ranges and conditionals ("3 would be too generous") are no ratings. Thoughts before </think>, quotations in
    mid-sentence and a further example made up after the rating are left out.
    """
    text = plain_reply(reply, quoted=False)
    if text is None:
        return None
    named = list(_NAMED.finditer(text))
    if named:
        ends = [match.start() for match in _NEXT_EXAMPLE.finditer(text) if match.start() >= named[0].end()]
        return _rating([match for match in named if not ends or match.start() < ends[0]][-1], text)
    line = (text.strip().splitlines() or [""])[-1].strip()
    alone = _ALONE.search(line)
    return None if alone is None else _rating(alone, line)


def _rating(match: re.Match[str], text: str) -> int | None:
    value = match["value"]
    if value is None or match["scale"] not in (None, "3", "three") or _RANGE.match(text, match.end()):
        return None
    number = float(_WORDS.get(value.lower(), value))
    return int(number) if number in (1, 2, 3) else None


def read_yes_no(reply: str) -> bool | None:
    """True for a reply that says yes, False for one that says no, None where it says neither or both.

    The verdict is the first word of the reply ("Yes, since ..."), or the line "Answer: yes" or "Verdict: no", or a last
    line of that one word; several must agree. "Yes and no", "no doubt" and "Yes. But no." are no verdicts.
    """
    lines = [line for line in (plain_reply(reply) or "").splitlines() if line.strip()]
    verdicts: set[str] = set()
    for number, line in enumerate(lines):
        match = _VERDICT.fullmatch(line)
        if match is None:
            continue
        verdict, rest = match["verdict"].lower(), match["rest"]
        alone = not any(map(str.isalnum, rest))
        if re.match(r"\s*(?:/|or\b|and\b)|.*\b(?:yes|no)\W*$", rest, re.I):
            return None
        # "No doubt it does" and "Yes men" are not verdicts; "No, ...", "No. ...", "No - ...", "Yes it ..." are.
        ended = alone or re.match(r"\s*[^\w\s]|\s+(?:it|the|this|that|because|since)\b", rest, re.I) is not None
        if ended and (number == 0 or match["named"] or (number == len(lines) - 1 and alone)):
            verdicts.add(verdict)
    return verdicts == {"yes"} if len(verdicts) == 1 else None


def plain_reply(reply: str, *, quoted: bool = True) -> str | None:
    """A reply without thoughts and mark-up; None where the model was still thinking when it was cut off.

    Args:
        reply: The reply.
        quoted: Whether ratings that are quoted in mid-sentence stay.
    """
    *thoughts, text = _THOUGHT.split(reply)
    if thoughts and not _THOUGHT.findall(reply)[-1].startswith("</"):
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
