"""`taxtune calibrate`: the threshold of answers or scores at which a guaranteed risk is kept."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from taxtune.cli.cascade import calibrate_cascade
from taxtune.cli.classifier_scores import (
    ImageColumnOption,
    LabelColumnOption,
    ScoreColumnOption,
    TruthLabelsOption,
    calibrate_file,
    columns_of,
    guarantee,
    levels_table,
)
from taxtune.cli.printing import note_arbiter, print_json, refuse_options
from taxtune.options import AnswersOption, ForceOption, JsonOption, opt, taxonomy_option
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.tuning.calibrate import Calibration, CalibrationRun

__all__ = ["calibrate"]

_IMAGES = 500
_FOR_RUNS = ("policy", "samples", "data", "images", "recipe", "answers", "dry_run")
_FOR_SCORES_ALONE = ("taxonomy", "truth", "by", "group", "group_pattern", "truth_column")
_FOR_SCORES = (*_FOR_SCORES_ALONE, "out", "force", "image_column", "label_column", "score_column")
_FOR_CASCADES = ("budget", "hr")
_SCORES_ALONE = "scores alone; with --then, labels and groups are those of the run's images"
_OUT = Path("calibration.json")

RunOrScores = Annotated[
    Path,
    typer.Argument(
        metavar="RUN|SCORES",
        help="The folder of a finished run; or a classifier's scores: a table with a column per "
        "label or with columns of images, labels and scores, or SpeciesNet's JSON.",
    ),
]
RiskOption = Annotated[float, opt("What to keep on new images: 0.02 is hP 0.98, or 2 % of labels.")]
ConfidenceOption = Annotated[
    float | None,
    opt("How surely, by learn-then-test.", shown="none: in expectation; of labels 0.9"),
]
PromiseOption = Annotated[
    Literal["hp", "labels"], opt("What has the risk: 1 - hP, or labels given that are wrong.")
]
RankOption = Annotated[
    str | None,
    opt(
        "Of labels: rank or depth, or deeper; with --then also where scores say enough.",
        shown="any; a leaf",
    ),
]
PolicyOption = Annotated[
    Literal["self_consistency", "posterior"] | None,
    opt("Several answers per image, or probabilities.", shown="the run's, or self_consistency"),
]
SamplesOption = Annotated[
    int | None,
    opt("Answers per image of self-consistency.", shown="the run's, or 8", min=2, max=100),
]
DataOption = Annotated[
    str | None,
    opt("Labelled images; those of the run's splits are left out.", shown="those in neither split"),
]
ImagesOption = Annotated[int | None, opt("Most images to calibrate on.", shown=f"{_IMAGES}", min=1)]
RunRecipeOption = Annotated[str | None, opt("The recipe of the run.", shown="the run's own")]
DryRunOption = Annotated[bool, opt("Say what it would cost; ask nothing.", "--dry-run")]
TreeOption = Annotated[str | None, taxonomy_option("For scores.")]
TruthOption = Annotated[Path | None, opt("For scores: a table with the label of each image.")]
GroupsOption = Annotated[
    str | None,
    opt(
        "For scores: rank or depth at which groups of enough images get a threshold of their own, "
        "each guaranteed."
    ),
]
GroupColumnOption = Annotated[
    str | None, opt("For scores: column of either table with what counts once, such as a burst.")
]
GroupPatternOption = Annotated[
    str | None, opt("For scores: a regular expression of the group in an image's name.")
]
AddOption = Annotated[
    Path | None,
    opt("Also calibrate on what was labelled in this NAME-audit.csv of `taxtune audit`."),
]
CalibrationOutOption = Annotated[
    Path | None, opt("For scores: the file to write.", shown="calibration.json")
]
ThenOption = Annotated[
    Path | None,
    opt("For scores: the run that is asked about the images of which they do not say enough."),
]
BudgetOption = Annotated[
    float | None, opt("With --then: most US dollars for 10,000 images.", min=0)
]
LeastHROption = Annotated[
    float | None, opt("With --then: the cheapest with at least this hR.", min=0, max=1)
]


def calibrate(
    context: typer.Context,
    run: RunOrScores,
    risk: RiskOption,
    confidence_level: ConfidenceOption = None,
    promise: PromiseOption = "hp",
    rank: RankOption = None,
    then: ThenOption = None,
    budget: BudgetOption = None,
    hr: LeastHROption = None,
    policy: PolicyOption = None,
    samples: SamplesOption = None,
    data: DataOption = None,
    images: ImagesOption = None,
    recipe: RunRecipeOption = None,
    answers: AnswersOption = None,
    dry_run: DryRunOption = False,
    taxonomy: TreeOption = None,
    truth: TruthOption = None,
    by: GroupsOption = None,
    group: GroupColumnOption = None,
    group_pattern: GroupPatternOption = None,
    add: AddOption = None,
    out: CalibrationOutOption = None,
    image_column: ImageColumnOption = None,
    label_column: LabelColumnOption = None,
    score_column: ScoreColumnOption = None,
    truth_column: TruthLabelsOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a run's winner, or any classifier, back off by evidence, so that a risk is kept: guaranteed.

    Each image of a run goes to the deepest node whose share reaches a threshold: its share of several
    answers, or with --policy posterior of the probability that the model gives to the tree's names. The
    smallest threshold that keeps the risk on new images of the same kind is chosen and written to
    calibration.json in the run's folder. Answers are kept, so the same command continues after an
    interruption. Of a classifier's scores a threshold of their sum is chosen, on images whose
    labels --truth gives; `taxtune classify CALIBRATION SCORES` then labels new images. With --then RUN
    the run is asked where scores do not say enough: both thresholds have one guarantee, and a list of prices.
    """
    from taxtune.audit.watch import read_added
    from taxtune.classifier.cascade import CascadeRun
    from taxtune.tuning.calibrate import CalibrationRun

    asked: dict[str, Any] = {"risk": risk, "promise": promise, "rank": rank}
    asked["add"] = None if add is None else read_added(add)
    if then is None:
        refuse_options(context, _FOR_CASCADES, "scores with --then RUN")
    if then is None and run.is_file():
        refuse_options(context, _FOR_RUNS, "a run")
        calibrate_file(
            run,
            taxonomy,
            truth,
            out or _OUT,
            force=force,
            as_json=as_json,
            confidence_level=confidence_level,
            by=by,
            columns=columns_of(context),
            group=group,
            group_pattern=group_pattern,
            **asked,
        )
        return
    asked |= {"confidence": confidence_level, "kind": policy, "samples": samples, "data": data}
    asked |= {"images": images or _IMAGES, "recipe": recipe, "answers": answers}
    if then is None:
        refuse_options(context, _FOR_SCORES, "a file of scores")
        work = CalibrationRun(folder=run, **asked)
        _note_cost(work)
        if not dry_run:
            _calibrate_run(work, as_json=as_json)
        return
    refuse_options(context, _FOR_SCORES_ALONE, _SCORES_ALONE)
    both = CascadeRun(folder=then, scores=run, columns=columns_of(context), wanted=rank, **asked)
    _note_cost(both)
    flags = {"dry_run": dry_run, "force": force, "as_json": as_json}
    calibrate_cascade(both, out or _OUT, budget, hr, **flags)


