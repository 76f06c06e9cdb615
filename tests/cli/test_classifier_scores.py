"""`taxtune calibrate SCORES` and `taxtune classify CALIBRATION SCORES`, on scores of a simulated classifier."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest

from tests.classifier.test_scores import TREE, simulated
from tests.cli.commands import run_captured, run_refused, run_well


def write(folder, name, n, seed, *, shuffle=None):
    """Writes scores, with a label that the tree lacks, and the truth; sorted by class, or shuffled."""
    weights, target = simulated(n, seed)
    order = np.argsort(target)
    if shuffle is not None:
        order = np.random.default_rng(shuffle).permutation(n)
    scores = pd.DataFrame((0.9 * weights).round(6), columns=[TREE.labels[v] for v in TREE.leaves])
    scores["background"] = 0.05
    scores.index = pd.Index([f"{i}.jpg" for i in range(n)], name="image")
    truth = pd.Series([TREE.labels[v] for v in target], scores.index, name="species")
    scores.iloc[order].to_csv(folder / f"{name}.csv")
    truth.iloc[order].to_csv(folder / f"{name}-truth.csv", index_label="file")


@pytest.fixture
def here(tmp_path):
    lines = ["path,rank"]
    for node in range(len(TREE)):
        lines.append(f"{'/'.join(TREE.path(node))},{RANKS[TREE.depth[node]]}")
    (tmp_path / "tree.csv").write_text("\n".join(lines) + "\n")
    write(tmp_path, "old", 400, 1)
    write(tmp_path, "new", 300, 2)
    return tmp_path


RANKS = ("class", "family", "species")
TOO_FEW = "400 images cannot show that the risk is kept: even if every answer were right, it takes"
NO_RANK = (
    "The tree has no such rank. (got 'tribe') Its ranks: class, family, species; or give a depth"
)


def calibrate(here, *more):
    command = ["calibrate", "old.csv", "-t", "tree.csv", "--truth=old-truth.csv", "--risk=0.1"]
    return run_captured(*command, *more, folder=here)


def classify(here, *more):
    return run_well("classify", "calibration.json", "new.csv", *more, folder=here)


def test_from_scores_to_labels(here):
    done = calibrate(here, "--confidence-level=0.9", "--by=family")
    assert done.code == 0, done.err
    assert "1 of 13 labels are not on the tree" in done.err
    for name in ("chosen", "argmax", "SpeciesNet's 0.65", "all others"):
        assert name in done.out
    assert "with 90 % confidence, for an hR of" in done.out
    head = next(line.split() for line in done.out.splitlines() if "a node needs" in line)
    assert head[3:9] == ["wrong", "general", "exact", "labels", "wrong,", "%"]
    assert re.search(r"labels given that are wrong: \d+ of \d+ \(\d+\.\d %, \d", done.out)
    assert "already exists" in calibrate(here).err
    labelled = classify(here, "--truth=new-truth.csv")
    assert "300 images with a true label: " in labelled.err
    assert "labels given that are wrong: " in labelled.err
    assert "hP 0.9" in labelled.err
    assert "the risk of 0.1 is kept on these" in labelled.err
    rows = list(csv.DictReader(labelled.out.splitlines()))
    assert list(rows[0]) == ["image", "placement", "rank", "confidence", "failure"]
    assert {row["rank"] for row in rows} <= set(RANKS)
    classify(here, "--out=labels.jsonl")
    lines = [json.loads(line) for line in (here / "labels.jsonl").read_text().splitlines()]
    assert [line["placement"] for line in lines] == [row["placement"] for row in rows]
    assert all(line["nodes"][-1]["confidence"] == line["confidence"] for line in lines)


def test_a_promise_about_labels(here):
    done = calibrate(here, "--promise=labels", "--risk=0.2", "--rank=species", "--out=c.json")
    assert done.code == 0, done.err
    head = next(line for line in done.out.splitlines() if "a node needs" in line)
    assert "labels wrong, %   at most, %      hP      hR   risk at most   verdict" in head
    assert max(map(len, done.out.splitlines()[:16])) <= 120
    promise = "at most 20 % of the labels given (species or deeper) are wrong with 90 % confidence, for an"
    assert promise in done.out
    assert "On these images, labels given that are wrong (species or deeper): " in done.out
    labelled = run_well("classify", "c.json", "new.csv", "--truth=new-truth.csv", folder=here)
    verdict = r"the share of wrong labels \(species or deeper\) is 0\.1\d+ .* risk of 0.2 is kept"
    assert re.search(verdict, labelled.err.replace("\n", " "))


def in_bursts(here, name, column):
    """Adds a column with the number of a burst of two to one of the files."""
    frame = pd.read_csv(here / name)
    image = frame["image" if "image" in frame else "file"]
    frame[column] = image.str.removesuffix(".jpg").astype(int) // 2
    frame.to_csv(here / name, index=False)


@pytest.mark.parametrize("name", ["old.csv", "old-truth.csv"])
def test_groups_are_a_column_of_either_file(name, here):
    in_bursts(here, name, "burst")
    done = calibrate(here, "--group=burst", "--risk=0.2", "--confidence-level=0.9")
    assert done.code == 0, done.err
    assert "burst" not in done.err
    assert "400 images in 200 groups (burst): old.csv" in done.out
    assert re.search(
        r"threshold: per image, without a promise, hP 0\.\d+ and hR 0\.\d+\.\n", done.out
    )
    assert "the mean of 1 - hP per burst is at most 0.2 with 90 % confidence" in done.out
    in_bursts(here, "new.csv", "burst")
    labelled = classify(here, "--truth=new-truth.csv")
    assert "on these, per image and not per burst" in labelled.err.replace("\n", " ")
    done = calibrate(here, "--group=burst", "--risk=0.2", "--by=family", "--force")
    assert re.search(r"Groups of fewer than \d+ bursts, by family", done.out)


def test_groups_of_added_labels_are_read_and_those_without_one_are_told(here):
    """The audit's file has the column of groups, as the file of the other labels has."""
    in_bursts(here, "old-truth.csv", "burst")
    truth = pd.read_csv(here / "old-truth.csv")
    added = truth[:100].rename(columns={"file": "image", "species": "truth"}).assign(weight=1.0)
    truth[100:].to_csv(here / "old-truth.csv", index=False)
    found = []
    for columns in (["image", "truth", "weight", "burst"], ["image", "truth", "weight"]):
        added[columns].to_csv(here / "x-audit.csv", index=False)
        done = calibrate(here, "--add=x-audit.csv", "--group=burst", "--json", "--force")
        said = json.loads(done.out)
        found.append((said["images"], said["units"]))
        told = "100 of 400 images have no burst and count by themselves: " in done.err
        assert told == ("burst" not in columns)
    whole = len(set(truth["burst"]))
    rest = len(set(truth["burst"][100:]))
    assert found == [(400, whole), (400, rest + 100)]


