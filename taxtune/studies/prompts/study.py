"""Comparing prompts in the hP-hR plane (paper 1, §7.1, Figure 7), and by measures of text (paper 2).

Everything works on three frames: a row per model, prompt and example (the placed answers), per model, prompt and metric
(scores), and per model, prompt and metric beside the baseline prompt (arrows).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from taxtune.answers import AnswerTable
from taxtune.answers.measured import mean_interval
from taxtune.answers.records import run_evaluations, split_run
from taxtune.errors import DataError
from taxtune.mapping.unwrap import unwrap
from taxtune.metrics.statistics import SIGNIFICANCE, Sample, bootstrap, hierarchical_sample, paired_bootstrap
from taxtune.progress import track_each
from taxtune.report.output import StudyReport, Table
from taxtune.studies.contestants import (
    answer_counts,
    check_headings,
    check_measures,
    gather,
    named_paths,
    place_answers,
    read_tables,
    text_scores,
)
from taxtune.studies.output import both_trees_table, draw_dots, frame_table
from taxtune.studies.prompts.figure import draw_arrows
from taxtune.studies.scoring import measure_notes, missing_note, trivial_answer
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.studies.prompts import PromptsSettings

__all__ = ["compare_prompts", "prompts"]

#: The metrics of the tables, as the paper writes them.
_SHOWN = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy"}
_TITLE = "How the prompt affects hierarchical precision and recall"
_OVER = "a prompt's scores are over its own answers, a difference over the examples answered under both prompts"
_KEY = ["model", "prompt"]
_ARROW = ["model", "from", "to", "examples"]


def prompts(settings: PromptsSettings) -> StudyReport:
    """Reads and compares the prompts and returns the report; see `taxtune.studies.prompts.run`."""
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
            more = {f"{name}:{key}": f"{path}:{key}" for key in run_evaluations(Path(path) / "result.json")}
        else:
            more = {name: path}
        if doubled := files.keys() & more.keys():
            raise DataError("Two files have the same model and prompt.", value=sorted(doubled), remedy="Rename one.")
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
        placed: The answers of `place_answers`; at least two prompts a model, each on the model's examples in one order.
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
                trivial_answer(taxonomy, answers[key]["target"].to_numpy(), key[0] if len(starts) > 1 else None)
                for key in starts.items()
            ),
        ),
        _arrows_table(arrows),
        _differences_table(arrows),
    ]
    figures: dict[str, Callable[[], Figure]] = {"arrows": partial(draw_arrows, arrows)}
    if measures:
        read = _answer if settings.reply == "answer" else str
        texts = {m.label: text_scores(placed, m, taxonomy, settings.reference, read) for m in measures}
        gains = _gains(placed, counts, starts, texts, scores, arrows, draws)
        tables.append(_gains_table(gains, settings.reply))
        drawn = gains.dropna(subset="difference").rename(columns={"measure": "panel", "difference": "estimate"})
        drawn["name"] = [f"{model}: {prompt}" for model, prompt in zip(drawn["model"], drawn["prompt"], strict=True)]
        drawn = drawn.assign(series="")
        label = "gain over the baseline prompt, in points of 100"
        figures["gains"] = partial(draw_dots, drawn, label, scale=100, zero=True)
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
            "models": {model: [prompt for other, prompt in answers if other == model] for model in starts},
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
            raise DataError(f"{model} has a single prompt, so there is nothing to compare.", value=own, remedy=remedy)
        if wanted is not None and wanted not in own:
            remedy = f"It has {', '.join(map(repr, own))}."
            raise DataError(f"{model} has no prompt of the baseline's name.", value=wanted, remedy=remedy)
        starts[model] = wanted or own[0]
    return starts


def _scores(
    taxonomy: Taxonomy, answers: Mapping[Any, pd.DataFrame], starts: Mapping[str, str], draws: Mapping[str, int]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of each prompt, and paired differences to the baseline.

    Returns:
        A row per model, prompt and metric: estimate, low, high, over the prompt's own answers. And a row per model,
        other prompt and metric: examples (answered under both), difference, low, high, p_value, and the two prompts'
        scores on these examples: start, start_low, start_high, end, end_low, end_high.
    """

    def sample(rows: pd.DataFrame) -> Sample:
        return hierarchical_sample(taxonomy, rows["node"], rows["target"], off_tree=rows["as_child"])

    scores: list[dict[str, Any]] = []
    arrows: list[dict[str, Any]] = []
    for model, prompt in track_each(list(answers), "prompts scored"):
        own, start = answers[model, prompt], starts[model]
        base, known = answers[model, start], own["node"] >= 0
        both = known & (base["node"] >= 0)
        if not known.any():
            message = (
                f"{model} has no answer under the prompt {prompt!r}: every call failed, or there is no such guess."
            )
            raise DataError(message, remedy="Remove this prompt.")
        if not both.any():
            raise DataError(f"{model} has no example that was answered under both {start!r} and {prompt!r}.")
        for metric, one in bootstrap(sample(own[known]), **draws).items():
            scores.append({"model": model, "prompt": prompt, "metric": metric, **asdict(one)})
        if prompt == start:
            continue
        end, here = sample(own[both]), sample(base[both])
        ends, begins = bootstrap(end, **draws), bootstrap(here, **draws)
        for metric, change in paired_bootstrap((end, here), **draws).items():
            arrow = {"model": model, "from": start, "to": prompt, "examples": int(both.sum()), "metric": metric}
            for side, one in (("start", begins[metric]), ("end", ends[metric])):
                arrow |= {side: one.estimate, f"{side}_low": one.low, f"{side}_high": one.high}
            arrows.append({**arrow, **asdict(change)})
    return pd.DataFrame(scores), pd.DataFrame(arrows)


