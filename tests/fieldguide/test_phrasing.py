from __future__ import annotations

import numpy as np
import pytest

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
from taxtune.taxonomy import read_taxonomy
from tests.fieldguide.toolkit import fragment_texts, held_out_fragments


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(0)
    return [sample_prompt(rng, all_species()) for _ in range(1500)]


def test_held_out_wordings_are_not_among_the_training_prompts(drawn):
    # Capitals make no difference to the model.
    training = "\n".join(prompt for prompt, _ in drawn).casefold()
    for prompts in held_out_prompts().values():
        for prompt in prompts:
            assert prompt.casefold() not in training
    for slot, choice, text in held_out_fragments():
        assert text.casefold() not in training, (slot, choice)


def test_every_fragment_of_the_toolkit_is_known():
    known = load_phrasings()["fragments"]
    for (slot, choice), text in fragment_texts().items():
        if text:
            in_training = choice in known["train"].get(slot, {})
            is_held_out = choice in known["held_out"].get(slot, {})
            assert in_training != is_held_out, (slot, choice)


def test_more_care_never_makes_an_answer_more_specific():
    rng = np.random.default_rng(1)
    for _ in range(100):
        sureness = dict(zip(("species", "family", "order"), np.sort(rng.random(3)), strict=True))
        intents = [Intent(care=care) for care in np.linspace(-1, 5, 25)]
        depths = [RANKS.index(choose_rank(intent, sureness)) for intent in intents]
        assert depths == sorted(depths)
        assert depths[0] == 0


def test_every_answer_is_placed_where_it_belongs():
    taxonomy = read_taxonomy("builtin:fieldguide")
    wanted = {}
    for bird in all_species():
        for rank, label in zip(RANKS, (bird.label, bird.family, bird.order, "Aves"), strict=True):
            for form in ("tagged", "bare", "sentence"):
                wanted[answer_text(bird, rank, form=form)] = label
            wanted[answer_text(bird, rank, latin=True, form="json")] = label
    placements = Mapper(taxonomy).place(list(wanted))
    assert {p.answer: taxonomy.labels[p.node] for p in placements} == wanted
