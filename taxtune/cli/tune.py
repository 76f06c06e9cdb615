"""`taxtune tune`, `taxtune evaluate` and `taxtune compare`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from taxtune.tuning.records import ComparisonResult, TuneResult

__all__ = ["compare", "evaluate", "tune"]


class SplitName(StrEnum):
    """The splits, as the command line spells them."""

    TUNING = "tuning"
    HELDOUT = "heldout"


RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A YAML file, or the name of a built-in recipe: fieldguide, ...")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting, e.g. data.tuning=40. Repeatable."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FOLDER", show_default="runs/NAME, runs/NAME-compare, ...", help="Folder of the run."
    ),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue the run in this folder if there is one.")]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Check everything and report what is missing and how many calls the run takes; run nothing."
    ),
]
DetailsOption = Annotated[
    bool, typer.Option("--details", help="Print every held-out score too, with its interval and paired differences.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only the result on standard output, as JSON.")]


def tune(
    recipe: RecipeArgument,
    objective: Annotated[
        list[str] | None,
        typer.Option("--objective", show_default="the recipe's objective.kind", help="The objective to tune for."),
    ] = None,
    settings: SetOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tune a prompt template: propose, ask, place, score, record; then evaluate the winner on held-out images."""
    from taxtune.cli.running import (
        announce,
        callbacks_of,
        check_recorded,
        open_recipe,
        preloading,
        run_guarded,
        show_plan,
        show_result,
    )

    if objective:
        settings = [*(settings or []), f"objective.kind={_only(objective)}"]
    parts = open_recipe(recipe, settings or [], out)
    if dry_run:
        show_plan(parts, (), resume=resume, as_json=as_json)
        return

    watching: list[Any] = []

    def work() -> TuneResult:
        from taxtune.tuning.loop import Tuner

        parts.check_folder(resume=resume)  # before images are read, which may take minutes
        with announce(parts, quiet=as_json) as progress:
            with preloading(parts):
                experiment = parts.tuned_for()
            watching.extend(callbacks_of(parts, progress))
            tuner = Tuner(
                experiment, parts.folder, callbacks=watching, resume=resume, command="taxtune tune recipe.yaml"
            )
            return tuner.run()

    go_on = _how_to_go_on("tune", recipe, settings, out)
    show_result(run_guarded(work, parts.folder, go_on=go_on, resume=resume), as_json=as_json, details=details)
    check_recorded(watching, parts.folder, go_on)


def compare(
    recipe: RecipeArgument,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective", show_default="hr_at_hp and accuracy", help="An objective to tune for; give two or more."
        ),
    ] = None,
    settings: SetOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tune for each objective from the same baseline, splits and seed, and compare the winners image by image."""
    from taxtune.cli.running import (
        announce,
        callbacks_of,
        check_recorded,
        open_recipe,
        preloading,
        run_guarded,
        show_plan,
        show_result,
    )
    from taxtune.tuning.compare import check_objectives
    from taxtune.tuning.objective import check_objective

    names = tuple(objective or ("hr_at_hp", "accuracy"))
    for name in names:
        check_objective(name)
    check_objectives(names)
    parts = open_recipe(recipe, settings or [], out, "compare")
    if dry_run:
        show_plan(parts, names, resume=resume, as_json=as_json)
        return

    watching: list[Any] = []

    def work() -> ComparisonResult:
        from taxtune.tuning.compare import compare_objectives

        parts.check_folder(names, resume=resume)  # before images are read, which may take minutes
        with announce(parts, quiet=as_json) as progress:
            with preloading(parts):
                experiments = [parts.tuned_for(name) for name in names]
            watching.extend(callbacks_of(parts, progress))
            return compare_objectives(
                experiments,
                parts.folder,
                callbacks=watching,
                resume=resume,
                command="taxtune compare recipe.yaml" + "".join(f" --objective {name}" for name in names),
            )

    go_on = _how_to_go_on("compare", recipe, settings, out, [word for name in names for word in ("--objective", name)])
    show_result(run_guarded(work, parts.folder, go_on=go_on, resume=resume), as_json=as_json, details=details)
    check_recorded(watching, parts.folder, go_on)


def evaluate(
    recipe: RecipeArgument,
    template: Annotated[
        list[Path],
        typer.Option(
            "--template",
            metavar="FILE",
            help="The Jinja template to evaluate: a file, or builtin:NAME for one that comes with taxtune. Repeatable.",
        ),
    ],
    split: Annotated[SplitName, typer.Option("--split", help="Which images to evaluate on.")] = SplitName.HELDOUT,
    settings: SetOption = None,
    out: OutOption = None,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score templates on a split of the recipe, side by side with the baseline."""
    from taxtune.cli.running import (
        announce,
        callbacks_of,
        open_recipe,
        preloading,
        read_templates,
        run_guarded,
        show_result,
    )

    parts = open_recipe(recipe, settings or [], out)
    sources = read_templates(template)
    kind: Literal["heldout", "tuning"] = "heldout" if split is SplitName.HELDOUT else "tuning"

    def work() -> ComparisonResult:
        from taxtune.errors import TemplateError
        from taxtune.tuning.compare import evaluate_templates

        with announce(parts, quiet=as_json) as progress:
            with preloading(parts, tracked=False):
                experiment = parts.tuned_for()
            for file, source in sources.items():
                try:
                    experiment.check_own(source, file.stem)
                except TemplateError as error:
                    raise TemplateError(
                        error.message, file=file, row=error.row, value=error.value, remedy=error.remedy
                    ) from None
            # One is "the template"; several are told apart by their files' names.
            names = ["template"] if len(sources) == 1 else [file.stem for file in sources]
            return evaluate_templates(
                experiment,
                {"baseline": experiment.prompt.baseline, **dict(zip(names, sources.values(), strict=True))},
                parts.folder,
                split=kind,
                called="-".join(file.stem for file in sources),
                callbacks=callbacks_of(parts, progress)[:2],
            )

    go_on = "Run the same command again to ask only what has no answer yet."
    show_result(run_guarded(work, parts.folder, go_on=go_on, resume=True), as_json=as_json, details=details)


def _only(objectives: Sequence[str]) -> str:
    from taxtune.errors import TaxtuneError
    from taxtune.tuning.objective import check_objective

    if len(objectives) > 1:
        raise TaxtuneError(
            "tune takes one objective.",
            value=list(objectives),
            remedy="To tune for each and compare the winners, use `taxtune compare`.",
        )
    check_objective(objectives[0])
    return objectives[0]


def _how_to_go_on(
    name: str, recipe: str, settings: list[str] | None, out: Path | None, extra: Sequence[str] = ()
) -> str:
    from taxtune.shell import command

    words: list[str | Path] = [name, recipe, *extra]
    for setting in settings or []:
        words += ["--set", setting]
    words += ["--out", out] if out is not None else []
    return f"Continue with: {command(*words, '--resume')}"
