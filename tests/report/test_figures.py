"""The figures of a run: marks, intervals, colours, and the same bytes each time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taxtune.report.drawing import save_figure
from taxtune.report.figures import draw_curves, draw_plane, selective_figure
from tests.report import samples
from tests.rows import sample_row

DRAWINGS = (draw_plane, draw_curves)


def saved(draw, result, stem):
    return [path.read_bytes() for path in save_figure(lambda: draw(result), stem)]


@pytest.mark.parametrize("draw", DRAWINGS)
def test_the_same_bytes_each_time_whatever_a_readers_own_settings(tmp_path, draw):
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
def test_runs_with_next_to_nothing_are_drawn_too(tmp_path, draw, iterations):
    bare = replace(samples.tune(n=1), iterations=iterations, heldout=(), differences=(), winner=0)
    assert all(len(content) > 2000 for content in saved(draw, bare, tmp_path / "x"))


def record(*hp):
    rows = []
    for i, p in enumerate(hp):
        node = None if p is None else 0
        rows.append(sample_row(example=str(i), target=0, truth="a", node=node, hp=p, hr=p))
    return replace(samples.iteration(0), rows=tuple(rows))


def test_a_score_has_the_standard_error_of_its_mean_and_failed_calls_count_for_none():
    assert record(1.0, 0.5, 0.5, None).table.standard_error("hp") == pytest.approx(0.5 / 3)
    alike = record(1.0, 1.0).table
    assert alike.standard_error("hp") is None, "the spread is not known"
    assert record(1.0, None).table.standard_error("hp") is None
    assert record(1.0, 0.0).table.standard_error("hf") is None, "no mean over images"


def test_precision_is_drawn_against_coverage_with_each_choice_in_the_colour_of_its_curve():
    curves = {
        "self-consistency": ([0.2, 0.6, 0.8], [1.0, 0.99, 0.9]),
        "names": ([0.2, 0.7, 0.9], [1.0, 0.99, 0.93]),
    }
    points = {"names: chosen": (0.7, 0.99), "the constant .65": (0.75, 0.97)}
    (axes,) = selective_figure(curves, points).axes
    first, second, chosen, constant = axes.lines
    assert list(first.get_xdata()) == [0.2, 0.6, 0.8]
    assert list(second.get_xdata()) == [0.2, 0.7, 0.9]
    assert chosen.get_color() == second.get_color() != first.get_color()
    assert constant.get_color() not in (first.get_color(), second.get_color())
    assert chosen.get_label() == "names: chosen\nhP 0.990, hR 0.700"
    low, high = axes.get_ylim()
    assert 0.5 < low < 0.9
    assert 1 < high < 1.02
