from __future__ import annotations

import math

import numpy as np
import pytest

from taxtune.metrics.statistics import Interval
from taxtune.studies.granularity.figure import draw_accuracies

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def test_dots_stand_at_their_values_and_nothing_at_nan() -> None:
    none = Interval(math.nan, math.nan, math.nan)
    series = {
        "direct": [Interval(0.5, 0.4, 0.7), Interval(0.25, 0.2, 0.3)],
        "by fine": [none, Interval(0.75, math.nan, math.nan)],
        "nothing": [none, none],
    }
    (axes,) = draw_accuracies(["a", "b" * 60], series, marks={"at random": 0.1}).axes
    first, second = axes.containers
    assert first.lines[0].get_xdata() == pytest.approx([50, 25])
    assert second.lines[0].get_xdata() == pytest.approx([75])
    (bars,) = first.lines[2]
    assert np.array(bars.get_segments())[:, :, 0] == pytest.approx(np.array([[40, 70], [20, 30]]))
    assert [label.get_text()[:2] for label in axes.get_yticklabels()] == ["a", "…b"]
    assert axes.lines[-1].get_xdata() == pytest.approx([10, 10])


def test_one_row_of_zero() -> None:
    figure = draw_accuracies(["a"], {"accuracy": [Interval(0.0, 0.0, 0.0)]})
    figure.canvas.draw()
    assert figure.axes[0].get_xlim()[0] < 0
