"""Runs whose model says what the tree does not have: scores, records, and the end of a run on the wrong tree."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from taxtune.errors import TaxonomyError
from taxtune.mapping.config import PAPER_PRESETS
from taxtune.tuning.build import Setup, build, make_taxonomy
from taxtune.tuning.history import is_begun
from taxtune.tuning.records import TuneResult
from taxtune.tuning.run_folder import identity_of
from tests.tuning.toy import Cyclist, make_parts, tuned, with_bicycles


def cyclist(folder: Path, out: Path, *overrides: str) -> Setup:
    return with_bicycles(make_parts(folder, out, Cyclist(), ("max_off_tree=1", *overrides)))


def shares(result: TuneResult) -> list[tuple[float, float]]:
    return [
        (r.scores.abstained, r.scores.off_tree) for r in result.iterations if r.scores is not None
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Setup, TuneResult]]:
    base = tmp_path_factory.mktemp("off-tree")
    found = {}
    for way in ("child", "root"):
        session = cyclist(base / "in", base / way, "iterations=11", f"mapper.off_tree={way}")
        found[way] = session, tuned(session, base / way)
    return found


@pytest.mark.parametrize("way", ["child", "root"])
def test_rows_scores_and_intervals_follow_the_convention(
    runs: dict[str, tuple[Setup, TuneResult]], way: str
) -> None:
    session, result = runs[way]
    # Three of five images of each shade are murky.
    off = [row for row in result.heldout[0].rows if row.off_tree]
    assert off
    tree, _ = make_taxonomy(session.recipe)
    for part in (*result.iterations, *result.heldout):
        hp, hr, exact = [], [], []
        for row in part.rows:
            assert row.off_tree == ("bicycle" in (row.answer or ""))
            said = {
                *(row.placement or "").split("/"),
                *(["what the tree lacks"] if row.off_tree and way == "child" else []),
            }
            truth = set(row.truth.split("/"))
            assert row.hp == pytest.approx(len(said & truth) / len(said))
            assert row.hr == pytest.approx(len(said & truth) / len(truth))
            hp.append(row.hp)
            hr.append(row.hr)
            exact.append(said == truth)
        if part.scores is None:
            continue
        assert part.scores.hp == pytest.approx(np.mean(hp))
        assert part.scores.hr == pytest.approx(np.mean(hr))
        assert part.scores.accuracy == pytest.approx(np.mean(exact))
        assert part.scores.off_tree == pytest.approx(np.mean([row.off_tree for row in part.rows]))
        assert part.scores.abstained == pytest.approx(np.mean([row.abstained for row in part.rows]))
    assert all(off_row.hp == (0.5 if way == "child" else 1.0) for off_row in off)
    assert all(off_row.hr == 1 / (tree.depth[off_row.target] + 1) for off_row in off)
    for held in result.heldout:
        assert held.off_tree_as == way
        for name, interval in held.intervals.items():
            assert interval.estimate == pytest.approx(getattr(held.scores, name))
            assert interval.low <= interval.estimate <= interval.high
    before, after = (held.scores for held in result.heldout)
    for name, difference in result.differences[0].metrics.items():
        assert difference.difference == pytest.approx(getattr(after, name) - getattr(before, name))


@pytest.mark.parametrize("preset", PAPER_PRESETS)
def test_the_papers_presets_score_as_the_paper_does(tmp_path: Path, preset: str) -> None:
    overrides = (f"mapper.preset={preset}",)
    experiment = build(make_parts(tmp_path / "in", tmp_path / "out", overrides=overrides))
    assert experiment.mapper.config.off_tree == experiment.goal().off_tree == "root"
    assert identity_of(experiment)["mapper.off_tree"] == "root"
    assert experiment.evaluator(None).off_tree == "root"


def test_tuning_for_precision_rewards_declining_and_not_inventing(
    runs: dict[str, tuple[Setup, TuneResult]],
) -> None:
    """On the paper's root both have hP 1, and nothing tells the two apart."""
    for way, (_, result) in runs.items():
        scored = [r for r in result.iterations if r.scores is not None and r.template is not None]
        inventing = [
            r for r in scored if "careful" not in r.template and "family" not in r.template
        ]  # type: ignore[operator]
        declining = [r for r in scored if "careful" in r.template]  # type: ignore[operator]
        assert inventing
        assert declining
        least = min(r.scores.hp for r in declining if r.scores)
        most = max(r.scores.hp for r in inventing if r.scores)
        assert (most < least) is (way == "child")
        if way == "child":
            assert "careful" in result.heldout[1].template
            assert result.heldout[1].scores.off_tree == 0


def test_too_many_answers_off_the_tree_end_the_run_before_it_is_begun(tmp_path: Path) -> None:
    settings = ("max_off_tree=0.3", "iterations=2")
    session = cyclist(tmp_path / "in", tmp_path / "out", *settings)
    with pytest.raises(TaxonomyError) as caught:
        tuned(session, tmp_path / "out")
    said = str(caught.value)
    assert (
        "of the baseline's 8 answers to the tuning images assert something that the taxonomy lacks"
        in said
    )
    assert "more than max_off_tree (0.3) allows" in said
    assert len(re.findall(r"'A bicycle, see \w+\.' for colour/", said)) == 3
    for key in ("taxonomy.path", "taxonomy.root", "taxonomy.domain", "prompt.domain"):
        assert key in said
    # Nothing of the run is left that would stop the same command, or another tree; the answers are.
    assert not is_begun(tmp_path / "out")
    for resume in (False, True):
        again = cyclist(tmp_path / "in", tmp_path / "out", *settings)
        with pytest.raises(TaxonomyError, match="assert something"):
            tuned(again, tmp_path / "out", resume=resume)
        assert again.vlm.asked == 0  # type: ignore[attr-defined]
    raised = cyclist(tmp_path / "in", tmp_path / "out", "max_off_tree=0.9", "iterations=2")
    assert tuned(raised, tmp_path / "out", resume=True).iterations[0].scores is not None
