"""The same placements on a part of a taxonomy and on the whole."""

from __future__ import annotations

import pandas as pd
import pytest

from taxtune.errors import TaxonomyError
from taxtune.studies.output import both_trees_table
from taxtune.studies.settings import TreeSettings
from tests.studies.reports import cells

TREE = """path
life/animal/bird/duck/mallard
life/animal/bird/gull
life/animal/fish/cod
life/plant
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tree.csv"
    path.write_text(TREE)
    return path


def test_means_on_both_trees_are_those_of_sets_of_ancestors(file):
    tree, part = TreeSettings(taxonomy=str(file), root="bird").read_tree()
    assert tree is part.tree
    pairs = pd.DataFrame(
        {"node": ["duck", "gull", "bird"], "target": ["mallard", "mallard", "gull"]}
    )
    placed = pairs.map(tree.resolve).assign(model="one")
    missing = placed[2:].assign(node=-1)
    nothing = missing.assign(model="none")
    one, none = both_trees_table(part, pd.concat([placed, missing, nothing]), "model").records()
    assert cells(one, "model", "answers") == ("one", 3)
    # bird/duck of bird/duck/mallard; bird of bird/gull; bird. On life two more nodes are shared each time.
    assert one["hP on bird"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert one["hR on bird"] == pytest.approx((2 / 3 + 1 / 3 + 1 / 2) / 3)
    assert one["hP on life"] == pytest.approx((1 + 3 / 4 + 1) / 3)
    assert one["hR on life"] == pytest.approx((4 / 5 + 3 / 5 + 3 / 4) / 3)
    assert cells(none, "answers", "hP on bird", "hF on life") == (0, None, None)
    # The duck is off the tree now: a child of bird there, and of life on the whole.
    off_tree = placed.assign(as_child=[True, False, False])
    (row,) = both_trees_table(part, off_tree, "model").records()
    assert row["hP on bird"] == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)
    assert row["hR on bird"] == pytest.approx((1 / 3 + 1 / 3 + 1 / 2) / 3)
    assert row["hP on life"] == pytest.approx((1 / 2 + 3 / 4 + 1) / 3)
    assert row["hR on life"] == pytest.approx((1 / 5 + 3 / 5 + 3 / 4) / 3)


def test_a_whole_tree_is_no_part_and_a_leaf_is_no_root(file):
    _, part = TreeSettings(taxonomy=str(file)).read_tree()
    assert part is None
    with pytest.raises(TaxonomyError, match="nothing below this node"):
        TreeSettings(taxonomy=str(file), root="cod").read_tree()
