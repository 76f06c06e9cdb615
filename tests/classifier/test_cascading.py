"""A cascade does with new images what `price_list` tested on images whose labels are known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from taxtune.answers.classifier_scores import read_scores
from taxtune.classifier.cascade import Cascade
from taxtune.classifier.cascading import CascadeClassifier
from taxtune.classifier.classifier import Classifier
from taxtune.classifier.scores import NO_SCORES
from taxtune.data.context import Variable
from taxtune.mapping import Mapper
from taxtune.metrics.groups import Groups
from taxtune.metrics.outcomes import Outcomes
from taxtune.models import Answer, Failure
from taxtune.models.base import OTHERWISE
from taxtune.policies import (
    Posterior,
    Reliability,
    RiskGuarantee,
    SelfConsistency,
    Single,
    weighted_paths,
)
from taxtune.policies.cascade import join_nodes, known_first, price_list, wanted_nodes
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.costs import CallCost
from taxtune.tuning.thresholds import recorded_paths

TREE = Taxonomy.from_paths(
    [
        "bird/duck/mallard",
        "bird/duck/teal",
        "bird/gull/kittiwake",
        "bird/songbird/finch/chaffinch",
        "bird/songbird/finch/bullfinch",
    ]
)
LEAVES = [TREE.labels[node] for node in TREE.leaves]
#: What a model says: also groups, what the tree lacks, and nothing at all.
SAID = [*TREE.labels, "a bicycle", "I cannot tell."]
N = 30
POLICIES = (Single(), SelfConsistency(4), Posterior(0.5))
PROMISE = RiskGuarantee.asked(0.3, 0.9)
#: An example is a number that others are drawn from.
WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)


class Recalling:
    """A model that has an answer to each sample of a question about a file."""

    def __init__(self, answers, price=0.0, names=None):
        self.identity = {"kind": "toy", "model": "recalling", "temperature": 1.0}
        self.answers = answers
        self.price = price
        self.asked = []

    def answer(self, requests):
        return [self.reply(request) for request in requests]

    def reply(self, request):
        """Returns the answer, with the names' probabilities where they are asked for."""
        if request.sample == 0:
            self.asked.append(request.image.name)
        said = self.answers[request.image.name]
        if said is None:
            return Failure("The model is silent.", retryable=False)
        outcomes = None
        if request.candidates is not None:
            names = [*LEAVES, "duck", OTHERWISE]
            outcomes = {name: math.log(w) for name, w in zip(names, said[-1], strict=True)}
        return Answer(said[request.sample], outcomes=outcomes, cost_usd=self.price)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files that are told apart by their content."""
    folder = tmp_path_factory.mktemp("files")
    made = [folder / f"{i}.png" for i in range(N)]
    for file in made:
        file.write_text(file.name)
    return made


def drawn(seed, files, right):
    """The truth of each file, its scores by label, and what a model says of it, at random."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(TREE.leaves, len(files))
    scores = []
    answers = {}
    for file, target in zip(files, truth, strict=True):
        weights = rng.dirichlet(np.full(len(LEAVES), 0.15))
        given = dict(zip(LEAVES, weights.tolist(), strict=True))
        scores.append({name: share for name, share in given.items() if share > 1e-6})
        path = [TREE.labels[node] for node in TREE.ancestors(target)]
        said = rng.choice(path if rng.random() < right else SAID, 4)
        answers[file.name] = [*said.tolist(), rng.dirichlet(np.full(7, 0.2)) + 1e-9]
        answers[file.name][-1] /= answers[file.name][-1].sum()
    return truth, scores, answers


def cascade_of(points, place, **changes):
    facts = {
        "points": points,
        "place": place,
        "run": "run",
        "template": "What is this?",
        "policy": {},
        "temperature": None,
        "wanted": None,
        "samples": 1,
        "call": CallCost(usd=0.25),
        "labels": 5,
        "missing": 0,
        "source": "images",
        "needed": 1,
        "units": N,
        "taxonomy": {},
    }
    return Cascade(risk=0.3, confidence_level=0.9, images=N, **facts | changes)


def classifier_of(points, place, model, policy, reliability=None, **changes):
    """A cascade's classifier, with the threshold that `load_cascade` gives its policy."""
    needed = min(point.second or 1.0 for point in (points[place], points[-1]))
    chosen = points[place]
    kept = replace(chosen, level=replace(chosen.level, kept=True))
    points = (*points[:place], kept, *points[place + 1 :])
    return CascadeClassifier(
        template="What is this?",
        taxonomy=TREE,
        model=model,
        mapper=Mapper(TREE),
        policy=policy.with_threshold(needed),
        reliability=reliability,
        cascade=cascade_of(points, place, samples=policy.samples),
        **changes,
    )


