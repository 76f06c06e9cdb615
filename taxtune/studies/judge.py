"""Correlating measures with people (paper 4, Tables 2 and 3): Spearman's and Kendall's correlation with human ratings.

Everything works on two frames with a row per answer: the rated answers, and the scores with a column per measure. All
measures are compared on the answers that all of them scored, so that differences are paired.
"""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.metrics.registry import Measure
from taxtune.metrics.statistics import interval_and_p, percentiles, resample
from taxtune.models.lave import Lave, LaveOptions
from taxtune.progress import track
from taxtune.report.output import StudyReport, Table
from taxtune.studies.frames import groups, records
from taxtune.studies.judge_settings import JudgeStudySettings
from taxtune.studies.output import draw_dots, frame_table
from taxtune.studies.published import published
from taxtune.studies.ratings import read_rated_answers
from taxtune.studies.settings import check_inputs

__all__ = ["Rater", "correlate", "judge_answers", "rate_answers", "run"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_BASELINES = ("vqa-accuracy", "soft-vqa-accuracy")
# VQA accuracy below this misses an answer that people call correct (paper 4, "Does LAVE Fix VQA Accuracy's Failures?").
_MISSED = 0.5
_INTERVALS = ["Spearman ρ", "ρ low", "ρ high", "Kendall τ", "τ low", "τ high"]
_CELLS = 200_000  # of a table of two columns' values; beyond, SciPy sorts each resample


class Rater(NamedTuple):
    """A measure under the name that tables show, and whether it reads descriptions of the images."""

    name: str
    measure: Measure
    captions: bool = False

    @property
    def kind(self) -> str:
        """The kind of measure: "rouge-1", "lave"."""
        return self.measure.name.partition(":")[0]


def run(settings: JudgeStudySettings) -> StudyReport:
    """Correlate measures with human ratings of answers (paper 4, Table 2).

    Prints Spearman's and Kendall's correlation of each measure with the ratings, with bootstrap intervals, whether
    measures differ, and the mean scores of correct answers that VQA accuracy misses.

    Raises:
        TaxtuneError: If the file cannot be used, a measure needs what it lacks, or no answer was scored by all.
    """
    answers, notes = read_rated_answers(settings)
    return judge_answers(answers, _raters(settings), settings, notes)


def _raters(settings: JudgeStudySettings) -> list[Rater]:
    """Returns the baselines, the measures and LAVE with each judge, every one under its own name."""
    specs = list(dict.fromkeys([*_BASELINES, *settings.measure]))
    check_inputs(specs, "rated answers", questions=True)
    has_captions = settings.caption_column is not None
    texts = [spec if isinstance(spec, str) else spec.name for spec in specs]
    counts = Counter(text.partition(":")[0] for text in texts)
    raters = []
    for measure, text in zip(settings.measures(specs), texts, strict=True):
        kind, _, model = text.partition(":")
        name = measure.label
        if counts[kind] > 1:
            name = f"{name} ({model or 'default'})"
        reads_captions = has_captions and isinstance(measure, Lave)
        raters.append(Rater(name, measure, reads_captions))
    for model in dict.fromkeys(settings.judge):
        raters += _lave_raters(model, settings)
    for rater in raters:
        if isinstance(rater.measure, Lave):
            rater.measure.check()  # before a call is paid for
    return raters


def _lave_raters(model: str, settings: JudgeStudySettings) -> list[Rater]:
    """Returns LAVE with a model; with --ablations once for each variant of its prompt."""
    has_captions = settings.caption_column is not None
    name = f"LAVE ({model.removeprefix('local:').rpartition('/')[2]})"
    shared = settings.measure_settings()
    if not settings.ablations:
        return [Rater(name, Lave(model, shared), has_captions)]
    variants = {
        "": LaveOptions(),
        ", 1-shot": LaveOptions(shots=1),
        ", 4-shot": LaveOptions(shots=4),
        ", without rationale": LaveOptions(rationale=False),
        ", without filtering references": LaveOptions(filter_references=False),
    }
    raters = []
    for variant, options in variants.items():
        lave = Lave(model, shared, options=options)
        raters.append(Rater(name + variant, lave))
    if has_captions:
        raters.append(Rater(f"{name}, with caption", Lave(model, shared), captions=True))
    return raters


def rate_answers(
    rater: Rater, answers: pd.DataFrame
) -> tuple[FloatArray, Sequence[str | None] | None]:
    """Returns a measure's score of each answer, shape (n,), NaN where unscored; and a judge's rationales, or None.

    A measure of one reference counts with its largest score over the references (paper 4, "Baselines"); LAVE, VQA
    accuracy and CIDEr are defined for all references at once.
    """
    measure = rater.measure
    texts = answers["answer"].tolist()
    references = answers["references"].tolist()
    questions = answers["question"].tolist() if measure.needs_questions else None
    if isinstance(measure, Lave):
        captions = [caption or None for caption in answers["caption"]] if rater.captions else None
        verdicts = measure.rate(texts, references, questions, captions)
        return verdicts.values, verdicts.replies
    return measure.scores_many(texts, references, questions=questions), None


def correlate(
    scores: FloatArray, human: FloatArray, *, resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Returns Spearman's ρ and Kendall's τ-b of each measure with the human ratings, over all and in each resample.

    The same draws serve every measure, which makes the differences between measures paired.

    Args:
        scores: Shape (measures, answers); a measure's are all NaN, or none is.
        human: Shape (answers,), without NaN.
        resamples: Number of resamples of the answers, at least 1.
        seed: Seed of the draws.

    Returns:
        Shapes (2, measures) and (resamples, 2, measures); NaN where a side is constant or unscored.
    """
    scored = ~np.isnan(scores).any(axis=1)
    human_code, *codes = [_codes(row) for row in (human, *scores[scored])]

    def statistic(counts: FloatArray) -> FloatArray:
        values = np.full((len(counts), len(scores), 2), np.nan)
        for value, drawn in zip(values, counts, strict=True):
            value[scored] = [_rank_correlations(code, human_code, drawn) for code in codes]
            task.advance(1)
        return np.swapaxes(values, 1, 2)

    n = len(human)
    with track("resamples", resamples + 1) as task:
        drawn = resample(statistic, n, resamples=resamples, seed=seed)
        return statistic(np.ones((1, n)))[0], drawn


def _codes(values: FloatArray) -> IntArray:
    """Returns the position of each value among the distinct ones, from the smallest."""
    _, codes = np.unique(values, return_inverse=True)
    return np.asarray(codes).ravel()


def _rank_correlations(x: IntArray, y: IntArray, counts: FloatArray) -> tuple[float, float]:
    """Returns ρ and τ-b of two columns of ranks from how often each row is drawn; NaN where a side is constant."""
    shape = int(x.max()) + 1, int(y.max()) + 1
    cells = shape[0] * shape[1]
    if cells > _CELLS:
        return _sorted_correlations(x, y, counts)
    table = np.bincount(x * shape[1] + y, counts, cells).reshape(shape)
    of_rows = table.sum(axis=1)
    of_columns = table.sum(axis=0)
    x_ranks = _centred_ranks(of_rows)
    y_ranks = _centred_ranks(of_columns)
    spread = (of_rows @ x_ranks**2) * (of_columns @ y_ranks**2)
    untied = _untied_pairs(of_rows) * _untied_pairs(of_columns)
    if spread <= 0 or untied <= 0:
        return np.nan, np.nan
    below = table.cumsum(axis=0) - table
    left_below = below.cumsum(axis=1) - below
    right_below = below.sum(axis=1, keepdims=True) - left_below - below
    agreed = (table * (left_below - right_below)).sum()
    rho = x_ranks @ table @ y_ranks / np.sqrt(spread)
    return float(rho), float(agreed / np.sqrt(untied))


def _centred_ranks(totals: FloatArray) -> FloatArray:
    """Returns the mid-rank of each value, less the mean of all ranks, from how often each value occurs."""
    ranks = totals.cumsum() - (totals - 1) / 2
    return np.asarray(ranks - (totals.sum() + 1) / 2)


def _untied_pairs(totals: FloatArray) -> float:
    """Returns the number of pairs of different values from how often each value occurs."""
    return float(totals.sum() ** 2 - (totals**2).sum()) / 2


def _sorted_correlations(x: IntArray, y: IntArray, counts: FloatArray) -> tuple[float, float]:
    from scipy import stats

    times = counts.astype(np.int64)
    x = np.repeat(x, times)
    y = np.repeat(y, times)
    if not np.ptp(x) or not np.ptp(y):
        return np.nan, np.nan
    rho = stats.spearmanr(x, y).statistic
    return float(rho), float(stats.kendalltau(x, y).statistic)


# -- the report -------------------------------------------------------------------------------------------------------


def judge_answers(
    answers: pd.DataFrame,
    raters: Sequence[Rater],
    settings: JudgeStudySettings,
    notes: Sequence[str] = (),
) -> StudyReport:
    """Scores the rated answers of `read_rated_answers`, correlates the scores with the ratings and returns the report.

    Raises:
        DataError: If there is no measure, two have one name, or no answer was scored by all of them.
    """
    names = [rater.name for rater in raters]
    if not names or len(set(names)) < len(names):
        raise DataError("Give at least one measure, and each only once.", value=", ".join(names))
    scores = pd.DataFrame(index=answers.index)
    rationales = {}
    for rater in raters:
        scores[rater.name], replies = rate_answers(rater, answers)
        if replies is not None:
            rationales[rater.name] = replies
    is_common = _scored_by_all(scores, settings)
    kept, known = answers[is_common], scores[is_common]
    overall, drawn = _correlated(known, kept["human"], settings)
    by_group = {}
    for group, rated in groups(kept, "group").items():
        if group:
            by_group[group], _ = _correlated(known.loc[rated.index], rated["human"], settings)
    rho = overall["Spearman ρ"]
    main = overall.copy()
    main.insert(1, "unscored", scores.isna().sum())
    main.insert(2, "mean score", known.mean())
    tables = [_main_table(main, raters), _differences_table(rho, drawn, known)]
    if by_group:
        tables.append(_groups_table(overall, by_group))
    vqa = [rater.name for rater in raters if rater.kind == "vqa-accuracy"]
    if vqa and answers["human"].min() >= 0 and answers["human"].max() == 1:
        categories = [name for name in answers["category"].unique() if name]
        tables.append(_missed_table(kept, known, known[vqa[0]], categories))
    more_notes = _notes(rho, drawn, scores, is_common)
    for rater in raters:
        for note in rater.measure.notes:
            more_notes.append(note if note.startswith(rater.name) else f"{rater.name}: {note}")
    label = "correlation with human ratings (95 % interval)"
    figure = partial(draw_dots, _drawn(overall, by_group), label, zero=True)
    data = {"groups": _group_records(by_group), "answers": _records(answers, scores, rationales)}
    record = settings.record()
    record["measures"] = {rater.name: rater.measure.identity() for rater in raters}
    return StudyReport(
        study="judge",
        title="How well measures agree with people",
        settings=record,
        tables=tuple(table for table in tables if table.rows),
        figures={"correlations": figure},
        notes=(*notes, *more_notes),
        data=data,
    )


def _scored_by_all(scores: pd.DataFrame, settings: JudgeStudySettings) -> pd.Series[bool]:
    """Returns which answers all measures have scored; a measure without any score does not count.

    It has no correlation, and must not leave the others without answers.
    """
    unscored = scores.isna().sum()
    is_common = scores.loc[:, unscored < len(scores)].notna().all(axis=1)
    if unscored.min() == len(scores) or not is_common.any():
        counts = {name: f"{count} of {len(scores)} unscored" for name, count in unscored.items()}
        message = "No answer was scored by all measures."
        remedy = "Remove the measure that scored the fewest answers."
        raise DataError(message, file=settings.file, value=counts, remedy=remedy)
    return is_common


def _correlated(
    scores: pd.DataFrame, human: pd.Series[float], settings: JudgeStudySettings
) -> tuple[pd.DataFrame, FloatArray]:
    """Returns the correlations of each measure with the ratings, and ρ in each resample.

    The correlations have a row per measure: the number of answers, ρ and τ with the ends of their intervals.
    """
    columns = scores.to_numpy(np.float64).T
    ratings = np.asarray(human, dtype=np.float64)
    resamples, seed = settings.resamples, settings.seed
    values, drawn = correlate(columns, ratings, resamples=resamples, seed=seed)
    correlations = pd.DataFrame({"answers": len(human)}, scores.columns.rename("measure"))
    for i, names in enumerate((_INTERVALS[:3], _INTERVALS[3:])):
        correlations[names[0]] = values[i]
        correlations[names[1:]] = [percentiles(resampled) for resampled in drawn[:, i].T]
    return correlations, drawn[:, 0]


def _group_records(by_group: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    if not by_group:
        return []
    return records(pd.concat(by_group, names=["group"]).reset_index())


def _records(
    answers: pd.DataFrame, scores: pd.DataFrame, rationales: Mapping[str, Sequence[str | None]]
) -> list[dict[str, Any]]:
    """Returns id, row, human rating, scores and, where there are judges, rationales of every answer."""
    rows = records(answers[["id", "row", "human"]])
    for row, own in zip(rows, records(scores), strict=True):
        row["scores"] = own
    if rationales:
        texts = pd.DataFrame(rationales, dtype=object)
        for row, own in zip(rows, records(texts), strict=True):
            row["rationales"] = own
    return rows


def _notes(
    rho: pd.Series[float], drawn: FloatArray, scores: pd.DataFrame, is_common: pd.Series[bool]
) -> list[str]:
    notes = []
    if not is_common.all():
        unscored = scores.isna().sum()
        causes = ", ".join(f"{name} {count:,}" for name, count in unscored.items() if count)
        left_out = f"{int((~is_common).sum()):,} of {len(scores):,} answers are left out"
        notes.append(f"{left_out} because not every measure scored them (unscored: {causes}).")
    constants = np.isnan(drawn).sum(axis=0)
    for name, constant in zip(rho.index, constants, strict=True):
        if constant and not np.isnan(rho[name]):
            resamples = f"{constant:,} of {len(drawn):,} resamples"
            notes.append(f"{name}: constant in {resamples}, which are left out of its interval.")
    return notes


# -- tables and the figure --------------------------------------------------------------------------------------------


def _main_table(cells: pd.DataFrame, raters: Sequence[Rater]) -> Table:
    table = published("paper4-table2").dropna(subset="measure")
    # LAVE's own row depends on the language model, and none of the paper's three need be the one used here.
    printed = table.set_index("measure")["overall"].drop("lave") / 100
    cells["paper 4 ρ"] = [printed.get(rater.kind) for rater in raters]
    return frame_table(
        "correlations",
        "Correlation with human ratings",
        cells.reset_index(),
        "ρ and τ (tau-b) over the answers that every measure scored, with 95 % percentile bootstrap intervals.",
        "paper 4 ρ: its Table 2, overall, on 22,100 rated answers to VQAv2, VG-QA and OK-VQA.",
        "– means undefined: the scores or the ratings are all the same, or nothing was scored.",
    )


def _groups_table(overall: pd.DataFrame, by_group: Mapping[str, pd.DataFrame]) -> Table:
    cells = pd.DataFrame({group: table["Spearman ρ"] for group, table in by_group.items()})
    cells["all"] = overall["Spearman ρ"]
    sizes = [f"{group}: {table['answers'].iloc[0]:,}" for group, table in by_group.items()]
    return frame_table(
        "groups",
        "Spearman's ρ by group",
        cells.reset_index(),
        f"Answers: {', '.join(sizes)}.",
        "Kendall's τ and the intervals of the groups are in the figure and in --json.",
    )


def _differences_table(rho: pd.Series[float], drawn: FloatArray, scores: pd.DataFrame) -> Table:
    """Returns the difference of ρ of each pair of measures with scores; without rows where there is no pair."""
    resampled = pd.DataFrame(drawn, columns=rho.index)
    scored = rho.index[scores.notna().any()]
    rows = []
    for first, second in itertools.combinations(scored, 2):
        pair = resampled[[first, second]].dropna()
        difference = (pair[first] - pair[second]).to_numpy()
        row = [first, second, rho[first] - rho[second]]
        rows.append([*row, *interval_and_p(difference), _t_test(pair)])
    columns = ["measure", "other", "difference", "low", "high", "p", "p (t-test)"]
    cells = pd.DataFrame(rows, columns=columns)
    # Holm (1979): the i-th smallest of m p values times m - i, and never less than the one before.
    p_values = cells["p"].dropna().sort_values(kind="stable")
    adjusted = p_values * np.arange(len(p_values), 0, -1)
    cells["p (Holm)"] = adjusted.clip(upper=1).cummax()
    return frame_table(
        "differences",
        "Differences of Spearman's ρ",
        cells,
        "p: paired bootstrap, two-sided; the same resamples of the answers for both measures. p (Holm): adjusted for "
        "all pairs.",
        "p (t-test): a t-test between the two sets of resampled correlations, as in paper 4. It shrinks with the "
        "number of resamples, whatever the number of answers, and is shown for comparison only.",
        digits={"p": 4, "p (Holm)": 4, "p (t-test)": 4},
    )


def _t_test(pair: pd.DataFrame) -> float:
    """Returns the p value of Welch's t-test of two columns; NaN where their difference is constant."""
    from scipy import stats

    first, second = pair.to_numpy().T
    if not len(pair) or np.ptp(first - second) == 0:
        return np.nan
    # All correlations may be 1.
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        return float(stats.ttest_ind(first, second, equal_var=False).pvalue)


def _missed_table(
    answers: pd.DataFrame, scores: pd.DataFrame, vqa: pd.Series[float], categories: Sequence[str]
) -> Table:
    """Returns the mean scores of answers that people call correct and VQA accuracy does not, by category (Figure 4)."""
    is_missed = (answers["human"] == 1) & (vqa < _MISSED)
    is_lucky = (answers["human"] == 0) & (vqa > _MISSED)
    printed = published("paper4-table1").set_index("category")["percent"]
    printed.index = printed.index.str.casefold()
    rows: list[dict[Any, Any]] = []
    for name in [*categories, "all"]:
        chosen = is_missed & ((answers["category"] == name) | (name == "all"))
        row = {"category": name, "answers": int(chosen.sum()), "share": chosen.mean()}
        if categories:
            row["% of missed"] = 100 * chosen.sum() / max(1, is_missed.sum())
            row["paper 4 %"] = printed.get(name.casefold())
        rows.append(row | scores[chosen].mean().to_dict())
    notes = [
        f"The reverse, people: 0 and VQA accuracy above {_MISSED}: {is_lucky.sum():,} answers.",
        "Paper 4: 16.33 % of its answers are missed, and 1.72 % the reverse.",
    ]
    if categories:
        notes.append(
            "paper 4 %: its Table 1, of 400 missed answers; they add up to 125.75, so some are in several."
        )
    title = f"Correct answers that VQA accuracy misses (people: 1, VQA accuracy below {_MISSED})"
    digits = {"% of missed": 2, "paper 4 %": 2}
    return frame_table("missed", title, pd.DataFrame(rows), *notes, digits=digits)


def _drawn(overall: pd.DataFrame, by_group: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Returns ρ and τ of all answers and of each group, the highest ρ first, as `draw_dots` takes them."""
    order = overall.sort_values("Spearman ρ", ascending=False).index
    series = {"all answers": overall}
    for group, table in by_group.items():
        series[f"{group} ({table['answers'].iloc[0]:,})"] = table
    panels = {"Spearman's ρ": _INTERVALS[:3], "Kendall's τ": _INTERVALS[3:]}
    parts = {}
    for panel, columns in panels.items():
        for name, table in series.items():
            part = table.loc[order, columns]
            parts[panel, name] = part.set_axis(["estimate", "low", "high"], axis=1)
    return pd.concat(parts, names=["panel", "series", "name"]).reset_index()