def test_a_promise_about_labels_that_nothing_keeps_says_what_helps(here):
    done = calibrate(here, "--promise=labels", "--risk=0.02", "--out=c.json")
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    # 0.98 to the power of 114 is below 0.1, and a fifth of 142 images choose where tests begin.
    assert "it takes more images, or a larger risk. At best 142 images with labels show it" in said
    least = float(re.search(r"shows on these images is ([\d.]+)\.", said)[1])
    levels = json.loads((here / "c.json").read_text())["levels"][1:]
    assert least == pytest.approx(min(level["labels_bound"] for level in levels), abs=1e-3)


@pytest.mark.parametrize(
    ("pattern", "groups"), [(r"^\d", 10), (r"^\d+(\d)\.|", 11), (r"^(\d+)\d\.|^\d\.", 40)]
)
def test_groups_are_found_in_names(pattern, groups, here):
    done = calibrate(here, f"--group-pattern={pattern}", "--risk=0.6", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["unit"], said["images"]) == ("group", 400)
    # Of "7.jpg" there is no first digit of two: such images are groups of their own.
    assert said["units"] in (groups, groups + 9)


def test_the_order_of_rows_does_not_matter(here):
    options = ["--json", "--confidence-level=0.9"]
    said = json.loads(calibrate(here, *options).out)
    write(here, "old", 400, 1, shuffle=5)
    assert json.loads(calibrate(here, *options, "--force").out) == said
    assert len({level["threshold"] for level in said["levels"]}) == 282
    for level in said["levels"]:
        assert sum(level["outcomes"]["counts"].values()) == 400
    compared = said["compared"]
    assert compared["argmax"]["hr"] > compared["SpeciesNet's 0.65"]["hr"]


