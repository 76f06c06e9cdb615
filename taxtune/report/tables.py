"""What came of a run in the terminal: a summary of at most 25 lines, and every held-out score on demand.

Plain text, without colours, where the output is no terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from taxtune.report.summary import Column, Summary, Winner, summarise
from taxtune.report.wording import (
    Result,
    difference,
    difference_rows,
    failed_calls,
    interval,
    metric_name,
    number,
    p_value,
    pair_name,
    placed_by,
    rank_rows,
    score_rows,
    signed,
    template_name,
    visible,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


__all__ = ["details_table", "print_result"]

_WIDTH, _LINES = 80, 25
#: The narrowest that columns are made, where their templates' names have to be folded.
_NARROWEST = 9


def print_result(console: Console, result: Result, *, details: bool = False) -> None:
    """Prints what came of a run: what became of the answers, the scores, the verdict, the prompt, and what is next.

    Args:
        console: Where to print; one made for a pipe prints plain text.
        result: A tuning run, or several templates compared.
        details: Whether to print every held-out score first, with intervals, and where everything is.
    """
    if details and result.heldout:
        console.print(details_table(result))
        for what, where in result.where.items():
            console.print(f"{what}: {where}", markup=False, highlight=False, soft_wrap=True)
        console.print()
    for line, bold in _summary_lines(result, min(_WIDTH, console.width)):
        console.print(line, style="bold" if bold else None, markup=False, highlight=False, soft_wrap=True)


def details_table(result: Result) -> Table:
    """Returns every held-out score of each template with its 95 % interval, and the paired differences with p values.

    Precision and recall at a rank, which count answers that name it and images that have it, follow.
    """
    from rich import box
    from rich.table import Table

    images = f"{result.heldout[0].scores.n:,} {result.heldout[0].split} images"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("score", images):
        table.add_column(name, overflow="fold")
    for name in ("value", "95 % interval", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    scores = zip(*(score_rows(held) for held in result.heldout), strict=True)
    for rows, (key, name, pairs) in zip(scores, difference_rows(result), strict=True):
        first = [_escaped(name)]
        for held, row in zip(result.heldout, rows, strict=True):
            ends = "" if row.ends is None else interval(row.ends, key)
            table.add_row(
                first.pop() if first else "", _escaped(template_name(held.name)), number(row.value, key), ends
            )
        for pair, change in pairs.items():
            if change is not None:
                ends = f"{signed(change.low, key)} to {signed(change.high, key)}"
                shown = signed(change.difference, key)
                table.add_row("", _escaped(pair_name(pair)), shown, ends, p_value(change.p_value))
        table.add_section()
    for name, found in rank_rows(result.heldout):
        for what in ("precision", "recall"):
            first = [_escaped(f"{what} at {visible(name)}")]
            for held, at in zip(result.heldout, found, strict=True):
                share = None if at is None else getattr(at, what)
                if at is None or share is None:
                    continue
                count = at.scores.n_predicted if what == "precision" else at.scores.n_relevant
                shown = f"{template_name(held.name)}, of {count:,}"
                cells = (number(share.estimate), interval(share))
                table.add_row(first.pop() if first else "", _escaped(shown), *cells)
            table.add_section()
    return table


def _summary_lines(result: Result, width: int) -> Iterator[tuple[str, bool]]:
    """Yields the lines of a summary, each with whether it matters most."""
    summary = summarise(result)
    before = [(line, not i) for i, line in enumerate(_table(summary, width))]
    before += [(line, False) for text in _changes(summary) for line in _wrapped(text, width, hanging="  ")]
    after = [line for text in (_failed(result), summary.cost) for line in _wrapped(text, width)]
    after += _pointers(summary, width)
    said = [_said(winner, summary, width) for winner in summary.winners]
    room = _LINES - len(before) - len(after) - sum(map(len, said))
    yield from before
    for winner, lines in zip(summary.winners, said, strict=True):
        yield from lines
        prompt = [
            line for text in visible(winner.prompt).splitlines() for line in _wrapped(text, width, indent="  ") or [""]
        ]
        share = max(room // len(said), 1)
        if len(prompt) > share:
            prompt = [*prompt[: share - 1], f"  ... ({len(prompt) - share + 1:,} more lines)"]
        yield from ((line, False) for line in prompt)
    yield from ((line, False) for line in after)


def _table(summary: Summary, width: int) -> list[str]:
    """Returns the counts and the scores, a column a template; as many tables below each other as the width takes."""
    columns = _shown(summary)
    if not columns:
        return ["There are no held-out results."]
    where = "tuning images" if summary.split == "tuning" else "images the search never saw"
    head = f"On {summary.images:,} {where if summary.winners or summary.split == 'tuning' else 'held-out images'}"
    labels = [*(f"  {name}" for name in summary.counts), *(f"  {name}" for name in summary.scores.values())]
    cells = [_cells(column, summary) for column in columns]
    # Where it is one template against its baseline, the difference stands beside it.
    change = columns[1].changes if len(columns) == 2 else {}
    changes = [""] * len(summary.counts)
    changes += ["  " + difference(change[key], key) if key in change else "" for key in summary.scores]
    wide = max(len(cell) for column in cells for cell in column)
    widths = [max(len(column.title), wide) for column in columns]
    label, beside = max(map(len, (head, *labels))), max(map(len, changes))
    if label + sum(widths) + 2 * len(widths) + beside > width:
        label = max(map(len, labels))
        if label + sum(widths) + 2 * len(widths) + beside > width:
            widths = [max(_NARROWEST, wide)] * len(widths)
    lines = [] if label >= len(head) else [head]
    each = max((width - label) // (widths[0] + 2), 1) if len(set(widths)) == 1 else len(columns)
    for start in range(0, len(columns), each):
        shown = range(start, min(start + each, len(columns)))
        titles = [_folded(columns[i].title, widths[i]) for i in shown]
        tall = max(map(len, titles))
        for row in range(tall):
            name = "" if lines or row < tall - 1 else head
            parts = [title[row - tall + len(title)] if row >= tall - len(title) else "" for title in titles]
            lines.append(_line(name, label, parts, [widths[i] for i in shown]))
        for row, name in enumerate(labels):
            line = _line(name, label, [cells[i][row] for i in shown], [widths[i] for i in shown])
            lines.append(line + changes[row])
    return lines


def _line(name: str, label: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    return (
        f"{name:<{label}}" + "".join(f"  {cell:>{wide}}" for cell, wide in zip(cells, widths, strict=True))
    ).rstrip()


def _shown(summary: Summary) -> list[Column]:
    """Returns the templates that the summary shows: of a front, which may be long, the winner alone."""
    if not summary.winners:
        return list(summary.columns)
    winners = {winner.name for winner in summary.winners}
    return [column for column in summary.columns if column.name in winners or not column.changes]


def _cells(column: Column, summary: Summary) -> list[str]:
    return [
        *(f"{column.counts[name]:,}" for name in summary.counts),
        *(number(column.scores[key], key) for key in summary.scores),
    ]


def _changes(summary: Summary) -> Iterator[str]:
    """Yields differences from the baseline that have no room in the table: of winners in what they aim at."""
    columns = _shown(summary)
    if len(columns) == 2:
        return
    aims = {winner.name: [*winner.run.bounds, winner.aim] for winner in summary.winners}
    for column in columns:
        keys = aims.get(column.name, ["hp", "hr"])
        shown = [key for key in summary.scores if key in keys and key in column.changes]
        found = {metric_name(key): difference(column.changes[key], key) for key in shown}
        if found:
            yield f"{column.title} − baseline: {', '.join(f'{name} {text}' for name, text in found.items())}"


def _said(winner: Winner, summary: Summary, width: int) -> list[tuple[str, bool]]:
    """Returns what stands above a winner's prompt: the verdict, where it is from, how its answers are placed."""
    run, alone = winner.run, len(summary.winners) == 1
    what = "the baseline" if run.winner == 0 else f"iteration {run.winner} of {len(run.iterations) - 1}"
    of = f" ({what}{'' if winner.file is None else f', {winner.file}'})"
    heading = [(line, False) for line in _wrapped(("Prompt" if alone else template_name(winner.name)) + of, width)]
    verdict = [(line, True) for line in _wrapped(winner.verdict, width)]
    placed = [(line, False) for line in _wrapped(visible(placed_by(run) or ""), width)]
    return [*verdict, *placed, *heading] if alone else [*heading, *verdict, *placed]


def _failed(result: Result) -> str:
    failed = failed_calls(result)
    return "" if failed is None else f"Failed calls: {failed}"


def _pointers(summary: Summary, width: int) -> list[str]:
    """Returns the report and the next command, on one line where they fit."""
    parts = [f"Report {summary.report}" if summary.report else "", f"Next: {summary.next}" if summary.next else ""]
    line = "     ".join(filter(None, parts))
    return [line] if line and len(line) <= width else [part for part in parts if part]


def _wrapped(text: str, width: int, indent: str = "", hanging: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _folded(title: str, width: int) -> list[str]:
    return textwrap.wrap(title, width)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
