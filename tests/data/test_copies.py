"""Copies of photos are found by their looks, and photos that are merely alike are none."""

from __future__ import annotations

import pytest
from PIL import ExifTags, Image

from taxtune.data import load_examples, split
from taxtune.data.boxes import Boxes
from taxtune.data.copies import find_copies
from taxtune.data.splits import remaining
from taxtune.fieldguide import MANIFEST_FILE
from taxtune.images import check_images
from taxtune.taxonomy import read_taxonomy
from taxtune.taxonomy.tree import Taxonomy
from tests.scenes import scene

TREE = Taxonomy.from_paths(["bird/thrush/robin", "bird/thrush/blackbird", "bird/wren"])
LABELS = ("robin", "blackbird", "wren")


def found(tmp_path, images):
    """Returns the copies among images, each of which is (image, ending, options)."""
    files = []
    for number, (image, ending, options) in enumerate(images):
        files.append(tmp_path / f"{number}.{ending}")
        image.save(files[-1], **options)
    checked = check_images(files)
    thumbnails = [checked[file].thumbnail for file in files]
    return find_copies(thumbnails, [checked[file].taken for file in files])


@pytest.mark.parametrize("seed", range(5))
def test_format_size_quality_and_orientation_make_no_difference(seed, tmp_path):
    photo = scene(seed)
    half = photo.resize((160, 120))
    turned = Image.Exif()
    turned[0x0112] = 6
    copies = [
        (photo, "png", {}),
        (photo, "jpg", {"quality": 50}),
        (photo, "webp", {"quality": 50}),
        (half, "png", {}),
        (half, "jpg", {"quality": 50}),
        (photo.resize((80, 60)), "jpg", {"quality": 75}),
        (photo.transpose(Image.Transpose.ROTATE_90), "jpg", {"exif": turned}),
    ]
    assert found(tmp_path, copies) == dict.fromkeys(range(1, 7), 0)
    others = [(photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT), "png", {}), (scene(99), "png", {})]
    assert found(tmp_path, [*copies[:1], *others]) == {}


def test_plain_surfaces_are_no_copies_and_things_on_them_count(tmp_path):
    plain = Image.new("RGB", (200, 200), "white")
    left, right = plain.copy(), plain.copy()
    left.paste("black", (20, 90, 50, 120))
    right.paste("black", (140, 90, 170, 120))
    images = [(image, "png", {}) for image in (plain, plain, left, right)]
    assert found(tmp_path, images) == {}


def test_a_thing_in_a_fixed_scene_is_no_copy_of_the_empty_scene(tmp_path):
    empty = scene(3)
    animal = empty.copy()
    animal.paste("black", (200, 100, 264, 140))
    assert found(tmp_path, [(empty, "png", {}), (animal, "png", {})]) == {}


def test_photos_of_two_times_are_no_copies_however_alike(tmp_path):
    empty = scene(3)
    images = [(empty, "png", {})]
    for minute in (0, 1, 0):
        exif = Image.Exif()
        times = exif.get_ifd(ExifTags.IFD.Exif)
        times[ExifTags.Base.DateTimeOriginal] = f"2026:05:01 06:{minute:02d}:00"
        images.append((empty, "jpg", {"exif": exif}))
    assert found(tmp_path, images[1:]) == {2: 0}
    assert found(tmp_path, images) == {1: 0, 2: 0, 3: 0}  # saved without its time


def test_small_steps_do_not_make_one_group(tmp_path):
    one, other = scene(1), scene(2)
    steps = [(Image.blend(one, other, step / 40), "png", {}) for step in range(41)]
    copies = found(tmp_path, steps)
    # Each is like the one before, and a group ends where they are no longer like its first.
    assert len(copies) > 20
    assert copies[1] == 0
    assert copies.get(40) != 0
    assert len(set(copies.values())) > 2


def test_no_drawing_of_the_field_guide_is_a_copy(fieldguide_examples):
    assert len(fieldguide_examples) == 400
    assert {example.group for example in fieldguide_examples} == {""}


@pytest.fixture(scope="module")
def fieldguide_examples():
    return load_examples(MANIFEST_FILE, read_taxonomy("builtin:fieldguide", names=False))


