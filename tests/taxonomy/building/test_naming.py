from __future__ import annotations

from pathlib import Path

from taxtune.taxonomy import read_taxonomy
from taxtune.taxonomy.building import name_nodes, write_tree

from .graphs import built


def test_a_shared_label_with_separators_stays_one_alias_of_each_sibling(tmp_path: Path) -> None:
    tree = built("a<root b<root c<a", {"a": "salt; pepper | oil", "b": "salt; pepper | oil", "c": "x;y"})
    names = name_nodes(tree)
    read = read_taxonomy(write_tree(tmp_path / "tree.csv", tree, names), names=False)
    assert dict(zip(read.labels, read.aliases, strict=True)) == {
        "root": (),
        "salt; pepper | oil (a)": ("salt; pepper | oil",),
        "x;y": (),
        "salt; pepper | oil (b)": ("salt; pepper | oil",),
    }
