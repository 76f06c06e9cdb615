"""`taxtune study judge`: how well measures agree with people (paper 4, Table 2).

Spearman's and Kendall's correlation of each measure's scores with human ratings, with bootstrap intervals, and whether
one measure agrees better than another. All measures are compared on the answers that all of them scored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.metrics.base import ManyReferencesMeasure, Measure
from taxtune.metrics.lave import Lave
from taxtune.metrics.statistics import percentiles
from taxtune.studies.judge.bootstrap import Correlations, bootstrap_correlations
from taxtune.studies.judge.human_ratings import RatedAnswer, RatedAnswers
from taxtune.studies.judge.tables import (
    differences_table,
    groups_table,
    main_table,
    missed_table,
    paper_table,
)
from taxtune.studies.output import StudyReport
from taxtune.studies.progress import progress

__all__ = ["JudgeSettings", "Rater", "Steps", "judge_study", "score_answers"]

FloatArray = NDArray[np.float64]


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


class Steps:
    """Passes what a judge tells of its progress on to the bar that is shown; give it to the measures' settings."""

    def __init__(self) -> None:
        self.advance: Callable[..., None] | None = None
        self._done = 0

    def begin(self, advance: Callable[..., None]) -> None:
        """Takes the bar of the next measure."""
        self.advance, self._done = advance, 0

    def __call__(self, done: int, total: int) -> None:
        """Moves the bar."""
        if self.advance is not None:
            self.advance(max(0, done - self._done))
        self._done = done


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """How the study is made.

    Attributes:
        resamples: Bootstrap resamples of the answers.
        seed: Their seed.
    """

    resamples: int = 5000
    seed: int = 0


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
        raise DataError(f"{rater.name} needs images, and rated answers have none.", remedy="Leave it out.")
    answers = [row.answer for row in rows]
    references = [row.references for row in rows]
    questions = [row.question for row in rows] if measure.needs_questions else None
    if isinstance(measure, Lave):
        verdicts = measure.rate(
            answers, references, questions, [row.caption for row in rows] if rater.captions else None
        )
        return verdicts.values, verdicts.replies
    if isinstance(measure, ManyReferencesMeasure):
        return measure.scores_many(answers, references, questions=questions), None
    owner = [i for i, row in enumerate(rows) for _ in row.references]
    flat = measure.scores(
        [answers[i] for i in owner],
        [reference for row in rows for reference in row.references],
        questions=None if questions is None else [questions[i] for i in owner],
    )
    best = np.full(len(rows), np.nan)
    np.fmax.at(best, owner, flat)  # NaN only where no reference gave a score
    return best, None


def judge_study(
    answers: RatedAnswers,
    raters: Sequence[Rater],
    settings: JudgeSettings | None = None,
    *,
    record: Mapping[str, Any] | None = None,
    steps: Steps | None = None,
    paper: Sequence[str] = ("paper4-table2",),
) -> StudyReport:
    """Returns the report of the study.

    Args:
        answers: The rated answers.
        raters: The measures, one or more.
        settings: Resamples and seed.
        record: What the report's settings should hold besides.
        steps: What the measures tell of their progress to.
        paper: The paper's tables to show beside ours.

    Raises:
        DataError: If there is no measure, two have one name, or no answer was scored by all of them.
    """
    settings = settings or JudgeSettings()
    names = [rater.name for rater in raters]
    if not names or len(set(names)) < len(names):
        raise DataError("Measures are needed, each once.", value=", ".join(names))
    rows = answers.rows
    scored = []
    for rater in raters:
        with progress(len(rows), f"{rater.name}: answers") as advance:
            if steps is not None:
                steps.begin(advance)
            scored.append(score_answers(rater, rows))
    scores = np.stack([values for values, _ in scored])
    unscored = np.isnan(scores).sum(axis=1)
    # A measure without any score has no correlation; it must not leave the others without answers.
    live = np.flatnonzero(unscored < len(rows))
    common: NDArray[np.bool_] = np.asarray(~np.isnan(scores[live]).any(axis=0))
    if not live.size or not common.any():
        raise DataError(
            "No answer was scored by all measures.",
            file=answers.file,
            value={name: f"{count} of {len(rows)} unscored" for name, count in zip(names, unscored, strict=True)},
            remedy="Leave out the measure that scored the fewest. "
            + " ".join(n for r in raters for n in r.measure.notes),
        )
    human = np.array([row.human for row in rows])
    parts = {"": common}
    for group in dict.fromkeys(row.group for row in rows if row.group):
        parts[group] = common & np.array([row.group == group for row in rows])
    parts = {group: chosen for group, chosen in parts.items() if chosen.any()}
    with progress(settings.resamples * len(parts), "resamples") as advance:
        spread = {
            group: (_correlate(scores[:, chosen], human[chosen], live, settings, advance), int(chosen.sum()))
            for group, chosen in parts.items()
        }
    found, _ = spread.pop("")
    kinds = [rater.measure.name.partition(":")[0] for rater in raters]
    tables = [main_table(names, kinds, scores, unscored, common, found)]
    if len(live) > 1:
        tables.append(differences_table([names[i] for i in live], live, found))
    if spread:
        tables.append(groups_table(names, found, spread))
    missed = missed_table(names, kinds, scores, human, common, rows)
    tables += [] if missed is None else [missed]
    tables += [paper_table(name) for name in paper]
    notes = [*answers.notes, *_notes(rows, common, names, unscored, human, found, settings)]
    notes += [
        note if note.startswith(rater.name) else f"{rater.name}: {note}"
        for rater in raters
        for note in rater.measure.notes
    ]

    def figure() -> Any:
        from taxtune.studies.judge.figure import draw_correlations

        return draw_correlations(names, found, spread)

    return StudyReport(
        study="judge",
        title="How well measures agree with people",
        settings={
            "file": answers.file,
            "measures": {rater.name: rater.measure.identity() for rater in raters},
            "resamples": settings.resamples,
            "seed": settings.seed,
            **(record or {}),
        },
        tables=tuple(tables),
        figures={"correlations": figure},
        notes=tuple(notes),
        data={
            "groups": {group: _numbers(names, inside, count) for group, (inside, count) in spread.items()},
            "answers": [_answer(names, scored, scores, place, row) for place, row in enumerate(rows)],
        },
    )