def listed(paths):
    """Returns the paths of scores by label, as they are read from a file."""
    rows = [{**own, "image": str(i)} for i, own in enumerate(paths)]
    scores = read_scores(rows, TREE)
    return weighted_paths(TREE, scores.nodes, scores.weights)


def priced(files, truth, scores, model, policy, reliability=None):
    """Returns the price list of images, as it is calibrated, and the paths that it is made of."""
    known = listed(scores)
    alone = Classifier("What is this?", TREE, model, Mapper(TREE), policy.with_threshold(0.5))
    placed = [found.placed for found in alone.classify(files)]
    answers = recorded_paths(TREE, placed, reliability)
    groups = Groups.of([""] * len(files))
    wanted = wanted_nodes(TREE, None)
    points = price_list(TREE, known, answers, truth, PROMISE, groups, wanted, policy.thresholds)
    return points, known, answers


def nodes_tested(point, known, answers):
    """Returns the nodes of images at a point of the price list, and who is asked about."""
    if point.second is None:
        return known.at(known.depths(point.first))[0], np.zeros(len(known.nodes), dtype=bool)
    nodes, asked = known_first(known, point.first, wanted_nodes(TREE, None))
    said = answers.at(answers.depths(point.second))[0]
    return np.where(asked, join_nodes(TREE, nodes, said), nodes), asked


@given(
    st.integers(0, 10_000),
    st.sampled_from(POLICIES),
    st.sampled_from([0.3, 0.9]),
    st.sampled_from([None, 0.2, 0.9]),
)
@settings(max_examples=8, deadline=None, phases=WITHOUT_SHRINKING)
def test_what_was_tested_is_what_is_done(files, seed, policy, right, reliable):
    truth, scores, answers = drawn(seed, files, right)
    model = Recalling(answers)
    reliability = None
    if reliable is not None and policy == Single():
        known = np.where(np.arange(N) < reliable * N, truth, TREE.root)
        reliability = Reliability.of(TREE, np.where(known > 0, known, TREE.leaves[0]), truth)
    points, *paths = priced(files, truth, scores, model, policy, reliability)
    table = pd.DataFrame({"image": files, "scores": scores}, dtype=object)
    alone = Classifier("What is this?", TREE, model, Mapper(TREE), policy.with_threshold(0.5))
    said = alone.classify(files)
    for place, point in enumerate(points):
        model.asked.clear()
        labels = classifier_of(points, place, model, policy, reliability).classify(table)
        expected, asked = nodes_tested(point, *paths)
        found = [label.placed.node for label in labels]
        assert found == expected.tolist()
        assert Outcomes.of_nodes(TREE, found, truth) == point.level.outcomes
        assert set(model.asked) <= {
            file.name for file, own in zip(files, asked, strict=True) if own
        }
        for i, label in enumerate(labels):
            is_there = files[i].name in model.asked and found[i] == TREE.root
            assert label.off_tree == (is_there and said[i].off_tree)
            assert label.rank == TREE.ranks[label.placed.node]
            is_off = label.off_tree or label.not_subject
            names = () if is_off else TREE.path(label.placed.node)
            assert tuple(step.label for step in label.path) == names
            sure = [step.confidence for step in label.path]
            assert None in sure or sure == sorted(sure, reverse=True)


def supported(seed, files, policy=POLICIES[1]):
    truth, scores, answers = drawn(seed, files, 0.9)
    model = Recalling(answers)
    points, *paths = priced(files, truth, scores, model, policy)
    table = pd.DataFrame({"image": files, "scores": scores}, dtype=object)
    return points, paths, model, table


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_the_source_is_whose_evidence_supports_the_label(files, seed):
    points, (known, answers), model, table = supported(seed, files)
    place = next(i for i, point in enumerate(points) if point.first == 0.95)
    labels = classifier_of(points, place, model, POLICIES[1]).classify(table)
    nodes, asked = known_first(known, 0.95, wanted_nodes(TREE, None))
    said = answers.at(answers.depths(points[place].second))[0]
    for i, label in enumerate(labels):
        by_scores = TREE.is_ancestor(label.placed.node, nodes[i])
        by_model = asked[i] and TREE.is_ancestor(label.placed.node, said[i])
        names = {(True, False): "scores", (False, True): "model", (True, True): "both"}
        assert label.source == names[bool(by_scores), bool(by_model)]
        shares = [paths.shares[i, len(label.path) - 1] for paths in (known, answers)]
        given = [share for share, own in zip(shares, (by_scores, by_model), strict=True) if own]
        assert label.confidence == pytest.approx(max(given))
        assert label.as_row()["source"] == label.source


