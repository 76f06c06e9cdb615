"""Correlating measures with people: Spearman's and Kendall's correlation with human ratings, and their differences.

All measures are compared on the answers that all of them scored, so that differences are paired.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.metrics.base import Measure
from taxtune.metrics.lave import Lave, LaveOptions, make_lave
from taxtune.metrics.registry import split_spec
from taxtune.metrics.statistics import interval_and_p, percentiles
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.judge import JudgeSettings
from taxtune.studies.judge.bootstrap import Correlations, bootstrap_correlations
from taxtune.studies.judge.figure import draw_correlations
from taxtune.studies.judge.human_ratings import RatedAnswer, RatedAnswers, read_rated_answers
from taxtune.studies.published import published

__all__ = ["Rater", "judge", "judge_answers", "score_answers"]

FloatArray = NDArray[np.float64]

_BASELINES = ("vqa-accuracy", "soft-vqa-accuracy")
# An answer that people call correct is missed by VQA accuracy below this (paper 4, "Does LAVE Fix VQA Accuracy's
# Failures?").
_MISSED = 0.5
_RHO, _TAU = ("Spearman ρ", "ρ low", "ρ high"), ("Kendall τ", "τ low", "τ high")
_PAPER = {
    "paper4-table1": "Paper 4, Table 1: correct answers that VQA accuracy misses, by category",
    "paper4-table2": "Paper 4, Table 2: Spearman's ρ × 100 by VQA model and data set",
    "paper4-table3": "Paper 4, Table 3: Spearman's ρ × 100 of LAVE with Flan-T5, its prompt varied",
}


@dataclass(frozen=True, slots=True)
class Rater:
    """A measure in the study.

    Attributes:
        name: As it is printed; each rater's its own.
        measure: The measure.
        captions: Whether it is shown descriptions of the images.
    """

    name: str
    measure: Measure
    captions: bool = False

    @property
    def kind(self) -> str:
        """The kind of measure: "rouge-1", "lave"."""
        return self.measure.name.partition(":")[0]


@dataclass(frozen=True, slots=True)
class _Rated:
    """What the raters make of the answers.

    Attributes:
        raters: The measures.
        rows: The answers.
        scores: Shape (raters, answers); NaN is unscored.
        replies: The rationales of raters that give some, an entry an answer, by name.
        common: The answers that are compared: those that all scored, but for raters that scored none.
        found: The correlations over these.
        groups: The correlations and the number of answers by group.
    """

    raters: Sequence[Rater]
    rows: Sequence[RatedAnswer]
    scores: FloatArray
    replies: Mapping[str, Sequence[str | None]]
    common: NDArray[np.bool_]
    found: Correlations
    groups: Mapping[str, tuple[Correlations, int]]

    @property
    def names(self) -> list[str]:
        """The raters' names."""
        return [rater.name for rater in self.raters]

    @property
    def human(self) -> FloatArray:
        """The ratings, shape (answers,)."""
        return np.array([row.human for row in self.rows])

    @property
    def unscored(self) -> list[int]:
        """How many answers each rater left unscored."""
        return [int(count) for count in np.isnan(self.scores).sum(axis=1)]


def judge(settings: JudgeSettings) -> StudyReport:
    """Reads the answers, scores them and returns the report; see `taxtune.studies.judge.run`."""
    answers = read_rated_answers(settings)
    return judge_answers(answers, _raters(settings), settings)


def _raters(settings: JudgeSettings) -> list[Rater]:
    """Returns the baselines, the measures and LAVE with each judge, every one under a name of its own."""
    told = settings.measure_settings()
    shown = settings.caption_column is not None
    options = LaveOptions(demonstrations=settings.demonstrations, yes_no_demonstrations=settings.yes_no_demonstrations)
    specs = list(dict.fromkeys([*_BASELINES, *settings.measure]))
    kinds = [spec.partition(":")[0] if isinstance(spec, str) else spec.name for spec in specs]
    if "clip-i2t" in kinds:  # said before its weights are fetched
        raise DataError("clip-i2t needs images, but rated answers have none.", remedy="Remove it.")
    raters = []
    for spec, kind in zip(specs, kinds, strict=True):
        if kind == "lave":
            made: Measure = _checked(make_lave(split_spec(spec)[1], told, options))
        else:
            (made,) = settings.measures([spec])
        name = made.label if kinds.count(kind) == 1 else f"{made.label} ({spec.partition(':')[2] or 'default'})"
        raters.append(Rater(name, made, captions=shown and kind == "lave"))
    for model in dict.fromkeys(settings.judge):
        _checked(make_lave(model, told, options))
        name = f"LAVE ({model.removeprefix('local:').rsplit('/', 1)[-1]})"
        variants = {name: (options, shown and not settings.ablations)}
        if settings.ablations:
            variants |= {
                f"{name}, 1-shot": (replace(options, shots=1), False),
                f"{name}, 4-shot": (replace(options, shots=4), False),
                f"{name}, without rationale": (replace(options, rationale=False), False),
                f"{name}, without filtering references": (replace(options, filter_references=False), False),
            }
            variants |= {f"{name}, with caption": (options, True)} if shown else {}
        raters += [
            Rater(label, make_lave(model, told, varied), captions) for label, (varied, captions) in variants.items()
        ]
    return raters


