"""Comparing prompts in the hP-hR plane (paper 1, §7.1, Figure 7), and by measures of text (paper 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from taxtune.answers.matching import align, excluded_records
from taxtune.answers.measured import mean_interval
from taxtune.errors import DataError
from taxtune.mapping.unwrap import unwrap
from taxtune.metrics.registry import Measure
from taxtune.metrics.statistics import SIGNIFICANCE, Sample, bootstrap, paired_bootstrap
from taxtune.progress import track_each
from taxtune.report.output import StudyReport, Table
from taxtune.studies.contestants import named_paths, read_prompts
from taxtune.studies.output import both_trees_table, frame_table
from taxtune.studies.prompts.figure import draw_arrows, draw_gains
from taxtune.studies.prompts.run_folders import PromptedModel, read_run
from taxtune.studies.prompts.settings import PromptsSettings
from taxtune.studies.scoring import (
    COUNTS,
    PlacedAnswers,
    check_headings,
    check_measures,
    check_questions,
    measure_notes,
    missing_note,
    place_rows,
    text_scores,
    trivial_answer,
)
from taxtune.studies.settings import needs_of
from taxtune.taxonomy import Domain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["compare_prompts", "prompts"]

#: The metrics of the tables, as the paper writes them.
_SHOWN = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy"}
_TITLE = "How the prompt affects hierarchical precision and recall"
_CONFIDENCE = 0.95
# The settings that the record of runs has: all others are about files of answers.
_OF_RUNS = ("files", "taxonomy", "format", "root", "resamples", "seed", "reference", "reply")
_OVER = "a prompt's scores are over its own answers, a difference over the examples answered under both prompts"
_ARROW = ["model", "from", "to", "examples"]


def prompts(settings: PromptsSettings) -> StudyReport:
    """Reads and compares the prompts and returns the report; see `taxtune.studies.prompts.run`."""
    record = settings.record()
    if not settings.measure:
        record = {key: value for key, value in record.items() if key not in ("question_column", "reference", "reply")}
    paths = named_paths(settings.files)
    folders = [path for path in paths.values() if Path(path).is_dir()]
    if 0 < len(folders) < len(paths):
        remedy = "Study runs and files separately."
        raise DataError("Some arguments are folders of runs and some are files.", value=folders, remedy=remedy)
    if folders:
        if any("question" in needs_of(measure) for measure in settings.measure):
            raise DataError("A judge needs the prompt that was asked, which runs do not record.", remedy="Remove it.")
        options = ("taxonomy", "root", "prompt_column", "model_column", "guess", "where")
        if given := [name for name in options if getattr(settings, name)]:
            remedy = "A run brings its own taxonomy, answers and prompts."
            raise DataError(f"Runs do not use --{given[0].replace('_', '-')}.", remedy=remedy)
        models = {name: read_run(path) for name, path in paths.items()}
        return compare_prompts(models, settings, record={k: record[k] for k in _OF_RUNS if k in record})
    if settings.taxonomy is None:
        raise DataError("No taxonomy was given.", remedy="Use --taxonomy.")
    tree, part = settings.read_tree()
    judges = check_measures(settings.measure, settings.question_column)
    mapper = settings.mapper(tree)
    read = read_prompts(settings, tree, part)
    aligned = {name: align(parts, settings.rows) for name, parts in read.items()}
    files = [file for parts in read.values() for file in parts.values()]
    notes = [note for file in files for note in file.notes]
    notes += [f"{name}: {note}" for name, match in aligned.items() for note in match.notes]
    rows = {(name, prompt): some for name, match in aligned.items() for prompt, some in match.rows.items()}
    for (name, prompt), some in rows.items() if judges else ():
        check_questions(f"{name}:{prompt}", some, settings.question_column)
    placed = place_rows(mapper, rows)
    models = {}
    for name, match in aligned.items():
        targets = np.array([row.target for row in next(iter(match.rows.values()))], dtype=np.int64)
        models[name] = PromptedModel(tree, targets, {prompt: placed[name, prompt] for prompt in match.rows}, match.rows)
    record["mapper"] = mapper.identity()
    excluded = excluded_records(files, aligned.values())
    return compare_prompts(models, settings, part, record=record, notes=notes, excluded=excluded)


def compare_prompts(
    models: Mapping[str, PromptedModel],
    settings: PromptsSettings,
    part: Domain | None = None,
    *,
    record: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    excluded: Sequence[Mapping[str, Any]] = (),
) -> StudyReport:
    """Scores every model under every prompt and compares each prompt with the baseline on the same examples.

    Args:
        models: The models with their prompts, at least two each.
        settings: The baseline, and how often to resample.
        part: What the tree is a part of, for scores on the whole of it too; None where it is the whole.
        record: The settings that the report records.
        notes: What reading the files left out.
        excluded: The rows that are left out.

    Raises:
        DataError: If a model has a single prompt or lacks the baseline, or no example was answered under both prompts.
    """
    draws = {"resamples": settings.resamples, "seed": settings.seed, "confidence": _CONFIDENCE}
    starts = {name: _baseline(name, model, settings.baseline) for name, model in models.items()}
    placed = {(name, prompt): some for name, model in models.items() for prompt, some in model.prompts.items()}
    scores, arrows = _scores(models, starts, draws)
    measures = settings.measures(settings.measure)
    check_headings(measures)
    missing = sum(int((~some.known).sum()) for some in placed.values())
    tables = [
        _prompts_table(
            placed,
            scores,
            f"Intervals are {100 * _CONFIDENCE:.0f} % bootstrap intervals over the examples.",
            *missing_note(missing, _OVER),
            *(trivial_answer(m.taxonomy, m.targets, name if len(models) > 1 else None) for name, m in models.items()),
        ),
        _arrows_table(arrows),
        _differences_table(arrows),
    ]
    figures: dict[str, Callable[[], Figure]] = {"arrows": partial(draw_arrows, arrows)}
    if measures:
        gains = _gains(models, starts, scores, arrows, measures, settings, draws)
        tables.append(_gains_table(gains, settings.reply))
        figures["gains"] = partial(draw_gains, gains)
    if part is not None:
        nodes = {f"{m}: {prompt}": (some.nodes, models[m].targets) for (m, prompt), some in placed.items()}
        off = {f"{m}: {prompt}": some.as_child for (m, prompt), some in placed.items()}
        tables.append(both_trees_table(part, nodes, "model and prompt", off_tree=off))
    return StudyReport(
        study="prompts",
        title=_TITLE,
        settings={
            **(record or {}),
            "models": {name: list(model.prompts) for name, model in models.items()},
            "baseline": starts,
            "confidence_level": _CONFIDENCE,
            **({"measures": [measure.identity() for measure in measures]} if measures else {}),
        },
        tables=tuple(tables),
        figures=figures,
        notes=tuple(dict.fromkeys((*notes, *measure_notes(measures)))),
        data={"texts": {name: dict(model.texts) for name, model in models.items()}, "excluded": list(excluded)},
    )


def _baseline(name: str, model: PromptedModel, wanted: str | None) -> str:
    start = next(iter(model.prompts)) if wanted is None else wanted
    if len(model.prompts) < 2:
        remedy = "Give its answers under another prompt too."
        raise DataError(f"{name} has a single prompt, so there is nothing to compare.", value=start, remedy=remedy)
    if start not in model.prompts:
        remedy = f"It has {', '.join(map(repr, model.prompts))}."
        raise DataError(f"{name} has no prompt of the baseline's name.", value=wanted, remedy=remedy)
    return start


def _scores(
    models: Mapping[str, PromptedModel], starts: Mapping[str, str], draws: Mapping[str, Any]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of each prompt, and paired differences to the baseline.

    Returns:
        A row per model, prompt and metric: estimate, low, high, over the prompt's own answers. And a row per model,
        other prompt and metric: examples (answered under both), difference, low, high, p_value, and the two prompts'
        scores on these examples: start, start_low, start_high, end, end_low, end_high.
    """
    scores: list[dict[str, Any]] = []
    arrows: list[dict[str, Any]] = []
    for name, prompt in track_each([(m, p) for m, model in models.items() for p in model.prompts], "prompts scored"):
        model, start = models[name], starts[name]
        known = model.prompts[prompt].known
        if not known.any():
            raise DataError(
                f"{name} has no answer under the prompt {prompt!r}: every call failed, or there is no such guess.",
                remedy="Remove this prompt.",
            )
        for metric, one in bootstrap(model.sample(prompt, known), **draws).items():
            scores.append({"model": name, "prompt": prompt, "metric": metric, **asdict(one)})
        if prompt == start:
            continue
        both = known & model.prompts[start].known
        if not both.any():
            raise DataError(
                f"{name} has no example that was answered under both {start!r} and {prompt!r}.",
                remedy="Remove one of the prompts.",
            )
        end, here = model.sample(prompt, both), model.sample(start, both)
        ends, begins = bootstrap(end, **draws), bootstrap(here, **draws)
        for metric, change in paired_bootstrap((end, here), **draws).items():
            about = {"model": name, "from": start, "to": prompt, "examples": int(both.sum()), "metric": metric}
            a, b = begins[metric], ends[metric]
            points = {"start": a.estimate, "start_low": a.low, "start_high": a.high}
            points |= {"end": b.estimate, "end_low": b.low, "end_high": b.high}
            arrows.append({**about, **asdict(change), **points})
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
    models: Mapping[str, PromptedModel],
    starts: Mapping[str, str],
    scores: pd.DataFrame,
    arrows: pd.DataFrame,
    measures: Sequence[Measure],
    settings: PromptsSettings,
    draws: Mapping[str, Any],
) -> pd.DataFrame:
    """Each measure under each prompt, hP and hR first, and its gain over the baseline prompt.

    Returns:
        A row per model, prompt and measure: scored, missing, unscored, mean, mean_low, mean_high, both (how many
        examples have a score under both prompts), difference, low, high, p_value; no values where there are none.
    """
    rows: list[dict[str, Any]] = []
    about: dict[str, Any]
    changes: dict[Any, Any] = {(one["model"], one["to"], one["metric"]): one for one in arrows.to_dict("records")}
    for one in scores[scores["metric"].isin(["hp", "hr"])].to_dict("records"):
        name, prompt, metric = str(one["model"]), str(one["prompt"]), str(one["metric"])
        scored, missing, *_ = models[name].prompts[prompt].counts
        change = changes.get((name, prompt, metric), {"examples": scored})
        about = {"model": name, "prompt": prompt, "measure": _SHOWN[metric], "scored": scored, "missing": missing}
        about |= {"unscored": 0, "mean": one["estimate"], "mean_low": one["low"], "mean_high": one["high"]}
        values = {key: change.get(key) for key in ("difference", "low", "high", "p_value")}
        rows.append({**about, "both": change["examples"], **values})
    for measure in measures:
        for name, model in models.items():
            if set(model.rows) != set(model.prompts):
                raise DataError(f"{name} has no answers as text to measure.", value=measure.name)
            by_prompt = text_scores(
                model.rows,
                measure,
                model.taxonomy,
                reference=settings.reference,
                question_column=settings.question_column,
                read=_answer if settings.reply == "answer" else str,
            )
            start = by_prompt[starts[name]]
            for prompt, some in by_prompt.items():
                answered, missing, *_ = model.prompts[prompt].counts
                scored, both = int((~np.isnan(some)).sum()), ~np.isnan(some) & ~np.isnan(start)
                about = {"model": name, "prompt": prompt, "measure": measure.label, "scored": scored}
                about |= {"missing": missing, "unscored": answered - scored}
                about |= {"both": scored if prompt == starts[name] else int(both.sum())}
                if (mean := mean_interval(some, **draws)) is not None:
                    about |= {"mean": mean.estimate, "mean_low": mean.low, "mean_high": mean.high}
                if prompt != starts[name] and both.any():
                    pair = Sample.mean("gain", some[both]), Sample.mean("gain", start[both])
                    about |= asdict(paired_bootstrap(pair, **draws)["gain"])
                rows.append(about)
    order: list[Any] = [(name, prompt) for name, model in models.items() for prompt in model.prompts]
    rows.sort(key=lambda row: order.index((row["model"], row["prompt"])))
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


def _prompts_table(placed: Mapping[tuple[str, str], PlacedAnswers], scores: pd.DataFrame, *notes: str) -> Table:
    counts = pd.DataFrame([(*key, *some.counts) for key, some in placed.items()], columns=["model", "prompt", *COUNTS])
    by = scores.set_index(["model", "prompt"])
    cells = counts.set_index(["model", "prompt"])
    for metric in ("hp", "hr", "hf"):
        some = by[by["metric"] == metric]
        cells[_SHOWN[metric]] = some["estimate"]
        cells[f"{_SHOWN[metric]} 95 %"] = _ends(some["low"], some["high"], " – ")
    cells["accuracy"] = by[by["metric"] == "accuracy"]["estimate"]
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
