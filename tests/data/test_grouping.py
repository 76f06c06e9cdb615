"""Groups of images: by a column, by folders, by when a camera took them."""

from __future__ import annotations

import pandas as pd
import pytest
from PIL import Image

from taxtune.data import load_examples
from taxtune.data.columns import like_groups
from taxtune.errors import DataError
from taxtune.taxonomy.tree import Taxonomy

TREE = Taxonomy.from_paths(["bird/thrush/robin", "bird/thrush/blackbird", "bird/wren"])


def paint(folder, *names):
    for shade, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (shade, 0, 0)).save(path)


def table(folder, **columns):
    """Returns a manifest of painted images with columns."""
    paint(folder, *columns["image"])
    path = folder / "m.csv"
    pd.DataFrame({"label": "wren", **columns}).to_csv(path, index=False)
    return path


def groups(source, group, **options):
    examples = load_examples(source, TREE, group=group, **options)
    return {example.id: example.group for example in examples}


def test_a_column_has_the_groups(tmp_path):
    manifest = table(
        tmp_path, image=["a.png", "b.png", "c.png", "d.png"], Burst=["7", " 7 ", "", "8"]
    )
    expected = {"a.png": "7", "b.png": "7", "c.png": "", "d.png": "8"}
    assert groups(manifest, "burst") == expected
    # A column may be known to templates as well, and is else in no context.
    (first, *_) = load_examples(manifest, TREE, group="burst", columns=["burst"])
    assert first.context == {"burst": "7"}
    (first, *_) = load_examples(manifest, TREE, group="burst")
    assert first.context == {}
    (first, *_) = load_examples(manifest, TREE, columns=["label"])
    assert first.context == {"label": "wren"}


def test_frames_have_groups_too(tmp_path):
    paint(tmp_path, "a.png", "b.png")
    paths = [str(tmp_path / "a.png"), str(tmp_path / "b.png")]
    frame = pd.DataFrame({"image": paths, "label": "wren", "patient": [3, float("nan")]})
    assert list(groups(frame, "patient").values()) == ["3", ""]
    frame["visit"] = pd.to_datetime(["2026-05-01", None])
    assert list(groups(frame, "visit").values()) == ["2026-05-01", ""]


def test_a_column_that_there_is_not(tmp_path):
    manifest = table(tmp_path, image=["a.png"], burst=["7"])
    with pytest.raises(DataError, match=r"no column 'bursts'.*Did you mean 'burst'"):
        groups(manifest, "bursts")
    with pytest.raises(DataError, match="no column 'exif:hour'"):
        groups(manifest, "exif:hour")
    paint(tmp_path / "photos", "wren/a.png")
    with pytest.raises(DataError, match=r"no columns.*exif:burst and folder"):
        groups(tmp_path / "photos", "burst")


def test_the_folder_of_an_image_is_its_group(tmp_path):
    manifest = table(tmp_path, image=["one/a.png", "one/b.png", "two/a.png"])
    expected = {"one/a.png": "one", "one/b.png": "one", "two/a.png": "two"}
    assert groups(manifest, "folder") == expected


def test_folders_below_a_class_are_groups(tmp_path):
    paint(
        tmp_path,
        "robin/oak/1.png",
        "thrush/blackbird/oak/2024/2.png",
        "wren/oak/3.png",
        "wren/4.png",
        "thrush/robin/5.png",
    )
    examples = load_examples(tmp_path, TREE, group="folder")
    found = {example.id: (example.label, example.group) for example in examples}
    assert found == {
        "robin/oak/1.png": ("robin", "oak"),
        "thrush/blackbird/oak/2024/2.png": ("thrush/blackbird", "oak/2024"),
        "wren/oak/3.png": ("wren", "oak"),
        "wren/4.png": ("wren", ""),
        "thrush/robin/5.png": ("thrush/robin", ""),
    }
    with pytest.raises(DataError, match="'robin/oak'"):
        groups(tmp_path, None)


def shoot(path, taken, model="HC500", serial=None):
    """Paints a photo that says when it was taken, and by which camera."""
    exif = Image.Exif()
    exif[0x0110] = model
    details = exif.get_ifd(0x8769)
    if taken:
        details[0x9003] = f"2024:05:17 {taken}"
    if serial:
        details[0xA431] = serial
    Image.new("RGB", (16, 16), (len(path.name), 0, 0)).save(path, exif=exif)


def test_frames_of_one_camera_within_a_minute_are_a_burst(tmp_path):
    shots = {
        "1.jpg": ("06:30:00", "HC500", "A1"),
        "22.jpg": ("06:30:59", "HC500", "A1"),
        "333.jpg": ("06:31:59", "HC500", "A1"),  # a minute after the one before
        "4444.jpg": ("06:33:00", "HC500", "A1"),  # a second more
        "55555.jpg": ("06:30:01", "HC500", "B2"),
        "666666.jpg": ("06:30:01", "HC600", "A1"),
        "7777777.jpg": (None, "HC500", "A1"),
    }
    for name, shot in shots.items():
        shoot(tmp_path / name, *shot)
    pairs = [(str(tmp_path / name), "wren") for name in reversed(shots)]
    named = list(groups(pairs, "exif:burst").values())[::-1]
    first = "HC500 A1 2024-05-17 06:30:00"
    assert named[:3] == [first] * 3
    assert len(set(named)) == 5
    assert named[-1] == ""
    with pytest.raises(DataError, match="No photo says in its EXIF when"):
        groups(pairs[:1], "exif:burst")


def test_data_that_look_grouped_are_noted(tmp_path, notes):
    columns = {"Deployment_ID": ["1", "1", "1", "2"], "seq": ["1", "1", "2", "3"]}
    manifest = table(tmp_path, image=["a.png", "b.png", "c.png", "d.png"], **columns)
    (first, *_) = load_examples(manifest, TREE)
    assert first.context == {}
    (said,) = notes
    assert "4 images are of 3 groups by 'seq'" in said
    assert "`data.group: seq`" in said
    notes.clear()
    groups(manifest, "seq")
    assert notes == ["4 images are of 3 groups by 'seq'."]
    notes.clear()
    # A column of which no value repeats says nothing.
    other = table(tmp_path / "other", image=["a.png", "b.png"], product=["1", "2"])
    load_examples(other, TREE)
    # The labels are no groups, whatever their column is called.
    pd.DataFrame({"image": ["a.png", "b.png"], "product": "wren"}).to_csv(other, index=False)
    load_examples(other, TREE, label_column="product")
    assert notes == []


def test_columns_of_groups_have_many_names():
    names = ["SeqNum", "Product Code", "patient-id", "deploymentID"]
    assert like_groups([*names, "productive", "camera_angle"]) == names


def test_frames_of_a_camera_are_noted(tmp_path, notes):
    for name in ("1", "22", "333"):
        shoot(tmp_path / f"{name}.jpg", f"0{len(name) // 3}:30:00")
    pairs = [(str(file), "wren") for file in sorted(tmp_path.glob("*.jpg"))]
    load_examples(pairs, TREE)
    (said,) = notes
    assert "3 images are of 2 groups by 'exif:burst'" in said
