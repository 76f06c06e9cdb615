"""What `tune`, `evaluate` and `compare` share: opening a recipe, running with progress, and showing what came out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer

from taxtune.atomic import make_folder, output_error, write_json, write_text
from taxtune.cli.interrupts import ended_by_interrupt, interrupts
from taxtune.cli.options import note
from taxtune.errors import ResumeError, TaxtuneError, TemplateError
from taxtune.recipe import load_recipe
from taxtune.report.progress import Progress
from taxtune.report.tables import differences_table, heldout_table, print_result
from taxtune.tracking import MLflowTracker, NullTracker, Tracker
from taxtune.tuning.loop import Listener
from taxtune.tuning.objective import ObjectiveKind
from taxtune.tuning.plan import Plan, make_plan
from taxtune.tuning.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from taxtune.tuning.records import ComparisonResult, TuneResult

__all__ = [
    "announce",
    "evaluate_template",
    "finish_comparison",
    "finish_tune",
    "open_session",
    "read_template",
    "run_guarded",
    "run_listeners",
    "show_evaluation",
    "show_plan",
]

T = TypeVar("T")
SplitKind = Literal["tuning", "heldout"]


def open_session(recipe: str, settings: Sequence[str], out: Path | None) -> Session:
    """Returns the session of a recipe; nothing is read but the recipe."""
    loaded = load_recipe(recipe, settings)
    return Session(loaded, out if out is not None else Path("runs") / loaded.name, on_note=note)


@contextmanager
def announce(session: Session, *, quiet: bool) -> Iterator[ProgressListener]:
    """Makes the run's folder and shows progress on standard error while the run goes on.

    Folders that are made and stay empty, since what is asked for turns out to be impossible, are removed.
    """
    made: list[Path] = []
    with suppress(OSError):  # what is wrong with the name is told when the folder is made
        made = [folder for folder in (session.folder, *session.folder.parents) if not folder.exists()]
    make_folder(session.folder)
    try:
        with Progress(quiet=quiet) as progress:
            session.on_note = progress.note
            session.on_images = progress.on_images
            yield ProgressListener(progress)
    finally:
        with suppress(OSError):
            for folder in made:
                folder.rmdir()


class ProgressListener:
    """Shows a run in the terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_start(self, tuner: Any, done: Sequence[Any]) -> None:
        """Begins the display of a run."""
        self._progress.start(
            tuner.session.recipe.iterations, len(tuner.session.splits.tuning), name=tuner.kind, done=len(done)
        )

    def on_answers(self, done: int, from_store: int) -> None:
        """Moves the bar of the iteration."""
        self._progress.on_answers(done, from_store)

    def on_iteration(self, record: Any, best: Any) -> None:
        """Shows the iteration's scores."""
        self._progress.on_iteration(record, best)

    def on_heldout(self, name: str, done: int, total: int) -> None:
        """Moves the bar of the held-out split."""
        self._progress.on_heldout(name, done, total)

    def on_result(self, tuner: Any, result: Any) -> None:
        """Does nothing: the result is printed when the display is gone."""

    def on_stop(self, status: str) -> None:
        """Takes note that the run is being ended."""
        interrupts.heard()

    def note(self, text: str) -> None:
        """Shows a remark."""
        self._progress.note(text)


def make_tracker(session: Session, note: Callable[[str], None]) -> Tracker:
    """Returns where the recipe wants the run recorded; the default store lies in the session's folder."""
    tracking = session.recipe.tracking
    if not tracking.mlflow:
        return NullTracker()
    return MLflowTracker(tracking.experiment, session.folder, tracking.uri, note=note)


def run_listeners(session: Session, folder: Path, group: Path, progress: ProgressListener) -> list[Listener]:
    """Returns who hears of a run: the terminal, then the files, then MLflow, which keeps copies of the files.

    Args:
        session: The session.
        folder: The run's folder.
        group: The folder of the comparison that the run belongs to, or the run's own.
        progress: The terminal's display.
    """
    from taxtune.tuning.listeners import FilesListener, TrackingListener

    tags = {"taxtune.comparison": comparison_id(session)} if group != folder else {}
    return [progress, FilesListener(), TrackingListener(make_tracker(session, progress.note), tags)]


def comparison_id(session: Session) -> str:
    """Returns what joins the runs of a comparison in MLflow: the same for the same folder."""
    import hashlib

    return f"{session.recipe.name}-{hashlib.sha256(str(session.folder.resolve()).encode()).hexdigest()[:8]}"


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
        return f"what is done is kept. {go_on}" if _holds_work(folder) and not others else "nothing was done yet."

    try:
        with ended_by_interrupt(said):
            return work()
    except Exception as error:
        problem = _as_taxtune_error(error)
        if problem is None:
            raise
        if _holds_work(folder) and not others and not isinstance(problem, ResumeError):
            problem.add_note(f"What is done is kept. {go_on}")
        if problem is error:
            raise
        raise problem from error


def _as_taxtune_error(error: Exception) -> TaxtuneError | None:
    from taxtune.tuning.databases import database_problem

    if isinstance(error, TaxtuneError):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        return output_error(error.filename or "the run's folder", error)
    said = database_problem(error)
    if said is None:
        return None
    return TaxtuneError(
        f"A database of the run cannot be written: {said}.",
        remedy="Is the disk full or read-only? Make room, or choose another folder with --out.",
    )


def _holds_work(folder: Path) -> bool:
    """Tells whether a folder, or that of a run of a comparison in it, holds anything to go on with."""
    with suppress(OSError):
        return any(next(folder.glob(name), None) for name in ("history.db", "*/history.db", "answers.db"))
    return False


# -- what came out ----------------------------------------------------------------------------------------------------


