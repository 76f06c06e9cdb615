"""Runs under the policy posterior: the model's own probabilities, summed up the tree."""

from __future__ import annotations

import numpy as np
import pytest

import taxtune
from taxtune.errors import ModelError, TaxtuneError
from taxtune.metrics.information import leaf_information
from taxtune.models import Answer, Failure
from taxtune.models.api import ApiModel
from taxtune.models.base import OTHERWISE
from taxtune.policies import MappedReplies, Posterior, weighted_paths
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.build import build
from taxtune.tuning.template import Template
from taxtune.tuning.thresholds import CrossFit
from tests import servers
from tests.tuning.toy import Weighing, toy, tuned

SMALL = (
    "data.tuning=8",
    "data.heldout=8",
    "iterations=2",
    "objective.kind=hr_at_hp",
    "policy.kind=posterior",
)


def test_a_run_backs_off_by_the_models_probabilities_and_labels_new_images_so(
    tmp_path,
):
    vlm = Weighing()
    result = tuned(toy(tmp_path, *SMALL, "objective.hp_target=0.9", vlm=vlm))
    assert result.selection is not None
    assert result.selection.status == "estimate"
    threshold = result.selection.policy["threshold"]
    assert 0.5 < threshold < 0.98
    for row in result.heldout_winner.rows:
        murky = not row.image[:-4].endswith(("0", "1"))
        assert row.stage == "posterior"
        assert row.placed.named == pytest.approx(0.98)
        assert row.placement.count("/") == (1 if murky else 2)
        assert row.placed.probabilities[1] == pytest.approx(0.98)
        assert row.confidence == pytest.approx(0.98 if murky else 0.97)
    assert result.heldout_winner.scores.hp == 1.0
    assert taxtune.load_run(result.folder).iterations[0].rows == result.baseline.rows

    classifier = taxtune.load_classifier(tmp_path / "run", vlm=vlm)
    assert classifier.policy == Posterior(threshold)
    images = tmp_path / "in"
    murky, clear = classifier.classify([images / "navy4.png", images / "navy0.png"])
    assert murky.placement == "colour/bluish"
    assert clear.placement == "colour/bluish/navy"
    assert [step.confidence for step in clear.path] == pytest.approx([1.0, 0.98, 0.97])


def test_more_images_do_not_change_what_was_known_of_fewer(tmp_path):
    overrides = (*SMALL, "data.first_rung=3", "objective.hp_target=0.9")
    result = tuned(toy(tmp_path, *overrides, vlm=Weighing()))
    grown = [record for record in result.iterations if len(record.rows) == 8]
    assert grown
    for record in grown:
        assert len(record.before[0]) == 3


def test_a_posterior_is_calibrated_with_one_call_per_image(tmp_path):
    vlm = Weighing()
    tuned(toy(tmp_path, "data.tuning=4", "data.heldout=6", "iterations=2", vlm=vlm))
    before = vlm.asked
    found = taxtune.calibrate(tmp_path / "run", risk=0.3, policy="posterior", vlm=vlm)
    assert vlm.asked - before == found.images == 10
    assert found.policy == Posterior(found.threshold)
    assert found.chosen.hp >= 0.7
    classifier = taxtune.load_classifier(tmp_path / "run", calibrated=True, vlm=vlm)
    assert classifier.guarantee.risk == 0.3


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (("objective.kind=hp",), TaxtuneError, "held to the baseline"),
        (
            ("objective.kind=aurc", "objective.hr_floor=0.5"),
            TaxtuneError,
            "where the answers are placed",
        ),
        (("objective.kind=rouge-1",), TaxtuneError, "leaves no text"),
        (("policy.samples=4",), TaxtuneError, "leave out samples"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, overrides, error, message):
    with pytest.raises(error, match=message):
        tuned(toy(tmp_path, *SMALL, *overrides, vlm=Weighing()))


@pytest.mark.parametrize(
    ("kind", "silent", "offers"),
    [("local", False, True), ("local", True, False), ("api", False, False)],
)
def test_a_local_models_run_ends_with_what_its_probabilities_would_bring(
    tmp_path, kind, silent, offers
):
    vlm = Weighing()
    vlm.identity["kind"] = kind
    vlm.silent = silent
    aims = ("objective.kind=hr_at_hp", "objective.hp_target=0.8")
    sizes = ("data.tuning=8", "data.heldout=8", "iterations=1")
    baseline = "prompt.baseline=Give only the family."
    result = tuned(toy(tmp_path, *aims, *sizes, baseline, vlm=vlm))
    assert ("probabilities" in result.where) == offers
    if offers:
        assert "--policy posterior --risk 0.2" in result.where["probabilities"]


