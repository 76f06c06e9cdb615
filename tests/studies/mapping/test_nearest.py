from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import MapperError
from taxtune.mapping import Mapper, MapperConfig, Similarity
from taxtune.studies.mapping.nearest import (
    UNPLACED,
    nearest_nodes,
    node_names,
    score_table,
    tree_names,
)
from taxtune.studies.mapping.scorers import MeasureSimilarity
from taxtune.taxonomy import Taxonomy
from tests.studies.measures import UNSCORED, Words

NAN = float("nan")


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4), min_size=1, max_size=8),
    st.integers(0, 1000),
)
def test_the_best_name_decides(names: list[list[str]], seed: int) -> None:
    vocabulary = [*sorted({name for group in names for name in group}), "unused"]
    columns = node_names(names, vocabulary)
    scores = np.random.default_rng(seed).random((3, len(vocabulary))).astype(np.float32)
    best = columns.best(scores)
    expected = [[max(row[vocabulary.index(name)] for name in group) for group in names] for row in scores]
    assert np.array_equal(best, np.array(expected, dtype=np.float32))


def test_a_name_without_a_score_gives_way_to_one_with() -> None:
    names = node_names([["a", "b"], ["c"], ["b", "a"]])
    assert names.vocabulary == ("a", "b", "c")
    best = names.best(np.array([[NAN, 0.5, NAN]]))
    assert best[0, [0, 2]].tolist() == [0.5, 0.5]
    assert np.isnan(best[0, 1])


def test_nodes_need_names() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        node_names([["a"], []])
    with pytest.raises(ValueError, match="lacks 'b'"):
        node_names([["a"], ["b"]], ["a"])


def test_all_names_or_the_common_one(birds: Taxonomy) -> None:
    everything, common = tree_names(birds), tree_names(birds, "common")
    assert {"Aves", "bird", "common blackbird"} <= set(everything.vocabulary)
    assert set(common.vocabulary) == {
        "life", "bird", "Passeriformes", "thrush", "blackbird", "American robin", "Anseriformes", "Anatidae", "mallard",
    }  # fmt: skip


def test_ties_by_each_rule(birds: Taxonomy) -> None:
    row = np.zeros(len(birds), dtype=np.float32)
    row[[2, 4, 5]] = 0.7  # Passeriformes and two thrushes
    table = np.stack([row, np.eye(len(birds), dtype=np.float32)[7], np.full(len(birds), np.nan, dtype=np.float32)])
    nodes, tied = nearest_nodes(birds, table)
    assert nodes.tolist() == [4, 7, UNPLACED]
    assert tied.tolist() == [3, 1, 0]
    assert nearest_nodes(birds, table, ties="ancestor")[0].tolist() == [2, 7, UNPLACED]
    drawn = {int(nearest_nodes(birds, table, ties="random", rng=np.random.default_rng(s))[0][0]) for s in range(40)}
    assert drawn == {2, 4, 5}


def test_equal_fractions_are_equal_however_they_were_computed(birds: Taxonomy) -> None:
    row = np.zeros((1, len(birds)), dtype=np.float32)
    row[0, [1, 3]] = [1 - 1 / 3, 2 / 3 - 1e-9]
    assert nearest_nodes(birds, row)[1].tolist() == [2]


def test_a_score_beside_nothing_wins(birds: Taxonomy) -> None:
    row = np.full((1, len(birds)), np.nan, dtype=np.float32)
    row[0, 6] = -0.3
    assert nearest_nodes(birds, row)[0].tolist() == [6]


def test_batches_change_nothing(birds: Taxonomy) -> None:
    names = tree_names(birds)
    similarity = MeasureSimilarity(Words("words", "Words"))
    similarity.fit(names.vocabulary)
    answers = [f"{word} {i}" for i in range(50) for word in ("bird", "mallard", "nothing")]
    seen: list[int] = []
    table = score_table(similarity.table, names, answers, advance=seen.append)
    assert sum(seen) == 150
    assert len(seen) > 1
    assert np.array_equal(table, names.best(similarity.table(answers)))
    assert score_table(similarity.table, names, []).shape == (0, len(birds))


def test_a_measure_takes_the_place_of_a_similarity(birds: Taxonomy) -> None:
    similarity = MeasureSimilarity(Words("words", "Words"))
    assert isinstance(similarity, Similarity)
    with pytest.raises(MapperError, match="has no names"):
        similarity.scores(["x"])
    mapper = Mapper(birds, similarity, MapperConfig(preset="paper-listing"))
    # "thrush" is not said verbatim as a name of the robin, but "robin" is half of one.
    assert mapper.place_one("some robin").node == 5
    assert mapper.place_one("a thrush").node == 3
    scores = similarity.scores(["bird", UNSCORED])
    assert scores.dtype == np.float32
    assert scores.max() == 1
    assert (scores[1] == -1).all()
    assert np.isnan(similarity.table([UNSCORED])).all()


def test_a_repeated_name_is_scored_once() -> None:
    similarity = MeasureSimilarity(Words("words", "Words"))
    similarity.fit(["duck", "blue jay", "duck"])
    Words.calls = 0
    assert similarity.scores(["duck jay"]).tolist() == [[1.0, 0.5, 1.0]]
    assert Words.calls == 2


def test_a_judge_is_no_similarity() -> None:
    judge = Words("judge", "Judge")
    judge.needs_questions = True
    with pytest.raises(MapperError, match="every name of a tree"):
        MeasureSimilarity(judge)
