from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.errors import DataError
from taxtune.studies.specificity.object_words import ObjectWords, chunk_mentions, read_object_words, swapped

CATEGORIES = ("person", "cat", "dog", "hot dog", "bear", "teddy bear", "umbrella", "skis", "sheep", "orange", "couch")


@pytest.fixture(scope="module")
def words() -> ObjectWords:
    return read_object_words(CATEGORIES)[0]


def found(words: ObjectWords, caption: str) -> list[tuple[str, str | None, bool]]:
    return [(caption[m.start : m.end], m.category, m.plural) for m in words.mentions(caption)]


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A dog and two Dogs", [("dog", "dog", False), ("Dogs", "dog", True)]),
        ("a hot dog", [("hot dog", "hot dog", False)]),
        ("hotdogs", [("hotdogs", "hot dog", True)]),
        ("a teddy bear with a bear", [("teddy bear", "teddy bear", False), ("bear", "bear", False)]),
        ("a doghouse, a caterpillar, a bulldog", []),
        ("a dog-like thing", []),
        ("an orange couch with oranges", [("couch", "couch", False), ("oranges", "orange", True)]),
        ("a woman's puppy", [("woman", "person", False), ("puppy", "dog", False)]),
        ("كلب 🐕", []),
        ("", []),
    ],
)
def test_mentions_stand_on_word_boundaries(
    words: ObjectWords, caption: str, expected: list[tuple[str, str | None, bool]]
) -> None:
    assert found(words, caption) == expected


@pytest.mark.parametrize(
    ("caption", "heads"),
    [
        ("a dog on a couch", ["dog", "couch"]),
        ("a dog house", []),
        ("a dog.", ["dog"]),
        ("a dog running", ["dog"]),
        ("the dog's tail", ["dog"]),
        ("a cat, a dog 2 m away", ["cat", "dog"]),
        ("a couch cushion and a dog", ["dog"]),
    ],
)
def test_only_heads_are_swapped(words: ObjectWords, caption: str, heads: list[str]) -> None:
    assert [caption[m.start : m.end] for m in words.swappable(caption)] == heads


@pytest.mark.parametrize(
    ("caption", "category", "expected"),
    [
        ("A dog on a bed", "umbrella", "An umbrella on a bed"),
        ("An umbrella on a bed", "dog", "A dog on a bed"),
        ("a small dog on a bed", "umbrella", "a small umbrella on a bed"),
        ("two dogs on a bed", "umbrella", "two umbrellas on a bed"),
        ("two dogs on a bed", "person", "two people on a bed"),
        ("Dogs on a bed", "sheep", "Sheep on a bed"),
        ("a dog on a bed", "skis", "a pair of skis on a bed"),
        ("dogs on a bed", "skis", "skis on a bed"),
        ("the dog's bed", "cat", "the cat's bed"),
        ("banana dog", "cat", "banana cat"),
    ],
)
def test_number_and_article_are_kept_right(words: ObjectWords, caption: str, category: str, expected: str) -> None:
    assert swapped(caption, words.mentions(caption)[0], words.words[category]) == expected


@pytest.mark.parametrize(
    ("name", "article"), [("unicycle", "a"), ("hourglass", "an"), ("ewe", "a"), ("apple", "an"), ("used car", "a")]
)
def test_articles_go_by_sound(words: ObjectWords, name: str, article: str) -> None:
    other = read_object_words([name])[0].words[name]
    caption = "it is a dog"
    assert swapped(caption, words.mentions(caption)[0], other) == f"it is {article} {name}"


def test_every_category_of_coco_has_words() -> None:
    words, notes = read_object_words(["person", "sports ball", "tv"])
    assert notes == ()
    assert words.words["tv"].singular == "television"
    assert found(words, "men playing with footballs before a TV") == [
        ("men", "person", True),
        ("footballs", "sports ball", True),
        ("TV", "tv", False),
    ]


def test_other_categories_go_by_their_names() -> None:
    words, notes = read_object_words(["sea_horse", "axis"])
    assert notes == ("2 categories use their own names because they are not in the list of words: sea_horse, axis.",)
    assert found(words, "sea horses") == [("sea horses", "sea_horse", True)]


def test_a_list_of_words(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("category,singular,plural,mentions\nfish,fish,fish,trout;salmon/salmons;/shoal\nox,ox,oxen,-ox\n")
    words, _ = read_object_words(["fish", "ox"], path)
    assert found(words, "a trout, two salmons, a shoal, an ox and oxen") == [
        ("trout", "fish", False),
        ("salmons", "fish", True),
        ("shoal", "fish", True),
        ("oxen", "ox", True),
    ]
    path.write_text("category,plural\nfish,fish\n")
    with pytest.raises(DataError, match="needs the columns"):
        read_object_words(["fish"], path)
    path.write_text("category,singular\nfish,\n")
    with pytest.raises(DataError, match=r"words\.csv:2"):
        read_object_words(["fish"], path)


def test_heads_of_noun_phrases() -> None:
    caption = "A big dog and it on wooden tables, grass 7"
    mentions = chunk_mentions(caption, ("A big dog", "it", "wooden tables", "grass", "7", "not there"))
    assert [(caption[m.start : m.end], m.plural) for m in mentions] == [
        ("dog", False),
        ("tables", True),
        ("grass", False),
    ]
