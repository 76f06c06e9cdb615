"""Word differences between templates, and which of several is most like one."""

from __future__ import annotations

import random

import pytest

from taxtune.report.words import Piece, most_alike, word_differences, words


def test_tags_and_punctuation_are_words_of_their_own() -> None:
    text = "Name the {{ domain }}'s {% if ranks %}rank{% endif %}, don't guess: 'A: <answer>.'"
    assert words(text) == [
        *("Name", "the", "{{ domain }}", "'", "s", "{% if ranks %}", "rank", "{% endif %}", ",", "don't", "guess", ":"),
        *("'", "A", ":", "<", "answer", ">", ".", "'"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "pieces"),
    [
        ("a b c", "a b c", [("same", "a b c")]),
        ("a b c", "a x c", [("same", "a "), ("del", "b"), ("same", " "), ("ins", "x"), ("same", " "), ("same", "c")]),
        ("a b.", "a.", [("same", "a"), ("same", " "), ("del", "b"), ("same", ".")]),
        ("a b c", "a c", [("same", "a "), ("del", "b"), ("same", " "), ("same", "c")]),
        ("a. b", "a.", [("same", "a."), ("same", " "), ("del", "b")]),
        ("a.", "a b.", [("same", "a "), ("ins", "b"), ("same", ".")]),
        ("", "a", [("ins", "a")]),
        ("a", "", [("del", "a")]),
        ("", "", []),
        # How a text is broken into lines is no difference.
        ("a\nb", "a b", [("same", "a b")]),
    ],
)
def test_what_was_taken_out_and_put_in(before: str, after: str, pieces: list[tuple[str, str]]) -> None:
    assert word_differences(before, after) == [Piece(*each) for each in pieces]  # type: ignore[arg-type]


def test_of_a_long_passage_that_is_the_same_the_ends_are_shown() -> None:
    same = " ".join(f"w{i}" for i in range(40))
    found = word_differences(f"x {same}", f"y {same}")
    assert [piece.kind for piece in found] == ["del", "same", "ins", "same", "same", "gap", "same"]
    assert found[-3].text.split() == [f"w{i}" for i in range(8)]
    assert found[-2].text == "24"
    assert found[-1].text.split() == [f"w{i}" for i in range(32, 40)]


def test_both_texts_can_be_read_off_the_pieces() -> None:
    rng = random.Random(0)
    for _ in range(200):
        before, after = (" ".join(rng.choice("abcde") for _ in range(rng.randrange(20))) for _ in range(2))
        pieces = word_differences(before, after)
        old = "".join(piece.text + " " for piece in pieces if piece.kind != "ins").split()
        new = "".join(piece.text + " " for piece in pieces if piece.kind != "del").split()
        assert (old, new) == (before.split(), after.split())


def test_the_most_alike_has_most_words_in_common_and_of_equals_is_the_first() -> None:
    assert most_alike("a b c d", ["x y", "a b c e", "a b c f", "a"]) == (1, pytest.approx(6 / 8))
    assert most_alike("a", ["a"]) == (0, 1.0)
    assert most_alike("a", ["b", "c"]) == (0, 0.0)
