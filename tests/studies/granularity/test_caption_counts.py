from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.errors import DataError
from taxtune.mapping.normalize import fold_words
from taxtune.studies.granularity.caption_counts import count_captions
from taxtune.taxonomy import Taxonomy, restrict

TREE = Taxonomy(
    ["animal", "shark", "tiger shark", "tiger", "grey seal", "Larus", "crane", "St. Bernard", "ball (round)"],
    [-1, 0, 1, 0, 0, 0, 0, 0, 0],
    aliases=[(), (), ("Galeocerdo cuvier",), ("Panthera tigris",), (), ("gull", "sea gull"), ("whooping crane",)]
    + [()] * 2,
)


def counted(*captions: str, tree: Taxonomy = TREE) -> dict[str, int]:
    found = count_captions(captions, tree).counts
    return {tree.labels[i]: int(n) for i, n in enumerate(found) if n}


@pytest.mark.parametrize(
    ("caption", "named"),
    [
        ("A tiger and another TIGER", {"tiger": 1}),
        ("two tigers, sharks; animals!", {"tiger": 1, "shark": 1, "animal": 1}),
        ("a tigerish sharkskin coat with an animalistic look", {}),
        ("a tiger shark", {"tiger shark": 1}),
        ("a tiger-shark", {"tiger shark": 1}),
        ("a tiger shark and a tiger", {"tiger shark": 1, "tiger": 1}),
        ("tiger, shark", {"tiger": 1, "shark": 1}),
        ("I saw a tiger. Shark next", {"tiger": 1, "shark": 1}),
        ("tiger (shark)", {"tiger": 1, "shark": 1}),
        ("st bernards, a St. Bernard, a saint bernard", {"St. Bernard": 1}),
        ("ball (round) and ball round", {"ball (round)": 1}),
        ("ball round", {}),
        ("a shark tiger", {"shark": 1, "tiger": 1}),
        ("Gray Seals on ice", {"grey seal": 1}),
        ("Lârus: sea gulls", {"Larus": 1}),
        ("a whooping crane", {"crane": 1}),
    ],
)
def test_what_names_a_node(caption: str, named: dict[str, int]) -> None:
    assert counted(caption, "nothing", "an animal") == {
        **named,
        "animal": named.get("animal", 0) + 1,
    }


def test_names_inside_longer_ones_are_counted_apart() -> None:
    found = count_captions(["a tiger shark", "tiger shark, tiger", "a whooping crane"], TREE)
    by_label = dict(zip(TREE.labels, zip(found.counts.tolist(), found.inside.tolist(), strict=True), strict=True))
    assert by_label["tiger shark"] == (2, 0)
    assert by_label["tiger"] == (1, 1)
    assert by_label["shark"] == (0, 2)
    assert by_label["crane"] == (1, 0)  # the longer name is the node's own
    assert found.naming == found.captions == 3


def test_names_of_several_nodes_count_for_each() -> None:
    tree = Taxonomy(["thing", "bird", "machine", "crane", "crane", "¿"], [-1, 0, 0, 1, 2, 0], aliases=[()] * 6)
    found = count_captions(["a crane", "a bird", "", "  \t", "🦆", "cranes lifting a bird"], tree)
    assert found.counts.tolist() == [0, 2, 0, 2, 2, 0]
    assert (found.captions, found.empty, found.naming) == (4, 2, 3)
    assert (found.names, found.shared_names, found.shared_nodes, found.by_shared) == (4, 1, 2, 2)
    assert found.wordless == 1


def test_names_outside_a_part_stand_in_its_way() -> None:
    whole = Taxonomy(
        ["thing", "animal", "food", "dog", "crane", "hot dog", "crane"],
        [-1, 0, 0, 1, 1, 2, 0],
        aliases=[(), (), (), (), (), ("frankfurter",), ()],
    )
    part = restrict(whole, "animal")
    captions = ["a hot dog", "a dog", "a crane", "a frankfurter"]
    found = count_captions(captions, part.tree, part)
    assert dict(zip(part.tree.labels, found.counts.tolist(), strict=True)) == {"animal": 0, "dog": 1, "crane": 1}
    assert dict(zip(part.tree.labels, found.inside.tolist(), strict=True)) == {"animal": 0, "dog": 1, "crane": 0}
    assert (found.naming, found.names, found.shared_names, found.shared_nodes, found.by_shared) == (2, 3, 1, 1, 1)
    assert count_captions(captions, part.tree).counts.tolist() == [0, 2, 1]
    with pytest.raises(DataError, match="None of 1 captions"):
        count_captions(["a frankfurter"], part.tree, part)


def test_captions_that_say_nothing() -> None:
    with pytest.raises(DataError, match=r"All captions are empty.*3 captions"):
        count_captions(["", " ", "\n"], TREE)
    with pytest.raises(DataError, match="None of 2 captions names a label"):
        count_captions(["a house", "東京のトラ"], TREE)
    with pytest.raises(DataError, match="None of 1 captions"):
        count_captions(["¿"], Taxonomy(["¿", "¡"], [-1, 0]))


def test_ten_thousand_times_the_same_and_a_megabyte() -> None:
    found = count_captions(["a tiger"] * 10_000 + ["tiger shark " * 100_000], TREE)
    assert found.counts.tolist() == [0, 0, 1, 10_000, 0, 0, 0, 0, 0]


WORD = ["ant", "ants", "bear", "cat", "dog", "d'or", "eel"]
WORDS = st.sampled_from(WORD)


@settings(deadline=None, max_examples=150)
@given(
    names=st.lists(st.lists(WORDS, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=8),
    captions=st.lists(st.lists(st.sampled_from([*WORD, "cat, dog"]), max_size=9).map(" ".join), min_size=1, max_size=6),
)
def test_it_is_what_regular_expressions_find(names: list[str], captions: list[str]) -> None:
    """Every span of every name is found by itself; those inside another span are dropped one by one."""
    tree = Taxonomy([f"n{i}" for i in range(len(names))], [-1] + [0] * (len(names) - 1), aliases=[[n] for n in names])
    expected = np.zeros(len(names), dtype=int)
    inside = np.zeros(len(names), dtype=int)
    for caption in captions:
        text = " | ".join(" ".join(fold_words(part)) for part in caption.split(","))
        spans = [
            (match.start(1), match.end(1), node)
            for node, name in enumerate(names)
            for match in re.finditer(rf"(?=\b({re.escape(' '.join(fold_words(name)))})\b)", text)
        ]
        kept = {
            node
            for start, end, node in spans
            if not any(s <= start and end <= e and (s, e) != (start, end) for s, e, _ in spans)
        }
        expected[list(kept)] += 1
        inside[list({node for _, _, node in spans} - kept)] += 1
    if not expected.any():
        with pytest.raises(DataError):
            count_captions(captions, tree)
        return
    found = count_captions(captions, tree)
    assert found.counts.tolist() == expected.tolist()
    assert found.inside.tolist() == inside.tolist()
