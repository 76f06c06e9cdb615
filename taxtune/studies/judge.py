"""Correlating measures with people (paper 4, Tables 2 and 3): Spearman's and Kendall's correlation with human ratings.

Everything works on two frames with a row per answer: the rated answers, and the scores with a column per measure. All
measures are compared on the answers that all of them scored, so that differences are paired.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import model_validator
from typer import Argument, Option

from taxtune.errors import DataError
from taxtune.metrics.registry import Measure
from taxtune.metrics.statistics import interval_and_p, percentiles, resample
from taxtune.models.lave import Lave, LaveOptions
from taxtune.options import (
    AnswerColumnOption,
    IdColumnOption,
    QuestionColumnOption,
    SeedOption,
    measure_option,
)
from taxtune.progress import track
from taxtune.report.output import StudyReport, Table
from taxtune.studies.output import draw_dots, frame_table
from taxtune.studies.published import published
from taxtune.studies.ratings import read_rated_answers
from taxtune.studies.settings import NOT_RECORDED, ApiSettings, BatchSize, check_inputs

__all__ = ["JudgeStudySettings", "Rater", "correlate", "judge_answers", "run", "score_answers"]

FloatArray = NDArray[np.float64]

_BASELINES = ("vqa-accuracy", "soft-vqa-accuracy")
# VQA accuracy below this misses an answer that people call correct (paper 4, "Does LAVE Fix VQA Accuracy's Failures?").
_MISSED = 0.5
_INTERVALS = ["Spearman ρ", "ρ low", "ρ high", "Kendall τ", "τ low", "τ high"]
_CELLS = 200_000  # of a table of two columns' values; beyond, SciPy sorts each resample


class JudgeStudySettings(ApiSettings):
    """The rated answers and the measures: see `taxtune study judge --help`."""

    file: Annotated[
        Path,
        Argument(metavar="FILE", help="CSV or JSONL of answers with references and human ratings."),
    ]
    measure: Annotated[
        tuple[Any, ...],
        measure_option("VQA accuracy and its soft form are always included."),
        NOT_RECORDED,
    ] = ()
    judge: Annotated[
        tuple[str, ...],
        Option(
            metavar="MODEL",
            help="A language model for LAVE: local:MODEL, or openai/gpt-4o-mini; repeatable.",
        ),
        NOT_RECORDED,
    ] = ()
    ablations: Annotated[
        bool, Option("--ablations", help="Vary LAVE's prompt as paper 4's Table 3 does.")
    ] = False
    answer_column: Annotated[str, AnswerColumnOption, NOT_RECORDED] = "answer"
    references_column: Annotated[
        str,
        Option(
            metavar="COLUMN",
            help="Column with the references: a list (in CSV, a JSON list) or one text.",
        ),
    ] = "references"
    human_column: Annotated[
        str,
        Option(
            metavar="COLUMN",
            help="Column with the rating: a number, or a list of five binary ones.",
        ),
    ] = "human"
    question_column: Annotated[str, QuestionColumnOption, NOT_RECORDED] = "question"
    caption_column: Annotated[
        str | None,
        Option(metavar="COLUMN", help="Column with a description of the image for LAVE."),
        NOT_RECORDED,
    ] = None
    id_column: Annotated[str, IdColumnOption, NOT_RECORDED] = "id"
    by: Annotated[str | None, Option(metavar="COLUMN", help="Column to group the answers by.")] = (
        None
    )
    category: Annotated[
        str | None, Option(metavar="COLUMN", help="Column with the kind of answer.")
    ] = None
    resamples: Annotated[
        int, Option(min=1, max=100_000, help="Bootstrap resamples of the answers.")
    ] = 5000
    seed: SeedOption = 0
    batch_size: BatchSize = 16

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.ablations and not self.judge:
            raise DataError(
                "--ablations varies LAVE's prompt.", remedy="Give the language model with --judge."
            )
        return self


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
    """The baselines, the measures and LAVE with each judge, every one under its own name."""
    captions = settings.caption_column is not None
    specs = list(dict.fromkeys([*_BASELINES, *settings.measure]))
    kinds = [spec.partition(":")[0] if isinstance(spec, str) else spec.name for spec in specs]
    check_inputs(specs, "rated answers", questions=True)
    raters = []
    for made, spec, kind in zip(settings.measures(specs), specs, kinds, strict=True):
        model = spec.partition(":")[2] if isinstance(spec, str) else ""
        name = made.label if kinds.count(kind) == 1 else f"{made.label} ({model or 'default'})"
        raters.append(Rater(name, made, captions and isinstance(made, Lave)))
    variants: dict[str, tuple[dict[str, Any], bool]] = {
        "": ({}, captions and not settings.ablations)
    }
    if settings.ablations:
        variants[", 1-shot"], variants[", 4-shot"] = ({"shots": 1}, False), ({"shots": 4}, False)
        variants[", without rationale"] = ({"rationale": False}, False)
        variants[", without filtering references"] = ({"filter_references": False}, False)
        variants |= {", with caption": ({}, True)} if captions else {}
    for model in dict.fromkeys(settings.judge):
        name = f"LAVE ({model.removeprefix('local:').rsplit('/', 1)[-1]})"
        for variant, (changes, caption) in variants.items():
            made = Lave(model, settings.measure_settings(), options=LaveOptions(**changes))
            raters.append(Rater(name + variant, made, caption))
    for rater in raters:
        if isinstance(rater.measure, Lave):
            rater.measure.check()  # before a call is paid for
    return raters


def score_answers(
    rater: Rater, answers: pd.DataFrame
) -> tuple[FloatArray, Sequence[str | None] | None]:
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
    codes = [np.unique(row, return_inverse=True)[1].ravel() for row in (human, *scores[scored])]

    def statistic(counts: FloatArray) -> FloatArray:
        values = np.full((len(counts), 2, len(scores)), np.nan)
        for value, drawn in zip(values, counts, strict=True):
            value[:, scored] = np.transpose(
                [_rank_correlations(code, codes[0], drawn) for code in codes[1:]]
            )
            task.advance(1)
        return values

    with track("resamples", resamples + 1) as task:
        drawn = resample(statistic, len(human), resamples=resamples, seed=seed)
        return statistic(np.ones((1, len(human))))[0], drawn


def _rank_correlations(
    x: NDArray[np.int64], y: NDArray[np.int64], counts: FloatArray
) -> tuple[float, float]:
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
    ranks = [
        total.cumsum() - (total - 1) / 2 - (n + 1) / 2 for total in totals
    ]  # mid-ranks, less their mean
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
    made = {rater.name: score_answers(rater, answers) for rater in raters}
    scores = pd.DataFrame({name: values for name, (values, _) in made.items()}, index=answers.index)
    unscored = scores.isna().sum()
    # A measure without any score has no correlation; it must not leave the others without answers.
    live = unscored < len(answers)
    common = scores.loc[:, live].notna().all(axis=1)
    if not live.any() or not common.any():
        counts = {name: f"{count} of {len(answers)} unscored" for name, count in unscored.items()}
        remedy = "Remove the measure that scored the fewest answers."
        raise DataError(
            "No answer was scored by all measures.", file=settings.file, value=counts, remedy=remedy
        )
    kept, known = answers[common], scores[common]
    overall, drawn = _correlated(known, kept["human"], settings)
    by_group = {
        str(group): _correlated(known.loc[some.index], some["human"], settings)[0]
        for group, some in kept.groupby("group", sort=False)
        if group
    }
    groups = pd.concat(by_group, names=["group"]).reset_index() if by_group else pd.DataFrame()
    tables = [_main_table(raters, overall, unscored, known.mean())]
    tables.append(_differences_table(overall["Spearman ρ"], drawn, live))
    if by_group:
        wide = pd.DataFrame({group: one["Spearman ρ"] for group, one in by_group.items()})
        sizes = ", ".join(f"{group}: {one['answers'].iloc[0]:,}" for group, one in by_group.items())
        note = "Kendall's τ and the intervals of the groups are in the figure and in --json."
        cells = wide.assign(all=overall["Spearman ρ"]).reset_index()
        tables.append(
            frame_table("groups", "Spearman's ρ by group", cells, f"Answers: {sizes}.", note)
        )
    kinds, categories = (
        [rater.kind for rater in raters],
        [name for name in answers["category"].unique() if name],
    )
    if "vqa-accuracy" in kinds and answers["human"].min() >= 0 and answers["human"].max() == 1:
        vqa = known.iloc[:, kinds.index("vqa-accuracy")]
        tables.append(_missed_table(kept, known, vqa, categories))
    records = answers[["id", "row", "human"]].to_dict("records")
    for record, own in zip(records, scores.to_dict("records"), strict=True):
        record["scores"] = own
    for name, (_, texts) in made.items():
        for record, text in zip(records, texts or (), strict=False):
            record.setdefault("rationales", {})[name] = text
    figure = partial(
        draw_dots,
        _drawn(overall, by_group),
        "correlation with human ratings (95 % interval)",
        zero=True,
    )
    return StudyReport(
        study="judge",
        title="How well measures agree with people",
        settings={
            **settings.record(),
            "measures": {rater.name: rater.measure.identity() for rater in raters},
        },
        tables=tuple(table for table in tables if table.rows),
        figures={"correlations": figure},
        notes=(
            *notes,
            *_notes(overall["Spearman ρ"], drawn, unscored, common),
            *(
                n if n.startswith(r.name) else f"{r.name}: {n}"
                for r in raters
                for n in r.measure.notes
            ),
        ),
        data={"groups": groups.to_dict("records"), "answers": records},
    )


def _correlated(
    scores: pd.DataFrame, human: pd.Series[float], settings: JudgeStudySettings
) -> tuple[pd.DataFrame, FloatArray]:
    """A row per measure: the number of answers, ρ and τ with the ends of their intervals; and ρ in each resample."""
    columns = np.column_stack([human, scores]).T
    values, drawn = correlate(
        columns[1:], columns[0], resamples=settings.resamples, seed=settings.seed
    )
    cells = [
        [cell for which in (0, 1) for cell in (values[which, i], *percentiles(drawn[:, which, i]))]
        for i in range(len(scores.columns))
    ]
    correlations = pd.DataFrame(cells, pd.Index(scores.columns, name="measure"), _INTERVALS)
    correlations.insert(0, "answers", len(human))
    return correlations, drawn[:, 0]


def _drawn(overall: pd.DataFrame, groups: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """ρ and τ of all answers and of each group, the highest ρ first, as `draw_dots` takes them."""
    order = overall.sort_values("Spearman ρ", ascending=False).index
    series = {"all answers": overall} | {
        f"{name} ({one['answers'].iloc[0]:,})": one for name, one in groups.items()
    }
    ends = ["estimate", "low", "high"]
    parts = [
        one.loc[order, columns].set_axis(ends, axis=1).assign(panel=panel, series=name)
        for panel, columns in (("Spearman's ρ", _INTERVALS[:3]), ("Kendall's τ", _INTERVALS[3:]))
        for name, one in series.items()
    ]
    return pd.concat(parts).rename_axis("name").reset_index()


def _notes(
    rho: pd.Series[float], drawn: FloatArray, unscored: pd.Series[int], common: pd.Series[bool]
) -> list[str]:
    notes = []
    if not common.all():
        causes = ", ".join(f"{name} {count:,}" for name, count in unscored.items() if count)
        left_out = f"{int((~common).sum()):,} of {len(common):,} answers are left out"
        notes.append(f"{left_out} because not every measure scored them (unscored: {causes}).")
    constant = dict(zip(rho.index, np.isnan(drawn).sum(axis=0), strict=True))
    return notes + [
        f"{name}: constant in {constant[name]:,} of {len(drawn):,} resamples, which are left out of its interval."
        for name in rho.dropna().index
        if constant[name]
    ]


def _main_table(
    raters: Sequence[Rater],
    overall: pd.DataFrame,
    unscored: pd.Series[int],
    means: pd.Series[float],
) -> Table:
    # LAVE's own row depends on the language model, and none of the paper's three need be the one used here.
    printed = (
        published("paper4-table2")
        .query("measure != 'lave'")
        .dropna(subset="measure")
        .set_index("measure")
    )
    cells = (
        overall[["answers"]]
        .assign(unscored=unscored, **{"mean score": means})
        .join(overall[_INTERVALS])
    )
    cells["paper 4 ρ"] = (
        printed["overall"].reindex([rater.kind for rater in raters]).to_numpy() / 100
    )
    return frame_table(
        "correlations",
        "Correlation with human ratings",
        cells.reset_index(),
        "ρ and τ (tau-b) over the answers that every measure scored, with 95 % percentile bootstrap intervals.",
        "paper 4 ρ: its Table 2, overall, on 22,100 rated answers to VQAv2, VG-QA and OK-VQA.",
        "– means undefined: the scores or the ratings are all the same, or nothing was scored.",
    )


def _differences_table(rho: pd.Series[float], drawn: FloatArray, live: pd.Series[bool]) -> Table:
    """The difference of ρ of each pair of measures with scores; without rows where there is no pair."""
    from scipy import stats

    rows = []
    for a, b in itertools.combinations(np.flatnonzero(live).tolist(), 2):
        first, second = drawn[np.isfinite(drawn[:, [a, b]]).all(axis=1)][:, [a, b]].T
        test = np.nan
        if len(first) and np.ptp(first - second) > 0:
            with warnings.catch_warnings(
                action="ignore", category=RuntimeWarning
            ):  # all correlations may be 1
                test = float(stats.ttest_ind(first, second, equal_var=False).pvalue)
        rows.append(
            (
                rho.index[a],
                rho.index[b],
                rho.iloc[a] - rho.iloc[b],
                *interval_and_p(first - second),
                test,
            )
        )
    differences = pd.DataFrame(
        rows, columns=["measure", "other", "difference", "low", "high", "p", "p (t-test)"]
    )
    # Holm (1979): the i-th smallest of m p values times m - i, and never less than the one before.
    p = differences["p"].dropna().sort_values(kind="stable")
    adjusted = (p * np.arange(len(p), 0, -1)).clip(upper=1).cummax()
    return frame_table(
        "differences",
        "Differences of Spearman's ρ",
        differences.assign(**{"p (Holm)": adjusted}),
        "p: paired bootstrap, two-sided; the same resamples of the answers for both measures. p (Holm): adjusted for "
        "all pairs.",
        "p (t-test): a t-test between the two sets of resampled correlations, as in paper 4. It shrinks with the "
        "number of resamples, whatever the number of answers, and is shown for comparison only.",
        digits={"p": 4, "p (Holm)": 4, "p (t-test)": 4},
    )


def _missed_table(
    answers: pd.DataFrame, scores: pd.DataFrame, vqa: pd.Series[float], categories: Sequence[str]
) -> Table:
    """The mean scores of answers that people call correct and VQA accuracy does not, by category (Figure 4)."""
    missed = (answers["human"] == 1) & (vqa < _MISSED)
    lucky = int(((answers["human"] == 0) & (vqa > _MISSED)).sum())
    printed = {
        str(name).casefold(): share
        for name, share in published("paper4-table1").itertuples(index=False)
    }
    rows: list[dict[Any, Any]] = []
    for name, some in [
        *((name, answers["category"] == name) for name in categories),
        ("all", missed),
    ]:
        chosen = missed & some
        row = {"category": name, "answers": int(chosen.sum()), "share": chosen.mean()}
        if categories:
            row |= {
                "% of missed": 100 * chosen.sum() / max(1, missed.sum()),
                "paper 4 %": printed.get(name.casefold()),
            }
        rows.append({**row, **scores[chosen].mean()})
    note = "paper 4 %: its Table 1, of 400 missed answers; they add up to 125.75, so some are in several."
    return frame_table(
        "missed",
        f"Correct answers that VQA accuracy misses (people: 1, VQA accuracy below {_MISSED})",
        pd.DataFrame(rows),
        f"The reverse, people: 0 and VQA accuracy above {_MISSED}: {lucky:,} answers.",
        "Paper 4: 16.33 % of its answers are missed, and 1.72 % the reverse.",
        *((note,) if categories else ()),
        digits={"% of missed": 2, "paper 4 %": 2},
    )
