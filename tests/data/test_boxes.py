"""Boxes of photos: how they are written, what is cut out, and whose they are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taxtune.data import load_examples
from taxtune.data.boxes import Box, Boxes, crop_area
from taxtune.errors import DataError, ImageError
from taxtune.images import load_image
from taxtune.progress import showing
from tests.displays import Recorder
from tests.trees import outlined

TREE = outlined("animal: bird, cat")
ROTATED = 0x0112

sides = st.integers(8, 5_000)


@st.composite
def boxes(draw):
    """Draws a relative box."""
    x = draw(st.floats(0, 0.99))
    y = draw(st.floats(0, 0.99))
    width = draw(st.floats(0.001, 1 - x))
    height = draw(st.floats(0.001, 1 - y))
    return Box(x, y, width, height)


@given(sides, sides, boxes(), st.floats(0, 2))
def test_a_crop_lies_in_the_image_about_its_box(width, height, box, margin):
    left = box.x * width
    top = box.y * height
    right = left + box.width * width
    bottom = top + box.height * height
    area = crop_area(width, height, box, margin)
    assert 0 <= area[0] <= left + 0.5
    assert 0 <= area[1] <= top + 0.5
    assert right - 0.5 <= area[2] <= width
    assert bottom - 0.5 <= area[3] <= height
    longest = max(right - left, bottom - top) - 1
    side = max(64, (1 + 2 * margin) * longest)
    across = area[2] - area[0]
    down = area[3] - area[1]
    assert across >= min(side, width)
    assert down >= min(side, height)
    # A square, but where the image ends.
    assert across == down or min(across, down) == min(width, height)


def test_a_crop_has_the_margin_of_the_longer_side_and_moves_inside():
    middle = Box(0.4, 0.4, 0.2, 0.1)
    corner = Box(0, 0, 0.2, 0.1)
    dot = Box(0.5, 0.5, 0.001, 0.001)
    assert crop_area(1000, 1000, middle, 0.1) == (380, 330, 620, 570)
    assert crop_area(1000, 1000, corner, 0.1) == (0, 0, 240, 240)
    assert crop_area(1000, 150, middle, 0.1) == (380, 0, 620, 150)
    assert crop_area(1000, 1000, dot, 0) == (469, 469, 533, 533)


@pytest.mark.parametrize(
    "cell",
    [
        "0.1,0.2,0.3,0.4",
        "0.1 0.2 0.3 0.4",
        "[0.1, 0.2, 0.3, 0.4]",
        "(.1; .2; .3; .4)",
        [0.1, 0.2, 0.3, 0.4],
    ],
)
def test_a_box_is_written_in_several_ways(cell):
    box = Box.parse(cell)
    assert box == (0.1, 0.2, 0.3, 0.4)
    assert str(box) == "0.1,0.2,0.3,0.4"


@pytest.mark.parametrize("cell", [None, "", " ", "[]", float("nan")])
def test_an_empty_cell_has_no_box(cell):
    assert Box.parse(cell) is None


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("left", "four numbers"),
        ("1,2,3", "four numbers"),
        ("1,2,3,nan", "four numbers"),
        (7, "four numbers"),
        ("1,2,0,4", "no area"),
        ("1,2,3,-4", "no area"),
    ],
)
def test_what_is_no_box_is_refused(cell, said):
    with pytest.raises(ImageError, match=said):
        Box.parse(cell)


def test_a_box_in_pixels_is_the_same_as_a_relative_one():
    relative = Box(0.1, 0.1, 0.5, 0.5)
    assert relative.relative(200, 100) == relative
    pixels = Box(20, 10, 100, 50)
    assert pixels.relative(200, 100) == relative


def test_a_box_that_sticks_out_a_bit_is_clipped():
    box = Box(-1, 0, 202, 101)
    assert box.relative(200, 100) == (0, 0, 1, 1)


@pytest.mark.parametrize("cell", ["0,0,210,50", "-9,0,50,50", "0.5,0,0.6,1", "300,0,9,9"])
def test_a_box_outside_its_image_is_refused(cell):
    with pytest.raises(ImageError, match="outside the image of 200 × 100 pixels"):
        Box.parse(cell).relative(200, 100)


# -- sources ---------------------------------------------------------------------------------------


@pytest.fixture
def photos(tmp_path):
    """Three photos of 200 × 100 pixels with a green left half, the last one stored on its side."""
    for number, name in enumerate(("a.jpg", "b.jpg", "c.jpg")):
        photo = Image.new("RGB", (200, 100), (number, 0, 0))
        photo.paste((0, 100 + 50 * number, 0), (0, 0, 100, 100))
        exif = photo.getexif()
        if name == "c.jpg":
            exif[ROTATED] = 6
            photo = photo.transpose(Image.Transpose.ROTATE_90)
        photo.save(tmp_path / name, exif=exif, quality=95)
    return tmp_path


def load(folder, text, group=None, skip_broken=False, **boxes):
    file = folder / "photos.csv"
    file.write_text(text)
    found = Boxes(**boxes)
    notes = Recorder()
    with showing(notes):
        examples = load_examples(
            file,
            TREE,
            folder=folder / "crops",
            boxes=found,
            group=group,
            skip_broken=skip_broken,
        )
    return examples, "\n".join(notes.notes)


def names(examples):
    for example in examples:
        assert example.name == example.id
    return [example.id for example in examples]


def test_each_box_of_a_column_is_an_image_of_its_own(photos):
    table = (
        "image,label,bbox\n"
        'a.jpg,bird,"0,0,0.5,1"\n'
        'a.jpg,cat,"100 0 100 100"\n'
        "b.jpg,bird,\n"
        'c.jpg,bird,"[0, 0, 0.5, 1]"\n'
    )
    examples, notes = load(photos, table, column="bbox", margin=0)
    assert names(examples) == ["a.jpg#1", "a.jpg#2", "c.jpg#1"]
    assert [example.label for example in examples] == ["bird", "cat", "bird"]
    assert [example.group for example in examples] == ["a.jpg", "a.jpg", "c.jpg"]
    assert "1 photos without a box are left out, 1 of them with a label below the root" in notes
    for example in examples:
        assert example.image.parent.parent == photos / "crops"
        assert example.image.stem == example.sha256
    colours = []
    for example in examples:
        crop = load_image(example.image)
        assert crop.size == (100, 100)
        colours.append(crop.getpixel((50, 50))[1])
    assert colours == pytest.approx([100, 0, 200], abs=3)


def test_all_boxes_of_a_photo_are_in_one_group(photos):
    table = (
        "image,label,box,burst\n"
        'a.jpg,bird,"0,0,0.5,1",first\n'
        'a.jpg,bird,"0.5,0,0.5,1",second\n'
        'b.jpg,bird,"0,0,0.5,1",first\n'
        'c.jpg,bird,"0,0,0.5,1",\n'
    )
    examples, _ = load(photos, table, group="burst")
    assert [example.group for example in examples] == ["first", "first", "first", "c.jpg"]


def test_all_boxes_that_cannot_be_used_are_named(photos):
    table = (
        "image,label,box\n"
        "a.jpg,bird,left\n"
        'b.jpg,bird,"0,0,1,0"\n'
        'b.jpg,bird,"nan,0,1,1"\n'
        'c.jpg,horse,"0,0,1,1"\n'
    )
    with pytest.raises(DataError) as caught:
        load(photos, table)
    said = str(caught.value)
    assert "3 boxes cannot be used" in said
    for line in (
        "row 2: a.jpg: The box is not four numbers. (got 'left')",
        "row 3: b.jpg: The box has no area.",
        "row 4: b.jpg: The box is not four numbers.",
        "A box is x, y, width and height",
        "'horse' (row 5)",
    ):
        assert line in said


def test_photos_whose_boxes_are_outside_are_named_or_left_out(photos):
    table = 'image,label,box\na.jpg,bird,"0,0,900,10"\nb.jpg,bird,"0,0,90,10"\n'
    outside = "The box 0,0,900,10 is outside the image of 200 × 100 pixels"
    with pytest.raises(ImageError, match=rf"a\.jpg \(photos\.csv, row 2\): {outside}"):
        load(photos, table)
    examples, notes = load(photos, table, skip_broken=True)
    assert names(examples) == ["b.jpg#1"]
    assert outside in notes


def test_a_photo_that_is_missing_is_named_as_ever(photos):
    with pytest.raises(ImageError, match=r"gone\.jpg \(photos\.csv, row 2\).*does not exist"):
        load(photos, 'image,label,box\ngone.jpg,bird,"0,0,9,9"\n')
    with pytest.raises(DataError, match="None of the photos has a box"):
        load(photos, "image,label,box\na.jpg,bird,\n")


def detections(folder, *images, **categories):
    content = {
        "images": images,
        "detection_categories": categories or {"1": "animal", "2": "person"},
    }
    (folder / "md.json").write_text(json.dumps(content))
    return folder / "md.json"


def detection(category, conf, *bbox):
    return {"category": category, "conf": conf, "bbox": bbox}


def test_detections_of_animals_are_asked_about(photos):
    animal = detection("1", 0.9, 0, 0, 0.4, 0.4)
    other = detection("1", 0.2, 0.5, 0.5, 0.4, 0.4)
    person = detection("2", 0.9, 0, 0, 1, 1)
    unsure = detection("1", 0.19, 0, 0, 1, 1)
    two = {"file": "cam\\a.jpg", "detections": [animal, other, person]}
    none = {"file": "cam\\b.jpg", "detections": [unsure]}
    failed = {"file": "cam\\c.jpg", "detections": None, "failure": "Failure image access"}
    elsewhere = {"file": "cam\\d.jpg", "detections": [animal]}
    file = detections(photos, two, none, failed, elsewhere)
    table = "image,label\na.jpg,bird\nb.jpg,animal\nc.jpg,cat\n"
    examples, notes = load(photos, table, file=file)
    assert names(examples) == ["a.jpg#1", "a.jpg#2"]
    assert [example.box for example in examples] == [(0, 0, 0.4, 0.4), (0.5, 0.5, 0.4, 0.4)]
    assert "3 animal, 1 person with a confidence of 0.2 or more" in notes
    assert "only animals are asked about" in notes
    assert "1 photos without a box are left out, 0 of them with a label below the root" in notes
    assert "and 1 that the detector does not know" in notes
    examples, _ = load(photos, table, file=file, least_confidence=0.1)
    assert names(examples) == ["a.jpg#1", "a.jpg#2", "b.jpg#1"]


def test_of_a_detector_without_animals_all_categories_are_asked_about(photos):
    box = detection("7", 1, 0, 0, 0.5, 0.5)
    file = detections(photos, {"file": "a.jpg", "detections": [box]}, **{"7": "shoe"})
    examples, _ = load(photos, "image,label\na.jpg,bird\n", file=file)
    assert len(examples) == 1


def test_categories_may_be_written_as_numbers(photos):
    animal = detection(1, 0.2, 0, 0, 0.5, 0.5)
    person = detection(2, 0.9, 0, 0, 1, 1)
    file = detections(photos, {"file": "a.jpg", "detections": [person, animal]})
    examples, notes = load(photos, "image,label\na.jpg,bird\n", file=file)
    assert [example.box for example in examples] == [(0, 0, 0.5, 0.5)]
    assert "1 person, 1 animal" in notes


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "format (TypeError"),
        ("{", "format (JSONDecodeError"),
        ('{"images": []}', "format (KeyError: 'detection_categories')"),
        ({"file": "a.jpg", "detections": [{"conf": 1}]}, "'category'). (got {'file': 'a.jpg'"),
        ({"file": "a.jpg", "detections": [{"conf": "1"}]}, "format (TypeError"),
        (
            {"file": "a.jpg", "detections": [{"category": "1", "conf": 1, "bbox": [5, 0, 8]}]},
            "row 2: a.jpg: The box is not four numbers. (got [5, 0, 8])",
        ),
    ],
)
def test_what_no_detector_writes_is_refused(photos, content, said):
    if isinstance(content, str):
        (photos / "md.json").write_text(content)
    else:
        detections(photos, content)
    with pytest.raises(DataError) as caught:
        load(photos, "image,label\na.jpg,bird\n", file=photos / "md.json")
    assert said in str(caught.value)


def test_detections_of_other_photos_are_refused(photos):
    file = detections(photos, {"file": "x.jpg", "detections": []})
    with pytest.raises(DataError, match=r"no detections of these photos.*'x\.jpg'.*'a\.jpg'"):
        load(photos, "image,label\na.jpg,bird\n", file=file)
