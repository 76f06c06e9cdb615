"""Correlating measures with people: Spearman's and Kendall's correlation with human ratings, and their differences.

Everything works on two frames with a row per answer: the rated answers, and the scores with a column per measure. All
measures are compared on the answers that all of them scored, so that differences are paired.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.metrics.lave import Lave, LaveOptions
from taxtune.metrics.registry import Measure, split_spec
from taxtune.metrics.statistics import interval_and_p, percentiles, resample
from taxtune.progress import track
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.judge.ratings import read_rated_answers
from taxtune.studies.output import draw_dots, frame_table
from taxtune.studies.published import published
from taxtune.studies.settings import needs_of

if TYPE_CHECKING:
    from taxtune.studies.judge import JudgeSettings

__all__ = ["Rater", "correlate", "judge", "judge_answers", "score_answers"]

FloatArray = NDArray[np.float64]

_BASELINES = ("vqa-accuracy", "soft-vqa-accuracy")
# VQA accuracy below this misses an answer that people call correct (paper 4, "Does LAVE Fix VQA Accuracy's Failures?").
_MISSED = 0.5
_INTERVALS = ["Spearman ρ", "ρ low", "ρ high", "Kendall τ", "τ low", "τ high"]
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


def judge(settings: JudgeSettings) -> StudyReport:
    """Reads the answers, scores them and returns the report; see `taxtune.studies.judge.run`."""
    answers, notes = read_rated_answers(settings)
    return judge_answers(answers, _raters(settings), settings, notes)


def _raters(settings: JudgeSettings) -> list[Rater]:
    """Returns the baselines, the measures and LAVE with each judge, every one under its own name."""
    shared, captions = settings.measure_settings(), settings.caption_column is not None
    specs = list(dict.fromkeys([*_BASELINES, *settings.measure]))
    kinds = [spec.partition(":")[0] if isinstance(spec, str) else spec.name for spec in specs]
    if camera := next((kind for spec, kind in zip(specs, kinds, strict=True) if "image" in needs_of(spec)), None):
        raise DataError(f"{camera} needs images, but rated answers have none.", remedy="Remove it.")

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
    """
    measure = rater.measure
    texts, references = answers["answer"].tolist(), answers["references"].tolist()
    questions = answers["question"].tolist() if measure.needs_questions else None
    if isinstance(measure, Lave):
        captions = [caption or None for caption in answers["caption"]] if rater.captions else None
        verdicts = measure.rate(texts, references, questions, captions)
        return verdicts.values, verdicts.replies
    return measure.scores_many(texts, references, questions=questions), None


