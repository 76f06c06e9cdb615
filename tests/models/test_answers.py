from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from taxtune.errors import DataError
from taxtune.models import Answer, AnswerStore, Identity, ModelSettings, Request, make_model
from taxtune.models.answers import answer_key

IDENTITY: Identity = {"kind": "local", "model": "m", "revision": "abc", "dtype": "float32", "temperature": 0.0}
REQUEST = Request("What bird?", Path("a.jpg"), "f" * 64)


@pytest.fixture
def store(tmp_path: Path) -> AnswerStore:
    return AnswerStore(tmp_path / "answers.db")


def test_an_answer_comes_back_as_it_was_and_marked_as_cached(store: AnswerStore) -> None:
    answer = Answer("A: a robin 🐦.", False, 12, 5, 0.002, 1.5)
    store.put(IDENTITY, [(REQUEST, answer)])
    assert store.get(IDENTITY, [REQUEST]) == [replace(answer, cached=True)]
    assert len(store) == 1


def test_an_empty_text_and_an_unknown_cost_are_kept(store: AnswerStore) -> None:
    store.put(IDENTITY, [(REQUEST, Answer(""))])
    assert store.get(IDENTITY, [REQUEST]) == [Answer("", cached=True)]


@pytest.mark.parametrize(
    ("name", "value"),
    [("model", "n"), ("revision", "abd"), ("dtype", "bfloat16"), ("temperature", 0.5), ("system_prompt", "Be brief.")],
)
def test_anything_in_the_identity_changes_the_key(store: AnswerStore, name: str, value: str | float) -> None:
    store.put(IDENTITY, [(REQUEST, Answer("x"))])
    assert store.get({**IDENTITY, name: value}, [REQUEST]) == [None]


def test_prompt_and_content_change_the_key_and_the_file_name_does_not(store: AnswerStore) -> None:
    store.put(IDENTITY, [(REQUEST, Answer("x"))])
    others = [
        replace(REQUEST, prompt="What bird? "),
        replace(REQUEST, image_sha256="e" * 64),
        replace(REQUEST, image=Path("elsewhere/b.png")),
    ]
    assert [a and a.text for a in store.get(IDENTITY, others)] == [None, None, "x"]


def test_the_schema_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = answer_key(IDENTITY, REQUEST)
    monkeypatch.setattr("taxtune.models.answers.SCHEMA_VERSION", 99)
    assert answer_key(IDENTITY, REQUEST) != before


def test_the_key_does_not_depend_on_the_order_of_the_identity() -> None:
    assert answer_key(dict(reversed(IDENTITY.items())), REQUEST) == answer_key(IDENTITY, REQUEST)


def test_answers_of_earlier_versions_are_found() -> None:
    """Keys as the stores of version 0.1 hold them."""
    request = Request("What bird?", Path("a.jpg"), "f" * 64)
    key = answer_key({"kind": "local", "model": "m", "temperature": 0.0}, request)
    assert key == "87fa24802035b84314d33d75c53b0fff1488e0eb1a51bba3051a53842eef50d8"
    api = make_model("openai/gpt-4o", ModelSettings(api_base="http://u:p@host/v1")).identity
    assert answer_key(api, request) == "030cbbfc1252af6866445502a1b532d12fb4f619d89136a493eb13cd9f713241"
    text = make_model("openai/gpt-4o-mini", ModelSettings(task="text-generation", max_tokens=256)).identity
    key = answer_key(text, Request("Is it?"))
    assert key == "efa1de9d0962c986bf8550a92d07c542ead50bbda709a54a8bb42fe8a9e91a44"


def test_the_first_of_two_answers_stays(store: AnswerStore) -> None:
    store.put(IDENTITY, [(REQUEST, Answer("first"))])
    store.put(IDENTITY, [(REQUEST, Answer("second"))])
    (kept,) = store.get(IDENTITY, [REQUEST])
    assert kept is not None
    assert kept.text == "first"


def test_half_a_surrogate_pair_does_not_break_the_batch(store: AnswerStore) -> None:
    store.put(IDENTITY, [(replace(REQUEST, prompt="\ud83d"), Answer("a \ud83d bird")), (REQUEST, Answer("x"))])
    assert [a and a.text for a in store.get(IDENTITY, [replace(REQUEST, prompt="\ud83d"), REQUEST])] == [
        "a ? bird",
        "x",
    ]


