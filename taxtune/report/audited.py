"""Whether the mapper of a run was audited, and how it came out, as its report and its summary say it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from taxtune import atomic
from taxtune.audit.population import digest
from taxtune.report.scores import Result, number
from taxtune.shell import command
from taxtune.tuning.records import ComparisonResult

__all__ = ["audit_sentences", "refresh_report", "section"]

_BLOCK = re.compile(r"(<!-- audit -->).*?(<!-- /audit -->)", re.S)


def section(result: Result) -> dict[str, Any]:
    """Returns what the audits of a run say of its mapper."""
    return {"title": "How far the mapper can be trusted", "audits": audit_sentences(result)}


def audit_sentences(result: Result) -> list[str]:
    """Returns whether the mapper of a run was audited: a sentence an audit of its held-out answers.

    An audit counts for a run if the answers that it was drawn from, and the nodes that they were placed on, are the
    run's; what mapper and tree make of the run's answers is then what was audited.

    Args:
        result: The run, or several put side by side; their folders are looked in.
    """
    if isinstance(result, ComparisonResult) and result.names:
        return [
            f"{name.rpartition(': ')[0]}: {said}" for name, run in result.named_runs for said in audit_sentences(run)
        ]
    folder = Path(result.folder)
    held = {
        digest((row.answer, row.placement, row.stage, 1) for row in each.rows if row.answer is not None): each.name
        for each in result.heldout
    }
    return sentences(folder, held)


def sentences(folder: Path, held: dict[str, str]) -> list[str]:
    """Returns the sentences on the audits in a folder.

    Args:
        folder: The run's folder.
        held: The name of each template on the held-out images, by the digest of its placements.
    """
    said, other = [], False
    for file in sorted(folder.glob("audit*.json")):
        if "-iteration-" in file.name:  # of answers on the tuning images, which no report shows one by one
            continue
        try:
            record = json.loads(file.read_text("utf-8"))
            name = held.get(record["placements_digest"])
            other |= name is None
            if name is not None and record["judged"]:
                said.append(_sentence(record, name))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            said.append(f"{file.name} cannot be read as an audit.")
    if said:
        return said
    again = "The audit is of other answers or placements; audit the run again" if other else "Not audited"
    return [f"{again}: run {command('audit', folder)}"]


def _sentence(record: dict[str, Any], name: str) -> str:
    right, general, wrong = (record["shares"][key] for key in ("right", "too_general", "wrong"))
    left = record["drawn"] - record["judged"]
    part = f" ({left:,} more drawn, without a verdict)" if left else ""
    return (
        f"Audited by {record['judge']}: of the {record['answers']:,} held-out answers to the {name} template, "
        f"{record['judged']:,} distinct ones were judged{part}. Placed right: {number(right['share'])} of all answers "
        f"(95 % interval {number(right['low'])} to {number(right['high'])}); too general: "
        f"{number(general['share'])}; wrong: {number(wrong['share'])}."
    )


def refresh_report(folder: Path, held: dict[str, str]) -> bool:
    """Brings what a report says of audits up to date; returns whether there is a report with a place for it.

    Args:
        folder: The run's folder.
        held: As in `sentences`.

    Raises:
        TaxtuneError: If the report cannot be written.
    """
    from markupsafe import escape

    report = folder / "report.html"
    try:
        page = report.read_text("utf-8")
    except (OSError, ValueError):
        return False
    text = "".join(f"\n<p>{escape(sentence)}</p>" for sentence in sentences(folder, held)) + "\n"
    changed, places = _BLOCK.subn(lambda found: found[1] + text + found[2], page, count=1)
    if places and changed != page:
        atomic.write_text(report, changed)
    return bool(places)
