"""Judges: a language model reads a prompt about an answer and gives a verdict on it.

Replies are kept on disk. A call that fails and a reply without a verdict are both *unscored*,
counted apart, never 0.
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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.models.ask import ask, open_replies
from taxtune.models.base import Failure, Model, ModelUsage, Request, count_faults
from taxtune.resources import prompts_dir
from taxtune.thoughts import without_thoughts

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["MAX_TEXT", "Judge", "JudgePrompt", "Verdicts", "plain_reply"]

#: Longest text, in characters, that a judge is shown; a longer answer is not an answer, and costs
#: as much as a book.
MAX_TEXT = 20_000
# Of a reply that went out of hand, so many characters at either end are read: the verdict stands at
# one of them.
_MOST = 10_000
_RATED = re.compile(r"\brat(?:e|ing)\b.*\d", re.I)
# What the judge quotes in mid-sentence ('the candidate says "Rating: 3"') is another's.
_QUOTED = re.compile(r"(?<=[\w,])(\s+)([\"'`])((?:\\.|(?!\2)[^\n\\])+)(?:\2|\Z)")
_STRAIGHT_QUOTES = str.maketrans("“”‘’", "\"\"''")


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A judge's verdicts on n answers.

    Attributes:
        values: The verdicts as scores, shape (n,); NaN is unscored.
        replies: The judge's replies; None where there is none, for the reason in `problems`.
        problems: Why there is no reply, or None.
        usage: The calls, tokens and cost of the replies.
        retryable: Number of failed calls that may succeed later.
    """

    values: NDArray[np.float64]
    replies: tuple[str | None, ...]
    problems: tuple[str | None, ...]
    usage: ModelUsage
    retryable: int = 0


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
    environment.filters["quoted"] = _quoted
    return environment


def _quoted(text: object) -> str:
    """Returns a text as a string of JSON.

    Neither a line break nor a quotation mark in an answer can pass for the prompt's own words.
    """
    return json.dumps(" ".join(str(text).split()), ensure_ascii=False)


class JudgePrompt:
    """A judge's prompt: the file `name` of a folder in `prompts/`."""

    def __init__(self, name: str, folder: str = "judge") -> None:
        content = (prompts_dir() / folder / name).read_bytes()
        self.name = name
        self.digest = hashlib.sha256(content).hexdigest()[:16]
        self._folder = folder

    def render(self, **values: Any) -> str:
        """Returns the prompt with its values."""
        return _environment(self._folder).get_template(self.name).render(**values).strip()


class Judge:
    """A language model that judges, with its replies kept in a folder."""

    def __init__(self, llm: Model, *, place: Path | None = None) -> None:
        self.llm = llm
        self._place = place
        self._judged = 0
        self._unread = 0
        self._failures: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()

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
        asked = [i for i, prompt in enumerate(prompts) if prompt is not None]
        requests = [Request(prompt) for prompt in prompts if prompt is not None]
        with open_replies(self._place) as store, count_faults() as faults:
            results = ask(self.llm, requests, store, what="judging")
        values = np.full(len(prompts), np.nan)
        replies: list[str | None] = [None] * len(prompts)
        problems: list[str | None] = [why_not] * len(prompts)
        retryable = 0
        for i, result in zip(asked, results, strict=True):
            if isinstance(result, Failure):
                problems[i] = result.reason
                retryable += result.retryable
                self._failures[result.reason] += 1
                continue
            replies[i] = result.text
            problems[i] = None
            score = read(result.text)
            if score is None:
                self._unread += 1
            else:
                values[i] = score
        self._judged += len(prompts)
        self._skipped[why_not] += len(prompts) - len(asked)
        return Verdicts(
            values=values,
            replies=tuple(replies),
            problems=tuple(problems),
            usage=ModelUsage.of(results, faults),
            retryable=retryable,
        )

    def notes(self, problem: str) -> tuple[str, ...]:
        """Returns the numbers of unscored answers, with the reasons.

        Args:
            problem: What is wrong with a reply without a verdict ("gives no rating").
        """
        causes = {f"the judge's reply {problem}.": self._unread}
        if self._failures:
            reason, _ = self._failures.most_common(1)[0]
            cause = f"the call failed; most frequent reason: {reason}"
            causes[cause] = self._failures.total()
        for why, count in self._skipped.items():
            causes[f"{why}."] = count
        notes = []
        for cause, count in causes.items():
            if count:
                notes.append(f"{count:,} of {self._judged:,} unscored: {cause}")
        return tuple(notes)


def plain_reply(reply: str, *, quoted: bool = True) -> str | None:
    """Returns a reply without thoughts and mark-up; None if it was cut off in its thoughts.

    Args:
        reply: The reply.
        quoted: Whether ratings that are quoted in mid-sentence stay.
    """
    text = without_thoughts(reply)
    if text is None:
        return None
    if len(text) > 2 * _MOST:
        text = f"{text[:_MOST]}\n{text[-_MOST:]}"
    # Full-width and circled figures, and the keycaps that emoji are made of, are figures.
    text = unicodedata.normalize("NFKC", text).replace("\ufe0f", "").replace("\u20e3", "")
    text = text.translate(_STRAIGHT_QUOTES)
    # A server may pass on the tokens that end a turn; and some models write "<rating>3</rating>".
    text = re.sub(r"<\|[^<>|\n]{1,40}\|>|</\w+>|<(?:start|end)_of_turn>", "\n", text)
    text = re.sub(r"<(rating|answer|verdict)>", r"\n\1: ", text, flags=re.I)
    if not quoted:
        text = _QUOTED.sub(_without_rating, text)
    text = re.sub(r"\\(?:boxed|text|textbf|mathbf)\s*\{([^{}]*)\}", r"\1", text)
    return re.sub(r"[*`$\"~]|(?<![^\W_])_+|_+(?![^\W_])|(?<!\w)'|'(?!\w)", "", text)


def _without_rating(quotation: re.Match[str]) -> str:
    """Returns a quotation, or only the white space before it if it has a rating in it."""
    return quotation[1] if _RATED.search(quotation[3]) else quotation[0]
