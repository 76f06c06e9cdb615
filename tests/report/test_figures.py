from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from taxtune.errors import TaxtuneError
from taxtune.report.figures import history_figure, history_svg, hp_hr_figure, hp_hr_svg
from taxtune.tuning.records import TuneResult
from tests.report import samples


def near(pixels: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((np.abs(pixels.astype(int) - colour).sum(axis=2) < 12).sum())


def test_figure_six_shows_both_runs_winners_and_baseline(tmp_path: Path) -> None:
    png, svg = hp_hr_figure(samples.comparison(12), tmp_path)
    assert [png.name, svg.name] == ["hp_hr.png", "hp_hr.svg"]
    with Image.open(png) as image:
        assert min(image.size) > 700
        assert abs(image.info["dpi"][0] - 200) < 1
        pixels = np.asarray(image.convert("RGB"))
    for colour in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x1B, 0x1B, 0x1B)):
        assert near(pixels, colour) > 200
    assert not any(path.suffix == ".tmp" for path in tmp_path.iterdir())


def test_every_scored_iteration_has_a_mark_and_failed_ones_none() -> None:
    def marks(result: TuneResult) -> int:
        return len(re.findall(r"<use [^>]*fill: var\(--hp\); fill-opacity: 0\.55", hp_hr_svg(result)))

    # One mark more than there are templates with scores: the legend's.
    run = samples.tune(n=12)
    assert marks(run) == 11 + 1
    assert marks(replace(run, iterations=run.iterations[:5])) == 4 + 1


def test_the_same_result_gives_the_same_bytes(tmp_path: Path) -> None:
    for draw in (hp_hr_figure, history_figure):
        first = [path.read_bytes() for path in draw(samples.comparison(5), tmp_path / "a")]
        second = [path.read_bytes() for path in draw(samples.comparison(5), tmp_path / "b")]
        assert first == second
        assert b"<dc:date>" not in first[1]


def test_a_readers_own_settings_do_not_leak_in_or_out(tmp_path: Path) -> None:
    import matplotlib as mpl

    plain = hp_hr_figure(samples.tune(n=3), tmp_path / "a")[1].read_bytes()
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        styled = hp_hr_figure(samples.tune(n=3), tmp_path / "b")[1].read_bytes()
        assert mpl.rcParams["font.size"] == 30
    assert plain == styled


def test_inline_figures_share_no_id_and_follow_the_pages_colours() -> None:
    plane, history = hp_hr_svg(samples.comparison(4)), history_svg(samples.comparison(4))
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (plane, history)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for text, known in zip((plane, history), ids, strict=True):
        assert text.startswith("<svg")
        assert set(re.findall(r'href="#([^"]+)"', text)) <= known
        assert set(re.findall(r"url\(#([^)]+)\)", text)) <= known
        assert "var(--ink)" in text
        assert "#1b1b1b" not in text.lower()
        assert "<metadata" not in text


@pytest.mark.parametrize("draw", [hp_hr_figure, history_figure])
def test_runs_with_next_to_nothing_are_drawn_too(tmp_path: Path, draw) -> None:  # type: ignore[no-untyped-def]
    run = samples.tune(n=1)
    for number, iterations in enumerate(
        (
            (samples.iteration(0, 1.0, 1.0, 1.0),),
            (samples.iteration(0, state="void"), samples.iteration(1, state="failed")),
            (),
        )
    ):
        bare = replace(run, iterations=iterations, heldout=(), differences=(), winner=0)
        assert all(path.stat().st_size > 2000 for path in draw(bare, tmp_path / str(number)))


def test_history_marks_each_failed_iteration() -> None:
    def crosses(result: TuneResult) -> int:
        return len(re.findall(r"<use [^>]*stroke: var\(--ink\); stroke-width: 1\.6", history_svg(result)))

    assert crosses(samples.tune(n=6)) == 0
    assert crosses(samples.tune(n=20)) == 2 + 1  # iterations 7 and 19, and the legend


def test_history_draws_an_interval_for_each_score_that_has_one() -> None:
    def bars(result: TuneResult) -> int:
        return len(re.findall(r"stroke-opacity: 0\.45; stroke-width: 1\.1", history_svg(result)))

    run = samples.tune(n=6)
    assert bars(run) == 7 * 2  # hP and hR of each iteration
    assert bars(samples.tune("accuracy", n=6)) == 7 * 3
    # What has failed has no score, and what no rows are kept of no interval.
    assert bars(samples.tune(n=7)) == 7 * 2
    assert bars(replace(run, iterations=(*run.iterations[:3], replace(run.iterations[3], rows=())))) == 3 * 2


def test_the_front_is_drawn_where_there_is_one() -> None:
    def lines(result: TuneResult) -> int:
        return len(
            re.findall(r"stroke-dasharray: 4\.4,2\.2; stroke-dashoffset: 0; stroke: var\(--hp\)", hp_hr_svg(result))
        )

    run = samples.tune(n=6)
    assert lines(replace(run, pareto=(1,))) == 0
    assert lines(replace(run, pareto=(1, 3, 5))) == 1 + 1  # and the legend's


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(TaxtuneError, match=r"hp_hr\.png"):
        hp_hr_figure(samples.tune(n=1), tmp_path / "file")
