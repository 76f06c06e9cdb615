"""The node that a label means, however it is spelt: the same for images, truths and scores."""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pytest
from PIL import Image

from taxtune.answers.targets import target_finder
from taxtune.data import load_examples
from taxtune.data.labels import LabelFinder, label_text
from taxtune.errors import TaxonomyError
from taxtune.mapping import Mapper
from taxtune.taxonomy import Taxonomy, restrict
from tests.answers.reading import read_file

TREE = Taxonomy.from_paths(
    [
        "life/bird/Wilson's Warbler",
        "life/bird/Red-headed Woodpecker",
        "life/bird/Forget-me-not",
        "life/bird/Rüppell’s Vulture",
        "life/bird/12",
        "life/plant/forget me not",
        "life/vehicle/car/car",
        "life/vehicle/car/taxi",
    ],
    aliases={"Red-headed Woodpecker": ["Grey woodpecker"]},
)


@pytest.mark.parametrize(
    ("label", "node"),
    [
        ("Wilson_Warbler", "Wilson's Warbler"),
        ("Wilsons Warbler", "Wilson's Warbler"),
        ("wilson’s-warbler", "Wilson's Warbler"),
        ("Red_headed_Woodpecker", "Red-headed Woodpecker"),
        ("188.Redheaded Woodpeckers", "Red-headed Woodpecker"),
        ("gray_woodpecker", "Red-headed Woodpecker"),
        ("Ruppell's vulture", "Rüppell’s Vulture"),
        ("012", "12"),
        ("12.0", "12"),
        ("Wilson_s_Warbler", "Wilson's Warbler"),
        ("ruppell s vultures", "Rüppell’s Vulture"),
        ("car", "car"),
    ],
)
def test_spelling_makes_no_difference(label, node, tmp_path):
    (number,) = [leaf for leaf in TREE.leaves if TREE.labels[leaf] == node]
    assert target_finder(TREE)(label).node == number
    file = tmp_path / "a.png"
    Image.new("RGB", (9, 9)).save(file)
    (example,) = load_examples([(str(file), label)], TREE)
    assert example.target == number


def test_what_is_written_goes_before_what_is_spelt_alike():
    find = target_finder(TREE)
    assert TREE.path(find("Forget-me-not").node)[1] == "bird"
    assert TREE.path(find("forget_me_not").node)[1] == "plant"
    both = r"2 nodes are called 'forgetmenot'.*life/bird/Forget-me-not, life/plant"
    with pytest.raises(TaxonomyError, match=both):
        LabelFinder(TREE).node(["forgetmenot"])
    for label in ("forgetmenot", "Wilson", "woodpecker", "", "'"):
        assert find(label).node is None


def test_a_label_of_a_leaf_and_its_group_is_the_leaf_and_an_answer_is_the_group(notes):
    table = read_file([{"truth": "car", "answer": "a car"}], TREE)
    assert notes == []
    (row,) = table.rows
    assert TREE.path(row.target) == ("life", "vehicle", "car", "car")
    assert "as a label 'car' is the leaf" in "\n".join(table.notes)
    group, again, leaf = Mapper(TREE).place(["car", "A car.", "taxi"])
    assert TREE.path(group.node) == ("life", "vehicle", "car")
    assert again.node == group.node
    assert TREE.path(leaf.node)[-2:] == ("car", "taxi")


def test_a_leaf_and_its_group_in_a_part_and_outside_of_one():
    part = restrict(TREE, "vehicle")
    car = target_finder(part.tree, part)("car").node
    assert part.tree.path(car) == ("vehicle", "car", "car")
    part = restrict(TREE, "bird")
    find = target_finder(part.tree, part)
    assert find("car").outside
    assert not find("Wilson_Warbler").outside


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (12.0, "12"),
        (np.float64(12.0), "12"),
        (np.int64(12), "12"),
        (12.5, "12.5"),
        (" 12.0 ", "12.0"),
    ],
)
def test_numbers_as_labels(cell, text):
    assert label_text(cell) == text


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (datetime(2024, 5, 1), "2024-05-01"),
        (datetime(2024, 5, 1, 12, 30), "2024-05-01T12:30:00"),
        (date(2024, 5, 1), "2024-05-01"),
    ],
)
def test_days_as_labels(cell, text):
    assert label_text(cell) == text


@pytest.mark.parametrize("cell", [True, None, float("nan"), ["a"]])
def test_cells_that_are_no_label(cell):
    assert label_text(cell) == ""