def correlate(scores: FloatArray, human: FloatArray, *, resamples: int, seed: int) -> tuple[FloatArray, FloatArray]:
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
    codes = [np.unique(row, return_inverse=True)[1].ravel() for row in (human, *scores[scored])]

    def statistic(counts: FloatArray) -> FloatArray:
        values = np.full((len(counts), 2, len(scores)), np.nan)
        for value, drawn in zip(values, counts, strict=True):
            value[:, scored] = np.transpose([_rank_correlations(code, codes[0], drawn) for code in codes[1:]])
            task.advance(1)
        return values

    with track("resamples", resamples + 1) as task:
        drawn = resample(statistic, len(human), resamples=resamples, seed=seed)
        return statistic(np.ones((1, len(human))))[0], drawn


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
    live = unscored < len(answers)
    common = scores.loc[:, live].notna().all(axis=1)
    if not live.any() or not common.any():
        raise DataError(
            "No answer was scored by all measures.",
            file=settings.file,
            value={name: f"{count} of {len(answers)} unscored" for name, count in unscored.items()},
            remedy="Remove the measure that scored the fewest answers.",
        )
    kept, known = answers[common], scores[common]
    found, drawn = _correlated(known, kept["human"], settings)
    by_group = {
        str(group): _correlated(known.loc[some.index], some["human"], settings)[0]
        for group, some in kept.groupby("group", sort=False)
        if group
    }
    groups = pd.concat(by_group, names=["group"]).reset_index() if by_group else pd.DataFrame()
    tables = [_main_table(raters, found, unscored, known.mean())]
    tables.append(_differences_table(found["Spearman ρ"], drawn, live))
    if by_group:
        wide = pd.DataFrame({group: one["Spearman ρ"] for group, one in by_group.items()})
        sizes = ", ".join(f"{group}: {one['answers'].iloc[0]:,}" for group, one in by_group.items())
        note = "Kendall's τ and the intervals of the groups are in the figure and in --json."
        cells = wide.assign(all=found["Spearman ρ"]).reset_index()
        tables.append(frame_table("groups", "Spearman's ρ by group", cells, f"Answers: {sizes}.", note))
    kinds, categories = [rater.kind for rater in raters], [name for name in answers["category"].unique() if name]
    if "vqa-accuracy" in kinds and answers["human"].min() >= 0 and answers["human"].max() == 1:
        vqa = known.iloc[:, kinds.index("vqa-accuracy")]
        tables.append(_missed_table(kept, known, vqa, categories))
    paper = {"paper4-table1": bool(categories), "paper4-table2": True, "paper4-table3": settings.ablations}
    shown = answers[["id", "row", "human"]].to_dict("records")
    records: list[dict[Any, Any]] = [
        {**row, "scores": own} for row, own in zip(shown, scores.to_dict("records"), strict=True)
    ]
    for name, (_, texts) in made.items():
        for record, text in zip(records, texts or (), strict=False):
            record.setdefault("rationales", {})[name] = text
    return StudyReport(
        study="judge",
        title="How well measures agree with people",
        settings={**settings.record(), "measures": {rater.name: rater.measure.identity() for rater in raters}},
        tables=(
            *(one for one in tables if one.rows),
            *(_paper_table(name) for name, wanted in paper.items() if wanted),
        ),
        figures={
            "correlations": partial(
                draw_dots, _drawn(found, by_group), "correlation with human ratings (95 % interval)", zero=True
            )
        },
        notes=(
            *notes,
            *_notes(found["Spearman ρ"], drawn, unscored, common, kept["human"]),
            *(n if n.startswith(r.name) else f"{r.name}: {n}" for r in raters for n in r.measure.notes),
        ),
        data={"groups": groups.to_dict("records"), "answers": records},
    )


def _correlated(
    scores: pd.DataFrame, human: pd.Series[float], settings: JudgeSettings
) -> tuple[pd.DataFrame, FloatArray]:
    """A row per measure: the number of answers, ρ and τ with the ends of their intervals; and ρ in each resample."""
    columns = np.column_stack([human, scores]).T
    values, drawn = correlate(columns[1:], columns[0], resamples=settings.resamples, seed=settings.seed)
    cells = [
        [cell for which in (0, 1) for cell in (values[which, i], *percentiles(drawn[:, which, i]))]
        for i in range(len(scores.columns))
    ]
    found = pd.DataFrame(cells, pd.Index(scores.columns, name="measure"), _INTERVALS)
    found.insert(0, "answers", len(human))
    return found, drawn[:, 0]


