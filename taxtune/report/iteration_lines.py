"""Iterations as a table that is written line by line while they come, in as many columns as there is room for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.report.cells import cut
from taxtune.report.wording import metric_name, number, score_of, visible
from taxtune.tuning.objective import Objective
from taxtune.tuning.records import IterationRecord
from taxtune.tuning.selection import aim_values, values

__all__ = ["IterationLines", "scored"]

_HEADER_EVERY = 20
_MARK = 6  # cells of "best", "race", "hP low"
_LOG = 120  # cells of a line where there is no terminal
_LEAST = 12  # cells of a template that are worth showing


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    width: int
    cell: Callable[[IterationRecord], str]
    rank: int  # the last in rank goes first where the terminal is narrow


class IterationLines:
    """Writes iterations of a run.

    Args:
        objective: What the run is tuned for.
        aim: The score that it maximises; None where it is computed from several.
    """

    def __init__(self, objective: Objective, aim: str | None) -> None:
        scores = dict.fromkeys(("hp", "hr", *([] if aim is None else [aim])))
        columns = [
            _Column("iter", 4, lambda record: str(record.iteration), 0),
            _Column("n", 5, lambda record: "" if record.scores is None else f"{record.scores.n:,}", 5),
            *(_Column(metric_name(key), 12, _Score(key), 1 + i) for i, key in enumerate(scores)),
        ]
        if aim is None:
            columns.append(_Column(metric_name(objective.name)[:12], 12, _Value(objective), 3))
        columns += [
            _Column("abst.", 5, _Score("abstained", spread=False), 6),
            _Column("off", 5, _Score("off_tree", spread=False), 7),
        ]
        self._columns = columns
        self._shown: list[_Column] = []
        self._since = 0

    def lines(self, record: IterationRecord, mark: str = "", *, width: int | None = None) -> list[str]:
        """Returns an iteration's line, and the header before it where it is due.

        Args:
            record: The iteration.
            mark: What to say of it, such as "best".
            width: Cells of the terminal; None where there is none.
        """
        room = _LOG if width is None else width
        mark_width = max(_MARK, len(mark))
        shown = self._fitting(room - mark_width - 2)
        begin = "  ".join(column.cell(record).rjust(column.width) for column in shown)
        said = "; ".join(filter(None, (_missing(record), " ".join(visible(record.template or "").split()))))
        if record.scores is None:
            line = f"{record.iteration:>4}  {record.state}: {visible(record.reason or 'no reason given')}"
            line = line if width is None else cut(line, width)
        else:
            line = f"{begin}  {mark:<{mark_width}}"
            left = room - len(line) - 2
            line = (line if left < _LEAST else f"{line}  {cut(said, left)}").rstrip()
        found = []
        if not self._since or shown != self._shown:
            names = "  ".join(column.name.rjust(column.width) for column in shown)
            found.append(
                f"{names}  {'':<{_MARK}}{'  template' if room - len(names) - _MARK - 4 >= _LEAST else ''}".rstrip()
            )
        self._shown, self._since = shown, (self._since + 1) % _HEADER_EVERY
        return [*found, line]

    def _fitting(self, room: int) -> list[_Column]:
        kept = list(self._columns)
        while len(kept) > 1 and sum(column.width + 2 for column in kept) - 2 > room:
            kept.remove(max(kept, key=lambda column: column.rank))
        return kept


def scored(record: IterationRecord, key: str) -> str:
    """Returns a mean and its standard error: "0.912 ± .021"; without one where all images score alike."""
    value = score_of(record.scores, key)
    return "–" if value is None else _plus_minus(value, values(record, key), key)


@dataclass(frozen=True, slots=True)
class _Score:
    key: str
    spread: bool = True

    def __call__(self, record: IterationRecord) -> str:
        return scored(record, self.key) if self.spread else number(score_of(record.scores, self.key))


@dataclass(frozen=True, slots=True)
class _Value:
    objective: Objective

    def __call__(self, record: IterationRecord) -> str:
        if record.scores is None:
            return "–"
        return _plus_minus(float(self.objective.score(record.scores)), aim_values(record, self.objective))


def _plus_minus(value: float, each: NDArray[np.float64], key: str = "hp") -> str:
    known = each[~np.isnan(each)]
    error = float(known.std(ddof=1)) / len(known) ** 0.5 if len(known) > 1 else 0.0
    # Of images that are all alike the spread is unknown, not 0.
    return f"{number(value, key)} ± " + (number(error, key).removeprefix("0").ljust(4) if error > 1e-9 else "–   ")


def _missing(record: IterationRecord) -> str:
    return f"{record.missing} missing" if record.missing else ""
