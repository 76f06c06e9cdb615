from __future__ import annotations

import pytest

from taxtune.studies.plurals import plural


@pytest.mark.parametrize(
    ("one", "several"),
    [
        ("song sparrow", "song sparrows"), ("thrush", "thrushes"), ("Red Fox", "Red Foxes"), ("jay", "jays"),
        ("butterfly", "butterflies"), ("goose", "geese"), ("Snow Goose", "Snow Geese"), ("harvestman", "harvestmen"),
        ("catfish", "catfish"), ("ducks", "ducks"), ("iris", "irises"), ("walrus", "walruses"), ("苍鹭", "苍鹭"),
        ("y", "ys"), ("spectacled caiman", "spectacled caimans"), ("", ""), ("Type 2", "Type 2"),
        ("dormouse", "dormice"),
        ("bus", "buses"), ("fly", "flies"), ("day", "days"), ("ax", "axes"), ("glasses", "glasses"),
        ("person", "people"),
    ],
)  # fmt: skip
def test_plurals(one: str, several: str) -> None:
    assert plural(one) == several
