"""What was run, what failed, and how to run it again, in the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from taxtune.report import wording
from taxtune.report.account import account_lines
from taxtune.report.wording import Result

__all__ = ["section"]


def section(result: Result) -> dict[str, Any] | None:
    """Returns the facts of a run and its recipe, None where nothing is known."""
    provenance, failed = result.provenance, wording.failed_calls(result)
    if not provenance.facts and not provenance.command and failed is None:
        return None
    facts = provenance.facts | {"Effort": dict(account_lines(result.account))}
    return {"title": "What was run", "provenance": replace(provenance, facts=facts), "failed_calls": failed}
