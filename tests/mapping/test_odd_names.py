import pytest

from taxtune.mapping import Mapper
from taxtune.taxonomy import Taxonomy

NESTED = {
    "reddish": ["scarlet", "orange"],
    "aircraft": ["F/A-18", "F-16A/B", "Boeing 737-800"],
    "car": {},
    "mug": {},
}
TREE = Taxonomy.from_dict({"thing": NESTED})


@pytest.mark.parametrize("label", TREE.labels)
@pytest.mark.parametrize("form", ["{}", "A: {}.", '{{"answer": "{}"}}', "**{}**", "{}!"])
def test_what_a_tree_calls_its_nodes_is_a_name_however_little_it_looks_like_one(label, form):
    """Colours, model codes and vehicles are no names of living things, but a tree of such things has them."""
    placed = Mapper(TREE).place_one(form.format(label))
    assert TREE.labels[placed.node] == label
    assert not placed.abstained
