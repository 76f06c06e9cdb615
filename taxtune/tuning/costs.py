"""What a call of the model costs and how long it takes: by stored answers, or by litellm's prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from taxtune.models import Answer, Model, Request
from taxtune.models.ask import mean_answer

__all__ = ["CallCost", "Spending", "call_cost", "mean_cost"]

#: Tokens of an answer, for estimates.
_ANSWER_TOKENS = 40


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a call of the model takes.

    Attributes:
        answers: Stored answers of the model that this is the mean of; 0 for an estimate of one.
        prompt_tokens: Tokens read, those of the image included; None where they are not known.
        completion_tokens: Tokens written, likewise.
        usd: Price in US dollars, 0 for a model that runs here; None where it is not known.
        seconds: How long it takes; None where no call was timed.
    """

    answers: int = 0
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    usd: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Spending:
    """What a run may spend.

    Attributes:
        effort: "light", "medium" or "heavy"; None where iterations or calls are given.
        chosen: Whether the run is to be this one.
        vlm_calls: Most calls of the model.
        usd: About what the model's calls cost in US dollars; None where it is not known.
        minutes: About how long they take; None where no call was timed.
        arbiter_calls: About how many questions the mapper's chat model is asked if all answers
            differ and none is just a name.
        arbiter_usd: About what that costs in US dollars; None where it is not known.
    """

    effort: str | None
    chosen: bool
    vlm_calls: int
    usd: float | None
    minutes: float | None
    arbiter_calls: int
    arbiter_usd: float | None


def mean_cost(answers: Sequence[Answer]) -> CallCost:
    """Returns the mean cost of answers, of which there is one at least."""
    prices = [answer.cost_usd for answer in answers if answer.cost_usd is not None]
    return CallCost(
        answers=len(answers),
        prompt_tokens=fmean(answer.prompt_tokens for answer in answers),
        completion_tokens=fmean(answer.completion_tokens for answer in answers),
        usd=fmean(prices) if prices else None,
        seconds=fmean(answer.seconds for answer in answers),
    )


def call_cost(model: Model, request: Request | None, answers: Path, *, is_local: bool) -> CallCost:
    """Returns the mean cost of a model's answers in a file, or that by litellm's counts and prices.

    Args:
        model: The model, which is asked nothing.
        request: What is counted where no answer is kept; None for nothing.
        answers: The file, which need not be there.
        is_local: Whether the model runs here, for nothing.
    """
    known: Any = model
    # Not by the identity, for which a model on this machine loads torch and hashes its weights.
    named = getattr(known, "checkpoint", known)
    name = str(getattr(known, "model", None) or getattr(named, "name", ""))
    stored = mean_answer(answers, name)
    if stored is not None:
        return CallCost(*stored)
    if is_local:
        return CallCost(usd=0.0)
    if request is None or not hasattr(model, "count_prompt_tokens"):
        return CallCost()
    tokens = known.count_prompt_tokens(request)
    return CallCost(
        prompt_tokens=tokens,
        completion_tokens=_ANSWER_TOKENS,
        usd=None if tokens is None else known.price(tokens, _ANSWER_TOKENS),
    )
