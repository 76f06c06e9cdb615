"""What `tune`, `evaluate` and `compare` share: opening a recipe, running, and showing the outcome."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from taxtune.atomic import make_folder, output_error
from taxtune.cli.printing import print_json
from taxtune.errors import ResumeError, TaxtuneError, TemplateError
from taxtune.models.arbiter import FURTHER_SHARE
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
from taxtune.tuning.costs import CallCost, Spending
from taxtune.tuning.loop import Callbacks
from taxtune.tuning.plan import Plan, make_plan
from taxtune.tuning.run_folder import answers_of, default_folder
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from taxtune.tuning.records import ComparisonResult, TuneResult

__all__ = [
    "announce",
    "check_recorded",
    "guarded",
    "open_recipe",
    "read_templates",
    "show_plan",
    "show_result",
]


def open_recipe(
    recipe: str,
    settings: Sequence[str],
    out: Path | None,
    what: str = "tune",
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Setup:
    """Returns a recipe with the folder for a command; nothing is read but the recipe.

    Args:
        recipe: A file, or the name of a recipe that comes with taxtune.
        settings: What replaces values of the recipe, each "KEY=VALUE".
        out: The folder; None for that of the recipe's name.
        what: What is done, which names that folder.
        options: Options that stand for keys of the recipe, by name; they replace `settings`, too.
    """
    overrides = dict(map(parse_override, settings)) | _keys(options)
    loaded = load_recipe(recipe, overrides)
    return Setup(loaded, default_folder(loaded.name, what) if out is None else out)


def _keys(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options by the keys of a recipe that they stand for."""
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
def announce(setup: Setup, *, quiet: bool) -> Iterator[TuningProgress]:
    """Makes the run's folder and shows progress on standard error.

    Folders that it made and that are empty at the end are removed.
    """
    folder = setup.folder
    made: list[Path] = []
    # What is wrong with the name is told when the folder is made.
    with suppress(OSError):
        made = [path for path in (folder, *folder.parents) if not path.exists()]
    make_folder(folder)
    try:
        with showing(Terminal(quiet=quiet)) as terminal:
            answers = f"answers in {answers_of(folder, setup.answers)}"
            terminal.line(f"recipe {setup.recipe.name}, folder {folder}, {answers}")
            yield TuningProgress(terminal)
    finally:
        with suppress(OSError):
            for path in made:
                path.rmdir()


@contextmanager
def guarded(setup: Setup, go_on: str) -> Iterator[None]:
    """Adds a note on how to go on to an error that ends the block, which works on a run.

    Raises:
        KeyboardInterrupt: On Ctrl-C.
        TaxtuneError: If output cannot be written, or the run cannot go on.
    """
    before = _written(setup)
    try:
        yield
    except KeyboardInterrupt as stop:
        saved = f"finished work is saved. {go_on}"
        stop.add_note(saved if _holds_work(setup, before) else "nothing was done yet.")
        raise
    except Exception as error:
        problem = _as_taxtune_error(error)
        goes_on = isinstance(problem, TaxtuneError) and not isinstance(problem, ResumeError)
        if goes_on and _holds_work(setup, before):
            problem.add_note(f"Finished work is saved. {go_on}")
        if problem is error:
            raise
        raise problem from error


def check_recorded(callbacks: Sequence[Any], folder: Path, go_on: str) -> None:
    """Raises a TaxtuneError if MLflow lacks a part of a finished run's record.

    The run's notes have named the part.
    """
    if Callbacks(callbacks).recorded_all():
        return
    raise TaxtuneError(
        "The result is complete, but MLflow has no complete record of it; see the notes above.",
        file=folder,
        remedy=f"Make sure that MLflow's server is up, or that there is space on its disk. {go_on}",
    )


def _as_taxtune_error(error: Exception) -> Exception:
    """Turns an error of the file system into one that the user can fix; any other stays as it is."""
    from taxtune.tuning.history import database_problem

    if isinstance(error, OSError) and error.errno is not None:
        return output_error(error.filename or "the run's folder", error)
    problem = None if isinstance(error, TaxtuneError) else database_problem(error)
    if problem is None:
        return error
    return TaxtuneError(
        f"Cannot write to a database of the run: {problem}.",
        remedy="The disk may be full or read-only. Free some space, or choose another folder with "
        "--out.",
    )


def _holds_work(setup: Setup, before: int | None) -> bool:
    """Tells whether a run, or one of a comparison's, has iterations or new answers to go on with."""
    with suppress(OSError):
        for name in ("history.jsonl", "*/history.jsonl"):
            if any(setup.folder.glob(name)):
                return True
    return _written(setup) != before


def _written(setup: Setup) -> int | None:
    """Returns when answers were last written, in nanoseconds; None if there are none."""
    with suppress(OSError):
        return answers_of(setup.folder, setup.answers).stat().st_mtime_ns
    return None


# -- the outcome -----------------------------------------------------------------------------------


def show_plan(
    setup: Setup, objectives: Sequence[str], *, resume: bool, anew: str, as_json: bool
) -> None:
    """Prints what a run will do; problems end with exit code 2."""
    from taxtune.tracking.store import check_store

    tracking = [lambda: check_store(setup.folder)] if setup.recipe.tracking.mlflow else []
    plan = make_plan(setup, objectives, resume=resume, anew=anew, checks=tracking)
    if as_json:
        print_json(asdict(plan))
    else:
        _print_plan(plan)
    if plan.problems:
        raise typer.Exit(2)


