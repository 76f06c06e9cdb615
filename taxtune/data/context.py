"""What a template may know of an image: columns of the data, EXIF, another classifier's guesses."""

from __future__ import annotations

import ast
import contextlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from taxtune.errors import DataError, shortened
from taxtune.images import read_exif
from taxtune.tables import column_key

__all__ = [
    "CANDIDATES",
    "EXIF",
    "MAX_ITEMS",
    "MAX_VALUE",
    "VARIABLES",
    "Value",
    "Variable",
    "blank",
    "candidate",
    "exif_values",
    "make_variables",
    "values_of",
]

#: A variable's value for one image; None is a text or a number that is missing, [] a list.
Value = str | int | float | list[str] | None
Kind = Literal["text", "number", "list"]

#: Variables of every template: `question` and `domain` are text, `ranks` (broadest first) and
#: `examples` lists of text. Those of each image come on top.
VARIABLES = ("question", "domain", "ranks", "examples")
#: Most characters of a variable's value, over its items.
MAX_VALUE = 2_000
#: Most items of a list.
MAX_ITEMS = 32
#: What an image file may tell of itself, where it is asked for.
EXIF = ("exif:month", "exif:hour", "exif:latitude", "exif:longitude")
#: The variable that another classifier's guesses are.
CANDIDATES = "candidates"

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
_CUT = "…"
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of templates that has a value of its own for each image.

    Attributes:
        name: What templates call it.
        column: The column of the data that it comes from, or one of `EXIF`.
        kind: What its values are.
        meaning: What it means, for who writes templates; "" where nobody said.
        top: Most candidates; None for other lists.
    """

    name: str
    column: str
    kind: Kind = "text"
    meaning: str = ""
    top: int | None = None

    def value(self, cell: object) -> Value:
        """Returns the value of a cell.

        One of more than `MAX_VALUE` characters or `MAX_ITEMS` items ends in "…".

        Raises:
            ValueError: If it is not of this kind.
        """
        if self.kind == "list":
            # A table has candidates as text.
            items = _items(cell if self.top is None else _parsed(cell))
            return _shortened(items[: self.top])
        text = _text(cell)
        if text is None:
            return None
        if self.kind == "text":
            return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + _CUT
        if not _NUMBER.fullmatch(text):
            raise ValueError("is not a number")
        return float(text) if "." in text else int(text)


def _shortened(items: list[str]) -> list[str]:
    """Returns a list that fits into a variable."""
    if len(items) <= MAX_ITEMS and sum(map(len, items)) <= MAX_VALUE:
        return items
    room = MAX_VALUE - len(_CUT)
    fitting = []
    for item in items[: MAX_ITEMS - 1]:
        room -= len(item)
        if room < 0:
            break
        fitting.append(item)
    return [*fitting, _CUT]


def make_variables(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    describe: Mapping[str, str],
    *,
    top: int,
) -> tuple[Variable, ...]:
    """Returns the variables of columns, each of the kind of its cells: numbers, lists, else text.

    Args:
        columns: The columns.
        rows: The cells of each image, by column.
        describe: What variables mean, by name.
        top: Most candidates.

    Raises:
        DataError: If a column makes no name, or a name that is taken, or a meaning is of no
            variable.
    """
    found: dict[str, Variable] = {}
    for column in columns:
        name = re.sub(r"\W", "_", column_key(column.removeprefix("exif:")))
        if name in VARIABLES or name in found or not name.isidentifier():
            why = "is the name of another variable already"
            if not name.isidentifier():
                why = "is no name for a variable"
            raise DataError(f"{name!r} {why}.", value=column, remedy="Rename the column.")
        cells = [row.get(column) for row in rows]
        found[name] = Variable(
            name=name,
            column=column,
            kind="list" if name == CANDIDATES else _kind(cells),
            meaning=describe.get(name, ""),
            top=top if name == CANDIDATES else None,
        )
    unknown = sorted(describe.keys() - {*found, CANDIDATES})
    if unknown:
        remedy = f"The variables are {', '.join(map(repr, found)) or 'none'}."
        raise DataError(
            "A variable is described that there is not.", value=unknown[0], remedy=remedy
        )
    return tuple(found.values())


def _kind(cells: Sequence[object]) -> Kind:
    """Returns the kind of the variable that cells are values of."""
    for cell in cells:
        if isinstance(cell, list | tuple | Mapping) or hasattr(cell, "tolist"):
            return "list"
    texts = {_text(cell) for cell in cells} - {None}
    if texts and all(_NUMBER.fullmatch(text) for text in texts if text is not None):
        return "number"
    return "text"


def values_of(
    variables: Sequence[Variable],
    rows: Sequence[Mapping[str, object]],
    file: str | Path,
    names: Sequence[str],
) -> list[dict[str, Value]]:
    """Returns the values of variables for each image.

    Args:
        variables: The variables.
        rows: The cells of each image, by column.
        file: What has the cells, for messages.
        names: What each image is called, for messages.

    Raises:
        DataError: If cells are not of their variable's kind; it names the images.
    """
    values_of_rows: list[dict[str, Value]] = [{} for _ in rows]
    faults = []
    for variable in variables:
        for values, row, name in zip(values_of_rows, rows, names, strict=True):
            cell = row.get(variable.column)
            try:
                values[variable.name] = variable.value(cell)
            except ValueError as error:
                faults.append(f"  {name}: {variable.column} {error}: {cell!r:.60}")
    if faults:
        listed = "\n".join(shortened(faults, 20))
        raise DataError(
            f"{len(faults)} cells cannot be used:\n{listed}\nCorrect or empty them.", file=file
        )
    return values_of_rows


def blank(variables: Iterable[Variable]) -> dict[str, Value]:
    """Returns the values of variables of an image of which nothing is known."""
    return {variable.name: [] if variable.kind == "list" else None for variable in variables}


def exif_values(file: Path, columns: Sequence[str]) -> dict[str, object]:
    """Returns the wanted columns of `EXIF` out of a file, None where it lacks them."""
    wanted = [column for column in columns if column in EXIF]
    told = read_exif(file) if wanted else {}
    return {column: told.get(column.removeprefix("exif:")) for column in wanted}


def candidate(name: str, score: float) -> str:
    """Returns a guess of another classifier as templates show it: "pine siskin (0.62)"."""
    return f"{name} ({score:.2f})" if score >= 0.005 else f"{name} (<0.01)"


def _text(cell: Any) -> str | None:
    """Returns a cell as text; None where it is empty."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)) or cell != cell:
        return None
    if isinstance(cell, bool):
        return str(cell).lower()
    text = f"{cell:.15g}" if isinstance(cell, float) else str(cell)
    return " ".join(_CONTROLS.sub(" ", text).split()) or None


def _parsed(cell: Any) -> Any:
    """Returns text as the list that it holds: JSON, Python's, or names between semicolons."""
    if not isinstance(cell, str):
        return cell
    if cell.lstrip()[:1] in ("[", "{"):
        for read in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                return read(cell.strip())
    return cell.split(";")


def _items(cell: Any) -> list[str]:
    """Returns a cell as a list of text.

    Scores by name, and pairs of a name and a score, become candidates.
    """
    if isinstance(cell, Mapping):
        scored = [(name, score) for name, score in cell.items() if score]
        cell = sorted(scored, key=lambda pair: -pair[1])
    elif hasattr(cell, "tolist"):
        cell = cell.tolist()
    items = cell if isinstance(cell, list | tuple) else [cell]
    if all(map(_is_scored, items)):
        items = [candidate(str(name), score) for name, score in items]
    texts = [_text(item) for item in items]
    return [text for text in texts if text is not None]


def _is_scored(item: Any) -> bool:
    """Returns whether an item is a pair of a name and a score."""
    is_pair = isinstance(item, list | tuple) and len(item) == 2
    return is_pair and isinstance(item[1], int | float)
