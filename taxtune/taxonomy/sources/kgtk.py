r"""The KGTK file format: tab-separated columns by name, and values whose first character says what they are.

An edge file has the columns node1, label and node2 (or their aliases: from and subject; predicate, relation and
relationship; to and object), a node file has an id; lines that begin with # are comments. Text is written
'text'@en, with its language, or "text"; in both, a backslash stands before quotes, bars, tabs (\t), line ends (\n) and
itself. (KGTK file format, version 2.0, sections "Predefined Names", "Edge File Format" and "Literals".)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.sources.lines import lines

__all__ = ["EdgeTable", "KgtkText", "read_text", "split_list"]

_ALIASES = {
    "node1": ("node1", "from", "subject"),
    "label": ("label", "predicate", "relation", "relationship"),
    "node2": ("node2", "to", "object"),
    "id": ("id", "ID"),
}
_LANGUAGE = re.compile(r"[A-Za-z]{2,}(?:-[A-Za-z0-9]+)*")
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[0-7]{1,3}|.)", re.DOTALL)
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

#: A text and its language; None where none is given.
KgtkText = tuple[str, str | None]


def read_text(value: str) -> KgtkText | None:
    """Returns the text of a value and its language, or None if the value is not text.

    A symbol, such as an unquoted name, counts as text without a language; numbers, dates and places do not.
    """
    if value.startswith("'"):
        end = value.rfind("'@")
        if end < 1 or not _LANGUAGE.fullmatch(value, end + 2):
            return None
        return _unescape(value[1:end]), value[end + 2 :]
    if value.startswith('"'):
        return (_unescape(value[1:-1]), None) if len(value) > 1 and value.endswith('"') else None
    if not value or value[0] in "^@!":
        return None
    return _unescape(value), None


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_escaped, text) if "\\" in text else text


def _escaped(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _NAMED.get(code, code)


def split_list(value: str) -> list[str]:
    r"""Returns the values of a list, which "|" separates and "\|" does not."""
    return re.split(r"(?<!\\)\|", value)


class EdgeTable:
    """The rows of a KGTK file by column.

    Args:
        path: The file, packed or not.

    Attributes:
        columns: The positions of the columns by name, aliases as their own names.

    Raises:
        TaxonomyError: If the file is empty or the header names a column twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = ((number, text) for number, text in lines(path) if _says_something(text))
        try:
            self.header_line, header = next(self._lines)
        except StopIteration:
            raise TaxonomyError("The file is empty.", file=path) from None
        names = header.split("\t")
        self._count = len(names)
        self.columns: dict[str, int] = {}
        canonical = {alias: name for name, aliases in _ALIASES.items() for alias in aliases}
        for position, name in enumerate(names):
            name = canonical.get(name.strip(), name.strip())
            if name in self.columns:
                raise TaxonomyError("Two columns have the same meaning.", file=path, row=self.header_line, value=name)
            self.columns[name] = position

    def need(self, *names: str) -> list[int]:
        """Returns the positions of columns that have to be there.

        Raises:
            TaxonomyError: If one is not.
        """
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise TaxonomyError(
                f"The KGTK file has no column {missing[0]}.",
                file=self.path,
                row=self.header_line,
                value="\t".join(self.columns),
                remedy="Its header needs node1, label and node2 between tabs, or id and label for a file of nodes.",
            )
        return [self.columns[name] for name in names]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields the line and the cells of each row.

        Raises:
            TaxonomyError: If a row has another number of cells than the header.
        """
        for number, text in self._lines:
            cells = text.split("\t")
            if len(cells) != self._count:
                raise TaxonomyError(
                    f"The row has {len(cells)} cells, the header {self._count}.",
                    file=self.path,
                    row=number,
                    value=text,
                    remedy="Write tabs in values as \\t.",
                )
            yield number, cells


def _says_something(text: str) -> bool:
    return not text.startswith("#") and bool(text.strip())
