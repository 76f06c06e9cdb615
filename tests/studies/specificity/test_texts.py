"""Reading COCO files, finding and swapping objects in captions, and drawing wrong texts."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taxtune.errors import DataError
from taxtune.studies.specificity.coco import Image, read_coco
from taxtune.studies.specificity.mentions import (
    Words,
    is_head,
    mention_finder,
    read_words,
    swapped,
)
from taxtune.studies.specificity.texts import altered_captions, make_texts
from tests.studies.coco import CAPTIONS, INSTANCES, write_coco

TEMPLATE = "a photograph showing {label}"
CATEGORIES = (
    "person",
    "cat",
    "dog",
    "hot dog",
    "bear",
    "teddy bear",
    "umbrella",
    "skis",
    "sheep",
    "orange",
    "couch",
)
WORDS = read_words(CATEGORIES)
Data = tuple[list[Image], dict[str, Words]]


@pytest.fixture
def data(tmp_path: Path) -> Data:
    images, categories, _ = read_coco(*write_coco(tmp_path))
    return images, read_words(categories)


def altered(image: Image, words: dict[str, Words], seed: int = 0) -> list[str]:
    return list(altered_captions(image, words, mention_finder(words), np.random.default_rng(seed)))


# -- reading ----------------------------------------------------------------------------------------------------------


def test_files_are_joined_by_image_and_exclusions_are_counted(tmp_path: Path) -> None:
    more = [
        {"image_id": 1, "caption": text} for text in ("", " \n ", "A dog sits on  an orange couch.")
    ]
    files = write_coco(
        tmp_path, captions={**CAPTIONS, "annotations": CAPTIONS["annotations"] + more}
    )
    images, categories, notes = read_coco(*files)
    assert [image.id for image in images] == ["1", "2", "3"]
    assert images[0] == Image(
        "1",
        "000000000001.jpg",
        ("A dog sits on an orange couch.", "An old dog resting indoors"),
        ("dog", "couch"),
        ("In the middle there is a dog and behind it a wall.",),
    )
    assert images[2].narratives == ("A person with a hat stands in the rain.",)
    assert len(categories) == 7
    assert notes == [
        "Left out: 2 of 5 images, without caption or object label.",
        "Left out: objects or narratives of 2 images that are not in the captions file.",
    ]


def changed(source: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with `a.0.b` set, or deleted where the value is ..."""
    copy = deepcopy(source)
    *way, last = path.split(".")
    inner: Any = copy
    for step in way:
        inner = inner[int(step)] if isinstance(inner, list) else inner[step]
    key: Any = int(last) if isinstance(inner, list) else last
    if value is ...:
        del inner[key]
    else:
        inner[key] = value
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
def test_bad_captions(tmp_path: Path, path: str, value: Any, message: str) -> None:
    files = write_coco(tmp_path, captions=changed(CAPTIONS, path, value))
    with pytest.raises(DataError, match=message):
        read_coco(*files[:2])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("categories", ..., "instances.json: categories: Field required"),
        ("categories.1.name", "person", "repeats an id or a category's name.*'person'"),
        ("categories", [{"id": 1, "name": "person"}], "at least 2 items"),
        (
            "annotations.0.category_id",
            1000,
            r"annotations\[0\]: its category_id is not in the file.*'1000'",
        ),
    ],
)
def test_bad_instances(tmp_path: Path, path: str, value: Any, message: str) -> None:
    files = write_coco(tmp_path, instances=changed(INSTANCES, path, value))
    with pytest.raises(DataError, match=message):
        read_coco(*files[:2])


def test_bad_narratives_and_files_that_are_not_json(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No narrative describes an image"):
        read_coco(*write_coco(tmp_path, narratives=[{"image_id": "77", "caption": "x"}]))
    with pytest.raises(DataError, match=r"narratives.jsonl:1: caption: Field required"):
        read_coco(*write_coco(tmp_path, narratives=[{"image_id": "1"}]))
    files = write_coco(tmp_path)
    files[0].write_text('{"image_id": ')
    with pytest.raises(DataError, match=r"captions.json: JSON: Invalid JSON"):
        read_coco(*files)
    with pytest.raises(DataError, match="does not exist"):
        read_coco(tmp_path / "none.json", files[1])


# -- objects in captions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caption", "mentions", "heads"),
    [
        ("A dog and two Dogs", "dog dog 0; Dogs dog 1", 2),
        ("a hot dog", "hot dog hot dog 0", 1),
        ("hotdogs", "hotdogs hot dog 1", 1),
        ("a teddy bear with a bear", "teddy bear teddy bear 0; bear bear 0", 2),
        ("a doghouse, a dog-like caterpillar, a bulldog", "", 0),
        ("an orange couch with oranges", "couch couch 0; oranges orange 1", 2),
        ("a woman's puppy", "woman person 0; puppy dog 0", 2),
        ("a dog house", "dog dog 0", 0),
        ("a dog running", "dog dog 0", 1),
        ("a couch cushion and a dog 2 m away", "couch couch 0; dog dog 0", 1),
        ("كلب 🐕", "", 0),
    ],
)
def test_mentions_and_heads(caption: str, mentions: str, heads: int) -> None:
    found = mention_finder(WORDS)(caption)
    assert (
        "; ".join(f"{caption[m.start : m.end]} {m.category} {m.plural:d}" for m in found)
        == mentions
    )
    assert sum(is_head(caption, mention) for mention in found) == heads


