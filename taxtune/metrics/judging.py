"""Asking a judge: a language model reads question, references and answer and says what it thinks of the answer.

What every judge shares: its prompts (Jinja files of `prompts/judge/`), its replies kept on disk, and the account of
what was not scored. A call that fails and a reply that contains no verdict are both *unscored*, counted apart, never 0.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError, TaxtuneError
from taxtune.models import Answer, Model, ModelSettings, Request, ask, make_model, open_replies
from taxtune.resources import prompts_dir

if TYPE_CHECKING:
    from jinja2 import Environment

    from taxtune.metrics.base import MeasureSettings

__all__ = ["LLAMA", "MAX_TEXT", "Judge", "JudgePrompt", "Verdicts", "check_questions", "judge_of"]

#: The judge where a specification names none.
LLAMA = "local:meta-llama/Llama-3.2-3B-Instruct"
#: Longest text, in characters, that a judge is shown; a longer answer is not an answer, and costs as much as a book.
MAX_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What a judge said.

    Attributes:
        values: The verdicts as scores, shape (n,); NaN is unscored.
        replies: What the judge wrote, its rationale included; None where there is no reply.
        problems: Why there is no reply, one a text; None where there is one.
        unread: Replies that hold no verdict.
        failed: Calls that failed.
        not_asked: Texts that the judge was not asked about, with the reason.
        reasons: Why calls failed, with how many of each.
        retryable: Failed calls that may succeed later.
        from_store: Replies that came from the disk.
        prompt_tokens: Tokens sent in new calls.
        completion_tokens: Tokens written in new calls.
        cost_usd: Cost of new calls in US dollars; None where no price is known.
    """

    values: NDArray[np.float64]
    replies: tuple[str | None, ...]
    problems: tuple[str | None, ...] = ()
    unread: int = 0
    failed: int = 0
    not_asked: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    retryable: int = 0
    from_store: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None

    @property
    def unscored(self) -> int:
        """How many have no score."""
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
    """One of the files that a judge is asked with.

    Args:
        name: The file's name.
        folder: Its folder in `prompts/`.
    """

    def __init__(self, name: str, folder: str = "judge") -> None:
        self.name = name
        self._folder = folder
        source = (prompts_dir() / folder / name).read_bytes()
        self.digest = hashlib.sha256(source).hexdigest()[:16]

    def render(self, **values: Any) -> str:
        """Returns the prompt with its values."""
        return _environment(self._folder).get_template(self.name).render(**values).strip()


class Judge:
    """A language model that judges, with its replies kept.

    Args:
        llm: The model.
        place: Where the replies are kept; see `open_replies`.
    """

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
            prompts: What to ask; None for what is not to be asked about, and stays unscored.
            read: Returns the score that a reply gives, or None where it gives none.
            why_not: Why a prompt is None, for the account.

        Raises:
            ModelError: If the judge cannot be asked at all.
            DataError: If the file of replies cannot be read or written.
        """
        asked = [i for i, prompt in enumerate(prompts) if prompt is not None]

        with open_replies(self._place) as store:
            requests = [Request(prompt) for prompt in prompts if prompt is not None]
            replies = ask(self.llm, requests, store, what="judging")
        values = np.full(len(prompts), np.nan)
        written: list[str | None] = [None] * len(prompts)
        problems: list[str | None] = [why_not if prompt is None else None for prompt in prompts]
        reasons: Counter[str] = Counter()
        unread = 0
        for i, reply in zip(asked, replies, strict=True):
            if not isinstance(reply, Answer):
                reasons[reply.reason] += 1
                problems[i] = reply.reason
                continue
            written[i] = reply.text
            value = read(reply.text)
            if value is None:
                unread += 1
            else:
                values[i] = value
        new = [reply for reply in replies if isinstance(reply, Answer) and not reply.cached]
        costs = [reply.cost_usd for reply in new if reply.cost_usd is not None]
        not_asked = {why_not: len(prompts) - len(asked)} if len(asked) < len(prompts) else {}
        self._seen.update(judged=len(prompts), unread=unread, failed=sum(reasons.values()), **not_asked)
        self._reasons.update(reasons)
        return Verdicts(
            values=values,
            replies=tuple(written),
            problems=tuple(problems),
            unread=unread,
            failed=sum(reasons.values()),
            not_asked=not_asked,
            reasons=dict(reasons),
            retryable=sum(not isinstance(reply, Answer) and reply.retryable for reply in replies),
            from_store=sum(isinstance(reply, Answer) and reply.cached for reply in replies),
            prompt_tokens=sum(reply.prompt_tokens for reply in new),
            completion_tokens=sum(reply.completion_tokens for reply in new),
            cost_usd=sum(costs) if costs else None,
        )

    def notes(self, says: str) -> tuple[str, ...]:
        """Returns the account of what has no score, in sentences.

        Args:
            says: What is wrong with a reply that has no verdict, such as "is neither yes nor no".
        """
        seen = self._seen
        notes = []
        if seen["unread"]:
            notes.append(f"{seen['unread']:,} of {seen['judged']:,} unscored: the judge's reply {says}.")
        if seen["failed"]:
            reason, _ = self._reasons.most_common(1)[0]
            notes.append(
                f"{seen['failed']:,} of {seen['judged']:,} unscored: the call failed; most frequent reason: {reason}"
            )
        notes += [
            f"{count:,} of {seen['judged']:,} unscored: {why}."
            for why, count in seen.items()
            if count and why not in ("judged", "unread", "failed")
        ]
        return tuple(notes)


def judge_of(model: str, settings: MeasureSettings, *, max_tokens: int) -> Judge:
    """Returns the judge of a measure: a model, run as the measure's settings say."""
    in_short = ModelSettings(
        task="text-generation",
        max_tokens=max_tokens,
        api_base=settings.api_base,
        concurrency=settings.concurrency,
        device=settings.device,
        batch_size=settings.batch_size,
    )
    llm = make_model(model, settings.judge or in_short)
    return Judge(llm, place=settings.cache_dir)


def check_questions(questions: Sequence[str] | None, count: int, whose: str, remedy: str) -> Sequence[str]:
    """Returns the questions, which a judge must be shown as they were asked.

    Raises:
        TaxtuneError: If there are none, one is blank, or there are more or fewer than answers.
    """
    if questions is None:
        raise DataError(f"{whose} needs the prompt that was asked, but none was given.", remedy=remedy)
    if len(questions) != count:
        raise TaxtuneError(f"{whose} got {len(questions)} questions for {count} answers.")
    blank = [i for i, question in enumerate(questions) if not question.strip()]
    if blank:
        raise DataError(f"The prompt of answer {blank[0] + 1} is empty ({len(blank):,} are).", remedy=remedy)
    return questions
