"""`taxtune tune`, `taxtune evaluate` and `taxtune compare`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from taxtune.cli.running import SplitKind
    from taxtune.tuning.objective import ObjectiveKind
    from taxtune.tuning.records import ComparisonResult, TuneResult

__all__ = ["compare", "evaluate", "tune"]


class ObjectiveName(StrEnum):
    """The objectives, as the command line spells them."""

    HP = "hp"
    HF = "hf"
    IHP = "ihp"
    IHF = "ihf"
    ACCURACY = "accuracy"
    LAVE = "lave"


class SplitName(StrEnum):
    """The splits, as the command line spells them."""

    TUNING = "tuning"
    HELDOUT = "heldout"


RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A YAML file, or a recipe that comes with taxtune: fieldguide, ...")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting, e.g. data.tuning=40. Repeatable."),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="FOLDER", show_default="runs/ and the recipe's name", help="Where the run is kept."),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder, if there is one.")]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Check everything, say what is missing and how many calls it takes."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON; nothing else on standard output.")]


def tune(
    recipe: RecipeArgument,
    settings: SetOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tune a prompt template: propose, ask, place, score, record; then judge the winner on held-out images."""
    from taxtune.cli.running import announce, finish_tune, open_session, run_guarded, run_listeners, show_plan

    session = open_session(recipe, settings or [], out)
    if dry_run:
        show_plan(session, (), resume=resume, as_json=as_json)
        return

    def work() -> TuneResult:
        from taxtune.tuning.loop import Tuner

        with announce(session, quiet=as_json) as progress:
            tuner = Tuner(
                session,
                session.folder,
                listeners=run_listeners(session, session.folder, session.folder, progress),
                resume=resume,
            )
            return tuner.run()

    go_on = _how_to_go_on("tune", recipe, settings, out)
    finish_tune(session, run_guarded(work, session.folder, go_on=go_on, resume=resume), as_json=as_json)


def compare(
    recipe: RecipeArgument,
    objective: Annotated[
        list[ObjectiveName] | None,
        typer.Option("--objective", show_default="hp and accuracy", help="Once an objective, at least twice."),
    ] = None,
    settings: SetOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tune once an objective from the same baseline, splits and seed, and compare the winners image by image."""
    from taxtune.cli.running import announce, finish_comparison, open_session, run_guarded, run_listeners, show_plan
    from taxtune.tuning.compare import check_kinds

    names = objective or (ObjectiveName.HP, ObjectiveName.ACCURACY)
    kinds: tuple[ObjectiveKind, ...] = tuple(name.value for name in names)
    check_kinds(kinds)
    session = open_session(recipe, settings or [], out)
    if dry_run:
        show_plan(session, kinds, resume=resume, as_json=as_json)
        return

    def work() -> ComparisonResult:
        from taxtune.tuning.compare import compare_objectives

        with announce(session, quiet=as_json) as progress:
            return compare_objectives(
                session,
                kinds,
                listeners=lambda kind, folder: run_listeners(session, folder, session.folder, progress),
                on_heldout=progress.on_heldout,
                resume=resume,
            )

    go_on = _how_to_go_on("compare", recipe, settings, out, [f"--objective {kind}" for kind in kinds])
    finish_comparison(session, run_guarded(work, session.folder, go_on=go_on, resume=resume), as_json=as_json)


def evaluate(
    recipe: RecipeArgument,
    template: Annotated[Path, typer.Option("--template", metavar="FILE", help="The Jinja template to evaluate.")],
    split: Annotated[SplitName, typer.Option("--split", help="Which images to ask about.")] = SplitName.HELDOUT,
    settings: SetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score one template on a split of the recipe, side by side with the baseline."""
    from taxtune.cli.running import (
        announce,
        evaluate_template,
        open_session,
        read_template,
        run_guarded,
        show_evaluation,
    )

    session = open_session(recipe, settings or [], out)
    source = read_template(template)
    kind: SplitKind = "heldout" if split is SplitName.HELDOUT else "tuning"

    def work() -> ComparisonResult:
        with announce(session, quiet=as_json) as progress:
            return evaluate_template(session, source, template, kind, progress)

    go_on = "The same command asks only what has no answer yet."
    show_evaluation(run_guarded(work, session.folder, go_on=go_on, resume=True), kind, as_json=as_json)


def _how_to_go_on(
    command: str, recipe: str, settings: list[str] | None, out: Path | None, extra: list[str] | None = None
) -> str:
    import shlex

    parts = ["taxtune", command, shlex.quote(recipe), *(extra or [])]
    parts += [f"--set {shlex.quote(s)}" for s in settings or []]
    parts += [f"--out {shlex.quote(str(out))}"] if out is not None else []
    return "Go on with: " + " ".join([*parts, "--resume"])
