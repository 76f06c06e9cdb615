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
        "target": target,
        "truth": "/".join(birds.path(target)),
        "node": node,
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


def test_a_run_is_read_with_and_without_its_taxonomy(tmp_path: Path, birds: Taxonomy) -> None:
    folder = write_run(tmp_path / "run", birds, {"baseline": [4, 5, 0], "hp": [3, None, 1]})
    for tree in (None, birds):
        run = read_run(folder, tree)
        assert list(run.prompts) == ["baseline", "hp"]
        assert run.texts == {"baseline": "baseline?", "hp": "hp?"}
        assert [prompt.abstained for prompt in run.prompts.values()] == [1, 0]
        assert run.prompts["hp"].known.tolist() == [True, False, True]
        expected = score(birds, [4, 5, 0], [4, 8, 5])
        assert score(run.taxonomy, run.prompts["baseline"].nodes, run.targets) == expected


def test_another_taxonomy_is_detected(tmp_path: Path, birds: Taxonomy) -> None:
    folder = write_run(tmp_path / "run", birds, {"baseline": [4, 5, 0], "hp": [3, 2, 1]})
    flat = Taxonomy(["life", *"abcdefgh"], [-1, *[0] * 8])
    with pytest.raises(DataError, match="do not give the run's hP and hR"):
        read_run(folder, flat)
    with pytest.raises(DataError, match="not the run's taxonomy"):
        read_run(folder, flat.subtree(0).subtree(1))


def test_labels_with_slashes_need_the_taxonomy(tmp_path: Path) -> None:
    jets = Taxonomy(["plane", "F/A-18", "F/A-18 C", "DC-3", "x", "y", "z", "w", "v"], [-1, 0, 1, 0, 3, 3, 0, 0, 7])
    folder = write_run(tmp_path / "run", jets, {"baseline": [2, 1, 3], "hp": [3, 2, 1]})
    with pytest.raises(DataError, match=r"slashes.*--taxonomy"):
        read_run(folder)
    assert read_run(folder, jets).targets.tolist() == [4, 8, 5]


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
        ("target", -5, "not the run's taxonomy"),
        ("node", -2, "not the run's taxonomy"),
        ("target", 99, "not the run's taxonomy"),
        ("target", float("nan"), "not a result of taxtune"),
        ("node", "x", "not a result of taxtune"),
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
        read_run(folder, birds)
