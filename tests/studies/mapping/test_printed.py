from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taxtune.errors import DataError
from taxtune.studies.mapping import PRINTED, MappingSettings, run
from taxtune.taxonomy import Taxonomy


@pytest.fixture
def wild() -> Taxonomy:
    """A few of the printed species, and a mammal that none of the answers is about."""
    labels = ["life", "Felidae", "Acinonyx jubatus", "Passeriformes", "Vireo huttoni", "Phasianidae", "Bonasa umbellus"]
    aliases = [(), ("cat",), ("Cheetah",), ("Perching Bird",), ("Hutton's Vireo",), ("grouse",), ("Ruffed Grouse",)]
    return Taxonomy([*labels, "Tetrastes bonasia"], [-1, 0, 1, 0, 3, 0, 5, 5], aliases=[*aliases, ("Hazel Grouse",)])


def asked(taxonomy: Any, **more: Any) -> MappingSettings:
    return MappingSettings(file=Path(PRINTED), taxonomy=taxonomy, **more)


def test_printed_answers_are_placed_beside_the_printed_nodes(wild: Taxonomy) -> None:
    report = run(asked(wild))
    rows = {record["reference"]: record for record in report.table("mapping-printed").records()}
    assert set(rows) == {"Cheetah", "Hutton's Vireo", "Hazel Grouse"}
    grouse = rows["Hazel Grouse"]
    assert (grouse["model"], grouse["answer"], grouse["printed"]) == ("QwenVL", "Ruffed Grouse", "Ruffed Grouse")
    placed = [grouse[name] for name in ("printed node", "paper-listing", "paper-prose", "default")]
    assert placed == ["Bonasa umbellus"] * 4
    assert rows["Hutton's Vireo"]["printed node"] == "Passeriformes"
    # The cheetah's path is whole, the vireo's lacks the species, the grouse's ends in another one.
    assert report.table("mapping-printed-scores").records()[0] == {
        "placed by": "printed",
        "n": 3,
        "as printed": 3,
        "hP": pytest.approx((1 + 1 + 2 / 3) / 3),
        "hR": pytest.approx((1 + 2 / 3 + 2 / 3) / 3),
        "hF": pytest.approx(2 * (8 / 9) * (7 / 9) / (15 / 9)),
    }
    assert [note.rsplit(": ")[1] for note in report.notes] == ["1 of 39 printed rows", "35 of 39 printed rows"]
    (record,) = run(asked(wild, root="Phasianidae")).table("mapping-printed").records()
    assert (record["reference"], record["printed node"]) == ("Hazel Grouse", "Bonasa umbellus")


def test_a_printed_node_that_is_not_there_does_not_count() -> None:
    tree = Taxonomy(["life", "cat", "Cheetah", "vireo", "Hutton's Vireo"], [-1, 0, 1, 0, 3])
    report = run(asked(tree))
    assert [record["printed node"] for record in report.table("mapping-printed").records()] == [None, None]
    assert [table.name for table in report.tables] == ["mapping-printed"]
    assert "Printed node lost in our copy, or not on the tree: 2 of 39 printed rows" in report.notes


def test_what_does_not_fit_is_refused(
    birds: Taxonomy, wild: Taxonomy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="Table 9"):
        run(asked(birds))
    with pytest.raises(DataError, match=r"ties, resamples"):
        asked(wild, ties="random", resamples=10)
    monkeypatch.chdir(tmp_path)
    Path(PRINTED).touch()
    assert not asked(wild).is_printed
