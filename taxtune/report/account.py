"""What a run asks and what that costs, in words: the forecast of the dry run and the account of the report."""

from __future__ import annotations

from taxtune.report.pace import duration
from taxtune.tuning.account import Account, Asked, Forecast

__all__ = ["account_lines"]


def account_lines(account: Account, *, forecast: bool = False) -> list[tuple[str, str]]:
    """Returns what a run asks, or asked, of whom and what that costs: a line each, with a name.

    Args:
        account: The forecast or the account.
        forecast: Whether nothing of it has happened yet.
    """
    parties = (("VLM calls", account.model), ("LLM calls", account.proposer), ("judge calls", account.judge))
    lines = [(name, _asked(each, forecast=forecast)) for name, each in parties if each is not None]
    if isinstance(account, Forecast) and account.bytes_sent is not None:
        name, text = lines[0]
        lines[0] = (name, f"{text}, about {_size(account.bytes_sent)} sent")
    if account.proposer is None and forecast:
        lines.insert(1, ("LLM calls", "none"))
    if isinstance(account, Forecast) and account.seconds_each is not None:
        lines.append(("time", _reckoned(account)))
    elif account.seconds is not None:
        about = f", reckoned from {account.basis}" if account.basis else ""
        lines.append(("time", f"{'about ' if forecast else ''}{duration(account.seconds)}{about}"))
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


def _reckoned(forecast: Forecast) -> str:
    """Returns how long the model's answers take, and what that is made of."""
    each = f"{forecast.seconds_each:.2g} s"
    if forecast.seconds is None:
        return f"{each} a call, as many at a time as the server takes; by {forecast.basis}"
    at_a_time = f", {forecast.at_a_time:,} at a time" if forecast.at_a_time != 1 else ""
    calls = f"{forecast.model.calls:,} calls of {each}{at_a_time}"
    return f"about {duration(forecast.seconds)} of the VLM: {calls}, by {forecast.basis}"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(count / 1e6, 0.1):.1f} MB"
