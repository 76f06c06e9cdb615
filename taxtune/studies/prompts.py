"""What another prompt does to hP and hR (paper 1, §7.1, Figure 7), and to measures of text (paper 2).

Everything works on three frames: a row per model, prompt and example (the placed answers), per model, prompt and metric
(scores), and per model, prompt and metric beside the baseline prompt (arrows).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from typer import Argument, Option

from taxtune.answers import AnswerTable
from taxtune.answers.records import run_evaluations, split_run
from taxtune.errors import DataError
from taxtune.mapping.unwrap import unwrap
from taxtune.metrics.registry import Measure
from taxtune.metrics.statistics import SIGNIFICANCE, Sample, paired_bootstrap
from taxtune.options import ResamplesOption, measure_option
from taxtune.progress import track_each
from taxtune.report.drawing import CYCLE, FAINT, INK, MARKER_CYCLE, PAPER, padded
from taxtune.report.output import StudyReport, Table, cut
from taxtune.scoring.texts import mean_interval
from taxtune.studies.contestants import (
    answer_counts,
    check_headings,
    check_measures,
    gather,
    measure_notes,
    missing_note,
    named_paths,
    place_answers,
    read_tables,
    text_scores,
    trivial_answer,
)
from taxtune.studies.frames import groups
from taxtune.studies.output import both_trees_table, draw_dots, frame_table
from taxtune.studies.placements import PlacementScorer, wide_intervals
from taxtune.studies.settings import NOT_RECORDED, ContestantSettings
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PromptsSettings", "compare_prompts", "run"]

FloatArray = NDArray[np.float64]
#: The answers under each prompt, by model and prompt.
Answers = Mapping[tuple[str, str], pd.DataFrame]

#: The metrics of the tables, as the paper writes them.
_SHOWN = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy"}
_TITLE = "How the prompt affects hierarchical precision and recall"
_OVER = "a prompt's scores are over its own answers, a difference over the examples answered under both prompts"
_KEY = ["model", "prompt"]
_ARROW = ["model", "from", "to", "examples"]
# What an arrow says, by the directions in which hP and hR have moved.
_READINGS = {
    (0, 0): "no clear change",
    (1, 1): "better in both",
    (-1, -1): "worse in both",
    (1, -1): "precision for recall",
    (-1, 1): "recall for precision",
    (1, 0): "more precision",
    (-1, 0): "less precision",
    (0, 1): "more recall",
    (0, -1): "less recall",
}
_ARROW_LOOK = {"arrowstyle": "-|>", "lw": 1.5, "shrinkA": 4, "shrinkB": 5, "mutation_scale": 12}
# The columns of the table of gains.
_GAINS = ["model", "prompt", "measure", "scored", "missing", "unscored"]
_GAINS += ["mean", "mean low", "mean high", "in both", "gain", "low", "high", "p"]
_LONGEST = 40  # characters of a name in the figure


class PromptsSettings(ContestantSettings):
    """Which prompts are compared: see `taxtune study prompts --help`."""

    files: Annotated[
        tuple[str, ...],
        Argument(
            metavar="MODEL:PROMPT=FILE...",
            help="Files of answers; MODEL=FILE with --by or --guess; runs as MODEL=RUN.",
        ),
    ]
    baseline: Annotated[
        str | None, Option(help="Where the arrows start. Default: each model's first.")
    ] = None
    measure: Annotated[
        tuple[Any, ...],
        measure_option("Shown with their gains over the baseline prompt."),
        NOT_RECORDED,
    ] = ()
    resamples: Annotated[int, ResamplesOption] = 2000


def run(settings: PromptsSettings) -> StudyReport:
    """Compare prompts in the hP-hR plane: arrows from a baseline prompt to others (paper 1, Figure 7).

    Prints hP, hR, hF and accuracy of every prompt with intervals, and the paired differences to the baseline; with
    --measure also measures of text and their gains (paper 2); with --out also draws the arrows and the gains.

    Raises:
        TaxtuneError: If files or runs cannot be used, a model has a single prompt or lacks the baseline, a measure
            lacks what it needs, or no example was answered under both prompts.
    """
    check_measures(settings.measure, settings.question_column)
    taxonomy, part = settings.read_tree()
    models = _read_models(settings, taxonomy, part)
    contest = gather(list(models.values()), settings)
    mapper = settings.mapper(taxonomy)
    placed = place_answers(mapper, contest.answers)
    report = compare_prompts(taxonomy, placed, settings, part)
    record = {**report.settings, "mapper": mapper.identity()}
    notes = (*contest.notes, *report.notes)
    return replace(report, settings=record, notes=notes, data={"excluded": contest.excluded})


def _read_models(
    settings: PromptsSettings, taxonomy: Taxonomy, part: Domain | None
) -> dict[str, dict[tuple[str, str], AnswerTable]]:
    """Returns the answers of each model by model and prompt.

    A folder of a run holds those of all its held-out templates.
    """
    files: dict[str, str] = {}
    for name, path in named_paths(settings.files).items():
        named = {name: path}
        if split_run(path) == (Path(path), None):
            templates = run_evaluations(Path(path) / "result.json")
            named = {f"{name}:{template}": f"{path}:{template}" for template in templates}
        doubled = sorted(files.keys() & named.keys())
        if doubled:
            message = "Two files have the same model and prompt."
            raise DataError(message, value=doubled, remedy="Rename one.")
        files |= named
    models: dict[str, dict[tuple[str, str], AnswerTable]] = {}
    for (name, value), table in read_tables(files, settings, taxonomy, part).items():
        model, prompt = name, value
        if not value:
            model, _, prompt = name.partition(":")
        if not model.strip() or not prompt.strip():
            raise DataError(
                "The argument does not say which model and prompt the file is for.",
                value=f"{name}={files[name]}",
                remedy="Give MODEL:PROMPT=FILE, or MODEL=FILE with --by COLUMN.",
            )
        models.setdefault(model, {})[model, prompt] = table
    return models


def compare_prompts(
    taxonomy: Taxonomy, placed: pd.DataFrame, settings: PromptsSettings, part: Domain | None = None
) -> StudyReport:
    """Scores every model under every prompt and compares each prompt with the baseline on the same examples.

    Args:
        taxonomy: The tree of nodes and targets.
        placed: The answers of `place_answers`; the prompts of a model have its examples in one order.
        settings: The baseline, the measures, and how often to resample.
        part: The domain that the tree is, for scores on the whole taxonomy too; None where it is the whole.

    Raises:
        DataError: If a model has a single prompt or lacks the baseline, or no example was answered under both prompts.
    """
    scorer = PlacementScorer(taxonomy, settings.resamples, settings.seed)
    answers: dict[tuple[str, str], pd.DataFrame] = {}
    prompts: dict[str, list[str]] = {}
    for (model, prompt), group in groups(placed, _KEY).items():
        answers[model, prompt] = group.reset_index(drop=True)
        prompts.setdefault(model, []).append(prompt)
    starts = _baselines(prompts, settings.baseline)
    scores, arrows = _scores(scorer, answers, starts)
    measures = settings.measures(settings.measure)
    check_headings(measures)
    trivial = []
    for model, start in starts.items():
        targets = answers[model, start]["target"].to_numpy()
        name = model if len(starts) > 1 else None
        trivial.append(trivial_answer(taxonomy, targets, name))
    tables = [_prompts_table(answer_counts(placed, _KEY), scores, trivial)]
    tables.append(_arrows_table(arrows))
    tables.append(_differences_table(arrows))
    figures = {"arrows": partial(_draw_arrows, arrows)}
    record = settings.record()
    record["models"] = prompts
    record["baseline"] = starts
    record["confidence_level"] = 0.95
    if measures:
        gains = _gains(placed, starts, measures, scorer, settings.reference)
        tables.append(_gains_table(gains))
        label = "gain over the baseline prompt, in points of 100"
        dots = _drawn(arrows, gains)
        figures["gains"] = partial(draw_dots, dots, label, scale=100, zero=True)
        record["measures"] = [measure.identity() for measure in measures]
    if part is not None:
        named = placed.copy()
        named["model and prompt"] = placed["model"] + ": " + placed["prompt"]
        tables.append(both_trees_table(part, named, "model and prompt"))
    notes = measure_notes(measures)
    return StudyReport(
        study="prompts",
        title=_TITLE,
        settings=record,
        tables=tuple(tables),
        figures=figures,
        notes=tuple(notes),
    )


def _baselines(prompts: Mapping[str, Sequence[str]], wanted: str | None) -> dict[str, str]:
    """Returns the baseline prompt of each model: the one that is wanted, else the first."""
    starts: dict[str, str] = {}
    for model, own in prompts.items():
        if len(own) < 2:
            message = f"{model} has a single prompt, so there is nothing to compare."
            remedy = "Give its answers under another prompt too."
            raise DataError(message, value=own, remedy=remedy)
        if wanted is not None and wanted not in own:
            message = f"{model} has no prompt of the baseline's name."
            remedy = f"It has {', '.join(map(repr, own))}."
            raise DataError(message, value=wanted, remedy=remedy)
        starts[model] = wanted or own[0]
    return starts


def _scores(
    scorer: PlacementScorer, answers: Answers, starts: Mapping[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns scores of each prompt, and paired differences to the baseline.

    The scores have a row per model, prompt and metric: estimate, low, high, over the prompt's own answers. The
    differences have a row per model, other prompt and metric: examples (answered under both), difference, low, high,
    p_value, and the two prompts' scores on these examples: start_estimate, start_low, start_high, end_estimate, end_low
    and end_high.
    """
    scores: list[pd.DataFrame] = []
    arrows: dict[tuple[str, str, str, int], pd.DataFrame] = {}
    for model, prompt in track_each(list(answers), "prompts scored"):
        start = starts[model]
        own = answers[model, prompt]
        base = answers[model, start]
        known = own["node"] >= 0
        both = known & (base["node"] >= 0)
        if not known.any():
            message = f"{model} has no answer under {prompt!r}: every call failed, or there is no such guess."
            raise DataError(message, remedy="Remove this prompt.")
        if not both.any():
            raise DataError(
                f"{model} has no example that was answered under both {start!r} and {prompt!r}."
            )
        scores.append(scorer.scores(own[known], _KEY))
        if prompt == start:
            continue
        changes = scorer.differences(own[both], base[both])
        changes = changes.join(scorer.intervals(base[both]).add_prefix("start_"))
        changes = changes.join(scorer.intervals(own[both]).add_prefix("end_"))
        arrows[model, start, prompt, int(both.sum())] = changes
    moved = pd.concat(arrows, names=[*_ARROW, "metric"]).reset_index()
    return pd.concat(scores, ignore_index=True), moved


