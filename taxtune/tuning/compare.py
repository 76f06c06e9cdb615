"""One tuning run an objective from the same baseline, splits, seed and answers, and their winners side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from taxtune.errors import TaxtuneError
from taxtune.models import AnswerStore
from taxtune.tuning.heldout import OnHeldout, judge
from taxtune.tuning.loop import Listener, Tuner
from taxtune.tuning.objective import ObjectiveKind
from taxtune.tuning.records import ComparisonResult
from taxtune.tuning.session import Session

__all__ = ["check_kinds", "compare_objectives"]


def check_kinds(kinds: Sequence[ObjectiveKind]) -> None:
    """Checks that there is something to compare.

    Raises:
        TaxtuneError: If fewer than two different objectives are given.
    """
    if len(set(kinds)) != len(kinds) or len(kinds) < 2:
        raise TaxtuneError(
            "A comparison needs two or more different objectives.",
            value=" ".join(kinds) or None,
            remedy="For example: --objective hp --objective accuracy",
        )


def compare_objectives(
    session: Session,
    kinds: Sequence[ObjectiveKind],
    *,
    listeners: Callable[[ObjectiveKind, Path], Sequence[Listener]] = lambda kind, folder: (),
    on_heldout: OnHeldout | None = None,
    resume: bool = False,
) -> ComparisonResult:
    """Runs one tuning run an objective and compares the winners on the same held-out images.

    The runs share the answer store `answers.db` in the session's folder, so that a template that both try, the baseline
    above all, is asked once.

    Args:
        session: The recipe and what it asks for; each run is kept in a sub-folder that is named after its objective.
        kinds: Two or more different objectives.
        listeners: Returns who is told what happens in a run, given its objective and folder.
        on_heldout: Called with (name, answers so far, images) while the winners are compared.
        resume: Go on with runs that are already in the folder.

    Raises:
        TaxtuneError: If fewer than two different objectives are given, or a run cannot start or go on.
    """
    check_kinds(kinds)
    answers = session.folder / "answers.db"
    runs = tuple(
        Tuner(
            session,
            session.folder / kind,
            kind=kind,
            answers=answers,
            listeners=listeners(kind, session.folder / kind),
            resume=resume,
        ).run()
        for kind in kinds
    )
    templates = {"baseline": runs[0].heldout[0].template}
    templates |= {run.objective: run.heldout[1].template for run in runs}
    with AnswerStore(answers) as store:
        judged = judge(session, session.evaluator(store, judged="lave" in kinds), templates, on_heldout)
    return ComparisonResult(
        name=session.recipe.name,
        runs=runs,
        heldout=judged.results,
        differences=judged.differences,
        full_differences=judged.full_differences,
        folder=str(session.folder),
        where={},
    )
