from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.building import BuildOptions, build_tree
from taxtune.taxonomy.sources import read_graph, read_leaves
from taxtune.wordnet import WordNet
from tests.small_wordnet import write_wordnet

from .test_wikidata import names

SENSES = [
    ("entity", ["entity"], "what is", []),
    ("canine", ["canine", "canid"], "dogs and the like", ["entity"]),
    ("domestic", ["domestic_animal"], "kept by people", ["entity"]),
    ("dog", ["dog", "domestic_dog", "Canis_familiaris"], "barks | and bites", ["canine", "domestic"]),
]


def test_synsets_with_their_words_and_hypernyms(tmp_path: Path) -> None:
    path = write_wordnet(tmp_path, SENSES) / "data.noun"
    graph = read_graph([path])
    labels = [graph.label(i) for i in range(len(graph))]
    pairs = {
        (labels[c], labels[p]) for c, p in zip(graph.edges.child.tolist(), graph.edges.parent.tolist(), strict=True)
    }
    assert pairs == {
        ("canine", "entity"),
        ("domestic animal", "entity"),
        ("dog", "canine"),
        ("dog", "domestic animal"),
    }
    assert names(graph)[graph.ids[labels.index("dog")]] == ("dog", "domestic dog", "Canis familiaris")
    # An id is the part of speech and the offset at which the line begins.
    dog = graph.ids[labels.index("dog")]
    assert dog[0] == "n"
    assert path.read_bytes()[int(dog[1:]) :].startswith(dog[1:].encode())
    packed = tmp_path / "nouns.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_graph([packed], format="wordnet").ids == graph.ids


def test_instances_and_many_words(tmp_path: Path) -> None:
    path = tmp_path / "data.noun"
    words = " ".join(f"w{i} 0" for i in range(17))
    text = "  1 a licence\n00000014 15 n 01 city 0 000 | a place\n"
    path.write_text(text + f"00000052 15 n 11 {words} 002 @i 00000014 n 0000 + 00000001 v 0101 | a name\n")
    graph = read_graph([path])
    assert (graph.ids, len(graph.edges)) == (["n00000014", "n00000052"], 1)
    assert len(graph.aliases[1]) == 16  # "11" is hexadecimal


@pytest.mark.parametrize("line", ["00000014 15 n 01 city", "00000014 15 x 01 city 0 000 | a", "city 0 000"])
def test_a_line_that_is_no_synset(tmp_path: Path, line: str) -> None:
    path = tmp_path / "data.noun"
    path.write_text(f"  1 a licence\n{line}\n00000052 15 n 01 town 0 000 | a place\n")
    with pytest.raises(TaxonomyError, match=r"data\.noun:2: The line is not a synset"):
        read_graph([path])


def test_leaves_from_imagenets_class_index(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    index = {"0": ["n01440764", "tench"], "1": ["n01443537", "goldfish"]}
    for indent in (None, 1):
        path.write_text(json.dumps(index, indent=indent))
        assert read_leaves(path) == ("n01440764", "n01443537")
    path.write_text(json.dumps({"n01440764": {"name": "tench"}}))
    assert read_leaves(path) == ("n01440764",)
    path.write_text('{"0": ["n01440764", "tench"], "1": ["n01443537"]}')
    with pytest.raises(TaxonomyError, match=r"Entry .* is neither"):
        read_leaves(path)


def test_imagenets_tree_and_graph_from_wordnet(shared_data: Path, wordnet: WordNet) -> None:
    if wordnet.version != "3.0":
        pytest.skip("needs WordNet 3.0, which ImageNet's ids are of")
    graph = read_graph([Path(wordnet.place) / "data.noun"])
    leaves = read_leaves(shared_data / "imagenet" / "imagenet_class_index.json")
    tree = build_tree(graph, BuildOptions(leaves=leaves))
    assert (len(leaves), len(tree.order), tree.missing_leaves, tree.lost_leaves) == (1000, 1819, (), ())
    # Paper 3 has 820 ancestors. Lots between longest paths decide how many there are, and 820 is among the outcomes.
    found = Counter(len(build_tree(graph, BuildOptions(leaves=leaves, seed=seed)).order) - 1000 for seed in range(15))
    assert found[820] >= 1
    assert found[819] >= 1
    # On all paths there are 860, as many as nltk finds.
    first = [wordnet.reader.synset_from_pos_and_offset("n", int(key[1:])) for key in leaves]
    whole = build_tree(graph, BuildOptions(leaves=leaves, parents="all"))
    assert len(whole.order) - 1000 == len({a for leaf in first for p in leaf.hypernym_paths() for a in p}) - 1000 == 860
    assert len(whole.kept_edges) == 1937
