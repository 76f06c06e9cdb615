"""`taxtune evaluate`: templates side by side with the baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from taxtune.cli.tune import (
    DetailsOption,
    OutOption,
    RecipeArgument,
    SetOption,
)
from taxtune.options import AnswersOption, JsonOption, opt

if TYPE_CHECKING:
    from taxtune.tuning.experiment import Experiment

__all__ = ["evaluate"]

TemplateOption = Annotated[
    list[Path],
    opt(
        "The Jinja template to evaluate: a file, or builtin:NAME for one that comes with taxtune. "
        "Repeatable."
    ),
]
SplitOption = Annotated[Literal["tuning", "heldout"], opt("Which images to evaluate on.")]


def evaluate(
    recipe: RecipeArgument,
    template: TemplateOption,
    split: SplitOption = "heldout",
    settings: SetOption = None,
    out: OutOption = None,
    answers: AnswersOption = None,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score templates on a split of the recipe, side by side with the baseline."""
    from taxtune import runs
    from taxtune.cli import running
    from taxtune.report.html import ReportCallback
    from taxtune.tuning.build import build, check_reachable

    setup = replace(running.open_recipe(recipe, settings or [], out), answers=answers)
    sources = running.read_templates(template)
    # One is "the template"; several are told apart by their files' names.
    names = ["template"] if len(sources) == 1 else [file.stem for file in sources]
    go_on = "Run the same command again to ask only what has no answer yet."
    with running.guarded(setup, go_on):
        check_reachable(setup)
        with running.announce(setup, quiet=as_json) as progress:
            experiment = build(setup)
            _note_oddities(experiment, sources)
            result = runs.evaluate(
                experiment,
                dict(zip(names, sources.values(), strict=True)),
                split=split,
                name="-".join(file.stem for file in sources),
                callbacks=[progress, ReportCallback()],
            )
    running.show_result(result, as_json=as_json, details=details)


def _note_oddities(experiment: Experiment, sources: Mapping[Path, str]) -> None:
    """Notes what is odd about templates; an error names the file."""
    from taxtune.errors import TemplateError
    from taxtune.progress import note

    for file, source in sources.items():
        try:
            for text in experiment.rules.notes(source, f"The template {file.stem!r}"):
                note(text)
        except TemplateError as error:
            error.file = str(file)
            raise
