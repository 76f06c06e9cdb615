from __future__ import annotations

import pytest

from taxtune.authoring.senses import Label, read_labels
from taxtune.data.labels import label_references
from taxtune.errors import DataError


def test_labels_of_a_text_file(tmp_path):
    file = tmp_path / "labels.txt"
    file.write_text(
        "apple_pie\n\n  Apple pie \r\nfish, fried\n012.Black_footed_Albatross\n7 up\n",
        encoding="utf-8-sig",
    )
    assert read_labels(file) == [
        Label("apple pie", ("apple_pie", "Apple pie"), ("apple_pie",)),
        Label("fish, fried", ("fish, fried",), ()),
        Label(
            "Black footed Albatross",
            ("012.Black_footed_Albatross",),
            ("012.Black_footed_Albatross",),
        ),
        Label("7 up", ("7 up",), ()),
    ]


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
    assert [(label.name, label.aliases) for label in labels] == [
        ("Cat", ()),
        ("n02084071", ()),
        ("pug dog", ()),
    ]
    # What the tree need not know, whoever reads the images finds.
    assert all(
        label.name in label_references(written) for label in labels for written in label.written
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nothing.txt", None, r"nothing\.txt: The labels file does not exist"),
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
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_labels(tmp_path / name)


def test_a_folder_without_folders(tmp_path):
    with pytest.raises(
        DataError, match=r"no sub-folders to use as labels.*one sub-folder for each label"
    ):
        read_labels(tmp_path)
