"""Correlating measures with people: Spearman's and Kendall's correlation with human ratings, and their differences.

Everything works on two frames with a row per answer: the rated answers, and the scores with a column per measure. All
measures are compared on the answers that all of them scored, so that differences are paired.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.metrics.lave import Lave, LaveOptions
from taxtune.metrics.registry import Measure, split_spec
from taxtune.metrics.statistics import interval_and_p, percentiles, resample
from taxtune.progress import track
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.judge.figure import draw_correlations
from taxtune.studies.judge.ratings import read_rated_answers
from taxtune.studies.judge.settings import JudgeSettings
from taxtune.studies.published import published

__all__ = ["Correlations", "Rater", "correlate", "judge", "judge_answers", "score_answers"]

FloatArray = NDArray[np.float64]

_BASELINES = ("vqa-accuracy", "soft-vqa-accuracy")
# VQA accuracy below this misses an answer that people call correct (paper 4, "Does LAVE Fix VQA Accuracy's Failures?").
_MISSED = 0.5
_INTERVALS = ("Spearman ρ", "ρ low", "ρ high", "Kendall τ", "τ low", "τ high")
_CELLS = 200_000  # of a table of two columns' values; beyond, SciPy sorts each resample
_PAPER = {
    "paper4-table1": "Paper 4, Table 1: correct answers that VQA accuracy misses, by category",
    "paper4-table2": "Paper 4, Table 2: Spearman's ρ × 100 by VQA model and data set",
    "paper4-table3": "Paper 4, Table 3: Spearman's ρ × 100 of LAVE with Flan-T5, its prompt varied",
}


class Rater(NamedTuple):
    """A measure under the name that tables show, and whether it reads descriptions of the images."""

    name: str
    measure: Measure
    captions: bool = False

    @property
    def kind(self) -> str:
        """The kind of measure: "rouge-1", "lave"."""
        return self.measure.name.partition(":")[0]


class Correlations(NamedTuple):
    """Correlations of measures with human ratings.

    Attributes:
        answers: Number of answers.
        values: Spearman's ρ and Kendall's τ-b, shape (2, measures); NaN where a side is constant or unscored.
        drawn: The same in each resample, shape (resamples, 2, measures).
    """

    answers: int
    values: FloatArray
    drawn: FloatArray

    def cells(self, i: int, which: int) -> tuple[float, float, float]:
        """Returns ρ (0) or τ (1) of a measure with its 95 % interval."""
        value = float(self.values[which, i])
        return (value, *percentiles(self.drawn[:, which, i])) if np.isfinite(value) else (np.nan,) * 3


def judge(settings: JudgeSettings) -> StudyReport:
    """Reads the answers, scores them and returns the report; see `taxtune.studies.judge.run`."""
    answers, notes = read_rated_answers(settings)
    return judge_answers(answers, _raters(settings), settings, notes)


def _raters(settings: JudgeSettings) -> list[Rater]:
    """Returns the baselines, the measures and LAVE with each judge, every one under its own name."""
    shared, captions = settings.measure_settings(), settings.caption_column is not None
    specs = list(dict.fromkeys([*_BASELINES, *settings.measure]))
    kinds = [spec.partition(":")[0] if isinstance(spec, str) else spec.name for spec in specs]
    if "clip-i2t" in kinds:  # before its weights are fetched
        raise DataError("clip-i2t needs images, but rated answers have none.", remedy="Remove it.")

    def lave(model: str, **options: Any) -> Lave:
        made = Lave(model, shared, options=LaveOptions(**options))
        made.check()  # before a call is paid for
        return made

    raters = []
    for spec, kind in zip(specs, kinds, strict=True):
        made = lave(split_spec(spec)[1] or "") if kind == "lave" else settings.measures([spec])[0]
        name = made.label if kinds.count(kind) == 1 else f"{made.label} ({spec.partition(':')[2] or 'default'})"
        raters.append(Rater(name, made, captions and kind == "lave"))
    for model in dict.fromkeys(settings.judge):
        name = f"LAVE ({model.removeprefix('local:').rsplit('/', 1)[-1]})"
        raters.append(Rater(name, lave(model), captions and not settings.ablations))
        if settings.ablations:
            variants: dict[str, dict[str, Any]] = {
                "1-shot": {"shots": 1},
                "4-shot": {"shots": 4},
                "without rationale": {"rationale": False},
                "without filtering references": {"filter_references": False},
                **({"with caption": {}} if captions else {}),
            }
            raters += [
                Rater(f"{name}, {variant}", lave(model, **changes), not changes)
                for variant, changes in variants.items()
            ]
    return raters


def score_answers(rater: Rater, answers: pd.DataFrame) -> tuple[FloatArray, Sequence[str | None] | None]:
    """Returns a measure's score of each answer, shape (n,), NaN where unscored; and a judge's rationales, or None.

    A measure of one reference counts with its largest score over the references (paper 4, "Baselines"); LAVE, VQA
    accuracy and CIDEr are defined for all references at once.

    Raises:
        DataError: If the measure needs images.
    """
    measure = rater.measure
    if measure.needs_images:
        raise DataError(f"{rater.name} needs images, but rated answers have none.", remedy="Remove it.")
    texts, references = answers["answer"].tolist(), answers["references"].tolist()
    questions = answers["question"].tolist() if measure.needs_questions else None
    if isinstance(measure, Lave):
        captions = [caption or None for caption in answers["caption"]] if rater.captions else None
        verdicts = measure.rate(texts, references, questions, captions)
        return verdicts.values, verdicts.replies
    return measure.scores_many(texts, references, questions=questions), None


def correlate(scores: FloatArray, human: FloatArray, *, resamples: int, seed: int) -> Correlations:
    """Returns ρ and τ-b of each measure with the human ratings, and in each resample of the answers.

    The same draws serve every measure, which makes the differences between measures paired.

    Args:
        scores: Shape (measures, answers); a measure's are all NaN, or none is.
        human: Shape (answers,), without NaN.
        resamples: Number of resamples, at least 1.
        seed: Seed of the draws.
    """
    scored = ~np.isnan(scores).any(axis=1)
    codes = [np.unique(row, return_inverse=True)[1].ravel() for row in (human, *scores[scored])]

    def statistic(counts: FloatArray) -> FloatArray:
        values = np.full((len(counts), 2, len(scores)), np.nan)
        for value, drawn in zip(values, counts, strict=True):
            value[:, scored] = np.transpose([_rank_correlations(code, codes[0], drawn) for code in codes[1:]])
            task.advance(1)
        return values

    with track("resamples", resamples + 1) as task:
        drawn = resample(statistic, len(human), resamples=resamples, seed=seed)
        return Correlations(len(human), statistic(np.ones((1, len(human))))[0], drawn)


def _rank_correlations(x: NDArray[np.int64], y: NDArray[np.int64], counts: FloatArray) -> tuple[float, float]:
    """Returns ρ and τ-b of two columns of ranks from how often each row is drawn; NaN where a side is constant."""
    shape = (int(x.max()) + 1, int(y.max()) + 1)
    n = counts.sum()
    if shape[0] * shape[1] > _CELLS:
        from scipy import stats

        rows = np.repeat(np.arange(len(counts)), counts.astype(np.int64))
        a, b = x[rows], y[rows]
        if not np.ptp(a) or not np.ptp(b):
            return np.nan, np.nan
        return float(stats.spearmanr(a, b).statistic), float(stats.kendalltau(a, b).statistic)
    table = np.bincount(x * shape[1] + y, counts, shape[0] * shape[1]).reshape(shape)
    totals = table.sum(axis=1), table.sum(axis=0)
    ranks = [total.cumsum() - (total - 1) / 2 - (n + 1) / 2 for total in totals]  # mid-ranks, less their mean
    spread = np.prod([(total * rank**2).sum() for total, rank in zip(totals, ranks, strict=True)])
    below = table.cumsum(axis=0) - table
    left = below.cumsum(axis=1) - below
    agreed = (table * (2 * left + below - below.sum(axis=1, keepdims=True))).sum()
    untied = np.prod([(n * (n - 1) - (total * (total - 1)).sum()) / 2 for total in totals])
    if spread <= 0 or untied <= 0:
        return np.nan, np.nan
    return float(ranks[0] @ table @ ranks[1] / np.sqrt(spread)), float(agreed / np.sqrt(untied))


# -- the report -------------------------------------------------------------------------------------------------------


def judge_answers(
    answers: pd.DataFrame, raters: Sequence[Rater], settings: JudgeSettings, notes: Sequence[str] = ()
) -> StudyReport:
    """Scores the rated answers of `read_rated_answers`, correlates the scores with the ratings and returns the report.

    Raises:
        DataError: If there is no measure, two have one name, or no answer was scored by all of them.
    """
    names = [rater.name for rater in raters]
    if not names or len(set(names)) < len(names):
        raise DataError("Give at least one measure, and each only once.", value=", ".join(names))
    made = {rater.name: score_answers(rater, answers) for rater in raters}
    scores = pd.DataFrame({name: values for name, (values, _) in made.items()}, index=answers.index)
    unscored = scores.isna().sum()
    # A measure without any score has no correlation; it must not leave the others without answers.
    common = scores.loc[:, unscored < len(answers)].notna().all(axis=1)
    if (unscored == len(answers)).all() or not common.any():
        raise DataError(
            "No answer was scored by all measures.",
            file=settings.file,
            value={name: f"{count} of {len(answers)} unscored" for name, count in unscored.items()},
            remedy="Remove the measure that scored the fewest answers.",
        )
    kept, known = answers[common], scores[common]
    found = _correlated(known, kept["human"], settings)
    groups = {
        group: _correlated(known[kept["group"] == group], kept.loc[kept["group"] == group, "human"], settings)
        for group in kept["group"].unique()
        if group
    }
    categories = [name for name in answers["category"].unique() if name]
    tables = [_main_table(raters, found, unscored, known.mean())]
    tables.append(_differences_table(found, names, unscored < len(answers)))
    if groups:
        tables.append(_groups_table(names, groups, found))
    kinds = [rater.kind for rater in raters]
    if "vqa-accuracy" in kinds and answers["human"].min() >= 0 and answers["human"].max() == 1:
        vqa = known.iloc[:, kinds.index("vqa-accuracy")]
        tables.append(_missed_table(kept, known, vqa, categories))
    paper = {"paper4-table1": bool(categories), "paper4-table2": True, "paper4-table3": settings.ablations}
    drawn = {f"{group} ({one.answers:,})": _cells(names, one) for group, one in groups.items()}
    rationales = {name: texts for name, (_, texts) in made.items() if texts is not None}
    return StudyReport(
        study="judge",
        title="How well measures agree with people",
        settings={**settings.record(), "measures": {rater.name: rater.measure.identity() for rater in raters}},
        tables=(
            *(one for one in tables if one.rows),
            *(_paper_table(name) for name, wanted in paper.items() if wanted),
        ),
        figures={"correlations": partial(draw_correlations, _cells(names, found), drawn)},
        notes=(
            *notes,
            *_notes(names, found, unscored, common, kept["human"], settings.resamples),
            *(n if n.startswith(r.name) else f"{r.name}: {n}" for r in raters for n in r.measure.notes),
        ),
        data={
            "groups": {group: _numbers(names, inside) for group, inside in groups.items()},
            "answers": [
                {"id": row["id"], "row": row["row"], "human": row["human"], "scores": values}
                | ({"rationales": {name: texts[i] for name, texts in rationales.items()}} if rationales else {})
                for i, (row, values) in enumerate(
                    zip(answers.to_dict("records"), scores.to_dict("records"), strict=True)
                )
            ],
        },
    )


def _correlated(scores: pd.DataFrame, human: pd.Series[float], settings: JudgeSettings) -> Correlations:
    columns = np.vstack([human, scores.to_numpy().T])
    return correlate(columns[1:], columns[0], resamples=settings.resamples, seed=settings.seed)


def _cells(names: Sequence[str], found: Correlations) -> dict[str, list[tuple[float, float, float]]]:
    """ρ and τ of each measure, each with the ends of its interval."""
    return {name: [found.cells(i, which) for which in (0, 1)] for i, name in enumerate(names)}


def _numbers(names: Sequence[str], found: Correlations) -> dict[str, Any]:
    return {"answers": found.answers} | {
        name: {"rho": rho[0], "rho_interval": rho[1:], "tau": tau[0], "tau_interval": tau[1:]}
        for name, (rho, tau) in _cells(names, found).items()
    }


def _notes(
    names: Sequence[str],
    found: Correlations,
    unscored: pd.Series[int],
    common: pd.Series[bool],
    human: pd.Series[float],
    resamples: int,
) -> list[str]:
    notes = []
    if not common.all():
        causes = ", ".join(f"{name} {count:,}" for name, count in unscored.items() if count)
        notes.append(
            f"{int((~common).sum()):,} of {len(common):,} answers are left out because not every measure scored them "
            f"(unscored: {causes})."
        )
    silent = unscored.index[unscored == len(common)]
    notes += [f"{name} scored no answer, so it has no correlation." for name in silent]
    if human.nunique() == 1:
        notes.append("The human ratings are all the same, so correlations are undefined.")
    undefined = np.isnan(found.drawn[:, 0]).sum(axis=0)
    for name, rho, times in zip(names, found.values[0], undefined, strict=True):
        if np.isfinite(rho) and times:
            constant = f"{name}: constant in {times:,} of {resamples:,} resamples"
            notes.append(f"{constant}, which are left out of its interval.")
    return notes


def _main_table(
    raters: Sequence[Rater], found: Correlations, unscored: pd.Series[int], means: pd.Series[float]
) -> Table:
    # LAVE's own row depends on the language model, and none of the paper's three need be the one used here.
    printed = {row["measure"]: row["overall"] for row in published("paper4-table2") if row["measure"] != "lave"}
    rows: list[tuple[Cell, ...]] = []
    for i, rater in enumerate(raters):
        paper = printed.get(rater.kind)
        beside = paper / 100 if isinstance(paper, float) else None
        counts = (found.answers, int(unscored[rater.name]), float(means[rater.name]))
        rows.append((rater.name, *counts, *found.cells(i, 0), *found.cells(i, 1), beside))
    return Table(
        "correlations",
        "Correlation with human ratings",
        ("measure", "answers", "unscored", "mean score", *_INTERVALS, "paper 4 ρ"),
        tuple(rows),
        notes=(
            "ρ and τ (tau-b) over the answers that every measure scored, with 95 % percentile bootstrap intervals.",
            "paper 4 ρ: its Table 2, overall, on 22,100 rated answers to VQAv2, VG-QA and OK-VQA.",
            "– means undefined: the scores or the ratings are all the same, or nothing was scored.",
        ),
    )


def _differences_table(found: Correlations, names: Sequence[str], live: pd.Series[bool]) -> Table:
    """Returns the difference of ρ of each pair of measures with scores; without rows where there is no pair."""
    from scipy import stats

    rows: list[tuple[Any, ...]] = []
    for a, b in itertools.combinations(np.flatnonzero(live).tolist(), 2):
        first, second = found.drawn[:, 0, a], found.drawn[:, 0, b]
        both = np.isfinite(first) & np.isfinite(second)
        change = first[both] - second[both]
        estimate = float(found.values[0, a] - found.values[0, b])
        low = high = p = t_test = np.nan
        if np.isfinite(estimate) and change.size:
            low, high, p = interval_and_p(change)
            if np.ptp(change) > 0:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)  # a correlation of 1 in every resample
                    t_test = float(stats.ttest_ind(first[both], second[both], equal_var=False).pvalue)
        rows.append((names[a], names[b], estimate, low, high, p, t_test))
    return Table(
        "differences",
        "Differences of Spearman's ρ",
        ("measure", "other", "difference", "low", "high", "p", "p (Holm)", "p (t-test)"),
        tuple((*row[:6], holm, row[6]) for row, holm in zip(rows, _holm([row[5] for row in rows]), strict=True)),
        digits={"p": 4, "p (Holm)": 4, "p (t-test)": 4},
        notes=(
            "p: paired bootstrap, two-sided; the same resamples of the answers for both measures. Use this p value, or "
            "its Holm adjustment over all pairs.",
            "p (t-test): a t-test between the two sets of resampled correlations, as in paper 4. It shrinks with the "
            "number of resamples, whatever the number of answers, and is shown for comparison only.",
        ),
    )


def _holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values adjusted for several tests (Holm, 1979); NaN for those that are undefined."""
    p = np.array(p_values)
    order = np.argsort(p)[: np.isfinite(p).sum()]
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.maximum.accumulate(np.minimum(1, p[order] * np.arange(len(order), 0, -1)))
    return adjusted.tolist()


