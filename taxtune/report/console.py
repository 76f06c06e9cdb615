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
    """Prints the summary of a run: counts of answers, scores, verdict, prompt, cost and the next command."""
    for line in _summary_lines(result, min(_WIDTH, console.width)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _summary_lines(result: Result, width: int) -> list[str]:
    summary = summarise(result)
    table = summary_table(summary)
    lines = (
        table.lines(width, right=True) if summary.columns else ["There are no held-out results."]
    )
    lines += [
        line
        for text in (*_changes(summary), *doubt_lines(summary))
        for line in _wrapped(text, width, hanging="  ")
    ]
    for winner in summary.winners:
        verdict = [winner.verdict, visible(winner.placed_by)]
        where = f"({winner.where}{'' if winner.file is None else f', {winner.file}'})"
        if len(summary.winners) == 1:
            heading = [*verdict, f"Prompt {where}"]
        else:
            heading = [f"{template_name(winner.name)} {where}", *verdict]
        lines += [line for text in heading for line in _wrapped(text, width)]
        texts = visible(winner.prompt).splitlines()
        prompt = [line for text in texts for line in _wrapped(text, width, indent="  ") or [""]]
        most = max(_PROMPT_LINES // len(summary.winners), 1)
        if len(prompt) > most:
            prompt = [*prompt[: most - 1], f"  ... ({len(prompt) - most + 1:,} more lines)"]
        lines += prompt
    failed = failed_calls(result)
    for text in (f"Failed calls: {failed}" if failed else "", summary.cost):
        lines += _wrapped(text, width)
    pointers = [
        f"Report {summary.report}" if summary.report else "",
        f"Next: {summary.next}" if summary.next else "",
    ]
    together = "     ".join(filter(None, pointers))
    return [*lines, *filter(None, [together] if len(together) <= width else pointers)]


def _changes(summary: Summary) -> list[str]:
    """Returns the differences from the baseline that have no room in the table: of winners in what they aim at."""
    columns = shown_columns(summary)
    aims = {winner.name: [*winner.run.bounds, winner.aim] for winner in summary.winners}
    lines = []
    for column in columns if len(columns) != 2 else ():
        keys = [
            key
            for key in summary.scores
            if key in aims.get(column.name, ["hp", "hr"]) and key in column.changes
        ]
        if keys:
            changes = (f"{metric_name(key)} {difference(column.changes[key], key)}" for key in keys)
            lines.append(f"{column.title} − baseline: {', '.join(changes)}")
    return lines


def _wrapped(text: str, width: int, indent: str = "", hanging: str = "") -> list[str]:
    wrapper = textwrap.TextWrapper(width, initial_indent=indent, subsequent_indent=indent + hanging)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return wrapper.wrap(text)
