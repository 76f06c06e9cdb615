"""`taxtune audit LABELS --of CLASSIFIER`, and what `classify` says of a promise that is broken."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from taxtune.audit.watch import Watch
from tests.classifier.test_scores import TREE
from tests.cli.commands import run_captured, run_json, run_refused, run_well
from tests.cli.test_classifier_scores import RANKS, write

AUDIT = ("audit", "june.csv", "--of=calibration.json")


def label(folder, name, truth):
    """Writes the truths of drawn images, as a person would."""
    file = folder / f"{name}-audit.csv"
    drawn = pd.read_csv(file, dtype=str, keep_default_na=False)
    drawn["truth"] = [truth[image] for image in drawn["image"]]
    drawn.to_csv(file, index=False)


def truths(folder, name):
    table = pd.read_csv(folder / f"{name}-truth.csv")
    return dict(zip(table["file"], table["species"], strict=True))


def others(truth):
    """Returns labels of another family: a classifier that has become useless."""
    labels = [TREE.labels[leaf] for leaf in TREE.leaves]
    return {image: labels[(labels.index(name) + 6) % 12] for image, name in truth.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched")
    lines = ["path,rank"]
    for node in range(len(TREE)):
        lines.append(f"{'/'.join(TREE.path(node))},{RANKS[TREE.depth[node]]}")
    (folder / "tree.csv").write_text("\n".join(lines) + "\n")
    for name, n, seed in (("old", 600, 1), ("june-scores", 1000, 2), ("july-scores", 1000, 3)):
        write(folder, name, n, seed)
    command = ["calibrate", "old.csv", "-t", "tree.csv", "--truth=old-truth.csv", "--risk=0.12"]
    run_well(*command, "--confidence-level=0.9", folder=folder)
    for month in ("june", "july"):
        scores = f"{month}-scores.csv"
        run_well("classify", "calibration.json", scores, f"--out={month}.csv", folder=folder)
    return folder


@pytest.fixture
def here(made, tmp_path):
    for file in made.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_a_promise_that_is_kept_holds_after_some_labels(here):
    said = run_well(*AUDIT, "--n=50", folder=here)
    assert "50 images in june-audit.csv have no truth yet" in said.err
    truth = truths(here, "june-scores")
    for _ in range(8):
        label(here, "june", truth)
        rows = run_json(*AUDIT, "--n=50", "--by=family", folder=here)["tables"]["watch"]
        if rows[0]["promise"] == "holds":
            break
        assert rows[0]["promise"].startswith("not known yet, about ")
    assert rows[0]["promise"] == "holds"
    assert {row["images"] for row in rows} <= {"all", "no family", "f0", "f1", "f2", "f3"}
    assert sum(row["labels"] for row in rows[1:]) == rows[0]["labels"]
    drawn = pd.read_csv(here / "june-audit.csv")
    assert len(drawn) == rows[0]["labels"]
    assert drawn["image"].is_unique
    # Nothing more is drawn from a file once it is known; another file goes on.
    run_well("audit", "july.csv", "--of=calibration.json", "--n=10", folder=here)
    july = pd.read_csv(here / "july-audit.csv")
    # Images of the same name are others there.
    assert len(july) == 10
    assert len(Watch.of(here / "calibration.json").drawn) == len(drawn) + 10


def test_a_broken_promise_is_told_and_labels_back_off(here):
    run_well(*AUDIT, "--n=40", folder=here)
    label(here, "june", others(truths(here, "june-scores")))
    said = run_well(*AUDIT, folder=here)
    assert "the promise is broken since label 1 of 40" in said.err
    classify = ("classify", "calibration.json", "july-scores.csv")
    plain = run_well(*classify, folder=here)
    assert plain.err.count("the promise is broken since label 1 of 40") == 2
    assert "--on-broken back-off ends labels at depth 0" in plain.err
    backed = run_well(*classify, "--on-broken=back-off", "--out=up.csv", folder=here)
    assert "labels end at depth 0, where it is not" in backed.err
    assert set(pd.read_csv(here / "up.csv")["placement"]) == {"life"}


def test_species_that_are_confused_leave_the_family(here):
    run_well(*AUDIT, "--n=60", folder=here)
    wrong = {}
    for image, path in pd.read_csv(here / "june.csv")[["image", "placement"]].values:
        *_, last = path.split("/")
        wrong[image] = f"{last[:-1]}{(int(last[-1]) + 1) % 3}" if last[0] == "s" else last
    label(here, "june", wrong)
    assert "broken" in run_well(*AUDIT, folder=here).out
    run_well(
        *("classify", "calibration.json", "july-scores.csv", "--on-broken=back-off"),
        "--out=up.jsonl",
        folder=here,
    )
    rows = [json.loads(line) for line in (here / "up.jsonl").read_text().splitlines()]
    assert {row["rank"] for row in rows} <= {"class", "family"}
    deepest = next(row for row in rows if row["rank"] == "family")
    assert deepest["placement"].count("/") == 1
    assert deepest["nodes"][-1]["confidence"] == deepest["confidence"]


def test_a_new_calibration_is_watched_anew_and_the_old_evidence_stays(here):
    run_well(*AUDIT, "--n=40", folder=here)
    label(here, "june", others(truths(here, "june-scores")))
    run_well(*AUDIT, folder=here)
    (before,) = here.glob("calibration-watch-*.json")
    calibrate = ["calibrate", "old.csv", "-t", "tree.csv", "--truth=old-truth.csv", "--risk=0.2"]
    run_well(*calibrate, "--force", folder=here)
    said = run_well("classify", "calibration.json", "july-scores.csv", folder=here)
    assert "broken" not in said.err
    assert json.loads(before.read_text())["broken"][-1] > 1


def test_a_calibration_takes_in_what_was_labelled(here):
    run_well(*AUDIT, "--n=200", folder=here)
    label(here, "june", truths(here, "june-scores"))
    lines = (here / "june-scores.csv").read_text().splitlines()
    renamed = [line.replace(".jpg", ".png") for line in lines[1:]]
    both = [*(here / "old.csv").read_text().splitlines(), *renamed]
    (here / "both.csv").write_text("\n".join(both) + "\n")
    asked = here / "june-audit.csv"
    asked.write_text(asked.read_text().replace(".jpg", ".png"))
    calibrate = ("calibrate", "both.csv", "-t", "tree.csv", "--truth=old-truth.csv", "--risk=0.1")
    said = run_well(*calibrate, "--add=june-audit.csv", "--out=new.json", folder=here)
    added = int(re.search(r"(\d+) of 200 labels of june-audit.csv are added", said.err)[1])
    assert 120 < added < 200
    assert f"{600 + added} images: both.csv" in said.out
    error = run_refused(*calibrate, "--add=june.csv", "--out=new.json", folder=here)
    assert "These are no drawn images with weights. Give the file NAME-audit.csv" in error


def test_a_promise_in_labels_is_watched_among_labels(here):
    calibrate = ("calibrate", "old.csv", "-t", "tree.csv", "--truth=old-truth.csv", "--risk=0.2")
    run_well(*calibrate, "--promise=labels", "--force", folder=here)
    run_well(*AUDIT, "--n=60", folder=here)
    label(here, "june", others(truths(here, "june-scores")))
    said = run_well(*AUDIT, folder=here)
    assert "at most 20 % of the labels given are wrong" in said.out
    assert "broken since label 1 of 60" in said.err


def test_truths_may_be_corrected_and_evidence_follows(here):
    run_well(*AUDIT, "--n=40", folder=here)
    truth = truths(here, "june-scores")
    label(here, "june", truth)
    run_well(*AUDIT, "--n=1", folder=here)
    watch = Watch.of(here / "calibration.json")
    label(here, "june", others(truth))
    run_well(*AUDIT, "--n=1", folder=here)
    label(here, "june", truth)
    run_well(*AUDIT, "--n=1", folder=here)
    again = Watch.of(here / "calibration.json")
    before = watch.weigh(watch.labelled).broken
    assert again.weigh(again.labelled).broken[:40] == pytest.approx(before)


def as_a_spreadsheet_saves_it(table):
    """Returns other columns first, semicolons, a byte order mark and CRLF."""
    shuffled = table[sorted(table, reverse=True)]
    return (
        b"\xef\xbb\xbf"
        + shuffled.to_csv(index=False, sep=";", quoting=1, lineterminator="\r\n").encode()
    )


def test_truths_are_read_as_spreadsheets_and_people_write_them(here):
    run_well(*AUDIT, "--n=30", folder=here)
    truth = truths(here, "june-scores")
    label(here, "june", {image: name.upper() for image, name in truth.items()})
    file = here / "june-audit.csv"
    table = pd.read_csv(file, dtype=str)
    table.loc[0, "truth"] = ""
    table.loc[1, "truth"] = "Blank"
    file.write_bytes(as_a_spreadsheet_saves_it(table.drop(index=2)))
    # A row that was removed is one without a truth, and comes back.
    said = run_well(*AUDIT, folder=here)
    assert "2 images in june-audit.csv have no truth yet" in said.err
    again = pd.read_csv(file, dtype=str, keep_default_na=False)
    assert again["image"].tolist() == table["image"].tolist()
    assert (again["truth"] == "").tolist() == [True, False, True, *[False] * 27]


def test_labels_may_be_written_again_and_as_json(here):
    run_well(*AUDIT, "--n=10", folder=here)
    label(here, "june", truths(here, "june-scores"))
    table = pd.read_csv(here / "june.csv")
    (here / "june.csv").write_bytes(as_a_spreadsheet_saves_it(table[::-1]))
    assert (
        "10 images in june-audit.csv have no truth" in run_well(*AUDIT, "--n=10", folder=here).err
    )
    classify = ("classify", "calibration.json", "june-scores.csv", "--out=june.jsonl")
    run_well(*classify, folder=here)
    said = run_well("audit", "june.jsonl", *AUDIT[2:], "--n=10", folder=here)
    assert "10 images in june-audit.csv have no truth yet" in said.err
    assert len(pd.read_csv(here / "june-audit.csv")) == 20


def test_what_nobody_knows_is_left_out_and_nothing_there_is_the_root(here):
    run_well(*AUDIT, "--n=30", folder=here)
    label(here, "june", dict.fromkeys(truths(here, "june-scores"), "unknown"))
    said = run_well(*AUDIT, "--n=5", folder=here)
    assert "5 images in june-audit.csv have no truth yet" in said.err
    label(here, "june", dict.fromkeys(truths(here, "june-scores"), "blank"))
    assert "the promise is broken" in run_well(*AUDIT, folder=here).err


def test_one_image_of_a_group_is_drawn(here):
    table = pd.read_csv(here / "june.csv")
    table["burst"] = np.arange(len(table)) // 10
    table.to_csv(here / "june.csv", index=False)
    run_well(*AUDIT, "--n=500", "--group=burst", folder=here)
    drawn = pd.read_csv(here / "june-audit.csv")
    assert 60 < len(drawn) <= 100
    assert drawn["burst"].is_unique


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (
            "truth",
            "june-audit.csv:2: The truth cannot be used: 'unicorn' is not on the taxonomy",
        ),
        ("image", "june-audit.csv:2: The image was not drawn from the labels as they are now"),
    ],
)
def test_what_cannot_be_taken_over_is_told(cell, said, here):
    run_well(*AUDIT, "--n=10", folder=here)
    drawn = pd.read_csv(here / "june-audit.csv", dtype=str)
    drawn.loc[0, cell] = "unicorn"
    drawn.to_csv(here / "june-audit.csv", index=False)
    error = run_refused(*AUDIT, folder=here)
    assert said in error
    assert "'unicorn'" in error


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["audit", "june.csv"], "for labels with a promise, --of RUN or --of CALIBRATION"),
        ([*AUDIT, "--taxonomy=tree.csv"], "-t: only for answers"),
        (["audit", "june.csv", "-t", "tree.csv", "--by=x"], "--by: only for labels, with --of"),
        (
            [*AUDIT, "--group=burst"],
            "The labels have no such column. (got 'burst') There are none.",
        ),
        (["audit", "tree.csv", "--of=calibration.json"], "The file has no labels"),
    ],
)
def test_what_is_missing_is_told(command, said, here):
    done = run_captured(*command, folder=here)
    assert done.code != 0
    assert said in done.err


def test_a_damaged_watch_is_told(here):
    run_well(*AUDIT, "--n=10", folder=here)
    (file,) = here.glob("calibration-watch-*.json")
    for text in ("{", "[]", '{"drawn": 1}'):
        file.write_text(text)
        error = run_refused(*AUDIT, folder=here)
        assert "This is no watch. Restore it, or move it away" in error


def test_a_group_by_what_is_not_there_is_told_before_images_are_drawn(here):
    error = run_refused(*AUDIT, "--by=camera", folder=here)
    assert "no such column, and the tree has no such rank. (got 'camera')" in error
    assert "Its ranks: class, family, species" in error
    assert not (here / "june-audit.csv").exists()


def test_groups_of_a_column_may_be_asked_for_before_there_is_a_truth(here):
    labels = pd.read_csv(here / "june.csv")
    labels.assign(camera="c1").to_csv(here / "june.csv", index=False)
    run_well(*AUDIT, "--by=camera", folder=here)
    assert set(pd.read_csv(here / "june-audit.csv")["camera"]) == {"c1"}


def test_labels_without_a_value_of_the_column_are_a_group_with_a_name(here):
    labels = pd.read_csv(here / "june.csv")
    camera = ["c1", ""] * len(labels)
    labels.assign(camera=camera[: len(labels)]).to_csv(here / "june.csv", index=False)
    run_well(*AUDIT, "--by=camera", folder=here)
    label(here, "june", truths(here, "june-scores"))
    rows = run_json(*AUDIT, "--by=camera", folder=here)["tables"]["watch"]
    assert {row["images"] for row in rows} == {"all", "c1", "no camera"}
