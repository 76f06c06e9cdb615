"""Ranking models by their answers: every model scored under every measure; the ranks are made in `ranks`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from taxtune.answers import AnswerTable
from taxtune.errors import DataError
from taxtune.metrics.hierarchical import is_exact, precision_recall
from taxtune.metrics.registry import Measure
from taxtune.report.output import StudyReport, Table
from taxtune.studies.contestants import (
    COUNTS,
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
from taxtune.studies.output import both_trees_table, draw_curves, frame_table
from taxtune.studies.ranking.ranks import INTERVAL, Measured, rank_models
from taxtune.studies.ranking.settings import RankingSettings
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["run"]

_TITLE = "Ranking of models under text measures and taxonomy-aware metrics"
# The metrics, after the text measures and in the order of the paper's Tables 4 and 5; those between 0 and 1.
_METRICS = ("accuracy", "hR", "hP", "hF")
_FRACTIONS = _METRICS[1:]
_SCALES = (
    "Text measures and accuracy are in percent, hR, hP and hF between 0 and 1, as in the paper."
)
_OVER = (
    "a value is over the model's own answers; a rank compares each pair of models on the examples that both "
    "answered"
)


def run(settings: RankingSettings) -> StudyReport:
    """Rank models by what they answered, under text measures and under hP, hR and hF (paper 1, Figure 5, Tables 4, 5).

    Prints the scores, the ranks, how sure they are (paired bootstrap) and how far each measure's ranking agrees with
    that of hF; with --out also draws the rank-shift chart.

    Raises:
        TaxtuneError: If files do not fit together, there are fewer than two models, a measure lacks an input, or no
            model has an answer.
    """
    check_measures(settings.measure, settings.question_column)
    taxonomy, part = settings.read_tree()
    contest = gather([_read_models(settings, taxonomy, part)], settings)
    if contest.answers["answer"].isna().all():
        remedy = "Check the column with the answers, and whether every call failed."
        raise DataError("No model has answers, so there is nothing to rank.", remedy=remedy)
    # Models are loaded once the files are known to be in order.
    measures = settings.measures(settings.measure)
    mapper = settings.mapper(taxonomy)
    check_headings(measures, ("model", *COUNTS, *_METRICS))
    placed = place_answers(mapper, contest.answers)
    _add_scores(placed, measures, taxonomy, settings.reference)
    models = list(placed["model"].unique())
    columns = _columns(placed, measures, len(models))
    ranks, taus = rank_models(columns, models, resamples=settings.resamples, seed=settings.seed)
    targets = placed.loc[placed["model"] == models[0], "target"].to_numpy()
    counts = answer_counts(placed, ["model"])
    notes = [_SCALES]
    notes += missing_note(int(counts["missing"].sum()), _OVER)
    notes.append(trivial_answer(taxonomy, targets))
    notes += _unscored_notes(placed, measures)
    tables = [_scores_table(counts, columns, notes), _ranks_table(ranks)]
    tables.append(_uncertainty_table(ranks, settings.resamples))
    tables.append(_taus_table(taus))
    if part is not None:
        tables.append(both_trees_table(part, placed, "model"))
    record = settings.record()
    record["models"] = models
    record["examples"] = len(targets)
    record["measures"] = [measure.identity() for measure in measures]
    record["mapper"] = mapper.identity()
    return StudyReport(
        study="ranking",
        title=_TITLE,
        settings=record,
        tables=tuple(tables),
        figures={"ranks": partial(_draw_ranks, ranks)},
        notes=(*contest.notes, *measure_notes(measures)),
        data={"excluded": contest.excluded},
    )


def _read_models(
    settings: RankingSettings, taxonomy: Taxonomy, part: Domain | None
) -> dict[tuple[str, str], AnswerTable]:
    """Returns the answers of each model; parts of one file are named after the value that tells them apart."""
    tables = read_tables(named_paths(settings.files), settings, taxonomy, part)
    several = len({name for name, _ in tables}) > 1
    models = {}
    for (name, value), table in tables.items():
        model = ", ".join(filter(None, (name, value))) if several else value or name
        models[model, ""] = table
    if len(models) < 2:
        remedy = "Give several files as MODEL=FILE, or one with --by COLUMN or several --guess."
        names = [name for name, _ in models]
        raise DataError("A ranking needs at least two models.", value=names, remedy=remedy)
    return models


def _add_scores(
    placed: pd.DataFrame, measures: Sequence[Measure], taxonomy: Taxonomy, reference: str
) -> None:
    """Adds a column per metric and measure; NaN is unscored."""
    known = placed[placed["node"] >= 0]
    off_tree = known["as_child"]
    hp, hr = precision_recall(taxonomy, known["node"], known["target"], off_tree=off_tree)
    scores = pd.DataFrame({"accuracy": is_exact(hp, hr), "hR": hr, "hP": hp}, known.index)
    placed[scores.columns] = scores.astype(float)
    for measure in measures:
        placed[measure.label] = text_scores(placed, measure, taxonomy, reference)


def _columns(placed: pd.DataFrame, measures: Sequence[Measure], models: int) -> list[Measured]:
    """Returns the scores under each measure and metric, shape (models, examples)."""
    scores = {}
    for name in [*(measure.label for measure in measures), "accuracy", "hR", "hP"]:
        scores[name] = placed[name].to_numpy().reshape(models, -1)
    columns = [Measured(name, values) for name, values in scores.items()]
    columns.append(Measured("hF", scores["hP"], scores["hR"]))
    return columns


def _unscored_notes(placed: pd.DataFrame, measures: Sequence[Measure]) -> list[str]:
    known = placed[placed["node"] >= 0]
    notes = []
    for measure in measures:
        for model, scores in known.groupby("model", sort=False)[measure.label]:
            lacking = scores.isna().sum()
            if lacking:
                counts = f"{lacking:,} of {len(scores):,} answers of {model} are unscored."
                notes.append(f"{measure.label}: {counts}")
    return notes


# -- tables and the figure --------------------------------------------------------------------------------------------


def _scores_table(cells: pd.DataFrame, columns: Sequence[Measured], notes: Sequence[str]) -> Table:
    """Returns the values of the models as paper 1 prints them (Tables 4 and 5): all but hR, hP and hF in percent."""
    digits = {}
    for column in columns:
        values = column.values()[0]
        if column.label not in _FRACTIONS:
            values = 100 * values
            digits[column.label] = 1
        cells[column.label] = values
    return frame_table("scores", _TITLE, cells.reset_index(), *notes, digits=digits)


def _ranks_table(ranks: pd.DataFrame) -> Table:
    wide = ranks.set_index(["model", "measure"])["rank"].unstack(sort=False)
    cells = wide.reset_index()
    note = "1 is the best. Tied models share the average of their ranks."
    title = "Rank of each model under each measure"
    return frame_table("ranks", title, cells, note, digits=1)


def _uncertainty_table(ranks: pd.DataFrame, resamples: int) -> Table:
    return frame_table(
        "uncertainty",
        "How certain the ranks are",
        ranks,
        f"Percentiles of the rank, and share of first places, over {resamples:,} resamples of the examples, the same "
        "for all models and measures; k models tied for first place get 1/k each.",
        digits=dict.fromkeys(["rank", *INTERVAL], 1) | {"P(first)": 2},
    )


def _taus_table(taus: pd.DataFrame) -> Table:
    title = "Kendall's τ of each measure's ranking with that of hF"
    note = "τ-b; the interval is over the resamples in which neither ranking ties all models."
    return frame_table("tau", title, taus, note, digits=2)


def _draw_ranks(ranks: pd.DataFrame) -> Figure:
    """Draws the rank-shift chart of paper 1's Figure 5: each model's rank by measure, the best on top."""
    low, high = INTERVAL
    names = {"model": "series", "measure": "x", "rank": "estimate", low: "low", high: "high"}
    curves = ranks.rename(columns=names).assign(panel="", way="")
    figure = draw_curves(curves, "rank, with its 95 % bootstrap interval")
    models = ranks["model"].nunique()
    (axes,) = figure.axes
    axes.set_ylim(models + 0.5, 0.5)
    axes.set_yticks(range(1, models + 1))
    return figure