@pytest.mark.parametrize(
    ("caption", "category", "expected"),
    [
        ("A dog on a bed", "umbrella", "An umbrella on a bed"),
        ("An umbrella on a bed", "dog", "A dog on a bed"),
        ("two dogs on a bed", "person", "two people on a bed"),
        ("Dogs on a bed", "sheep", "Sheep on a bed"),
        ("a dog on a bed", "skis", "a pair of skis on a bed"),
        ("the dog's bed", "cat", "the cat's bed"),
        ("banana dog", "cat", "banana cat"),
        *(("it is a dog", name, f"it is {article} {name}") for name, article in (
            ("unicycle", "a"), ("hourglass", "an"), ("ewe", "a"), ("used car", "a"),
        )),
    ],
)  # fmt: skip
def test_number_and_article_are_kept_right(caption: str, category: str, expected: str) -> None:
    word = read_words([category])[category]
    assert swapped(caption, mention_finder(WORDS)(caption)[0], word) == expected


# -- the texts --------------------------------------------------------------------------------------------------------


def test_altered_captions_name_what_neither_labels_nor_captions_do(data: Data) -> None:
    images, words = data
    # In the first image: dog and couch.
    names = ("person", "cat", "umbrella", "hot dog", "pair of skis")
    texts = altered(images[0], words)
    assert len(texts) == len(set(texts))
    assert set(texts) == {
        *(f"A{'n' if name[0] == 'u' else ''} {name} sits on an orange couch." for name in names),
        *(f"A dog sits on an orange {name}." for name in names),
        *(f"An old {name} resting indoors" for name in names),
    }
    # The second has no label "hot dog", but a caption with one.
    texts = altered(images[1], words)
    assert not any("hot dog and" in text for text in texts)
    assert {
        "Two couches and a cat near a hot dog stand",
        "Two dogs and an umbrella near a hot dog stand",
    } <= {*texts}
    assert (
        altered(
            Image("1", "1.jpg", ("A quiet street", "شارع هادئ"), ("car",)),
            read_words(("car", "dog")),
        )
        == []
    )


def test_alterations_are_drawn_in_any_order(data: Data) -> None:
    images, words = data
    first = Counter(altered(images[0], words, seed)[0] for seed in range(500))
    assert len(first) == 15
    assert min(first.values()) > 12  # 33 are expected, give or take 6


def test_the_texts_of_images(data: Data) -> None:
    images, words = data
    made = make_texts(images, words, TEMPLATE, negatives=3, seed=4)
    texts = made.groupby(["image", "kind"])["text"].agg(list)
    assert tuple(texts["1", "caption"]) == images[0].captions
    assert texts["1", "multi"] == ["a photograph showing dog, couch"]
    assert texts["1", "single"][0] in ("a photograph showing dog", "a photograph showing couch")
    # Only the second image shares a label, the dog, with the first; none does with the third.
    assert set(texts["1", "related"]) == set(images[1].captions)
    assert ("3", "related") not in texts
    assert len(texts["1", "random"]) == len(texts["1", "altered"]) == 3
    assert set(texts["1", "random"]) <= {
        caption for image in images[1:] for caption in image.captions
    }
    # The draws follow the seed and the image, not the order of the images.
    assert made.equals(make_texts(images, words, TEMPLATE, negatives=3, seed=4))
    assert not made.equals(make_texts(images, words, TEMPLATE, negatives=3, seed=5))
    backwards = make_texts(images[::-1], words, TEMPLATE, negatives=3, seed=4)
    assert (
        backwards.groupby(["image", "kind"])["text"].agg(list)["1", "altered"]
        == texts["1", "altered"]
    )


def test_no_wrong_caption_is_one_of_its_own() -> None:
    images = [Image(str(i), f"{i}.jpg", ("A dog", f"Image {i}"), ("dog",)) for i in range(10)]
    made = make_texts(images, read_words(("dog", "cat")), TEMPLATE, negatives=20)
    for (image, kind), texts in made[made["kind"].isin(["random", "related"])].groupby(
        ["image", "kind"]
    )["text"]:
        assert sorted(texts) == sorted(f"Image {j}" for j in range(10) if str(j) != image), kind


def test_a_very_long_caption_is_altered_a_few_times() -> None:
    long = "a dog and a cat and " * 10_000
    images = [Image(str(i), f"{i}.jpg", (f"{long} {i}",), ("dog",)) for i in range(2)]
    made = make_texts(images, read_words(("dog", "cat", "couch", "skis")), TEMPLATE, negatives=3)
    texts = made.loc[made["kind"] == "altered", "text"]
    assert len(texts) == 6
    assert all(text.count("couch") + text.count("skis") == 1 for text in texts)