def _checked(lave: Lave) -> Lave:
    lave.check()  # before a call is paid for
    return lave


def judge_answers(answers: RatedAnswers, raters: Sequence[Rater], settings: JudgeSettings) -> StudyReport:
    """Scores rated answers and correlates the scores with the ratings.

    Args:
        answers: The rated answers.
        raters: The measures, one or more.
        settings: Resamples and seed, and what the report records.

    Raises:
        DataError: If there is no measure, two have one name, or no answer was scored by all of them.
    """
    names = [rater.name for rater in raters]
    if not names or len(set(names)) < len(names):
        raise DataError("Give at least one measure, and each only once.", value=", ".join(names))
    rated = _rate(answers, raters, settings)
    paper = [
        *(("paper4-table1",) if any(row.category for row in answers.rows) else ()),
        "paper4-table2",
        *(("paper4-table3",) if settings.ablations else ()),
    ]
    tables = [
        _main_table(rated),
        _differences_table(rated),
        _groups_table(rated),
        _missed_table(rated),
        *map(_paper_table, paper),
    ]
    return StudyReport(
        study="judge",
        title="How well measures agree with people",
        settings={**settings.record(), "measures": {rater.name: rater.measure.identity() for rater in raters}},
        tables=tuple(table for table in tables if table is not None),
        figures={"correlations": partial(draw_correlations, names, rated.found, rated.groups)},
        notes=(
            *answers.notes,
            *_notes(rated, settings.resamples),
            *(n if n.startswith(r.name) else f"{r.name}: {n}" for r in raters for n in r.measure.notes),
        ),
        data={
            "groups": {group: _numbers(names, *found) for group, found in rated.groups.items()},
            "answers": [_answer(rated, place) for place in range(len(rated.rows))],
        },
    )


def _rate(answers: RatedAnswers, raters: Sequence[Rater], settings: JudgeSettings) -> _Rated:
    rows = answers.rows
    scored = [score_answers(rater, rows) for rater in raters]
    scores = np.stack([values for values, _ in scored])
    unscored = np.isnan(scores).sum(axis=1)
    # A measure without any score has no correlation; it must not leave the others without answers.
    live = unscored < len(rows)
    common: NDArray[np.bool_] = np.asarray(~np.isnan(scores[live]).any(axis=0))
    if not live.any() or not common.any():
        raise DataError(
            "No answer was scored by all measures.",
            file=answers.file,
            value={r.name: f"{count} of {len(rows)} unscored" for r, count in zip(raters, unscored, strict=True)},
            remedy="Remove the measure that scored the fewest answers. "
            + " ".join(note for rater in raters for note in rater.measure.notes),
        )
    human = np.array([row.human for row in rows])
    parts = {"": common}
    for group in dict.fromkeys(row.group for row in rows if row.group):
        parts[group] = common & np.array([row.group == group for row in rows])
    parts = {group: chosen for group, chosen in parts.items() if chosen.any()}
    told = {"resamples": settings.resamples, "seed": settings.seed}
    found = {
        group: (bootstrap_correlations(scores[:, chosen], human[chosen], **told), int(chosen.sum()))
        for group, chosen in parts.items()
    }
    replies = {rater.name: said for rater, (_, said) in zip(raters, scored, strict=True) if said is not None}
    return _Rated(raters, rows, scores, replies, common, found.pop("")[0], found)


def score_answers(rater: Rater, rows: Sequence[RatedAnswer]) -> tuple[FloatArray, tuple[str | None, ...] | None]:
    """Returns a measure's score of each answer, shape (n,), NaN where unscored; and a judge's rationales, or None.

    A measure of one reference is asked about each reference, and the largest score counts (paper 4, "Baselines"); one
    that is defined for all references at once (LAVE, VQA accuracy, CIDEr) is given them, and so is Llama inclusion,
    which knows that a call that failed is no "no".

    Raises:
        DataError: If the measure needs images or questions that the file does not have.
    """
    measure = rater.measure
    if measure.needs_images:
        raise DataError(f"{rater.name} needs images, but rated answers have none.", remedy="Remove it.")
    answers = [row.answer for row in rows]
    references = [row.references for row in rows]
    questions = [row.question for row in rows] if measure.needs_questions else None
    if isinstance(measure, Lave):
        verdicts = measure.rate(
            answers, references, questions, [row.caption for row in rows] if rater.captions else None
        )
        return verdicts.values, verdicts.replies
    return measure.scores_many(answers, references, questions=questions), None