@pytest.fixture
def twice(tmp_path):
    """Sixty photos of classes, each there twice: as it is, and saved again at half size."""
    for number in range(60):
        folder = tmp_path / LABELS[number % 3]
        folder.mkdir(exist_ok=True)
        photo = scene(number, size=(160, 120))
        photo.save(folder / f"{number:02}.png")
        photo.resize((80, 60)).save(folder / f"{number:02}-small.jpg")
    return tmp_path


def photo_of(example):
    return example.image.stem.removesuffix("-small")


def photos(examples):
    return {photo_of(example) for example in examples}


def test_no_held_out_image_shows_a_tuning_image(twice, notes):
    examples = load_examples(twice, TREE)
    assert len({example.group for example in examples}) == 60
    assert sum(bool(example.copy_of) for example in examples) == 60
    drawn = split(examples, tuning=51, heldout=40, seed=0, may_be_short=True)
    assert len(drawn.heldout) == 40
    assert photos(drawn.tuning).isdisjoint(photos(drawn.heldout))
    both = (*drawn.tuning, *drawn.heldout)
    left = remaining(examples, both, most=99, seed=0)
    assert len(photos(left)) == 60 - len(photos(both))
    assert photos(left).isdisjoint(photos(both))


def test_copies_are_looked_for_among_what_is_drawn(twice, monkeypatch):
    monkeypatch.setattr("taxtune.data.examples._LARGE", 10)
    examples = load_examples(twice, TREE)
    assert not any(example.sha256 or example.group for example in examples)
    drawn = split(examples, tuning=30, heldout=30, seed=0)
    assert photos(drawn.tuning).isdisjoint(photos(drawn.heldout))
    both = (*drawn.tuning, *drawn.heldout)
    left = remaining(examples, both, most=20, seed=0)
    assert left
    assert photos(left).isdisjoint(photos(both))


def test_copies_join_the_groups_that_they_are_of(tmp_path):
    for name, number in {"a/1": 1, "a/2": 2, "b/1": 3, "b/2": 4, "c/1": 5}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        scene(number).save(tmp_path / f"{name}.png")
    scene(2).save(tmp_path / "b/2 again.jpg")
    names = ["a/1.png", "a/2.png", "b/1.png", "b/2.png", "b/2 again.jpg", "c/1.png"]
    manifest = tmp_path / "m.csv"
    manifest.write_text("image,label\n" + "".join(f"{name},wren\n" for name in names))
    examples = load_examples(manifest, TREE, group="folder")
    assert [example.group for example in examples] == ["a", "a", "a", "a", "a", "c"]
    assert [example.copy_of for example in examples] == ["", "", "", "", "a/2.png", ""]
    alone = load_examples(manifest, TREE)
    assert [example.group for example in alone] == ["", "a/2.png", "", "", "a/2.png", ""]


def test_two_labels_of_a_photo_are_named(tmp_path, notes):
    labels = {1: ("robin", "wren"), 2: ("robin", "thrush"), 3: ("wren", "wren")}
    rows = []
    for number, (label, other) in labels.items():
        scene(number).save(tmp_path / f"{number}.png")
        scene(number).save(tmp_path / f"{number}.jpg")
        rows += [f"{number}.png,{label}", f"{number}.jpg,{other}"]
    manifest = tmp_path / "m.csv"
    manifest.write_text("\n".join(["image,label", *rows]))
    load_examples(manifest, TREE)
    counted, said = notes
    assert "Copies of other images: 3" in counted
    assert "1.png is 'robin' and its copy 1.jpg 'wren'" in said
    assert "2.png is 'robin' and its copy 2.jpg 'thrush'" in said
    assert "3.jpg" not in said


def test_boxes_of_copies_are_one_group(tmp_path, notes):
    scene(1).save(tmp_path / "a.png")
    scene(1).resize((160, 120)).save(tmp_path / "b.jpg")
    scene(2).save(tmp_path / "c.png")
    rows = ["image,label,box"]
    for name in ("a.png", "b.jpg", "c.png"):
        rows.append(f'{name},wren,"0.1,0.1,0.4,0.4"')
        rows.append(f'{name},robin,"0.5,0.5,0.4,0.4"')
    manifest = tmp_path / "m.csv"
    manifest.write_text("\n".join(rows))
    boxes = Boxes(column="box")
    examples = load_examples(manifest, TREE, boxes=boxes, folder=tmp_path / "crops")
    names = [example.group for example in examples]
    assert names == ["a.png"] * 4 + ["c.png"] * 2
    (said,) = notes
    assert "Copies of other images: 1" in said
