"""What a run asks and what that costs, in words: the forecast of the dry run and the account of the report."""

from __future__ import annotations

from taxtune.tuning.account import Account, Asked

__all__ = ["account_lines"]


def account_lines(account: Account, *, forecast: bool = False) -> list[tuple[str, str]]:
    """Returns what a run asks, or asked, of whom and what that costs: a line each, with a name.

    Args:
        account: The forecast or the account.
        forecast: Whether nothing of it has happened yet.
    """
    parties = (("VLM calls", account.model), ("LLM calls", account.proposer), ("judge calls", account.judge))
    lines = [(name, _asked(each, forecast=forecast)) for name, each in parties if each is not None]
    if account.proposer is None and forecast:
        lines.insert(1, ("LLM calls", "none"))
    if account.seconds is not None:
        about = f", reckoned from {account.basis}" if account.basis else ""
        lines.append(("time", f"{'about ' if forecast else ''}{_duration(account.seconds)}{about}"))
    elif forecast:
        lines.append(("time", "unknown until the first iteration is done"))
    return lines


def _asked(asked: Asked, *, forecast: bool) -> str:
    about = "about " if forecast else ""
    at_most = "" if asked.at_most is None else f", at most {asked.at_most:,}"
    parts = [f"at most {asked.calls:,}" if forecast and not at_most else f"{asked.calls:,}{at_most}"]
    if asked.from_store:
        parts.append(f"{asked.from_store:,} more from the store")
    if asked.tokens:
        parts.append(f"{about}{asked.tokens:,} tokens")
    if asked.usd is None:
        parts.append("price unknown")
    elif asked.usd:
        parts.append(f"{about}${asked.usd:,.2f}" if asked.usd >= 0.01 else "less than $0.01")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
