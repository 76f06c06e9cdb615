"""Who is told what a tuning run does as it happens: the terminal's progress display, MLflow, code of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taxtune.tuning.records import ComparisonResult, IterationRecord, Selection, TuneResult

if TYPE_CHECKING:
    from taxtune.tuning.loop import Tuner

__all__ = ["Callback", "Callbacks", "Group"]


@dataclass(frozen=True, slots=True)
class Group:
    """The runs of a comparison.

    Attributes:
        name: Name of the comparison.
        identity: Tells it from others; the same for all its runs, also after its folder was moved.
    """

    name: str
    identity: str


class Callback:
    """Is told what a run does; override what you care about.

    Anything with some of these methods will do, and so will a plain function, which is called as `on_iteration` is.
    A callback watches and never steers: to end a run early, raise `KeyboardInterrupt`.
    """

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """The loop begins, with the iterations that are already done."""

    def on_template(self, iteration: int, template: str, images: int) -> None:
        """So many tuning images are to be asked about with a template: the block, or more of them in the race."""

    def on_answers(self, done: int, from_store: int) -> None:
        """So many of the tuning images are answered, so many of them from the store."""

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """An iteration is finished; `best` is the best one so far."""

    def on_race(self, record: IterationRecord) -> None:
        """A template was asked about more of the tuning images."""

    def on_selection(self, selection: Selection) -> None:
        """The winner is chosen, before the held-out images are asked about."""

    def on_heldout(self, name: str, done: int, total: int) -> None:
        """So many of the held-out images are answered for the template called `name`."""

    def on_written(self, result: TuneResult | ComparisonResult) -> None:
        """The files of a run, a comparison or an evaluation are written, but for its report."""

    def on_result(self, tuner: Tuner, result: TuneResult) -> None:
        """The run is complete."""

    def on_comparison(self, result: ComparisonResult, group: Group) -> None:
        """Several runs were compared; `group` joins the comparison to its runs."""

    def on_stop(self, status: str) -> None:
        """The run ends: "finished", "failed" or "killed"."""


class Callbacks:
    """Tells several callbacks, in their order.

    Args:
        given: Objects with some of `Callback`'s methods, or functions of (record, best).
    """

    def __init__(self, given: Sequence[Any]) -> None:
        names = {name for name in vars(Callback) if name.startswith("on_")}
        for each in given:
            if not callable(each) and not any(hasattr(each, name) for name in names):
                raise TypeError(f"{each!r} is not a callback: it has none of {', '.join(sorted(names))}")
        self._given = tuple(given)

    def tell(self, event: str, *what: Any) -> None:
        """Calls a method of every callback that has it.

        Args:
            event: The method's name, such as "on_iteration".
            *what: What it is told.
        """
        for each in self._given:
            method = getattr(each, event, None)
            if method is None and event == "on_iteration" and callable(each):
                method = each
            if method is not None:
                method(*what)

    def settled(self) -> bool:
        """Tells whether callbacks have done all that they were told to do, and need not be told of it again."""
        return all(each.settled() for each in self._given if hasattr(each, "settled"))

    def where(self) -> dict[str, str]:
        """Returns where to look at what callbacks have recorded, by what it shows."""
        return {what: place for each in self._given if hasattr(each, "where") for what, place in each.where().items()}