def test_images_come_in_the_order_of_what_an_answer_gains_and_those_not_asked_about_last(files):
    points, (known, _), model, table = supported(5, files)
    place = next(i for i, point in enumerate(points) if point.first == 0.95)
    gains = {0: 0.2, 1: 0.5}
    by_depth = tuple(gains.get(depth, 0.1) for depth in range(TREE.height + 1))
    points = [replace(point, gains=by_depth, slope=-0.25) for point in points]
    classifier = classifier_of(points, place, model, POLICIES[1])
    nodes, asked = known_first(known, 0.95, wanted_nodes(TREE, None))
    ends = known.at((known.nodes >= 0).sum(axis=1) - 1)[1]
    worth = np.where(asked, np.array(by_depth)[TREE.depth[nodes]] - 0.25 * ends, -1)
    rows = [{**own, "image": str(file)} for file, own in zip(files, table["scores"], strict=True)]
    ordered = classifier.with_scores(table[["image"]].map(str), rows)
    assert ordered.index.tolist() == np.argsort(-worth, kind="stable").tolist()


@pytest.mark.parametrize("needed", [0.25, 0.5, 1.0])
def test_without_scores_an_image_ends_where_the_model_alone_is_sure_enough(files, needed):
    points, (_, answers), model, table = supported(2, files)
    alone = replace(points[-1], second=needed, level=replace(points[-1].level, kept=True))
    points = [*(replace(point, second=0.75) for point in points[:-1]), alone]
    classifier = classifier_of(points, 2, model, POLICIES[1])
    labels = classifier.classify(table.assign(scores=None))
    nodes, shares = answers.at(answers.depths(needed))
    assert [label.placed.node for label in labels] == nodes.tolist()
    assert [label.confidence for label in labels] == pytest.approx(shares.tolist())
    assert {label.source for label in labels} == {"model"}


def test_an_answer_that_cannot_change_a_label_is_not_asked_for(files):
    truth, scores, answers = drawn(3, files, 0.9)
    wrong = np.where(TREE.depth[truth] == 3, TREE.leaves[0], TREE.leaves[-1])
    never = Reliability.of(TREE, wrong, truth)
    model = Recalling(answers)
    points, *_ = priced(files, truth, scores, model, Single(), never)
    model.asked.clear()
    table = pd.DataFrame({"image": files, "scores": scores}, dtype=object)
    careful = [replace(point, second=0.9) for point in points]
    labels = classifier_of(careful, 3, model, Single(), never).classify(table)
    assert model.asked == []
    assert {label.source for label in labels} == {"scores"}
    careless = [replace(point, second=0.01) for point in points]
    classifier_of(careless, 3, model, Single(), never).classify(table)
    assert model.asked


def test_a_failed_call_keeps_the_label_of_the_scores(files):
    points, _, model, table = supported(7, files)
    place = len(points) - 2
    classifier = classifier_of(points, place, model, POLICIES[1])
    known = classifier.with_scores(table, None)
    model.answers = dict.fromkeys(model.answers)
    model.asked.clear()
    labels = classifier.classify(table)
    failed = [label for label in labels if label.failure is not None]
    assert len(failed) == len(set(model.asked)) > 0
    assert {label.failure for label in failed} == {"The model is silent."}
    assert {label.source for label in labels} == {"scores"}
    assert all(label.placement for label in labels)
    assert len(known) == N


@pytest.mark.parametrize("samples", [1, 4])
def test_a_budget_is_spent_and_not_more(files, samples):
    policy = POLICIES[0] if samples == 1 else POLICIES[1]
    points, _, model, table = supported(9, files, policy)
    model.price = 0.25
    table = table.assign(scores=[{"teal": 0.3}] * N)
    model.asked.clear()
    classifier = classifier_of(points, len(points) - 2, model, policy, budget=samples * 0.25 * 3)
    labels = classifier.classify(table)
    assert len(model.asked) == 3
    assert [label.failure is None for label in labels] == [True] * 3 + [False] * (N - 3)
    classifier.budget = samples * 0.25 * 4
    model.price = 0.0
    model.asked.clear()
    assert not any(label.failure for label in classifier.classify(table))  # what costs nothing
    assert len(model.asked) == N


def test_candidates_of_a_prompt_are_those_of_the_scores(files):
    points, _, model, table = supported(11, files)
    variable = Variable("candidates", "candidates", "list", top=2)
    classifier = classifier_of(points, 3, model, POLICIES[1], context=(variable,))
    classifier.template = "Which of {{ candidates | join(', ') }} is this?"
    table["scores"] = [{"teal": 0.3, "mallard": 0.5, "kittiwake": 0.1}, *[None] * (N - 1)]
    given = []
    model.reply = lambda request: given.append(request.prompt) or Answer("teal")
    classifier.classify(table[:1])
    assert "mallard" in given[0]
    assert "teal" in given[0]
    assert "kittiwake" not in given[0]
    kept = replace(points[-1], level=replace(points[-1].level, kept=True))
    classifier.cascade = cascade_of([*points[:-1], kept], 3)
    given.clear()
    (label,) = classifier.classify(table[1:2])
    assert (given, label.failure) == ([], NO_SCORES)  # nothing is promised of a prompt without them