# -- measures of text -------------------------------------------------------------------------------------------------


def _gains(
    placed: pd.DataFrame,
    starts: Mapping[str, str],
    measures: Sequence[Measure],
    scorer: PlacementScorer,
    reference: str,
) -> pd.DataFrame:
    """Returns each measure of text under each prompt, and its gain over the baseline prompt, as the table shows them.

    Where there is nothing to average or to compare, a cell is NaN.
    """
    scored = placed.copy()
    for measure in measures:
        scored[measure.label] = text_scores(
            placed, measure, scorer.taxonomy, reference, _read_answer
        )
    by_prompt = groups(scored, _KEY)
    rows: list[dict[str, Any]] = []
    for (model, prompt), group in by_prompt.items():
        start = by_prompt[model, starts[model]]
        missing = int((group["node"] < 0).sum())
        for measure in measures:
            own = group[measure.label].to_numpy()
            base = start[measure.label].to_numpy()
            row: dict[str, Any] = {"model": model, "prompt": prompt, "measure": measure.label}
            row["scored"] = int(np.isfinite(own).sum())
            row["missing"] = missing
            row["unscored"] = len(own) - missing - row["scored"]
            row |= _gain(own, base, prompt != starts[model], scorer)
            rows.append(row)
    return pd.DataFrame(rows, columns=_GAINS)


