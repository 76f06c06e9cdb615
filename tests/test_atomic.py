from __future__ import annotations

import errno
import io
import json
import os

import pytest

from taxtune import atomic
from taxtune.errors import TaxtuneError


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_writes_whole_files_and_leaves_no_temporary_behind(tmp_path):
    atomic.write_text(tmp_path / "a.txt", "Ärger\r\n")
    atomic.write_json(tmp_path / "deep" / "b.json", {"name": "Größe", "value": 1.5})
    assert (tmp_path / "a.txt").read_bytes() == "Ärger\r\n".encode()
    assert json.loads((tmp_path / "deep" / "b.json").read_text(encoding="utf-8")) == {
        "name": "Größe",
        "value": 1.5,
    }
    assert files(tmp_path) == ["a.txt", "deep"]
    assert files(tmp_path / "deep") == ["b.json"]


def test_lone_surrogates_are_written_escaped(tmp_path):
    atomic.write_text(tmp_path / "a.txt", "bird \udce9")
    assert (tmp_path / "a.txt").read_bytes() == b"bird \\udce9"


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_full_disk_keeps_the_old_file_and_leaves_nothing_else(tmp_path, monkeypatch, step):
    target = tmp_path / "result.json"
    atomic.write_json(target, {"old": True})

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if step == "write":

        class Full:
            def __init__(self, handle, mode):
                self.handle = handle

            def __enter__(self):
                return self

            def __exit__(self, *args):
                os.close(self.handle)

            write = full

        monkeypatch.setattr(atomic.os, "fdopen", Full)
    else:
        monkeypatch.setattr(atomic.os, step, full)
    with pytest.raises(TaxtuneError, match=r"result\.json: No space left.*--out"):
        atomic.write_json(target, {"old": False})
    monkeypatch.undo()
    assert json.loads(target.read_text()) == {"old": True}
    assert files(tmp_path) == ["result.json"]


@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.EROFS, "Read-only"), (errno.EACCES, "Permission denied")],
)
def test_every_refusal_names_file_and_remedy(tmp_path, monkeypatch, code, words):
    def refuse(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(atomic.os, "open", refuse)
    for attempt in (
        lambda: atomic.write_text(tmp_path / "a", "x"),
        lambda: atomic.make_folder(tmp_path),
    ):
        with pytest.raises(TaxtuneError, match=words) as caught:
            attempt()
        assert str(tmp_path) in str(caught.value)
        assert "--out" in str(caught.value)


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "diary.txt").write_text("mine")
    for name, target in (("report.html", "diary.txt"), ("winner.txt", "nowhere.txt")):
        (tmp_path / name).symlink_to(tmp_path / target)
        atomic.write_text(tmp_path / name, "new")
        assert (tmp_path / name).read_text() == "new"
        assert not (tmp_path / name).is_symlink()
    assert (tmp_path / "diary.txt").read_text() == "mine"
    assert files(tmp_path) == ["diary.txt", "report.html", "winner.txt"]


def test_what_is_no_file_is_left_alone(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for name in ("pipe", "link"):
        with pytest.raises(TaxtuneError, match="This is no file"):
            atomic.write_text(tmp_path / name, "new")
    assert files(tmp_path) == ["link", "pipe"]


def test_a_full_disk_that_is_looked_at_has_nothing_left_on_it(tmp_path, monkeypatch):
    class Full(io.FileIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, "fdopen", Full)
    for look in (atomic.check_folder, atomic.make_folder):
        with pytest.raises(TaxtuneError, match="No space left"):
            look(tmp_path)
    assert files(tmp_path) == []
