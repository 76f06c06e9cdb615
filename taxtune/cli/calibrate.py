"""`taxtune calibrate`: the threshold of answers, or of a classifier's scores, at which a guaranteed risk is kept."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from taxtune.cli.scores import (
    LabelColumnOption,
    ScoreColumnOption,
    TruthLabelsOption,
    calibrate_file,
    guarantee,
    levels_table,
    only_for,
)
from taxtune.options import ForceOption, JsonOption, opt, taxonomy_option
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.tuning.calibrate import Calibration

__all__ = ["calibrate"]

_IMAGES = 500
_OUT = Path("calibration.json")


def calibrate(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|SCORES",
            help="The folder of a finished run; or a classifier's scores: a table with a column per label or with "
            "columns of images, labels and scores, or SpeciesNet's JSON.",
        ),
    ],
    risk: Annotated[float, opt("The mean of 1 - hP to keep on new images: 0.02 is hP 0.98.")],
    confidence_level: Annotated[
        float | None,
        opt("Confidence that the risk is kept, by learn-then-test.", shown="none: in expectation"),
    ] = None,
    policy: Annotated[
        Literal["self_consistency", "posterior"] | None,
        opt(
            "Several answers per image, or one with the probabilities of the tree's names.",
            shown="the run's, or self_consistency",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        opt("Answers per image of self-consistency.", shown="the run's, or 8", min=2, max=100),
    ] = None,
    data: Annotated[
        str | None,
        opt(
            "Labelled images; those of the run's splits are left out.",
            shown="those in neither split",
        ),
    ] = None,
    images: Annotated[
        int | None, opt("Most images to calibrate on.", shown=f"{_IMAGES}", min=1)
    ] = None,
    recipe: Annotated[str | None, opt("The recipe of the run.", shown="the run's own")] = None,
    dry_run: Annotated[bool, opt("Say what it would cost; ask nothing.", "--dry-run")] = False,
    taxonomy: Annotated[str | None, taxonomy_option("For scores.")] = None,
    truth: Annotated[Path | None, opt("For scores: a table with the label of each image.")] = None,
    by: Annotated[
        str | None,
        opt(
            "For scores: rank or depth at which groups of enough images get a threshold of their own, each guaranteed."
        ),
    ] = None,
    out: Annotated[
        Path | None, opt("For scores: the file to write.", "--out", shown="calibration.json")
    ] = None,
    image_column: Annotated[
        str | None, opt("Column of the images in tables.", shown="by its name and its values")
    ] = None,
    label_column: LabelColumnOption = None,
    score_column: ScoreColumnOption = None,
    truth_column: TruthLabelsOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a run's winner, or any classifier, back off by evidence: the mean of 1 - hP is at most the risk, guaranteed.

    Each image of a run goes to the deepest node whose share reaches a threshold: its share of several
    answers, or with --policy posterior of the probability that the model gives to the tree's names. The
    smallest threshold that keeps the risk on new images of the same kind is chosen and written to
    calibration.json in the run's folder. Answers are kept there too, so the same command continues
    after an interruption. Of a classifier's scores a threshold of their sum is chosen, on images whose
    labels --truth gives; `taxtune classify CALIBRATION SCORES` then labels new images.
    """
    from taxtune.tuning.calibrate import CalibrationRun

    names = {
        "image": image_column,
        "label": label_column,
        "score": score_column,
        "truth": truth_column,
    }
    if run.is_file():
        runs = {
            "--policy": policy,
            "--samples": samples,
            "--data": data,
            "--images": images,
            "--recipe": recipe,
        }
        only_for("a run", {**runs, "--dry-run": dry_run})
        promise = {"risk": risk, "confidence_level": confidence_level, "by": by, "columns": names}
        calibrate_file(run, taxonomy, truth, out or _OUT, force=force, as_json=as_json, **promise)
        return
    others = {"-t": taxonomy, "--truth": truth, "--by": by, "--out": out, "--force": force}
    only_for(
        "a file of scores", others | {f"--{name}-column": column for name, column in names.items()}
    )
    work = CalibrationRun(
        run, risk, confidence_level, policy, samples, data, images or _IMAGES, recipe
    )
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
        _print(found)
    note(f"written to {run / 'calibration.json'}")


def _print(found: Calibration) -> None:
    from taxtune.report.output import StudyReport, publish

    def needs(threshold: float | None) -> str:
        if found.names is not None:
            return f"{100 * (threshold or 0):.6g} % of the probability"
        return f"{round((threshold or 0) * found.samples)} of {found.samples} answers"

    title = f"{found.run}: the share of {'the answers' if found.names is None else 'the probability'} that a node needs"
    table = levels_table(found, title, "needs", lambda level: needs(level.threshold))
    publish(StudyReport("calibrate", title, {}, (table,)), out=None, as_json=False)
    cost = f"{found.samples} VLM call{'' if found.samples == 1 else 's'} per image and "
    more = ", more answers per image, or a better template"
    print(guarantee(found, needs(found.threshold), cost=cost, more=more))
