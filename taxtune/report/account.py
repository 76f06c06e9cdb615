"""What a run asked and what that cost, in words."""

from __future__ import annotations

from taxtune.report.pace import duration
from taxtune.tuning.account import Account, Asked

__all__ = ["account_lines"]


def account_lines(account: Account) -> list[tuple[str, str]]:
    """Returns what a run asked of whom and what that cost: a line each, with a name."""
    parties = (("VLM calls", account.model), ("LLM calls", account.proposer), ("judge calls", account.judge))
    lines = [(name, _asked(each)) for name, each in parties if each is not None]
    if account.seconds is not None:
        lines.append(("time", duration(account.seconds)))
    return lines


def _asked(asked: Asked) -> str:
    parts = [f"{asked.calls:,}"]
    if asked.from_store:
        parts.append(f"{asked.from_store:,} more from the store")
    if asked.tokens:
        parts.append(f"{asked.tokens:,} tokens")
    if asked.usd is None:
        parts.append("price unknown")
    elif asked.usd:
        parts.append(f"${asked.usd:,.2f}" if asked.usd >= 0.01 else "less than $0.01")
    return ", ".join(parts)
