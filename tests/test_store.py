"""The store of every kind of value: answers, scores and embeddings."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taxtune.encoders.vectors import VectorStore
from taxtune.errors import DataError, TaxtuneError
from taxtune.models import Answer, AnswerStore, Request
from taxtune.models.base import Candidates
from taxtune.progress import showing
from taxtune.store import Store
from tests.displays import Recorder

IDENTITY = {
    "kind": "local",
    "model": "m",
    "revision": "abc",
    "dtype": "float32",
    "temperature": 0.0,
}


@dataclass(frozen=True)
class Kind:
    """A kind of store: how it is opened in a folder, and its items and values by number."""

    open: Callable[[Path], Store[Any, Any]]
    item: Callable[[int], Any]
    value: Callable[[int], Any]
    plain: Callable[[Any], Any] = lambda value: value


KINDS = {
    "answers": Kind(
        lambda folder: AnswerStore(folder / "answers.db"),
        lambda i: Request(f"What bird? {i}", Path("a.jpg"), "f" * 64),
        lambda i: Answer(f"{i}", True, 3, 5, 0.002, 1.5),
    ),
    "images": Kind(
        VectorStore,
        lambda i: f"{i:064x}",
        lambda i: np.array([1, i], dtype=np.float32),
        lambda value: value.tolist(),
    ),
}
precious = pytest.mark.parametrize("kind", ["answers"], indirect=True)
caches = pytest.mark.parametrize("kind", ["images"], indirect=True)


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def get(kind, store, *numbers, **identity):
    found = store.get(IDENTITY | identity, [kind.item(i) for i in numbers])
    return [value if value is None else kind.plain(value) for value in found]


def put(kind, store, *numbers):
    store.put(IDENTITY, [(kind.item(i), kind.value(i)) for i in numbers])


def values(kind, *numbers):
    return [kind.plain(kind.value(i)) for i in numbers]


# -- finding -----------------------------------------------------------------------------------------------------------


def test_values_come_back_by_content(kind, tmp_path):
    folder = tmp_path / "new" / "folder"
    with kind.open(folder) as store:
        assert get(kind, store, 1, 2) == [None, None]
        assert len(store) == 0
        put(kind, store, 1, 2)
        put(kind, store)
        assert len(store) == 2
    with kind.open(folder) as again:
        assert get(kind, again, 2, 3, 1, 2) == [*values(kind, 2), None, *values(kind, 1, 2)]
        assert get(kind, again) == []
        again.put(IDENTITY, [(kind.item(1), kind.value(5))])
        found = get(kind, again, *range(1203))[:3]
        assert found == [None, *values(kind, 1, 2)], "of two values the first stays"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "n"),
        ("revision", "abd"),
        ("dtype", "bfloat16"),
        ("temperature", 0.5),
        ("system_prompt", "Be brief."),
    ],
)
def test_anything_in_the_identity_changes_the_key(kind, tmp_path, name, value):
    with kind.open(tmp_path) as store:
        put(kind, store, 1)
        assert get(kind, store, 1, **{name: value}) == [None]
        reordered = store.get(dict(reversed(IDENTITY.items())), [kind.item(1)])
        assert [kind.plain(one) for one in reordered] == values(kind, 1)


def test_what_is_not_worth_keeping_is_tried_again(tmp_path):
    store = VectorStore(tmp_path)
    vectors = np.array([[1, 0], [np.nan, 0], [0, 0]], dtype=np.float32)
    store.put({}, zip("abc", vectors, strict=True))
    kept, *others = store.get({}, list("abcd"))
    assert kept is not None
    assert others == [None, None, None]


# -- the file ----------------------------------------------------------------------------------------------------------


def test_looking_makes_no_file(kind, tmp_path):
    with kind.open(tmp_path) as store:
        assert get(kind, store, 1) == [None]
        assert len(store) == 0
    assert list(tmp_path.iterdir()) == []


@precious
def test_a_batch_is_kept_whole_or_not_at_all(kind, tmp_path):
    with kind.open(tmp_path) as store:
        bad = Answer("y", prompt_tokens=2**70)  # more than the integers of either database hold
        with pytest.raises((OverflowError, DataError)):
            store.put(IDENTITY, [(kind.item(1), kind.value(1)), (kind.item(2), bad)])
        assert len(store) == 0
        put(kind, store, 1)
        assert len(store) == 1


def test_a_precious_store_is_synced_with_every_batch(tmp_path):
    with AnswerStore(tmp_path / "answers.db") as store, store._connected() as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)


# -- faults ------------------------------------------------------------------------------------------------------------

NO_DATABASE = [
    b"no database at all, but longer than a header" * 40,
    b"SQLite format 3\0" + b"\xff" * 5000,
]


@precious
@pytest.mark.parametrize("damage", NO_DATABASE)
def test_a_damaged_file_of_a_precious_store_is_named_and_left(kind, tmp_path, damage):
    file = tmp_path / "answers.db"
    file.write_bytes(damage)
    message = r"answers\.db: The store of answers is damaged.*Move the file away"
    with pytest.raises(DataError, match=message):
        kind.open(tmp_path)
    assert file.read_bytes() == damage


@caches
@pytest.mark.parametrize("damage", NO_DATABASE)
def test_a_damaged_file_of_a_cache_is_moved_aside(kind, tmp_path, damage):
    store = kind.open(tmp_path)
    store.path.write_bytes(damage)
    assert get(kind, store, 1) == [None]
    put(kind, store, 1)
    assert get(kind, store, 1) == values(kind, 1)
    assert store.path.with_name(f"{store.path.name}.damaged").read_bytes() == damage


@caches
def test_a_value_that_is_none_is_damage(kind, tmp_path):
    store = kind.open(tmp_path)
    put(kind, store, 1)
    column = list(store.columns)[1]
    with sqlite3.connect(store.path) as db:
        db.execute(f"UPDATE {store.table} SET {column} = X'010203'")
    db.close()
    assert get(kind, store, 1) == [None]
    put(kind, store, 1)
    assert get(kind, store, 1) == values(kind, 1)


@precious
@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_cannot_be_written_is_told_before_anything_is_asked(
    kind, tmp_path, is_there, monkeypatch
):
    if is_there:
        with kind.open(tmp_path) as store:
            put(kind, store, 1)
    # The tests may run as a user who may do anything.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(DataError, match=r"answers\.db: .*cannot be used: nothing may be written"):
        kind.open(tmp_path)


@precious
def test_a_newer_store_is_refused(kind, tmp_path):
    with kind.open(tmp_path) as store:
        put(kind, store, 1)
    with sqlite3.connect(store.path) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    with pytest.raises(DataError, match="another version"):
        kind.open(tmp_path)


def test_an_older_store_of_answers_gets_the_column_that_it_lacks(tmp_path):
    kind = KINDS["answers"]
    with kind.open(tmp_path) as store:
        put(kind, store, 1, 2)
    with sqlite3.connect(store.path) as db:
        db.execute("ALTER TABLE answers DROP COLUMN outcomes")
        db.execute("PRAGMA user_version = 1")
        [(key,)] = db.execute("SELECT key FROM answers WHERE prompt LIKE '%1'").fetchall()
    db.close()
    # As it was before there were candidates.
    assert key == "b0a78cf942da178a85d307067f30e362d13e83d65a2a77299e505d85434df179"
    scored = replace(kind.item(1), candidates=Candidates(("owl", "barn owl")))
    answer = Answer("owl", True, outcomes={"owl": -0.1, "…": -2.3521684610440907})
    with kind.open(tmp_path) as store, kind.open(tmp_path) as beside:
        assert get(kind, store, 1, 2, 3) == [*values(kind, 1, 2), None]
        assert store.get(IDENTITY, [scored]) == [None], "a plain answer is none with probabilities"
        beside.put(IDENTITY, [(scored, answer)])
        assert store.get(IDENTITY, [scored, kind.item(1)]) == [answer, *values(kind, 1)]


def test_a_place_that_cannot_be_written_to(kind, tmp_path):
    (tmp_path / "file").write_text("no folder")
    if kind is KINDS["answers"]:
        message = r"cannot be used: .*choose a file that you can write to"
        with pytest.raises(DataError, match=message):
            kind.open(tmp_path / "file")
        return
    store = kind.open(tmp_path / "file")
    put(kind, store, 1)
    assert get(kind, store, 1) == [None]


@precious
def test_a_full_disk_is_named(kind, tmp_path):
    with kind.open(tmp_path) as store:
        put(kind, store, 1)
        with store._connected() as db:
            db.execute("PRAGMA max_page_count = 4")
        large = [(kind.item(i), Answer("x" * 5_000)) for i in range(20)]
        message = r"The store of answers cannot be used: .*full.*Free some space"
        with pytest.raises(DataError, match=message):
            store.put(IDENTITY, large)


# -- several processes -------------------------------------------------------------------------------------------------

_WRITER = """
import sys
from pathlib import Path
from tests.test_store import IDENTITY, KINDS
kind, folder, first, batches = KINDS[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
with kind.open(folder) as store:
    for batch in range(first, first + batches):
        store.put(IDENTITY, [(kind.item(i), kind.value(i)) for i in range(5 * batch, 5 * batch + 5)])
        print(batch, flush=True)
"""


def _writer(kind, folder, first, batches):
    command = [sys.executable, "-c", _WRITER, kind, str(folder), str(first), str(batches)]
    root = Path(__file__).parents[1]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)


@pytest.mark.parametrize("name", ["answers", "images"])
def test_stores_that_begin_a_file_together_all_keep_what_they_have(name, tmp_path):
    kind = KINDS[name]
    together = threading.Barrier(6)

    def write(number, folder):
        together.wait()
        with kind.open(folder) as store:
            store.put(IDENTITY, [(kind.item(number), kind.value(number))])

    # SQLite refuses all but one of those that switch to WAL mode at once, but not every time.
    for attempt in range(8):
        folder = tmp_path / str(attempt)
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(write, range(6), [folder] * 6))
        with kind.open(folder) as store:
            assert get(kind, store, *range(6)) == values(kind, *range(6))


@pytest.mark.parametrize("name", ["answers", "images"])
def test_several_processes_share_a_store(name, tmp_path):
    kind = KINDS[name]
    # Each begins within the batches of the one before: of two values of a key the first stays, whoever has it.
    writers = [_writer(name, tmp_path, 30 * i, 40) for i in range(3)]
    assert [writer.communicate()[0].count("\n") for writer in writers] == [40, 40, 40]
    with kind.open(tmp_path) as store:
        assert len(store) == 500
        assert get(kind, store, *range(500)) == values(kind, *range(500))


def test_a_kill_loses_only_the_batch_in_flight(tmp_path):
    writer = _writer("answers", tmp_path, 0, 100_000)
    for line in writer.stdout:
        if int(line) >= 30:
            break
    time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    last = max([30, *(int(line) for line in writer.stdout if line.endswith("\n"))])
    writer.wait(60)
    with KINDS["answers"].open(tmp_path) as store:
        assert len(store) % 5 == 0  # no half batch
        assert len(store) >= (last + 1) * 5
    with sqlite3.connect(tmp_path / "answers.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


@precious
def test_a_file_that_another_program_has_locked_is_waited_for_and_said(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("taxtune.store._TELL_SECONDS", 0.05)
    with kind.open(tmp_path) as store, showing(Recorder()) as shown:
        put(kind, store, 1)
        with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")

            def note(text):
                """Lets the file go as soon as the user has been told."""
                shown.notes.append(text)
                other.execute("ROLLBACK")

            monkeypatch.setattr(shown, "note", note)
            put(kind, store, 2)
        assert get(kind, store, 1, 2) == values(kind, 1, 2)
    file = tmp_path / "answers.db"
    assert shown.notes == [f"another program has {file} locked; waiting for it, 20 s at most"]


@precious
def test_a_file_that_stays_locked_is_an_error_with_what_to_do(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("taxtune.store._TELL_SECONDS", 0.01)
    monkeypatch.setattr("taxtune.store._WAIT_SECONDS", 0.02)
    with kind.open(tmp_path) as store:
        put(kind, store, 1)
    with closing(sqlite3.connect(tmp_path / "answers.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DataError, match=r"locked.*Close the program that has it open"):
            put(kind, kind.open(tmp_path), 2)


@precious
def test_a_link_is_no_store(kind, tmp_path):
    with closing(sqlite3.connect(tmp_path / "mine.db")) as mine:
        mine.execute("CREATE TABLE diary (day TEXT)")
    before = (tmp_path / "mine.db").read_bytes()
    (tmp_path / "answers.db").symlink_to(tmp_path / "mine.db")
    with pytest.raises(TaxtuneError, match="This is a link"):
        put(kind, kind.open(tmp_path), 1)
    assert (tmp_path / "mine.db").read_bytes() == before
