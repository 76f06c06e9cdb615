"""A repeated run: its table in the terminal, its figure, and its page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.metrics.names import metric_name
from taxtune.report import scores as wording
from taxtune.report.account import account_lines
from taxtune.report.drawing import (
    COLOURS,
    INK,
    MARKERS,
    OWN_COLOUR,
    OWN_MARKER,
    PAPER,
    draw_iso_lines,
    inline_svg,
    padded,
)
from taxtune.report.html import page
from taxtune.report.scores import number, signed
from taxtune.tuning.repeats import RepeatsResult, Spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

__all__ = ["draw_repeats", "print_repeats", "render_repeats", "repeats_headline", "repeats_rows"]


def repeats_headline(result: RepeatsResult) -> str:
    """Returns the finding in a sentence or two."""
    runs, images = len(result.runs), result.runs[0].heldout[0].scores.n
    said = []
    for key in _main(result):
        changes = [run.differences[0].metrics[key] for run in result.runs if key in run.differences[0].metrics]
        up, down = (sum(each.significant and sign * each.difference > 0 for each in changes) for sign in (1, -1))
        mean, ends = _cell(result.differences[key], key, sign=True)
        within = "" if ends is None else f" ({ends})"
        said.append(f"{metric_name(key)} {mean}{within}, significantly up in {up} and down in {down} of them")
    for each in result.runs[0].constraints:
        if each.confidence > 0.5:
            kept = sum(
                run.heldout_winner.scores.get(each.measure) >= each.bound(run.heldout[0].scores) for run in result.runs
            )
            said.append(f"at least {number(each.least)} in {metric_name(each.measure)} is kept in {kept} of them")
    return (
        f"The winners of {runs} searches with different seeds, against the baseline on the same {images} held-out "
        f"images: {'; '.join(said)}."
    )


def repeats_rows(result: RepeatsResult) -> list[tuple[str, list[tuple[str, str | None]]]]:
    """Returns each score's name, and for baseline, winners and differences the mean and, if there is one, the range."""
    parts = ((result.baselines, False), (result.winners, False), (result.differences, True))
    rows = []
    for key in result.winners:
        rows.append((metric_name(key), [_cell(found.get(key), key, sign=sign) for found, sign in parts]))
    return rows


def _cell(spread: Spread | None, key: str, *, sign: bool) -> tuple[str, str | None]:
    if spread is None:
        return number(None), None
    write = signed if sign else number
    if spread.lowest == spread.highest:  # the baseline, unless the model samples
        return write(spread.mean, key), None
    return (
        f"{write(spread.mean, key)} ± {number(spread.sd, key)}",
        f"{write(spread.lowest, key)} to {write(spread.highest, key)}",
    )


def print_repeats(console: Console, result: RepeatsResult) -> None:
    """Prints a repeated run: the scores with their spread, then a line a run, then where to look."""
    from rich.markup import escape

    runs, images = len(result.runs), result.runs[0].heldout[0].scores.n
    console.print(
        f"{runs} runs, {images} held-out images: mean ± standard deviation over the runs, lowest to highest",
        style="bold",
        highlight=False,
    )
    table = _table("score", "baseline", "winners", "winner\n− baseline")
    for name, cells in repeats_rows(result):
        table.add_row(escape(name), *("\n".join(filter(None, cell)) for cell in cells), end_section=True)
    console.print(table)
    table = _table("run", "seed", "winner", *(name.replace(" ", "\n") for name in _columns(result)))
    for row in _runs(result):
        shown = ["\n".join(filter(None, cell)) for cell in row["cells"]]
        table.add_row(str(row["number"]), str(row["seed"]), f"#{row['winner']}", *shown, end_section=True)
    console.print(table)
    console.print(repeats_headline(result), highlight=False)
    for what, text in account_lines(result.account):
        console.print(f"[bold]{what}[/bold]: {escape(text)}", highlight=False, soft_wrap=True)
    for what, where in result.where.items():
        console.print(f"[bold]{escape(what)}[/bold]: {escape(where)}", highlight=False, soft_wrap=True)


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    return table


