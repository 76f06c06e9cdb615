"""What the tests of studies start from: a command to run, a folder with a tree of birds, a tiny CLIP model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.studies.study import Study
from tests.tiny_text_models import make_clip

BIRDS = """path,aliases
life/bird,birds
life/bird/duck/mallard,
life/bird/thrush/Turdus merula,blackbird
life/bird/thrush/American robin,
"""


@pytest.fixture
def study(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Study:
    """`taxtune study NAME`, where NAME is the test module's STUDY."""
    return Study(request.module.STUDY, monkeypatch, capsys)


@pytest.fixture
def birds_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with tree.csv: four levels, a duck and two thrushes."""
    (tmp_path / "tree.csv").write_text(BIRDS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A CLIP model of two layers with random weights, as `--model` takes it."""
    pytest.importorskip("open_clip")
    return make_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often CLIP models have encoded images and texts."""
    network = pytest.importorskip("open_clip").CLIP
    calls = {"encode_image": 0, "encode_text": 0}

    def counted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            calls[name] += 1
            return real(*arguments, **options)

        return call

    for name in calls:
        monkeypatch.setattr(network, name, counted(name, getattr(network, name)))
    return calls
