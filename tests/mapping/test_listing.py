"""The preset `paper-listing` against a plain transcription of the paper's listing."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.mapping import Mapper, MapperConfig, Stage
from taxtune.mapping.listing import top_k
from taxtune.taxonomy import Taxonomy


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "mapper.py"
    spec = importlib.util.spec_from_file_location("mapper_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("digits", [7, 2, 1])
def test_places_as_the_transcription_does_ties_included(nature: Taxonomy, benchmark: ModuleType, digits: int) -> None:
    mapper = Mapper(nature, config=MapperConfig(preset="paper-listing"))
    reference = benchmark.PlainListing(nature, mapper.config)
    texts = benchmark.texts_for(nature, None, 300, seed=digits)
    rows = np.round(mapper.node_scores(texts), digits)
    stages = set()
    for text, row in zip(texts, rows, strict=True):
        placement = mapper.place_scored(text, row)
        stages.add(placement.stage)
        assert placement.node == reference.place(text, row), text
    assert {Stage.VERBATIM, Stage.SIMILARITY} <= stages


def test_places_random_words_as_the_transcription_does(benchmark: ModuleType) -> None:
    rng = random.Random(0)
    words = ["an", "ant", "plant", "red", "owl", "sea", "lion", "of"]
    labels = ["root"] + [" ".join(rng.choices(words, k=rng.randint(3, 5))) + f" {i}" * (i % 3 == 0) for i in range(200)]
    seen: dict[tuple[int, str], int] = {}
    parents = [-1]
    for i, name in enumerate(labels[1:], 1):
        parent = rng.randrange(i)
        while (parent, name) in seen:
            parent = rng.randrange(i)
        seen[parent, name] = i
        parents.append(parent)
    taxonomy = Taxonomy(labels, parents)
    mapper = Mapper(taxonomy, config=MapperConfig(preset="paper-listing", thr_top2=0.05, thr_topk=0.05, thr_vote=2))
    reference = benchmark.PlainListing(taxonomy, mapper.config)
    stages = set()
    for _ in range(400):
        text = rng.choice([" ".join(rng.choices(words, k=rng.randint(1, 6))), "zebra quagga", "lion of nowhere", "x"])
        row = np.round(np.array([rng.random() for _ in labels], dtype=np.float32), rng.choice([1, 2, 7]))
        placement = mapper.place_scored(text, row)
        stages.add(placement.stage)
        assert placement.node == reference.place(text, row), text
    assert stages >= {Stage.VERBATIM, Stage.NGRAM, Stage.VOTE}


def test_the_quirks_of_the_listing_are_kept(nature: Taxonomy) -> None:
    literal = Mapper(nature, config=MapperConfig(preset="paper-listing"))
    assert nature.labels[literal.place_one("elephant").node] == "Formicidae"  # "ant" as a raw substring
    assert Mapper(nature).place_one("elephant").off_tree
    # Ten leaves of one depth vote; walked from the offset farthest from them, the root wins.
    row = np.zeros(len(nature), dtype=np.float32)
    leaves = [v for v in nature.leaves.tolist() if nature.depth[v] == 6][:10]
    row[leaves] = 0.5
    placement = literal.place_scored("xyzzy", row)
    assert (placement.stage, placement.node) == (Stage.VOTE, 0)


def test_a_blank_answer_is_an_abstention(nature: Taxonomy) -> None:
    assert Mapper(nature, config=MapperConfig(preset="paper-listing")).place_one(" - ").abstained


@settings(deadline=None)
@given(
    scores=st.lists(st.integers(0, 6), min_size=1, max_size=3000),
    k=st.integers(1, 12),
)
def test_top_k_is_a_stable_sort(scores: list[int], k: int) -> None:
    row = np.array(scores, dtype=np.float32)
    assert top_k(row, k).tolist() == np.argsort(-row, kind="stable")[:k].tolist()
