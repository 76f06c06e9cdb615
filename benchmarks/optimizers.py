"""How well ways to search find the best template, and how far their tuning scores can be believed, at equal VLM calls.

Run `python benchmarks/optimizers.py --out runs/optimizers`; `--seeds 10 --budgets 400` is quick. Searches are replayed
on recorded answers (`landscapes/README.md`): each seed draws the tuning images, a search may ask about these only, and
its winner is scored on all the others. `--from RUN` replays on the answers of a tuning run of your own.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent))

from landscapes.landscape import IntArray, Landscape, landscape_of_run, read_landscape
from search_methods import METHODS, SLOW, Aim, Chosen, Task

from taxtune import atomic
from taxtune.progress import track
from taxtune.report.drawing import CYCLE, GREY, MARKER_CYCLE
from taxtune.report.output import Cell, StudyReport, Table, publish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = (200, 400, 800, 1600, 3200)
SHARES = (0.25, 0.5, 0.75)
TUNING = 400
#: By how much the held-out mean may miss what was promised and still count as kept.
TOLERANCE = 0.005
#: Shares of what can be gained that count as having found it.
REACHED = (0.9, 0.95)
OURS = "taxtune"
AIMS = (Aim("hr_at_hp"), Aim("hp"))


@dataclass(frozen=True)
class Run:
    """A search and what its winner is worth on the held-out images.

    Attributes:
        landscape: Name of the landscape.
        objective: Name of the aim.
        method: Name of the method.
        budget: Answers that it was allowed.
        seed: Seed of the tuning images and of the search.
        template: Number of the winner.
        calls: Answers that it asked for.
        hp: The winner's held-out hP.
        hr: The winner's held-out hR.
        promised: Whether the search says that the winner holds what the objective holds.
        kept: Whether it does on the held-out images, within `TOLERANCE`.
        value: The held-out mean that was to be high.
        best: That mean of the best template of the landscape: of those that hold what is held on
            all images, the one with the highest mean; NaN where none does.
        gain: How much of the way to that was made: from the baseline's hP for "hp", from the
            trivial answer's hR for "hr_at_hp"; 0 where the promise was broken, NaN where nothing is
            to be gained.
        optimism_hp: hP on the tuning images minus held-out hP.
        optimism_hr: hR on the tuning images minus held-out hR.
    """

    landscape: str
    objective: str
    method: str
    budget: int
    seed: int
    template: int
    calls: int
    hp: float
    hr: float
    promised: bool
    kept: bool
    value: float
    best: float
    gain: float
    optimism_hp: float
    optimism_hr: float


def best_known(landscape: Landscape, aim: Aim) -> int | None:
    """Returns the template that is best on all images; None where none holds what the aim holds."""
    hp = landscape.hp.mean(axis=1)
    hr = landscape.hr.mean(axis=1)
    held = aim.missed(hp, hr, hr[0]) <= 1e-12
    return int(np.where(held, aim.aimed(hp, hr), -1.0).argmax()) if held.any() else None


def judge(
    landscape: Landscape, aim: Aim, images: IntArray, chosen: Chosen, best: int | None
) -> dict[str, Any]:
    """Returns the held-out scores of a choice beside those of the best template, by the names of `Run`."""
    means = {}
    for template in {0, chosen.template, chosen.template if best is None else best}:
        means[template] = (
            float(landscape.hp[template, images].mean()),
            float(landscape.hr[template, images].mean()),
        )
    hp, hr = means[chosen.template]
    value = aim.aimed(hp, hr)
    highest = math.nan if best is None else aim.aimed(*means[best])
    start = means[0][0] if aim.name == "hp" else landscape.trivial_hr
    kept = aim.missed(hp, hr, means[0][1]) <= TOLERANCE
    return {
        "hp": hp,
        "hr": hr,
        "promised": chosen.promised,
        "kept": kept,
        "value": value,
        "best": highest,
        "gain": _share(value - start if kept else 0.0, highest - start),
        "optimism_hp": chosen.hp - hp,
        "optimism_hr": chosen.hr - hr,
    }


def _share(made: float, possible: float) -> float:
    return made / possible if possible > 1e-9 else math.nan


def replay(
    landscapes: Sequence[Landscape],
    aims: Sequence[Aim],
    methods: Sequence[str],
    budgets: Sequence[int],
    *,
    seeds: int,
    tuning: int,
    known: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Runs every method with every budget and seed on every landscape; returns a row a `Run`.

    Args:
        landscapes: The landscapes.
        aims: What is searched for.
        methods: Names of `METHODS`.
        budgets: Answers that each may ask for, ascending.
        seeds: How many.
        tuning: Tuning images that each seed draws; the others are held out.
        known: Rows of an earlier call with the same landscapes and tuning images, which need not be
            made again.
    """
    found: list[pd.DataFrame] = []
    plans = list(itertools.product(landscapes, aims, methods))
    with track("searching", len(plans) * seeds) as task:
        for landscape, aim, method in plans:
            images = landscape.hp.shape[1]
            best = best_known(landscape, aim)
            this = {"landscape": landscape.name, "objective": aim.name, "method": method}
            if known is not None:
                some = known[(known[list(this)] == pd.Series(this)).all(axis=1)]
                if set(itertools.product(range(seeds), budgets)) == set(
                    zip(some.seed, some.budget, strict=True)
                ):
                    found.append(some)
                    continue
            runs: list[Run] = []
            for seed in range(seeds):
                order = np.random.default_rng([seed, images]).permutation(images)
                choices = (METHODS | SLOW)[method](
                    Task(landscape, order[:tuning], aim, seed), budgets
                )
                for budget, chosen in zip(budgets, choices, strict=True):
                    worth = judge(landscape, aim, order[tuning:], chosen, best)
                    of = {
                        "budget": budget,
                        "seed": seed,
                        "template": chosen.template,
                        "calls": chosen.calls,
                    }
                    runs.append(Run(**this, **of, **worth))
                task.advance()
            found.append(pd.DataFrame([asdict(run) for run in runs]))
    # What is read back from a file rounds to the same numbers.
    return pd.concat(found, ignore_index=True).round(12)


