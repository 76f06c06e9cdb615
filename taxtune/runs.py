"""Tunes, compares objectives and evaluates templates, for the commands and for `taxtune.api`."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from taxtune.atomic import make_folder
from taxtune.data.sources import Source
from taxtune.errors import DataError, TaxtuneError, command
from taxtune.metrics.table import TemplateScores
from taxtune.models import AnswerStore, Model
from taxtune.objective import Objective
from taxtune.progress import note, track_each
from taxtune.recipe import Recipe, load_recipe
from taxtune.tuning.build import AnyObjective, Setup, build, build_each, make_objective
from taxtune.tuning.calibrate import CALIBRATION
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.history import check_resumable, locked, read_note
from taxtune.tuning.loop import Callbacks, ComparisonGroup, Tuner
from taxtune.tuning.metrics import Metric
from taxtune.tuning.plan import note_reading_alone
from taxtune.tuning.records import ComparisonResult, Difference, HeldoutResult, TuneResult
from taxtune.tuning.run_folder import (
    answers_of,
    check_run_folder,
    describe,
    files_shown,
    identity_of,
    images_of,
    next_folder,
    note_answers,
    recipe_of,
    write_result,
)

__all__ = [
    "RunOptions",
    "check_objectives",
    "choose",
    "compare",
    "evaluate",
    "recording_callbacks",
    "setup_of",
    "tune",
]


class RunOptions(TypedDict, total=False):
    """How a run is run, whatever it is about.

    Attributes:
        callbacks: Told what happens; see `taxtune.Callback`.
        resume: Whether to go on with what is in the folder.
        command: The command that runs it again, for the report.
        anew: The command that begins a new run, for the error of one that cannot go on.
        batch: Whether held-out images are asked about in the provider's batches.
    """

    callbacks: Sequence[Any]
    resume: bool
    command: str | None
    anew: str | None
    batch: bool


def tune(
    setup: Setup, objective: AnyObjective | None = None, **options: Unpack[RunOptions]
) -> TuneResult:
    """Tunes a template, in the folder of the setup.

    Args:
        setup: The recipe and the objects in place of its parts.
        objective: What to tune for; the recipe's own where left out.
        **options: See `RunOptions`.

    Raises:
        TaxtuneError: If the run cannot start or go on; what is done is kept.
        KeyboardInterrupt: On Ctrl-C; the run goes on with `resume`.
    """
    # Before images are read, which may take minutes.
    check_run_folder(setup.folder, resume=options.get("resume", False))
    with locked(setup.folder) as lock:
        experiment = build(setup, objective)
        note_reading_alone(setup, [experiment])
        tuner = Tuner(experiment, setup.folder, lock=lock, **options)
        return tuner.run()


def setup_of(
    run: TuneResult,
    *,
    recipe: Recipe | str | Path | None = None,
    vlm: Model | None = None,
    examples: Source | None = None,
) -> Setup:
    """Returns the setup of a finished run.

    Args:
        run: The run.
        recipe: Its recipe, where the run does not know it.
        vlm: The model, for a run with a model of one's own.
        examples: The images, for a run whose images were given in Python and in no file.

    Raises:
        RecipeError: If the recipe is not known, or the model or the images have to be given.
    """
    if recipe is None:
        examples = images_of(run) if examples is None else examples
        given = {"vlm": vlm, "data": examples}
        recipe = recipe_of(run, given=[group for group in given if given[group] is not None])
    elif not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe)
    return Setup(recipe, Path(run.folder), vlm=vlm, examples=examples)


def choose(
    setup: Setup, earlier: TuneResult, iteration: int, callbacks: Sequence[Any] = ()
) -> TuneResult:
    """Makes an iteration the winner of a finished run, chosen by a person.

    Baseline, the objective's choice and the new winner are compared on the held-out images; of
    these only the new winner is asked about any. The run's folder then holds the new winner.

    Args:
        setup: The setup of the run.
        earlier: The result of the run.
        iteration: The number of the iteration.
        callbacks: Told what happens.

    Raises:
        DataError: If the run has no such template, or its held-out images are no longer those that
            it was judged by.
        TaxtuneError: If the model cannot be asked.
    """
    folder = setup.folder
    _check_choice(earlier, iteration)
    with locked(folder) as lock:
        experiment = build(setup, _objective_of(earlier, setup.recipe))
        heldout = [(row.example, row.target) for row in earlier.heldout_winner.rows]
        if heldout != [(example.id, example.target) for example in experiment.splits.heldout]:
            raise DataError(
                "The held-out images are not those that the run was judged by.",
                file=folder,
                remedy="Choose with the images, the labels and the tree of the run, or tune again.",
            )
        parts = ("vlm.", "mapper.", "policy.")
        anew = f"--out {next_folder(folder)}"
        check_resumable(folder, identity_of(experiment), anew, only=parts)
        tuner = Tuner(experiment, folder, callbacks=callbacks, lock=lock)
        result = tuner.choose(iteration, earlier)
    if (folder / CALIBRATION).exists() and result.winner != earlier.winner:
        note(
            f"{CALIBRATION} was made for another prompt; calibrate this one: "
            f"{command('calibrate', folder, '--risk', '0.02')}"
        )
    if read_note(folder, "group") and result.winner != earlier.winner:
        note(f"The comparison in {folder.parent} has the winner of before until it is resumed")
    return result


def _objective_of(run: TuneResult, recipe: Recipe) -> Objective:
    """Returns the objective of a finished run; a function of one's own is not kept and cannot score."""

    def unknown(_: TemplateScores) -> float:
        raise TaxtuneError(
            "The objective is a function of your own, which is not kept, and chooses the threshold.",
            value=run.objective,
            remedy="Tune with a policy.threshold that is a number to choose among its templates.",
        )

    try:
        made = make_objective(recipe, run.objective)
    except TaxtuneError:
        made = Objective(run.objective, unknown)
    return replace(made, constraints=run.constraints)


