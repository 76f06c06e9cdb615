"""What a run asked of whom, and what that cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taxtune.tuning.records import HeldoutResult, IterationRecord, Usage

__all__ = ["Account", "Asked", "account_of", "sum_accounts"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a model was asked.

    Attributes:
        calls: Answers that it gave.
        tokens: Tokens read and written in those calls.
        usd: Their price in US dollars, 0 for a model that runs here; None where no price is known.
        from_store: Answers that were in the store.
    """

    calls: int
    tokens: int = 0
    usd: float | None = None
    from_store: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """What a run asked of whom, and how long it took.

    Attributes:
        model: The vision-language model.
        proposer: The proposer's model; None where there is none.
        judge: The language model that rates the answers; None where there is none.
        seconds: Wall time.
    """

    model: Asked
    proposer: Asked | None = None
    judge: Asked | None = None
    seconds: float | None = None

    @property
    def usd(self) -> float | None:
        """The price of all that has one; None where nothing has."""
        return _total([each.usd for each in (self.model, self.proposer, self.judge) if each is not None])

    def as_dict(self) -> dict[str, Any]:
        """Returns the account as plain values."""
        return asdict(self) | {"usd": self.usd}


def account_of(
    records: Sequence[IterationRecord], heldout: Sequence[HeldoutResult] = (), seconds: float | None = None
) -> Account:
    """Returns the account of iterations and held-out images.

    Args:
        records: The iterations.
        heldout: The templates that were asked about the held-out images.
        seconds: Wall time; the sum over both where it is not known.
    """
    every: list[IterationRecord | HeldoutResult] = [*records, *heldout]
    usage = [each.usage for each in every]
    judged = [each.judged for each in every if each.judged is not None]
    proposed = [record for record in records if _proposed(record.usage)]
    model = Asked(
        sum(each.asked for each in usage),
        sum(each.vlm_prompt_tokens + each.vlm_completion_tokens for each in usage),
        _total([each.vlm_cost_usd for each in usage]),
        sum(each.from_store for each in usage),
    )
    proposer = Asked(
        sum(len(record.rejected) + (record.template is not None) for record in proposed),
        sum(r.usage.proposer_prompt_tokens + r.usage.proposer_completion_tokens for r in proposed),
        _total([record.usage.proposer_cost_usd for record in proposed]),
    )
    judge = Asked(
        sum(each.asked for each in judged),
        sum(each.prompt_tokens + each.completion_tokens for each in judged),
        _total([each.cost_usd for each in judged]),
        sum(each.from_store for each in judged),
    )
    return Account(
        model,
        proposer if proposed else None,
        judge if judged else None,
        sum(each.seconds for each in usage) if seconds is None else seconds,
    )


def sum_accounts(accounts: Sequence[Account], seconds: float | None = None) -> Account:
    """Returns the account of several runs together, one after the other.

    Args:
        accounts: The accounts.
        seconds: Wall time of all; the sum where it is not known.
    """

    def added(parts: Sequence[Asked | None]) -> Asked | None:
        known = [part for part in parts if part is not None]
        if not known:
            return None
        return Asked(
            sum(part.calls for part in known),
            sum(part.tokens for part in known),
            _total([part.usd for part in known]),
            sum(part.from_store for part in known),
        )

    return Account(
        added([each.model for each in accounts]) or Asked(0),
        added([each.proposer for each in accounts]),
        added([each.judge for each in accounts]),
        sum(each.seconds or 0.0 for each in accounts) if seconds is None else seconds,
    )


def _proposed(usage: Usage) -> bool:
    return bool(usage.proposer_prompt_tokens or usage.proposer_completion_tokens or usage.proposer_faults)


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
