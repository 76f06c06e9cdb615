"""`taxtune classify` on a run of the embedded field guide."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

import taxtune
from taxtune.classifier.classifier import COLUMNS
from taxtune.cli.classify import named_classifier
from taxtune.fieldguide import MANIFEST_FILE, export
from taxtune.report.gallery import small_jpeg
from tests.cli.commands import run_captured, run_well

SMALL = "data.count=60 data.tuning=6 data.first_rung=6 data.heldout=40 iterations=1"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    settings = [f"--set={each}" for each in (*SMALL.split(), "tracking.mlflow=false")]
    run_well("tune", "fieldguide", *settings, "--out=run", folder=folder)
    return folder / "run"


@pytest.fixture
def here(made, tmp_path):
    """A folder with run/, and photos/ of which one is broken and one lies deeper."""
    shutil.copytree(made, tmp_path / "run")
    shutil.copy(made.parent / "answers.db", tmp_path)
    photos = tmp_path / "photos"
    (photos / "more").mkdir(parents=True)
    for i in range(5):
        shutil.copy(MANIFEST_FILE.parent / "images" / f"0000{i}.png", photos / f"{i}.png")
    shutil.copy(photos / "0.png", photos / "more" / "copy.png")
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff no image")
    (photos / "readme.md").write_text("Not an image.")
    return tmp_path


def classify(folder, *arguments, stdin=b""):
    return run_captured("classify", "run", *arguments, folder=folder, stdin=stdin)


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def read(file):
    if file.suffix == ".csv":
        return [*table(file.read_text())]
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_folder_is_labelled_with_every_image_in_it(here):
    done = classify(here, "photos", "--out", "labels.csv")
    assert done.code == 0, done.err
    assert done.out == ""
    rows = read(here / "labels.csv")
    assert tuple(rows[0]) == COLUMNS
    names = ["0.png", "1.png", "2.png", "3.png", "4.png", "broken.jpg", "more/copy.png"]
    assert [row["image"] for row in rows] == [f"photos/{name}" for name in names]
    by_name = {Path(row["image"]).name: row for row in rows}
    (found,) = taxtune.load_classifier(here / "run").classify([here / "photos" / "0.png"])
    for name in ("0.png", "copy.png"):
        row = by_name[name]
        assert row["placement"] == found.placement
        assert row["rank"] == found.rank
        assert row["answer"] == found.answer
        assert float(row["confidence"]) == pytest.approx(found.confidence, abs=1e-4)
    broken = by_name["broken.jpg"]
    assert (broken["placement"], broken["confidence"], broken["answer"]) == ("", "", "")
    assert "This is not an image" in broken["failure"]
    review = read(here / "labels-review.csv")
    assert [(review[0]["why"], review[0]["image"])] == [("failed", "photos/broken.jpg")]
    assert "7 images: " in done.err
    assert "1 to review: 1 failed" in done.err
    assert "labels-review.csv, the least sure first" in done.err


def test_a_photo_of_a_phone_has_a_row_and_a_note_where_nothing_reads_it(here, monkeypatch):
    monkeypatch.setattr("taxtune.images._formats", lambda: ("PNG",))
    (here / "photos" / "phone.HEIC").write_bytes(b"\0\0\0\x1cftypheic" + bytes(99))
    done = classify(here, "photos", "--out", "labels.csv")
    (row,) = [row for row in read(here / "labels.csv") if row["image"].endswith("phone.HEIC")]
    for said in (row["failure"], done.err):
        assert "HEIF images need pillow-heif: pip install '.[heif]'" in said


def test_every_format_says_the_same(here):
    done = classify(here, "photos", "--out", "labels.jsonl", "--review-below", 1)
    assert done.code == 0
    assert " unsure (a confidence below 1)" in done.err
    rows = read(here / "labels.jsonl")
    steps = next(row for row in rows if row["placement"])["nodes"]
    assert steps[0]["confidence"] == 1
    assert read(here / "labels-review.jsonl")[0]["why"] == "failed"
    printed = []
    for row in csv.DictReader(classify(here, "photos").out.splitlines()):
        values = {key: value or None for key, value in row.items()}
        for key in ("off_tree", "not_subject"):
            values[key] = row[key] == "true"
        for key in ("confidence", "placement_confidence"):
            values[key] = float(row[key]) if row[key] else None
        printed.append(values)
    assert printed == [{key: row[key] for key in COLUMNS} for row in rows]


def test_answers_are_kept_so_that_a_second_time_asks_nothing(here, monkeypatch):
    (here / "photos" / "broken.jpg").unlink()  # what failed is tried again
    first = classify(here, "photos", "--out", "labels.csv")
    assert "answers are kept in answers.db" in first.err
    again = classify(here, "photos", "--out", "labels.csv")
    assert again.code == 2
    assert "labels.csv: The file already exists." in again.err
    before = (here / "labels.csv").read_bytes()

    def answer(_, requests):
        assert not requests
        yield from ()

    monkeypatch.setattr("taxtune.models.local.LocalModel.stream", answer)
    forced = classify(here, "photos", "--out", "labels.csv", "--force")
    assert forced.code == 0, forced.err
    assert (here / "labels.csv").read_bytes() == before


def test_no_answers_are_kept_beside_a_run_that_came_without_them(here):
    (here / "answers.db").unlink()
    done = classify(here, "photos", "--out", "labels.csv")
    assert done.code == 0, done.err
    # It may be another person's folder.
    assert "answers are kept in labels-answers.db" in done.err
    assert not list(here.rglob("answers.db"))


def test_images_come_from_tables_lists_and_stdin(here):
    lists = {
        "some.csv": "Image;Camera No;Sure\n../photos/1.png;7;\n../photos/none.png;;no\n",
        "some.jsonl": '{"image": "../photos/2.png", "seen": {"by": "me"}}\n',
        "some.txt": "../photos/3.png\n\n",
    }
    (here / "lists").mkdir()
    for name, text in lists.items():
        (here / "lists" / name).write_text(text)
    named = [*(f"lists/{name}" for name in lists), "photos/0.png", "photos/1.png", "-"]
    done = classify(here, *named, "--out", "all.jsonl", stdin=b"photos/4.png\n")
    assert done.code == 0, done.err
    rows = read(here / "all.jsonl")
    assert [key for key in rows[0] if key != "nodes"] == [*COLUMNS, "camera_no", "sure", "seen"]
    listed = [f"../photos/{name}.png" for name in (1, "none", 2, 3)]
    others = [f"photos/{name}.png" for name in (0, 1, 4)]
    assert [row["image"] for row in rows] == listed + others
    assert [row["camera_no"] for row in rows[:2]] == ["7", None]
    assert "does not exist" in rows[1]["failure"]
    assert rows[1]["sure"] == "no"
    assert rows[2]["seen"] == {"by": "me"}
    assert all(row["placement"] for row in rows if not row["failure"])
    assert rows[0]["placement"] == rows[5]["placement"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("photos/none.png", "photos/none.png: The image does not exist."),
        ("photos/readme.md", "neither an image, nor a folder, nor a list of images"),
        (
            "bad.csv",
            "bad.csv: It cannot be told which column holds the images. It may be 'file', 'path'.",
        ),
        ("taken.csv", "taken.csv: The list of images has a column 'placement' already"),
        ("blank.csv", "blank.csv:3: The row names no image"),
        ("photos --out labels.txt", "does not tell its format"),
        ("named.csv --out named.csv", "would replace the list of images"),
        ("photos --policy calibrated", "The run is not calibrated"),
        ("photos --set vlm.devise=cpu", "did you mean 'device'"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_asked(here, command, said):
    lists = {
        "bad.csv": "file,path\na.png,b\n",
        "taken.csv": "image,placement\na.png,b\n",
        "blank.csv": "image,x\nphotos/1.png,\n,b\n",
        "named.csv": "image\nphotos/1.png\n",
    }
    for name, text in lists.items():
        (here / name).write_text(text)
    before = sorted(here.iterdir())
    done = classify(here, *command.split())
    assert done.code == 2
    assert said in done.err
    assert done.out == ""
    assert sorted(here.iterdir()) == before


def test_policies(here):
    assert run_captured("calibrate", here / "run", "--risk=0.3", "--samples=2").code == 0
    calibrated = classify(here, "photos/0.png", "--policy", "calibrated")
    assert calibrated.code == 0, calibrated.err
    assert "1 image × 2 answers" in calibrated.err
    assert "the mean of 1 - hP is at most 0.3 in expectation" in calibrated.err
    assert "--policy calibrated" not in calibrated.err
    # What the calibrated threshold keeps is promised, and not unsure; unless one asks for more.
    file = here / "run" / "calibration.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"threshold": 0.5}))
    command = "photos --policy calibrated --out labels.jsonl --force"
    for more, unsure in ("", False), ("--review-below 1", True):
        done = classify(here, *f"{command} {more}".split())
        assert done.code == 0, done.err
        rows = read(here / "labels.jsonl")
        assert any((row["confidence"] or 1) < 0.8 for row in rows)  # half of two
        assert ("unsure" in {row["why"] for row in read(here / "labels-review.jsonl")}) == unsure
    assert "the run is calibrated; --policy calibrated" in classify(here, "photos/0.png").err


def test_a_promise_that_is_broken_is_told_and_labels_back_off(here):
    assert run_captured("calibrate", here / "run", "--risk=0.3", "--samples=2").code == 0
    photos = MANIFEST_FILE.parent / "images"
    command = ("--policy=calibrated", "--out=labels.csv", "--force")
    assert classify(here, str(photos), *command).code == 0
    audit = ("audit", "labels.csv", "--of=run", "--n=40")
    run_well(*audit, folder=here)
    asked = here / "labels-audit.csv"
    rows = table(asked.read_text())
    for row in rows:
        row["truth"] = "blank"
    with asked.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert "the promise is broken since label 1 of 40" in run_well(*audit, folder=here).err
    done = classify(here, str(photos), *command, "--on-broken=back-off")
    assert done.err.count("the promise is broken since label 1 of 40") == 2
    assert {row["placement"].count("/") for row in read(here / "labels.csv")} == {0}
    # So does `serve`, which has its classifier from the same function.
    served = named_classifier(here / "run", "calibrated", None, "back-off")
    assert served.broken.startswith("the promise is broken since label 1 of 40")
    assert served.deepest == 0


def test_ctrl_c_says_how_to_go_on(here, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("taxtune.models.local.LocalModel.stream", stop)
    done = classify(here, "photos", "--out", "labels.csv")
    assert done.code == 130
    assert "stopped; run the same command again to continue" in done.err
    assert not list(here.glob("labels*"))
    monkeypatch.undo()
    assert classify(here, "photos", "--out", "labels.csv").code == 0


def test_labels_are_compared_with_the_true_ones(here):
    known = list(csv.DictReader(MANIFEST_FILE.open()))[:5]
    rows = [f"{i}.png,{row['label']},Aves" for i, row in enumerate(known)]
    (here / "truth.csv").write_text("\n".join(["file,species,class", *rows]) + "\n")
    done = classify(here, "photos", "--truth=truth.csv", "--truth-column=species", "--out=a.csv")
    assert done.code == 0, done.err
    placed = {Path(row["image"]).name: row["placement"] for row in read(here / "a.csv")}
    last = [placed[f"{i}.png"].rpartition("/")[2] for i in range(5)]
    exact = sum(name == row["label"] for name, row in zip(last, known, strict=True))
    assert "5 images with a true label: " in done.err
    assert f", {exact} exact, 0 without an answer" in done.err
    assert "labels given that are wrong: " in done.err
    assert "the risk" not in done.err
    assert "2 of 7 images have no true label" in done.err
    (here / "truth.csv").write_text("file,species\nelsewhere.png,Parus major\n")
    refused = classify(here, "photos", "--truth=truth.csv", "--out=b.csv")
    assert refused.code == 2
    assert "None of the images has a true label" in refused.err
    assert "answers are kept" not in refused.err


@pytest.mark.heavy
def test_a_run_that_was_copied_labels_without_its_project(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    export(project, labelled=60)
    recipe = {
        "name": "birds",
        "taxonomy": {"path": "tree.csv", "allowed": "checklist.csv"},
        "data": {"kind": "manifest", "path": "photos.csv", "context": ["place"]},
        "vlm": "builtin:fieldguide",
        "objective": {"kind": "hr_at_hp"},
        "iterations": 1,
    }
    (project / "recipe.yaml").write_text(json.dumps(recipe))
    sizes = [f"--set=data.{split}=20" for split in ("tuning", "heldout")]
    run_well("tune", "recipe.yaml", "--set=tracking.mlflow=false", *sizes, folder=project)
    shutil.copytree(project / "new-photos", tmp_path / "new-photos")
    photos = sorted(tmp_path.glob("new-photos/*.png"))[:30]
    rows = ["image,place", *(f"new-photos/{photo.name},wood" for photo in photos)]
    (tmp_path / "new.csv").write_text("\n".join(rows) + "\n")
    run_well("classify", "project/runs/birds", "new.csv", "--out", "a.csv", folder=tmp_path)
    shutil.copytree(project / "runs" / "birds", tmp_path / "run")
    shutil.rmtree(project)
    run_well("classify", "run", "new.csv", "--out", "b.csv", folder=tmp_path)
    assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()
    assert any(row["masked"] for row in read(tmp_path / "b.csv"))
    run_well("audit", "run", "--n", 5, folder=tmp_path)
    sample = read(tmp_path / "run" / "audit.csv")
    assert sum(int(row["draws"]) for row in sample) == 5
    small_jpeg.cache_clear()
    run_well("report", "run", "--out", "again.html", folder=tmp_path)
    assert "the file is not where it was" in (tmp_path / "again.html").read_text()


def test_columns_of_ones_own_are_kept_whatever_they_are_called(here):
    (here / "list.csv").write_text("image,photo,box\nphotos/0.png,first,3\nphotos/1.png,,\n")
    done = classify(here, "list.csv", "--out", "labels.csv")
    assert done.code == 0, done.err
    rows = read(here / "labels.csv")
    assert [row["photo"] for row in rows] == ["first", ""]
    assert [row["box"] for row in rows] == ["3", ""]
    assert all(row["answer"].startswith("A:") for row in rows)
    assert not (here / "labels-photos.csv").exists()