def _answer(rated: _Rated, place: int) -> dict[str, Any]:
    """Returns what is said about one answer: its rating, its scores and the judges' rationales."""
    row = rated.rows[place]
    rationales = {name: said[place] for name, said in rated.replies.items()}
    return {
        "id": row.id,
        "row": row.row,
        "human": row.human,
        "scores": dict(zip(rated.names, rated.scores[:, place].tolist(), strict=True)),
        **({"rationales": rationales} if rationales else {}),
    }


def _numbers(names: Sequence[str], found: Correlations, count: int) -> dict[str, Any]:
    """Returns a group's correlations with their intervals, by measure."""
    return {
        "answers": count,
        **{
            name: {
                "rho": found.rho[i],
                "rho_interval": percentiles(found.rho_resamples[:, i]),
                "tau": found.tau[i],
                "tau_interval": percentiles(found.tau_resamples[:, i]),
            }
            for i, name in enumerate(names)
        },
    }


def _notes(rated: _Rated, resamples: int) -> list[str]:
    notes = []
    unscored = dict(zip(rated.names, rated.unscored, strict=True))
    if not rated.common.all():
        causes = ", ".join(f"{name} {count:,}" for name, count in unscored.items() if count)
        notes.append(
            f"{int((~rated.common).sum()):,} of {len(rated.rows):,} answers are left out because not every measure "
            f"scored them (unscored: {causes})."
        )
    notes += [
        f"{name} scored no answer, so it has no correlation."
        for name, count in unscored.items()
        if count == len(rated.rows)
    ]
    if np.ptp(rated.human[rated.common]) == 0:
        notes.append("The human ratings are all the same, so correlations are undefined.")
    for i, name in enumerate(rated.names):
        undefined = int(np.isnan(rated.found.rho_resamples[:, i]).sum())
        if np.isfinite(rated.found.rho[i]) and undefined:
            notes.append(
                f"{name}: constant in {undefined:,} of {resamples:,} resamples, which are left out of its interval."
            )
    return notes


def _main_table(rated: _Rated) -> Table:
    # LAVE's own row depends on the language model, and none of the paper's three need be the one used here.
    printed = {row["measure"]: row["overall"] for row in published("paper4-table2") if row["measure"] != "lave"}
    rows: list[tuple[Cell, ...]] = []
    for i, rater in enumerate(rated.raters):
        cells: list[Cell] = [rater.name, int(rated.common.sum()), rated.unscored[i]]
        cells.append(float(rated.scores[i, rated.common].mean()))  # NaN, a dash, where the measure scored nothing
        for value, resamples in (
            (rated.found.rho[i], rated.found.rho_resamples[:, i]),
            (rated.found.tau[i], rated.found.tau_resamples[:, i]),
        ):
            cells += [float(value), *(percentiles(resamples) if np.isfinite(value) else (None, None))]
        paper = printed.get(rater.kind)
        rows.append((*cells, paper / 100 if isinstance(paper, float) else None))
    return Table(
        "correlations",
        "Correlation with human ratings",
        ("measure", "answers", "unscored", "mean score", *_RHO, *_TAU, "paper 4 ρ"),
        tuple(rows),
        notes=(
            "ρ and τ (tau-b) over the answers that every measure scored, with 95 % percentile bootstrap intervals.",
            "paper 4 ρ: its Table 2, overall, on 22,100 rated answers to VQAv2, VG-QA and OK-VQA.",
            "– means undefined: the scores or the ratings are all the same, or nothing was scored.",
        ),
    )


