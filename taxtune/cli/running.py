"""What `tune`, `evaluate` and `compare` share: opening a recipe, running with progress, and showing what came out."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from taxtune.atomic import make_folder, output_error
from taxtune.errors import ResumeError, TaxtuneError, TemplateError
from taxtune.models.names import parse_model
from taxtune.progress import showing
from taxtune.recipe import load_recipe
from taxtune.recipe_file import parse_override
from taxtune.report.console import print_result
from taxtune.report.progress import TuningProgress
from taxtune.report.summary import goal_in_words, power_in_words
from taxtune.report.terminal import Terminal
from taxtune.resources import template_path
from taxtune.settings import proposer_named
from taxtune.tables import read_text
from taxtune.tuning.build import Setup
from taxtune.tuning.loop import Callbacks
from taxtune.tuning.plan import Plan, make_plan
from taxtune.tuning.run_folder import default_folder
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from taxtune.tuning.records import ComparisonResult, TuneResult

__all__ = [
    "announce",
    "check_recorded",
    "open_recipe",
    "read_templates",
    "run_guarded",
    "show_plan",
    "show_result",
]

T = TypeVar("T")


def open_recipe(
    recipe: str,
    settings: Sequence[str],
    out: Path | None,
    what: str = "tune",
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Setup:
    """The parts of a recipe, with the folder for what is done with it; nothing is read but the recipe.

    Args:
        recipe: A file, or the name of a recipe that comes with taxtune.
        settings: What replaces values of the recipe, each "KEY=VALUE".
        out: The folder; None for that of the recipe's name.
        what: What is done, which names that folder.
        options: What options of their own say; they replace `settings`, too.
    """
    loaded = load_recipe(recipe, {**dict(map(parse_override, settings)), **_keys(options)})
    return Setup(loaded, out if out is not None else default_folder(loaded.name, what))


def _keys(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values by the keys of a recipe, of options by their names."""
    keys = dict(options)
    if "objective" in keys:
        keys["objective.kind"] = keys.pop("objective")
    if "model" in keys:
        keys["vlm.model"] = str(parse_model(keys.pop("model")).absolute)
    if "proposer" in keys:
        named = proposer_named(keys.pop("proposer"))
        keys |= {f"proposer.{key}": part for key, part in named.items()}
    return keys


@contextmanager
def announce(parts: Setup, *, quiet: bool) -> Iterator[TuningProgress]:
    """Makes the run's folder and shows progress on standard error; folders that it made and are empty are removed."""
    made: list[Path] = []
    with suppress(OSError):  # what is wrong with the name is told when the folder is made
        made = [folder for folder in (parts.folder, *parts.folder.parents) if not folder.exists()]
    make_folder(parts.folder)
    try:
        with showing(Terminal(quiet=quiet)) as terminal:
            terminal.line(f"recipe {parts.recipe.name}, folder {parts.folder}")
            yield TuningProgress(terminal)
    finally:
        with suppress(OSError):
            for folder in made:
                folder.rmdir()


def run_guarded(work: Callable[[], T], folder: Path, *, go_on: str) -> T:
    """Runs `work`, which keeps what it has done in `folder`; what ends it early has a note on how to go on.

    Raises:
        KeyboardInterrupt: On Ctrl-C.
        TaxtuneError: If output cannot be written, or the run cannot go on.
    """
    try:
        return work()
    except KeyboardInterrupt as stop:
        stop.add_note(
            f"finished work is saved. {go_on}" if _holds_work(folder) else "nothing was done yet."
        )
        raise
    except Exception as error:
        problem = _as_taxtune_error(error)
        if (
            isinstance(problem, TaxtuneError)
            and not isinstance(problem, ResumeError)
            and _holds_work(folder)
        ):
            problem.add_note(f"Finished work is saved. {go_on}")
        if problem is error:
            raise
        raise problem from error


def check_recorded(callbacks: Sequence[Any], folder: Path, go_on: str) -> None:
    """Raises a TaxtuneError if MLflow lacks a part of a finished run's record, which the run's notes have named."""
    if not Callbacks(callbacks).settled():
        message = (
            "The result is complete, but MLflow has no complete record of it; see the notes above."
        )
        remedy = (
            f"Make sure that MLflow's server is up, or that there is space on its disk. {go_on}"
        )
        raise TaxtuneError(message, file=folder, remedy=remedy)


def _as_taxtune_error(error: Exception) -> Exception:
    """Turns an error of the file system into one that the user can fix; any other stays as it is."""
    from taxtune.tuning.history import database_problem

    if isinstance(error, OSError) and error.errno is not None:
        return output_error(error.filename or "the run's folder", error)
    problem = None if isinstance(error, TaxtuneError) else database_problem(error)
    if problem is None:
        return error
    remedy = (
        "The disk may be full or read-only. Free some space, or choose another folder with --out."
    )
    return TaxtuneError(f"Cannot write to a database of the run: {problem}.", remedy=remedy)


