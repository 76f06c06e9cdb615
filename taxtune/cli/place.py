"""`taxtune place`: put answers on a taxonomy."""

from __future__ import annotations

import codecs
import csv
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune.cli.interrupts import keep_work
from taxtune.cli.options import FormatOption, PresetOption, RootLabelOption, SimilarityOption, TaxonomyOption, note
from taxtune.errors import DataError

if TYPE_CHECKING:
    from taxtune.mapping import Placement
    from taxtune.taxonomy import Taxonomy

__all__ = ["place"]

_COLUMN = "answer"
_INPUTS = ("auto", "text", "csv", "jsonl")


def place(
    taxonomy: TaxonomyOption,
    file: Annotated[
        str,
        typer.Argument(
            metavar="[FILE|-]", help="Text with one answer a line, CSV or JSONL with a column answer; - reads stdin."
        ),
    ] = "-",
    similarity: SimilarityOption = "lexical",
    preset: PresetOption = "default",
    input: Annotated[
        str, typer.Option("--input", help="text, csv or jsonl; auto goes by the file's name, and stdin is text.")
    ] = "auto",
    format: FormatOption = "auto",
    root_label: RootLabelOption = None,
    root: Annotated[
        str | None,
        typer.Option(
            "--root", metavar="NODE", help="Place on the part of the taxonomy below this node (a label or path)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Print where each answer belongs on the taxonomy, one line for each answer, in order.

    A line holds the label, the stage that decided, the path from the root and the answer, parted by
    tabs; a blank answer has a line too and is an abstention. An answer that asserts something that the taxonomy lacks
    is off_tree, on the root.
    """
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.taxonomy import read_taxonomy, restrict

    config = MapperConfig(preset=preset)
    answers = _read_answers(file, input)
    tree = read_taxonomy(
        taxonomy,
        format=format,
        root_label=root_label,
        on_note=note,
    )
    if root is not None:
        tree = restrict(tree, root).tree
    keep_work([similarity])
    placements = Mapper(tree, similarity, config).place(answers) if answers else []
    for placement in placements:
        print(_json_line(tree, placement) if as_json else _text_line(tree, placement))
    abstained = sum(placement.abstained for placement in placements)
    counted = f"{len(placements):,} answer{'' if len(placements) == 1 else 's'} placed"
    off = sum(placement.off_tree for placement in placements)
    print(f"taxtune: {counted}, {abstained:,} of them abstentions, {off:,} off the tree", file=sys.stderr)


def _json_line(tree: Taxonomy, placement: Placement) -> str:
    record = {
        "answer": placement.answer,
        "path": list(tree.path(placement.node)),
        "label": tree.labels[placement.node],
        "stage": str(placement.stage),
        "evidence": placement.evidence,
        "confidence": placement.confidence,
        "abstained": placement.abstained,
        "off_tree": placement.off_tree,
    }
    line = json.dumps(record, ensure_ascii=False)
    # Unicode's own line ends are legal inside JSON and would still part the line for many readers.
    return line.translate({0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"})


def _text_line(tree: Taxonomy, placement: Placement) -> str:
    fields = (
        tree.labels[placement.node],
        str(placement.stage),
        " / ".join(tree.path(placement.node)),
        " ".join(placement.answer.split()),
    )
    return "\t".join(fields)


# -- input -------------------------------------------------------------------------------------------------------------


def _read_answers(file: str, kind: str) -> list[str]:
    if kind not in _INPUTS:
        raise DataError("There is no such input.", value=kind, remedy=f"Use {', '.join(_INPUTS)}.")
    name = "<stdin>" if file == "-" else file
    text = _read_text(file, name)
    if kind == "auto":
        kind = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}.get(Path(file).suffix.lower(), "text")
    if kind == "csv":
        return _csv_answers(text, name)
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    return lines if kind == "text" else [_jsonl_answer(line, name, row) for row, line in enumerate(lines, 1)]


def _read_text(file: str, name: str) -> str:
    if file == "-" and sys.stdin is None:
        raise DataError("There is no standard input.", remedy="Give a file, or pipe the answers in.")
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise DataError(f"The answers cannot be read: {error.strerror}.", file=name) from error
    encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        row = content[: error.start].count(b"\n") + 1
        raise DataError("The answers are not UTF-8.", file=name, row=row, remedy="Save the file as UTF-8.") from error


def _csv_answers(text: str, name: str) -> list[str]:
    from taxtune.tables import column_key, csv_delimiter

    first = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=csv_delimiter(first), strict=True)
    answers: list[str] = []
    start = 1
    try:
        header = next((cells for cells in reader if cells), [])
        columns = [column_key(cell) for cell in header]
        if columns.count(_COLUMN) != 1:
            raise DataError(
                f"The file has {'no column' if _COLUMN not in columns else 'several columns'} {_COLUMN!r}.",
                file=name,
                row=max(reader.line_num, 1),
                value=header,
                remedy="Name the answers' column so, and no other.",
            )
        column = columns.index(_COLUMN)
        start = reader.line_num + 1
        for cells in reader:
            if len(cells) > len(header):
                raise DataError(
                    f"The row has {len(cells)} cells, the header {len(header)}.",
                    file=name,
                    row=start,
                    remedy="Put answers that hold the separator in double quotes.",
                )
            answers.append(cells[column] if column < len(cells) else "")
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"The row cannot be read as CSV: {error}.",
            file=name,
            row=start,
            remedy="Close its quotes, and double a quote inside; JSONL takes answers of any length.",
        ) from error
    return answers


def _jsonl_answer(line: str, name: str, row: int) -> str:
    if not line.strip():
        return ""
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        remedy = f"Write one object with {_COLUMN!r} a line."
        raise DataError("The line is not JSON.", file=name, row=row, value=line, remedy=remedy) from error
    if not isinstance(record, dict) or _COLUMN not in record:
        raise DataError(f"The line is no object with {_COLUMN!r}.", file=name, row=row, value=line)
    answer = record[_COLUMN]
    if answer is not None and not isinstance(answer, str):
        raise DataError("The answer is not text.", file=name, row=row, value=answer, remedy="Put it in quotes.")
    return answer or ""
