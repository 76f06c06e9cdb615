"""`taxtune calibrate SCORES` and `taxtune classify CALIBRATION SCORES`, on scores of a simulated classifier."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.classifier.test_scores import TREE, simulated
from tests.cli.commands import Done, run_captured


def write(folder: Path, name: str, n: int, seed: int, *, shuffle: int | None = None) -> None:
    """Writes scores, with a label that the tree lacks, and the truth; sorted by class, or shuffled."""
    weights, target = simulated(n, seed)
    order = np.argsort(target) if shuffle is None else np.random.default_rng(shuffle).permutation(n)
    leaves = [TREE.labels[leaf] for leaf in TREE.leaves]
    with (
        (folder / f"{name}.csv").open("w", newline="") as scores,
        (folder / f"{name}-truth.csv").open("w") as truth,
    ):
        csv.writer(scores).writerow(["image", *leaves, "background"])
        truth.write("file,species\n")
        for i in order.tolist():
            csv.writer(scores).writerow([f"{i}.jpg", *(0.9 * weights[i]).round(6), 0.05])
            truth.write(f"{i}.jpg,{TREE.labels[target[i]]}\n")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "tree.csv").write_text(
        "path,rank\n"
        + "".join(f"{'/'.join(TREE.path(v))},{RANKS[TREE.depth[v]]}\n" for v in range(len(TREE)))
    )
    write(tmp_path, "old", 400, 1)
    write(tmp_path, "new", 300, 2)
    return tmp_path


RANKS = ("class", "family", "species")


def calibrate(here: Path, *more: object, scores: str = "old.csv", risk: float = 0.1) -> Done:
    truth = f"--truth={scores.replace('.csv', '')}-truth.csv"
    return run_captured(
        "calibrate", scores, "-t", "tree.csv", truth, f"--risk={risk}", *more, folder=here
    )


def test_from_scores_to_labels(here: Path) -> None:
    done = calibrate(here, "--confidence-level=0.9", "--by=family")
    assert done.code == 0, done.err
    assert "1 of 13 labels are not on the tree" in done.err
    for said in (
        "chosen",
        "argmax",
        "SpeciesNet's 0.65",
        "all others",
        "with a confidence of 0.9, for an hR of",
    ):
        assert said in done.out
    assert "already exists" in calibrate(here).err
    labelled = run_captured(
        "classify", "calibration.json", "new.csv", "--truth=new-truth.csv", folder=here
    )
    assert labelled.code == 0, labelled.err
    assert "300 images with a true label: hP 0.9" in labelled.err
    assert "the risk of 0.1 is kept on these" in labelled.err
    rows = list(csv.DictReader(labelled.out.splitlines()))
    assert list(rows[0]) == ["image", "placement", "rank", "confidence", "failure"]
    assert {row["rank"] for row in rows} <= set(RANKS)
    again = run_captured(
        "classify", "calibration.json", "new.csv", "--out=labels.jsonl", folder=here
    )
    assert again.code == 0, again.err
    lines = [json.loads(line) for line in (here / "labels.jsonl").read_text().splitlines()]
    assert [line["placement"] for line in lines] == [row["placement"] for row in rows]
    assert all(line["nodes"][-1]["confidence"] == line["confidence"] for line in lines)


def test_the_order_of_rows_does_not_matter(here: Path) -> None:
    said = json.loads(calibrate(here, "--json", "--confidence-level=0.9").out)
    write(here, "old", 400, 1, shuffle=5)
    assert json.loads(calibrate(here, "--json", "--confidence-level=0.9", "--force").out) == said
    assert len({level["threshold"] for level in said["levels"]}) == 282
    assert said["compared"]["argmax"]["hr"] > said["compared"]["SpeciesNet's 0.65"]["hr"]


def test_images_that_are_in_one_file_alone_are_counted(here: Path) -> None:
    truth = (here / "old-truth.csv").read_text().splitlines()
    (here / "old-truth.csv").write_text(
        "\n".join([*truth[:-2], "x.jpg," + truth[-1].split(",")[1]]) + "\n"
    )
    done = calibrate(here)
    assert "2 of 400 images with scores have no label: " in done.err
    assert "1 of 399 images with a label have no scores: 'x.jpg'" in done.err
    assert "398 images: old.csv; 1 more had no answer" in done.out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            ["--risk=0.0001"],
            "400 images cannot show that the risk is kept: even if every answer were right, it takes",
        ),
        (["--risk=1.5"], "The risk must be between 0 and 1."),
        (
            ["--by=tribe"],
            "The tree has no such rank. (got 'tribe') Its ranks: class, family, species; or give a depth",
        ),
        (["--samples=4"], "--samples: only for a run."),
        (["--truth=new.csv"], "It cannot be told which column holds the truths."),
        (["--out=nowhere/there/old.csv"], ""),
    ],
)
def test_what_cannot_be_done_is_told(more: list[str], said: str, here: Path) -> None:
    done = calibrate(here, *more)
    assert done.code == (2 if said else 0)
    assert said in done.err.replace("\n", " ")


def test_columns_of_both_files_can_be_named(here: Path) -> None:
    rows = (here / "old-truth.csv").read_text().splitlines()
    (here / "old-truth.csv").write_text(
        "\n".join(["file,a,b", *(f"{row},s00" for row in rows[1:])]) + "\n"
    )
    assert "Name it with --truth-column" in calibrate(here).err
    done = calibrate(here, "--truth-column=a", "--image-column=image")
    assert done.code == 0, done.err


def test_names_that_do_not_match_are_told(here: Path) -> None:
    text = (here / "old-truth.csv").read_text()
    (here / "old-truth.csv").write_text(text.replace(".jpg", ".png"))
    assert "they are called differently" in calibrate(here).err


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ('{"format": "taxtune scores 1"', "no calibration of a classifier's scores"),
        ('{"format": "other"}', "no calibration of a classifier's scores"),
    ],
)
def test_a_damaged_calibration_is_told(damage: str, said: str, here: Path) -> None:
    (here / "calibration.json").write_text(damage)
    done = run_captured("classify", "calibration.json", "new.csv", folder=here)
    assert done.code == 2
    assert said in done.err


def test_options_of_the_other_door_are_refused(here: Path) -> None:
    assert calibrate(here).code == 0
    done = run_captured("classify", "calibration.json", "new.csv", "--policy=direct", folder=here)
    assert "--policy: only for a run." in done.err
    (here / "run").mkdir()
    assert (
        "--truth: only for"
        in run_captured("classify", "run", "new.csv", "--truth=x", folder=here).err
    )
    assert (
        "--by: only for a file of scores."
        in run_captured("calibrate", "run", "--risk=.1", "--by=1", folder=here).err
    )
