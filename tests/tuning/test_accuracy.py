"""One definition of accuracy, wherever it is counted: an answer is exact if its hP and hR are 1."""

from __future__ import annotations

import numpy as np
import pytest

from taxtune.metrics.information import leaf_information
from taxtune.metrics.outcomes import EXACT
from taxtune.metrics.statistics import hierarchical_sample
from taxtune.objective import make_objective
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.proposers.evidence import score_columns
from taxtune.tuning.records import IterationRecord
from taxtune.tuning.thresholds import final_threshold
from tests.rows import placed_row, scores_of

TREE = Taxonomy.from_paths(["stone/quartz/agate", "stone/quartz/jasper", "stone/opal"])
#: Node, target, whether the answer is off the tree; some photos show no more than a stone.
ANSWERS = [
    ("stone", "stone", False),
    ("stone", "stone", True),
    ("stone", "opal", False),
    ("opal", "opal", False),
    ("quartz", "agate", False),
    ("opal", "stone", False),
]


def rows(off_tree):
    """Returns rows with scores, answers off the tree as a "child" of the root or as the "root"."""
    made = []
    for placed, true, off in ANSWERS:
        (node,), (target,) = TREE.find(placed), TREE.find(true)
        as_child = off and off_tree == "child"
        made.append(placed_row(TREE, node, target, as_child=as_child, off_tree=off))
    return made


@pytest.mark.parametrize(
    ("off_tree", "exact"), [("child", [1, 0, 0, 1, 0, 0]), ("root", [1, 1, 0, 1, 0, 0])]
)
def test_accuracy_is_the_same_everywhere_where_the_truth_is_the_root_too(off_tree, exact):
    answered = rows(off_tree)
    nodes = [row.node for row in answered]
    targets = [row.target for row in answered]
    as_child = [row.off_tree and off_tree == "child" for row in answered]
    scores = scores_of(answered)
    sample = hierarchical_sample(TREE, nodes, targets, off_tree=as_child)
    record = IterationRecord(0, "complete", "{{ question }}", scores=scores, rows=tuple(answered))
    assert [row.exact for row in answered] == exact
    assert sample.parts["accuracy"].tolist() == exact
    assert record.table.column("accuracy").tolist() == exact
    assert score_columns(answered, ["accuracy"])["accuracy"].tolist() == exact
    assert scores.accuracy == pytest.approx(np.mean(exact))
    # What a person is shown as exact names something.
    for is_exact, row in zip(exact, answered, strict=True):
        assert (row.state == EXACT) == (bool(is_exact) and not row.off_tree)


def test_a_threshold_is_chosen_by_the_scores_of_the_run():
    """Answers off the tree cost nothing at any threshold where the run scores them as the root."""
    off = [placed_row(TREE, 0, 0, votes=(0, 0), off_tree=True) for _ in range(3)]
    seen = set()

    def watched(scores):
        seen.add(scores.accuracy)
        return scores.accuracy

    objective = make_objective(watched)
    for off_tree, accuracy in {"child": 0.0, "root": 1.0}.items():
        seen.clear()
        final_threshold(TREE, leaf_information(TREE), off, objective, off_tree=off_tree)
        assert seen == {accuracy}
