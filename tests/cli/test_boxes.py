"""Boxes of photos from a detector's file to labels per box, photo and group, on birds pasted into photos."""

from __future__ import annotations

import csv
import json
import re

import pandas as pd
import pytest
from PIL import Image

import taxtune
from taxtune.data.boxes import Box, Boxes
from taxtune.fieldguide import MANIFEST_FILE
from taxtune.images import load_image
from taxtune.serving.pyfunc import ServedClassifier
from taxtune.taxonomy import read_taxonomy
from taxtune.tuning.calibrate import CalibrationRun
from taxtune.tuning.run_folder import read_result
from tests.cli.commands import run_captured, run_well
from tests.serving.samples import in_base64

#: Birds in each photo, which has two, one or none.
BIRDS = 30
RECIPE = """\
name: boxes
taxonomy: {path: "builtin:fieldguide"}
data: {kind: manifest, path: photos.csv, box: md.json, group: burst, tuning: 6, first_rung: 6, heldout: 8}
prompt: {domain: bird}
vlm: {model: "builtin:fieldguide"}
iterations: 1
tracking: {mlflow: false}
"""


def table(file):
    return list(csv.DictReader(file.read_text().splitlines()))


def write(file, *rows):
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows(rows)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with photos/, photos.csv, md.json, recipe.yaml, and run/, tuned on them."""
    folder = tmp_path_factory.mktemp("boxes")
    (folder / "photos").mkdir()
    birds = table(MANIFEST_FILE)[:BIRDS]
    photos = []
    rows = [("image", "label", "burst")]
    for number, bird in enumerate(birds):
        name = f"photos/{number}.jpg"
        photo = Image.new("RGB", (500, 260), (90, 120, 80))
        boxes = [[0.02 + 0.5 * i, 0.1, 0.4, 0.75] for i in range((2, 1, 0)[number % 3])]
        with Image.open(MANIFEST_FILE.parent / bird["image"]) as picture:
            for i, (left, top, _, _) in enumerate(boxes):
                turned = picture.convert("RGB").rotate(15 * i).resize((200, 195))
                photo.paste(turned, (round(left * 500), round(top * 260)))
        photo.save(folder / name, quality=95)
        found = [{"category": "1", "conf": 0.9, "bbox": box} for box in boxes]
        found.append({"category": "2", "conf": 0.8, "bbox": [0, 0, 1, 1]})
        photos.append({"file": name, "detections": found})
        rows.append((name, bird["label"], f"burst {number // 2}"))
    write(folder / "photos.csv", *rows)
    content = {"images": photos, "detection_categories": {"1": "animal", "2": "person"}}
    (folder / "md.json").write_text(json.dumps(content))
    (folder / "recipe.yaml").write_text(RECIPE)
    run_well("tune", "recipe.yaml", "--out=run", folder=folder)
    return folder


def test_a_run_asks_about_boxes_and_says_so(made):
    result = read_result(made / "run")
    photos = result.provenance.photos
    assert len(photos) == 14
    for example, (photo, box) in photos.items():
        assert example.startswith(f"photos/{photo.rsplit('/', 1)[-1]}#")
        assert tuple(box)[2:] == pytest.approx((0.4, 0.75))
        # 40 % of 500 pixels, and a tenth more on each side.
        assert load_image(result.provenance.images[example]).size == (240, 240)
    page = (made / "run" / "report.html").read_text()
    assert page.count('alt="the photo, with the box"') == 8
    rows = result.heldout[0].rows
    assert {row.image for row in rows} == {row.example.removeprefix("photos/") for row in rows}
    tuning = {row.group for row in result.iterations[0].rows}
    assert tuning.isdisjoint({row.group for row in rows})


def test_new_photos_have_a_label_for_each_box_photo_and_group(made):
    done = run_captured(
        "classify", "run", "photos.csv", "--boxes=md.json", "--out=new.csv", folder=made
    )
    assert done.code == 0, done.err
    assert "30 boxes in 30 photos" in done.err
    assert "taxtune: 30 boxes in 30 photos: " in done.err
    assert "10 photos without a box are on the root" in done.err
    rows = table(made / "new.csv")
    assert list(rows[0])[-4:] == ["label", "burst", "photo", "box"]
    assert [row["image"] for row in rows[:4]] == [
        "photos/0.jpg#1",
        "photos/0.jpg#2",
        "photos/1.jpg#1",
        "photos/2.jpg",
    ]
    assert [row["photo"] for row in rows[:2]] == ["photos/0.jpg", "photos/0.jpg"]
    assert rows[1]["box"] == "0.52,0.1,0.4,0.75"
    assert (rows[3]["placement"], rows[3]["answer"], rows[3]["box"]) == ("Aves", "no detection", "")
    review = {row["image"] for row in table(made / "new-review.csv")}
    assert review.isdisjoint(row["image"] for row in rows if not row["box"])
    photos = {row["photo"]: row for row in table(made / "new-photos.csv")}
    assert len(photos) == BIRDS
    for name, photo in photos.items():
        own = [row["placement"] for row in rows if row["photo"] == name]
        shared = read_taxonomy("builtin:fieldguide")
        nodes = {shared.resolve(placement) for placement in own}
        assert photo["placement"] == "/".join(shared.path(shared.common_ancestor(nodes)))
    groups = table(made / "new-groups.csv")
    assert [row["burst"] for row in groups] == [f"burst {i}" for i in range(BIRDS // 2)]
    assert [row["labels"] for row in groups[:3]] == ["3", "3", "2"]


def test_a_table_may_have_the_boxes_and_the_truth(made):
    box = "0.02,0.1,0.4,0.75"
    rows = [("image", "box"), ("photos/0.jpg", box), ("photos/1.jpg", "10 26 200 195")]
    write(made / "boxed.csv", *rows, ("photos/2.jpg", ""))
    done = run_captured("classify", "run", "boxed.csv", "--truth=photos.csv", folder=made)
    assert done.code == 0, done.err
    assert "1 photos without a box are not judged; something is there on 1 of them" in done.err
    assert "2 images with a true label" in done.err
    lines = list(csv.DictReader(done.out.splitlines()))
    assert [line["image"] for line in lines] == ["photos/0.jpg#1", "photos/1.jpg#1", "photos/2.jpg"]
    assert [line["box"] for line in lines] == [box, "10,26,200,195", ""]
    assert lines[1]["placement"] == table(made / "new.csv")[2]["placement"]
    write(made / "bad.csv", *rows, ("photos/2.jpg", "1,2,3"))
    done = run_captured("classify", "run", "bad.csv", folder=made)
    assert done.code == 2
    assert "image 3: photos/2.jpg: The box is not four numbers" in done.err


def test_whole_photos_are_labelled_with_a_note(made):
    done = run_captured("classify", "run", "photos/0.jpg", folder=made)
    assert done.code == 0, done.err
    assert "the run was asked about boxes, and is now asked about whole photos" in done.err
    assert len(done.out.splitlines()) == 2


def test_photos_that_the_detector_did_not_see_have_no_label(made):
    content = json.loads((made / "md.json").read_text())
    content["images"][1] = {"file": "photos/1.jpg", "failure": "image access"}
    del content["images"][4]
    (made / "failing.json").write_text(json.dumps(content))
    known = [f"photos/{number}.jpg" for number in (0, 1, 2, 4)]
    write(made / "four.csv", ("image",), *zip(known, strict=True))
    done = run_captured(
        "classify",
        "run",
        "four.csv",
        "--boxes=failing.json",
        "--truth=photos.csv",
        "--out=four-labels.csv",
        folder=made,
    )
    assert done.code == 0, done.err
    assert "1 photos without a box are on the root" in done.out + done.err
    assert "2 failed" in done.out + done.err
    rows = {row["image"]: row for row in table(made / "four-labels.csv")}
    assert [*rows] == ["photos/0.jpg#1", "photos/0.jpg#2", *known[1:]]
    assert rows["photos/1.jpg"]["failure"] == "The detector failed: image access"
    assert rows["photos/4.jpg"]["failure"] == "The detector's file does not name the photo."
    review = {row["image"]: row["why"] for row in table(made / "four-labels-review.csv")}
    assert [image for image, why in review.items() if why == "failed"] == [known[1], known[3]]
    assert known[2] not in review
    photos = {row["photo"]: row["placement"] for row in table(made / "four-labels-photos.csv")}
    assert [bool(photos[photo]) for photo in known] == [True, False, True, False]


def test_a_photo_is_read_once_for_all_its_boxes(made, monkeypatch):
    loaded = taxtune.load_classifier(made / "run")
    read = []
    monkeypatch.setattr(
        "taxtune.classifier.classifier.load_image",
        lambda file: read.append(file.name) or load_image(file),
    )
    names = ["0.jpg", "0.jpg", "1.jpg"]
    files = [str(made / "photos" / name) for name in names]
    boxes = ["0.02,0.1,0.4,0.75", "0.52,0.1,0.4,0.75", "0.02,0.1,0.4,0.75"]
    found = loaded.classify(pd.DataFrame({"image": files, "box": boxes}))
    assert all(result.answer for result in found)
    assert read == ["0.jpg", "1.jpg"]


def test_boxes_are_promised_per_photo_where_the_data_have_no_groups(made):
    calibrator = CalibrationRun(made / "run", risk=0.5)
    assert calibrator.guarantee.unit == "burst"
    without = CalibrationRun(made / "run", risk=0.5)
    without.settings = calibrator.settings.changed({"data.group": None})
    without.examples = calibrator.examples
    assert without.guarantee.unit == "photo"


def test_a_run_is_calibrated_on_boxes(made):
    done = run_captured("calibrate", "run", "--risk=0.5", "--samples=2", folder=made)
    assert done.code == 0, done.err
    assert "without a box are left out" in done.err
    whole = run_well("classify", "run", "photos/0.jpg", "--policy=calibrated", folder=made)
    assert "nothing is promised of these labels: the run was calibrated on boxes" in whole.err
    assert "on images like those of the calibration" not in whole.err


def test_boxes_that_were_labelled_in_an_audit_are_added(made, tmp_path):
    """The detector's file of the run does not know their photos; the audit's file has their boxes."""
    rows = [("image", "truth", "weight", "photo", "box", "burst")]
    for number in (1, 4, 7):
        photo = tmp_path / f"new{number}.jpg"
        with Image.open(made / f"photos/{number}.jpg") as known:
            known.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(photo)
        box = "0.58,0.1,0.4,0.75"
        rows.append((f"{photo}#1", "Aves", 1, photo, box, f"new{number}"))
    write(tmp_path / "new-audit.csv", *rows)
    asked = ("calibrate", "run", "--samples=2", "--risk=0.5", "--dry-run")
    alone = run_well(*asked, folder=made).err
    added = run_well(*asked, f"--add={tmp_path / 'new-audit.csv'}", folder=made).err
    assert "3 of 3 labels" in added
    assert "The file has no detections" not in added
    counts = [int(re.search(r"(\d+) images \(", said)[1]) for said in (alone, added)]
    assert counts[1] > counts[0]


def test_a_request_may_have_a_box(made, tmp_path):
    served = ServedClassifier(taxtune.load_classifier(made / "run"), content_only=True)
    photo = made / "photos" / "0.jpg"
    image = in_base64(photo)
    crop, _ = Boxes().cut(photo, load_image(photo), Box(0.02, 0.1, 0.4, 0.75), tmp_path)
    cells = [{"box": "0.02,0.1,0.4,0.75"}, {"box": None}, {"box": "0,0,900,9"}]
    boxed, empty, bad = served.rows([image] * 3, cells)
    (cut,) = served.rows([in_base64(crop)])
    assert (boxed["answer"], boxed["placement"]) == (cut["answer"], cut["placement"])
    assert empty["answer"] == "no detection"
    assert "outside the image of 500 × 260 pixels" in bad["failure"]
    (whole,) = served.rows([image])
    assert whole["answer"] != "no detection"


def test_a_recipe_is_written_for_a_table_with_boxes(made):
    listed = {row["image"]: row["label"] for row in table(made / "photos.csv")}
    rows = [("image", "species", "bbox")]
    for number, (name, label) in enumerate(listed.items()):
        if number % 3 < 2:
            rows.append((name, label, "10,26,200,195"))
    write(made / "own.csv", *rows)
    done = run_captured(
        "init", "own.yaml", "--data=own.csv", "--taxonomy=builtin:fieldguide", folder=made
    )
    assert done.code == 0, done.err
    assert "Each box of the column 'bbox' is cut out and asked about." in done.err
    assert "box: bbox" in (made / "own.yaml").read_text()
