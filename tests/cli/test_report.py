"""`taxtune report`: the report of a run once more."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from taxtune.report.html import write_report
from taxtune.results import offered
from taxtune.tuning.run_folder import write_result
from tests.cli.commands import run_captured
from tests.report.samples import comparison, tune


def reported(result):
    """Writes a run's records and its report into its folder."""
    for run in getattr(result, "runs", ()):
        Path(result.folder, run.objective).mkdir(parents=True)
    Path(result.folder).mkdir(exist_ok=True)
    write_result(result)
    write_report(result, result.folder)
    return Path(result.folder)


def test_the_report_of_a_run_is_written_again(tmp_path):
    page = reported(tune("hp", folder=str(tmp_path / "hp"))) / "report.html"
    before = page.read_text("utf-8")
    page.unlink()
    done = run_captured("report", "hp", folder=tmp_path)
    assert (done.code, done.out.strip()) == (0, str(Path("hp/report.html")))
    assert page.read_text("utf-8") == before.replace(
        f"taxtune audit {tmp_path / 'hp'}", "taxtune audit hp"
    )


def test_a_table_for_a_paper_is_printed_and_no_page_written(tmp_path):
    result = tune("hp", folder=str(tmp_path / "hp"))
    page = reported(result) / "report.html"
    page.unlink()
    done = run_captured("report", "hp", "--table", "latex", folder=tmp_path)
    assert (done.code, done.out) == (0, offered(result).to_latex())
    assert not page.exists()
    wrong = run_captured("report", "hp", "--table", "csv", "--out", "x.html", folder=tmp_path)
    assert wrong.code != 0
    assert "no page is written" in wrong.err


@pytest.mark.heavy
def test_a_run_that_was_moved_has_its_report(tmp_path):
    shutil.move(reported(comparison(folder=str(tmp_path / "both"))), tmp_path / "elsewhere")
    done = run_captured("report", "elsewhere", "--out", "shown.html", folder=tmp_path)
    assert done.code == 0
    assert "birds: tuning for hP and accuracy" in (tmp_path / "shown.html").read_text("utf-8")


def test_the_winner_of_a_front_is_not_the_last_of_it(tmp_path):
    run = tune("hp", folder=str(tmp_path))
    other = replace(run.heldout[1], name="iteration 3", template="Another of the front?")

    write_result(replace(run, heldout=(*run.heldout, other)))

    assert (tmp_path / "winner.j2").read_text("utf-8") == run.best.template
    assert (tmp_path / "winner.txt").read_text("utf-8") == (run.best.prompt or "")
