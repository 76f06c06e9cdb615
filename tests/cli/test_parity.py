from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.commands import run_captured


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    (folder / "more").mkdir(parents=True)
    for number, name in enumerate(("a.png", "b.jpg", "more/c.png")):
        Image.new("RGB", (64, 64), (80 * number, 120, 40)).save(folder / name)
    (folder / "notes.txt").write_text("no image")
    return folder


def test_every_way_is_listed_with_what_differs(images: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("What is this?\n\nName it, or its family.\nWhat is this?\n")
    command = ["parity", "builtin:fieldguide", images, "--prompts", prompts, "--batch-size", 2, "--dtype", "float32"]
    done = run_captured(*command, "--json", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    record = json.loads(done.out)
    rows = record["tables"]["parity"]
    assert [row["asked"] for row in rows] == ["one by one", "in batches", "in batches, images kept"]
    assert [(row["batch size"], row["failed"], row["differ"]) for row in rows] == [(1, 0, None), (2, 0, 0), (2, 0, 0)]
    assert record["settings"] | {"images": 3, "dtype": "float32", "batch_size": 2} == record["settings"]
    assert "6 questions to builtin:fieldguide in float32" in (tmp_path / "out" / "parity.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{images}", "--prompts", "{images}/lost.txt"], "The prompts cannot be read"),
        (["{images}", "--prompts", "{empty}"], "The file has no prompts"),
        (["{images}/lost.png"], "The image does not exist"),
        (["{images}/nothing"], "The folder contains no images"),
        (["{images}", "--dtype", "float7"], "Unknown dtype"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: list[str], said: str, images: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    (images / "nothing").mkdir()
    given = [argument.format(images=images, empty=tmp_path / "empty.txt") for argument in arguments]
    done = run_captured("parity", "builtin:fieldguide", *given)
    assert done.code == 2
    assert said in done.err
