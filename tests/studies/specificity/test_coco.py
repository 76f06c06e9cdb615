"""Reading COCO files and Localized Narratives."""

from __future__ import annotations

from copy import deepcopy

import pytest

from taxtune.errors import DataError
from taxtune.studies.specificity.coco import read_coco
from tests.studies.coco import CAPTIONS, INSTANCES, write_coco


def test_files_are_joined_by_image_and_exclusions_are_counted(tmp_path):
    captions = deepcopy(CAPTIONS)
    for text in ("", " \n ", "A dog sits on  an orange couch."):
        captions["annotations"].append({"image_id": 1, "caption": text})
    images, categories, notes = read_coco(*write_coco(tmp_path, captions=captions))
    assert [image.id for image in images] == ["1", "2", "3"]
    first, _, third = images
    assert first.file == "000000000001.jpg"
    assert first.captions == ("A dog sits on an orange couch.", "An old dog resting indoors")
    assert first.labels == ("dog", "couch")
    assert first.narratives == ("In the middle there is a dog and behind it a wall.",)
    assert third.narratives == ("A person with a hat stands in the rain.",)
    assert len(categories) == 7
    dropped, strangers = notes
    assert dropped == "Left out: 2 of 5 images, without caption or object label."
    assert strangers.startswith("Left out: objects or narratives of 2 images that are not in")


def changed(source, path, value):
    """A copy with `a.0.b` set, or deleted where the value is ..."""
    copy = deepcopy(source)
    inner = copy
    *steps, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    for step in steps:
        inner = inner[step]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("images", ..., "captions.json: images: Field required"),
        ("images.0.id", ..., r"images\[0\].id: Field required"),
        ("images.1.id", 1, "repeats an id.*'1'"),
        ("images.0.file_name", "", r"images\[0\].file_name: "),
        ("annotations.0.image_id", 77, r"annotations\[0\]: its image_id is not in the file.*'77'"),
        ("annotations.0", {"image_id": 1, "category_id": 3}, "right one of COCO's files"),
        ("annotations", [{"image_id": 1, "caption": " "}], "At least two images need both"),
    ],
)
def test_bad_captions(tmp_path, path, value, message):
    files = write_coco(tmp_path, captions=changed(CAPTIONS, path, value))
    with pytest.raises(DataError, match=message):
        read_coco(*files[:2])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("categories", ..., "instances.json: categories: Field required"),
        ("categories.1.name", "person", "repeats an id or a category's name.*'person'"),
        ("categories", [{"id": 1, "name": "person"}], "at least 2 items"),
        ("annotations.0.category_id", 1000, "its category_id is not in the file.*'1000'"),
    ],
)
def test_bad_instances(tmp_path, path, value, message):
    files = write_coco(tmp_path, instances=changed(INSTANCES, path, value))
    with pytest.raises(DataError, match=message):
        read_coco(*files[:2])


@pytest.mark.parametrize(
    ("narrative", "message"),
    [
        ({"image_id": "77", "caption": "x"}, "No narrative describes an image"),
        ({"image_id": "1"}, r"narratives.jsonl:1: caption: Field required"),
    ],
)
def test_bad_narratives(tmp_path, narrative, message):
    files = write_coco(tmp_path, narratives=[narrative])
    with pytest.raises(DataError, match=message):
        read_coco(*files)


def test_files_that_are_not_json(tmp_path):
    files = write_coco(tmp_path)
    files[0].write_text('{"image_id": ')
    with pytest.raises(DataError, match=r"captions.json: JSON: Invalid JSON"):
        read_coco(*files)
    with pytest.raises(DataError, match="does not exist"):
        read_coco(tmp_path / "none.json", files[1])
