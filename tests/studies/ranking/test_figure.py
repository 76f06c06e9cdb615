"""Tests of the rank-shift chart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from taxtune.report.drawing import save_figure
from taxtune.studies.ranking.figure import draw_bump

NAN = float("nan")


def test_marks_stand_at_the_ranks_and_names_at_both_ends() -> None:
    ranks = np.array([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])
    figure = draw_bump(["a", "b", "c"], ["EM", "hF"], ranks, low=ranks - 0.5, high=ranks + 0.5, over="10 examples")
    (axes,) = figure.axes
    marks = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
    assert sorted(line.get_ydata().tolist() for line in marks) == [[1, 3], [2, 1], [3, 2]]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the best on top
    names = [(text.get_text(), text.xy) for text in axes.texts]
    assert [name for name, (x, y) in sorted(names[:-1], key=lambda item: (item[1][0], item[1][1]))] == [
        *"abc",  # under EM
        *"bca",  # under hF
    ]
    assert "10 examples" in names[-1][0]
    assert "bootstrap" in names[-1][0]
    noted = (
        draw_bump(["a", "b"], ["EM"], np.array([[1.0, 2.0]]), notes=["one " * 30, "two"]).axes[0].texts[-1].get_text()
    )
    assert noted.split()[-31:] == ["one"] * 30 + ["two"]
    assert max(map(len, noted.splitlines())) < 70  # a long note is broken
    assert len(axes.collections) == 3


def test_tied_models_stand_apart_around_their_rank() -> None:
    figure = draw_bump(["a", "b"], ["EM"], np.array([[1.5, 1.5]]))
    heights = sorted({float(line.get_ydata()[0]) for line in figure.axes[0].lines if len(line.get_ydata()) == 1})
    assert len(heights) == 2
    assert sum(heights) == pytest.approx(3)


def test_many_models_missing_ranks_and_names_in_any_script(tmp_path: Path) -> None:
    models = [f"model {i} with a name that is much too long to be read" for i in range(19)] + ["نموذج"]
    ranks = np.array([np.arange(1.0, 21.0), np.arange(20.0, 0.0, -1.0)])
    ranks[0, 3] = NAN
    png, svg = save_figure(lambda: draw_bump(models, ["EM", "hF"], ranks, low=ranks, high=ranks), tmp_path / "bump")
    assert png.stat().st_size > 10_000
    assert (
        svg.read_bytes()
        == save_figure(lambda: draw_bump(models, ["EM", "hF"], ranks, low=ranks, high=ranks), tmp_path / "again")[
            1
        ].read_bytes()
    )


def test_long_names_keep_both_ends_and_long_measures_are_slanted() -> None:
    models = [f"meta-llama/Llama-3.2-11B-Vision-Instruct: {guess}" for guess in ("guess 1", "all guesses", "$x_1$")]
    figure = draw_bump(models, ["EM", "a measure of a long name"], np.array([[1.0, 2.0, NAN], [1.0, 2.0, NAN]]))
    (axes,) = figure.axes
    names = [text.get_text() for text in axes.texts]
    assert len(set(names[:2])) == 2
    assert (names[0][-7:], names[1][-11:]) == ("guess 1", "all guesses")
    assert all(len(name) <= 34 for name in names[:2])
    # A model without any rank takes no row, and is named below.
    assert axes.get_ylim() == (2.5, 0.5)
    assert names[-1].endswith(r"unscored and unranked: meta-llama/Llama…n-Instruct: \$x_1\$")
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {35.0}
    short = draw_bump(["a", "b"], ["EM", "BERTScore"], np.array([[1.0, 2.0], [2.0, 1.0]])).axes[0]
    assert {label.get_rotation() for label in short.get_xticklabels()} == {0.0}
