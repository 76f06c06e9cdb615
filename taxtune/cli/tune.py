"""`taxtune tune` and `taxtune compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from taxtune.options import AnswersOption, JsonOption, opt

if TYPE_CHECKING:
    from taxtune.tuning.build import Setup
    from taxtune.tuning.records import ComparisonResult, TuneResult

__all__ = ["compare", "tune"]


RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE", help="A YAML file, or the name of a built-in recipe: fieldguide, ..."
    ),
]
SetOption = Annotated[
    list[str] | None,
    opt("Override a setting, e.g. data.tuning=40. Repeatable.", "--set", metavar="KEY=VALUE"),
]
ProposerOption = Annotated[
    str | None,
    opt(
        "What writes the templates: PROVIDER/MODEL, agent:PROVIDER/MODEL (with tools) or fragments.",
        metavar="NAME",
        shown="the recipe's",
    ),
]
ModelOption = Annotated[
    str | None,
    opt(
        "The vision-language model: PROVIDER/MODEL behind an API, local:MODEL on this machine.",
        metavar="NAME",
        shown="the recipe's",
    ),
]
EffortOption = Annotated[
    Literal["light", "medium", "heavy"] | None,
    opt("How much the search may spend: 10, 20 or 40 templates.", shown="the recipe's"),
]
SeedOption = Annotated[
    int | None, opt("Seed for the splits and all other random draws.", shown="the recipe's", min=0)
]
OutOption = Annotated[
    Path | None, opt("Folder of the run.", shown="runs/NAME, runs/NAME-compare, ...")
]
ResumeOption = Annotated[bool, opt("Continue the run in this folder if there is one.", "--resume")]
BatchOption = Annotated[
    bool, opt("Ask held-out questions in batches: half the price, exit code 75.", "--batch")
]
DryRunOption = Annotated[
    bool,
    opt(
        "Check everything and report what is missing and what the run takes: calls, dollars, "
        "minutes; run nothing.",
        "--dry-run",
    ),
]
DetailsOption = Annotated[
    bool,
    opt("Also print every score, and what doubtful placements would change.", "--details"),
]


AimOption = Annotated[
    list[str] | None, opt("The objective to tune for.", shown="the recipe's objective.kind")
]
AimsOption = Annotated[
    list[str] | None,
    opt("An objective to tune for; give two or more.", shown="hr_at_hp and accuracy"),
]


def tune(
    recipe: RecipeArgument,
    objective: AimOption = None,
    proposer: ProposerOption = None,
    model: ModelOption = None,
    effort: EffortOption = None,
    seed: SeedOption = None,
    settings: SetOption = None,
    out: OutOption = None,
    answers: AnswersOption = None,
    resume: ResumeOption = False,
    batch: BatchOption = False,
    dry_run: DryRunOption = False,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tune a prompt template: propose, ask, place, score, record; then evaluate the winner on held-out images."""
    from taxtune.errors import TaxtuneError
    from taxtune.objective import check_objective

    names = objective or []
    if len(names) > 1:
        remedy = "To tune for each and compare the winners, use `taxtune compare`."
        raise TaxtuneError("tune takes one objective.", value=names, remedy=remedy)
    for name in names:
        check_objective(name)
    options: dict[str, object] = {}
    if names:
        options["objective"] = names[0]
    options |= {"proposer": proposer, "model": model, "effort": effort, "seed": seed}
    run = _Run(
        command="tune",
        recipe=recipe,
        options=options,
        settings=settings or [],
        out=out,
        answers=answers,
        resume=resume,
        batch=batch,
        details=details,
        as_json=as_json,
    )
    run.start(dry_run=dry_run)


