"""JSON files that people give to studies, among them COCO's, checked by pydantic."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from taxtune.errors import DataError
from taxtune.tables import read_text

__all__ = ["Entry", "parse_json"]

T = TypeVar("T", bound=BaseModel)


class Entry(BaseModel):
    """An entry of a file in COCO's format; ids may be numbers or texts."""

    model_config = ConfigDict(coerce_numbers_to_str=True, str_strip_whitespace=True)


def parse_json(path: Path, kind: type[T], line: str | None = None, row: int | None = None) -> T:
    """Returns the content of a JSON file, or of one line of a file of JSON lines, as a pydantic model.

    Raises:
        DataError: If the file cannot be read, is not valid JSON or does not have the model's form.
    """
    text = read_text(path, error=DataError, what="JSON") if line is None else line
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
        remedy = None
        if first["type"] == "missing":
            remedy = "Check that it is the right one of COCO's files: captions, or instances."
        elif first["type"] == "json_invalid" and line is None and text.count("\n{"):
            remedy = "A file with one JSON object per line ends in .jsonl."
        message = f"{where}: {first['msg']}." if where else f"{first['msg']}."
        raise DataError(message, file=path, row=row, value=first["input"] if where else None, remedy=remedy) from None
