from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.mapping.hash_index import Multimap, MultimapBuilder, cached, text_key

TEXTS = ["", "owl", "Ä", "\ud800", "sea gull"]
PAIRS = st.tuples(st.sampled_from(TEXTS), st.integers(0, 9))


@given(st.lists(PAIRS), st.booleans())
def test_a_multimap_is_a_dictionary_of_sorted_lists(pairs, repeats):
    builder = MultimapBuilder()
    expected = defaultdict(list)
    for text, number in pairs:
        builder.add(text, number)
        expected[text].append(number)
    found = builder.build(repeats=repeats)
    for text in (*TEXTS, "seagull"):
        numbers = sorted(expected[text] if repeats else set(expected[text]))
        assert found.find(text).tolist() == numbers


def test_a_text_has_the_same_key_in_every_process():
    assert text_key("owl") == 4023525244920974642


def made():
    builder = MultimapBuilder()
    for number, text in enumerate(("owl", "gull", "owl")):
        builder.add(text, number)
    return {
        "texts": ["eins", "zwölf", ""],
        "none": [],
        "map": builder.build(),
        "table": np.arange(6, dtype=np.int32).reshape(2, 3),
        "flag": np.array(True),
    }


@pytest.mark.parametrize("damage", [None, b"", b"{}", "half"])
def test_parts_come_back_and_a_damaged_file_is_made_again(tmp_path, damage):
    path = tmp_path / "cache" / "a.npz"
    cached(path, made)
    whole = path.read_bytes()
    if damage == "half":
        damage = whole[: len(whole) // 2]
    if isinstance(damage, bytes):
        path.write_bytes(damage)
        cached(path, made)
    parts = cached(path, lambda: pytest.fail("made again"))
    assert parts.keys() == made().keys()
    assert parts["texts"] == ["eins", "zwölf", ""]
    assert parts["none"] == []
    assert isinstance(parts["map"], Multimap)
    assert parts["map"].find("owl").tolist() == [0, 2]
    assert np.array_equal(parts["table"], [[0, 1, 2], [3, 4, 5]])
    assert bool(parts["flag"]) is True


def test_where_nothing_can_be_written_it_is_made_each_time(tmp_path):
    file = tmp_path / "file"
    file.write_text("in the way")
    for _ in range(2):
        assert cached(file / "a.npz", made)["texts"] == ["eins", "zwölf", ""]
