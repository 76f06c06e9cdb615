"""`taxtune calibrate`: the share of votes at which a run's winner keeps a guaranteed risk."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from taxtune.options import JsonOption, opt
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.policies import ShareLevel
    from taxtune.report.output import StudyReport
    from taxtune.tuning.calibrate import Calibration

__all__ = ["calibrate"]

_ROWS = 12  # of a table of levels


def calibrate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished tuning run.")],
    risk: Annotated[float, opt("The mean of 1 - hP to keep on new images: 0.02 is hP 0.98.")],
    confidence_level: Annotated[
        float | None, opt("Confidence that the risk is kept, by learn-then-test.", shown="none: in expectation")
    ] = None,
    policy: Annotated[
        Literal["vote", "posterior"] | None,
        opt(
            "Several answers per image, or one with the probabilities of the tree's names.", shown="the run's, or vote"
        ),
    ] = None,
    samples: Annotated[int | None, opt("Answers per image of a vote.", shown="the run's, or 8", min=2, max=100)] = None,
    data: Annotated[
        str | None, opt("Labelled images; those of the run's splits are left out.", shown="those in neither split")
    ] = None,
    images: Annotated[int, opt("Most images to calibrate on.", min=1)] = 500,
    recipe: Annotated[str | None, opt("The recipe of the run.", shown="the run's own")] = None,
    dry_run: Annotated[bool, opt("Say what it would cost; ask nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the run's winner back off by evidence, with a guarantee: the mean of 1 - hP is at most the risk.

    Each calibration image goes to the deepest node that a share holds: of several answers, or with
    --policy posterior of the probability that the model gives to the tree's names. The smallest
    share that keeps the risk on new images of the same kind is chosen and written to
    calibration.json in the run's folder. Answers are kept there too, so the same command continues
    after an interruption.
    """
    from taxtune.report.output import publish
    from taxtune.tuning.calibrate import CalibrationRun

    work = CalibrationRun(run, risk, confidence_level, policy, samples, data, images, recipe)
    calls, stored = work.cost()
    answers = f"{work.policy.samples} answer{'' if work.policy.samples == 1 else 's'}"
    note(
        f"{len(work.examples):,} images ({work.described}) × {answers} = {calls:,} VLM calls, "
        f"{stored:,} of them in the store; at least {work.needed:,} images are needed"
    )
    if dry_run:
        return
    found = work.run()
    if as_json:
        print(json.dumps(asdict(found), ensure_ascii=False, indent=2))
    else:
        publish(_report(found), out=None, as_json=False)
        print(_guarantee(found))
    note(f"written to {run / 'calibration.json'}")


def _report(found: Calibration) -> StudyReport:
    from taxtune.report.output import StudyReport, Table

    limit = "expected" if found.confidence_level is None else f"with {100 * found.confidence_level:g} %"
    heads = ("needs", "share", "hP", "hR", "hR lost", "accuracy", "on the root", "1 - hP", f"at most, {limit}", "risk")
    rows = tuple(
        (
            "always the root" if level.share is None else _needs(level.share, found),
            *(level.share, level.hp, level.hr, level.hr - found.levels[-1].hr, level.accuracy, level.root),
            *(1 - level.hp, level.bound, ("chosen" if level.share == found.share else "kept") if level.kept else ""),
        )
        for level in _shown(found)
    )
    missing = f"; {found.missing:,} more had no answer and were left out" if found.missing else ""
    notes = (
        f"{found.images:,} images: {found.source}{missing}.",
        "hR lost: against the smallest share. hR on these images is a little high, since the share was chosen on them.",
    )
    title = f"{found.run}: the share of {'the answers' if found.names is None else 'the probability'} that a node needs"
    return StudyReport("calibrate", title, {}, (Table("calibration", title, heads, rows, notes=notes),))


def _shown(found: Calibration) -> list[ShareLevel]:
    """Returns the levels that a table shows: of many a dozen that differ, and always the chosen one."""
    if len(found.levels) <= _ROWS:
        return [*found.levels]
    levels, step = [found.levels[0]], found.levels[-1].hr / _ROWS
    for level in found.levels:
        if level is found.chosen or abs(level.hr - levels[-1].hr) >= step:
            levels.append(level)
    return levels


def _needs(share: float, found: Calibration) -> str:
    """Returns in words what a node needs."""
    if found.names is not None:
        return f"{100 * share:.6g} % of the probability"
    return f"{round(share * found.samples)} of {found.samples} answers"


def _guarantee(found: Calibration) -> str:
    how = "in expectation" if found.confidence_level is None else f"with a confidence of {found.confidence_level:g}"
    if found.share is None:
        needed = "it takes more images, more answers per image, or a better template"
        return f"Only always answering the root keeps the risk of {found.risk:g} {how}: {needed}."
    return (
        f"A node needs {_needs(found.share, found)}: on new images of the same kind the mean of 1 - hP is at most "
        f"{found.risk:g} {how}, for {found.samples} VLM call{'' if found.samples == 1 else 's'} per image and an hR of "
        f"{found.chosen.hr:.3f}."
    )
