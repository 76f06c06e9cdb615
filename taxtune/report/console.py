"""The summary of a run in the terminal, of at most 25 lines and 80 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from taxtune.metrics.names import metric_name
from taxtune.report.formatting import Result, difference, failed_calls, template_name
from taxtune.report.summary import Summary, doubt_lines, shown_columns, summarise, summary_table
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_result"]

_WIDTH = 80
# Lines of the prompts, so that the summary fits a screen of 25.
_PROMPT_LINES = 9


def print_result(console: Console, result: Result) -> None:
    """Prints the summary of a run: counts, scores, verdict, prompt, cost and the next command."""
    for line in _summary_lines(result, min(_WIDTH, console.width)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _summary_lines(result: Result, width: int) -> list[str]:
    summary = summarise(result)
    lines = ["There are no held-out results."]
    if summary.columns:
        lines = summary_table(summary).lines(width, right=True)
    for text in (*_changes(summary), *doubt_lines(summary)):
        lines += _wrapped(text, width, hanging="  ")
    for winner in summary.winners:
        verdict = [winner.verdict, visible(winner.placed_by)]
        where = f"({winner.where}{'' if winner.file is None else f', {winner.file}'})"
        heading = [f"{template_name(winner.name)} {where}", *verdict]
        if len(summary.winners) == 1:
            heading = [*verdict, f"Prompt {where}"]
        for text in heading:
            lines += _wrapped(text, width)
        lines += _prompt_lines(winner.prompt, width, max(_PROMPT_LINES // len(summary.winners), 1))
    failed = failed_calls(result)
    if failed:
        lines += _wrapped(f"Failed calls: {failed}", width)
    lines += _wrapped(summary.cost, width)
    pointers = []
    if summary.report:
        pointers.append(f"Report {summary.report}")
    if summary.next:
        pointers.append(f"Next: {summary.next}")
    together = "     ".join(pointers)
    if together and len(together) <= width:
        pointers = [together]
    return lines + pointers


def _prompt_lines(prompt: str, width: int, most: int) -> list[str]:
    lines = []
    for text in visible(prompt).splitlines():
        lines += _wrapped(text, width, indent="  ") or [""]
    if len(lines) > most:
        lines = [*lines[: most - 1], f"  ... ({len(lines) - most + 1:,} more lines)"]
    return lines


def _changes(summary: Summary) -> list[str]:
    """Returns the differences from the baseline that have no room in the table.

    Those of a winner are of its aim and of the scores that it holds.
    """
    columns = shown_columns(summary)
    if len(columns) == 2:
        return []
    aims = {winner.name: [*winner.run.bounds, winner.aim] for winner in summary.winners}
    lines = []
    for column in columns:
        wanted = aims.get(column.name, ["hp", "hr"])
        changes = []
        for key in summary.scores:
            if key in wanted and key in column.changes:
                changes.append(f"{metric_name(key)} {difference(column.changes[key], key)}")
        if changes:
            lines.append(f"{column.title} − baseline: {', '.join(changes)}")
    return lines


def _wrapped(text: str, width: int, indent: str = "", hanging: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
