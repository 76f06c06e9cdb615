"""A run on images that belong together: what it shows and promises is of groups."""

from __future__ import annotations

import numpy as np
import pytest

from taxtune.metrics.groups import Groups
from taxtune.metrics.table import PER_IMAGE
from taxtune.report.paper import score_rows
from taxtune.report.summary import power_in_words, summarise, summary_table, verdict
from taxtune.report.tables import candidate_table, score_table
from taxtune.tuning.plan import make_plan
from taxtune.tuning.run_folder import read_result
from tests.tuning.toy import make_files, toy, tuned

SMALL = ("data.tuning=8", "data.heldout=8", "objective.kind=hr_at_hp", "iterations=2")


def bursts(folder):
    """The toy, with its images in bursts of two and single ones."""
    lines = (make_files(folder / "in").parent / "manifest.csv").read_text().splitlines()
    rows = []
    for i, line in enumerate(lines[1:]):
        rows.append(f"{line},{f'burst {i // 2}' if i % 5 else ''}")
    parts = toy(folder, *SMALL, "data.path=bursts.csv", "data.group=burst")
    table = "\n".join([f"{lines[0]},burst", *rows])
    (folder / "in" / "bursts.csv").write_text(table)
    return parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("grouped")


@pytest.fixture(scope="module")
def run(folder):
    return tuned(bursts(folder))


def group_means(rows, key):
    groups = Groups.of([row.group for row in rows])
    return groups.mean([row.scores[key] for row in rows])


def test_means_and_intervals_are_of_groups_and_figures_of_images_stand_beside(run):
    for found in (*run.iterations, *run.heldout):
        assert 1 < len(group_means(found.rows, "hp")) < len(found.rows)
        for key, name in PER_IMAGE.items():
            assert found.scores.means[key] == pytest.approx(group_means(found.rows, key).mean())
            alone = np.mean([row.scores[key] for row in found.rows])
            assert found.scores.means[name] == pytest.approx(alone)
    for held in run.heldout:
        assert held.intervals["hp"].estimate == pytest.approx(held.scores.hp)
        assert PER_IMAGE["hp"] not in held.intervals
        named = [ranked.precision for ranked in held.ranks if ranked.precision is not None]
        assert named
    assert any(held.scores.hp != held.scores.means[PER_IMAGE["hp"]] for held in run.heldout)
    (change,) = run.differences
    baseline, winner = run.heldout
    difference = group_means(winner.rows, "hr").mean() - group_means(baseline.rows, "hr").mean()
    assert change.metrics["hr"].difference == pytest.approx(difference)


def test_the_words_of_a_run_say_what_counts_once(folder, run):
    n = len(group_means(run.best.rows, "hp"))
    selection = run.selection
    assert (selection.unit, selection.groups, selection.there) == ("burst", n, n)
    assert f"8 tuning images of {n} bursts" in verdict(run)
    assert " per burst" in verdict(run)
    (power,) = make_plan(bursts(folder), resume=True).power
    (words,) = power_in_words([power])
    assert words.startswith(f"without a single error, 8 tuning images of {n} bursts prove hP ")
    assert " per burst with 90 % confidence, not 0.980." in words
    names = [row[0].strip() for row in summary_table(summarise(run)).rows]
    assert "recall hR per burst" in names
    assert "hR per image" in names
    title = score_table(run).title
    assert title.startswith("Scores per burst: 8 held-out images of ")
    candidates = candidate_table(run)
    assert "hP per burst" in candidates.title
    assert "hP (90 % bound)" in candidates.columns
    again = read_result(run.folder)
    assert again.selection == selection
    assert verdict(again) == verdict(run)
    assert {row["n"] for row in score_rows(again)} == {8}


def test_where_no_images_belong_together_nothing_says_so(tmp_path):
    run = tuned(toy(tmp_path, *SMALL))
    assert run.selection.unit == run.heldout[0].unit == ""
    assert PER_IMAGE["hp"] not in run.best.scores.means
    assert " per " not in verdict(run)