def _check_choice(run: TuneResult, iteration: int) -> None:
    """Raises a `DataError` if an iteration cannot be a run's winner."""
    scored = [record.iteration for record in run.iterations if record.scores is not None]
    if run.selection is None or iteration not in scored:
        numbers = ", ".join(map(str, scored))
        raise DataError(
            "The run has no such iteration with scores.",
            file=run.folder,
            value=iteration,
            remedy=f"Choose one of {numbers}.",
        )


def compare(
    setup: Setup, objectives: Sequence[AnyObjective], **options: Unpack[RunOptions]
) -> ComparisonResult:
    """Tunes for each objective from the same baseline, splits and seed, and compares the winners.

    The runs share the store of answers, so that a template that several try, the baseline above
    all, is asked once.

    Args:
        setup: The recipe and the objects in place of its parts. Each run has a sub-folder of the
            setup's folder, which is named after its objective.
        objectives: Two or more objectives.
        **options: See `RunOptions`.

    Raises:
        TaxtuneError: If a run cannot start or go on; what is done is kept.
        KeyboardInterrupt: On Ctrl-C; the runs go on with `resume`.
    """
    folder = setup.folder
    goals = [make_objective(setup.recipe, each, setup.metrics) for each in objectives]
    names = [goal.name for goal in goals]
    check_objectives(names)
    check_run_folder(folder, names, resume=options.get("resume", False))
    with locked(folder):
        experiments = build_each(setup, objectives)
        note_reading_alone(setup, experiments)
        runs, group = _tune_each(experiments, folder, options)
        start = time.monotonic()
        callbacks = Callbacks(options.get("callbacks", ()))
        heldout, differences = _compare_winners(experiments, runs, callbacks)
        first = experiments[0]
        seconds = sum(run.usage.seconds for run in runs) + time.monotonic() - start
        result = ComparisonResult(
            name=first.recipe.name,
            runs=tuple(runs),
            heldout=heldout,
            differences=differences,
            folder=str(folder),
            where=files_shown(folder) | callbacks.where(),
            provenance=describe(first, options.get("command")),
            seconds=seconds,
        )
        write_result(result)
        callbacks.tell("on_result", result)
        callbacks.tell("on_comparison", result, group)
        return result


def _tune_each(
    experiments: Sequence[Experiment], folder: Path, options: RunOptions
) -> tuple[list[TuneResult], ComparisonGroup]:
    """Returns the runs of a comparison, and the group that they are recorded in."""
    name = experiments[0].recipe.name
    path = str(folder.resolve())
    place = hashlib.sha256(path.encode()).hexdigest()
    group = ComparisonGroup(name, f"{name}-{place[:8]}")
    runs = []
    for experiment in track_each(experiments, "objectives"):
        tuner = Tuner(
            experiment,
            folder / experiment.objective.name,
            group=group,
            **options,
        )
        runs.append(tuner.run())
        group = tuner.group or group  # the folder may have been moved since it was begun
    return runs, group