def test_more_questions_than_one_query_takes(store: AnswerStore) -> None:
    questions = [replace(REQUEST, prompt=str(i)) for i in range(1_203)]
    store.put(IDENTITY, [(q, Answer(q.prompt)) for q in questions[::2]])
    found = store.get(IDENTITY, questions)
    assert [a and a.text for a in found] == [q.prompt if i % 2 == 0 else None for i, q in enumerate(questions)]


def test_a_batch_is_kept_whole_or_not_at_all(store: AnswerStore) -> None:
    bad = Answer("y", prompt_tokens=2**70)  # more than SQLite's integers hold
    with pytest.raises((DataError, OverflowError)):
        store.put(IDENTITY, [(REQUEST, Answer("x")), (replace(REQUEST, prompt="b"), bad)])
    assert len(store) == 0
    store.put(IDENTITY, [(REQUEST, Answer("x"))])
    assert len(store) == 1


def test_it_is_synced_and_readable_with_other_tools(store: AnswerStore) -> None:
    store.put(IDENTITY, [(REQUEST, Answer("x", prompt_tokens=3))])
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    row = sqlite3.connect(store.path).execute("SELECT model, prompt, answer, prompt_tokens FROM answers").fetchone()
    assert row == ("m", "What bird?", "x", 3)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "answers.db"
    file.write_bytes(b"not a database at all" * 100)
    with pytest.raises(DataError, match=r"answers\.db: The answer store is damaged.*Move the file away"):
        AnswerStore(file)
    assert file.read_bytes().startswith(b"not a database")


def test_a_damaged_page_is_named(tmp_path: Path) -> None:
    file = tmp_path / "answers.db"
    with AnswerStore(file) as store:
        store.put(IDENTITY, [(replace(REQUEST, prompt=str(i)), Answer("x" * 200)) for i in range(100)])
    data = bytearray(file.read_bytes())
    data[4096 : 4096 * 6] = os.urandom(4096 * 5)
    file.write_bytes(data)
    with AnswerStore(file) as store, pytest.raises(DataError, match="damaged"):
        store.get(IDENTITY, [replace(REQUEST, prompt=str(i)) for i in range(100)])


def test_another_programs_table_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as db:
        db.execute("CREATE TABLE answers (id INTEGER, text TEXT)")
    with pytest.raises(DataError, match="another version of taxtune, or another program's"):
        AnswerStore(file)


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    with AnswerStore(file) as store:
        store.put(IDENTITY, [(REQUEST, Answer("x"))])
        store._db.execute("PRAGMA user_version = 7")
    with pytest.raises(DataError, match="another version"):
        AnswerStore(file)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be opened for writing"):
        AnswerStore(tmp_path / "file" / "answers.db")


def test_a_full_disk_is_named(store: AnswerStore) -> None:
    store._db.execute("PRAGMA max_page_count = 4")
    with pytest.raises(DataError, match="The disk is full"):
        store.put(IDENTITY, [(replace(REQUEST, prompt=str(i)), Answer("x" * 5_000)) for i in range(20)])


_WRITER = """
import sys
from pathlib import Path
from taxtune.models import Answer, AnswerStore, Request
name = sys.argv[2]
with AnswerStore(sys.argv[1]) as store:
    for i in range(int(sys.argv[3])):
        store.put({"model": "m"}, [(Request(f"{name} {i} {j}", Path("a"), "f"), Answer("x" * 50)) for j in range(5)])
        print(i, flush=True)
"""


def _writer(file: Path, name: str, batches: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(file), name, str(batches)], stdout=subprocess.PIPE, text=True
    )


def test_a_store_that_never_got_an_answer_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    AnswerStore(file).close()
    assert list(tmp_path.iterdir()) == []
    with AnswerStore(file) as first:
        AnswerStore(file).close()
        first.put(IDENTITY, [(REQUEST, Answer("x"))])
    AnswerStore(file).close()
    with AnswerStore(file) as again:
        assert len(again) == 1, "neither a second store nor a later one removes what is in use or has answers"


def test_several_processes_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "answers.db"
    writers = [_writer(file, name, 40) for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    with AnswerStore(file) as store:
        assert len(store) == 3 * 40 * 5


def test_a_kill_loses_only_the_batch_in_flight(tmp_path: Path) -> None:
    file = tmp_path / "answers.db"
    writer = _writer(file, "a", 100_000)
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) >= 30:
            break
    time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    reported = [int(line) for line in writer.stdout if line.endswith("\n")]
    writer.wait(60)
    last = max([30, *reported])
    with AnswerStore(file) as store:
        assert len(store) % 5 == 0  # no half batch
        assert len(store) >= (last + 1) * 5
        assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
