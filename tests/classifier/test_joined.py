"""Labels of boxes and of bursts, joined into one."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.classifier import Classification
from taxtune.classifier.joined import join_labels, list_groups
from taxtune.classifier.labels import FILE
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


def labels(*evidence, failure=None):
    rows = [{"photo": "a", "failure": failure, "evidence": each} for each in evidence]
    return pd.DataFrame(rows, dtype=object)


def joined(*evidence, **more):
    (row,) = join_labels(labels(*evidence, **more), "photo", TREE).to_dict("records")
    return row


@pytest.mark.parametrize(
    ("nodes", "there", "share"),
    [
        ([OWL], OWL, 1),
        ([OWL, OWL, JAY], OWL, 2 / 3),
        ([OWL, JAY], BIRD, 1),  # two birds
        ([OWL, CAT], ROOT, 1),
        ([OWL, BIRD], BIRD, 1),
        ([OWL, OWL, ROOT], OWL, 2 / 3),
    ],
)
def test_the_deepest_node_of_most_evidence(nodes, there, share):
    row = joined(*([(node, 1.0)] for node in nodes))
    assert row["placement"] == "/".join(TREE.path(there))
    assert row["share"] == pytest.approx(share, abs=1e-4)
    assert (row["labels"], row["answered"]) == (len(nodes), len(nodes))


@given(trees(), st.data())
def test_one_answer_is_its_own_label(tree, data):
    node = data.draw(st.integers(0, len(tree) - 1))
    (row,) = join_labels(labels([(node, 1.0)]), "photo", tree).to_dict("records")
    assert row["placement"] == "/".join(tree.path(node))


def test_what_was_not_answered_has_no_vote():
    row = joined([(OWL, 1.0)], [], [])
    assert (row["placement"], row["labels"], row["answered"]) == ("animal/bird/owl", 3, 1)
    nothing = joined([])
    assert (nothing["placement"], nothing["share"]) == ("animal", None)
    assert joined([], failure="gone")["placement"] is None


def test_an_answer_is_one_vote_however_it_was_asked_for():
    assert placed(OWL).evidence == [(OWL, 1.0)]
    assert placed(BIRD, votes=(OWL, JAY, -1, OWL)).evidence == [
        (OWL, 0.25),
        (JAY, 0.25),
        (-1, 0.25),
        (OWL, 0.25),
    ]
    weighed = placed(BIRD, path=(ROOT, BIRD, OWL), probabilities=(1.0, 0.9, 0.6)).evidence
    assert [node for node, _ in weighed] == [ROOT, BIRD, OWL]
    assert [weight for _, weight in weighed] == pytest.approx([0.1, 0.3, 0.6])
    assert Classification("", failure="gone").evidence == []
    # Two boxes of 0.6 for the owl are 0.6 together, and with one of a cat less than half.
    assert joined(weighed, weighed)["placement"] == "animal/bird/owl"
    assert joined(weighed, [(CAT, 1.0)])["placement"] == "animal"


def test_images_are_grouped_as_in_the_run():
    listed = pd.DataFrame({"image": ["a/1.jpg", "a/2.jpg", "3.jpg"], FILE: None}, dtype=object)
    assert list_groups(listed, "folder")["group"].tolist() == ["a", "a", "."]
    assert list_groups(listed, "camera").columns.tolist() == ["image", FILE]
    assert list_groups(listed, None).columns.tolist() == ["image", FILE]