def _calibrate_run(work: CalibrationRun, *, as_json: bool) -> None:
    """Calibrates a run and prints the calibration."""
    calibration = work.run()
    note_arbiter(work.asker.mapper)
    _print(calibration, as_json=as_json)
    note(f"written to {work.folder / 'calibration.json'}")


def _note_cost(work: CalibrationRun) -> None:
    calls, stored = work.cost()
    samples = work.policy.samples
    each = "1 answer" if samples == 1 else f"{samples} answers"
    images = f"{len(work.examples):,} images ({work.described})"
    text = f"{images} × {each} = {calls:,} VLM calls, {stored:,} of them in the store"
    if work.call.usd and stored < calls:
        text += f", the others for about ${(calls - stored) * work.call.usd:.2f}"
    text += f"; at least {work.needed:,} "
    text += "images" if work.groups.single else f"of {len(work.groups):,} groups"
    note(f"{text} are needed")


def _print(calibration: Calibration, *, as_json: bool) -> None:
    from taxtune.report.output import StudyReport, publish

    if as_json:
        print_json(asdict(calibration))
        return
    samples = calibration.samples
    is_posterior = calibration.names is not None

    def needs(threshold: float | None) -> str:
        if is_posterior:
            return f"{100 * (threshold or 0):.4g} %"
        return f"{round((threshold or 0) * samples)} of {samples} answers"

    whole = "the probability" if is_posterior else "the answers"
    title = f"{calibration.run}: the share of {whole} that a node needs"
    table = levels_table(calibration, title, lambda level: needs(level.threshold))
    publish(StudyReport("calibrate", title, {}, (table,)), out=None, as_json=False)
    share = needs(calibration.threshold)
    more = ", more answers per image, or a better template"
    if is_posterior:
        share = f"{share} of the probability"
        more = " or a better template"
    text = guarantee(
        calibration,
        share,
        calibration.chosen,
        calibration.levels[1:],
        cost=f"{samples} VLM call{'' if samples == 1 else 's'} per image and ",
        more=more,
    )
    print(text)
