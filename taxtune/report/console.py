"""The summary of a run in the terminal, of at most 30 lines and 80 columns."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

from taxtune.metrics.names import metric_name
from taxtune.metrics.outcomes import LABELS_WRONG
from taxtune.report.formatting import (
    Result,
    difference,
    failed_calls,
    shortened,
    spread_wrong,
    template_name,
)
from taxtune.report.summary import (
    Summary,
    remarks,
    summarise,
    summary_table,
)
from taxtune.report.tables import (
    candidate_table,
    choose_command,
    doubt_table,
    score_table,
    selective_table,
)
from taxtune.tuning.records import TuneResult
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_result"]

_WIDTH = 80
_HEIGHT = 30
# The fewest lines of a prompt.
_FEWEST_LINES = 2
_INDENT = 8


def print_result(console: Console, result: Result, *, details: bool = False) -> None:
    """Prints the summary of a run: counts, scores, verdict, prompt, candidates and the next command.

    Args:
        console: Where to print.
        result: A tuning run, a comparison or an evaluation.
        details: Whether tables of every score, doubtful placements and the confidence follow, and
            what the model's own probabilities would bring.
    """
    width = min(_WIDTH, console.width)
    summary = summarise(result)
    lines = _summary_lines(result, summary, width)
    if details:
        for winner in summary.winners:
            lines += _wrapped(visible(winner.offer), width)
        for table in (score_table(result), doubt_table(result), selective_table(result)):
            lines += ["", *table.lines()] if table.rows else []  # numbers are not folded
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _summary_lines(result: Result, summary: Summary, width: int) -> list[str]:
    head = ["There are no held-out results."]
    if summary.columns:
        head = summary_table(summary).lines(width, right=True)
    for text in (*_changes(summary), *remarks(summary)):
        head += _wrapped(text, width, hanging="  ")
    foot = _candidates(summary, width)
    failed = failed_calls(result)
    if failed:
        foot += _wrapped(f"Failed calls: {failed}", width)
    foot += _wrapped(summary.cost, width)
    foot += _pointers(summary, width)
    left = _HEIGHT - len(head) - len(foot)
    return head + _winner_lines(summary, width, left) + foot


def _winner_lines(summary: Summary, width: int, most: int) -> list[str]:
    """Returns verdict and prompt of each winner, of at most so many lines if the verdicts let them."""
    headings = []
    for winner in summary.winners:
        verdict = [winner.verdict, visible(winner.placed_by)]
        where = f"({winner.where}{'' if winner.file is None else f', {winner.file}'})"
        texts = [f"{template_name(winner.name)} {where}", *verdict]
        if len(summary.winners) == 1:
            texts = [*verdict, f"Prompt {where}"]
        headings.append([line for text in texts for line in _wrapped(text, width)])
    left = most - sum(map(len, headings))
    lines = []
    for winner, heading in zip(summary.winners, headings, strict=True):
        own = max(left // len(headings), _FEWEST_LINES)
        lines += [*heading, *_prompt_lines(winner.prompt, width, own)]
    return lines


def _candidates(summary: Summary, width: int) -> list[str]:
    """Returns the candidates of a run; of several runs, where they are."""
    runs = [winner.run for winner in summary.winners]
    if len(runs) == 1:
        return _candidate_lines(runs[0], width)
    has_some = any(run.shortlist for run in runs)
    return ["The candidates of each run are in the report."] if has_some else []


def _candidate_lines(run: TuneResult, width: int) -> list[str]:
    """Returns the candidates as lines of at most `width` characters, two for each; empty for none."""
    table = candidate_table(run)
    if not table.rows:
        return []
    rows = tuple(row[:-2] for row in table.rows)
    numbers = replace(table, title="", columns=table.columns[:-2], rows=rows)
    head, *lines = numbers.lines(right=True)
    shown = [f"{table.title}:", shortened(head, width)]
    for line, (*_, role, prompt) in zip(lines, table.rows, strict=True):
        text = shortened(visible(f"{role}: {prompt}"), width - _INDENT)
        shown += [shortened(line, width), " " * _INDENT + text]
    other = choose_command(run)
    return [*shown, f"Another one: {other}"] if other else shown


def _pointers(summary: Summary, width: int) -> list[str]:
    pointers = []
    if summary.report:
        pointers.append(f"Report {summary.report}")
    if summary.next:
        pointers.append(f"Next: {summary.next}")
    together = "     ".join(pointers)
    return [together] if together and len(together) <= width else pointers


def _prompt_lines(prompt: str, width: int, most: int) -> list[str]:
    lines = []
    for text in visible(prompt).splitlines():
        lines += _wrapped(text, width, indent="  ") or [""]
    if len(lines) > most:
        lines = [*lines[: most - 1], f"  ... ({len(lines) - most + 1:,} more lines)"]
    return lines


def _changes(summary: Summary) -> list[str]:
    """Returns the intervals and differences from the baseline that have no room in the table.

    Those of a winner are of its aim and of the scores that it holds.
    """
    columns = summary.columns
    if len(columns) == 2:
        return []
    aims = {winner.name: [*winner.run.bounds, winner.aim] for winner in summary.winners}
    wrong = [f"{column.title} {spread_wrong(column.outcomes)}" for column in columns]
    lines = [f"{LABELS_WRONG}: {'; '.join(wrong)}"] if columns else []
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