def _drawn(found: pd.DataFrame, groups: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """ρ and τ of all answers and of each group, the highest ρ first, as `draw_dots` takes them."""
    order = found.sort_values("Spearman ρ", ascending=False).index
    series = {"all answers": found} | {f"{name} ({one['answers'].iloc[0]:,})": one for name, one in groups.items()}
    ends = ["estimate", "low", "high"]
    parts = [
        one.loc[order, columns].set_axis(ends, axis=1).assign(panel=panel, series=name)
        for panel, columns in (("Spearman's ρ", _INTERVALS[:3]), ("Kendall's τ", _INTERVALS[3:]))
        for name, one in series.items()
    ]
    return pd.concat(parts).rename_axis("name").reset_index()


def _notes(
    rho: pd.Series[float], drawn: FloatArray, unscored: pd.Series[int], common: pd.Series[bool], human: pd.Series[float]
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
    for (name, value), times in zip(rho.items(), np.isnan(drawn).sum(axis=0), strict=True):
        if np.isfinite(value) and times:
            constant = f"{name}: constant in {times:,} of {len(drawn):,} resamples"
            notes.append(f"{constant}, which are left out of its interval.")
    return notes


def _main_table(
    raters: Sequence[Rater], found: pd.DataFrame, unscored: pd.Series[int], means: pd.Series[float]
) -> Table:
    # LAVE's own row depends on the language model, and none of the paper's three need be the one used here.
    printed = published("paper4-table2").query("measure != 'lave'").dropna(subset="measure").set_index("measure")
    cells = found[["answers"]].assign(unscored=unscored, **{"mean score": means}).join(found[_INTERVALS])
    cells["paper 4 ρ"] = printed["overall"].reindex([rater.kind for rater in raters]).to_numpy() / 100
    return frame_table(
        "correlations",
        "Correlation with human ratings",
        cells.reset_index(),
        "ρ and τ (tau-b) over the answers that every measure scored, with 95 % percentile bootstrap intervals.",
        "paper 4 ρ: its Table 2, overall, on 22,100 rated answers to VQAv2, VG-QA and OK-VQA.",
        "– means undefined: the scores or the ratings are all the same, or nothing was scored.",
    )


def _differences_table(rho: pd.Series[float], drawn: FloatArray, live: pd.Series[bool]) -> Table:
    """Returns the difference of ρ of each pair of measures with scores; without rows where there is no pair."""
    from scipy import stats

    rows: list[tuple[Any, ...]] = []
    for a, b in itertools.combinations(np.flatnonzero(live).tolist(), 2):
        first, second = drawn[np.isfinite(drawn[:, [a, b]]).all(axis=1)][:, [a, b]].T
        low, high, p = interval_and_p(first - second)
        t_test = np.nan
        if len(first) and np.ptp(first - second) > 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a correlation of 1 in every resample
                t_test = float(stats.ttest_ind(first, second, equal_var=False).pvalue)
        rows.append((rho.index[a], rho.index[b], rho.iloc[a] - rho.iloc[b], low, high, p, t_test))
    columns = ["measure", "other", "difference", "low", "high", "p", "p (t-test)"]
    differences = pd.DataFrame(rows, columns=columns)
    differences.insert(6, "p (Holm)", _holm(differences["p"]))
    return frame_table(
        "differences",
        "Differences of Spearman's ρ",
        differences,
        "p: paired bootstrap, two-sided; the same resamples of the answers for both measures. Use this p value, or "
        "its Holm adjustment over all pairs.",
        "p (t-test): a t-test between the two sets of resampled correlations, as in paper 4. It shrinks with the "
        "number of resamples, whatever the number of answers, and is shown for comparison only.",
        digits={"p": 4, "p (Holm)": 4, "p (t-test)": 4},
    )


def _holm(p_values: pd.Series[float]) -> list[float]:
    """Returns p-values adjusted for several tests (Holm, 1979); NaN for those that are undefined."""
    p = p_values.to_numpy(dtype=float)
    order = np.argsort(p)[: np.isfinite(p).sum()]
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.maximum.accumulate(np.minimum(1, p[order] * np.arange(len(order), 0, -1)))
    return adjusted.tolist()


def _missed_table(
    answers: pd.DataFrame, scores: pd.DataFrame, vqa: pd.Series[float], categories: Sequence[str]
) -> Table:
    """Returns the mean scores of answers that people call correct and VQA accuracy does not, by category (Figure 4)."""
    missed = (answers["human"] == 1) & (vqa < _MISSED)
    lucky = int(((answers["human"] == 0) & (vqa > _MISSED)).sum())
    printed = {str(name).casefold(): share for name, share in published("paper4-table1").itertuples(index=False)}
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
    printed = published(name).drop(columns="measure", errors="ignore")
    notes = "As printed in the paper; not computed here."
    return frame_table(name, _PAPER[name], printed, notes, digits=dict.fromkeys(printed.columns, 2))
