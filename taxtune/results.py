"""Results as Python users get them: the records of `taxtune.tuning.records`, with what can be done with them.

The records are facts, and stand below the rooms that draw them and run more; here they meet.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune import runs
from taxtune.data.sources import Source
from taxtune.models import Model, make_model
from taxtune.progress import showing
from taxtune.recipe import Recipe
from taxtune.report.figures import plot
from taxtune.report.paper import write
from taxtune.report.progress import TuningProgress
from taxtune.report.tables import first_tables
from taxtune.report.terminal import Terminal
from taxtune.tuning import records
from taxtune.tuning.run_folder import finished_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "ComparisonResult",
    "TuneResult",
    "choose",
    "compared",
    "offered",
    "shown_progress",
    "tuned",
]


class TuneResult(records.TuneResult):
    """A tuning run that can be drawn, printed and chosen from."""

    def choose(self, iteration: int, **options: Any) -> TuneResult:
        """Returns the run with another winner; see `choose`, which has the options."""
        return choose(self, iteration, **options)

    def plot(self) -> Figure:
        """Draws hP against hR of all templates, with the candidates named and the goal as a line."""
        return plot(self)

    def to_latex(self) -> str:
        """Returns n, hP, hR and accuracy with 95 % intervals as a table for a paper (booktabs).

        Candidates that were asked about tuning images alone are a block of their own.
        """
        return write(self, "latex")

    def _repr_html_(self) -> str:
        """Shows the counts, scores and candidates, as the terminal does, in a notebook."""
        return _html(self)


class ComparisonResult(records.ComparisonResult):
    """Templates compared on the same held-out images, that can be drawn and printed."""

    def plot(self) -> Figure:
        """Draws the templates of all runs; see `TuneResult.plot`."""
        return plot(self)

    def to_latex(self) -> str:
        """Returns a table for a paper; see `TuneResult.to_latex`."""
        return write(self, "latex")

    def _repr_html_(self) -> str:
        """Shows the counts, scores and candidates in a notebook."""
        return _html(self)


def _html(result: records.TuneResult | records.ComparisonResult) -> str:
    return "".join(table.html() for table in first_tables(result))


def tuned(result: records.TuneResult) -> TuneResult:
    """Returns the record of a tuning run as users get it."""
    return TuneResult(**_values(result))


def compared(result: records.ComparisonResult) -> ComparisonResult:
    """Returns the record of a comparison as users get it, its runs as well."""
    values = _values(result)
    values["runs"] = tuple(tuned(run) for run in result.runs)
    return ComparisonResult(**values)


def offered(
    result: records.TuneResult | records.ComparisonResult,
) -> TuneResult | ComparisonResult:
    """Returns a record as users get it."""
    if isinstance(result, records.TuneResult):
        return tuned(result)
    return compared(result)


def _values(result: records.TuneResult | records.ComparisonResult) -> dict[str, Any]:
    return {each.name: getattr(result, each.name) for each in fields(result)}


def choose(
    run: records.TuneResult | str | Path,
    iteration: int,
    *,
    recipe: Recipe | str | Path | None = None,
    vlm: Model | Callable[..., Any] | None = None,
    examples: Source | None = None,
    progress: bool | None = None,
) -> TuneResult:
    """Makes another template of a finished run its winner, such as one of its candidates.

    The held-out images are asked about it once. What the objective chose stays beside it, and the
    report says that a person chose after looking; to choose that template takes the choice back.

    Args:
        run: The result of a run, or its folder, where the new winner is kept.
        iteration: The number of the template's iteration.
        recipe: The run's recipe, where the run does not know it.
        vlm: The model, for a run with a model of one's own.
        examples: The images, where they were given in Python as values and not as a folder or file.
        progress: As in `tune`.

    Returns:
        The result with the new winner.

    Raises:
        TaxtuneError: If the run has no such template, its images are no longer the same, or the
            model cannot be asked.
    """
    earlier = finished_run(Path(run)) if isinstance(run, str | Path) else run
    model = None if vlm is None else make_model(vlm)
    setup = runs.setup_of(earlier, recipe=recipe, vlm=model, examples=examples)
    with shown_progress(progress):
        return tuned(runs.choose(setup, earlier, iteration, runs.recording_callbacks(setup)))


@contextmanager
def shown_progress(progress: bool | None) -> Iterator[list[Any]]:
    """Shows progress on standard error unless it is off; yields the callbacks that show a run."""
    if progress is False:
        yield []
        return
    if progress is None and not sys.stderr.isatty():
        # In a notebook or a script, where notes are logged as warnings.
        yield [TuningProgress(Terminal(), by_rung=True)]
        return
    with showing(Terminal()) as terminal:
        yield [TuningProgress(terminal)]
