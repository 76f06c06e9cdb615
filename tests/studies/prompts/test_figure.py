"""Tests of the arrows in the hP-hR plane."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from taxtune.report.drawing import save_figure
from taxtune.studies.prompts import PromptsSettings
from taxtune.studies.prompts.study import PromptedModel, compare_prompts
from taxtune.taxonomy import Taxonomy
from tests.studies.prompts.placed import placed


def models(birds: Taxonomy, names: str, prompts: str) -> dict[str, PromptedModel]:
    rng = np.random.default_rng(0)
    targets = np.array([4, 5, 8] * 10)
    return {
        name: PromptedModel(birds, targets, {prompt: placed(rng.integers(1, 9, 30)) for prompt in prompts})
        for name in names
    }


@pytest.mark.parametrize(
    ("names", "prompts", "arrows"), [("m", "ab", 1), ("m", "abc", 2), ("mno", "ab", 3), ("mn", "abc", 4)]
)
def test_an_arrow_for_each_model_and_prompt(birds: Taxonomy, names: str, prompts: str, arrows: int) -> None:
    report = compare_prompts(models(birds, names, prompts), PromptsSettings(files=(), resamples=20))
    figure = report.figures["arrows"]()
    (axes,) = figure.axes
    assert sum(text.arrow_patch is not None for text in axes.texts if hasattr(text, "arrow_patch")) == arrows
    shown = [text.get_text() for text in axes.get_legend().get_texts()]
    assert shown[0] == "from: a"
    assert len(shown) == 1 + arrows
    scores = report.tables[0].records()
    for row in scores:
        assert axes.get_xlim()[0] <= row["hR"] <= axes.get_xlim()[1]
        assert axes.get_ylim()[0] <= row["hP"] <= axes.get_ylim()[1]


def test_arrows_of_no_length_and_of_perfect_scores(birds: Taxonomy, tmp_path: Path) -> None:
    targets = np.array([4, 8])
    perfect = placed(targets)
    given = {"m": PromptedModel(birds, targets, {"a": perfect, "b": perfect})}
    report = compare_prompts(given, PromptsSettings(files=(), resamples=5))
    png, svg = save_figure(report.figures["arrows"], tmp_path / "arrows")
    assert png.stat().st_size > 10_000
    assert svg.read_bytes() == save_figure(report.figures["arrows"], tmp_path / "again")[1].read_bytes()
