from __future__ import annotations

import pytest

from taxtune.authoring.senses import Label, read_labels
from taxtune.data.labels import label_references
from taxtune.errors import DataError


def test_labels_of_a_text_file(tmp_path):
    file = tmp_path / "labels.txt"
    lines = "apple_pie\n\n  Apple pie \r\nfish, fried\n012.Black_footed_Albatross\n7 up\n"
    file.write_text(lines, encoding="utf-8-sig")
    pie, fish, albatross, seven = read_labels(file)
    assert pie == Label("apple pie", ("apple_pie", "Apple pie"), ("apple_pie",))
    assert fish == Label("fish, fried", ("fish, fried",), ())
    numbered = ("012.Black_footed_Albatross",)
    assert albatross == Label("Black footed Albatross", numbered, numbered)
    assert seven == Label("7 up", ("7 up",), ())


def test_labels_of_a_table(tmp_path):
    for name in ("photos.csv", "photos.txt"):
        file = tmp_path / name
        file.write_text('image,Label\na.jpg,dog\nb.jpg,"cat, wild"\nc.jpg,dog\n')
        assert [label.name for label in read_labels(file)] == ["dog", "cat, wild"]


def test_labels_of_a_folder(tmp_path):
    for name in ("pug_dog", "012.Cat", ".hidden", "n02084071"):
        (tmp_path / name).mkdir()
    (tmp_path / "readme.txt").write_text("x")
    labels = read_labels(tmp_path)
    assert [label.name for label in labels] == ["Cat", "n02084071", "pug dog"]
    for label in labels:
        assert label.aliases == ()
        # What the tree need not know, whoever reads the images finds.
        for written in label.written:
            assert label.name in label_references(written)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("empty.txt", " \n", r"empty\.txt: The labels file is empty"),
        (
            "photos.csv",
            "image,class\na,dog\n",
            r"photos\.csv:1: The labels file has no column label\. \(got 'image,class'\)",
        ),
        ("photos.csv", "image,label\na,dog\nb,\n", r"photos\.csv:3: The row has no label"),
        ("photos.csv", "label\n", r"a header but no rows"),
    ],
)
def test_bad_files(tmp_path, name, text, message):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        read_labels(file)


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.txt: The labels file does not exist"):
        read_labels(tmp_path / "nothing.txt")


def test_a_folder_without_folders(tmp_path):
    remedy = r"no sub-folders to use as labels.*one sub-folder for each label"
    with pytest.raises(DataError, match=remedy):
        read_labels(tmp_path)