def _compare_winners(
    experiments: Sequence[Experiment],
    runs: Sequence[TuneResult],
    callbacks: Callbacks,
) -> tuple[tuple[HeldoutResult, ...], tuple[Difference, ...]]:
    """Asks about the held-out images with the baseline and all winners."""
    first = experiments[0]
    winners = {"baseline": runs[0].heldout[0]}
    for run in runs:
        winners[run.objective] = run.heldout_winner
    templates = {name: first.rules.parse(held.template) for name, held in winners.items()}
    metrics: dict[str, Metric] = {}
    needs: dict[str, None] = {}
    for experiment in experiments:
        metrics |= experiment.metrics
        needs |= dict.fromkeys(experiment.objective.needs)
    on_heldout = partial(callbacks.tell, "on_heldout")
    with AnswerStore(first.answers) as store:
        evaluator = first.evaluator(store)
        evaluator = replace(evaluator, metrics=tuple(metrics.values()), needs=tuple(needs))
        return first.compare(evaluator, templates, on_heldout)


def evaluate(
    experiment: Experiment,
    templates: Mapping[str, str],
    *,
    split: Literal["heldout", "tuning"] = "heldout",
    name: str | None = None,
    callbacks: Sequence[Any] = (),
) -> ComparisonResult:
    """Scores the baseline and templates on the same images; compares each with each earlier one.

    The result is written to a folder of its own in `evaluated`; what was evaluated under the same
    name before is replaced.

    Args:
        experiment: The tree, the images and the model.
        templates: Jinja sources by name.
        split: The images to ask about.
        name: Name of the folder in `evaluated`; the templates' names where left out.
        callbacks: Told which template is asked, and the result.

    Raises:
        TaxtuneError: If the model cannot be asked, or too many images have no answer.
    """
    start = time.monotonic()
    watching = Callbacks(callbacks)
    answers = experiment.answers
    parsed = {"baseline": experiment.rules.parse(experiment.recipe.prompt.baseline)}
    for own_name, source in templates.items():
        parsed[own_name] = experiment.rules.parse(source)
    on_heldout = partial(watching.tell, "on_heldout")
    with AnswerStore(answers) as store:
        if answers_of(experiment.folder) != answers:
            note_answers(experiment.folder, answers)
        evaluator = experiment.evaluator(store)
        heldout, differences = experiment.compare(evaluator, parsed, on_heldout, split=split)
    stem = name or "-".join(templates)
    stem = re.sub(r"[^\w.-]+", "-", stem)[:100]
    if split != "heldout":
        stem = f"{stem}-on-{split}-images"
    folder = make_folder(experiment.folder / "evaluated" / stem)
    result = ComparisonResult(
        name=experiment.recipe.name,
        runs=(),
        heldout=heldout,
        differences=differences,
        folder=str(folder),
        where={"report": str(folder / "report.html"), "answers": str(answers)},
        provenance=describe(experiment, None),
        seconds=time.monotonic() - start,
    )
    write_result(result)
    watching.tell("on_result", result)
    return result


def check_objectives(names: Sequence[str]) -> None:
    """Raises a `TaxtuneError` if fewer than two different objectives are given."""
    if len(set(names)) != len(names) or len(names) < 2:
        raise TaxtuneError(
            "A comparison needs at least two different objectives.",
            value=" ".join(names) or None,
            remedy="For example: --objective hp --objective accuracy",
        )


def recording_callbacks(setup: Setup) -> list[Any]:
    """Returns the callbacks that write the report and, if the recipe says so, record in MLflow."""
    from taxtune.report.html import ReportCallback

    if not setup.recipe.tracking.mlflow:
        return [ReportCallback()]
    from taxtune.tracking import MLflowTracker, TrackingCallback
    from taxtune.tracking.store import record_folder

    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "taxtune"
    folder = record_folder(setup.folder)
    return [ReportCallback(), TrackingCallback(partial(MLflowTracker, name, folder))]