def test_images_that_are_in_one_file_alone_are_counted(here):
    truth = here / "old-truth.csv"
    *others, _, last = truth.read_text().splitlines()
    _, label = last.split(",")
    truth.write_text("\n".join([*others, f"x.jpg,{label}"]) + "\n")
    done = calibrate(here)
    assert "2 of 400 images with scores have no label: " in done.err
    assert "1 of 399 images with a label have no scores: 'x.jpg'" in done.err
    assert "398 images: old.csv; 1 more had no answer" in done.out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--risk=0.0001"], TOO_FEW),
        (["--risk=1.5"], "The risk must be between 0 and 1."),
        (["--by=tribe"], NO_RANK),
        (["--promise=labels", "--rank=tribe"], NO_RANK),
        (["--rank=family"], "A rank is for a promise about labels. (got 'family') Add --promise"),
        (["--group=burst"], "No file has the column of groups. (got 'burst')"),
        (["--group-pattern=^(1.*)"], "289 of 400 names do not match the pattern of groups: '"),
        (["--group=species", "--group-pattern=^1"], "in a column or in names, not in both"),
        (["--group-pattern=("], "The pattern of groups is no regular expression"),
        (["--samples=4"], "--samples: only for a run."),
        (["--truth=new.csv"], "It cannot be told which column holds the truths."),
        (["--out=nowhere/there/old.csv"], ""),
    ],
)
def test_what_cannot_be_done_is_told(more, said, here):
    done = calibrate(here, *more)
    assert done.code == (2 if said else 0)
    assert said in done.err.replace("\n", " ")


def test_columns_of_both_files_can_be_named(here):
    truth = here / "old-truth.csv"
    _, *rows = truth.read_text().splitlines()
    lines = ["file,a,b"] + [f"{row},s00" for row in rows]
    truth.write_text("\n".join(lines) + "\n")
    assert "Name it with --truth-column" in calibrate(here).err
    done = calibrate(here, "--truth-column=a", "--image-column=image")
    assert done.code == 0, done.err


def test_names_that_do_not_match_are_told(here):
    truth = here / "old-truth.csv"
    truth.write_text(truth.read_text().replace(".jpg", ".png"))
    assert "None of the images has a true label" in calibrate(here).err


@pytest.mark.parametrize("damage", ['{"format": "taxtune scores 1"', '{"format": "other"}'])
def test_a_damaged_calibration_is_told(damage, here):
    (here / "calibration.json").write_text(damage)
    error = run_refused("classify", "calibration.json", "new.csv", folder=here)
    assert "no calibration of a classifier's scores" in error


def test_options_of_the_other_door_are_refused(here):
    assert calibrate(here).code == 0
    (here / "run").mkdir()
    for command, said in (
        (
            ["classify", "calibration.json", "new.csv", "--policy=direct"],
            "--policy: only for a run.",
        ),
        (["classify", "run", "new.csv", "--score-column=x"], "--score-column: only for"),
        (["calibrate", "run", "--risk=.1", "--by=1"], "--by: only for a file of scores."),
    ):
        assert said in run_refused(*command, folder=here)


def test_frames_that_show_nothing_are_calibrated_and_compared(here):
    header, *rows = (here / "old.csv").read_text().splitlines()
    scores = [f"e{i}.jpg,{','.join(['0.01'] * (header.count(',') - 1))},0.8" for i in range(40)]
    (here / "old.csv").write_text("\n".join([header, *rows, *scores]) + "\n")
    truth = (here / "old-truth.csv").read_text()
    empty = "".join(f"e{i}.jpg,{('Blank', 'false_trigger')[i % 2]}\n" for i in range(40))
    (here / "old-truth.csv").write_text(f"{truth}{empty}u.jpg,unknown\n")
    done = calibrate(here, "--confidence-level=0.9")
    assert "20 of 440 targets: 'Blank' is nothing of the tree" in done.err
    assert "1 of 441 rows are left out: target 'unknown' is not known" in done.err
    said = r"At the chosen threshold: \d+ empty, called something; \d+ something, called empty\."
    assert re.search(said, done.out)
    compared = json.loads((here / "calibration.json").read_text())["compared"]
    counts = compared["argmax"]["outcomes"]["counts"]
    assert counts["empty, called something"] == 0, "every empty frame's highest score is nothing's"
    assert counts["something, called empty"] == 0
    command = ["classify", "calibration.json", "old.csv", "--truth=old-truth.csv"]
    labelled = run_well(*command, folder=here)
    assert "440 images with a true label" in labelled.err
    assert "empty, called something: 0; something, called empty: " in labelled.err
    assert "called" not in classify(here, "--truth=new-truth.csv").err
