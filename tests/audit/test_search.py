from __future__ import annotations

from taxtune.audit.search import NodeSearch
from taxtune.taxonomy import Taxonomy
from tests.audit.samples import TREE


def labels(nodes: list[int], tree: Taxonomy = TREE) -> list[str]:
    return [tree.labels[node] for node in nodes]


def test_each_typed_word_begins_a_word_of_a_name() -> None:
    search = NodeSearch(TREE)
    assert labels(search.find("so")) == ["soup", "noodle soup"]
    assert labels(search.find("soup n")) == ["noodle soup"]
    assert labels(search.find("ICE")) == ["ice cream"]
    assert labels(search.find("gat")) == ["cake"]  # by an alias
    assert search.find("  ") == search.find("qqqq") == search.find("..") == []
    assert len(search.find("s", most=1)) == 1


def test_a_slip_finds_what_is_spelt_much_alike() -> None:
    assert labels(NodeSearch(TREE).find("gelatto")) == ["gelato"]


def test_nodes_that_an_answer_names() -> None:
    search = NodeSearch(TREE)
    assert labels(search.named_in("Either ice cream, or Pho bo?")) == ["ice cream", "pho"]
    assert search.named_in("a pancake") == []
    assert search.named_in("") == []


def test_birds(birds: Taxonomy) -> None:
    assert labels(NodeSearch(birds).find("turd mer"), birds) == ["Turdus merula"]
