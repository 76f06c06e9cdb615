"""Files of answers that are read row by row give what reading them whole gives."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.answers import AnswerSchema, open_answers, read_answers
from taxtune.errors import DataError
from taxtune.tables import MOST_UNPACKED, decode_text, parse_table

ROWS: list[dict[str, Any]] = [
    {"id": str(i), "answer": answer}
    for i, answer in enumerate(["a duck", 'two\nlines, "quoted"', "ünïcödé 鴨", None, "NA", "a\rb\u2028c", "  x  "])
]
KEPT = AnswerSchema(id=None, missing="keep")


def as_csv(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ["id", "answer"])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def as_parquet(rows: list[dict[str, Any]]) -> bytes:
    return pd.DataFrame(rows).to_parquet()


def as_json(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps(rows).encode()


def plain(data: bytes) -> bytes:
    return data


@pytest.mark.parametrize("packed", [plain, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize(
    ("name", "written"),
    [("a.csv", as_csv), ("a.jsonl", as_jsonl), ("a.parquet", as_parquet), ("a.json", as_json)],
)
def test_the_rows_of_a_stream_are_those_of_the_table_each_time(
    tmp_path: Path,
    name: str,
    written: Callable[[list[dict[str, Any]]], bytes],
    packed: Callable[[bytes], bytes],
) -> None:
    path = tmp_path / name
    path.write_bytes(packed(written(ROWS)))
    table, stream = read_answers(path, KEPT), open_answers(path, KEPT)
    assert [row.answer for row in table.rows] == [row["answer"] for row in ROWS]
    assert [*stream.rows] == [*stream.rows] == [*table.rows]
    assert (stream.n, stream.notes, stream.excluded) == (table.n, table.notes, table.excluded) == (7, (), ())


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=6), st.booleans())
def test_any_text_has_the_same_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[str], utf16: bool) -> None:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    text = "\n".join(line.replace("\n", " ") for line in lines)
    path.write_bytes(text.encode("utf-16" if utf16 else "utf-8"))
    # A blank last line is no line, a carriage return before a line feed belongs to it, and a byte-order mark is none.
    text = text if utf16 else text.removeprefix("\ufeff")
    expected = [line.removesuffix("\r") for line in text.split("\n")]
    expected = expected[:-1] if text.endswith("\n") or not text else expected
    assert [row.answer for row in open_answers(path, KEPT).rows] == expected


@given(st.text(st.sampled_from('a,;"\t\n\r '), max_size=30))
def test_csv_has_the_rows_that_the_csv_module_finds(text: str) -> None:
    text = "a,b\n" + text
    try:
        expected = list(csv.reader(io.StringIO(text, newline=""), strict=True))[1:]
    except csv.Error as error:
        with pytest.raises(DataError, match=str(error)):
            parse_table(text, "a.csv", error=DataError, tidy=False, blank=True)
        return
    table = parse_table(text, "a.csv", error=DataError, tidy=False, blank=True, none=True)
    assert [list(row.cells) for row in table.rows] == expected


@pytest.mark.parametrize("row", [1, 2, 40_000])
def test_bytes_that_are_no_text_are_named_with_their_row(tmp_path: Path, row: int) -> None:
    path = tmp_path / "a.txt"
    data = b"duck\n" * (row - 1) + b"du\xffck\nand more\n"
    path.write_bytes(data)
    with pytest.raises(DataError) as whole:
        decode_text(data, path, error=DataError, what="answers")
    with pytest.raises(DataError) as streamed:
        open_answers(path, KEPT)
    assert str(streamed.value) == str(whole.value)
    assert f"a.txt:{row}: The answers file is not UTF-8 text. (got b'\\xffck\\nand ')" in str(streamed.value)


def test_what_unpacks_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"duck " * (MOST_UNPACKED // 5 + 1), 1))
    with pytest.raises(DataError, match="unpacks to more than 256 MiB"):
        open_answers(path, KEPT)
