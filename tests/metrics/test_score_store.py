from __future__ import annotations

import math
import sqlite3
import threading
from pathlib import Path

import pytest

from taxtune.metrics.score_store import ScoreStore

PAIRS = [("bird", "robin"), ("birdr", "obin"), ("🐦", "طائر"), ("half \ud83d", "x"), ("", "")]


def test_scores_come_back_by_content(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path / "new" / "folder")
    assert store.get({"m": 1}, PAIRS) == [None] * 5
    assert not store.path.exists()  # looking makes no file
    store.put({"m": 1}, PAIRS, [0.5, -1.0, 0.0, 1e-300, 1 / 3])
    again = ScoreStore(tmp_path / "new" / "folder")
    assert again.get({"m": 1}, [*PAIRS[::-1], ("robin", "bird")]) == [1 / 3, 1e-300, 0.0, -1.0, 0.5, None]
    assert again.get({"m": 2}, PAIRS) == [None] * 5
    assert again.get({"m": 1}, []) == []


def test_what_is_no_number_is_not_kept(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path)
    store.put({}, PAIRS[:3], [math.nan, math.inf, 0.25])
    assert store.get({}, PAIRS[:3]) == [None, None, 0.25]


def test_of_two_scores_the_first_stays_and_thousands_are_found(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path)
    many = [(str(i), "x") for i in range(1201)]
    store.put({}, many, [float(i) for i in range(1201)])
    store.put({}, many[:1], [9.0])
    assert store.get({}, many) == [float(i) for i in range(1201)]


@pytest.mark.parametrize("damage", [b"no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_file_is_moved_aside(tmp_path: Path, damage: bytes) -> None:
    store = ScoreStore(tmp_path)
    store.path.write_bytes(damage)
    assert store.get({}, PAIRS) == [None] * 5
    store.put({}, PAIRS[:1], [0.5])
    assert store.get({}, PAIRS[:1]) == [0.5]
    assert (tmp_path / "scores.sqlite.damaged").read_bytes() == damage


def test_a_table_of_another_program_is_moved_aside(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path)
    with sqlite3.connect(store.path) as connection:
        connection.execute("CREATE TABLE scores (something TEXT)")
    connection.close()
    assert store.get({}, PAIRS) == [None] * 5
    store.put({}, PAIRS[:1], [0.5])
    assert store.get({}, PAIRS[:1]) == [0.5]


def test_a_place_that_cannot_be_written_to_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    store = ScoreStore(tmp_path / "file")
    store.put({}, PAIRS[:1], [0.5])
    assert store.get({}, PAIRS[:1]) == [None]


def test_several_writers_share_a_file(tmp_path: Path) -> None:
    def write(writer: int) -> None:
        for i in range(20):
            ScoreStore(tmp_path).put({}, [(str(writer), str(i))], [writer + i / 100])

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = [(str(w), str(i)) for w in range(4) for i in range(20)]
    assert ScoreStore(tmp_path).get({}, wanted) == [int(w) + int(i) / 100 for w, i in wanted]
