"""Pairs of an image and a text in a file: written to be looked at or scored elsewhere, and read with their scores."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taxtune import atomic
from taxtune.errors import DataError, shortened
from taxtune.studies.specificity.hard_negatives import ImageTexts
from taxtune.studies.specificity.text_scores import KINDS, ScoredTexts
from taxtune.tables import parse_table, read_text

__all__ = ["read_pairs", "write_pairs"]

# Of what is larger no mean can be taken.
_LARGEST = 1e100
_COLUMNS = ("image", "kind", "text", "score")


def write_pairs(path: Path, made: Sequence[ImageTexts], scored: ScoredTexts | None = None) -> Path:
    """Writes every pair of an image and a text, one JSON object a line: to look at, or to be scored by another model.

    Args:
        path: The file.
        made: The texts.
        scored: Their scores, or None: a `score` is to be added to each line.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    buffer = io.StringIO()
    for i, item in enumerate(made):
        for kind, texts in item.texts.items():
            for j, text in enumerate(texts):
                record: dict[str, Any] = {"image": item.image, "file": item.file_name, "kind": kind, "text": text}
                if scored is not None:
                    record["score"] = float(scored.scores[i][kind][j])
                buffer.write(json.dumps(record, ensure_ascii=False) + "\n")
    return atomic.write_text(path, buffer.getvalue())


def read_pairs(path: Path) -> ScoredTexts:
    """Reads scored pairs: JSONL or CSV with image, kind, text and score.

    Raises:
        DataError: If the file is not of that form, a kind is unknown, a pair stands twice, or a score is missing or no
            finite number.
    """
    images: dict[str, dict[str, list[float]]] = {}
    seen: dict[tuple[str, str, str], int] = {}
    wrong: list[str] = []
    for row, record in _records(path):
        image, kind, text = (_name(record.get(name)) for name in _COLUMNS[:3])
        if not (image and kind and text):
            lacking = next(name for name, value in zip(_COLUMNS, (image, kind, text), strict=False) if not value)
            raise DataError(
                f"A pair needs image, kind, text and score: there is no {lacking}.",
                file=path,
                row=row,
                value=record.get(lacking),
            )
        if kind not in KINDS:
            raise DataError("There is no such kind of text.", file=path, row=row, value=kind, remedy=", ".join(KINDS))
        first = seen.setdefault((image, kind, text), row)
        if first != row:
            raise DataError(
                f"The pair is in row {first} already: image {image}, {kind}.",
                file=path,
                row=row,
                value=text,
                remedy="Keep one of them: a text that stands twice would count twice.",
            )
        score = _score(record.get("score"))
        if not abs(score) <= _LARGEST:
            wrong.append(f"  row {row}: image {image}, {kind}, {text[:80]!r}: {record.get('score')!r}")
        images.setdefault(image, {}).setdefault(kind, []).append(score)
    if wrong:
        raise DataError(
            f"Scores that are missing, no finite number or beyond {_LARGEST:.0e}, {len(wrong):,} in all:\n"
            + "\n".join(shortened(wrong, 10)),
            file=path,
            remedy="\nScore these pairs, or take them out: what was not scored cannot be ranked.",
        )
    return ScoredTexts(
        str(path),
        tuple(images),
        tuple({kind: np.array(values) for kind, values in kinds.items()} for kinds in images.values()),
    )


def _name(value: object) -> str:
    """Returns a text, or a whole number as one; "" for anything else and for a text of spaces."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return ""
    return str(value) if str(value).strip() else ""


def _score(value: object) -> float:
    """Returns a number, or a text that is one; NaN for anything else, true and false included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _records(path: Path) -> list[tuple[int, Mapping[str, Any]]]:
    text = read_text(path, error=DataError, what="pairs")
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        table = parse_table(text, str(path), error=DataError, tidy=False)
        places = {name: table.column(name) for name in _COLUMNS}
        missing = [name for name, place in places.items() if place is None]
        if missing:
            raise DataError(f"The file has no column {', '.join(missing)}.", file=path)
        long = next((row for row in table.rows if len(row.cells) > len(table.header)), None)
        if long is not None:
            raise DataError(
                f"The row has {len(long.cells)} cells, the header {len(table.header)}.",
                file=path,
                row=long.line,
                remedy="Put text that holds a comma in double quotes.",
            )
        return [(row.line, {name: row.cell(place) for name, place in places.items()}) for row in table.rows]
    if suffix not in (".jsonl", ".ndjson"):
        raise DataError("A file of pairs ends in .jsonl or .csv.", file=path, value=suffix)
    records: list[tuple[int, Mapping[str, Any]]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"The line is not valid JSON: {error}.", file=path, row=number) from None
        if not isinstance(record, dict):
            raise DataError("The line is no JSON object.", file=path, row=number)
        records.append((number, record))
    return records
