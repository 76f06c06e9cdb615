from __future__ import annotations

import numpy as np
import pytest
import yaml
from jinja2 import Environment

from fieldguide.phrasing import (
    BASELINE,
    RANKS,
    Intent,
    answer_text,
    choose_rank,
    held_out_prompts,
    intent_of,
    load_phrasings,
    sample_prompt,
)
from fieldguide.species import all_species
from taxtune.mapping import Mapper
from taxtune.resources import prompts_dir
from taxtune.taxonomy import read_taxonomy


@pytest.fixture(scope="module")
def drawn() -> list[tuple[str, Intent]]:
    rng = np.random.default_rng(0)
    return [sample_prompt(rng, all_species()) for _ in range(1500)]


def test_the_baseline_is_the_plain_question(drawn) -> None:
    intents = {intent for prompt, intent in drawn if prompt == BASELINE}
    assert intents == {Intent(care=1.0, form="tagged")}


def test_held_out_wordings_are_not_among_the_training_prompts(drawn) -> None:
    # Capitals make no difference to the model.
    training = "\n".join(prompt for prompt, _ in drawn).casefold()
    for prompts in held_out_prompts().values():
        for prompt in prompts:
            assert prompt.casefold() not in training
    fragments = yaml.safe_load((prompts_dir() / "fragments" / "default.yaml").read_text(encoding="utf-8"))
    texts = {slot["id"]: {c["id"]: c["text"] for c in slot["choices"]} for slot in fragments["slots"]}
    for slot, choices in load_phrasings()["fragments"]["held_out"].items():
        for choice in choices:
            text = Environment().from_string(texts[slot][choice]).render(domain="bird", ranks=["family", "species"])
            assert text.casefold() not in training, (slot, choice)


def test_every_fragment_of_the_toolkit_is_known() -> None:
    fragments = yaml.safe_load((prompts_dir() / "fragments" / "default.yaml").read_text(encoding="utf-8"))
    known = load_phrasings()["fragments"]
    for slot in fragments["slots"]:
        for choice in slot["choices"]:
            if choice["text"]:
                inside = [part for part in ("train", "held_out") if choice["id"] in known[part].get(slot["id"], {})]
                assert len(inside) == 1, (slot["id"], choice["id"])


def test_a_level_beats_a_policy_and_a_policy_beats_pushes() -> None:
    assert intent_of([{"push": -3}]).care < 0.5
    assert intent_of([{"push": 2}]).care > intent_of([]).care == 1
    assert 1.5 <= intent_of([{"push": -3}, {"policy": 3}]).care < intent_of([{"policy": 3}]).care
    assert intent_of([{"policy": 3}, {"push": 2}]).care > 3
    assert intent_of([{"level": "family"}, {"push": -3}]).level == "family"
    assert intent_of([{"policy": 2, "drop": "class"}]).drop == "class"
    assert intent_of([{"policy": 2, "drop": "class"}, {"policy": 3}]).drop is None
    assert -1 <= intent_of([{"push": -9}]).care < intent_of([{"push": 99}]).care <= 5


def test_more_care_never_makes_an_answer_more_specific() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        species, family, order = np.sort(rng.random(3))
        sureness = {"species": species, "family": family, "order": order}
        depths = [RANKS.index(choose_rank(Intent(care=care), sureness)) for care in np.linspace(-1, 5, 25)]
        assert depths == sorted(depths)
        assert depths[0] == 0


def test_sure_pictures_get_species_and_hopeless_ones_bird() -> None:
    sure = {"species": 0.99, "family": 1.0, "order": 1.0}
    lost = {"species": 0.1, "family": 0.2, "order": 0.3}
    for care in (1, 2, 3, 4, 5):
        assert choose_rank(Intent(care=care), sure) == "species"
    assert choose_rank(Intent(care=0), lost) == "species"
    assert choose_rank(Intent(care=3), lost) == "class"
    half = {"species": 0.3, "family": 0.95, "order": 0.95}
    assert choose_rank(Intent(care=3), half) == "family"
    assert choose_rank(Intent(care=3, drop="class"), half) == "class"
    assert choose_rank(Intent(level="order"), sure) == "order"


def test_every_answer_is_placed_where_it_belongs() -> None:
    taxonomy = read_taxonomy("builtin:fieldguide")
    wanted: dict[str, str] = {}
    for bird in all_species():
        for rank, label in zip(RANKS, (bird.label, bird.family, bird.order, "Aves"), strict=True):
            for form in ("tagged", "bare", "sentence"):
                wanted[answer_text(bird, rank, form=form)] = label
            wanted[answer_text(bird, rank, latin=True, form="json")] = label
    placements = Mapper(taxonomy).place(list(wanted))
    got = {p.answer: taxonomy.labels[p.node] for p in placements}
    assert {a: n for a, n in got.items() if n != wanted[a]} == {}
