"""What another prompt does to hP and hR (paper 1, §7.1, Figure 7), and to measures of text (paper 2).

Everything works on three frames: a row per model, prompt and example (the placed answers), per model, prompt and metric
(scores), and per model, prompt and metric beside the baseline prompt (arrows).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
from typer import Argument, Option

from taxtune.answers import AnswerTable
from taxtune.answers.records import run_evaluations, split_run
from taxtune.answers.scores import mean_interval
from taxtune.errors import DataError
from taxtune.mapping.unwrap import unwrap
from taxtune.metrics.statistics import (
    SIGNIFICANCE,
    Sample,
    bootstrap,
    hierarchical_sample,
    paired_bootstrap,
)
from taxtune.options import ResamplesOption, measure_option
from taxtune.progress import track_each
from taxtune.report.drawing import CYCLE, INK, MARKER_CYCLE, PAPER, draw_iso_lines, padded
from taxtune.report.output import StudyReport, Table, cut
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
from taxtune.studies.output import both_trees_table, draw_dots, frame_table
from taxtune.studies.settings import NOT_RECORDED, ContestantSettings
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PromptsSettings", "compare_prompts", "run"]

#: The metrics of the tables, as the paper writes them.
_SHOWN = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy"}
_TITLE = "How the prompt affects hierarchical precision and recall"
_OVER = "a prompt's scores are over its own answers, a difference over the examples answered under both prompts"
_KEY = ["model", "prompt"]
_ARROW = ["model", "from", "to", "examples"]
_GAINS = [
    "model",
    "prompt",
    "measure",
    "scored",
    "missing",
    "unscored",
    "mean",
    "mean low",
    "mean high",
]
_GAINS += ["in both", "gain", "low", "high", "p"]
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
    contest = gather(list(_by_model(settings, taxonomy, part).values()), settings)
    mapper = settings.mapper(taxonomy)
    report = compare_prompts(taxonomy, place_answers(mapper, contest.answers), settings, part)
    return replace(
        report,
        settings={**report.settings, "mapper": mapper.identity()},
        notes=(*contest.notes, *report.notes),
        data={"excluded": contest.excluded},
    )


def _by_model(
    settings: PromptsSettings, taxonomy: Taxonomy, part: Domain | None
) -> dict[str, dict[tuple[str, str], AnswerTable]]:
    """The answers of each model by model and prompt; a folder of a run holds those of all its held-out templates."""
    files: dict[str, str] = {}
    for name, path in named_paths(settings.files).items():
        if split_run(path) == (Path(path), None):
            more = {
                f"{name}:{key}": f"{path}:{key}"
                for key in run_evaluations(Path(path) / "result.json")
            }
        else:
            more = {name: path}
        if doubled := files.keys() & more.keys():
            raise DataError(
                "Two files have the same model and prompt.",
                value=sorted(doubled),
                remedy="Rename one.",
            )
        files |= more
    models: dict[str, dict[tuple[str, str], AnswerTable]] = {}
    for (name, value), table in read_tables(files, settings, taxonomy, part).items():
        model, _, prompt = (name, "", value) if value else name.partition(":")
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
        part: What the tree is a part of, for scores on the whole of it too; None where it is the whole.

    Raises:
        DataError: If a model has a single prompt or lacks the baseline, or no example was answered under both prompts.
    """
    draws = {"resamples": settings.resamples, "seed": settings.seed}
    answers = {key: some.reset_index(drop=True) for key, some in placed.groupby(_KEY, sort=False)}
    starts = _baselines(list(answers), settings.baseline)
    scores, arrows = _scores(taxonomy, answers, starts, draws)
    measures = settings.measures(settings.measure)
    check_headings(measures)
    counts = answer_counts(placed, _KEY)
    tables = [
        _prompts_table(
            counts,
            scores,
            "Intervals are 95 % bootstrap intervals over the examples.",
            *missing_note(int(counts["missing"].sum()), _OVER),
            *(
                trivial_answer(
                    taxonomy, answers[key]["target"].to_numpy(), key[0] if len(starts) > 1 else None
                )
                for key in starts.items()
            ),
        ),
        _arrows_table(arrows),
        _differences_table(arrows),
    ]
    figures: dict[str, Callable[[], Figure]] = {"arrows": partial(_draw_arrows, arrows)}
    if measures:
        texts = {
            m.label: text_scores(placed, m, taxonomy, settings.reference, _answer) for m in measures
        }
        gains = _gains(placed, starts, texts, draws)
        tables.append(
            frame_table(
                "gains",
                "Measures of text under each prompt, and their gains over the baseline prompt",
                gains,
                "Gain: the mean difference to the baseline prompt on the examples that have a score under both, with "
                "the interval and the p-value of the paired bootstrap. A measure sees what the mapper reads.",
                digits={"p": 4},
            )
        )
        label = "gain over the baseline prompt, in points of 100"
        figures["gains"] = partial(draw_dots, _drawn(arrows, gains), label, scale=100, zero=True)
    if part is not None:
        named = {f"{model}: {prompt}": some for (model, prompt), some in answers.items()}
        nodes = {name: (some["node"], some["target"]) for name, some in named.items()}
        off = {name: some["as_child"] for name, some in named.items()}
        tables.append(both_trees_table(part, nodes, "model and prompt", off_tree=off))
    return StudyReport(
        study="prompts",
        title=_TITLE,
        settings={
            **settings.record(),
            "models": {
                model: [prompt for other, prompt in answers if other == model] for model in starts
            },
            "baseline": starts,
            "confidence_level": 0.95,
            **({"measures": [measure.identity() for measure in measures]} if measures else {}),
        },
        tables=tuple(tables),
        figures=figures,
        notes=tuple(measure_notes(measures)),
    )


