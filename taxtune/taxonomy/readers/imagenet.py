"""Reader of ImageNet as a strict tree: a JSON object of synsets by id, each with its name and the id of its parent.

The file is `simple_imagenet_hierarchy_with_labels.json` of lmb-freiburg/ovqa. A node's label is its name; its aliases
are the labels that benchmarks give the class, then the synset's lemmas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taxtune.errors import TaxonomyError
from taxtune.tables import clean
from taxtune.taxonomy.raw import RawNode, RawTaxonomy

__all__ = ["is_synset_tree", "parse_imagenet_json"]


def is_synset_tree(data: object) -> bool:
    """Tells whether parsed JSON looks like an object of synsets: one of the first has a parent."""
    if not isinstance(data, dict):
        return False
    first = [value for value, _ in zip(data.values(), range(5), strict=False)]
    return any(isinstance(value, dict) and "parent_id" in value for value in first)


def parse_imagenet_json(data: Mapping[str, Any], name: str) -> RawTaxonomy:
    """Returns the nodes of a JSON object of synsets. Rows are positions in it, counted from 1.

    Raises:
        TaxonomyError: If it is not an object, or an entry is no synset.
    """
    if not isinstance(data, dict) or not data:
        raise TaxonomyError("The JSON is not an object of synsets.", file=name)
    raw = RawTaxonomy(name, "imagenet-json")
    for row, (key, synset) in enumerate(data.items(), start=1):
        if not isinstance(synset, dict) or not isinstance(synset.get("name"), str) or not synset["name"].strip():
            raise TaxonomyError("The synset has no name.", file=name, row=row, value=key)
        parent = synset.get("parent_id")
        if parent is not None and not isinstance(parent, str):
            raise TaxonomyError("The id of the parent is not text.", file=name, row=row, value=parent)
        label = clean(synset["name"])
        others = {
            clean(other): None
            for field in ("labels", "lemmas")
            for other in synset.get(field) or ()
            if isinstance(other, str) and clean(other)
        }
        others.pop(label, None)
        raw.nodes.append(RawNode(key, parent, label, tuple(others), row=row))
    return raw
