"""What `tune`, `evaluate` and `compare` share: opening a recipe, running with progress, and showing what came out."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from taxtune.atomic import make_folder, output_error
from taxtune.cli.interrupts import ended_by_interrupt
from taxtune.errors import ImageError, ResumeError, TaxtuneError, TemplateError
from taxtune.progress import loading, showing
from taxtune.recipe import load_recipe
from taxtune.report.goals import goal_in_words, power_in_words
from taxtune.report.html import ReportCallback
from taxtune.report.progress import Terminal, TuningProgress
from taxtune.report.tables import print_result
from taxtune.resources import template_path
from taxtune.tuning.callbacks import Callbacks
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.plan import Plan, make_plan
from taxtune.tuning.run_folder import Kind, default_folder
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from rich.console import Console

    from taxtune.tuning.records import ComparisonResult, TuneResult

__all__ = [
    "announce",
    "callbacks_of",
    "check_recorded",
    "open_recipe",
    "preloading",
    "read_templates",
    "run_guarded",
    "show_plan",
    "show_result",
]

T = TypeVar("T")


def open_recipe(recipe: str, settings: Sequence[str], out: Path | None, what: Kind = "tune") -> Experiment:
    """Returns the parts of a recipe, and the folder for what is done with it; nothing is read but the recipe."""
    loaded = load_recipe(recipe, settings)
    return Experiment(loaded, out if out is not None else default_folder(loaded.name, what))


@contextmanager
def announce(parts: Experiment, *, quiet: bool) -> Iterator[TuningProgress]:
    """Makes the run's folder and shows progress on standard error while the run goes on.

    Folders that are made and stay empty, since what is asked for turns out to be impossible, are removed.
    """
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


@contextmanager
def preloading(parts: Experiment, *, tracked: bool = True) -> Iterator[None]:
    """Imports what the model needs, and MLflow, while the block reads images.

    Args:
        parts: The recipe and the folder of the run.
        tracked: Whether it is recorded in MLflow if the recipe says so.
    """
    from taxtune.tracking import store

    parts.check_reachable()  # before seconds of imports
    wanted = [
        getattr(parts.vlm, "preload", None),
        store.preload if tracked and parts.recipe.tracking.mlflow else None,
    ]

    def load() -> None:
        for preload in filter(None, wanted):
            with suppress(Exception):  # whoever needs the package is told what is wrong with it
                preload()

    thread = Thread(target=load, name="taxtune-imports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        # Two threads that import parts of the same package may meet one of its modules half-made.
        with loading("packages"):
            thread.join()


def callbacks_of(parts: Experiment, progress: TuningProgress) -> list[Any]:
    """Returns who is told of a run: the terminal, and MLflow where the recipe wants it."""
    from taxtune.tracking import MLflowTracker
    from taxtune.tracking.callback import TrackingCallback

    tracking = parts.recipe.tracking
    if not tracking.mlflow:
        return [progress, ReportCallback()]
    make = partial(MLflowTracker, tracking.experiment, parts.folder, parts.recipe.tracking_uri)
    return [progress, ReportCallback(), TrackingCallback(make)]


def run_guarded(work: Callable[[], T], folder: Path, *, go_on: str, resume: bool) -> T:
    """Runs something long: whatever ends it before its time ends it with a message that says how to go on.

    Args:
        work: What to run.
        folder: Where it keeps what it has done.
        go_on: How to go on, for messages.
        resume: Whether work that is there is gone on with.

    Raises:
        typer.Exit: With code 130 on Ctrl-C.
        TaxtuneError: If output cannot be written, or the run cannot go on.
    """
    others = _holds_work(folder) and not resume

    def said() -> str:
        return (
            f"finished work is saved. {go_on}" if _holds_work(folder) and not others else "nothing had been done yet."
        )

    try:
        with ended_by_interrupt(said):
            return work()
    except Exception as error:
        problem = _as_taxtune_error(error)
        if problem is None:
            raise
        if _holds_work(folder) and not others and not isinstance(problem, ResumeError):
            same = (
                " Put these images back first: a run goes on with the same ones."
                if isinstance(problem, ImageError)
                else ""
            )
            problem.add_note(f"Finished work is saved.{same} {go_on}")
        if problem is error:
            raise
        raise problem from error


def check_recorded(callbacks: Sequence[Any], folder: Path, go_on: str) -> None:
    """Checks that MLflow has the whole record of a run that is finished; the notes of the run have said what it lacks.

    Raises:
        TaxtuneError: If it does not.
    """
    if not Callbacks(callbacks).settled():
        raise TaxtuneError(
            "The result is complete, but MLflow has no complete record of it; see the notes above.",
            file=folder,
            remedy=f"Make sure that MLflow's server is up, or that there is space on its disk. {go_on}",
        )


def _as_taxtune_error(error: Exception) -> TaxtuneError | None:
    from taxtune.tuning.history import database_problem

    if isinstance(error, TaxtuneError):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        return output_error(error.filename or "the run's folder", error)
    said = database_problem(error)
    if said is None:
        return None
    return TaxtuneError(
        f"Cannot write to a database of the run: {said}.",
        remedy="The disk may be full or read-only. Free some space, or choose another folder with --out.",
    )


def _holds_work(folder: Path) -> bool:
    """Tells whether a folder, or that of a run of a comparison in it, holds anything to go on with."""
    with suppress(OSError):
        return any(
            next(folder.glob(name), None)
            for name in ("history.db", "*/history.db", "history.json", "*/history.json", "answers.db")
        )
    return False


# -- what came out ----------------------------------------------------------------------------------------------------


def show_plan(parts: Experiment, objectives: Sequence[str], *, resume: bool, as_json: bool) -> None:
    """Prints what a run will do; problems end with exit code 2."""
    from taxtune.tracking.store import check_store

    tracking = [partial(check_store, parts.folder, parts.recipe.tracking_uri)] if parts.recipe.tracking.mlflow else []
    plan = make_plan(parts, objectives, resume=resume, checks=tracking)
    if as_json:
        _print_json(plan.as_dict())
    else:
        _print_plan(plan)
    if plan.problems:
        raise typer.Exit(2)


def show_result(result: TuneResult | ComparisonResult, *, as_json: bool, details: bool = False) -> None:
    """Prints the summary of a run, after all held-out scores where `details` are wanted."""
    if as_json:
        _print_json(result.as_dict())
    else:
        print_result(_console(), result, details=details)


def read_templates(references: Sequence[Path]) -> dict[Path, str]:
    """Returns the sources of templates by their files.

    Args:
        references: Files, or "builtin:NAME" for a template that comes with taxtune.

    Raises:
        TemplateError: If a file cannot be read or is not UTF-8 text, there is no such template, or two of several have
            one name or that of the baseline, so that a table could not tell them apart.
    """
    files = [template_path(each) for each in references]
    named: dict[str, Path] = {} if len(files) == 1 else {"baseline": Path("the recipe's baseline")}
    for file in files:
        if file.stem in named:
            raise TemplateError(
                f"The results would name two templates {file.stem!r}: this one, and {named[file.stem]}.",
                file=file,
                remedy="Give each template once, in files with different names, or evaluate them one by one.",
            )
        named[file.stem] = file
    return {file: _read_template(file) for file in files}


def _read_template(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        row = error.object.count(b"\n", 0, error.start) + 1
        raise TemplateError("The template is not UTF-8 text.", file=file, row=row, remedy="Save it as UTF-8.") from None
    except OSError as error:
        raise TemplateError(f"The template cannot be read: {error.strerror}.", file=file) from error


def _print_plan(plan: Plan) -> None:
    console = _console()

    def line(name: str, value: str) -> None:
        # A file or a pipe gets a line for each fact, whatever its length.
        width = console.width if console.is_terminal else sys.maxsize
        text = textwrap.fill(visible(value), width, initial_indent=f"{name:<16}", subsequent_indent=" " * 16)
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    line("recipe", plan.name)
    for goal in plan.goals:
        line("goal", f"{goal.objective}: {goal_in_words(goal)}")
    line("taxonomy", "?" if plan.nodes is None else f"{plan.nodes:,} nodes")
    line("images", "?" if plan.images is None else f"{plan.images:,} labelled")
    left = max(0, (plan.images or 0) - plan.tuning_images - plan.heldout_images)
    line(
        "splits",
        f"{plan.tuning_images} tuning, {plan.heldout_images} held-out" + (f", {left:,} in neither" if left else ""),
    )
    if len(plan.stages) > 1:
        line("race", ", ".join(f"{stage.templates} templates on {stage.images} images" for stage in plan.stages))
    for text in power_in_words(plan.power):
        line("provable", text)
    line("model", f"{plan.vlm['model']} ({plan.vlm['kind']})")
    if plan.judge is not None:
        line("judge", plan.judge)
    for name, calls in (
        ("VLM calls", plan.vlm_calls),
        ("LLM calls", plan.llm_calls),
        ("judge calls", plan.judge_calls),
    ):
        if calls:
            line(name, f"at most {calls:,}")
    most = f"{plan.max_off_tree:.0%}".replace("%", " %")
    line("off the tree", f"the run stops if more than {most} of the baseline's answers are off the tree (max_off_tree)")
    for text in plan.notes:
        line("note", text)
    if plan.problems:
        console.print(f"\n{len(plan.problems)} problem{'s' if len(plan.problems) > 1 else ''}:", style="bold")
        for problem in plan.problems:
            console.print(visible(f"- {problem}"), markup=False, highlight=False, soft_wrap=True)
    else:
        console.print("\nAll checks passed. Nothing has been run.")


def _console() -> Console:
    from rich.console import Console

    return Console()


def _print_json(value: object) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2, default=str)
    sys.stdout.write("\n")