def test_a_model_without_probabilities_is_told_to_be_asked_often(tmp_path):
    vlm = Weighing()
    vlm.silent = True
    with pytest.raises(ModelError, match="no probabilities") as caught:
        tuned(toy(tmp_path, *SMALL, vlm=vlm))
    assert "policy.kind to self_consistency" in caught.value.remedy


def test_an_answer_that_names_nothing_is_placed_by_what_it_says(tmp_path):
    class Dumb(Weighing):
        def answer(self, questions):
            return [Answer("I cannot tell.", outcomes={OTHERWISE: 0.0}) for _ in questions]

    result = tuned(toy(tmp_path, *SMALL, vlm=Dumb()))
    for row in result.baseline.rows:
        assert row.placement == "colour"
        assert row.abstained
        assert row.placed.named == 0.0


def test_a_failed_call_is_missing_and_the_others_are_placed_by_their_own_targets(
    tmp_path,
):
    failed = Failure("shy", False)

    class Shy(Weighing):
        def reply(self, question):
            return failed if question.image.name == first else super().reply(question)

    first = ""
    parts = toy(tmp_path, *SMALL, "max_missing=0.5", "objective.hp_target=0.9", vlm=Shy())
    experiment = build(parts)
    first = experiment.splits.tuning[0].image.name
    result = tuned(parts)
    missing, *rows = result.baseline.rows
    assert missing.failure == "shy"
    assert missing.placed is None
    for row in rows:
        assert row.placement is not None
        assert row.truth.startswith(row.placement)
    images = experiment.splits.tuning[:1]
    assert experiment.asker.place([[failed]], images) == [failed]


def test_the_alternatives_that_an_api_tells_are_summed_up_the_tree(tmp_path):
    shades = {" scar": 0.7, " crim": 0.2, " teal": 0.1}
    told = servers.logprobs({"A:": 1}, shades, {"let": 1}, {".": 1})
    with servers.OpenAIServer(then=servers.text("A: scarlet.", logprobs=told)) as server:
        vlm = ApiModel("openai/gpt-4o", servers.model_settings(server, api_key="sk-of-a-test"))
        parts = build(toy(tmp_path, *SMALL, "policy.threshold=0.8", vlm=vlm))
        evaluator = parts.evaluator(None)
        found = evaluator.evaluate(Template.parse("Which colour?"), parts.splits.tuning[:1])
    (row,) = found.rows
    assert row.answer == "A: scarlet."
    assert row.placement == "colour/reddish"
    assert row.placed.probabilities == pytest.approx((1.0, 0.9, 0.7))
    assert row.placed.named == pytest.approx(0.9)


def precise(scores):
    return scores.hr if scores.hp >= 0.98 else scores.hp - 0.98


def test_each_image_is_placed_by_the_threshold_that_the_others_choose():
    tree = Taxonomy.from_paths(
        ["bird/finch/chaffinch", "bird/finch/bullfinch", "bird/owl/barn owl"]
    )
    rng = np.random.default_rng(0)
    leaves = tree.leaves
    n = 300
    truth = rng.integers(3, size=n)
    weights = rng.gamma(0.3 + 2 * np.eye(3)[truth])
    paths = weighted_paths(tree, leaves, weights)
    information = leaf_information(tree)

    def depths_of(truth, value):
        mapped = MappedReplies(tree, answers=(), nodes=leaves, targets=leaves[truth])
        return CrossFit(information, value, "child")(mapped, paths, np.zeros(n, dtype=bool))

    depths = depths_of(truth, precise)
    # A wrong target changes where other images are put, and never its own.
    other = truth.copy()
    other[0] = (truth[0] + 1) % 3
    assert depths_of(other, precise)[0] == depths[0]
    nodes = paths.at(depths)[0]
    hp = taxtune.metrics.precision_recall(tree, nodes, leaves[truth])[0].mean()
    assert 0.96 <= hp < 1.0
    bold = depths_of(truth, lambda scores: scores.hr)
    assert bold.mean() > depths.mean()


def test_what_is_known_of_an_image_does_not_place_another_of_its_group():
    tree = Taxonomy.from_paths(["bird/finch/chaffinch", "bird/owl/barn owl"])
    rng = np.random.default_rng(1)
    n = 120
    truth = rng.integers(2, size=n)
    paths = weighted_paths(tree, tree.leaves, rng.gamma(0.3 + 2 * np.eye(2)[truth]))
    names = [f"burst {i // 12}" for i in range(n)]

    def depths_of(truth):
        targets = tree.leaves[truth]
        mapped = MappedReplies(tree, (), tree.leaves, targets, group_names=names)
        fit = CrossFit(leaf_information(tree), precise, "child")
        return fit(mapped, paths, np.zeros(n, dtype=bool))

    other = truth.copy()
    other[:12] = 1 - truth[:12]
    before, after = depths_of(truth), depths_of(other)
    assert (after[:12] == before[:12]).all()
    assert (after != before).any(), "others are placed by it"
