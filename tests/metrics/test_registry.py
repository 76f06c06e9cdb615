from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from taxtune.errors import DataError, ModelError
from taxtune.metrics import base
from taxtune.metrics.registry import MEASURES, Measure, MeasureSettings, PairwiseMeasure, make_measure, split_spec


@pytest.mark.parametrize("kind", MEASURES)
def test_every_factory_is_there(kind: str) -> None:
    module, _, function = MEASURES[kind].factory.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("kind", [name for name, kind in MEASURES.items() if kind.default_model is None])
def test_measures_without_a_model_keep_the_one_signature(kind: str) -> None:
    measure = make_measure(kind)
    assert isinstance(measure, Measure)
    assert measure.name == kind
    assert measure.label == MEASURES[kind].label
    scores = measure.scores(["a red bird", "bird", ""], ["bird", "bird", "red tree"])
    assert scores.shape == (3,)
    assert scores.dtype == np.float64
    assert (scores >= 0).all()
    assert (scores <= 1 + 1e-9).all()
    assert scores[1] == scores.max()
    assert scores[2] == 0  # an answer that says nothing has nothing of the reference
    table = measure.matrix(["a red bird", ""], ["bird", "tree"])
    assert table.shape == (2, 2)
    assert table[0] == pytest.approx(measure.scores(["a red bird"] * 2, ["bird", "tree"]))
    assert measure.scores([], []).shape == (0,)
    assert measure.identity()["measure"] == kind


@pytest.mark.parametrize("kind", MEASURES)
def test_what_a_kind_is_said_to_need_is_what_its_measure_asks_for(kind: str) -> None:
    entry = MEASURES[kind]
    module = importlib.import_module(entry.factory.partition(":")[0])
    classes = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    asked = {
        "image": any(getattr(one, "needs_images", False) is True for one in classes) and kind != "clip-t2t",
        "question": any(getattr(one, "needs_questions", False) is True for one in classes),
    }
    assert set(entry.needs) == {name for name, needed in asked.items() if needed}


def test_specifications() -> None:
    assert split_spec("sentence") == (MEASURES["sentence"], MEASURES["sentence"].default_model)
    assert split_spec("sentence:some/folder:x") == (MEASURES["sentence"], "some/folder:x")
    assert split_spec("rouge-1") == (MEASURES["rouge-1"], None)


@pytest.mark.parametrize(
    ("spec", "said"),
    [("rouge1", "rouge-1"), ("rouge-1:x", "has no model"), ("sentence:", "empty"), ("", "There are")],
)
def test_what_is_no_measure(spec: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        make_measure(spec)


def test_settings_out_of_range() -> None:
    with pytest.raises(ModelError, match="batch_size"):
        make_measure("rouge-1", MeasureSettings(batch_size=0))


class Lengths(PairwiseMeasure):
    def scores(
        self, answers: Sequence[str], references: Sequence[str], images: Any = None, *, questions: Any = None
    ) -> base.FloatArray:
        return np.array([len(a) + 100 * len(b) for a, b in zip(answers, references, strict=True)], dtype=float)


def test_a_matrix_is_every_pair_even_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_CHUNK", 4)
    table = Lengths("lengths", "L").matrix(["a", "bb", "ccc", "dddd", "e"], ["x", "yy", "zzz"])
    assert table.tolist() == [[len(a) + 100 * n for n in (1, 2, 3)] for a in ("a", "bb", "ccc", "dddd", "e")]


def test_the_registry_imports_light() -> None:
    heavy = {"torch", "transformers", "nltk", "rouge_score", "spacy", "scipy", "sklearn", "open_clip", "litellm"}
    code = f"import sys, taxtune.metrics.registry\nprint(sorted(set(sys.modules) & {heavy!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
