"""The summary of a run in the terminal, of at most 25 lines and 80 columns; every held-out score on demand.

Plain text, without colours, where the output is no terminal.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from taxtune.metrics.names import metric_name
from taxtune.report.scores import (
    Result,
    difference,
    failed_calls,
    number,
    rank_table,
    score_table,
    template_name,
)
from taxtune.report.summary import Column, Summary, Winner, summarise
from taxtune.report.table import Table
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_result"]

_WIDTH = 80
# Lines of the prompts, so that the summary fits a screen of 25.
_PROMPT_LINES = 9
#: The most templates that have a column each; of more, each has a row.
_COLUMNS = 4


def print_result(console: Console, result: Result, *, details: bool = False) -> None:
    """Prints the summary of a run: counts of answers, scores, verdict, prompt, cost and the next command.

    Args:
        console: Where to print; one made for a pipe prints plain text.
        result: A tuning run, or several templates compared.
        details: Whether to print every held-out score first, with intervals, and where everything is.
    """

    def show(line: str, style: str | None = None) -> None:
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)

    width = min(_WIDTH, console.width)
    if details and result.heldout:
        for table in (score_table(result), rank_table(result)):
            for line in table.lines(width):
                show(line.rstrip())
        for what, where in result.where.items():
            show(f"{what}: {where}")
        show("")
    for line, style in _summary_lines(result, width):
        show(line, style)


def _summary_lines(result: Result, width: int) -> list[tuple[str, str | None]]:
    summary = summarise(result)
    head, *rest = _table(summary, width)
    before: list[tuple[str, str | None]] = [(head, "bold"), *((line, None) for line in rest)]
    before += [(line, None) for text in _changes(summary) for line in _wrapped(text, width, hanging="  ")]
    failed = failed_calls(result)
    closing = [f"Failed calls: {failed}" if failed else "", summary.cost]
    after = [line for text in closing for line in _wrapped(text, width)]
    pointers = [f"Report {summary.report}" if summary.report else "", f"Next: {summary.next}" if summary.next else ""]
    together = "     ".join(filter(None, pointers))
    after += [together] if len(together) <= width else pointers
    lines = before
    for winner in summary.winners:
        prompt = [
            line for text in visible(winner.prompt).splitlines() for line in _wrapped(text, width, indent="  ") or [""]
        ]
        most = max(_PROMPT_LINES // len(summary.winners), 1)
        if len(prompt) > most:
            prompt = [*prompt[: most - 1], f"  ... ({len(prompt) - most + 1:,} more lines)"]
        lines += [*_heading(winner, summary, width), *((line, None) for line in prompt)]
    return [*lines, *((line, None) for line in after if line)]


def _table(summary: Summary, width: int) -> list[str]:
    """Returns the counts and scores, a column per template, or a row per template where there are many."""
    columns = _shown(summary)
    if not columns:
        return ["There are no held-out results."]
    where = "tuning images" if summary.split == "tuning" else "images the search never saw"
    head = f"On {summary.images:,} {where if summary.winners or summary.split == 'tuning' else 'held-out images'}"
    names = [*(f"  {name}" for name in summary.counts), *(f"  {name}" for name in summary.scores.values())]
    cells = {
        column.title: [
            *(f"{column.counts[name]:,}" for name in summary.counts),
            *(number(column.scores[key], key) for key in summary.scores),
        ]
        for column in columns
    }
    if len(columns) > _COLUMNS:
        heads = [*summary.counts, *(metric_name(key) for key in summary.scores)]
        rows = tuple((f"  {title}", *values) for title, values in cells.items())
        return Table("summary", "", (head, *heads), rows).lines(width, right=True)
    # With one template against its baseline, the difference stands beside it.
    change = columns[1].changes if len(columns) == 2 else {}
    if change:
        changes = [difference(change[key], key) if key in change else "" for key in summary.scores]
        cells[" "] = [*[""] * len(summary.counts), *changes]
    rows = tuple(zip(names, *cells.values(), strict=True))
    return Table("summary", "", (head, *cells), rows).lines(width, right=True)


def _shown(summary: Summary) -> list[Column]:
    """Returns the templates that the summary shows: of a front, which may be long, the winner alone."""
    winners = {winner.name for winner in summary.winners}
    return [column for column in summary.columns if not winners or column.name in winners or not column.changes]


def _changes(summary: Summary) -> list[str]:
    """Returns the differences from the baseline that have no room in the table: of winners in what they aim at."""
    columns = _shown(summary)
    if len(columns) == 2:
        return []
    aims = {winner.name: [*winner.run.bounds, winner.aim] for winner in summary.winners}
    lines = []
    for column in columns:
        keys = [key for key in summary.scores if key in aims.get(column.name, ["hp", "hr"]) and key in column.changes]
        if keys:
            changes = (f"{metric_name(key)} {difference(column.changes[key], key)}" for key in keys)
            lines.append(f"{column.title} − baseline: {', '.join(changes)}")
    return lines


def _heading(winner: Winner, summary: Summary, width: int) -> list[tuple[str, str | None]]:
    """Returns the lines above a winner's prompt: the verdict, its iteration, and how its answers are placed."""
    alone = len(summary.winners) == 1
    heading: list[tuple[str, str | None]]
    name = "Prompt" if alone else template_name(winner.name)
    heading = [(line, None) for line in _wrapped(f"{name} ({winner.where})", width)]
    verdict: list[tuple[str, str | None]] = [(line, "bold") for line in _wrapped(winner.verdict, width)]
    verdict += [(line, None) for line in _wrapped(visible(winner.placed_by), width)]
    return [*verdict, *heading] if alone else [*heading, *verdict]


def _wrapped(text: str, width: int, indent: str = "", hanging: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
