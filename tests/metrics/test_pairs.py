from __future__ import annotations

import numpy as np
import pytest

from taxtune.metrics.base import Measure, MeasureSettings, Pair, PairsMeasure
from taxtune.metrics.registry import MEASURES


class Lengths(PairsMeasure):
    kind = MEASURES["sentence"]

    """Scores a pair by the lengths of its texts, and remembers what it was asked."""

    def __init__(self, settings):
        super().__init__("lengths", settings)
        self.asked: list[list[Pair]] = []

    def compute(self, pairs, advance):
        self.asked.append(list(pairs))
        for _ in pairs:
            advance(1)
        return np.array([np.nan if "nan" in a else len(a) / (len(a) + len(r)) for a, r in pairs])


def test_equal_pairs_are_computed_once(tmp_path, recorder):
    settings = MeasureSettings(cache_dir=tmp_path)
    measure = Lengths(settings)
    assert isinstance(measure, Measure)
    answers = ["bird"] * 10_000 + ["robin", "a", "b", "bird"]
    references = ["bird"] * 10_000 + ["bird"] * 4
    scores = measure.scores(answers, references)
    assert [len(block) for block in measure.asked] == [4]
    assert scores[:10_000] == pytest.approx(0.5)
    assert scores[10_000:] == pytest.approx([5 / 9, 1 / 5, 1 / 5, 1 / 2])
    assert recorder.of(measure.label) == [(done, 4) for done in range(5)]


def test_empty_texts_and_missing_numbers_are_counted(tmp_path):
    measure = Lengths(MeasureSettings(cache_dir=tmp_path))
    scores = measure.scores(
        ["", " \n", "nan", "nan", "bird", ""], ["bird", "bird", "bird", "bird", " ", ""]
    )
    np.testing.assert_array_equal(scores, [0, 0, np.nan, np.nan, np.nan, np.nan])
    assert measure.asked == [[("nan", "bird")]]
    assert measure.notes == (
        "Pairs with an empty answer, which score 0: 2.",
        "Pairs left unscored because the reference is empty: 2.",
        "Pairs left unscored because the model returned no number: 2.",
    )