def _groups_table(names: Sequence[str], groups: Mapping[str, Correlations], found: Correlations) -> Table:
    sizes = ", ".join(f"{group}: {inside.answers:,}" for group, inside in groups.items())
    rho = [one.values[0] for one in (*groups.values(), found)]
    return Table(
        "groups",
        "Spearman's ρ by group",
        ("measure", *groups, "all"),
        tuple((name, *(float(values[i]) for values in rho)) for i, name in enumerate(names)),
        notes=(f"Answers: {sizes}.", "Kendall's τ and the intervals of the groups are in the figure and in --json."),
    )


def _missed_table(
    answers: pd.DataFrame, scores: pd.DataFrame, vqa: pd.Series[float], categories: Sequence[str]
) -> Table:
    """Returns the mean scores of answers that people call correct and VQA accuracy does not, by category (Figure 4)."""
    missed = (answers["human"] == 1) & (vqa < _MISSED)
    lucky = int(((answers["human"] == 0) & (vqa > _MISSED)).sum())
    printed = {str(row["category"]).casefold(): row["percent"] for row in published("paper4-table1")}
    rows: list[tuple[Cell, ...]] = []
    for name in [*categories, ""]:
        chosen = missed & ((answers["category"] == name) | (not name))
        count = int(chosen.sum())
        cells: list[Cell] = [name or "all", count, count / len(answers)]
        if categories:
            cells += [100 * count / max(1, int(missed.sum())), printed.get(name.casefold())]
        rows.append((*cells, *scores[chosen].mean().tolist()))
    beside = ("% of missed", "paper 4 %") if categories else ()
    note = "paper 4 %: its Table 1, of 400 missed answers; they add up to 125.75, so some are in several."
    return Table(
        "missed",
        f"Correct answers that VQA accuracy misses (people: 1, VQA accuracy below {_MISSED})",
        ("category", "answers", "share", *beside, *scores.columns),
        tuple(rows),
        digits=dict.fromkeys(beside, 2),
        notes=(
            f"The reverse, people: 0 and VQA accuracy above {_MISSED}: {lucky:,} answers.",
            "Paper 4: 16.33 % of its answers are missed, and 1.72 % the reverse.",
            *((note,) if categories else ()),
        ),
    )


def _paper_table(name: str) -> Table:
    printed = published(name)
    columns = tuple(column for column in printed[0] if column != "measure")
    rows = tuple(tuple(row[column] for column in columns) for row in printed)
    notes = ("As printed in the paper; not computed here.",)
    return Table(name, _PAPER[name], columns, rows, digits=dict.fromkeys(columns, 2), notes=notes)
