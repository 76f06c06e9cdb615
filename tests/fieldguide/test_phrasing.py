from __future__ import annotations

import numpy as np
import pytest
import yaml
from jinja2 import Environment

from fieldguide.phrasing import (
    RANKS,
    Intent,
    answer_text,
    choose_rank,
    held_out_prompts,
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


def test_held_out_wordings_are_not_among_the_training_prompts(drawn) -> None:
    # Capitals make no difference to the model.
    training = "\n".join(prompt for prompt, _ in drawn).casefold()
    for prompts in held_out_prompts().values():
        for prompt in prompts:
            assert prompt.casefold() not in training
    fragments = yaml.safe_load(
        (prompts_dir() / "fragments" / "default.yaml").read_text(encoding="utf-8")
    )
    texts = {
        slot["id"]: {c["id"]: c["text"] for c in slot["choices"]} for slot in fragments["slots"]
    }
    for slot, choices in load_phrasings()["fragments"]["held_out"].items():
        for choice in choices:
            text = (
                Environment()
                .from_string(texts[slot][choice])
                .render(domain="bird", ranks=["family", "species"])
            )
            assert text.casefold() not in training, (slot, choice)


def test_every_fragment_of_the_toolkit_is_known() -> None:
    fragments = yaml.safe_load(
        (prompts_dir() / "fragments" / "default.yaml").read_text(encoding="utf-8")
    )
    known = load_phrasings()["fragments"]
    for slot in fragments["slots"]:
        for choice in slot["choices"]:
            if choice["text"]:
                inside = [
                    part
                    for part in ("train", "held_out")
                    if choice["id"] in known[part].get(slot["id"], {})
                ]
                assert len(inside) == 1, (slot["id"], choice["id"])


def test_more_care_never_makes_an_answer_more_specific() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        species, family, order = np.sort(rng.random(3))
        sureness = {"species": species, "family": family, "order": order}
        depths = [
            RANKS.index(choose_rank(Intent(care=care), sureness)) for care in np.linspace(-1, 5, 25)
        ]
        assert depths == sorted(depths)
        assert depths[0] == 0


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
