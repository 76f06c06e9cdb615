"""The figures of a run: marks, intervals, colours, and the same bytes each time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Text

from taxtune.metrics.selective import ClimbingCurve, Selective
from taxtune.report.drawing import NamedPoint, name_points, save_figure
from taxtune.report.figures import draw_plane
from taxtune.results import offered
from tests.report import samples


def saved(result, stem):
    return [path.read_bytes() for path in save_figure(lambda: draw_plane(result), stem)]


def test_the_same_bytes_each_time_whatever_a_readers_own_settings(tmp_path):
    import matplotlib as mpl

    first = saved(samples.comparison(5), tmp_path / "a")
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        assert saved(samples.comparison(5), tmp_path / "b") == first
        assert mpl.rcParams["font.size"] == 30
    assert b"<dc:date>" not in first[1]


@pytest.mark.parametrize(
    "iterations",
    [
        (samples.iteration(0, 1.0, 1.0, 1.0),),
        (samples.iteration(0, state="void"), samples.iteration(1, state="failed")),
        (),
    ],
)
def test_runs_with_next_to_nothing_are_drawn_too(tmp_path, iterations):
    bare = replace(samples.tune(n=1), iterations=iterations, heldout=(), differences=(), winner=0)
    assert all(len(content) > 2000 for content in saved(bare, tmp_path / "x"))


def drawn(result):
    """The axes of a result's plane, and the names beside its marks."""
    figure = offered(result).plot()
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
    assert offered(samples.comparison(2)).plot()._repr_png_().startswith(b"\x89PNG")


def test_what_other_thresholds_would_give_is_a_line_through_the_mark_and_moves_no_scale():
    run = samples.tune(n=5)
    before, _ = drawn(run)
    baseline, winner = run.heldout
    curve = ClimbingCurve(
        threshold=(None, 0.9, 0.5),
        coverage=(0.0, 0.6, 0.9),
        risk=(0.0, 0.01, 0.5),
        hp=(1.0, 0.99, 0.5),
        hr=(0.1, 0.6, 0.9),
        area=0.1,
        loss_area=0.1,
    )
    selective = Selective(aurc=0.1, risks=(0.0, 0.0, 0.0), curve=curve)
    winner = replace(winner, selective=selective)
    axes, _ = drawn(replace(run, heldout=(baseline, winner)))
    (line,) = (each for each in axes.lines if list(each.get_xdata()) == [0.1, 0.6, 0.9])
    assert list(line.get_ydata()) == [1.0, 0.99, 0.5]
    assert axes.get_xlim() == before.get_xlim()
    assert axes.get_ylim() == before.get_ylim()