def _differences_table(rated: _Rated) -> Table | None:
    """Returns the difference of ρ of each pair of measures with scores, or None where there are no two."""
    from scipy import stats

    live = [i for i, count in enumerate(rated.unscored) if count < len(rated.rows)]
    if len(live) < 2:
        return None
    rows: list[tuple[Cell, ...]] = []
    p_values: list[float] = []
    t_tests: list[float] = []
    for a, b in itertools.combinations(live, 2):
        first, second = rated.found.rho_resamples[:, a], rated.found.rho_resamples[:, b]
        both = np.isfinite(first) & np.isfinite(second)
        change = first[both] - second[both]
        estimate = float(rated.found.rho[a] - rated.found.rho[b])
        known = bool(np.isfinite(estimate) and change.size)
        *ends, p_value = interval_and_p(change) if known else (None, None, float("nan"))
        p_values.append(p_value)
        t_tests.append(float("nan"))
        if known and np.ptp(change) > 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a correlation of 1 in every resample
                t_tests[-1] = float(stats.ttest_ind(first[both], second[both], equal_var=False).pvalue)
        rows.append((rated.names[a], rated.names[b], estimate if known else None, *ends))
    return Table(
        "differences",
        "Differences of Spearman's ρ",
        ("measure", "other", "difference", "low", "high", "p", "p (Holm)", "p (t-test)"),
        tuple((*row, *ps) for row, *ps in zip(rows, p_values, _holm(p_values), t_tests, strict=True)),
        digits={"p": 4, "p (Holm)": 4, "p (t-test)": 4},
        notes=(
            "p: paired bootstrap, two-sided; the same resamples of the answers for both measures. Use this p value, or "
            "its Holm adjustment over all pairs.",
            "p (t-test): a t-test between the two sets of resampled correlations, as in paper 4. It shrinks with the "
            "number of resamples, whatever the number of answers, and is shown for comparison only.",
        ),
    )


def _holm(p_values: Sequence[float]) -> list[float | None]:
    """Returns p-values adjusted for all being looked at (Holm, 1979); None for those that are undefined."""
    order = sorted((p, i) for i, p in enumerate(p_values) if np.isfinite(p))
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(order):
        highest = max(highest, min(1.0, p * (len(order) - rank)))
        adjusted[i] = highest
    return adjusted


def _groups_table(rated: _Rated) -> Table | None:
    """Returns ρ of each measure in each group, and over all answers; None where there are no groups."""
    if not rated.groups:
        return None
    correlations = [*(found for found, _ in rated.groups.values()), rated.found]
    sizes = ", ".join(f"{group}: {count:,}" for group, (_, count) in rated.groups.items())
    return Table(
        "groups",
        "Spearman's ρ by group",
        ("measure", *rated.groups, "all"),
        tuple((name, *(float(found.rho[i]) for found in correlations)) for i, name in enumerate(rated.names)),
        notes=(f"Answers: {sizes}.", "Kendall's τ and the intervals of the groups are in the figure and in --json."),
    )


def _missed_table(rated: _Rated) -> Table | None:
    """Returns the mean scores of answers that people call correct and VQA accuracy does not, by category (Figure 4).

    Categories that are called as in the paper's Table 1 stand beside its percentages.

    Returns:
        The table, or None where VQA accuracy is not among the measures or the ratings do not lie between 0 and 1.
    """
    human, common = rated.human, rated.common
    kinds = [rater.kind for rater in rated.raters]
    if "vqa-accuracy" not in kinds or human.min() < 0 or human.max() != 1:
        return None
    vqa = rated.scores[kinds.index("vqa-accuracy")]
    missed = common & (human == 1) & (vqa < _MISSED)
    lucky = int((common & (human == 0) & (vqa > _MISSED)).sum())
    categories = list(dict.fromkeys(row.category for row in rated.rows if row.category))
    printed = {str(row["category"]).casefold(): row["percent"] for row in published("paper4-table1")}
    shown: list[tuple[Cell, ...]] = []
    for name in [*categories, ""]:
        chosen = missed & np.array([not name or row.category == name for row in rated.rows])
        count = int(chosen.sum())
        cells: list[Cell] = [name or "all", count, count / int(common.sum())]
        if categories:
            cells += [100 * count / max(1, int(missed.sum())), printed.get(name.casefold())]
        shown.append((*cells, *(float(line[chosen].mean()) if count else None for line in rated.scores)))
    beside = ("% of missed", "paper 4 %") if categories else ()
    return Table(
        "missed",
        f"Correct answers that VQA accuracy misses (people: 1, VQA accuracy below {_MISSED})",
        ("category", "answers", "share", *beside, *rated.names),
        tuple(shown),
        digits=dict.fromkeys(beside, 2),
        notes=(
            f"The reverse, people: 0 and VQA accuracy above {_MISSED}: {lucky:,} answers.",
            "Paper 4: 16.33 % of its answers are missed, and 1.72 % the reverse.",
            *(
                ("paper 4 %: its Table 1, of 400 missed answers; they add up to 125.75, so some are in several.",)
                if categories
                else ()
            ),
        ),
    )


def _paper_table(name: str) -> Table:
    printed = published(name)
    columns = tuple(column for column in printed[0] if column != "measure")
    return Table(
        name,
        _PAPER[name],
        columns,
        tuple(tuple(row[column] for column in columns) for row in printed),
        digits=dict.fromkeys(columns, 2),
        notes=("As printed in the paper; not computed here.",),
    )
