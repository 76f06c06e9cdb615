"""The same placements on a part of a taxonomy and on the whole."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from taxtune.errors import TaxonomyError
from taxtune.studies.output import both_trees_table
from taxtune.studies.settings import TreeSettings


def test_means_on_both_trees_are_those_of_sets_of_ancestors(tmp_path: Path) -> None:
    file = tmp_path / "tree.csv"
    file.write_text(
        "path\nlife/animal/bird/duck/mallard\nlife/animal/bird/gull\nlife/animal/fish/cod\nlife/plant\n"
    )
    assert TreeSettings(taxonomy=str(file)).read_tree()[1] is None
    tree, part = TreeSettings(taxonomy=str(file), root="bird").read_tree()
    assert part is not None
    assert tree is part.tree
    label = {name: tree.resolve(name) for name in ("bird", "duck", "mallard", "gull")}
    pairs = [("duck", "mallard"), ("gull", "mallard"), ("bird", "gull")]
    nodes, targets = ([label[pair[side]] for pair in pairs] for side in (0, 1))
    placed = pd.DataFrame(
        {"model": "one", "node": [*nodes, -1], "target": [*targets, label["gull"]]}
    )
    nothing = pd.DataFrame({"model": "none", "node": [-1], "target": [label["gull"]]})
    (row, none) = both_trees_table(part, pd.concat([placed, nothing]), "model").records()
    assert (row["model"], row["answers"]) == ("one", 3)
    # bird/duck of bird/duck/mallard; bird of bird/gull; bird. On life two more nodes are shared each time.
    assert row["hP on bird"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert row["hR on bird"] == pytest.approx((2 / 3 + 1 / 3 + 1 / 2) / 3)
    assert row["hP on life"] == pytest.approx((1 + 3 / 4 + 1) / 3)
    assert row["hR on life"] == pytest.approx((4 / 5 + 3 / 5 + 3 / 4) / 3)
    assert (none["answers"], none["hP on bird"], none["hF on life"]) == (0, None, None)
    # The duck is off the tree now: a child of bird there, and of life on the whole.
    off_tree = placed[:3].assign(as_child=[True, False, False])
    (row,) = both_trees_table(part, off_tree, "model").records()
    assert row["hP on bird"] == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)
    assert row["hR on bird"] == pytest.approx((1 / 3 + 1 / 3 + 1 / 2) / 3)
    assert row["hP on life"] == pytest.approx((1 / 2 + 3 / 4 + 1) / 3)
    assert row["hR on life"] == pytest.approx((1 / 5 + 3 / 5 + 3 / 4) / 3)
    with pytest.raises(TaxonomyError, match="nothing below this node"):
        TreeSettings(taxonomy=str(file), root="cod").read_tree()