def show_plan(session: Session, kinds: Sequence[ObjectiveKind], *, resume: bool, as_json: bool) -> None:
    """Prints what a run will do; problems end with exit code 2."""
    plan = make_plan(session, kinds, resume=resume)
    if as_json:
        _print_json(plan.as_dict())
    else:
        _print_plan(plan)
    if plan.problems:
        raise typer.Exit(2)


def finish_tune(session: Session, result: TuneResult, *, as_json: bool) -> None:
    """Prints the winner, the scores and where to look."""
    result = replace(result, where=_where(session, session.folder))
    if as_json:
        _print_json(asdict(result))
    else:
        _print_result(result)


def finish_comparison(session: Session, result: ComparisonResult, *, as_json: bool) -> None:
    """Writes the comparison's figure, table and report, records it, and prints it."""
    from taxtune.report.html import write_report

    folder = session.folder
    result = replace(result, where=_where(session, folder))
    write_json(folder / "result.json", asdict(result))
    write_report(result, folder, session)
    for held in result.heldout[1:]:
        write_text(folder / f"winner-{held.name}.j2", held.template)
    figures = [path for name in ("figure6", "history") for path in sorted(folder.glob(f"{name}.*"))]
    make_tracker(session, note).comparison(result, figures, comparison_id(session))
    if as_json:
        _print_json(asdict(result))
    else:
        _print_result(result)


def _where(session: Session, folder: Path) -> dict[str, str]:
    where = {"report": str(folder / "report.html"), "plot": str(folder / "figure6.png")}
    shown = make_tracker(session, note).where()
    return where if shown is None else where | {"experiments": shown}


def read_template(file: Path) -> str:
    """Returns the source of a template.

    Raises:
        TemplateError: If the file cannot be read or is not UTF-8 text.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        row = error.object.count(b"\n", 0, error.start) + 1
        raise TemplateError("The template is not UTF-8 text.", file=file, row=row, remedy="Save it as UTF-8.") from None
    except OSError as error:
        raise TemplateError(f"The template cannot be read: {error.strerror}.", file=file) from error


def evaluate_template(
    session: Session, source: str, file: Path, split: SplitKind, progress: ProgressListener
) -> ComparisonResult:
    """Returns the scores of a template beside the baseline's, on one of the recipe's splits."""
    from taxtune.models import AnswerStore
    from taxtune.tuning.heldout import judge
    from taxtune.tuning.records import ComparisonResult

    try:
        session.check(source)
    except TemplateError as error:
        raise TemplateError(error.message, file=file, row=error.row, value=error.value, remedy=error.remedy) from None
    examples = session.splits.heldout if split == "heldout" else session.splits.tuning
    templates = {"baseline": session.recipe.prompt.baseline, "template": source}
    with AnswerStore(session.folder / "answers.db") as store:
        evaluator = session.evaluator(store, judged=session.recipe.objective.kind == "lave")
        judged = judge(session, evaluator, templates, progress.on_heldout, examples=examples)
    return ComparisonResult(
        name=session.recipe.name,
        runs=(),
        heldout=judged.results,
        differences=judged.differences,
        full_differences=judged.full_differences,
        folder=str(session.folder),
        where={"answers": str(session.folder / "answers.db")},
    )


def show_evaluation(result: ComparisonResult, split: SplitKind, *, as_json: bool) -> None:
    """Prints the scores of a template beside the baseline's."""
    if as_json:
        _print_json({"split": split, **asdict(result)})
        return
    console = _console()
    name = "held-out" if split == "heldout" else "tuning"
    console.print(f"{result.name}, {name} split, {result.heldout[0].scores.n} images: score and 95 % interval")
    console.print(heldout_table(result))
    console.print("Paired differences: 95 % interval and p value")
    console.print(differences_table(result))


def _print_result(result: TuneResult | ComparisonResult) -> None:
    # The iterations were shown as they came; the report holds them all.
    print_result(_console(), result, iterations=False)


def _print_plan(plan: Plan) -> None:
    console = _console()

    def line(name: str, value: str) -> None:
        console.print(f"{name:<16}{value}", markup=False, highlight=False, soft_wrap=True)

    line("recipe", plan.name)
    line("objective", ", ".join(plan.objectives))
    line("taxonomy", "?" if plan.nodes is None else f"{plan.nodes:,} nodes")
    line("images", "?" if plan.images is None else f"{plan.images:,} labelled")
    line("splits", f"{plan.tuning_images} tuning, {plan.heldout_images} held-out")
    if plan.trivial_hp is not None and plan.trivial_hr is not None:
        line("trivial answer", f"hP {plan.trivial_hp:.3f}, hR {plan.trivial_hr:.3f}: always the domain's root")
    line("model", f"{plan.vlm['model']} ({plan.vlm['kind']})")
    line("VLM calls", f"at most {plan.vlm_calls:,}")
    if plan.judge is not None:
        line("judge", plan.judge)
        line("judge calls", f"at most {plan.judge_calls:,}")
    line("LLM calls", "none" if plan.llm_calls == 0 else f"{plan.llm_calls:,}, at most {plan.llm_calls_at_most:,}")
    most = f"{plan.max_off_tree:.0%}".replace("%", " %")
    line("off the tree", f"at most {most} of the baseline's answers, or the run ends there (max_off_tree)")
    for text in plan.notes:
        line("note", text)
    if plan.problems:
        console.print(f"\n{len(plan.problems)} problem{'s' if len(plan.problems) > 1 else ''}:", style="bold")
        for problem in plan.problems:
            console.print(f"- {problem}", markup=False, highlight=False, soft_wrap=True)
    else:
        console.print("\nEverything is there; nothing was run.")


def _console() -> Console:
    from rich.console import Console

    return Console()


def _print_json(value: object) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2, default=str)
    sys.stdout.write("\n")
