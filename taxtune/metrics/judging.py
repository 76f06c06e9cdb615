"""Judges: a language model reads question, references and answer and gives a verdict on the answer.

What every judge shares: its prompts (Jinja files of `prompts/judge/`), its replies kept on disk, and the account of
unscored answers. A call that fails and a reply without a verdict are both *unscored*, counted apart, never 0.
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

__all__ = ["MAX_TEXT", "Judge", "JudgePrompt", "Verdicts", "check_questions", "judge_of"]

#: Longest text, in characters, that a judge is shown; a longer answer is not an answer, and costs as much as a book.
MAX_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A judge's verdicts on n answers.

    Attributes:
        values: The verdicts as scores, shape (n,); NaN is unscored.
        replies: The judge's replies, rationale included; None where there is none.
        problems: Why there is no reply; None where there is one.
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
        """Returns the prompt with its values."""
        return _environment(self._folder).get_template(self.name).render(**values).strip()


class Judge:
    """A language model that judges, with its replies kept at a place of `open_replies`."""

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
            results = ask(self.llm, requests, store, what="judging")
        answers = [result for result in results if isinstance(result, Answer)]
        failures = [result for result in results if not isinstance(result, Answer)]
        queue = iter(results)
        asked = [None if prompt is None else next(queue) for prompt in prompts]
        replies = tuple(result.text if isinstance(result, Answer) else None for result in asked)
        scores = [None if reply is None else read(reply) for reply in replies]
        unread = sum(reply is not None and score is None for reply, score in zip(replies, scores, strict=True))
        not_asked = {why_not: count} if (count := len(prompts) - len(results)) else {}
        self._seen.update(judged=len(prompts), unread=unread, failed=len(failures), **not_asked)
        self._reasons.update(failure.reason for failure in failures)
        new = [answer for answer in answers if not answer.cached]
        costs = [answer.cost_usd for answer in new if answer.cost_usd is not None]
        return Verdicts(
            values=np.array([np.nan if score is None else score for score in scores], dtype=np.float64),
            replies=replies,
            problems=tuple(
                why_not if result is None else None if isinstance(result, Answer) else result.reason for result in asked
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
        """Returns the account of unscored answers in sentences.

        Args:
            problem: The fault of a reply without a verdict, such as "is neither yes nor no".
        """
        counts = Counter(self._seen)
        judged, unread, failed = (counts.pop(key, 0) for key in ("judged", "unread", "failed"))
        causes = [(unread, f"the judge's reply {problem}.")]
        if failed:
            reason, _ = self._reasons.most_common(1)[0]
            causes.append((failed, f"the call failed; most frequent reason: {reason}"))
        causes += [(count, f"{why}.") for why, count in counts.items()]
        return tuple(f"{count:,} of {judged:,} unscored: {why}" for count, why in causes if count)


def judge_of(model: str, settings: MeasureSettings, *, max_tokens: int) -> Judge:
    """Returns the judge of a measure: a model with the measure's settings."""
    in_short = ModelSettings(
        task="text-generation",
        max_tokens=max_tokens,
        api_base=settings.api_base,
        concurrency=settings.concurrency,
        device=settings.device,
        batch_size=settings.batch_size,
    )
    return Judge(make_model(model, settings.judge or in_short), place=settings.cache_dir)


def check_questions(questions: Sequence[str] | None, count: int, whose: str) -> Sequence[str]:
    """Returns the prompts of the answers, which a judge must be shown.

    Raises:
        DataError: If there are none, or one is blank.
        TaxtuneError: If there are more or fewer than answers.
    """
    remedy = "Give the column with the questions, or one question for all rows."
    if questions is None:
        raise DataError(f"{whose} needs the prompt that was asked, but none was given.", remedy=remedy)
    if len(questions) != count:
        raise TaxtuneError(f"{whose} got {len(questions)} questions for {count} answers.")
    blank = [i for i, question in enumerate(questions) if not question.strip()]
    if blank:
        raise DataError(f"The prompt of answer {blank[0] + 1} is empty ({len(blank):,} are).", remedy=remedy)
    return questions