def _answer(
    names: Sequence[str],
    scored: Sequence[tuple[FloatArray, tuple[str | None, ...] | None]],
    scores: FloatArray,
    place: int,
    row: RatedAnswer,
) -> dict[str, Any]:
    """Returns what is said about one answer: its rating, its scores and the judges' rationales."""
    rationales = {name: said[place] for name, (_, said) in zip(names, scored, strict=True) if said is not None}
    return {
        "id": row.id,
        "row": row.row,
        "human": row.human,
        "scores": {name: _plain(scores[i, place]) for i, name in enumerate(names)},
        **({"rationales": rationales} if rationales else {}),
    }


def _numbers(names: Sequence[str], found: Correlations, count: int) -> dict[str, Any]:
    """Returns a group's correlations with their intervals, by measure."""
    return {
        "answers": count,
        **{
            name: {
                "rho": _plain(found.rho[i]),
                "rho_interval": percentiles(found.rho_resamples[:, i]),
                "tau": _plain(found.tau[i]),
                "tau_interval": percentiles(found.tau_resamples[:, i]),
            }
            for i, name in enumerate(names)
        },
    }


def _correlate(
    scores: FloatArray,
    human: FloatArray,
    live: NDArray[np.int64],
    settings: JudgeSettings,
    advance: Callable[[int], None],
) -> Correlations:
    """Returns the correlations of all raters, undefined for those that scored nothing."""
    found = bootstrap_correlations(
        scores[live], human, resamples=settings.resamples, seed=settings.seed, advance=advance
    )
    whole = []
    for values in (found.rho, found.tau, found.rho_p, found.tau_p):
        filled = np.full(len(scores), np.nan)
        filled[live] = values
        whole.append(filled)
    resampled = []
    for values in (found.rho_resamples, found.tau_resamples):
        filled = np.full((settings.resamples, len(scores)), np.nan)
        filled[:, live] = values
        resampled.append(filled)
    return Correlations(*whole, *resampled)


def _notes(
    rows: Sequence[RatedAnswer],
    common: NDArray[np.bool_],
    names: Sequence[str],
    unscored: NDArray[np.int64],
    human: FloatArray,
    found: Correlations,
    settings: JudgeSettings,
) -> list[str]:
    notes = []
    if not common.all():
        causes = ", ".join(f"{name} {count:,}" for name, count in zip(names, unscored, strict=True) if count)
        notes.append(
            f"{int((~common).sum()):,} of {len(rows):,} answers are left out, since not every measure scored them "
            f"(unscored: {causes})."
        )
    notes += [
        f"{name} scored no answer and has no correlation."
        for name, count in zip(names, unscored, strict=True)
        if count == len(rows)
    ]
    if np.ptp(human[common]) == 0:
        notes.append("The human ratings are all the same: no correlation is defined.")
    for i, name in enumerate(names):
        undefined = int(np.isnan(found.rho_resamples[:, i]).sum())
        if np.isfinite(found.rho[i]) and undefined:
            notes.append(
                f"{name}: constant in {undefined:,} of {settings.resamples:,} resamples, which its interval leaves out."
            )
    return notes


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
