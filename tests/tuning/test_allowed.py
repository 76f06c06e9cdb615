"""What may occur where and when: the checklist, what it does to placements, and runs with one."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taxtune
from taxtune.errors import DataError, RecipeError, ResumeError, TemplateError
from taxtune.fieldguide import export
from taxtune.metrics import precision_recall
from taxtune.policies import SelfConsistency, spread
from taxtune.policies.allowed import Checklist, read_checklist
from taxtune.recipe import load_recipe
from taxtune.report.html import render_report
from taxtune.report.summary import remarks, summarise
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.build import Setup, make_taxonomy
from taxtune.tuning.experiment import make_checklist
from taxtune.tuning.plan import make_plan
from tests.trees import trees
from tests.tuning.toy import ToyVLM, Wavering, Weighing, make_files, tuned

BIRDS = Taxonomy.from_paths(
    ["bird/duck/mallard", "bird/duck/teal", "bird/gull/herring gull", "bird/gull/kittiwake"]
)
CHECKLIST = """\
node,Place,From month,to_month
mallard,,,
teal, Marsh ,10,03
gull,coast,,
herring gull,7,6.0,
"""
#: Place and month of each shade's images.
WHERE = {"scarlet": ("a", 5), "azure": (" A", 12), "crimson": ("b", None), "navy": ("b", 6)}
SHADES = "node,place,from month,to month\nscarlet,a,,\nazure,a,11,2\nreddish,b,,\nnavy,b,,\n"


def read(folder, text):
    (folder / "list.csv").write_text(text)
    return read_checklist(folder / "list.csv", BIRDS)


@pytest.mark.parametrize(
    ("place", "month", "leaves"),
    [
        ("MARSH ", "12.0", {"mallard", "teal"}),
        ("marsh", 7, {"mallard"}),
        (7.0, 6.0, {"mallard", "herring gull"}),
        (None, 4, {"mallard", "herring gull", "kittiwake"}),
        ("the moon", 4, {"mallard", "teal", "herring gull", "kittiwake"}),
    ],
)
def test_what_can_be_where_and_when(tmp_path, place, month, leaves):
    ((_, lift),) = read(tmp_path, CHECKLIST).groups([{"place": place, "month": month}])
    assert {BIRDS.labels[v] for v in BIRDS.leaves if lift[v] == v} == leaves


BAD_MONTHS = "node,from month\nteal,13\nmallard,0\nduck,3\n"
BAD_NODES = "node,place\nteel,\n,marsh\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BAD_MONTHS, "2 of 3 rows"),
        (BAD_MONTHS, "row 2: .*'13'"),
        (BAD_MONTHS, "row 3: .*'0'.*1 to 12"),
        (BAD_NODES, "2 of 2 rows"),
        (BAD_NODES, "row 2: node.*teal"),
        (BAD_NODES, "row 3: node is missing"),
        ("name,place\nteal,marsh\n", "no column node"),
        ("name,place\nteal,marsh\n", "from month and to month"),
    ],
)
def test_a_bad_checklist_is_refused_with_all_its_rows(tmp_path, text, problem):
    with pytest.raises(DataError, match=problem):
        read(tmp_path, text)


def possible_nodes(tree, rows, month):
    """Returns whether each node can be at place "a" in a month, by rows of a checklist."""
    listed = []
    for node, place, first, last in rows:
        in_season = first <= month <= last
        if first > last:  # over the turn of the year
            in_season = month >= first or month <= last
        if place != "b" and in_season:
            listed.append(node)
    unknown = {place for _, place, *_ in rows} in ({"b"}, {"b", ""})
    can = []
    for node in range(len(tree)):
        beside = any(tree.lca(node, other) in (node, other) for other in listed)
        can.append(node == 0 or unknown or beside)
    return can


@given(trees(), st.data())
def test_what_cannot_be_goes_to_the_nearest_that_can(tree, data):
    size = len(tree)
    month = st.integers(1, 12)
    node = st.integers(0, size - 1)
    row = st.tuples(node, st.sampled_from(["", "a", "b"]), month, month)
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    now = data.draw(month)
    ((_, lift),) = Checklist(tree, rows).groups([{"place": "a", "month": now}])
    can = possible_nodes(tree, rows, now)
    assert lift.tolist() == [[u for u in tree.ancestors(v) if can[u]][-1] for v in range(size)]

    # A single answer never loses hP, and hR only where the truth cannot be.
    answers = st.lists(node, min_size=7, max_size=7)
    nodes = np.array(data.draw(answers))
    truth = np.array(data.draw(answers))
    hp, hr = precision_recall(tree, nodes, truth)
    masked_hp, masked_hr = precision_recall(tree, lift[nodes], truth)
    assert (masked_hp >= hp).all()
    assert (masked_hr <= hr).all()
    assert ((masked_hr == hr) | (lift[truth] != truth)).all()
    # A majority vote that more than half agree on comes out where it did, or at the nearest that can be.
    policy = SelfConsistency(7, data.draw(st.floats(0.51, 1.0)))
    assert policy.majority(tree, [lift[nodes]])[0] == lift[policy.majority(tree, [nodes])[0]]
    # Probability is kept, and no node that can be loses any.
    nodes = np.array([-1, *range(size)])
    weight = st.sampled_from([0.0, 0.25, 1.0, 3.0])
    weights = np.array([[data.draw(weight) for _ in nodes]])
    ends = np.where(nodes >= 0, lift[nodes], -1)
    moved = spread(tree, ends, weights, giving=ends != nodes)
    assert moved.sum() == pytest.approx(weights.sum())
    for v in np.flatnonzero(can).tolist():
        before = tree.is_ancestor(v, np.maximum(nodes, 0)) & (nodes >= 0)
        after = tree.is_ancestor(v, np.maximum(ends, 0)) & (ends >= 0)
        assert moved[0, after].sum() >= weights[0, before].sum() - 1e-9


def make(folder, vlm, *overrides, checklist=SHADES):
    """The toy recipe with a checklist, on images from two places, at each of which half of the shades occur."""
    recipe = make_files(folder / "in")
    manifest = folder / "in" / "manifest.csv"
    images = pd.read_csv(manifest)
    images[["place", "month"]] = [WHERE[label] for label in images["label"]]
    images.astype({"month": "Int64"}).to_csv(manifest, index=False)
    (folder / "in" / "list.csv").write_text(checklist)
    usual = ("taxonomy.allowed=list.csv", "data.context=[place, month]", "iterations=1", *overrides)
    return Setup(load_recipe(recipe, usual), folder / "run", vlm=vlm)


POSTERIOR = ("policy.kind=posterior", "policy.threshold=0.9")


@pytest.mark.parametrize(
    ("vlm", "policy", "placement", "masked"),
    [  # of a murky image of navy, which they take for azure
        (ToyVLM, (), "colour/bluish", "colour/bluish/azure"),
        (Wavering, ("policy.samples=4",), "colour/bluish", None),
        (Weighing, POSTERIOR, "colour/bluish/navy", "colour/bluish"),
    ],
)
def test_each_policy_places_on_what_can_be(tmp_path, vlm, policy, placement, masked):
    result = tuned(make(tmp_path, vlm(), *policy, "objective.kind=hr_at_hp"))
    rows = result.heldout_baseline.rows
    navy = next(row for row in rows if row.image == "navy3.png")
    assert navy.placement == placement
    assert navy.masked == masked
    moved = sum(row.masked is not None for row in rows)
    line = f"baseline: {moved} of 12 placed elsewhere by the checklist"
    assert (line in remarks(summarise(result))) == bool(masked)
    assert ("without the checklist" in render_report(result)) == bool(masked)


def test_a_checklist_without_the_truth_is_told_and_one_that_changed_is_another_run(
    tmp_path,
):
    parts = make(tmp_path, ToyVLM(), checklist="node,place\nscarlet,a\nnavy,a\nreddish,b\n")
    plan = make_plan(parts)
    lacking = "navy, place b (5 images); azure, place A (5 images)"
    assert f"the checklist lacks the truth of 10 of 20 images: {lacking}" in plan.notes
    (row, *_) = [row for row in tuned(parts).baseline.rows if row.image.startswith("navy")]
    assert row.placement == "colour"
    assert row.abstained
    assert row.hp == 1.0
    (tmp_path / "in" / "list.csv").write_text(SHADES)
    with pytest.raises(ResumeError, match="checklist"):
        tuned(Setup(parts.recipe, parts.folder, vlm=ToyVLM()), resume=True)


def test_the_data_must_have_the_columns_of_the_checklist(tmp_path):
    recipe = make(tmp_path, ToyVLM(), "data.context=[place]").recipe
    with pytest.raises(RecipeError, match=r"goes by month.*context: \[month\]"):
        make_checklist(recipe, *make_taxonomy(recipe))


def test_a_wrong_baseline_is_reported_before_a_wrong_checklist(tmp_path):
    parts = make(tmp_path, ToyVLM(), checklist="name\nnavy\n")
    with pytest.raises(DataError, match="no column node"):
        tuned(parts)
    recipe = parts.recipe.changed({"prompt.baseline": "{{ nothing }}"})
    with pytest.raises(TemplateError, match="unknown variable 'nothing'"):
        tuned(replace(parts, recipe=recipe))


@pytest.mark.heavy
def test_the_field_guides_birds_from_two_places_stay_where_they_are(tmp_path):
    export(tmp_path, labelled=60)
    recipe = {
        "name": "birds",
        "taxonomy": {"path": "tree.csv", "allowed": "checklist.csv"},
        "data": {"kind": "manifest", "path": "photos.csv"},
        "vlm": "builtin:fieldguide",
        "proposer": {"kind": "fragments"},
        "objective": {"kind": "accuracy"},
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    sizes = ("data.context=[place]", "data.tuning=30", "data.heldout=30", "iterations=1")
    loaded_recipe = load_recipe(tmp_path / "recipe.yaml", (*sizes, "tracking.mlflow=false"))
    result = tuned(Setup(loaded_recipe, tmp_path / "run"))
    moved = [row for row in result.heldout_winner.rows if row.masked]
    assert moved
    assert all(row.masked.startswith(row.placement) for row in moved)
    first = moved[0]
    classifier = taxtune.load_classifier(tmp_path / "run")
    loaded = taxtune.load_classifier(classifier.save(tmp_path / "saved"))
    shown = pd.read_csv(tmp_path / "photos.csv").query("image.str.endswith(@first.image)")
    shown["image"] = str(tmp_path) + "/" + shown["image"]
    for each in (classifier, loaded):
        (found,) = each.classify(shown)
        assert found.placement == first.placement
        assert found.masked == first.masked
    with pytest.raises(DataError, match="needs 'place'"):
        loaded.classify(shown["image"].tolist())
