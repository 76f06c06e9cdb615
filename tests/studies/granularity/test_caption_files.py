from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
from pathlib import Path

import pytest

from taxtune.errors import DataError
from taxtune.studies.granularity.caption_files import read_captions


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_a_caption_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "c.txt", "\ufeffa dog\r\n\n  two cats \nلقطة 🐈\u2028in one line\nlast")
    assert list(read_captions(path)) == ["a dog", "", "  two cats ", "لقطة 🐈\u2028in one line", "last"]


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_packed(tmp_path: Path, ending: str, pack: object) -> None:
    data = "a dog\na cat\n" * 40_000
    path = tmp_path / f"c.txt{ending}"
    path.write_bytes(pack(data.encode()))  # type: ignore[operator]
    heard: list[tuple[int, int]] = []
    assert sum(1 for _ in read_captions(path, on_bytes=lambda *at: heard.append(at))) == 80_000
    assert len(heard) > 1
    assert heard[-1] == (path.stat().st_size, path.stat().st_size)
    cut = tmp_path / f"cut.txt{ending}"
    cut.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="break off"):
        list(read_captions(cut))


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_tables_are_read_as_the_csv_module_writes_them(tmp_path: Path, delimiter: str) -> None:
    captions = ['a "big" dog, and a cat; both', "two\nlines", "tab\there", "", "plain"]
    path = tmp_path / "c.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["url", "Text Of It", "n"])
        writer.writerows([f"u{i}", caption, i] for i, caption in enumerate(captions))
    assert list(read_captions(path, column="text_of_it")) == captions


def test_short_rows_and_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", "\nurl,caption\nu1,a dog\n\nu2\n")
    assert list(read_captions(path)) == ["a dog", ""]


def test_json_lines(tmp_path: Path) -> None:
    rows = [{"t": "a dog"}, {"t": None}, {"t": ["x", "y"]}, {"t": []}, {"t": "ends\u2028here"}]
    path = write(tmp_path / "c.ndjson", "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    assert list(read_captions(path, column="t")) == ["a dog", "", "x", "y", "", "ends\u2028here"]


def test_coco(tmp_path: Path) -> None:
    data = {"images": [], "annotations": [{"image_id": 1, "caption": "a dog\n"}, {"image_id": 1, "caption": ""}]}
    assert list(read_captions(write(tmp_path / "c.json", json.dumps(data)))) == ["a dog\n", ""]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("c.parquet", b"PAR1", r"c\.parquet: .*unknown ending.*\.jsonl"),
        ("captions", b"a dog", "unknown ending"),
        ("c.json.gz", b"", "unknown ending"),
        ("c.txt", b"", "is empty"),
        ("c.csv", b"\n \n", "is empty"),
        ("c.csv", b"caption\n", "is empty"),
        ("c.jsonl", b"\n", "is empty"),
        ("c.txt", b"a dog\n\xff\xfecat\n", r"c\.txt:2: The file is not UTF-8"),
        ("c.txt", b"a dog\nca\0t\n", r"c\.txt:2: .*NUL"),
        ("c.csv", b"url,text\nu,a dog\n", r"c\.csv:1: There is no column 'caption'.*'url', 'text'; .*--caption-column"),
        ("c.csv", b"caption,Caption\na,b\n", "same name"),
        ("c.csv", b"caption\na dog\na cat, a dog\n", r"c\.csv:3: The row has 2 cells, the header 1.*double quotes"),
        ("c.csv", b'caption\n"a dog\nx"\n"a cat\nmore\n', r"c\.csv:4: The row cannot be read as CSV"),
        ("c.csv", b'caption\na dog\n"a" cat\n', r"c\.csv:3: The row cannot be read as CSV"),
        ("c.jsonl", b'{"caption": "a"}\n{"caption": \n', r"c\.jsonl:2: The line is not valid JSON"),
        ("c.jsonl", b'{"caption": "a"}\n["b"]\n', r"c\.jsonl:2: The line is no JSON object"),
        ("c.jsonl", b'{"caption": "a"}\n{"captions": "b"}\n', r"c\.jsonl:2: .*Did you mean 'captions'"),
        ("c.jsonl", b'{"caption": 7}\n', r"c\.jsonl:1: The caption is no text. \(got 7\)"),
        ("c.jsonl", b'{"caption": ["a", null, 1.5]}\n', r"c\.jsonl:1: The caption is no text. \(got 1\.5\)"),
        ("c.json", b'{"caption": "a"}\n{"caption": "b"}\n', r"not valid JSON.*\.jsonl"),
        ("c.json", b"[1]", "no list `annotations`"),
        ("c.json", b'{"annotations": [{"category_id": 1}]}', r"annotations\[0\] has no `caption`.*instances file"),
        ("c.json", b'{"annotations": []}', "is empty"),
    ],
)
def test_what_is_no_file_of_captions(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        list(read_captions(path))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        list(read_captions(tmp_path / "c.txt"))
    (tmp_path / "d.txt").mkdir()
    with pytest.raises(DataError, match="folder"):
        list(read_captions(tmp_path / "d.txt"))


def test_a_caption_of_a_megabyte(tmp_path: Path) -> None:
    long = "a very long story " * 60_000
    before = csv.field_size_limit()
    assert list(read_captions(write(tmp_path / "c.csv", f'caption\n"{long}"\nshort\n'))) == [long, "short"]
    assert csv.field_size_limit() == before