def _baselines(keys: Sequence[Any], wanted: str | None) -> dict[str, str]:
    """The baseline prompt of each model: the one that is wanted, else the first."""
    starts: dict[str, str] = {}
    for model in dict.fromkeys(model for model, _ in keys):
        own = [prompt for other, prompt in keys if other == model]
        if len(own) < 2:
            remedy = "Give its answers under another prompt too."
            raise DataError(
                f"{model} has a single prompt, so there is nothing to compare.",
                value=own,
                remedy=remedy,
            )
        if wanted is not None and wanted not in own:
            remedy = f"It has {', '.join(map(repr, own))}."
            raise DataError(
                f"{model} has no prompt of the baseline's name.", value=wanted, remedy=remedy
            )
        starts[model] = wanted or own[0]
    return starts


def _scores(
    taxonomy: Taxonomy,
    answers: Mapping[Any, pd.DataFrame],
    starts: Mapping[str, str],
    draws: Mapping[str, int],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of each prompt, and paired differences to the baseline.

    Returns:
        A row per model, prompt and metric: estimate, low, high, over the prompt's own answers. And a row per model,
        other prompt and metric: examples (answered under both), difference, low, high, p_value, and the two prompts'
        scores on these examples: start, start_low, start_high, end, end_low, end_high.
    """

    def sample(rows: pd.DataFrame) -> Sample:
        return hierarchical_sample(
            taxonomy, rows["node"], rows["target"], off_tree=rows["as_child"]
        )

    scores: list[dict[str, Any]] = []
    arrows: list[dict[str, Any]] = []
    for model, prompt in track_each(list(answers), "prompts scored"):
        own, start = answers[model, prompt], starts[model]
        base, known = answers[model, start], own["node"] >= 0
        both = known & (base["node"] >= 0)
        if not known.any():
            message = f"{model} has no answer under {prompt!r}: every call failed, or there is no such guess."
            raise DataError(message, remedy="Remove this prompt.")
        if not both.any():
            raise DataError(
                f"{model} has no example that was answered under both {start!r} and {prompt!r}."
            )
        for metric, one in bootstrap(sample(own[known]), **draws).items():
            scores.append({"model": model, "prompt": prompt, "metric": metric, **asdict(one)})
        if prompt == start:
            continue
        end, here = sample(own[both]), sample(base[both])
        ends, begins = bootstrap(end, **draws), bootstrap(here, **draws)
        for metric, change in paired_bootstrap((end, here), **draws).items():
            arrow = {
                "model": model,
                "from": start,
                "to": prompt,
                "examples": int(both.sum()),
                "metric": metric,
            }
            for side, one in (("start", begins[metric]), ("end", ends[metric])):
                arrow |= {side: one.estimate, f"{side}_low": one.low, f"{side}_high": one.high}
            arrows.append({**arrow, **asdict(change)})
    return pd.DataFrame(scores), pd.DataFrame(arrows)


# -- measures of text -------------------------------------------------------------------------------------------------


def _gains(
    placed: pd.DataFrame,
    starts: Mapping[str, str],
    texts: Mapping[str, pd.Series[float]],
    draws: Mapping[str, int],
) -> pd.DataFrame:
    """Each measure of text under each prompt, and its gain over the baseline prompt, as the table shows them.

    `texts` has the scores of the answers under each measure, by its heading. Where there is nothing to average or to
    compare, a cell is NaN.
    """
    by_prompt: dict[Any, Any] = placed.groupby(_KEY, sort=False).indices
    rows: list[dict[str, Any]] = []
    for (model, prompt), index in by_prompt.items():
        missing = int((placed["node"].to_numpy()[index] < 0).sum())
        for heading, values in texts.items():
            own, start = (
                values.to_numpy()[index],
                values.to_numpy()[by_prompt[model, starts[model]]],
            )
            scored, both = int((~np.isnan(own)).sum()), ~np.isnan(own) & ~np.isnan(start)
            row = {
                "model": model,
                "prompt": prompt,
                "measure": heading,
                "scored": scored,
                "missing": missing,
            }
            row |= {"unscored": len(own) - missing - scored, "in both": int(both.sum())}
            if (mean := mean_interval(own, **draws)) is not None:
                row |= {"mean": mean.estimate, "mean low": mean.low, "mean high": mean.high}
            if prompt != starts[model] and both.any():
                pair = Sample.mean("gain", own[both]), Sample.mean("gain", start[both])
                gain = paired_bootstrap(pair, **draws)["gain"]
                row |= {
                    "gain": gain.difference,
                    "low": gain.low,
                    "high": gain.high,
                    "p": gain.p_value,
                }
            rows.append(row)
    return pd.DataFrame(rows, columns=_GAINS)


def _drawn(arrows: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """The gains in hP, in hR and in each measure of text, as `draw_dots` takes them."""
    moved = arrows[arrows["metric"].isin(["hp", "hr"])].replace({"metric": _SHOWN})
    ours = moved.rename(columns={"metric": "panel", "to": "prompt", "difference": "estimate"})
    texts = gains.dropna(subset="gain").rename(columns={"measure": "panel", "gain": "estimate"})
    drawn = pd.concat([ours, texts], ignore_index=True)
    return drawn.assign(name=drawn["model"] + ": " + drawn["prompt"], series="")


def _answer(reply: str) -> str:
    """What a reply says as the mapper reads it: without reasoning before the answer, markup and list marks."""
    return "\n".join(line for block in unwrap(reply) for line in block.lines)


# -- tables -----------------------------------------------------------------------------------------------------------


def _prompts_table(counts: pd.DataFrame, scores: pd.DataFrame, *notes: str) -> Table:
    cells = counts.copy()
    for metric, shown in _SHOWN.items():
        some = scores[scores["metric"] == metric].set_index(_KEY)
        cells[shown] = some["estimate"]
        if metric != "accuracy":
            cells[[f"{shown} low", f"{shown} high"]] = some[["low", "high"]]
    return frame_table("prompts", _TITLE, cells.reset_index(), *notes)


def _arrows_table(arrows: pd.DataFrame) -> Table:
    changes, p_values = (
        arrows.pivot(index=_ARROW, columns="metric", values=v) for v in ("difference", "p_value")
    )
    cells = changes[list(_SHOWN)].rename(
        columns={metric: f"Δ{shown}" for metric, shown in _SHOWN.items()}
    )
    moved = changes.apply(np.sign).where(p_values < SIGNIFICANCE, 0)[["hp", "hr"]].astype(int)
    cells["reading"] = [_READINGS[key] for key in moved.itertuples(index=False, name=None)]
    order = pd.MultiIndex.from_frame(arrows[_ARROW].drop_duplicates())
    return frame_table(
        "arrows",
        "From the baseline prompt to the others",
        cells.reindex(order).reset_index(),
        "The other prompt minus the baseline, on the examples answered under both. A metric has changed if the p value "
        "of its paired difference is below 0.05; “precision for recall”: hP up, hR down.",
    )


def _differences_table(arrows: pd.DataFrame) -> Table:
    shown = arrows[arrows["metric"].isin(_SHOWN)]
    cells = shown[["model", "to", "metric", "difference", "low", "high", "p_value"]].replace(
        {"metric": _SHOWN}
    )
    return frame_table(
        "differences",
        "Paired differences to the baseline prompt",
        cells.rename(columns={"to": "prompt", "low": "2.5 %", "high": "97.5 %", "p_value": "p"}),
        "Two-sided p-value of the paired bootstrap.",
        digits={"p": 4},
    )


# -- the figure ------------------------------------------------------------------------------------------------------


def _draw_arrows(arrows: pd.DataFrame) -> Figure:
    """An arrow for each model and prompt, over lines of equal hF, with 95 % intervals as faint crosses.

    The start of a model's arrows is hollow; the colour tells models apart and the marker prompts; with one of either,
    both tell the other.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.add_subplot()
    hp, hr = (arrows[arrows["metric"] == metric].reset_index(drop=True) for metric in ("hp", "hr"))
    bounds = ["start_low", "start_high", "end_low", "end_high"]
    axes.set_xlim(*padded(hr[bounds].to_numpy().ravel().tolist()))
    axes.set_ylim(*padded(hp[bounds].to_numpy().ravel().tolist()))
    draw_iso_lines(axes)
    models, prompts = list(hp["model"].unique()), list(hp["to"].unique())
    starts = " / ".join(hp["from"].unique())
    handles = [Line2D([], [], marker="o", ms=6.5, mfc=PAPER, mec=INK, mew=1.5, ls="none")]
    labels = [cut(f"from: {starts}", _LONGEST)]
    for (_, y), (_, x) in zip(hp.iterrows(), hr.iterrows(), strict=True):
        model, prompt = models.index(y["model"]), prompts.index(y["to"])
        colour = CYCLE[(model if len(models) > 1 else prompt) % len(CYCLE)]
        marker = MARKER_CYCLE[(prompt if len(prompts) > 1 else model) % len(MARKER_CYCLE)]
        hollow = (
            INK if len(models) == 1 else colour
        )  # the one start of a single model's arrows belongs to none of them
        for end, ink in (("start", hollow), ("end", colour)):
            axes.hlines(
                y[end], x[f"{end}_low"], x[f"{end}_high"], color=ink, lw=1.0, alpha=0.35, zorder=2
            )
            axes.vlines(
                x[end], y[f"{end}_low"], y[f"{end}_high"], color=ink, lw=1.0, alpha=0.35, zorder=2
            )
        look = {
            "arrowstyle": "-|>",
            "color": colour,
            "lw": 1.5,
            "shrinkA": 4,
            "shrinkB": 5,
            "mutation_scale": 12,
        }
        axes.annotate("", (x["end"], y["end"]), (x["start"], y["start"]), arrowprops=look, zorder=4)
        axes.plot(
            x["start"],
            y["start"],
            marker="o",
            ms=6.5,
            mfc=PAPER,
            mec=hollow,
            mew=1.5,
            ls="none",
            zorder=5,
        )
        size = 11 if marker == "*" else 8
        axes.plot(
            x["end"],
            y["end"],
            marker=marker,
            ms=size,
            mfc=colour,
            mec=PAPER,
            mew=0.9,
            ls="none",
            zorder=6,
        )
        handles.append(Line2D([], [], marker=marker, ms=size, color=colour, mec=PAPER, lw=1.5))
        name = cut(f"{y['model']}: {y['to']}", _LONGEST)
        labels.append(f"{name}\nhP {y['end']:.3f}, hR {x['end']:.3f}")
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
