"""The rank-shift chart."""

from __future__ import annotations

import pandas as pd
import pytest

from taxtune.studies.ranking.figure import draw_bump


def frame(ranks: list[list[float]], models: str) -> pd.DataFrame:
    """Ranks by measure and model, each with an interval."""
    rows = [(f"M{i}", models[j], rank) for i, row in enumerate(ranks) for j, rank in enumerate(row)]
    made = pd.DataFrame(rows, columns=["measure", "model", "rank"])
    return made.assign(**{"2.5 %": made["rank"] - 0.5, "97.5 %": made["rank"] + 0.5})


def test_marks_stand_at_the_ranks_and_names_at_both_ends() -> None:
    notes = ["one " * 30, "two"]
    figure = draw_bump(frame([[1, 2, 3], [3, 1, 2]], "abc"), "9 rows", notes)
    (axes,) = figure.axes
    marks = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
    assert sorted(line.get_ydata().tolist() for line in marks) == [[1, 3], [2, 1], [3, 2]]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the best on top
    names = [(text.get_text(), text.xy) for text in axes.texts]
    ordered = sorted(names[:-1], key=lambda item: (item[1][0], item[1][1]))
    assert [name for name, _ in ordered] == [*"abc", *"bca"]
    below = names[-1][0]
    assert "9 rows" in below
    assert "bootstrap" in below
    assert below.split()[-31:] == ["one"] * 30 + ["two"]
    assert max(map(len, below.splitlines()[1:])) < 70  # a long note is broken
    assert len(axes.collections) == 3
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0.0}


def test_tied_models_stand_apart_around_their_rank() -> None:
    figure = draw_bump(frame([[1.5, 1.5]], "ab"))
    heights = sorted({float(line.get_ydata()[0]) for line in figure.axes[0].lines if len(line.get_ydata()) == 1})
    assert len(heights) == 2
    assert sum(heights) == pytest.approx(3)