def _reading(arrow: pd.DataFrame) -> str:
    """What an arrow says, from its rows by metric: a metric has moved where its difference is significant."""
    sure = arrow.loc[["hp", "hr"]].query(f"p_value < {SIGNIFICANCE}")["difference"]
    moved = {metric: "more" if change > 0 else "less" for metric, change in sure.items()}
    match moved.get("hp"), moved.get("hr"):
        case None, None:
            return "no clear change"
        case ("more", "more") | ("less", "less") as both:
            return "better in both" if both[0] == "more" else "worse in both"
        case hp, None:
            return f"{hp} precision"
        case None, hr:
            return f"{hr} recall"
        case hp, _:
            return "precision for recall" if hp == "more" else "recall for precision"


# -- measures of text -------------------------------------------------------------------------------------------------


def _gains(
    placed: pd.DataFrame,
    counts: pd.DataFrame,
    starts: Mapping[str, str],
    texts: Mapping[str, pd.Series[float]],
    scores: pd.DataFrame,
    arrows: pd.DataFrame,
    draws: Mapping[str, int],
) -> pd.DataFrame:
    """Each measure under each prompt, hP and hR first, and its gain over the baseline prompt.

    Args:
        placed: The answers.
        counts: How many there are of each model and prompt.
        starts: The baseline prompt of each model.
        texts: The scores of the answers under each measure of text, by its heading.
        scores: hP and hR of each prompt.
        arrows: Their differences to the baseline prompt.
        draws: How to resample.

    Returns:
        A row per model, prompt and measure: scored, missing, unscored, mean, mean_low, mean_high, both (how many
        examples have a score under both prompts), difference, low, high, p_value; no values where there are none.
    """
    changes: dict[Any, Any] = {(one["model"], one["to"], one["metric"]): one for one in arrows.to_dict("records")}
    means: dict[Any, Any] = {(one["model"], one["prompt"], one["metric"]): one for one in scores.to_dict("records")}
    by_prompt = placed.groupby(_KEY, sort=False).indices
    rows: list[dict[str, Any]] = []
    for count in counts.reset_index().to_dict("records"):
        model, prompt = count["model"], count["prompt"]
        shared = {"model": model, "prompt": prompt, "missing": count["missing"]}
        for metric in ("hp", "hr"):
            mean, change = means[model, prompt, metric], changes.get((model, prompt, metric), {})
            about = shared | {"measure": _SHOWN[metric], "scored": count["answers"], "unscored": 0}
            about |= {"both": change.get("examples", count["answers"])}
            about |= {"mean": mean["estimate"], "mean_low": mean["low"], "mean_high": mean["high"]}
            rows.append(about | {key: change.get(key) for key in ("difference", "low", "high", "p_value")})
        for heading, values in texts.items():
            own, start = (values.to_numpy()[by_prompt[model, name]] for name in (prompt, starts[model]))
            scored, both = int((~np.isnan(own)).sum()), ~np.isnan(own) & ~np.isnan(start)
            about = shared | {"measure": heading, "scored": scored, "unscored": count["answers"] - scored}
            about |= {"both": int(both.sum())}
            if (interval := mean_interval(own, **draws)) is not None:
                about |= {"mean": interval.estimate, "mean_low": interval.low, "mean_high": interval.high}
            if prompt != starts[model] and both.any():
                pair = Sample.mean("gain", own[both]), Sample.mean("gain", start[both])
                about |= asdict(paired_bootstrap(pair, **draws)["gain"])
            rows.append(about)
    return pd.DataFrame(rows)


