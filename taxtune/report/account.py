"""Calls, tokens, price and time of a run in words."""

from __future__ import annotations

from taxtune.tuning.account import Account, Asked

__all__ = ["account_lines", "cost_line", "duration"]


def duration(seconds: float) -> str:
    """Returns a time in its largest unit: "12 s", "3 min", "2.5 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def cost_line(account: Account) -> str:
    """Returns the calls of a run, their price and the time in a line."""
    parties = {"": account.model, "LLM ": account.proposer, "judge ": account.judge}
    parts = [f"{asked.calls:,} {who}call{'' if asked.calls == 1 else 's'}" for who, asked in parties.items() if asked]
    parts.insert(1, f"{account.model.from_store:,} cached")
    unknown = any(asked.usd is None and asked.calls for asked in parties.values() if asked)
    if account.usd is not None or not unknown:
        usd = account.usd or 0.0
        parts.append(("under $0.01" if 0 < usd < 0.005 else f"${usd:,.2f}") + (" and more" if unknown else ""))
    else:
        parts.append("price unknown")
    if account.seconds is not None:
        parts.append(duration(account.seconds))
    return ", ".join(parts)


def account_lines(account: Account) -> list[tuple[str, str]]:
    """Returns the calls of a run and their cost as named lines, one per model."""
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
