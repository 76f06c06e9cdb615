"""The judges with a real, small language model: what it says is read, counted and kept, and never made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from taxtune.metrics.judging import Judge, read_rating, read_yes_no
from taxtune.metrics.lave import Lave, LaveOptions, LlamaInclusion
from taxtune.metrics.registry import MeasureSettings
from taxtune.models import Model, ModelSettings, make_model
from taxtune.models.text import LocalLLM

pytestmark = pytest.mark.heavy

ANSWERS = ["A: robin.", "some kind of bird", "a fire truck", "w" * 20_001]
LABELS = ["robin"] * 4
QUESTIONS = ["Which bird is it?"] * 4


@pytest.fixture(scope="module")
def llm(smollm2: Path) -> LocalLLM:
    settings = ModelSettings(task="text-generation", max_tokens=24, device="cpu")
    model = make_model(f"local:{smollm2}", settings)
    assert isinstance(model, LocalLLM)
    _ = model._network  # loaded once for the module
    return model


def inclusion(llm: Model, place: Path) -> LlamaInclusion:
    return LlamaInclusion("local:smollm2", MeasureSettings(), Judge(llm, place=place))


def lave(llm: Model, place: Path) -> Lave:
    return Lave("local:smollm2", MeasureSettings(), Judge(llm, place=place), LaveOptions(shots=1))


def test_llama_inclusion_is_what_it_replies(llm: LocalLLM, tmp_path: Path) -> None:
    measure = inclusion(llm, tmp_path)
    found = measure.verdicts(ANSWERS, LABELS, QUESTIONS)
    said = [None if reply is None else read_yes_no(reply) for reply in found.replies]
    np.testing.assert_array_equal(found.values, [np.nan if each is None else float(each) for each in said])
    assert sum(each is not None for each in said[:3]) > 0, f"the model said neither yes nor no: {found.replies}"
    assert found.prompt_tokens > 3 * 100
    assert 3 <= found.completion_tokens <= 3 * 24
    again = inclusion(llm, tmp_path).verdicts(ANSWERS, LABELS, QUESTIONS)
    assert (again.from_store, again.prompt_tokens, again.completion_tokens) == (3, 0, 0)
    np.testing.assert_array_equal(again.values, found.values)


def test_lave_is_what_it_rates_and_the_account_adds_up(llm: LocalLLM, tmp_path: Path) -> None:
    measure = lave(llm, tmp_path)
    found = measure.rate(ANSWERS, [[label] for label in LABELS], QUESTIONS)
    ratings = [None if reply is None else read_rating(reply) for reply in found.replies]
    np.testing.assert_array_equal(found.values, [np.nan if r is None else (r - 1) / 2 for r in ratings])
    assert sum(rating is not None for rating in ratings) > 0, f"the model rated nothing: {found.replies}"
    assert found.replies[3] is None
    assert found.not_asked == {"no reference, or a text longer than 20,000 characters": 1}
    assert found.failed == 0
    assert np.isfinite(found.values).sum() + found.unread + 1 == len(ANSWERS)


def test_a_rating_that_was_cut_off_is_unscored_and_counted(llm: LocalLLM, smollm2: Path, tmp_path: Path) -> None:
    # One token is not enough for "Rating: 3", nor for a reason.
    settings = ModelSettings(task="text-generation", max_tokens=1, device="cpu")
    measure = lave(make_model(f"local:{smollm2}", settings), tmp_path)
    found = measure.rate(ANSWERS[:3], [[label] for label in LABELS[:3]], QUESTIONS[:3])
    assert np.isnan(found.values).all()
    assert (found.unread, found.failed, found.completion_tokens) == (3, 0, 3)
    assert measure.notes == ("3 of 3 unscored: the judge's reply gives no rating from 1 to 3.",)
