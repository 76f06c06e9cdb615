"""Calls, tokens, price and time of a run in words: the forecast of the dry run and the account of the report."""

from __future__ import annotations

from taxtune.tuning.account import Account, Asked, Forecast

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


def account_lines(account: Account, *, forecast: bool = False) -> list[tuple[str, str]]:
    """Returns the calls, tokens, price and time of a run as named lines.

    Args:
        account: The forecast or the account.
        forecast: Whether nothing of it has happened yet.
    """
    parties = (("VLM calls", account.model), ("LLM calls", account.proposer), ("judge calls", account.judge))
    lines = [(name, _asked(asked, forecast=forecast)) for name, asked in parties if asked is not None]
    if isinstance(account, Forecast) and account.bytes_sent is not None:
        name, text = lines[0]
        sent = account.bytes_sent
        size = f"{sent / 1e9:.1f} GB" if sent >= 1e9 else f"{max(sent / 1e6, 0.1):.1f} MB"
        lines[0] = (name, f"{text}, about {size} sent")
    if account.proposer is None and forecast:
        lines.insert(1, ("LLM calls", "none"))
    if isinstance(account, Forecast) and account.seconds_each is not None:
        lines.append(("time", _forecast_time(account)))
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


def _forecast_time(forecast: Forecast) -> str:
    seconds = f"{forecast.seconds_each:.2g} s"
    if forecast.seconds is None:
        return f"{seconds} per call, as many at a time as the server takes; by {forecast.basis}"
    at_a_time = f", {forecast.at_a_time:,} at a time" if forecast.at_a_time != 1 else ""
    calls = f"{forecast.model.calls:,} calls of {seconds}{at_a_time}"
    return f"about {duration(forecast.seconds)} of the VLM: {calls}, by {forecast.basis}"
