from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import MapperError
from taxtune.mapping import Mapper, MapperConfig, Similarity
from taxtune.studies.mapping.scorers import (
    UNPLACED,
    MeasureSimilarity,
    NodeNames,
    nearest_nodes,
    similarity_scorer,
    tree_names,
)
from taxtune.taxonomy import Taxonomy
from tests.studies.measures import UNSCORED, Words

NAN = float("nan")


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4), min_size=1, max_size=8),
    st.integers(0, 1000),
)
def test_the_best_name_decides(names: list[list[str]], seed: int) -> None:
    columns = NodeNames.of(names)
    scores = np.random.default_rng(seed).random((3, len(columns.vocabulary))).astype(np.float32)
    scores[0, 0] = NAN  # gives way to a name that has a score
    value = columns.vocabulary.index
    expected = [[np.nanmax([row[value(n)] for n in g] + [-1]) for g in names] for row in scores]
    assert np.array_equal(np.nan_to_num(columns.best(scores), nan=-1), np.array(expected, dtype=np.float32))


def test_all_names_or_the_common_one(birds: Taxonomy) -> None:
    assert {"Aves", "bird", "common blackbird"} <= set(tree_names(birds).vocabulary)
    assert set(tree_names(birds, "common").vocabulary) == {
        "life", "bird", "Passeriformes", "thrush", "blackbird", "American robin", "Anseriformes", "Anatidae", "mallard",
    }  # fmt: skip


def test_ties_by_each_rule(birds: Taxonomy) -> None:
    row = np.zeros(len(birds), dtype=np.float32)
    row[[2, 4, 5]] = 0.7, 0.7 - 1e-8, 0.7  # Passeriformes and two thrushes; fractions computed in another order
    lone = np.full(len(birds), NAN, dtype=np.float32)
    lone[6] = -0.3
    table = np.stack([row, np.eye(len(birds), dtype=np.float32)[7], np.full(len(birds), NAN, np.float32), lone])
    nodes, tied = nearest_nodes(birds, table)
    assert nodes.tolist() == [4, 7, UNPLACED, 6]
    assert tied.tolist() == [3, 1, 0, 1]
    assert nearest_nodes(birds, table, ties="ancestor")[0].tolist() == [2, 7, UNPLACED, 6]
    drawn = {int(nearest_nodes(birds, table, ties="random", rng=np.random.default_rng(s))[0][0]) for s in range(40)}
    assert drawn == {2, 4, 5}


def test_batches_change_nothing(birds: Taxonomy) -> None:
    texts = [f"{word} {i}" for i in range(100) for word in ("bird", "mallard", "nothing")]
    scorer = similarity_scorer("mine=lexical", tree_names(birds))
    assert (scorer.name, scorer.spec, scorer.kind) == ("mine", "lexical", "lexical")
    batches = list(scorer.tables(texts))
    assert len(batches) > 1
    assert [text for batch, _ in batches for text in batch] == texts
    table = np.concatenate([part for _, part in batches])
    assert np.allclose(table, scorer.names.best(scorer.similarity.scores(texts)))


def test_a_measure_is_a_mapper_s_similarity(birds: Taxonomy) -> None:
    similarity = MeasureSimilarity(Words("words", "Words"))
    assert isinstance(similarity, Similarity)
    with pytest.raises(MapperError, match="has no names"):
        similarity.scores(["x"])
    mapper = Mapper(birds, similarity, MapperConfig(preset="paper-listing"))
    # "thrush" is not said verbatim as a name of the robin, but "robin" is half of one.
    assert mapper.place_one("some robin").node == 5
    assert mapper.place_one("a thrush").node == 3
    assert (similarity.scores([UNSCORED]) == -1).all()
    assert np.isnan(similarity.table([UNSCORED])).all()
    # A repeated name is scored once.
    similarity.fit(["duck", "blue jay", "duck"])
    Words.calls = 0
    assert similarity.scores(["duck jay"]).tolist() == [[1.0, 0.5, 1.0]]
    assert Words.calls == 2
