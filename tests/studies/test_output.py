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
ON_BIRD = ("hP on bird", "hR on bird")
ON_LIFE = ("hP on life", "hR on life")


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
    hp, hr = (1 + 1 / 2 + 1) / 3, (2 / 3 + 1 / 3 + 1 / 2) / 3
    assert cells(one, *ON_BIRD) == pytest.approx((hp, hr))
    hp, hr = (1 + 3 / 4 + 1) / 3, (4 / 5 + 3 / 5 + 3 / 4) / 3
    assert cells(one, *ON_LIFE) == pytest.approx((hp, hr))
    assert cells(none, "answers", "hP on bird", "hF on life") == (0, None, None)
    # The duck is off the tree now: a child of bird there, and of life on the whole.
    off_tree = placed.assign(as_child=[True, False, False])
    (row,) = both_trees_table(part, off_tree, "model").records()
    hp, hr = (1 / 2 + 1 / 2 + 1) / 3, (1 / 3 + 1 / 3 + 1 / 2) / 3
    assert cells(row, *ON_BIRD) == pytest.approx((hp, hr))
    hp, hr = (1 / 2 + 3 / 4 + 1) / 3, (1 / 5 + 3 / 5 + 3 / 4) / 3
    assert cells(row, *ON_LIFE) == pytest.approx((hp, hr))


def test_a_whole_tree_is_no_part_and_a_leaf_is_no_root(file):
    _, part = TreeSettings(taxonomy=str(file)).read_tree()
    assert part is None
    with pytest.raises(TaxonomyError, match="nothing below this node"):
        TreeSettings(taxonomy=str(file), root="cod").read_tree()
