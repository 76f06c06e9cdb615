"""Ranking models by their answers: every model scored under every measure, with bootstrap intervals of the ranks.

Every resample draws the same examples for all models and measures. Two models are compared on the examples that both
have a score for, so that a failed call of one model costs no other model an example and is never a zero. A model's rank
is one more than the number of models that beat it, and a tie counts a half.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from taxtune.errors import DataError
from taxtune.metrics.hierarchical import is_exact, precision_recall
from taxtune.metrics.statistics import percentiles, resample
from taxtune.progress import track
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
from taxtune.studies.ranking.settings import RankingSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


__all__ = ["Measured", "kendall_taus", "rank_models", "run"]

FloatArray = NDArray[np.float64]

_TITLE = "Ranking of models under text measures and taxonomy-aware metrics"
# The metrics, after the text measures and in the order of the paper's Tables 4 and 5.
_METRICS = ("accuracy", "hR", "hP", "hF")
_INTERVAL = ["2.5 %", "97.5 %"]
# Values that differ by less are tied: sums of the same numbers in another order differ in the last digits.
_TIE = 1e-12


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
    read = read_tables(named_paths(settings.files), settings, taxonomy, part)
    # Parts of one file are named after what tells them apart.
    several = len({name for name, _ in read}) > 1
    tables = {
        (", ".join(filter(None, key)) if several else key[1] or key[0], ""): one
        for key, one in read.items()
    }
    if len(tables) < 2:
        remedy = "Give several files as MODEL=FILE, or one with --by COLUMN or several --guess."
        raise DataError(
            "A ranking needs at least two models.",
            value=[name for name, _ in tables],
            remedy=remedy,
        )
    contest = gather([tables], settings)
    if contest.answers["answer"].isna().all():
        remedy = "Check the column with the answers, and whether every call failed."
        raise DataError("No model has answers, so there is nothing to rank.", remedy=remedy)
    # Models are loaded once the files are known to be in order.
    measures, mapper = settings.measures(settings.measure), settings.mapper(taxonomy)
    check_headings(measures, ("model", *COUNTS, *_METRICS))
    placed = place_answers(mapper, contest.answers)
    known = placed[placed["node"] >= 0]
    hp, hr = precision_recall(taxonomy, known["node"], known["target"], off_tree=known["as_child"])
    accuracy = is_exact(hp, hr).astype(float)
    for name, values in (("accuracy", accuracy), ("hR", hr), ("hP", hp)):
        placed[name] = pd.Series(values, index=known.index, dtype=float)
    for measure in measures:
        placed[measure.label] = text_scores(contest.answers, measure, taxonomy, settings.reference)
    models = list(placed["model"].unique())

    def matrix(column: str) -> FloatArray:
        return placed[column].to_numpy().reshape(len(models), -1)

    columns = [Measured(measure.label, matrix(measure.label)) for measure in measures]
    columns += [Measured(name, matrix(name)) for name in _METRICS[:-1]]
    columns.append(Measured("hF", matrix("hP"), matrix("hR")))
    ranks, taus = rank_models(columns, models, resamples=settings.resamples, seed=settings.seed)
    targets = placed.loc[placed["model"] == models[0], "target"].to_numpy()
    groups = {str(model): some for model, some in placed.groupby("model", sort=False)}
    remarks = [
        "Text measures and accuracy are in percent, hR, hP and hF between 0 and 1, as in the paper.",
        *missing_note(
            len(placed) - len(known),
            "a value is over the model's own answers; a rank compares each pair of models on the examples that both "
            "answered",
        ),
        trivial_answer(taxonomy, targets),
    ]
    for measure in measures:
        lacking = placed.loc[known.index, measure.label].isna()
        unscored = lacking.groupby(known["model"], sort=False).agg(["sum", "size"])
        remarks += [
            f"{measure.label}: {row['sum']:,} of {row['size']:,} answers of {model} are unscored."
            for model, row in unscored.iterrows()
            if row["sum"]
        ]
    shown = [
        _scores_table(answer_counts(placed, ["model"]), columns, remarks),
        _ranks_table(ranks),
        frame_table(
            "uncertainty",
            "How certain the ranks are",
            ranks,
            f"Percentiles of the rank, and share of first places, over {settings.resamples:,} resamples of the "
            "examples, the same for all models and measures; k models tied for first place get 1/k each.",
            digits={**dict.fromkeys(("rank", *_INTERVAL), 1), "P(first)": 2},
        ),
        frame_table(
            "tau",
            f"Kendall's τ of each measure's ranking with that of {columns[-1].label}",
            taus,
            "τ-b; the interval is over the resamples in which neither ranking ties all models.",
            digits=dict.fromkeys(("τ", *_INTERVAL), 2),
        ),
    ]
    if part is not None:
        both = {name: (some["node"], some["target"]) for name, some in groups.items()}
        shown.append(
            both_trees_table(
                part, both, off_tree={name: some["as_child"] for name, some in groups.items()}
            )
        )
    return StudyReport(
        study="ranking",
        title=_TITLE,
        settings={
            **settings.record(),
            "models": models,
            "examples": len(targets),
            "measures": [measure.identity() for measure in measures],
            "mapper": mapper.identity(),
        },
        tables=tuple(shown),
        figures={"ranks": partial(draw_ranks, ranks)},
        notes=(*contest.notes, *measure_notes(measures)),
        data={"excluded": contest.excluded},
    )


def draw_ranks(ranks: pd.DataFrame) -> Figure:
    """Draws the rank-shift chart of paper 1's Figure 5: each model's rank by measure, the best on top."""
    curves = ranks.rename(
        columns={"model": "series", "measure": "x", "rank": "estimate", "2.5 %": "low"}
    )
    curves = curves.rename(columns={"97.5 %": "high"}).assign(panel="", way="")
    figure = draw_curves(curves, "rank, with its 95 % bootstrap interval")
    figure.axes[0].set(
        ylim=(ranks["model"].nunique() + 0.5, 0.5), yticks=range(1, ranks["model"].nunique() + 1)
    )
    return figure


# -- ranks ------------------------------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """One measure of all models on the same examples; larger is better.

    Attributes:
        label: The measure's name.
        scores: Scores of shape (models, examples); NaN is unscored.
        other: A second array of that shape where the value is the harmonic mean of two means (hF of hP and hR, paper 1,
            eq. 3), else None.
    """

    label: str
    scores: FloatArray
    other: FloatArray | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which examples of which model have a score, shape (models, examples)."""
        return ~np.isnan(self.scores if self.other is None else self.scores + self.other)

    def values(self, counts: FloatArray | None = None, beside: int | None = None) -> FloatArray:
        """Returns each model's value in each resample, shape (resamples, models); NaN where it has none.

        Args:
            counts: How often each example is drawn, shape (resamples, examples); None takes each once.
            beside: Another model, to count only the examples that it has a score for as well.
        """
        counts = np.ones((1, self.scores.shape[1])) if counts is None else counts
        known = self.known if beside is None else self.known & self.known[beside]
        arrays = [
            np.where(known, array, 0.0) for array in (self.scores, self.other) if array is not None
        ]
        with np.errstate(invalid="ignore", divide="ignore"):
            total = counts @ known.T.astype(np.float64)
            first, *second = (counts @ array.T / total for array in arrays)
            if second:
                first = np.where(
                    first + second[0] == 0, 0.0, 2 * first * second[0] / (first + second[0])
                )
        return np.asarray(first)

    def ranks(self, counts: FloatArray | None = None) -> FloatArray:
        """Returns the ranks of the models in each resample, shape (resamples, models); NaN for one without scores."""
        ranked = ~np.isnan(self.values()[0])
        known = self.known[ranked]
        if (known == known[:1]).all():
            own = self.values(counts)[:, :, np.newaxis]
            gap = np.swapaxes(own, 1, 2) - own
        else:
            # own[b, i, j]: model i on the examples that i and j both have a score for in resample b.
            own = np.stack([self.values(counts, beside=j) for j in range(len(ranked))], axis=2)
            gap = np.swapaxes(own, 1, 2) - own
        # Two models without an example in common cannot be distinguished: they count as tied.
        lost = np.where(np.isnan(gap) | (np.abs(gap) <= _TIE), 0.5, (gap > 0) * 1.0)
        return np.where(
            ranked, 1 + (lost * (ranked & ~np.eye(len(ranked), dtype=bool))).sum(axis=2), np.nan
        )


