from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from taxtune.errors import DataError
from taxtune.studies.specificity.captions import read_caption_data
from tests.studies.coco import CAPTIONS, INSTANCES, write_coco


def test_what_is_read_and_what_is_left_out(tmp_path: Path) -> None:
    data = read_caption_data(*write_coco(tmp_path))
    assert [image.id for image in data.images] == ["1", "2", "3"]
    first = data.images[0]
    assert first.captions == ("A dog sits on an orange couch.", "An old dog resting indoors")
    assert first.labels == ("dog", "couch")
    assert first.narratives == ("In the middle there is a dog and behind it a wall.",)
    assert data.images[2].narratives == ("A person with a hat stands in the rain.",)
    assert len(data.categories) == 7
    assert data.notes == (
        "Left out: 1 narrative of images that are not in the captions file.",
        "Left out: 1 object of images that are not in the captions file.",
        "Left out: 1 of 5 images, with no caption.",
        "Left out: 1 of 5 images, with captions and no object label.",
    )


def changed(source: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with `a.0.b` set, or taken away where the value is ..."""
    copy = deepcopy(source)
    *way, last = path.split(".")
    place: Any = copy
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    key: Any = int(last) if isinstance(place, list) else last
    if value is ...:
        del place[key]
    else:
        place[key] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("images", ..., "no list `images`"),
        ("annotations", {}, "no list `annotations`"),
        ("images", [], "has no images"),
        ("images.0", 3, r"images\[0\] is not an object"),
        ("images.0.id", ..., r"images\[0\] has no usable `id`"),
        ("images.0.id", True, r"images\[0\] has no usable `id`"),
        ("images.1.id", 1, r"images\[1\] repeats an id"),
        ("images.0.file_name", "", "no `file_name`"),
        ("annotations.0.image_id", 77, r"(?s)Captions of images that.*annotations\[0\]: image 77"),
        ("annotations.0.caption", None, r"annotations\[0\] has no `caption`"),
        ("annotations.0", {"image_id": 1, "category_id": 3}, "this is not the instances file"),
        ("annotations", [], "There are no captions in the file"),
        ("annotations", [{"image_id": 1, "caption": " "}], "All captions are empty.*1 annotation"),
    ],
)
def test_bad_captions(tmp_path: Path, path: str, value: Any, said: str) -> None:
    files = write_coco(tmp_path, captions=changed(CAPTIONS, path, value))
    with pytest.raises(DataError, match=said):
        read_caption_data(files[0], files[1])


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("categories", ..., "no list `categories`"),
        ("categories.0.name", " ", "no `name`"),
        ("categories.1.id", 1, "repeats an id"),
        ("categories.1.name", "person", "Two categories have the same name.*'person'"),
        ("categories", [{"id": 1, "name": "person"}], "(?i)at least two categories"),
        ("annotations.0.category_id", 1000, "category that is not in the file.*1000"),
        ("annotations.0", {"image_id": 1, "caption": "x"}, "this is not the captions file"),
        ("annotations", [], "No object is in an image"),
    ],
)
def test_bad_instances(tmp_path: Path, path: str, value: Any, said: str) -> None:
    files = write_coco(tmp_path, instances=changed(INSTANCES, path, value))
    with pytest.raises(DataError, match=said):
        read_caption_data(files[0], files[1])


def test_bad_narratives(tmp_path: Path) -> None:
    files = write_coco(tmp_path, narratives=[{"image_id": "77", "caption": "x"}])
    with pytest.raises(DataError, match="No narrative describes an image"):
        read_caption_data(*files)
    files = write_coco(tmp_path, narratives=[{"image_id": "1"}])
    with pytest.raises(DataError, match=r"narratives.jsonl:1: A narrative needs"):
        read_caption_data(*files)
    files[2].write_text('{"image_id": ')
    with pytest.raises(DataError, match="not valid JSON"):
        read_caption_data(*files)


def test_files_that_are_none(tmp_path: Path) -> None:
    files = write_coco(tmp_path)
    files[0].write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        read_caption_data(files[0], files[1])
    with pytest.raises(DataError, match="The captions file does not exist"):
        read_caption_data(tmp_path / "none.json", files[1])


def test_empty_and_repeated_captions_are_counted(tmp_path: Path) -> None:
    more = [{"image_id": 1, "caption": text} for text in ("", " \n ", "A dog sits on  an orange couch.")]
    files = write_coco(tmp_path, captions={**CAPTIONS, "annotations": CAPTIONS["annotations"] + more})
    data = read_caption_data(*files)
    assert len(data.images[0].captions) == 2
    assert data.notes[:2] == (
        "Left out: 2 captions, empty.",
        "Left out: 1 caption, already said about the image.",
    )


def test_whole_numbers_may_be_written_with_a_point(tmp_path: Path) -> None:
    found = [entry | {"image_id": float(entry["image_id"])} for entry in INSTANCES["annotations"]]
    plain = read_caption_data(*write_coco(tmp_path))
    assert read_caption_data(*write_coco(tmp_path, instances={**INSTANCES, "annotations": found})) == plain
    broken = [found[0] | {"image_id": 1.5}]
    with pytest.raises(DataError, match=r"annotations\[0\] has no usable `image_id`. \(got 1.5\)"):
        read_caption_data(*write_coco(tmp_path, instances={**INSTANCES, "annotations": broken}))
