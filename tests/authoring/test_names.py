"""Where names are from: other forms, shortened ones, WordNet's, a chat model's; and what becomes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taxtune.authoring.enrich import SOURCES, enrich
from taxtune.authoring.forms import forms
from taxtune.authoring.proposals import AMBIGUOUS, Proposal, apply_proposals
from taxtune.authoring.shortening import Shortener
from taxtune.authoring.suggesting import suggest_names
from taxtune.authoring.synonyms import kinds, synonyms
from taxtune.errors import DataError
from taxtune.mapping import Mapper
from taxtune.models import make_model
from taxtune.taxonomy import Taxonomy
from taxtune.wordnet import WordNet
from tests import servers
from tests.authoring.test_senses import tree
from tests.servers import OpenAIServer


def test_forms_of_a_name(small: WordNet) -> None:
    assert {form for form, _ in forms("chest of drawers", None)} == {"chests of drawers"}
    assert ("bread knives", "inflection") in forms("bread knife", None)
    assert {"wrinkle", "wrinkles", "wrinkling"} <= {
        form for form, what in forms("wrinkled", None) if what == "from the verb"
    }
    assert ("colour wheel", "spelling of 'color'") in forms("color wheel", small)
    # "coloring" is a synonym with other consonants, and so no spelling.
    assert all("coloring" not in form for form, _ in forms("color wheel", small))
    assert list(forms("Ford Focus", None)) == list(forms("FIAT", None)) == []


CARS = tree(
    "vehicle",
    "vehicle/Fjord",
    "vehicle/Fjord/Fjord Q-15",
    "vehicle/Fjord/Fjord Q-15/Fjord Q-15 Regular Cab 2012",
    "vehicle/Fjord/Fjord Q-15/Fjord Q-15 Crew Cab 2012",
    "vehicle/Fjord/Fjord Zeta Sedan 2010",
    "vehicle/Nordia",
    "vehicle/Nordia/Nordia Kappa Sedan 2011",
    "vehicle/Nordia/Nordia Crown Sedan 2012",
    "vehicle/Nordia/880",
    aliases={"Nordia": ["Nord"]},
)


def short(taxonomy: Taxonomy, label: str, words: dict[str, set[str]] | None = None) -> set[str]:
    known = words or {}
    shortener = Shortener(taxonomy, lambda phrase: known.get(phrase.lower(), set()))
    return {name for name, _ in shortener.names(taxonomy.resolve(label))}


def test_years_ends_and_parents_names_go_without_saying() -> None:
    names = short(CARS, "Fjord Zeta Sedan 2010")
    assert {"Fjord Zeta Sedan", "Fjord Zeta", "Zeta Sedan", "Zeta"} <= names
    assert not {"Fjord", "Sedan", "2010", "Zeta Sedan 2010"} & names
    assert {"Nord Kappa Sedan", "Nord Kappa", "Kappa"} <= short(CARS, "Nordia Kappa Sedan 2011")
    assert {"Nordia 880", "Nord 880"} == short(CARS, "880")
    assert short(CARS, "vehicle") == set()


def test_no_plain_word_is_left_of_a_leafs_name() -> None:
    cakes = tree("food", "food/cake", "food/cake/carrot cake", "food/cake/red velvet cake", "food/cake/zonk cake")
    nouns = {word: {"noun"} for word in ("carrot", "cake", "velvet")}
    assert short(cakes, "carrot cake", nouns) == set()
    assert short(cakes, "red velvet cake", nouns) == {"red velvet"}
    assert short(cakes, "zonk cake", nouns) == {"zonk"}
    dishes = tree(
        "food", "food/rice dish", "food/rice dish/risotto", "food/viral dish", "food/viral dish/x", "food/side"
    )
    known = {"rice": {"noun"}, "dish": {"noun"}, "viral": {"adjective"}}
    # What siblings end in is no part of a group's name; an adjective alone is none.
    assert short(dishes, "rice dish", known) == {"rice"}
    assert short(dishes, "viral dish", known) == set()


def test_what_a_label_shares_with_the_one_above_goes_without_saying() -> None:
    scenes = tree("scene", "scene/outdoor, man-made", "scene/outdoor, man-made/outdoor oil refinery")
    assert short(scenes, "outdoor oil refinery") == {"oil refinery"}
    listing = tree("scene", "scene/roads (bridges, etc.)", "scene/roads (bridges, etc.)/lane")
    assert short(listing, "roads (bridges, etc.)") == short(listing, "lane") == set()


def test_synonyms_and_kinds(small: WordNet) -> None:
    animals = tree("animal", "animal/bird", "animal/bird/duck", "animal/dog")
    senses = {node: small.synsets(animals.labels[node])[0] for node in range(4)}
    assert (3, "domestic dog") in {(node, name) for node, name, _ in synonyms(animals, senses)}
    found = [(animals.labels[node], name) for node, name, _ in kinds(small, animals, senses)]
    assert found == [
        ("bird", "crane"),
        ("duck", "mallard"),
        ("duck", "Anas platyrhynchos"),
        ("dog", "beagle"),
        ("dog", "pug"),
    ]
    assert [name for _, name, _ in kinds(small, animals, senses, most=1)] == [
        "crane",
        "mallard",
        "Anas platyrhynchos",
        "beagle",
    ]


def proposed(found: list[Proposal], taxonomy: Taxonomy) -> set[tuple[str, str, str, str]]:
    return {(taxonomy.labels[row.node], row.name, row.kind, row.mark) for row in found}


def test_only_what_the_mapper_does_not_find_is_proposed(small: WordNet) -> None:
    taxonomy = tree("animal", "animal/dog", "animal/bird", "animal/bird/duck", "animal/bird/crane")
    mapper = Mapper(taxonomy)
    found = enrich(taxonomy, mapper, ["inflection", "wordnet", "kinds"], wordnet=small)
    assert ("dog", "beagle", "lead", "") in proposed(found.proposals, taxonomy)
    assert ("duck", "mallard", "lead", "") in proposed(found.proposals, taxonomy)
    for row in found.proposals:
        assert mapper.place_one(row.name).node != row.node
    for count in found.counts.values():
        assert count["candidates"] == count["found already"] + count["proposed"] + count["ambiguous"]
    # Plurals that the mapper folds itself are no new names.
    assert found.counts["inflection"]["candidates"] == 0
    more, _ = apply_proposals(taxonomy, found.proposals)
    assert more.labels[Mapper(more).place_one("a mallard").node] == "duck"


def test_a_name_of_two_nodes_is_marked_and_says_which() -> None:
    taxonomy = tree(
        "scene", "scene/indoor", "scene/indoor/indoor pool", "scene/outdoor", "scene/outdoor/outdoor pool", "scene/hut"
    )
    found = enrich(taxonomy, Mapper(taxonomy), ["short"])
    pools = [row for row in found.proposals if row.name == "pool"]
    assert [(taxonomy.labels[row.node], row.mark) for row in pools] == [
        ("indoor pool", AMBIGUOUS),
        ("outdoor pool", AMBIGUOUS),
    ]
    assert "would also name scene/outdoor/outdoor pool" in pools[0].comment
    assert apply_proposals(taxonomy, found.proposals)[0].leads[2] == ()
    named = tree("scene", "scene/indoor", "scene/indoor/indoor pool", "scene/outdoor", "scene/outdoor/pool")
    (row,) = enrich(named, Mapper(named), ["short"]).proposals
    assert (row.name, row.mark) == ("pool", AMBIGUOUS)
    assert "names scene/outdoor/pool" in row.comment


def test_what_siblings_are_called_for_short_leads_to_their_parent() -> None:
    found = enrich(CARS, Mapper(CARS), ["short"])
    rows = {(CARS.labels[row.node], row.name) for row in found.proposals if not row.mark}
    assert ("Fjord Q-15", "Q-15") in rows or Mapper(CARS).place_one("Q-15").node == CARS.resolve("Fjord Q-15")
    # Of a name that is that of the node above nothing is proposed.
    assert all(CARS.find(row.name) == [] for row in found.proposals if not row.mark)


def test_sources_without_what_they_need() -> None:
    taxonomy = tree("food", "food/soup")
    for source in ("wordnet", "kinds"):
        with pytest.raises(DataError, match=rf"'{source}' needs WordNet.*nltk.downloader wordnet"):
            enrich(taxonomy, Mapper(taxonomy), [source])
    assert "WordNet is not installed" in enrich(taxonomy, Mapper(taxonomy), ["short"]).notes[0]


def test_the_same_tree_has_the_same_proposals(small: WordNet) -> None:
    sources = [source for source in SOURCES if source != "llm"]
    one, other = (enrich(CARS, Mapper(CARS), sources, wordnet=small).proposals for _ in range(2))
    assert one == other
    assert [row.node for row in one] == sorted(row.node for row in one)


# -- a chat model, over HTTP -------------------------------------------------------------------------------------------

PETS = tree("pet", "pet/dog", "pet/cat", "pet/bird", "pet/bird/parrot")


def model(server: OpenAIServer) -> Any:
    settings = servers.model_settings(server, task="text-generation", api_key="k", max_retries=1, concurrency=1)
    return make_model("openai/gpt-4o-mini", settings)


def by_group(replies: dict[str, servers.Reply | str]) -> Any:
    """Returns a script that replies by the label that a prompt asks about first."""

    def script(body: dict[str, Any]) -> servers.Reply:
        prompt = body["messages"][-1]["content"]
        label = next(label for label in replies if f"\n1. {label}" in prompt)
        reply = replies[label]
        return servers.text(reply) if isinstance(reply, str) else reply

    return script


def test_a_models_names_are_read() -> None:
    good = json.dumps({"1": ["hound", "doggo", " doggo "], "2": ["tom;cat"], "3": []})
    with OpenAIServer(by_group({"dog": f"```json\n{good}\n```", "parrot": '{"1": ["macaw"]}'})) as server:
        found = suggest_names(model(server), PETS)
        first, second = server.prompts
    assert found.names == [(1, "hound"), (1, "doggo"), (2, "tom,cat"), (4, "macaw")]
    assert (found.asked, found.unread, found.failed) == (4, [], [])
    assert "stand under: pet\n" in first
    assert "3. bird (divided into: parrot)" in first
    assert "stand under: pet > bird" in second


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Sure! A dog is also called a hound.", "not JSON"),
        ('{"1": ["hound"], "2": []}', "not an object with the keys 1 to 3"),
        ('{"1": ["hound"], "1": ["pup"], "2": [], "3": []}', "names '1' twice"),
        ('{"1": "hound", "2": [], "3": []}', "The value of 1 is not a list"),
        ('{"1": [7], "2": [], "3": []}', "The value of 1 is not a list"),
        ('["hound"]', "not an object"),
        ('{"1": ["hound"], "2": [], "3": []', "not JSON"),
    ],
)
def test_a_reply_that_is_not_as_asked_for_is_kept_and_counted(reply: str, reason: str) -> None:
    with OpenAIServer(by_group({"dog": reply, "parrot": '{"1": ["macaw"]}'})) as server:
        found = enrich(PETS, Mapper(PETS), ["llm"], llm=model(server))
    assert found.suggestions is not None
    (unread,) = found.suggestions.unread
    assert (unread["labels"], unread["reply"]) == (["dog", "cat", "bird"], reply)
    assert reason in unread["reason"]
    assert proposed(found.proposals, PETS) == {("parrot", "macaw", "lead", "")}


def test_a_call_that_fails_is_counted() -> None:
    with OpenAIServer(by_group({"dog": servers.content_filter(), "parrot": '{"1": ["macaw"]}'})) as server:
        found = suggest_names(model(server), PETS)
    assert [one["labels"] for one in found.failed] == [["dog", "cat", "bird"]]
    assert found.names == [(4, "macaw")]
