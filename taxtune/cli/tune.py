"""`taxtune tune`, `taxtune evaluate` and `taxtune compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from taxtune.options import opt

__all__ = ["compare", "evaluate", "tune"]


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
ProposerOption = Annotated[str | None, opt(
    "What writes the templates: PROVIDER/MODEL, agent:PROVIDER/MODEL (with tools) or fragments.",
    metavar="NAME", shown="the recipe's",
)]  # fmt: skip
ModelOption = Annotated[str | None, opt(
    "The vision-language model: PROVIDER/MODEL behind an API, local:MODEL on this machine.",
    metavar="NAME", shown="the recipe's",
)]  # fmt: skip
EffortOption = Annotated[Literal["light", "medium", "heavy"] | None, opt(
    "How much the search may spend: 10, 20 or 40 templates.", shown="the recipe's"
)]  # fmt: skip
SeedOption = Annotated[
    int | None, opt("Seed for the splits and all other random draws.", shown="the recipe's", min=0)
]
OutOption = Annotated[
    Path | None, opt("Folder of the run.", shown="runs/NAME, runs/NAME-compare, ...")
]
ResumeOption = Annotated[bool, opt("Continue the run in this folder if there is one.", "--resume")]
DryRunOption = Annotated[
    bool,
    opt(
        "Check everything and report what is missing and how many calls the run takes; run nothing.",
        "--dry-run",
    ),
]
JsonOption = Annotated[bool, opt("Print only the result on standard output, as JSON.", "--json")]


def tune(
    recipe: RecipeArgument,
    objective: Annotated[
        list[str] | None, opt("The objective to tune for.", shown="the recipe's objective.kind")
    ] = None,
    proposer: ProposerOption = None,
    model: ModelOption = None,
    effort: EffortOption = None,
    seed: SeedOption = None,
    settings: SetOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tune a prompt template: propose, ask, place, score, record; then evaluate the winner on held-out images."""
    from taxtune.errors import TaxtuneError
    from taxtune.objective import check_objective

    if objective is not None and len(objective) > 1:
        remedy = "To tune for each and compare the winners, use `taxtune compare`."
        raise TaxtuneError("tune takes one objective.", value=objective, remedy=remedy)
    aim = objective[0] if objective else None
    if aim is not None:
        check_objective(aim)
    options = {
        "objective": aim,
        "proposer": proposer,
        "model": model,
        "effort": effort,
        "seed": seed,
    }
    _run(
        "tune", recipe, (), settings, options, out, resume=resume, dry_run=dry_run, as_json=as_json
    )


def compare(
    recipe: RecipeArgument,
    objective: Annotated[
        list[str] | None,
        opt("An objective to tune for; give two or more.", shown="hr_at_hp and accuracy"),
    ] = None,
    proposer: ProposerOption = None,
    model: ModelOption = None,
    effort: EffortOption = None,
    seed: SeedOption = None,
    settings: SetOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    dry_run: DryRunOption = False,
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
    _run(
        "compare",
        recipe,
        names,
        settings,
        options,
        out,
        resume=resume,
        dry_run=dry_run,
        as_json=as_json,
    )


def _run(
    what: Literal["tune", "compare"],
    recipe: str,
    names: Sequence[str],
    settings: Sequence[str] | None,
    options: Mapping[str, object],
    out: Path | None,
    *,
    resume: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Tunes a recipe for its own objective, or for each of several that are named."""
    from taxtune import runs
    from taxtune.cli.running import (
        announce,
        check_recorded,
        open_recipe,
        run_guarded,
        show_plan,
        show_result,
    )
    from taxtune.errors import command
    from taxtune.tuning.build import check_reachable
    from taxtune.tuning.run_folder import check_run_folder, complete_result, mark_complete

    given = {name: value for name, value in options.items() if value is not None}
    parts = open_recipe(recipe, settings or [], out, what, given)
    if dry_run:
        show_plan(parts, names, resume=resume, as_json=as_json)
        return
    watching: list[Any] = []
    objectives = [word for name in names for word in ("--objective", name)]

    def work() -> Any:
        check_run_folder(parts.folder, names, resume=resume)
        if resume:
            complete = complete_result(parts.recipe, parts.folder, names)
            if complete is not None:
                return complete
        check_reachable(parts)
        with announce(parts, quiet=as_json) as progress:
            watching.extend([progress, *runs.recording_callbacks(parts)])
            called = " ".join(["taxtune", what, "recipe.yaml", *objectives])
            run: runs.RunOptions = {"callbacks": watching, "resume": resume, "command": called}
            if names:
                return runs.compare(parts, names, **run)
            return runs.tune(parts, **run)

    words = [what, recipe, *objectives]
    words += [word for name, value in given.items() for word in (f"--{name}", str(value))]
    words += [word for setting in settings or () for word in ("--set", setting)]
    words += [*(("--out", out) if out is not None else ()), "--resume"]
    go_on = f"Continue with: {command(*words)}"
    result = run_guarded(work, parts.folder, go_on=go_on)
    show_result(result, as_json=as_json)
    check_recorded(watching, parts.folder, go_on)
    mark_complete(parts.recipe, result)


def evaluate(
    recipe: RecipeArgument,
    template: Annotated[
        list[Path],
        opt(
            "The Jinja template to evaluate: a file, or builtin:NAME for one that comes with taxtune. Repeatable."
        ),
    ],
    split: Annotated[Literal["tuning", "heldout"], opt("Which images to evaluate on.")] = "heldout",
    settings: SetOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score templates on a split of the recipe, side by side with the baseline."""
    from taxtune import runs
    from taxtune.cli.running import announce, open_recipe, read_templates, run_guarded, show_result
    from taxtune.errors import TemplateError
    from taxtune.progress import note
    from taxtune.report.html import ReportCallback
    from taxtune.tuning.build import build, check_reachable

    parts = open_recipe(recipe, settings or [], out)
    sources = read_templates(template)

    def work() -> Any:
        check_reachable(parts)
        with announce(parts, quiet=as_json) as progress:
            experiment = build(parts)
            for file, source in sources.items():
                try:
                    for text in experiment.rules.notes(source, f"The template {file.stem!r}"):
                        note(text)
                except TemplateError as error:
                    error.file = str(file)
                    raise
            # One is "the template"; several are told apart by their files' names.
            names = ["template"] if len(sources) == 1 else [file.stem for file in sources]
            return runs.evaluate(
                experiment,
                dict(zip(names, sources.values(), strict=True)),
                split=split,
                name="-".join(file.stem for file in sources),
                callbacks=[progress, ReportCallback()],
            )

    go_on = "Run the same command again to ask only what has no answer yet."
    show_result(run_guarded(work, parts.folder, go_on=go_on), as_json=as_json)
