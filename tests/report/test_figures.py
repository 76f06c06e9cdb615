"""The figures of a run: marks, intervals, colours, and the same bytes each time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from taxtune.metrics.hierarchical import harmonic_mean
from taxtune.report.curves import draw_curves, tuning_interval
from taxtune.report.drawing import save_figure
from taxtune.report.plane import draw_plane
from taxtune.tuning.records import IterationRecord, SampleResult
from tests.report import samples

DRAWINGS = (draw_plane, draw_curves)


def saved(draw: Callable[[Any], Any], result: Any, stem: Path) -> list[bytes]:
    return [path.read_bytes() for path in save_figure(lambda: draw(result), stem)]


def test_figure_six_shows_both_runs_winners_and_baseline(tmp_path: Path) -> None:
    png, _ = save_figure(lambda: draw_plane(samples.comparison(12)), tmp_path / "hp_hr")
    with Image.open(png) as image:
        assert min(image.size) > 700
        assert abs(image.info["dpi"][0] - 200) < 1
        pixels = np.asarray(image.convert("RGB")).astype(int)
    for colour in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x1B, 0x1B, 0x1B)):
        assert (np.abs(pixels - colour).sum(axis=2) < 12).sum() > 200


@pytest.mark.parametrize("draw", DRAWINGS)
def test_the_same_bytes_each_time_whatever_a_readers_own_settings(tmp_path: Path, draw: Any) -> None:
    import matplotlib as mpl

    first = saved(draw, samples.comparison(5), tmp_path / "a")
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        assert saved(draw, samples.comparison(5), tmp_path / "b") == first
        assert mpl.rcParams["font.size"] == 30
    assert b"<dc:date>" not in first[1]


@pytest.mark.parametrize("draw", DRAWINGS)
@pytest.mark.parametrize(
    "iterations",
    [
        (samples.iteration(0, 1.0, 1.0, 1.0),),
        (samples.iteration(0, state="void"), samples.iteration(1, state="failed")),
        (),
    ],
)
def test_runs_with_next_to_nothing_are_drawn_too(tmp_path: Path, draw: Any, iterations: Any) -> None:
    bare = replace(samples.tune(n=1), iterations=iterations, heldout=(), differences=(), winner=0)
    assert all(len(content) > 2000 for content in saved(draw, bare, tmp_path / "x"))


def record(hp: list[float | None], hr: list[float | None]) -> IterationRecord:
    rows = tuple(
        SampleResult(str(i), f"{i}.png", 0, "a", node=None if p is None else 0, hp=p, hr=r, measures={"own": p})
        for i, (p, r) in enumerate(zip(hp, hr, strict=True))
    )
    return replace(samples.iteration(0), rows=rows)


def test_an_interval_is_as_wide_as_theory_says() -> None:
    hp = np.random.default_rng(0).choice([0.5, 1.0], size=400)
    ends = tuning_interval(record(hp.tolist(), hp.tolist()), "hp")
    assert ends is not None
    assert ends.estimate == pytest.approx(hp.mean())
    error = hp.std() / math.sqrt(len(hp))
    assert ends.low == pytest.approx(hp.mean() - 1.96 * error, abs=0.25 * error)
    assert ends.high == pytest.approx(hp.mean() + 1.96 * error, abs=0.25 * error)


def test_hf_is_of_the_means_and_failed_calls_count_for_none() -> None:
    made = record([1.0, 0.5, 0.5, None], [0.25, 1.0, 0.5, None])
    for measure, estimate in (("hf", harmonic_mean(2 / 3, 1.75 / 3)), ("own", 2 / 3)):
        ends = tuning_interval(made, measure)
        assert ends is not None
        assert ends.estimate == pytest.approx(estimate)


@pytest.mark.parametrize("made", [record([None], [None]), record([], []), replace(record([1.0], [1.0]), scores=None)])
def test_without_an_answer_there_is_no_interval(made: IterationRecord) -> None:
    assert tuning_interval(made, "hp") is None
    assert tuning_interval(record([1.0], [1.0]), "hr_at_hp") is None, "no mean over images"
