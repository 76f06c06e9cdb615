"""Fine and coarse classes of images: cuts of the tree, ties, and Table 5 by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.errors import DataError
from taxtune.studies.granularity import GranularitySettings
from taxtune.studies.granularity.classes import coarse_cut, top_one, two_level, two_level_report
from taxtune.studies.granularity.matrices import ScoreMatrix
from tests.studies.reports import cells, records
from tests.trees import outlined

#: The leaf "rock" is below neither coarse class.
TREE = outlined("thing: animal, food, rock", "animal: cat, dog", "food: apple, bread")
GROUPING = coarse_cut(TREE, level=1)


def test_a_cut_by_level_leaves_out_what_has_no_coarse_class():
    assert GROUPING.coarse.tolist() == [1, 2]
    assert GROUPING.fine.tolist() == [4, 5, 6, 7]
    assert GROUPING.parent.tolist() == [0, 0, 1, 1]
    assert GROUPING.notes == ["1 of 5 fine classes left out: they are not below a coarse class."]
    assert coarse_cut(TREE, labels=["food", "animal"]).coarse.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("level", "labels", "message"),
    [
        (None, [], "not both"),
        (1, ["food"], "not both"),
        (0, [], "at least two"),
        (2, [], "at least two.*Take a level"),
        (None, ["food", "cat"], "nothing below it.*'cat'"),
        (None, ["thing", "food"], "below another.*'thing', 'food'"),
        (None, ["food", "food"], "at least two"),
    ],
)
def test_cuts_that_are_refused(level, labels, message):
    with pytest.raises(DataError, match=message):
        coarse_cut(TREE, level=level, labels=labels)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=4, max_size=4), st.integers(0, 3))
def test_ties_count_by_the_share_that_is_right(row, right):
    group = np.array([0, 0, 1, 1])
    # Of several rows each counts by itself.
    scores = np.array([row, [0, 0, 0, 1]], dtype=np.float32)
    truth = np.array([right, 3])
    best = [column for column, value in enumerate(row) if value == max(row)]
    share = (right in best) / len(best)
    assert top_one(scores, truth).tolist() == pytest.approx([share, 1])
    in_group = [column for column in best if group[column] == group[right]]
    share = len(in_group) / len(best)
    assert top_one(scores, group[truth], group).tolist() == pytest.approx([share, 1])


def matrix(targets, *rows):
    """Scores of images of some classes under animal, food, cat, dog, apple and bread."""
    scores = np.zeros((len(rows), len(TREE)), dtype=np.float32)
    scores[:, [1, 2, 4, 5, 6, 7]] = rows
    return ScoreMatrix("made", np.array(targets), scores, notes=("made by hand",))


CAT = [0.1, 0.3, 0.9, 0.2, 0.1, 0.1]  # fine right, coarse wrong directly
DOG = [0.5, 0.2, 0.8, 0.7, 0.1, 0.1]  # taken for a cat, coarse right both ways
APPLE = [0.4, 0.1, 0.1, 0.1, 0.6, 0.2]  # fine right, coarse wrong directly
BREAD = [0.1, 0.6, 0.1, 0.9, 0.1, 0.3]  # taken for a dog; coarse right directly only


def test_table_5_by_hand():
    made = matrix([4, 5, 6, 7, 3], CAT, DOG, APPLE, BREAD, BREAD)
    # The file is not read.
    form = {"form": "two-level", "coarse_level": 1, "scores": ("s.csv",)}
    chosen = GranularitySettings(taxonomy=TREE, resamples=9, **form)
    report = two_level_report([two_level(made, TREE, GROUPING)], GROUPING, chosen)
    (row,) = records(report, "two-level")
    assert cells(row, "images", "FG direct", "CG direct") == (4, 50, 50)
    assert cells(row, "CG FG-label", "Δ label", "CG FG-emb") == (75, 25, None)
    # The fine and the coarse class are never both right; those of the cat, the apple and the bread disagree.
    assert cells(row, "full path", "inconsistent") == (0, 75)
    assert report.notes[:2] == ("made by hand", *GROUPING.notes)
    notes = "\n".join(report.notes)
    assert "1 of 5 images left out" in notes
    assert "No CG FG-emb" in notes


def test_a_tie_is_a_draw():
    # The cat is a cat or an apple, an animal or a food, each with one half.
    cat = [0.5, 0.5, 0.9, 0, 0.9, 0]
    dog = [0.5, 0.1, 0.1, 0.9, 0.1, 0]
    credit = two_level(matrix([4, 5], cat, dog), TREE, GROUPING).credit
    assert credit["full path"].tolist() == [0.25, 1]
    assert credit["inconsistent"].tolist() == [0.5, 0]


def test_images_must_show_a_class_below_a_coarse_one():
    without_cats = GROUPING._replace(fine=GROUPING.fine[1:], parent=GROUPING.parent[1:])
    with pytest.raises(DataError, match="No image shows a class that is below"):
        two_level(matrix([3, 4], CAT, DOG), TREE, without_cats)


def test_an_average_of_unlike_embeddings_is_no_shorter_than_others():
    # The mean of x and y has length 0.71; at length 1 its cosine with the image, 0.60, exceeds the food's, 0.53.
    labels = np.zeros((8, 3), dtype=np.float32)
    labels[[4, 5, 6, 7]] = np.eye(3)[[0, 1, 2, 2]]
    images = np.array([[0.8, 0, 0.5], [0, 0, 1]], dtype=np.float32)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    made = ScoreMatrix("made", np.array([4, 6]), images @ labels.T, images, labels)
    assert two_level(made, TREE, GROUPING).credit["CG FG-emb"].tolist() == [1, 1]
