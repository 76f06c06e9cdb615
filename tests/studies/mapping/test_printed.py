from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from taxtune.errors import DataError
from taxtune.studies.mapping import PRINTED, MappingSettings, run
from taxtune.studies.published import published
from taxtune.taxonomy import Taxonomy, read_taxonomy

INAT = Path(__file__).resolve().parents[3] / "../shared/data/inat21/inat2021-categories.csv"


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
    scores = {record["placed by"]: record for record in report.table("mapping-printed-scores").records()}
    # The cheetah's path is whole, the vireo's lacks the species, the grouse's ends in another one.
    assert scores["printed"] == {
        "placed by": "printed",
        "n": 3,
        "as printed": 3,
        "hP": pytest.approx((1 + 1 + 2 / 3) / 3),
        "hR": pytest.approx((1 + 2 / 3 + 2 / 3) / 3),
        "hF": pytest.approx(2 * (8 / 9) * (7 / 9) / (15 / 9)),
    }
    assert "Left out, no answer in our copy: 1 of 39 printed rows" in report.notes
    assert "Left out, reference not on the tree: 35 of 39 printed rows" in report.notes


def test_a_printed_node_that_is_not_there_does_not_count() -> None:
    tree = Taxonomy(["life", "cat", "Cheetah", "vireo", "Hutton's Vireo"], [-1, 0, 1, 0, 3])
    report = run(asked(tree))
    assert [record["printed node"] for record in report.table("mapping-printed").records()] == [None, None]
    assert [table.name for table in report.tables] == ["mapping-printed"]
    assert "Printed node lost in our copy, or not on the tree: 2 of 39 printed rows" in report.notes


def test_a_part_of_the_tree_has_its_own_rows(wild: Taxonomy) -> None:
    report = run(asked(wild, root="Phasianidae"))
    (record,) = report.table("mapping-printed").records()
    assert (record["reference"], record["printed node"]) == ("Hazel Grouse", "Bonasa umbellus")
    assert report.table("mapping-printed-scores").records()[0]["hP"] == 1 / 2
    assert report.settings["root"] == "life/Phasianidae"


def test_homonyms_are_shown_with_their_parents() -> None:
    tree = Taxonomy(["life", "Mantodea", "Iris", "Iridaceae", "Iris", "Siberian Iris"], [-1, 0, 1, 0, 3, 4])
    (record,) = run(asked(tree)).table("mapping-printed").records()
    assert (record["answer"], record["paper-prose"]) == ("Iris", "Mantodea/Iris")


def test_another_tree_is_refused(birds: Taxonomy) -> None:
    with pytest.raises(DataError, match="Table 9"):
        run(asked(birds))


def test_what_has_no_part_in_it_is_refused(wild: Taxonomy) -> None:
    with pytest.raises(DataError, match=r"ties, resamples"):
        asked(wild, ties="random", resamples=10)


def test_a_file_of_that_name_is_a_file(wild: Taxonomy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(PRINTED).touch()
    assert not asked(wild).is_printed


@pytest.mark.skipif(not INAT.is_file(), reason="iNaturalist 2021's tree is not here")
def test_the_printed_references_and_nodes_are_on_the_tree() -> None:
    tree = read_taxonomy(INAT)
    for row in published(PRINTED):
        tree.resolve(str(row["reference"]))
        assert bool(row["node"]) == bool(row["printed"])
        if row["node"]:
            tree.resolve(str(row["node"]))
