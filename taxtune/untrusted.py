"""Text from outside (answers, labels, replies), made harmless for programs that would obey it.

Results are kept exactly as they came; this is for where people look at them: a terminal and a
spreadsheet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["json_line", "redact", "spreadsheet_cell", "visible", "well_formed"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_FORMULA = re.compile(r"[=+\-@\t\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d[\d.,]*|\.\d+)([eE][+-]?\d+)?\s?%?")


def well_formed(text: str) -> str:
    """Returns a text that can be sent, stored and tokenized.

    Half a surrogate pair becomes "?", and NUL U+FFFD.
    """
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def visible(text: str) -> str:
    """Returns a text with its control characters, which a terminal would obey, spelled out."""
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def json_line(record: Mapping[Any, Any]) -> str:
    """Returns a record as JSON in one line; what JSON lacks is text."""
    line = json.dumps(record, ensure_ascii=False, default=str)
    # Unicode's own line ends are legal inside JSON and would still part the line for many readers.
    return line.translate({0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"})


def redact(text: str) -> str:
    """Returns a text in which no address shows its user name and password."""
    return re.sub(r"(?<=://)[^/\s@]+@", "***@", text)


def spreadsheet_cell(value: object) -> object:
    """Returns a cell of a table that people open in a spreadsheet.

    A text that a spreadsheet would take for a formula begins with an apostrophe, and control
    characters are spelled out. Numbers, also those written as text ("-0.5"), are left as they are.
    """
    if not isinstance(value, str):
        return value
    text = visible(value)
    is_formula = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text
