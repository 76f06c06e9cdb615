"""Similarities that find the nearest node, and files of answers that people have placed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import DataError
from taxtune.mapping import Mapper, MapperConfig, Similarity
from taxtune.studies.scorers import (
    UNPLACED,
    MeasureSimilarity,
    NodeNames,
    make_scorers,
    nearest_nodes,
    read_annotated,
    tree_names,
)
from taxtune.studies.settings import ModelSettings, TreeSettings
from tests.studies.words import UNSCORED, Words

NAN = float("nan")

# -- scorers ----------------------------------------------------------------------------------------------------------


NAMES_OF_A_NODE = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4)


@given(st.lists(NAMES_OF_A_NODE, min_size=1, max_size=8), st.integers(0, 1000))
def test_the_best_name_decides(names, seed):
    columns = NodeNames.of(names)
    size = (3, len(columns.vocabulary))
    scores = np.random.default_rng(seed).random(size).astype(np.float32)
    scores[0, 0] = NAN  # gives way to a name that has a score
    best = columns.best(scores)
    for i, group in enumerate(names):
        own = scores[:, [columns.vocabulary.index(name) for name in group]]
        assert np.array_equal(best[:, i], np.fmax.reduce(own, axis=1), equal_nan=True)


def test_all_names_or_the_common_one(birds):
    assert {"Aves", "bird", "common blackbird"} <= set(tree_names(birds).vocabulary)
    common = {birds.common_name(node) for node in range(len(birds))}
    assert set(tree_names(birds, "common").vocabulary) == common
    assert "blackbird" in common
    assert "Turdus merula" not in common


def test_ties_by_each_rule(birds):
    table = np.full((4, len(birds)), NAN, dtype=np.float32)
    # Passeriformes and two thrushes; fractions computed in another order.
    table[0] = 0
    table[0, [2, 4, 5]] = [0.7, 0.7 - 1e-8, 0.7]
    table[1] = np.eye(len(birds))[7]
    table[3, 6] = -0.3
    nodes, tied = nearest_nodes(birds, table)
    assert nodes.tolist() == [4, 7, UNPLACED, 6]
    assert tied.tolist() == [3, 1, 0, 1]
    ancestors, _ = nearest_nodes(birds, table, ties="ancestor")
    assert ancestors.tolist() == [2, 7, UNPLACED, 6]
    drawn = set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        drawn.add(int(nearest_nodes(birds, table, ties="random", rng=rng)[0][0]))
    assert drawn == {2, 4, 5}


def test_batches_change_nothing(birds):
    texts = [f"{word} {i}" for i in range(100) for word in ("bird", "mallard", "nothing")]
    (scorer,) = make_scorers(["mine=lexical"], tree_names(birds), ModelSettings(), measures=False)
    assert (scorer.name, scorer.spec) == ("mine", "lexical")
    batches = list(scorer.tables(texts))
    assert len(batches) > 1
    assert [text for batch, _ in batches for text in batch] == texts
    table = np.concatenate([part for _, part in batches])
    assert np.allclose(table, scorer.names.best(scorer.similarity.scores(texts)))


def test_a_measure_is_a_mapper_s_similarity(birds):
    similarity = MeasureSimilarity(Words("words", "Words"))
    assert isinstance(similarity, Similarity)
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


# -- answers that people have placed ----------------------------------------------------------------------------------


def write(folder, *records):
    """Writes JSON lines, or the text of a CSV file."""
    path = folder / "placed.csv"
    text = records[0] if records else ""
    if not isinstance(text, str):
        path = path.with_suffix(".jsonl")
        text = "".join(json.dumps(record) + "\n" for record in records)
    path.write_text(text, encoding="utf-8")
    return path


def columns(read, *names):
    return [read.frame[name].tolist() for name in names]


def test_jsonl_with_everything(tmp_path, birds):
    bird = {"answer": "a bird", "node": "blackbird", "also": ["life/Aves", "Turdidae"]}
    nothing = {"answer": "", "node": None, "also": [], "style": "coarse"}
    moved = {"answer": "عصفور 🐦", "node": ["Animals", "Aves"], "also": []}
    path = write(tmp_path, bird | {"style": "bare"}, nothing, moved)
    read = read_annotated(path, birds)
    answers, rows, styles = columns(read, "answer", "row", "style")
    assert answers == ["a bird", "", "عصفور 🐦"]
    assert rows == [1, 2, 3]
    assert styles == ["bare", "coarse", None]
    targets, acceptable = columns(read, "target", "acceptable")
    assert targets == [4, 0, 1]
    assert acceptable == [{4, 1, 3}, {0}, {1}]
    empty, moved = read.notes
    assert empty.startswith("1 of 3")
    assert "the root" in empty
    assert moved.startswith("1 of 3")
    assert "path of another tree" in moved


def test_csv_whose_rows_lack_an_answer_or_a_node(tmp_path, birds):
    lines = "answer,node,also\na thrush,thrush,Aves; Passeriformes\n,thrush,\nzebra,,\n"
    path = write(tmp_path, lines)
    read = read_annotated(path, birds)
    acceptable, styles = columns(read, "acceptable", "style")
    assert acceptable == [{3, 1, 2}, {0}]
    assert styles == [None, None]
    assert "1 of 3 rows are left out: no answer" in read.notes
    assert read.excluded == ({"file": str(path), "row": 3, "reason": "no answer"},)


def test_nodes_outside_a_part_are_left_out_and_counted(tmp_path, birds):
    _, part = TreeSettings(taxonomy=birds, root="thrush").read_tree()
    lines = "answer,node,also\na duck,mallard,\na thrush,blackbird,mallard\nno idea,,\n"
    path = write(tmp_path, lines)
    read = read_annotated(path, part.tree, part=part)
    labels = [part.tree.labels[node] for node in read.frame["target"]]
    assert labels == ["Turdus merula", "Turdidae"]
    assert read.excluded == ({"file": str(path), "row": 2, "reason": "node outside Turdidae"},)
    assert any("acceptable nodes outside Turdidae" in note for note in read.notes)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"node": "dodo"}, "row 2: node: 'dodo' is not on the taxonomy"),
        ({"node": {"a": 3}}, "row 2: node is not a label or a path: {'a': 3}"),
        ({"answer": ["x"]}, "row 2: answer is not text"),
        ({"also": ["dodo"]}, "row 2: also: 'dodo'"),
        ({"also": True}, "row 2: also is not a label"),
    ],
)
def test_bad_rows_are_named(tmp_path, birds, record, message):
    good = {"answer": "y", "node": "bird"}
    with pytest.raises(DataError) as caught:
        read_annotated(write(tmp_path, good, good | record), birds)
    assert message in str(caught.value)
    assert "1 of 2 rows cannot be used" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("answer\nx\n", "no column 'node'"),
        ("answer,node\n,bird\n", "No usable rows are left"),
        ("answer,node\n" + "x,dodo\n" * 50, "and 45 more: node: 'dodo'"),
    ],
)
def test_bad_files(tmp_path, birds, text, message):
    with pytest.raises(DataError, match=message):
        read_annotated(write(tmp_path, text), birds)
