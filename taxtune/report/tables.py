"""Results as tables in the terminal; plain text, without colours, where the output is no terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from taxtune.metrics.statistics import Interval, PairedDifference
from taxtune.report.account import account_lines
from taxtune.report.audited import audit_sentences
from taxtune.report.outlook import optimism_in_words
from taxtune.report.summary import verdict
from taxtune.report.wording import (
    INFORMATION,
    METRICS,
    SHARES,
    Result,
    difference_rows,
    failed_calls,
    headline,
    interval,
    metric_name,
    metrics_of,
    number,
    p_value,
    pair_name,
    placed_by,
    rank_rows,
    result_runs,
    score_of,
    score_rows,
    signed,
    template_name,
    visible,
)
from taxtune.tuning.records import HeldoutResult, IterationRecord, TuneResult

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


__all__ = [
    "differences_table",
    "heldout_table",
    "iterations_table",
    "print_failed_calls",
    "print_result",
    "ranks_table",
]


def heldout_table(result: Result) -> Table:
    """Returns the held-out scores: a row a score, a column a template, with 95 % intervals.

    Where the run is restricted to a part of the taxonomy, the scores on the whole of it follow.
    """
    table = _table()
    table.add_column("score", no_wrap=True)
    for held in result.heldout:
        table.add_column(template_name(held.name), justify="right", no_wrap=True)
    for rows in zip(*(score_rows(held) for held in result.heldout), strict=True):
        cells = [number(r.value, r.key) + ("" if r.ends is None else f"\n{interval(r.ends, r.key)}") for r in rows]
        table.add_row(_escaped(rows[0].name), *cells, end_section=True)
    return table


def differences_table(result: Result) -> Table:
    """Returns the paired differences of held-out scores: a row a score, a column a pair; bold where p < 0.05."""
    pairs = [each.key for each in result.differences]
    table = _table()
    table.add_column("score")  # the numbers leave long names little room on a narrow terminal; they may wrap
    for pair in pairs:
        table.add_column(pair_name(pair).replace(" − ", "\n− "), justify="right", no_wrap=True)
    for key, name, found in difference_rows(result):
        table.add_row(_escaped(name), *(_change(found[pair], key) for pair in pairs), end_section=True)
    return table


def ranks_table(result: Result) -> Table:
    """Returns precision and recall at each rank of the held-out answers: two rows a rank, a column a template."""
    table = _table()
    table.add_column("rank", overflow="fold")
    table.add_column("", no_wrap=True)
    for held in result.heldout:
        table.add_column(template_name(held.name), justify="right", no_wrap=True)
    for name, found in rank_rows(result.heldout):
        said = (_of(None, 0) if row is None else _of(row.precision, row.scores.said) for row in found)
        due = (_of(None, 0) if row is None else _of(row.recall, row.scores.due) for row in found)
        table.add_row(_escaped(visible(name)), "precision", *said)
        table.add_row("", "recall", *due, end_section=True)
    return table


def iterations_table(run: TuneResult) -> Table:
    """Returns a run's iterations: scores on the tuning split; the winner, answers missing and taken from the store.

    Of the information-weighted scores it shows the one tuned for, or else ihP, unless a judge's rating has its place: a
    terminal is narrow, and the report has them all.
    """
    table = _table()
    table.add_column("#", justify="right", no_wrap=True)
    found = metrics_of(run)
    own = any(key not in (*METRICS, *INFORMATION, *SHARES) for key in found)
    kept = run.objective if run.objective in INFORMATION else None if own else "ihp"
    shown = {key: name for key, name in found.items() if key not in INFORMATION or key == kept}
    for name in shown.values():
        table.add_column(name.replace("off the ", "off the\n"), justify="right", no_wrap=True)
    table.add_column("note", min_width=10)  # the numbers leave it little room on a narrow terminal; it may wrap
    for record in run.iterations:
        scores = [number(score_of(record.scores, key), key) for key in shown]
        table.add_row(
            str(record.iteration),
            *scores,
            _remark(record, run),
            style="bold" if record.iteration == run.winner else "dim" if record.state != "complete" else None,
        )
    return table


def print_result(console: Console, result: Result, *, iterations: bool = True) -> None:
    """Prints a result: the finding, the tables, the winning templates and where to look.

    Args:
        console: Where to print; one made for a pipe prints plain text.
        result: A tuning run, or several compared.
        iterations: Whether to print every iteration too.
    """
    runs = result_runs(result)
    for run in runs if iterations else ():
        floor = "".join(f" with {metric_name(key)} at least {number(bound)}" for key, bound in run.bounds.items())
        _heading(console, f"Tuning for {metric_name(run.objective)}{floor}: every iteration on the tuning split")
        console.print(iterations_table(run))
        for record in run.iterations:
            if record.reason is not None:
                reason = visible(record.reason)
                console.print(f"{record.iteration} {record.state}: {reason}", markup=False, highlight=False)
        console.print()
    if result.heldout:
        _heading(console, f"Held-out split, {_images(result.heldout)}: score and 95 % interval")
        console.print(heldout_table(result))
    if any(held.ranks for held in result.heldout):
        _heading(
            console, "Precision (over answers that name a rank) and recall (over answers that should) at each rank"
        )
        console.print(ranks_table(result))
    if result.differences:
        _heading(console, "Paired differences on the held-out images: 95 % interval and p value")
        console.print(differences_table(result))
    for run in runs:
        winner = next((record for record in run.iterations if record.iteration == run.winner), None)
        if winner is not None and winner.template is not None:
            _heading(console, f"Winning template for {metric_name(run.objective)}, from iteration {winner.iteration}")
            # Printed as it is, so that it can be copied: no markup, no wrapping.
            console.print(
                textwrap.indent(visible(winner.template), "    "), markup=False, highlight=False, soft_wrap=True
            )
            if (policy := placed_by(run)) is not None:
                console.print(visible(policy), markup=False, highlight=False)
            console.print()
    console.print(headline(result), highlight=False)
    for run in runs:
        of = "" if len(runs) == 1 else f", {template_name(run.objective)}"
        notes = [(f"verdict{of}", verdict(run))] if run.selection else []
        notes += [(f"optimism{of}", optimism_in_words(run))] if run.optimism else []
        for name, text in notes:
            _sentence(console, name, text)
    for sentence in audit_sentences(result):
        _sentence(console, "mapper", visible(sentence))
    for name, text in account_lines(result.account):
        _sentence(console, name, text)
    print_failed_calls(console, result)
    # Commands and files, which are whole lines so that they can be copied.
    for what, where in result.where.items():
        console.print(f"[bold]{_escaped(what)}[/bold]: {_escaped(where)}", highlight=False, soft_wrap=True)


def print_failed_calls(console: Console, result: Result) -> None:
    """Prints how many calls failed in which way, if any did."""
    failed = failed_calls(result)
    if failed is not None:
        _sentence(console, "failed calls", failed)


def _sentence(console: Console, name: str, text: str) -> None:
    """Prints what there is to say of something; in a terminal it is broken between words, in a log not at all."""
    text = f"[bold]{_escaped(name)}[/bold]: {_escaped(text)}"
    console.print(text, highlight=False, soft_wrap=not console.is_terminal)


def _heading(console: Console, text: str) -> None:
    console.print(text, style="bold", highlight=False)


def _table() -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)


def _change(value: PairedDifference | None, key: str) -> str:
    if value is None:
        return number(None)
    change = signed(value.difference, key)
    if value.significant:
        change = f"[bold]{change}[/bold]"
    return f"{change}\n{signed(value.low, key)} to {signed(value.high, key)}\np {p_value(value.p_value)}"


def _of(share: Interval | None, count: int) -> str:
    return number(None) if share is None else f"{number(share.estimate)} of {count:,}\n{interval(share)}"


def _images(heldout: tuple[HeldoutResult, ...]) -> str:
    return _count(heldout[0].scores.n if heldout else 0, "image")


def _count(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}"


def _remark(record: IterationRecord, run: TuneResult) -> str:
    notes = []
    if record.iteration == 0:
        notes.append("baseline")
    if record.iteration == run.winner:
        notes.append("winner")
    if record.state != "complete":
        notes.append(record.state)
    if not record.feasible:
        notes.append(f"{metric_name(next(iter(run.bounds), ''))} too low")
    if record.missing:
        notes.append(f"{record.missing} missing")
    if record.usage.from_store:
        notes.append(f"{record.usage.from_store} stored")
    return "; ".join(notes)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