def rank_models(
    measures: Sequence[Measured], models: Sequence[str], *, resamples: int = 2000, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ranks models under each measure, with percentile bootstrap intervals of the ranks.

    Args:
        measures: One or more measures of the same models and examples; τ compares each with the last one.
        models: The models' names.
        resamples: Number of bootstrap resamples of the examples, at least 1.
        seed: Seed of the resampling.

    Returns:
        A row per measure and model: measure, model, rank (best first from 1; NaN without any score), the 2.5 % and
        97.5 % quantiles of the rank over the resamples, and P(first), the share of them in which the model is first (k
        models tied for it get 1/k each). And a row per measure but the last: measure, Kendall's τ-b of its ranks with
        those of the last, and its quantiles over the resamples in which neither ties all models.
    """
    ranks = np.stack([measure.ranks()[0] for measure in measures])

    def statistic(counts: FloatArray) -> FloatArray:
        task.advance(len(counts))
        return np.stack([measure.ranks(counts) for measure in measures], axis=1)

    with track("resamples", resamples) as task:
        drawn = resample(statistic, measures[0].scores.shape[1], resamples=resamples, seed=seed)
    # A quantile of ranks must be a rank that occurred, not a point between two.
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="inverted_cdf")
    best = drawn == np.nanmin(np.where(np.isnan(drawn), np.inf, drawn), axis=2, keepdims=True)
    first = (best / np.maximum(best.sum(axis=2, keepdims=True), 1)).mean(axis=0)
    names = [measure.label for measure in measures]
    index = pd.MultiIndex.from_product([names, models], names=["measure", "model"])
    cells = {
        "rank": ranks,
        "2.5 %": low,
        "97.5 %": high,
        "P(first)": np.where(np.isnan(ranks), np.nan, first),
    }
    taus = pd.DataFrame({"measure": names, "τ": kendall_taus(ranks, ranks[-1])})
    taus[_INTERVAL] = [percentiles(column) for column in kendall_taus(drawn, drawn[:, -1:]).T]
    return pd.DataFrame(
        {name: values.ravel() for name, values in cells.items()}, index
    ).reset_index(), taus[:-1]


def kendall_taus(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Returns Kendall's τ-b of rankings along the last axis, over the models that both rank; NaN where one ties all."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    i, j = np.triu_indices(a.shape[-1], 1)
    left, right = np.broadcast_arrays(
        np.sign(a[..., i] - a[..., j]), np.sign(b[..., i] - b[..., j])
    )
    both = ~np.isnan(left + right)
    left, right = np.where(both, left, 0.0), np.where(both, right, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((left * right).sum(-1) / np.sqrt((left**2).sum(-1) * (right**2).sum(-1)))


# -- tables -----------------------------------------------------------------------------------------------------------


def _scores_table(counts: pd.DataFrame, columns: Sequence[Measured], notes: Sequence[str]) -> Table:
    """Returns the values of the models as paper 1 prints them (Tables 4 and 5): all but hR, hP and hF in percent."""
    for one in columns:
        counts[one.label] = one.values()[0] * (1 if one.label in _METRICS[1:] else 100)
    digits = {one.label: 3 if one.label in _METRICS[1:] else 1 for one in columns}
    return frame_table("scores", _TITLE, counts.reset_index(), *notes, digits=digits)


def _ranks_table(ranks: pd.DataFrame) -> Table:
    measures, models = ranks["measure"].unique(), ranks["model"].unique()
    wide = (
        ranks.pivot(index="model", columns="measure", values="rank")
        .loc[models, measures]
        .reset_index()
    )
    note = "1 is the best. Tied models share the average of their ranks."
    title = "Rank of each model under each measure"
    return frame_table("ranks", title, wide, note, digits=dict.fromkeys(measures, 1))