def _answer(reply: str) -> str:
    """What a reply says as the mapper reads it: without reasoning before the answer, markup and list marks."""
    return "\n".join(unwrap(reply).lines)


# -- tables -----------------------------------------------------------------------------------------------------------


def _ends(low: pd.Series, high: pd.Series, between: str = " to ", sign: str = "") -> list[str | None]:
    """Both ends of each interval as text, as tables show numbers; None where there are none."""

    def shown(value: float) -> str:
        text = f"{value:{sign}.3f}".replace("-", "−")
        return text.lstrip("+−") if float(f"{value:.3f}") == 0 else text

    return [None if a != a else f"{shown(a)}{between}{shown(b)}" for a, b in zip(low, high, strict=True)]


def _prompts_table(counts: pd.DataFrame, scores: pd.DataFrame, *notes: str) -> Table:
    cells = counts.copy()
    for metric in ("hp", "hr", "hf", "accuracy"):
        some = scores[scores["metric"] == metric].set_index(_KEY)
        cells[_SHOWN[metric]] = some["estimate"]
        if metric != "accuracy":
            cells[f"{_SHOWN[metric]} 95 %"] = _ends(some["low"], some["high"], " – ")
    return frame_table("prompts", _TITLE, cells.reset_index(), *notes)


def _arrows_table(arrows: pd.DataFrame) -> Table:
    rows = []
    for _, some in arrows.groupby(_ARROW, sort=False):
        arrow = some.set_index("metric")
        rows.append(
            (
                *next(some[_ARROW].itertuples(index=False, name=None)),
                *(arrow["difference"][metric] for metric in _SHOWN),
                _reading(arrow),
            )
        )
    columns = (*_ARROW, *(f"Δ{shown}" for shown in _SHOWN.values()), "reading")
    note = (
        "The other prompt minus the baseline, on the examples answered under both. A metric has changed if the p value "
        "of its paired difference is below 0.05; “precision for recall”: hP up, hR down."
    )
    return Table("arrows", "From the baseline prompt to the others", columns, tuple(rows), notes=(note,))


def _differences_table(arrows: pd.DataFrame) -> Table:
    shown = arrows[arrows["metric"].isin(_SHOWN)]
    cells = shown[["model", "to", "metric", "difference", "low", "high", "p_value"]].replace({"metric": _SHOWN})
    return frame_table(
        "differences",
        "Paired differences to the baseline prompt",
        cells.rename(columns={"to": "prompt", "low": "2.5 %", "high": "97.5 %", "p_value": "p"}),
        "Two-sided p-value of the paired bootstrap.",
        digits={"p": 4},
    )


def _gains_table(gains: pd.DataFrame, reply: str) -> Table:
    cells = gains[["model", "prompt", "measure", "scored", "missing", "unscored", "mean"]].copy()
    cells["mean 95 %"] = _ends(gains["mean_low"], gains["mean_high"])
    cells[["in both", "gain"]] = gains[["both", "difference"]]
    cells["gain 95 %"] = _ends(gains["low"], gains["high"], sign="+")
    cells["p"] = gains["p_value"]
    see = "the whole reply, reasoning included" if reply == "whole" else "what the mapper reads, without reasoning"
    return frame_table(
        "gains",
        "Measures under each prompt, and their gains over the baseline prompt",
        cells,
        "Gain: the mean difference to the baseline prompt on the examples that have a score under both, with the "
        "interval and the p-value of the paired bootstrap.",
        f"Measures of text see {see}.",
        digits={"p": 4},
    )
