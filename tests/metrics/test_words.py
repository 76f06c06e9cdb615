from __future__ import annotations

from itertools import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.mapping.normalize import plain
from taxtune.metrics.text import glued_tokens, tokens


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  A Red-tailed Hawk!\n", "a red tailed hawk"),
        ("Anna's Hummingbird, 'Calypte anna'", "annas hummingbird calypte anna"),
        ("bird,robin/thrush_nest", "bird robin thrush nest"),
        ("Malus ×domestica", "malus domestica"),
        ("Ѣѣ ÉCUREUIL e\u0301cureuil", "ѣѣ écureuil écureuil"),
        ("\u200fטווס\u200e הודי", "טווס הודי"),  # marks of direction are no letters
        ("हिन्दी मोर", "हिन्दी मोर"),  # vowel signs stay
        ("bird🐦bird 👍🏽 ❤️", "bird 🐦 bird 👍 ❤"),
        ("这是猫。", "这 是 猫"),
        ("นก", "น ก"),
        ("co\u00adoperate", "cooperate"),
        ("\ud83d", "\ud83d"),  # half an emoji, as broken answers have it
        ("", ""),
        (" … -- \t", ""),
    ],
)
def test_words_are_lower_case_letters_of_any_script(text, words):
    assert tokens(text) == tuple(words.split())


@given(
    st.lists(st.text("abcXYZ'", min_size=1, max_size=6), max_size=6),
    st.sampled_from([" ", "-", " / ", ", ", "_"]),
)
def test_words_are_the_papers_plain_text_where_punctuation_stands_beside_space(words, gap):
    text = gap.join(words)
    assert tokens(text) == tuple(plain(text).split())


def test_words_that_qualify_others_are_glued_to_them():
    words, glued = glued_tokens("The trash can's red-tailed, cat-like — bird's-eye canopy")
    assert list(compress(words, glued)) == ["cans", "red", "cat", "birds"]
    assert words[-1] == "canopy"
