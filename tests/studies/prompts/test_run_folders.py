"""Tests of reading prompts from the folders of finished runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taxtune.errors import DataError
from taxtune.metrics import precision_recall, score
from taxtune.studies.prompts.run_folders import read_run
from taxtune.taxonomy import Taxonomy


def row(birds: Taxonomy, example: str, target: int, node: int | None) -> dict[str, Any]:
    hp = hr = None
    if node is not None:
        p, r = precision_recall(birds, [node], [target])
        hp, hr = float(p[0]), float(r[0])
    return {
        "example": example,
        "truth": "/".join(birds.path(target)),
        "placement": None if node is None else "/".join(birds.path(node)),
        "hp": hp,
        "hr": hr,
        "abstained": node == 0,
    }


def write_run(folder: Path, birds: Taxonomy, prompts: dict[str, list[int | None]], **changes: Any) -> Path:
    targets = [4, 8, 5]
    held = [
        {
            "name": name,
            "template": f"{name}?",
            "rows": [
                row(birds, f"e{i}", target, node) for i, (target, node) in enumerate(zip(targets, nodes, strict=True))
            ],
        }
        for name, nodes in prompts.items()
    ]
    # The rows of a later template may come in another order: examples are matched by their ids.
    held[-1]["rows"] = held[-1]["rows"][::-1]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps({"heldout": held} | changes), encoding="utf-8")
    return folder


def test_a_run_is_read_with_the_tree_of_its_paths(tmp_path: Path, birds: Taxonomy) -> None:
    run = read_run(write_run(tmp_path / "run", birds, {"baseline": [4, 5, 0], "hp": [3, None, 1]}))
    assert list(run.prompts) == ["baseline", "hp"]
    assert run.texts == {"baseline": "baseline?", "hp": "hp?"}
    assert [prompt.abstained for prompt in run.prompts.values()] == [1, 0]
    assert run.prompts["hp"].known.tolist() == [True, False, True]
    expected = score(birds, [4, 5, 0], [4, 8, 5])
    assert score(run.taxonomy, run.prompts["baseline"].nodes, run.targets) == expected
    jets = Taxonomy(["plane", "F/A-18", "F/A-18 C", "DC-3", "x", "y", "z", "w", "v"], [-1, 0, 1, 0, 3, 3, 0, 0, 7])
    with pytest.raises(DataError, match="slashes"):
        read_run(write_run(tmp_path / "jets", jets, {"baseline": [2, 1, 3], "hp": [3, 2, 1]}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a result of taxtune"),
        ("[]", "not a result of taxtune"),
        ('{"heldout": []}', "no templates on held-out"),
        ('{"heldout": [{"name": "a"}, {"name": "b"}]}', "not a result of taxtune.*heldout.0.template"),
        ('{"heldout": [{"name": "a", "template": "t", "rows": 3}]}', "not a result of taxtune.*heldout.0.rows"),
    ],
)
def test_folders_that_hold_no_finished_run(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match="no finished run"):
        read_run(tmp_path)
    (tmp_path / "result.json").write_text(text, "utf-8")
    with pytest.raises(DataError, match=message):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("placement", ["x"], "not a result of taxtune"),
        ("hp", float("nan"), "do not give the run's hP"),
        ("example", "another", "different images"),
    ],
)
def test_a_record_that_was_changed_is_refused(
    tmp_path: Path, birds: Taxonomy, key: str, value: object, message: str
) -> None:
    folder = write_run(tmp_path / "run", birds, {"baseline": [4, 5, 0], "hp": [3, 2, 1]})
    result = json.loads((folder / "result.json").read_text("utf-8"))
    result["heldout"][0]["rows"][0][key] = value
    (folder / "result.json").write_text(json.dumps(result), "utf-8")
    with pytest.raises(DataError, match=message):
        read_run(folder)
