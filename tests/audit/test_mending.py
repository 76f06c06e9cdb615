"""Aliases are tried with the real mapper before they are proposed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from taxtune.audit.mending import Alias, Mender, mend, with_aliases, write_proposals
from taxtune.audit.population import Item
from taxtune.audit.result import Audited
from taxtune.audit.sampling import Drawn
from taxtune.audit.verdicts import Finding, Verdict
from taxtune.authoring.proposals import apply_proposals, read_proposals
from taxtune.errors import DataError
from taxtune.mapping import Mapper
from taxtune.taxonomy import Taxonomy
from tests.audit.samples import TREE, item, population


def mender(*judged: tuple[Item, Finding], tree: Taxonomy = TREE) -> Mender:
    return Mender(tree, Mapper, judged)


RIGHT = Finding(Verdict.RIGHT)


def test_a_name_that_mends_its_answer_is_proposed() -> None:
    placed = Mapper(TREE).place_one("Sachertorte")
    assert placed.node == 0
    answer = item("Sachertorte.", 0, "abstained")
    found = mender((answer, Finding(Verdict.TOO_GENERAL, 2)), (item("pho", 6), RIGHT)).proposals()
    assert found == [Alias("Sachertorte", 2, "Sachertorte.")]
    tree = with_aliases(TREE, {2: ["Sachertorte"]})
    assert Mapper(tree).place_one("Sachertorte.").node == 2
    assert "Sachertorte" not in TREE.aliases[2]
    assert (tree.find("sachertorte"), TREE.find("sachertorte")) == ([2], [])  # what was indexed before is not used


def test_the_words_that_were_pointed_out_come_first_and_long_answers_are_no_names() -> None:
    said = "I believe that this might well be a plate of Sachertorte"
    finding = Finding(Verdict.TOO_GENERAL, 2, "Sachertorte")
    assert mender((item(said, 0, "abstained"), finding)).proposals() == [Alias("Sachertorte", 2, said)]
    assert mender((item(said, 0, "abstained"), Finding(Verdict.TOO_GENERAL, 2))).proposals() == []


@pytest.mark.parametrize(
    "finding", [RIGHT, Finding(Verdict.WRONG), Finding(Verdict.WRONG, 0), Finding(Verdict.RIGHT, 2)]
)
def test_nothing_is_proposed_without_another_node(finding: Finding) -> None:
    assert mender((item("a torte", 2), finding)).proposals() == []


def test_a_name_of_another_node_is_refused() -> None:
    found = mender((item("soup", 5, evidence="soup"), Finding(Verdict.TOO_GENERAL, 6))).proposals()
    assert [(alias.helps, alias.why) for alias in found] == [(False, "it is already a name of food/soup")]
    own = mender().check(Alias("PHO BO", 6, "pho bo"))
    assert "already has this name" in own.why


def test_a_name_that_moves_another_right_answer_is_refused() -> None:
    tree = Taxonomy(["food", "cake", "tart", "cheese cake"], [-1, 0, 0, 0])
    before = Mapper(tree)
    right = item("a lemon cake", before.place_one("a lemon cake").node)
    assert right.node == 1
    # As a name of the tart it would take the other answer with it.
    direct = Mender(tree, Mapper, [(item("lemon cake", 1), Finding(Verdict.WRONG, 2)), (right, RIGHT)])
    assert (
        direct.check(Alias("lemon cake", 2, "lemon cake")).why
        == "it changes 1 correct placements, such as 'a lemon cake'"
    )


def test_a_name_that_does_not_mend_says_where_the_answer_goes() -> None:
    judged = (item("I do not know", 0, "abstained"), Finding(Verdict.TOO_GENERAL, 2))
    alias = mender(judged).check(Alias("torte", 2, "I do not know"))
    assert alias.why == "with it, the answer is placed on food"
    assert mender(judged).retry(alias, "  another\nname ").text == "another name"


def test_names_are_tried_on_top_of_those_kept() -> None:
    one = (item("Sachertorte", 0, "abstained"), Finding(Verdict.TOO_GENERAL, 2))
    two = (item("Sachertorte!", 0, "abstained"), Finding(Verdict.TOO_GENERAL, 2))
    found = mender(one, two).proposals()
    assert [alias.helps for alias in found] == [True, True]
    seen: list[tuple[str, ...]] = []

    def make(tree: Taxonomy) -> Mapper:
        seen.append(tree.aliases[2])
        return Mapper(tree)

    asked = Mender(TREE, make, [one])
    alias = asked.proposals()[0]
    asked.retry(alias, "Sacher torte")
    assert seen == [("gateau", "Sachertorte"), ("gateau", "Sacher torte")]  # a new wording replaces the old


def test_proposals_are_added_once(tmp_path: Path) -> None:
    file = tmp_path / "aliases.csv"
    one, two = Alias("torte", 2, "a torte"), Alias('a "b", c', 6, "x")
    assert write_proposals(file, TREE, [], "audit") == 0
    assert not file.exists()
    assert write_proposals(file, TREE, [one], "audit") == 1
    assert write_proposals(file, TREE, [one, two], "audit") == 1
    assert file.read_text() == ('node,alias,source\nfood/dessert/cake,torte,audit\nfood/soup/pho,"a ""b"", c",audit\n')
    slashes = Taxonomy(["food", "surf/turf"], [-1, 0])
    write_proposals(tmp_path / "other.csv", slashes, [Alias("mixed grill", 1, "x")], "audit")
    assert (tmp_path / "other.csv").read_text().splitlines()[1] == r"food/surf\/turf,mixed grill,audit"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"aliases.csv:1: The proposals file has no column node and no column alias"):
        write_proposals(file, TREE, [one], "audit")


def test_what_an_audit_proposes_goes_onto_the_tree(tmp_path: Path) -> None:
    tree = Taxonomy(["food", "surf/turf", "cake"], [-1, 0, 0])
    people = population(item("Sachertorte", 0, "abstained"), item("mixed grill", 0, "abstained"), tree=tree)
    found = (Finding(Verdict.TOO_GENERAL, 2), Finding(Verdict.TOO_GENERAL, 1))
    audited = Audited(people, [Drawn(i, 0, 1.0) for i in range(2)], found, "openai/judge", 2, 0)
    file = tmp_path / "aliases.csv"
    asked: list[str] = []

    def choose(aliases: Sequence[Alias], mender: Mender) -> Sequence[Alias]:
        asked.extend(alias.text for alias in aliases)
        return aliases[:1]

    def make(tree: Taxonomy, cache_dir: Path | None = None) -> Mapper:
        return Mapper(tree, cache_dir=cache_dir)

    assert mend(make, audited, file, choose=choose) == 1
    assert mend(make, audited, file) == 1  # what is in the file already is not proposed again
    assert asked == ["Sachertorte", "mixed grill"]
    assert file.read_text().splitlines()[1:] == [
        "food/cake,Sachertorte,audit",
        r'food/surf\/turf,mixed grill,"audit, openai/judge"',
    ]
    better, counts = apply_proposals(tree, read_proposals(file, tree))
    assert (better.aliases, counts["alias"]) == (((), ("mixed grill",), ("Sachertorte",)), 2)
