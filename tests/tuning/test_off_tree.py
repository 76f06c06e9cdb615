"""Runs whose model says what the tree lacks: scores, records, and a run on the wrong tree."""

from __future__ import annotations

import re

import numpy as np
import pytest

from taxtune.errors import TaxonomyError
from taxtune.mapping.config import PAPER_PRESETS
from taxtune.tuning.build import build, make_taxonomy
from taxtune.tuning.history import is_begun
from taxtune.tuning.run_folder import identity_of
from tests.tuning.toy import Cyclist, make_parts, tuned, with_bicycles


def cyclist(folder, out, *overrides):
    return with_bicycles(make_parts(folder, out, Cyclist(), ("max_off_tree=1", *overrides)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    base = tmp_path_factory.mktemp("off-tree")
    found = {}
    for way in ("child", "root"):
        session = cyclist(base / "in", base / way, "iterations=11", f"mapper.off_tree={way}")
        found[way] = session, tuned(session, base / way)
    return found


@pytest.mark.parametrize("way", ["child", "root"])
def test_rows_scores_and_intervals_follow_the_convention(runs, way):
    session, result = runs[way]
    # Three of five images of each shade are murky.
    off = [row for row in result.heldout[0].rows if row.off_tree]
    assert off
    tree, _ = make_taxonomy(session.recipe)
    for part in (*result.iterations, *result.heldout):
        exact = []
        for row in part.rows:
            assert row.off_tree == ("bicycle" in (row.answer or ""))
            said = set((row.placement or "").split("/"))
            if row.off_tree and way == "child":
                said.add("what the tree lacks")
            truth = set(row.truth.split("/"))
            right = len(said & truth)
            assert row.hp == pytest.approx(right / len(said))
            assert row.hr == pytest.approx(right / len(truth))
            exact.append(said == truth)
        if part.scores is None:
            continue
        assert part.scores.accuracy == pytest.approx(np.mean(exact))
        for name in ("hp", "hr", "off_tree", "abstained"):
            mean = np.mean([getattr(row, name) for row in part.rows])
            assert getattr(part.scores, name) == pytest.approx(mean)
    for row in off:
        assert row.hp == (0.5 if way == "child" else 1.0)
        assert row.hr == 1 / (tree.depth[row.target] + 1)
    for held in result.heldout:
        assert held.off_tree_as == way
        for name, interval in held.intervals.items():
            assert interval.estimate == pytest.approx(held.scores.means[name])
            assert interval.low <= interval.estimate <= interval.high
    before, after = (held.scores.means for held in result.heldout)
    for name, difference in result.differences[0].metrics.items():
        assert difference.difference == pytest.approx(after[name] - before[name])


@pytest.mark.parametrize("preset", PAPER_PRESETS)
def test_the_papers_presets_score_as_the_paper_does(tmp_path, preset):
    overrides = (f"mapper.preset={preset}",)
    experiment = build(make_parts(tmp_path / "in", tmp_path / "out", overrides=overrides))
    assert experiment.mapper.config.off_tree == experiment.goal().off_tree == "root"
    assert identity_of(experiment)["mapper.off_tree"] == "root"
    assert experiment.evaluator(None).off_tree == "root"


def test_tuning_for_precision_rewards_declining_and_not_inventing(
    runs,
):
    """On the paper's root both have hP 1, and nothing tells the two apart."""
    for way, (_, result) in runs.items():
        inventing = []
        declining = []
        for record in result.iterations:
            if record.scores is None or record.template is None:
                continue
            if "careful" in record.template:
                declining.append(record.scores.hp)
            elif "family" not in record.template:
                inventing.append(record.scores.hp)
        assert (max(inventing) < min(declining)) is (way == "child")
        if way == "child":
            assert "careful" in result.heldout[1].template
            assert result.heldout[1].scores.off_tree == 0


def test_too_many_answers_off_the_tree_end_the_run_before_it_is_begun(tmp_path):
    settings = ("max_off_tree=0.3", "iterations=2")
    session = cyclist(tmp_path / "in", tmp_path / "out", *settings)
    with pytest.raises(TaxonomyError) as caught:
        tuned(session, tmp_path / "out")
    said = str(caught.value)
    assert "of the baseline's 8 answers to the tuning images assert something that the" in said
    assert "taxonomy lacks, more than max_off_tree (0.3) allows" in said
    assert len(re.findall(r"'A bicycle, see \w+\.' for colour/", said)) == 3
    for key in ("taxonomy.path", "taxonomy.root", "taxonomy.domain", "prompt.domain"):
        assert key in said
    # Nothing of the run is left that would stop the same command, or another tree; the answers are.
    assert not is_begun(tmp_path / "out")
    for resume in (False, True):
        again = cyclist(tmp_path / "in", tmp_path / "out", *settings)
        with pytest.raises(TaxonomyError, match="assert something"):
            tuned(again, tmp_path / "out", resume=resume)
        assert again.vlm.asked == 0
    raised = cyclist(tmp_path / "in", tmp_path / "out", "max_off_tree=0.9", "iterations=2")
    assert tuned(raised, tmp_path / "out", resume=True).iterations[0].scores is not None
