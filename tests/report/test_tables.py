from __future__ import annotations

from dataclasses import replace

import pytest

from taxtune.metrics.doubt import Doubt
from taxtune.metrics.ranks import RankIntervals, RankScores
from taxtune.metrics.statistics import Interval
from taxtune.report import formatting, tables
from tests.report import samples


def test_numbers_have_a_true_minus_and_no_negative_zero():
    assert formatting.number(0.9714) == "0.971"
    assert formatting.number(None) == "–"
    assert formatting.number(4.1234, "depth") == "4.12"
    signed = list(map(formatting.signed, (-0.02, 0.02, -0.0001)))
    assert signed == ["−0.020", "+0.020", "0.000"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("baseline", "baseline"),
        ("iteration 3", "iteration 3"),
        ("hp", "hP-tuned"),
        ("hr_at_hp", "hR-at-hP-tuned"),
        ("rouge-1", "ROUGE-tuned"),
        ("paper1-minimal", "paper1-minimal"),
    ],
)
def test_a_template_is_named_after_its_objective_or_by_its_own_name(name, shown):
    assert formatting.template_name(name) == shown


def test_every_score_and_every_difference_is_in_one_table():
    table = tables.score_table(samples.comparison(2))
    rows = {(score, template): values for score, template, *values in table.rows}
    *scored, p = rows["hP", "hP-tuned"]
    assert scored == pytest.approx([0.962, 0.944, 0.9782])
    assert p is None
    changed = rows["hP", "accuracy-tuned − baseline"]
    assert changed == pytest.approx([-0.024, -0.045, -0.004, 0.0004])
    assert sum(score == "ihP" for score, _ in rows) == 6
    assert rows["off the tree", "baseline"] == [0.05, None, None, None]


def test_own_metrics_stand_above_the_shares_of_answers():
    run = samples.tune(n=2)
    baseline, winner = run.heldout
    scores = baseline.scores.changed({"rouge-1": 0.4, "selective_hp": 0.9})
    heldout = (replace(baseline, scores=scores), winner)
    table = tables.score_table(replace(run, heldout=heldout))
    names = dict.fromkeys(score for score, *_ in table.rows)
    assert [*names][-5:] == [
        "misinformation, bits",
        "ROUGE",
        "abstained",
        "off the tree",
        "selective hP",
    ]


def test_a_table_of_what_hangs_on_doubtful_placements():
    run = samples.tune(n=2)
    baseline, winner = tables.doubt_table(run).rows
    assert baseline[:3] == ("baseline", 28, 0.14)
    assert baseline[3:] == pytest.approx((0.871, 0.891, 0.811, 0.738, 0.748, 0.688))
    assert winner[0] == "winner"
    not_known = replace(run.heldout[0], doubt=None)
    all_of_them = replace(run.heldout[1], doubt=Doubt(200, {"hp": 0.5, "hr": 0.2}))
    table = tables.doubt_table(replace(run, heldout=(not_known, all_of_them)))
    assert table.rows == (("winner", 200, 1.0, 0.962, None, 0.5, 0.633, None, 0.2),)


def test_precision_and_recall_at_each_rank_with_their_counts():
    run = samples.tune(n=2)
    baseline, winner = run.heldout
    off = RankIntervals(RankScores("off the tree", 4, 0, 0), Interval(0, 0, 0), None)
    heldout = (replace(baseline, ranks=(*baseline.ranks, off)), winner)
    table = tables.rank_table(replace(run, heldout=heldout))
    rows = {}
    for rank, template, share, value, *_, count in table.rows:
        rows[rank, template, share] = (value, count)
    assert rows["order", "baseline", "precision"] == (0.995, 200)
    # What no image has gets no number, and a template without such an answer no row.
    assert rows["off the tree", "baseline", "precision"] == (0, 4)
    assert rows["off the tree", "baseline", "recall"] == (None, 0)
    assert ("off the tree", "winner", "precision") not in rows
