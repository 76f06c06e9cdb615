"""Finding and swapping objects in captions, and drawing wrong texts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from taxtune.studies.specificity.coco import Image, read_coco
from taxtune.studies.specificity.mentions import (
    Words,
    is_head,
    mention_finder,
    read_words,
    swapped,
)
from taxtune.studies.specificity.texts import altered_captions, make_texts
from tests.studies.coco import write_coco

TEMPLATE = "a photograph showing {label}"
CATEGORIES = "person, cat, dog, hot dog, bear, teddy bear, umbrella, skis, sheep, orange, couch"
WORDS = read_words(CATEGORIES.split(", "))
Data = tuple[list[Image], dict[str, Words]]


@pytest.fixture
def data(tmp_path):
    images, categories, _ = read_coco(*write_coco(tmp_path))
    return images, read_words(categories)


def altered(image, words, seed=0):
    return list(altered_captions(image, words, mention_finder(words), np.random.default_rng(seed)))


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
def test_mentions_and_heads(caption, mentions, heads):
    found = mention_finder(WORDS)(caption)
    shown = [f"{caption[m.start : m.end]} {m.category} {m.plural:d}" for m in found]
    assert "; ".join(shown) == mentions
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
        ("it is a dog", "unicycle", "it is a unicycle"),
        ("it is a dog", "hourglass", "it is an hourglass"),
        ("it is a dog", "ewe", "it is a ewe"),
        ("it is a dog", "used car", "it is a used car"),
    ],
)
def test_number_and_article_are_kept_right(caption, category, expected):
    word = read_words([category])[category]
    assert swapped(caption, mention_finder(WORDS)(caption)[0], word) == expected


# -- the texts --------------------------------------------------------------------------------------------------------


def test_altered_captions_name_what_neither_labels_nor_captions_do(data):
    images, words = data
    # In the first image: dog and couch.
    expected = {"An umbrella sits on an orange couch."}
    for name in ("person", "cat", "hot dog", "pair of skis"):
        expected.add(f"A {name} sits on an orange couch.")
    for name in ("person", "cat", "umbrella", "hot dog", "pair of skis"):
        expected.add(f"A dog sits on an orange {name}.")
        expected.add(f"An old {name} resting indoors")
    texts = altered(images[0], words)
    assert len(texts) == len(expected)
    assert set(texts) == expected
    # The second has no label "hot dog", but a caption with one.
    texts = altered(images[1], words)
    assert not any("hot dog and" in text for text in texts)
    assert "Two couches and a cat near a hot dog stand" in texts
    assert "Two dogs and an umbrella near a hot dog stand" in texts


def test_a_caption_without_objects_is_not_altered():
    image = Image("1", "1.jpg", ("A quiet street", "شارع هادئ"), ("car",))
    assert altered(image, read_words(("car", "dog"))) == []


def test_alterations_are_drawn_in_any_order(data):
    images, words = data
    first = Counter(altered(images[0], words, seed)[0] for seed in range(500))
    assert len(first) == 15
    assert min(first.values()) > 12  # 33 are expected, give or take 6


def by_kind(made):
    return made.groupby(["image", "kind"])["text"].agg(list)


def test_the_texts_of_images(data):
    images, words = data
    made = make_texts(images, words, TEMPLATE, negatives=3, seed=4)
    texts = by_kind(made)
    assert tuple(texts["1", "caption"]) == images[0].captions
    assert texts["1", "multi"] == ["a photograph showing dog, couch"]
    assert texts["1", "single"][0] in ("a photograph showing dog", "a photograph showing couch")
    # Only the second image shares a label, the dog, with the first; none does with the third.
    assert set(texts["1", "related"]) == set(images[1].captions)
    assert ("3", "related") not in texts
    assert len(texts["1", "random"]) == len(texts["1", "altered"]) == 3
    assert set(texts["1", "random"]) <= {*images[1].captions, *images[2].captions}
    # The draws follow the seed and the image, not the order of the images.
    assert made.equals(make_texts(images, words, TEMPLATE, negatives=3, seed=4))
    assert not made.equals(make_texts(images, words, TEMPLATE, negatives=3, seed=5))
    backwards = by_kind(make_texts(images[::-1], words, TEMPLATE, negatives=3, seed=4))
    assert backwards["1", "altered"] == texts["1", "altered"]


def test_no_wrong_caption_is_one_of_its_own():
    images = [Image(str(i), f"{i}.jpg", ("A dog", f"Image {i}"), ("dog",)) for i in range(10)]
    texts = by_kind(make_texts(images, read_words(("dog", "cat")), TEMPLATE, negatives=20))
    for image in images:
        others = [f"Image {other.id}" for other in images if other != image]
        assert sorted(texts[image.id, "random"]) == others
        assert sorted(texts[image.id, "related"]) == others


def test_a_very_long_caption_is_altered_a_few_times():
    long = "a dog and a cat and " * 10_000
    images = [Image(str(i), f"{i}.jpg", (f"{long} {i}",), ("dog",)) for i in range(2)]
    made = make_texts(images, read_words(("dog", "cat", "couch", "skis")), TEMPLATE, negatives=3)
    texts = made.loc[made["kind"] == "altered", "text"]
    assert len(texts) == 6
    assert all(text.count("couch") + text.count("skis") == 1 for text in texts)