# -- tables ----------------------------------------------------------------------------------------

_GROUP = ["landscape", "objective", "method", "budget"]


def summarise(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns means over seeds and their standard errors (`se_...`), a row each landscape, aim, method and budget."""
    kept = runs.kept.astype(float)
    made = {
        "short": runs.best - runs.value,
        "kept": kept,
        "kept_promises": kept.where(runs.promised),
    }
    runs = runs.assign(**made, promised=runs.promised.astype(float))
    columns = [
        "calls",
        "hp",
        "hr",
        *made,
        "promised",
        "value",
        "best",
        "gain",
        "optimism_hp",
        "optimism_hr",
    ]
    grouped = runs.groupby(_GROUP, sort=False)[columns]
    return grouped.mean().join(grouped.sem().add_prefix("se_")).reset_index()


def over_landscapes(means: pd.DataFrame) -> pd.DataFrame:
    """Returns the means over the landscapes, with the standard errors of these."""
    plain = [name for name in means.columns if name not in _GROUP and not name.startswith("se_")]
    grouped = means.groupby(_GROUP[1:], sort=False)
    errors = grouped[[f"se_{name}" for name in plain]].agg(
        lambda some: math.sqrt((some**2).sum()) / len(some)
    )
    return (
        grouped[plain]
        .mean()
        .join(errors)
        .reset_index()
        .assign(landscape="all")[list(means.columns)]
    )


def _results(means: pd.DataFrame, objective: str, name: str) -> Table:
    """The table of one aim: every landscape, method and budget."""
    shares = {
        "kept, %": "kept",
        "promised, %": "promised",
        "promises kept, %": "kept_promises",
        "gain, %": "gain",
    }
    shown = {
        "hP": "hp",
        "hR": "hr",
        "below the best": "short",
        "optimism in hP": "optimism_hp",
        "optimism in hR": "optimism_hr",
    }
    rows = []
    for row in means[means.objective == objective].to_dict("records"):
        rows.append(
            (
                row["landscape"],
                row["method"],
                row["budget"],
                round(row["calls"]),
                *(_with_error(row[column], row[f"se_{column}"]) for column in shown.values()),
                *(
                    _with_error(100 * row[column], 100 * row[f"se_{column}"], 0)
                    for column in shares.values()
                ),
            )
        )
    return Table(
        name,
        f"Held-out scores of the winners tuned for {objective}, with standard errors over the seeds",
        ("landscape", "method", "budget", "calls", *shown, *shares),
        tuple(rows),
    )


def _with_error(mean: float, error: float, digits: int = 4) -> str:
    if math.isnan(mean):
        return "–"
    text = f"{mean:.{digits}f}"
    return f"{text.removeprefix('-') if float(text) == 0 else text.replace('-', '−')} ± {error:.{digits}f}"


def _by_budget(means: pd.DataFrame, column: str, title: str) -> Table:
    """A column of the means over all landscapes, in %: a row for each aim and method, a column for each budget."""
    budgets = sorted(set(means.budget))
    rows = []
    for (objective, method), some in means.groupby(["objective", "method"], sort=False):
        of = some.set_index("budget")
        cells = (_with_error(100 * of[column][b], 100 * of[f"se_{column}"][b], 1) for b in budgets)
        rows.append((objective, method, *cells))
    return Table(
        column,
        title,
        ("objective", "method", *(f"{budget:,} calls" for budget in budgets)),
        tuple(rows),
    )


def calls_to_reach(means: pd.DataFrame) -> pd.DataFrame:
    """Returns the calls after which the mean gain stays at each of `REACHED` or above, interpolated in their logarithm.

    NaN where it is not reached with the largest budget; the smallest budget where it is reached from the start.
    """
    found = []
    groups = means.groupby(["landscape", "objective", "method"], sort=False)
    for share, (key, some) in itertools.product(REACHED, groups):
        calls = np.log2(some.budget.to_numpy())
        gain = some.gain.to_numpy()
        below = np.flatnonzero(gain < share)
        if below.size == 0:
            reached = float(2 ** calls[0])
        elif below[-1] == gain.size - 1:
            reached = math.nan
        else:
            low = below[-1]
            way = (share - gain[low]) / (gain[low + 1] - gain[low])
            reached = float(2 ** (calls[low] + way * (calls[low + 1] - calls[low])))
        found.append((f"{share:.0%}", *key, reached))
    return pd.DataFrame(found, columns=["gain", "landscape", "objective", "method", "calls"])


def _reach_table(reached: pd.DataFrame) -> Table:
    index = ["objective", "landscape", "gain"]
    wide = reached.pivot_table(
        index=index, columns="method", values="calls", sort=False, dropna=False
    )
    wide = wide.reindex(columns=list(dict.fromkeys(reached.method)))
    rows = tuple(
        (*key, *map(float, values)) for key, values in zip(wide.index, wide.to_numpy(), strict=True)
    )
    return Table(
        "reach",
        "VLM calls after which the mean gain stays at 90 % and 95 % of what can be gained",
        (*index, *wide.columns),
        rows,
        digits=dict.fromkeys(wide.columns, 0),
        notes=(
            "A dash: not with the largest budget. Between two budgets the logarithm of the calls is interpolated.",
        ),
    )


def steps(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns the change of the gain with each larger budget: mean of the paired differences and its standard error."""
    found = []
    for key, some in runs.groupby(["landscape", "objective", "method"], sort=False):
        wide = some.pivot_table(index="seed", columns="budget", values="gain")
        for less, more in itertools.pairwise(wide.columns):
            change = wide[more] - wide[less]
            found.append((*key, less, more, change.mean(), change.sem()))
    return pd.DataFrame(
        found, columns=["landscape", "objective", "method", "from", "to", "change", "se"]
    )


def _monotone_table(changes: pd.DataFrame) -> Table:
    """The worst step of each method and aim, over landscapes and budgets."""
    rows: list[tuple[Cell, ...]] = []
    for (objective, method), some in changes.groupby(["objective", "method"], sort=False):
        worst = some.loc[some.change.idxmin()]
        down = int((some.change < -some.se).sum())
        rows.append(
            (
                objective,
                method,
                _with_error(worst.change, worst.se),
                f"{worst['from']} to {worst['to']}, {worst.landscape}",
                down,
                len(some),
            )
        )
    return Table(
        "monotone",
        "What a larger budget changes in the gain: the worst step",
        ("objective", "method", "worst change", "where", "steps down", "steps"),
        tuple(rows),
        notes=("Steps down: those whose mean falls by more than its standard error.",),
    )


# -- figures ---------------------------------------------------------------------------------------


def draw(means: pd.DataFrame, objective: str) -> Figure:
    """Draws, over the calls, what the winners are worth on the held-out images, what they keep and their optimism."""
    from matplotlib.figure import Figure

    means = means[means.objective == objective]
    landscapes = list(dict.fromkeys(means.landscape))
    methods = list(dict.fromkeys(means.method))
    held = (
        f"hP kept (%, within {TOLERANCE:g})"
        if objective == "hr_at_hp"
        else f"hR floor kept (%, within {TOLERANCE:g})"
    )
    panels = (("gain", 100, "gain (%)"), ("kept", 100, held), ("optimism_hp", 1, "optimism in hP"))
    figure = Figure(figsize=(3.3 * len(landscapes) + 0.6, 8.2))
    axes = figure.subplots(len(panels), len(landscapes), sharex=True, sharey="row", squeeze=False)
    for (row, (column, scale, label)), (place, landscape) in itertools.product(
        enumerate(panels), enumerate(landscapes)
    ):
        ax = axes[row, place]
        for number, method in enumerate(methods):
            some = means[(means.landscape == landscape) & (means.method == method)]
            ours = method == OURS
            ax.errorbar(
                some.budget,
                scale * some[column],
                yerr=scale * some[f"se_{column}"],
                color=CYCLE[number % len(CYCLE)],
                marker=MARKER_CYCLE[number % len(MARKER_CYCLE)],
                markersize=6 if ours else 4.5,
                linewidth=2.2 if ours else 1.2,
                elinewidth=0.9,
                zorder=3 if ours else 2,
                label=method,
            )
        ax.set_xscale("log", base=2)
        ax.set_xticks(
            sorted(set(means.budget)), [f"{budget:,}" for budget in sorted(set(means.budget))]
        )
        ax.minorticks_off()
        level = {"gain": 100 * REACHED[-1], "kept": 95, "optimism_hp": 0}[column]
        ax.axhline(level, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
        if place == 0:
            ax.set_ylabel(label)
        if row == 0:
            ax.set_title(landscape, fontsize=10)
        if row == len(panels) - 1:
            ax.set_xlabel("VLM calls")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        names,
        loc="outside upper center",
        ncols=len(methods),
        title=f"tuned for {objective}",
    )
    figure.set_layout_engine("constrained")
    return figure


# -- the command -----------------------------------------------------------------------------------


def study(runs: pd.DataFrame, settings: Mapping[str, Any]) -> StudyReport:
    """Returns the comparison as tables and figures.

    Args:
        runs: A row for each `Run`.
        settings: What the runs were made with, for the record.
    """
    means = summarise(runs)
    pooled = over_landscapes(means)
    reached = calls_to_reach(pd.concat([pooled, means]))
    changes = steps(runs)
    objectives = list(dict.fromkeys(runs.objective))
    return StudyReport(
        "optimizers",
        "How well ways to search find the best template, and how far their tuning scores can be believed",
        settings,
        (
            *(_results(pooled, name, f"summary-{name}") for name in objectives),
            _by_budget(pooled, "gain", "Gain, in % of what can be gained, over all landscapes"),
            _by_budget(
                pooled,
                "kept",
                f"Runs that keep what the objective holds, within {TOLERANCE:g}, in %",
            ),
            _by_budget(
                pooled,
                "kept_promises",
                "The same of the runs that say that their winner holds it, in %",
            ),
            _reach_table(reached),
            _monotone_table(changes),
            *(_results(means, name, f"results-{name}") for name in objectives),
        ),
        {f"optimizers-{name}": partial(draw, means, name) for name in objectives},
        data={"means": means.to_dict("records"), "steps": changes.to_dict("records")},
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="RUN", help="replay on a tuning run's answers"
    )
    names = f"any of {', '.join(METHODS)} (the default), {', '.join(SLOW)}"
    known = [*METHODS, *SLOW]
    parser.add_argument(
        "--methods", nargs="+", choices=known, default=list(METHODS), metavar="METHOD", help=names
    )
    goals = [aim.name for aim in AIMS]
    parser.add_argument(
        "--objectives", nargs="+", choices=goals, default=goals, help="(default %(default)s)"
    )
    parser.add_argument(
        "--budgets",
        nargs="+",
        type=int,
        default=list(BUDGETS),
        help="VLM calls (default %(default)s)",
    )
    parser.add_argument(
        "--seeds", type=int, default=50, help="number of seeds (default %(default)s)"
    )
    parser.add_argument(
        "--degraded", nargs="+", type=float, default=list(SHARES), help="shares of degraded images"
    )
    parser.add_argument(
        "--tuning", type=int, help=f"tuning images (default {TUNING}; half of a run's)"
    )
    parser.add_argument(
        "--out", type=Path, help="folder for tables, figures, study.json and runs.csv"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="take the runs of OUT/runs.csv and search what is missing",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    if given.again and given.out is None:
        parser.error("--again needs --out")
    if given.source is None:
        recorded = read_landscape()
        landscapes = [recorded.with_degraded(share) for share in given.degraded]
    else:
        landscapes = [landscape_of_run(given.source)]
    tuning = given.tuning or (TUNING if given.source is None else landscapes[0].hp.shape[1] // 2)
    file = None if given.out is None else given.out / "runs.csv"
    earlier = pd.read_csv(file) if given.again else None
    aims = [aim for aim in AIMS if aim.name in given.objectives]
    runs = replay(
        landscapes,
        aims,
        given.methods,
        sorted(given.budgets),
        seeds=given.seeds,
        tuning=tuning,
        known=earlier,
    )
    if file is not None:
        atomic.make_folder(given.out)
        atomic.write_text(file, runs.to_csv(index=False))
    settings = {
        "landscapes": {each.name: list(each.hp.shape) for each in landscapes},
        "methods": given.methods,
        "budgets": sorted(given.budgets),
        "seeds": given.seeds,
        "tuning_images": tuning,
        "tolerance": TOLERANCE,
    }
    publish(study(runs, settings), out=given.out, as_json=given.json)


if __name__ == "__main__":
    main()