def compare(
    recipe: RecipeArgument,
    objective: AimsOption = None,
    proposer: ProposerOption = None,
    model: ModelOption = None,
    effort: EffortOption = None,
    seed: SeedOption = None,
    settings: SetOption = None,
    out: OutOption = None,
    answers: AnswersOption = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tune for each objective from the same baseline, splits and seed, and compare the winners image by image."""
    from taxtune.objective import check_objective
    from taxtune.runs import check_objectives

    names = tuple(objective or ("hr_at_hp", "accuracy"))
    for name in names:
        check_objective(name)
    check_objectives(names)
    options = {"proposer": proposer, "model": model, "effort": effort, "seed": seed}
    run = _Run(
        command="compare",
        recipe=recipe,
        objectives=names,
        options=options,
        settings=settings or [],
        out=out,
        answers=answers,
        resume=resume,
        details=details,
        as_json=as_json,
    )
    run.start(dry_run=dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A call of `tune` or `compare`.

    Attributes:
        command: The command.
        recipe: A file, or the name of a recipe.
        objectives: The objectives that are compared; none to tune for the recipe's own.
        options: Options that stand for keys of the recipe, by name; None if they are not given.
        settings: Overrides of the recipe, each "KEY=VALUE".
        out: The folder of the run.
        answers: The file of the answers; None for that of the folder.
        resume: Whether to continue the run in the folder.
        batch: Whether held-out images are asked about in batches.
        details: Whether to print every score as well.
        as_json: Whether to print JSON.
    """

    command: Literal["tune", "compare"]
    recipe: str
    objectives: tuple[str, ...] = ()
    options: Mapping[str, object]
    settings: Sequence[str]
    out: Path | None
    answers: Path | None
    resume: bool
    batch: bool = False
    details: bool
    as_json: bool

    def start(self, *, dry_run: bool) -> None:
        """Runs the command, or prints its plan."""
        from taxtune.cli import running
        from taxtune.tuning.run_folder import answers_of, next_folder

        given = {}
        for name, value in self.options.items():
            if value is not None:
                given[name] = value
        setup = running.open_recipe(self.recipe, self.settings, self.out, self.command, given)
        setup = replace(setup, answers=self.answers)
        free = next_folder(setup.folder)
        kept = answers_of(setup.folder, self.answers)
        anew = self._again(given, free, None if kept == answers_of(free) else kept)
        if dry_run:
            running.show_plan(
                setup, self.objectives, resume=self.resume, anew=anew, as_json=self.as_json
            )
            return
        go_on = f"Continue with: {self._again(given, self.out, self.answers, '--resume')}"
        with running.guarded(setup, go_on):
            result, callbacks = self._result(setup, anew)
        running.show_result(result, as_json=self.as_json, details=self.details)
        running.check_recorded(callbacks, setup.folder, go_on)

    def _result(self, setup: Setup, anew: str) -> tuple[TuneResult | ComparisonResult, list[Any]]:
        """Returns the result, and the callbacks that recorded it."""
        from taxtune import runs
        from taxtune.cli.running import announce
        from taxtune.tuning.build import check_reachable
        from taxtune.tuning.run_folder import check_run_folder

        # Before images are read, which may take minutes.
        check_run_folder(setup.folder, self.objectives, resume=self.resume)
        check_reachable(setup)
        with announce(setup, quiet=self.as_json) as progress:
            callbacks = [progress, *runs.recording_callbacks(setup)]
            again = ["taxtune", self.command, "recipe.yaml", *self._objectives()]
            options = runs.RunOptions(callbacks=callbacks, resume=self.resume, anew=anew)
            options["command"] = " ".join(again)
            if self.objectives:
                return runs.compare(setup, self.objectives, **options), callbacks
            options["batch"] = self.batch
            return runs.tune(setup, **options), callbacks

    def _objectives(self) -> list[str]:
        """Returns the options that name the objectives of a comparison."""
        return [word for name in self.objectives for word in ("--objective", name)]

    def _again(
        self, given: Mapping[str, object], out: Path | None, answers: Path | None, *more: str
    ) -> str:
        """Returns the command once more, with folder and answers of the run and further options."""
        from taxtune.errors import command

        words = [self.command, self.recipe, *self._objectives()]
        for name, value in given.items():
            words += [f"--{name}", str(value)]
        for setting in self.settings:
            words += ["--set", setting]
        for name, path in {"--out": out, "--answers": answers}.items():
            if path is not None:
                words += [name, str(path)]
        return command(*words, *more)