def show_result(
    result: TuneResult | ComparisonResult, *, as_json: bool, details: bool = False
) -> None:
    """Prints the summary of a run, and every score if `details` are wanted."""
    if as_json:
        print_json(result.as_dict())
    else:
        from rich.console import Console

        print_result(Console(), result, details=details)


def read_templates(references: Sequence[Path]) -> dict[Path, str]:
    """Returns the sources of templates by their files; a reference is a file, or "builtin:NAME".

    Raises:
        TemplateError: If a file cannot be read, or two of several have one name or that of the
            baseline.
    """
    files = [template_path(reference) for reference in references]
    names = [file.stem for file in files]
    if len(files) > 1:
        names.append("baseline")
    for file in files:
        if names.count(file.stem) > 1:
            raise TemplateError(
                f"The results would name two templates {file.stem!r}.",
                file=file,
                remedy="Give each template once, in files with different names, or evaluate them "
                "one by one.",
            )
    return {file: read_text(file, error=TemplateError, what="template") for file in files}


def _print_plan(plan: Plan) -> None:
    from rich.console import Console

    console = Console()
    # A file or a pipe gets a line for each fact, whatever its length.
    width = console.width if console.is_terminal else sys.maxsize
    wrapper = textwrap.TextWrapper(width, subsequent_indent=" " * 16)
    for name, value in _plan_facts(plan):
        wrapper.initial_indent = f"{name:<16}"
        line = wrapper.fill(visible(value))
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if not plan.problems:
        console.print("\nAll checks passed. Nothing has been run.")
        return
    count = len(plan.problems)
    console.print(f"\n{count} problem{'s' if count > 1 else ''}:", style="bold")
    for problem in plan.problems:
        console.print(visible(f"- {problem}"), markup=False, highlight=False, soft_wrap=True)


def _plan_facts(plan: Plan) -> list[tuple[str, str]]:
    """Returns the lines of a plan: what each is about, and its text."""
    facts = [("recipe", plan.name)]
    facts += [("goal", f"{goal.objective}: {goal_in_words(goal)}") for goal in plan.goals]
    facts.append(("taxonomy", "?" if plan.nodes is None else f"{plan.nodes:,} nodes"))
    facts.append(("images", "?" if plan.images is None else f"{plan.images:,} labelled"))
    splits = f"{plan.tuning_images} tuning, {plan.heldout_images} held-out"
    left = (plan.images or 0) - plan.tuning_images - plan.heldout_images
    if left > 0:
        splits += f", {left:,} left for `taxtune calibrate`"
    facts.append(("splits", splits))
    if len(plan.rungs) > 1:
        first, *later = plan.rungs
        rungs = [f"{first.templates} prompts on {first.images} images"]
        rungs += [f"the best {rung.templates} on {rung.images}" for rung in later]
        facts.append(("search", ", ".join(rungs)))
    facts += [("provable", text) for text in power_in_words(plan.power)]
    facts.append(("model", f"{plan.vlm['model']} ({plan.vlm['kind']})"))
    if plan.judge:
        facts.append(("judge", plan.judge))
    if plan.arbiter:
        further = f"about {100 * FURTHER_SHARE:.0f} more questions per 100 where it moves one"
        reads = f"{plan.arbiter}, once for each different answer that is not just a name; {further}"
        facts.append(("arbiter", reads))
    facts += _by_effort(plan, "VLM calls", _vlm_calls)
    if plan.call.prompt_tokens is not None:
        facts.append(("a call", _call(plan.call)))
    if plan.llm_calls:
        facts.append(("LLM calls", f"at most {plan.llm_calls:,}"))
    if plan.judge_calls:
        facts.append(("judge calls", f"at most {plan.judge_calls:,}"))
    if plan.arbiter:
        facts += _by_effort(plan, "arbiter calls", _arbiter_calls)
    most = f"{100 * plan.max_off_tree:.0f} %"
    stops = f"the run stops if more than {most} of the baseline's answers name nothing on it (max_off_tree)"
    facts.append(("off the tree", stops))
    return facts + [("note", text) for text in plan.notes]


def _by_effort(
    plan: Plan, name: str, text_of: Callable[[Spending], str]
) -> Iterator[tuple[str, str]]:
    """Yields a line for each effort, of which the first is named; that of the run is marked."""
    for one in plan.spending:
        text = text_of(one)
        if one.effort is not None:
            text = f"{one.effort:<8}{text}{' (this run)' if one.chosen else ''}"
        yield name, text
        name = ""


def _vlm_calls(one: Spending) -> str:
    text = f"at most {one.vlm_calls:,}, {_price(one.usd)}"
    if one.minutes is not None:
        text += f", about {max(1, round(one.minutes)):,} min"
    return text


def _arbiter_calls(one: Spending) -> str:
    calls = f"about {one.arbiter_calls:,} if all answers differ and none is just a name"
    return f"{calls}, {_price(one.arbiter_usd)}"


def _call(cost: CallCost) -> str:
    """Returns the tokens, price and time of a call, and how they are known."""
    text = f"{cost.prompt_tokens:,.0f} tokens read, {cost.completion_tokens:,.0f} written, "
    text += "price unknown" if cost.usd is None else f"${cost.usd:,.5f}"
    if cost.answers:
        return f"{text}, {cost.seconds:,.2g} s (the mean of {cost.answers:,} answers)"
    return f"{text} (as litellm counts the baseline with the first image)"


def _price(usd: float | None) -> str:
    if usd is None:
        return "price unknown"
    if not usd:
        return "$0.00"
    return f"about ${usd:,.2f}" if usd >= 0.01 else "less than $0.01"