def _gain(
    own: FloatArray, base: FloatArray, is_other: bool, scorer: PlacementScorer
) -> dict[str, float]:
    """Returns the mean of a measure and, of another prompt than the baseline, its gain, as cells of the table."""
    resamples, seed = scorer.resamples, scorer.seed
    both = ~np.isnan(own + base)
    cells: dict[str, float] = {"in both": int(both.sum())}
    mean = mean_interval(own, resamples=resamples, seed=seed)
    if mean is not None:
        cells |= {"mean": mean.estimate, "mean low": mean.low, "mean high": mean.high}
    if is_other and both.any():
        pair = Sample.mean("gain", own[both]), Sample.mean("gain", base[both])
        gain = paired_bootstrap(pair, resamples=resamples, seed=seed)["gain"]
        cells |= {"gain": gain.difference, "p": gain.p_value}
        cells |= {"low": gain.low, "high": gain.high}
    return cells


def _drawn(arrows: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """Returns the gains in hP, in hR and in each measure of text, as `draw_dots` takes them."""
    moved = arrows[arrows["metric"].isin(["hp", "hr"])].copy()
    moved["panel"] = moved["metric"].map(_SHOWN)
    ours = moved.rename(columns={"to": "prompt", "difference": "estimate"})
    texts = gains.rename(columns={"measure": "panel", "gain": "estimate"})
    texts = texts.dropna(subset="estimate")
    drawn = pd.concat([ours, texts], ignore_index=True)
    drawn["name"] = drawn["model"] + ": " + drawn["prompt"]
    return drawn.assign(series="")


def _read_answer(reply: str) -> str:
    """Returns a reply as the mapper reads it: without reasoning before the answer, markup and list marks."""
    return "\n".join(line for block in unwrap(reply) for line in block.lines)


# -- tables -----------------------------------------------------------------------------------------------------------


def _prompts_table(counts: pd.DataFrame, scores: pd.DataFrame, trivial: Sequence[str]) -> Table:
    wide = wide_intervals(scores, _KEY, _SHOWN)
    cells = counts.join(wide.drop(columns=["accuracy low", "accuracy high"]))
    notes = ["Intervals are 95 % bootstrap intervals over the examples."]
    notes += missing_note(int(counts["missing"].sum()), _OVER)
    return frame_table("prompts", _TITLE, cells.reset_index(), *notes, *trivial)


def _arrows_table(arrows: pd.DataFrame) -> Table:
    by_metric = arrows.set_index([*_ARROW, "metric"])
    difference = by_metric["difference"].unstack(sort=False)
    p_value = by_metric["p_value"].unstack(sort=False)
    cells = difference[list(_SHOWN)].rename(columns=_SHOWN).add_prefix("Δ")
    moved = difference.apply(np.sign).where(p_value < SIGNIFICANCE, 0)
    directions = zip(moved["hp"], moved["hr"], strict=True)
    cells["reading"] = [_READINGS[direction] for direction in directions]
    return frame_table(
        "arrows",
        "From the baseline prompt to the others",
        cells.reset_index(),
        "The other prompt minus the baseline, on the examples answered under both. A metric has changed if the p value "
        "of its paired difference is below 0.05; “precision for recall”: hP up, hR down.",
    )


def _differences_table(arrows: pd.DataFrame) -> Table:
    shown = arrows[["model", "to", "metric", "difference", "low", "high", "p_value"]].copy()
    shown["metric"] = shown["metric"].map(_SHOWN)
    names = {"to": "prompt", "low": "2.5 %", "high": "97.5 %", "p_value": "p"}
    cells = shown.dropna(subset="metric").rename(columns=names)
    title = "Paired differences to the baseline prompt"
    note = "Two-sided p-value of the paired bootstrap."
    return frame_table("differences", title, cells, note, digits={"p": 4})


def _gains_table(gains: pd.DataFrame) -> Table:
    return frame_table(
        "gains",
        "Measures of text under each prompt, and their gains over the baseline prompt",
        gains,
        "Gain: the mean difference to the baseline prompt on the examples that have a score under both, with the "
        "interval and the p-value of the paired bootstrap. A measure sees what the mapper reads.",
        digits={"p": 4},
    )


# -- the figure -------------------------------------------------------------------------------------------------------


def _draw_arrows(arrows: pd.DataFrame) -> Figure:
    """Draws an arrow for each model and prompt, with 95 % intervals as faint crosses.

    The start of a model's arrows is hollow; the colour tells models apart and the marker prompts; with one of either,
    both tell the other.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.add_subplot()
    hp = arrows[arrows["metric"] == "hp"].reset_index(drop=True)
    hr = arrows[arrows["metric"] == "hr"].reset_index(drop=True)
    ends = ["start_low", "start_high", "end_low", "end_high"]
    axes.set_xlim(padded(hr[ends].to_numpy().ravel().tolist()))
    axes.set_ylim(padded(hp[ends].to_numpy().ravel().tolist()))
    axes.grid(color=FAINT, lw=0.5)
    axes.set_axisbelow(True)
    models = list(hp["model"].unique())
    prompts = list(hp["to"].unique())
    starts = " / ".join(hp["from"].unique())
    hollow = Line2D([], [], marker="o", ms=6.5, mfc=PAPER, mec=INK, mew=1.5, ls="none")
    handles = [hollow]
    labels = [cut(f"from: {starts}", _LONGEST)]
    for (_, y), (_, x) in zip(hp.iterrows(), hr.iterrows(), strict=True):
        model = models.index(y["model"])
        prompt = prompts.index(y["to"])
        of_colour = model if len(models) > 1 else prompt
        of_marker = prompt if len(prompts) > 1 else model
        colour = CYCLE[of_colour % len(CYCLE)]
        marker = MARKER_CYCLE[of_marker % len(MARKER_CYCLE)]
        # The one start of a single model's arrows belongs to none of them.
        start_colour = INK if len(models) == 1 else colour
        size = 11 if marker == "*" else 8
        _draw_cross(axes, x, y, "start", start_colour)
        _draw_cross(axes, x, y, "end", colour)
        start = x["start_estimate"], y["start_estimate"]
        end = x["end_estimate"], y["end_estimate"]
        axes.plot(*start, "o", ms=6.5, mfc=PAPER, mec=start_colour, mew=1.5, zorder=5)
        axes.plot(*end, marker, ms=size, mfc=colour, mec=PAPER, mew=0.9, zorder=6)
        look = _ARROW_LOOK | {"color": colour}
        axes.annotate("", end, start, arrowprops=look, zorder=4)
        handle = Line2D([], [], marker=marker, ms=size, color=colour, mec=PAPER, lw=1.5)
        handles.append(handle)
        name = cut(f"{y['model']}: {y['to']}", _LONGEST)
        labels.append(f"{name}\nhP {end[1]:.3f}, hR {end[0]:.3f}")
    axes.set_xlabel("hierarchical recall, hR")
    axes.set_ylabel("hierarchical precision, hP")
    axes.legend(
        handles,
        labels,
        alignment="left",
        loc="upper left",
        bbox_to_anchor=(1.13, 1.02),
        labelspacing=0.75,
    )
    return figure


def _draw_cross(axes: Axes, x: pd.Series, y: pd.Series, end: str, colour: str) -> None:
    """Draws the intervals of hR (x) and hP (y) at one end of an arrow."""
    center = f"{end}_estimate"
    ends = [f"{end}_low", f"{end}_high"]
    faint = (colour, 0.35)
    axes.hlines(y[center], *x[ends], color=faint, lw=1.0, zorder=2)
    axes.vlines(x[center], *y[ends], color=faint, lw=1.0, zorder=2)
