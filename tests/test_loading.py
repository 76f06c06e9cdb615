from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from taxtune.errors import ModelError
from taxtune.loading import downloading, explain_load_error, quiet_progress
from taxtune.progress import Display, Task, showing


def _named(name: str, message: str = "") -> Exception:
    kind: type[Exception] = type(name, (Exception,), {})
    return kind(message)


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (
            _named("GatedRepoError"),
            r"licence.*Accept it at https://huggingface\.co/org/model and run .*hf auth login",
        ),
        (_named("RepositoryNotFoundError"), "no model 'org/model' on Hugging Face, or it is private"),
        (_named("RevisionNotFoundError"), "does not have this revision"),
        (_named("LocalEntryNotFoundError"), "cannot be reached.*hf download org/model"),
        (_named("OfflineModeIsEnabled"), "cannot be reached"),
        (
            ImportError("Package `num2words` is required"),
            "is missing: .*num2words.*Install it",
        ),
        (ValueError("Transformers does not recognize this architecture."), "Upgrade it"),
        (ValueError("odd\nvery odd"), "cannot be loaded: outer"),
    ],
)
def test_load_errors_say_what_to_do(cause: Exception, message: str) -> None:
    try:
        try:
            raise cause
        except Exception as inner:
            raise OSError("outer") from inner
    except OSError as error:
        explained = explain_load_error("org/model", error, "configuration")
    assert type(explained) is ModelError
    assert re.search(message, str(explained)), str(explained)


@pytest.mark.parametrize("shown", [True, False])
def test_bars_are_as_they_were_afterwards(shown: bool) -> None:
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    try:
        (logging.enable_progress_bar if shown else logging.disable_progress_bar)()
        with quiet_progress():
            assert not logging.is_progress_bar_enabled()
        assert logging.is_progress_bar_enabled() is shown
    finally:
        (logging.enable_progress_bar if before else logging.disable_progress_bar)()


def test_how_much_of_a_download_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = tmp_path / "models--org--model" / "blobs"
    blobs.mkdir(parents=True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    came = threading.Event()
    told: list[tuple[str, int, int | None, bool]] = []

    class Shown(Display):
        def update(self, task: Task) -> None:
            told.append((task.what, task.done, task.total, task.once))
            if task.done == 7:
                came.set()

    def grow(name: str, size: int) -> None:
        with (blobs / name).open("wb") as file:
            file.truncate(size)

    grow("before", 30 * 10**6)
    with showing(Shown()), downloading("org/model", every=0.001):
        grow("shard.incomplete", 7_900_000)
        assert came.wait(30)
    assert told[0] == ("downloading org/model, MB", 0, None, True)
    assert told[-1][1] == 7


def test_a_download_into_a_cache_that_is_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "none"))
    with pytest.raises(ZeroDivisionError), downloading("org/model"):
        raise ZeroDivisionError