def _columns(result: RepeatsResult) -> list[str]:
    return [f"{metric_name(key)} {where}" for key in _main(result) for where in ("tuning", "held-out", "change")]


def _main(result: RepeatsResult) -> list[str]:
    """Returns the scores that the objective looks at, of those that there are."""
    run = result.runs[0]
    held = [each.measure for each in run.constraints]
    aims = [] if run.outlook is None else [aim.measure for aim in run.outlook.aims]
    wanted = dict.fromkeys([*filter(None, aims), *held, "hp", "hr"])
    return [key for key in wanted if key in result.differences]


def _runs(result: RepeatsResult) -> list[dict[str, Any]]:
    rows = []
    for i, (run, seeds) in enumerate(zip(result.runs, result.seeds, strict=True)):
        tuned, held, changes = run.best.scores, run.heldout_winner.scores, run.differences[0].metrics
        cells: list[tuple[str, str | None]] = []
        for key in _main(result):
            change = changes[key]
            cells += [
                (number(wording.score_of(tuned, key), key), None),
                (number(held.get(key), key), None),
                (signed(change.difference, key), f"p {wording.p_value(change.p_value)}"),
            ]
        rows.append(
            {
                "number": i + 1,
                "seed": seeds["proposer"],
                "winner": run.winner,
                "cells": cells,
                "template": run.heldout_winner.template,
                "report": f"{Path(run.folder).name}/report.html",
            }
        )
    return rows


def draw_repeats(result: RepeatsResult) -> Figure:
    """Draws the hP-hR plane with the baseline and every run's winner on the held-out images, joined by arrows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 4.6))
    axes = figure.add_subplot()
    points = [(held.scores.hr, held.scores.hp) for run in result.runs for held in run.heldout]
    axes.set_xlim(*padded([x for x, _ in points]))
    axes.set_ylim(*padded([y for _, y in points]))
    draw_iso_lines(axes)
    colour = COLOURS.get(result.objective, OWN_COLOUR)
    marker = MARKERS.get(result.objective, OWN_MARKER)
    numbers: dict[tuple[float, float], list[str]] = {}
    for i, run in enumerate(result.runs):
        before, after = run.heldout[0].scores, run.heldout_winner.scores
        if (before.hr, before.hp) != (after.hr, after.hp):
            axes.annotate(
                "",
                (after.hr, after.hp),
                (before.hr, before.hp),
                arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1, "shrinkA": 7, "shrinkB": 7, "alpha": 0.5},
                zorder=3,
            )
        for scores, shape, ink, name in ((before, "D", INK, "baseline"), (after, marker, colour, "winner of a run")):
            label = name if i == 0 else None
            axes.scatter(
                [scores.hr], [scores.hp], s=70, marker=shape, color=ink, edgecolors=PAPER, zorder=5, label=label
            )
        numbers.setdefault((after.hr, after.hp), []).append(str(i + 1))
    for place, names in numbers.items():
        axes.annotate(
            ", ".join(names), place, xytext=(7, 5), textcoords="offset points", fontsize=9, color=INK, zorder=6
        )
    axes.set_xlabel("hierarchical recall, hR")
    axes.set_ylabel("hierarchical precision, hP")
    axes.legend(loc="upper left", bbox_to_anchor=(1.12, 1.02), borderaxespad=0)
    return figure


def render_repeats(result: RepeatsResult) -> str:
    """Returns the page as HTML; everything that came from a model or a file is escaped."""
    from markupsafe import Markup

    return page(
        "repeats.html.j2",
        title=f"{result.name}: {len(result.runs)} searches for {metric_name(result.objective)}",
        headline=repeats_headline(result),
        images=result.runs[0].heldout[0].scores.n,
        rows=repeats_rows(result),
        columns=_columns(result),
        runs=_runs(result),
        account=account_lines(result.account),
        plane=Markup(inline_svg(draw_repeats, result, "repeats")),
    )
