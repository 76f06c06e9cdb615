"""The judges with a real, small language model: what it says is read, counted and kept, and never made up."""

from __future__ import annotations

import numpy as np
import pytest

from taxtune.metrics.registry import MeasureSettings
from taxtune.models import ModelSettings, make_model
from taxtune.models.judging import Judge
from taxtune.models.lave import Lave, LaveOptions, read_rating
from taxtune.models.local import LocalLLM

pytestmark = pytest.mark.heavy

ANSWERS = ["A: robin.", "some kind of bird", "a fire truck", "w" * 20_001]
LABELS = ["robin"] * 4
QUESTIONS = ["Which bird is it?"] * 4


@pytest.fixture(scope="module")
def llm(smollm2):
    settings = ModelSettings(task="text-generation", max_tokens=24, device="cpu")
    model = make_model(f"local:{smollm2}", settings)
    assert isinstance(model, LocalLLM)
    _ = model._network  # loaded once for the module
    return model


def lave(llm, place):
    return Lave("local:smollm2", MeasureSettings(), Judge(llm, place=place), LaveOptions(shots=1))


def test_lave_is_what_it_rates_and_the_account_adds_up(llm, tmp_path):
    measure = lave(llm, tmp_path)
    found = measure.rate(ANSWERS, [[label] for label in LABELS], QUESTIONS)
    ratings = [None if reply is None else read_rating(reply) for reply in found.replies]
    np.testing.assert_array_equal(
        found.values, [np.nan if r is None else (r - 1) / 2 for r in ratings]
    )
    assert sum(rating is not None for rating in ratings) > 0, (
        f"the model rated nothing: {found.replies}"
    )
    assert found.replies[3] is None
    assert found.problems == (
        None,
        None,
        None,
        "no reference, or a text longer than 20,000 characters",
    )
    unread = sum(rating is None for rating in ratings) - 1
    assert (
        unread == 0
        or f"{unread} of {len(ANSWERS)} unscored: the judge's reply gives no rating"
        in measure.notes[0]
    )
