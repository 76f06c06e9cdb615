"""The shipped weights: they see, and they listen."""

from __future__ import annotations

import numpy as np
import pytest

from fieldguide.draw import make_dataset
from fieldguide.measure import PROMPTS, measure
from fieldguide.phrasing import held_out_prompts
from tests.fieldguide.toolkit import held_out_fragments

pytestmark = pytest.mark.heavy  # asks the model about a hundred drawings, again and again


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    # A seed that no part of the training has used, so every image is new to the model.
    return make_dataset(tmp_path_factory.mktemp("guide") / "birds", n=105, seed=20_261)


@pytest.fixture(scope="module")
def held_out(birds):
    prompts = {}
    for kind, texts in held_out_prompts().items():
        for i, text in enumerate(texts):
            prompts[f"{kind} {i}"] = text
    return {row.kind: row for row in measure(birds, prompts)}


@pytest.fixture(scope="module")
def rows(birds):
    return {row.kind: row for row in measure(birds, PROMPTS)}


def test_the_answers_depend_on_the_image(rows):
    assert len(set(rows["specific"].answers)) >= 25
    assert rows["specific"].accuracy_clear >= 0.85


def test_asked_to_be_specific_it_names_species_and_errs_on_degraded_images(
    rows,
):
    specific = rows["specific"]
    assert specific.accuracy >= 0.57  # 0.60 on many images; these are 105
    assert specific.hp <= 0.93
    assert specific.depth >= 2.9
    assert specific.accuracy_degraded <= 0.6


def test_asked_to_be_cautious_it_backs_off_where_it_cannot_see(rows):
    cautious = rows["cautious"]
    assert cautious.hp >= 0.955  # 0.97 on many images
    assert cautious.depth_clear >= 2.6
    assert cautious.depth_degraded <= cautious.depth_clear - 0.5
    assert cautious.hr > rows["family"].hr - 0.1


def test_answers_keep_to_the_format_and_end(rows):
    for row in rows.values():
        kept = [answer.startswith("A: ") and answer.endswith(".") for answer in row.answers]
        assert np.mean(kept) >= 0.98, (row.kind, row.answers[:5])
        assert max(len(answer) for answer in row.answers) < 60


def test_phrasings_kept_out_of_training_move_the_answers_the_right_way(
    held_out,
):
    def scores(kind):
        rows = [row for name, row in held_out.items() if name.startswith(kind)]
        return np.array([row.depth for row in rows]), np.array([row.hp for row in rows])

    specific_depth, specific_hp = scores("specific")
    plain_depth, plain_hp = scores("plain")
    careful_depth, careful_hp = scores("careful")
    assert specific_depth.mean() > plain_depth.mean() > careful_depth.mean()
    assert careful_hp.mean() > plain_hp.mean() + 0.02
    assert careful_hp.mean() > specific_hp.mean() + 0.05
    assert scores("family")[0].mean() == pytest.approx(2.0, abs=0.25)
    # Not only on average: every careful wording backs off further than every specific one.
    assert careful_depth.max() < specific_depth.min()


def test_fragments_kept_out_of_training_move_the_answers_the_right_way(birds):
    """Each with the baseline's question and format, against the baseline itself."""
    end = "Answer in the format 'A: <answer>.'"
    prompts = {"none": f"What bird is this? {end}"}
    for slot, choice, text in held_out_fragments():
        if slot not in ("question", "format"):
            prompts[choice] = f"What bird is this? {text} {end}"
    rows = {row.kind: row for row in measure(birds, prompts)}
    plain = rows.pop("none")
    assert len(rows) >= 5
    # All of these ask for care.
    for kind, row in rows.items():
        assert row.depth < plain.depth, kind
        assert row.hp > plain.hp, kind
