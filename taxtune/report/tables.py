"""Results as tables in the terminal; plain text, without colours, where the output is no terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from taxtune.metrics.statistics import Interval, PairedDifference
from taxtune.report.wording import (
    METRICS,
    Result,
    headline,
    interval,
    metric_name,
    number,
    p_value,
    pair_name,
    result_differences,
    result_runs,
    signed,
    template_name,
    visible,
)
from taxtune.tuning.records import ComparisonResult, HeldoutResult, IterationRecord, TuneResult

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from taxtune.tuning.plan import Plan

__all__ = [
    "differences_table",
    "heldout_table",
    "iterations_table",
    "print_comparison",
    "print_evaluation",
    "print_plan",
    "print_result",
    "print_tune",
]


def heldout_table(result: Result) -> Table:
    """Returns the held-out scores: a row a score, a column a template, with 95 % intervals."""
    table = _table()
    table.add_column("score", no_wrap=True)
    for held in result.heldout:
        table.add_column(template_name(held.name), justify="right", no_wrap=True)
    for key, name in METRICS.items():
        cells = []
        for held in result.heldout:
            found = held.intervals.get(key)
            value = number(getattr(held.scores, key), key)
            cells.append(value if found is None else f"{value}\n{interval(found, key)}")
        table.add_row(name, *cells, end_section=True)
    return table


def differences_table(result: Result) -> Table:
    """Returns the paired differences of held-out scores: a row a score, a column a pair; bold where 0 is outside."""
    pairs = result_differences(result)
    table = _table()
    table.add_column("score", no_wrap=True)
    for pair in pairs:
        table.add_column(pair_name(pair).replace(" − ", "\n− "), justify="right", no_wrap=True)
    for key, name in METRICS.items():
        cells = [_change(found.get(key), key) for found in pairs.values()]
        table.add_row(name, *cells, end_section=True)
    return table


def iterations_table(run: TuneResult) -> Table:
    """Returns a run's iterations: scores on the tuning split, answers missing and taken from the store, the winner."""
    table = _table()
    table.add_column("#", justify="right", no_wrap=True)
    for name in METRICS.values():
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("missing", "stored"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("note", no_wrap=True)
    for record in run.iterations:
        scores = [number(None if record.scores is None else getattr(record.scores, key), key) for key in METRICS]
        table.add_row(
            str(record.iteration),
            *scores,
            str(record.missing),
            str(record.usage.from_store),
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
        floor = "" if run.hr_floor is None else f" with hR at least {number(run.hr_floor)}"
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
    if result_differences(result):
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
            console.print()
    console.print(headline(result), highlight=False)
    for what, where in result.where.items():
        console.print(f"[bold]{_escaped(what)}[/bold]: {_escaped(where)}", highlight=False, soft_wrap=True)


def _heading(console: Console, text: str) -> None:
    console.print(text, style="bold", highlight=False)


def _table() -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False)


def print_tune(result: TuneResult, console: Console | None = None) -> None:
    """Prints a tuning run on standard output."""
    print_result(console or _stdout(), result)


def print_comparison(result: ComparisonResult, console: Console | None = None) -> None:
    """Prints a comparison on standard output."""
    print_result(console or _stdout(), result)


def print_evaluation(result: Mapping[str, Any], console: Console | None = None) -> None:
    """Prints the scores of a template beside the baseline's.

    Args:
        result: `recipe`, `split`, `images`, `results` (each with `name`, `scores`, `intervals`) and `differences` by
            metric, as plain values.
        console: Where to print; standard output by default.
    """
    console = console or _stdout()
    used = result["results"][0]["scores"]["n"] if result["results"] else 0
    split = "held-out" if result["split"] == "heldout" else result["split"]
    missing = f", {result['images'] - used} without an answer" if used < result["images"] else ""
    _heading(console, f"{result['recipe']}, {split} split, {_count(used, 'image')}{missing}: score and 95 % interval")
    table = _table()
    table.add_column("score", no_wrap=True)
    for held in result["results"]:
        table.add_column(template_name(held["name"]), justify="right", no_wrap=True)
    table.add_column("template\n− baseline", justify="right", no_wrap=True)
    for key, name in METRICS.items():
        cells = [
            f"{number(held['scores'][key], key)}\n{interval(Interval(**held['intervals'][key]), key)}"
            for held in result["results"]
        ]
        found = result["differences"].get(key)
        table.add_row(
            name, *cells, _change(None if found is None else PairedDifference(**found), key), end_section=True
        )
    console.print(table)


def print_plan(plan: Plan, console: Console | None = None) -> None:
    """Prints what a run will do and what stands in its way.

    Args:
        plan: The plan.
        console: Where to print; standard output by default.
    """
    console = console or _stdout()
    objectives = ", ".join(metric_name(objective) for objective in plan.objectives)
    lines = {
        "recipe": plan.name,
        "objective": objectives,
        "taxonomy": "not read" if plan.nodes is None else _count(plan.nodes, "node"),
        "images": "not read"
        if plan.images is None
        else f"{plan.images:,}; tuning {plan.tuning_images:,}, held-out {plan.heldout_images:,}",
        "model": ", ".join(str(value) for value in plan.vlm.values()),
    }
    if plan.trivial_hp is not None and plan.trivial_hr is not None:
        lines["always the domain's root"] = f"hP {number(plan.trivial_hp)}, hR {number(plan.trivial_hr)}"
    lines["VLM calls"] = f"at most {plan.vlm_calls:,}"
    lines["LLM calls"] = f"{plan.llm_calls:,}" + (
        f" to {plan.llm_calls_at_most:,}" if plan.llm_calls_at_most > plan.llm_calls else ""
    )
    width = max(map(len, lines))
    for name, text in lines.items():
        console.print(f"{name:<{width}}  {visible(text)}", markup=False, highlight=False, soft_wrap=True)
    console.print()
    for problem in plan.problems:
        console.print(f"missing: {visible(problem)}", markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{_count(len(plan.problems), 'problem')}; the run cannot start." if plan.problems else "Ready to run."
    )


def _stdout() -> Console:
    from rich.console import Console

    return Console()


def _change(value: PairedDifference | None, key: str) -> str:
    if value is None:
        return number(None)
    change = signed(value.difference, key)
    if value.low > 0 or value.high < 0:
        change = f"[bold]{change}[/bold]"
    return f"{change}\n{signed(value.low, key)} to {signed(value.high, key)}\np {p_value(value.p_value)}"


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
        notes.append("hR too low")
    return "; ".join(notes)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
