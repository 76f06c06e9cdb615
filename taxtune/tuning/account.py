"""What a run asks and what that costs: the forecast before it, the account after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from taxtune.models import Rates

if TYPE_CHECKING:
    from taxtune.tuning.records import HeldoutResult, IterationRecord, Judged, Usage

__all__ = ["Account", "Asked", "Forecast", "account_of", "measured_rates", "price", "sum_accounts"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a model is asked, or was asked.

    Attributes:
        calls: Answers that it gives; in a forecast, without those that are in the store by then.
        at_most: The most that there can be; None where `calls` is that already.
        tokens: Tokens read and written in those calls; None where nothing is known of them.
        usd: Their price in US dollars, 0 for a model that runs here; None where no price is known.
        from_store: Answers that were in the store.
    """

    calls: int
    at_most: int | None = None
    tokens: int | None = None
    usd: float | None = None
    from_store: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """What a run asks of whom, and how long it takes.

    Attributes:
        model: The vision-language model.
        proposer: The proposer's model; None where there is none.
        judge: The language model that rates the answers; None where there is none.
        seconds: Wall time; None where nothing is known of the speed.
        basis: In a forecast, what tokens and seconds are reckoned from; None where from nothing, and in an account.
    """

    model: Asked
    proposer: Asked | None = None
    judge: Asked | None = None
    seconds: float | None = None
    basis: str | None = None

    @property
    def usd(self) -> float | None:
        """The price of all that has one; None where nothing has."""
        return _total([each.usd for each in (self.model, self.proposer, self.judge) if each is not None])

    def as_dict(self) -> dict[str, Any]:
        """Returns the account as plain values."""
        return asdict(self) | {"usd": self.usd}


@dataclass(frozen=True, slots=True)
class Forecast(Account):
    """What a run will ask of whom, and how long that will take.

    Attributes:
        seconds_each: Seconds that an answer of the vision-language model takes; None where none has been given yet.
        at_a_time: How many answers are under way at a time: one a worker, or the calls of an API; None where its server
            decides.
        bytes_sent: Bytes of the questions to an API; None for a model that runs here.
    """

    seconds_each: float | None = None
    at_a_time: int | None = 1
    bytes_sent: int | None = None


def measured_rates(records: Sequence[IterationRecord]) -> Rates | None:
    """Returns what an answer took in finished iterations; None where all came from the store, or there are none.

    The seconds are those of the whole iteration, with the proposer's.
    """
    asked = [record.usage for record in records if record.usage.asked]
    answers = sum(usage.asked for usage in asked)
    if not answers:
        return None
    usd = _total([usage.vlm_cost_usd for usage in asked])
    return Rates(
        answers,
        sum(usage.vlm_prompt_tokens + usage.vlm_completion_tokens for usage in asked) / answers,
        None if usd is None else usd / answers,
        sum(usage.seconds for usage in asked) / answers,
    )


def account_of(
    records: Sequence[IterationRecord], heldout: Sequence[HeldoutResult] = (), seconds: float | None = None
) -> Account:
    """Returns what iterations and held-out images took.

    Args:
        records: The iterations.
        heldout: The templates that were asked about the held-out images.
        seconds: Wall time; the sum over both where it is not known.
    """
    usage = [*(each.usage for each in records), *(each.usage for each in heldout)]
    judged = [each for each in (*(r.judged for r in records), *(h.judged for h in heldout)) if each is not None]
    replies = sum(len(r.rejected) + (r.template is not None) for r in records if _proposed(r.usage))
    proposed = [record.usage for record in records if _proposed(record.usage)]
    return Account(
        Asked(
            sum(each.asked for each in usage),
            tokens=sum(each.vlm_prompt_tokens + each.vlm_completion_tokens for each in usage),
            usd=_total([each.vlm_cost_usd for each in usage]),
            from_store=sum(each.from_store for each in usage),
        ),
        proposer=Asked(
            replies,
            tokens=sum(each.proposer_prompt_tokens + each.proposer_completion_tokens for each in proposed),
            usd=_total([each.proposer_cost_usd for each in proposed]),
        )
        if proposed
        else None,
        judge=_judge(judged),
        seconds=sum(each.seconds for each in usage) if seconds is None else seconds,
    )


def sum_accounts(accounts: Sequence[Account], seconds: float | None = None) -> Account:
    """Returns the account of several runs together, one after the other.

    Args:
        accounts: The accounts.
        seconds: Wall time of all; the sum where it is not known.
    """

    def joined(parts: Sequence[Asked | None]) -> Asked | None:
        found = [part for part in parts if part is not None]
        if not found:
            return None
        return Asked(
            sum(part.calls for part in found),
            tokens=sum(part.tokens or 0 for part in found),
            usd=_total([part.usd for part in found]),
            from_store=sum(part.from_store for part in found),
        )

    return Account(
        joined([each.model for each in accounts]) or Asked(0),
        proposer=joined([each.proposer for each in accounts]),
        judge=joined([each.judge for each in accounts]),
        seconds=sum(each.seconds or 0.0 for each in accounts) if seconds is None else seconds,
    )


def price(model: str, prompt_tokens: int, completion_tokens: int) -> float | None:
    """Returns what litellm's list of prices says that so many tokens cost in US dollars; None where it knows none."""
    from taxtune.models.api_errors import load_litellm

    try:
        found = load_litellm().cost_per_token(model, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
    except Exception:  # a model that litellm does not know
        return None
    return float(sum(found)) or None


def _proposed(usage: Usage) -> bool:
    return bool(usage.proposer_prompt_tokens or usage.proposer_completion_tokens or usage.proposer_faults)


def _judge(judged: Sequence[Judged]) -> Asked | None:
    if not judged:
        return None
    return Asked(
        sum(each.asked for each in judged),
        tokens=sum(each.prompt_tokens + each.completion_tokens for each in judged),
        usd=_total([each.cost_usd for each in judged]),
        from_store=sum(each.from_store for each in judged),
    )


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
