from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from taxtune.errors import TaxtuneError
from taxtune.tuning.history import read_records
from taxtune.tuning.record_file import RecordFile
from taxtune.tuning.records import ExampleRow, IterationRecord

# U+2028 ends a line for `str.splitlines`, but not in JSON lines.
ROW = ExampleRow("e1", "a.png", 3, "life/b", "one\u2028two\nthree")


def record(iteration: int, rows: int = 1) -> IterationRecord:
    return IterationRecord(iteration, "complete", f"template {iteration}", rows=(ROW,) * rows)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


@pytest.fixture
def records(file: Path) -> RecordFile:
    return RecordFile(file)


def numbers(file: Path) -> list[int]:
    return [json.loads(line)["iteration"] for line in file.read_text("utf-8").split("\n") if line]


def known(*which: int) -> list[IterationRecord]:
    return [record(each) for each in which]


def test_an_iteration_costs_one_line(records: RecordFile, file: Path) -> None:
    records.append(known(0))
    inode, before = file.stat().st_ino, file.read_bytes()
    records.append(known(0, 1))
    assert (file.stat().st_ino, file.read_bytes()[: len(before)]) == (inode, before), "what is there stays"
    assert read_records(file.parent) == known(0, 1)
    records.append(known(0, 1))
    records.complete(known(0, 1))
    assert numbers(file) == [0, 1]
    assert file.stat().st_ino == inode, "what is in order already is not written again"


def test_a_record_that_grew_counts_as_it_is_now(records: RecordFile, file: Path) -> None:
    records.append(known(0, 1))
    grown = [record(0, rows=3), record(1)]
    records.append(grown)
    assert read_records(file.parent) == grown
    assert numbers(file) == [0, 1, 0]
    records.complete(grown)
    assert numbers(file) == [0, 1]
    assert read_records(file.parent) == grown


def _rest(content: bytes) -> bytes:
    return content + b'{"iteration": 2, "ro'


@pytest.mark.parametrize(
    ("damaged", "left"),
    [(_rest, [0, 1]), (lambda content: content[:-9], [0]), (lambda content: b"", [])],
    ids=["half a line more", "half a line less", "nothing"],
)
def test_what_a_killed_process_left_half_written_counts_for_nothing(
    file: Path, damaged: Callable[[bytes], bytes], left: Sequence[int]
) -> None:
    RecordFile(file).append(known(0, 1))
    file.write_bytes(damaged(file.read_bytes()))
    assert read_records(file.parent) == known(*left)
    RecordFile(file).append(known(0, 1, 2))
    assert numbers(file) == [0, 1, 2]
    assert read_records(file.parent) == known(0, 1, 2)


def test_a_file_that_makes_no_sense_is_written_anew(records: RecordFile, file: Path) -> None:
    file.write_text('{"iteration": 0, "rows": []}\nnonsense\n')
    records.append(known(0, 1))
    assert read_records(file.parent) == known(0, 1)


def test_what_a_full_disk_cut_off_is_taken_back(records: RecordFile, file: Path) -> None:
    resource = pytest.importorskip("resource", reason="files have no size limit on Windows")
    records.append(known(0))
    before, limits = file.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(TaxtuneError, match="File too large"):
            records.append(known(0, 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_bytes() == before
    records.append(known(0, 1))
    assert numbers(file) == [0, 1]