def _holds_work(folder: Path) -> bool:
    """Tells whether a folder, or that of a run of a comparison in it, holds anything to go on with."""
    with suppress(OSError):
        return any(
            next(folder.glob(name), None)
            for name in ("history.jsonl", "*/history.jsonl", "answers.db")
        )
    return False


# -- what came out ----------------------------------------------------------------------------------------------------


def show_plan(parts: Setup, objectives: Sequence[str], *, resume: bool, as_json: bool) -> None:
    """Prints what a run will do; problems end with exit code 2."""
    from taxtune.tracking.store import check_store

    tracking = [lambda: check_store(parts.folder)] if parts.recipe.tracking.mlflow else []
    plan = make_plan(parts, objectives, resume=resume, checks=tracking)
    if as_json:
        _print_json(asdict(plan))
    else:
        _print_plan(plan)
    if plan.problems:
        raise typer.Exit(2)


def show_result(result: TuneResult | ComparisonResult, *, as_json: bool) -> None:
    """Prints the summary of a run."""
    if as_json:
        _print_json(result.as_dict())
    else:
        from rich.console import Console

        print_result(Console(), result)


def read_templates(references: Sequence[Path]) -> dict[Path, str]:
    """Returns the sources of templates by their files; a reference is a file, or "builtin:NAME".

    Raises:
        TemplateError: If a file cannot be read, or two of several have one name or that of the baseline.
    """
    files = [template_path(reference) for reference in references]
    names = [file.stem for file in files] + (["baseline"] if len(files) > 1 else [])
    for file in files:
        if names.count(file.stem) > 1:
            remedy = "Give each template once, in files with different names, or evaluate them one by one."
            raise TemplateError(
                f"The results would name two templates {file.stem!r}.", file=file, remedy=remedy
            )
    return {file: read_text(file, error=TemplateError, what="template") for file in files}


def _print_plan(plan: Plan) -> None:
    from rich.console import Console

    console = Console()
    left = max(0, (plan.images or 0) - plan.tuning_images - plan.heldout_images)
    splits = f"{plan.tuning_images} tuning, {plan.heldout_images} held-out" + (
        f", {left:,} in neither" if left else ""
    )
    rungs = ", ".join(f"{rung.templates} templates on {rung.images} images" for rung in plan.rungs)
    most = f"{plan.max_off_tree:.0%}".replace("%", " %")
    lines = [
        ("recipe", plan.name),
        *(("goal", f"{goal.objective}: {goal_in_words(goal)}") for goal in plan.goals),
        ("taxonomy", "?" if plan.nodes is None else f"{plan.nodes:,} nodes"),
        ("images", "?" if plan.images is None else f"{plan.images:,} labelled"),
        ("splits", splits),
        ("rungs", rungs if len(plan.rungs) > 1 else ""),
        *(("provable", text) for text in power_in_words(plan.power)),
        ("model", f"{plan.vlm['model']} ({plan.vlm['kind']})"),
        ("judge", plan.judge or ""),
        ("arbiter", plan.arbiter or ""),
        ("VLM calls", f"at most {plan.vlm_calls:,}"),
        ("LLM calls", f"at most {plan.llm_calls:,}" if plan.llm_calls else ""),
        ("judge calls", f"at most {plan.judge_calls:,}" if plan.judge_calls else ""),
        ("arbiter calls", _arbiter_calls(plan) if plan.arbiter else ""),
        (
            "off the tree",
            f"the run stops if more than {most} of the baseline's answers are (max_off_tree)",
        ),
        *(("note", text) for text in plan.notes),
    ]
    # A file or a pipe gets a line for each fact, whatever its length.
    width = console.width if console.is_terminal else sys.maxsize
    for name, value in lines:
        if value:
            text = textwrap.fill(
                visible(value), width, initial_indent=f"{name:<16}", subsequent_indent=" " * 16
            )
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    if not plan.problems:
        console.print("\nAll checks passed. Nothing has been run.")
        return
    console.print(
        f"\n{len(plan.problems)} problem{'s' if len(plan.problems) > 1 else ''}:", style="bold"
    )
    for problem in plan.problems:
        console.print(visible(f"- {problem}"), markup=False, highlight=False, soft_wrap=True)


def _arbiter_calls(plan: Plan) -> str:
    usd = plan.arbiter_usd
    price = (
        "price unknown"
        if usd is None
        else f"${usd:,.2f}"
        if usd >= 0.01 or not usd
        else "less than $0.01"
    )
    return f"about {plan.arbiter_calls:,} ({price}), if three in ten answers are doubtful and all differ"


def _print_json(value: object) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2, default=str)
    sys.stdout.write("\n")
