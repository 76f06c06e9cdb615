"""The figures of a run: marks, intervals, colours, and the same bytes each time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Text

from taxtune.report.drawing import NamedPoint, name_points, save_figure
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


def drawn(result):
    """The axes of a result's plane, and the names beside its marks."""
    figure = result.plot()
    figure.draw_without_rendering()
    (axes,) = figure.axes
    return axes, [text for text in axes.texts if ": " in text.get_text()]


def test_the_plane_has_all_templates_the_goal_and_the_candidates_by_name():
    run = samples.with_candidates_of(samples.tune(n=30))
    iterations = list(run.iterations)
    iterations[3] = samples.iteration(3, images=80)
    axes, names = drawn(replace(run, iterations=tuple(iterations)))
    (marks,) = (found for found in axes.collections if found.get_urls() != [None])
    scored = [record for record in iterations if record.scores is not None]
    assert len(marks.get_offsets()) == len(scored) == 29
    largest = marks.get_sizes().argmax()
    assert marks.get_urls()[largest] == "report.html#iteration-3"
    assert marks.get_sizes()[largest] == 2 * marks.get_sizes().min()
    assert [name.get_text() for name in names] == [
        "2: winner, most careful",
        "0: baseline",
        "1: best estimate, boldest",
    ]
    assert [name.get_fontweight() for name in names] == ["bold", "normal", "normal"]
    goals = [text.get_text() for text in axes.texts if text.get_text().startswith("goal")]
    assert goals == ["goal:\nhP 0.980"]
    assert any(list(line.get_ydata()) == [0.98, 0.98] for line in axes.lines)
    (legend,) = axes.figure.legends
    said = [text.get_text() for text in legend.get_texts()]
    assert said[:2] == ["20 tuning images", "80 tuning images"]
    assert said[2] == "baseline, 200 held-out images\nhP 0.871, hR 0.738"


@settings(max_examples=8)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=8))
def test_no_name_lies_on_another_or_beyond_the_frame(places):
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(5, 5))
    axes = figure.add_subplot(xlim=(0, 1), ylim=(0, 1))
    points = [NamedPoint(x, y, f"{i}: best estimate") for i, (x, y) in enumerate(places)]
    name_points(axes, points, places)
    frame = axes.get_window_extent()
    boxes = []
    for name in axes.texts:
        name.arrow_patch.set_visible(False)
        name.update_positions(figure._get_renderer())
        boxes.append(Text.get_window_extent(name))
    for i, box in enumerate(boxes):
        assert frame.count_contains(box.corners()) == 4
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_a_notebook_shows_the_plane_though_nobody_imported_pyplot():
    assert samples.comparison(2).plot()._repr_png_().startswith(b"\x89PNG")


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
