"""Labels of boxes and of bursts, joined into one."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.classifier import Classification
from taxtune.classifier.joined import join_labels, list_groups
from taxtune.policies import PlacedAnswer
from tests.trees import outlined, trees

TREE = outlined("animal: bird, cat", "bird: owl, jay")
ROOT, BIRD, CAT, OWL, JAY = range(5)


def placed(node, **more):
    path = "/".join(TREE.path(node))
    answer = PlacedAnswer(
        answer="",
        node=node,
        placement=path,
        off_tree=False,
        abstained=False,
        stage="",
        confidence=1,
        **more,
    )
    return Classification.of("", answer, TREE)


def names(row):
    return row["placement"].rsplit("/", 1)[-1]


def labels(*evidence, failure=None):
    rows = [{"photo": "a", "failure": failure, "evidence": each} for each in evidence]
    return pd.DataFrame(rows, dtype=object)


def joined(*evidence, **more):
    (row,) = join_labels(labels(*evidence, **more), "photo", TREE).to_dict("records")
    return row


def test_the_deepest_node_of_most_evidence():
    owl = [(OWL, 1.0)]
    jay = [(JAY, 1.0)]
    row = joined(owl, owl, jay)
    assert names(row) == "owl"
    assert row["share"] == pytest.approx(2 / 3, abs=1e-4)
    assert row["labels"] == 3
    assert row["answered"] == 3
    assert names(joined(owl)) == "owl"
    assert names(joined(owl, [(BIRD, 1.0)])) == "bird"
    assert names(joined(owl, owl, [(ROOT, 1.0)])) == "owl"


def test_animals_of_two_kinds_are_what_they_share():
    owl = [(OWL, 1.0)]
    birds = joined(owl, [(JAY, 1.0)])
    assert names(birds) == "bird"
    assert birds["share"] == 1
    assert names(joined(owl, [(CAT, 1.0)])) == "animal"


def test_a_policy_asks_as_much_of_a_joined_label_as_of_each():
    unsure = [(ROOT, 0.2), (BIRD, 0.2), (OWL, 0.6)]
    for threshold, name in ((None, "owl"), (0.3, "owl"), (0.7, "bird"), (0.9, "animal")):
        (row,) = join_labels(labels(unsure), "photo", TREE, threshold).to_dict("records")
        assert names(row) == name


@given(trees(), st.data())
def test_one_answer_is_its_own_label(tree, data):
    node = data.draw(st.integers(0, len(tree) - 1))
    (row,) = join_labels(labels([(node, 1.0)]), "photo", tree).to_dict("records")
    assert row["placement"] == "/".join(tree.path(node))


def test_what_was_not_answered_has_no_vote():
    row = joined([(OWL, 1.0)], [], [])
    assert names(row) == "owl"
    assert row["labels"] == 3
    assert row["answered"] == 1
    nothing = joined([])
    assert nothing["placement"] == "animal"
    assert nothing["share"] is None
    assert joined([], failure="gone")["placement"] is None


def test_an_answer_is_one_vote_however_it_was_asked_for():
    assert placed(OWL).evidence == [(OWL, 1.0)]
    votes = (OWL, JAY, -1, OWL)
    assert placed(BIRD, votes=votes).evidence == [(vote, 0.25) for vote in votes]
    path = (ROOT, BIRD, OWL)
    weighed = placed(BIRD, path=path, probabilities=(1.0, 0.9, 0.6)).evidence
    nodes, weights = zip(*weighed, strict=True)
    assert nodes == path
    assert weights == pytest.approx([0.1, 0.3, 0.6])
    assert Classification("", failure="gone").evidence == []
    # Two boxes of 0.6 for the owl are 0.6 together, and with one of a cat less than half.
    assert names(joined(weighed, weighed)) == "owl"
    assert names(joined(weighed, [(CAT, 1.0)])) == "animal"


def test_images_are_grouped_as_in_the_run():
    images = ["a/1.jpg", "a/2.jpg", "3.jpg"]
    listed = pd.DataFrame({"image": images}, dtype=object)
    grouped = list_groups(listed, "folder")
    assert grouped["group"].tolist() == ["a", "a", "."]
    # The column of a table is there as it is.
    assert list_groups(listed, "camera") is listed
    assert list_groups(listed, None) is listed
