"""What may occur where and when: the checklist, what it does to placements, and runs with one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taxtune
from taxtune.errors import DataError, RecipeError, ResumeError
from taxtune.fieldguide import export
from taxtune.metrics import precision_recall
from taxtune.policies import SelfConsistency, spread
from taxtune.policies.allowed import Checklist, read_checklist
from taxtune.recipe import load_recipe
from taxtune.report.html import render_report
from taxtune.report.summary import doubt_lines, summarise
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.build import Setup, make_checklist, make_taxonomy
from taxtune.tuning.plan import make_plan
from tests.trees import trees
from tests.tuning.toy import ToyVLM, Wavering, Weighing, make_files, tuned

BIRDS = Taxonomy.from_paths(
    ["bird/duck/mallard", "bird/duck/teal", "bird/gull/herring gull", "bird/gull/kittiwake"]
)
CHECKLIST = "node,Place,From month,to_month\nmallard,,,\nteal, Marsh ,10,03\ngull,coast,,\nherring gull,7,6.0,\n"
WHERE = {"scarlet": ("a", 5), "azure": (" A", 12), "crimson": ("b", None), "navy": ("b", 6)}
SHADES = "node,place,from month,to month\nscarlet,a,,\nazure,a,11,2\nreddish,b,,\nnavy,b,,\n"


def read(folder: Path, text: str) -> Checklist:
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
def test_what_can_be_where_and_when(
    tmp_path: Path, place: object, month: object, leaves: set[str]
) -> None:
    ((_, lift),) = read(tmp_path, CHECKLIST).groups([{"place": place, "month": month}])
    assert {BIRDS.labels[v] for v in BIRDS.leaves if lift[v] == v} == leaves


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            "node,from month\nteal,13\nmallard,0\nduck,3\n",
            ("2 of 3 rows", "row 2: .*'13'", "row 3: .*'0'.*1 to 12"),
        ),
        (
            "node,place\nteel,\n,marsh\n",
            ("2 of 2 rows", "row 2: node.*teal", "row 3: node is missing"),
        ),
        ("name,place\nteal,marsh\n", ("no column node", "from month and to month")),
    ],
)
def test_a_bad_checklist_is_refused_with_all_its_rows(
    tmp_path: Path, text: str, problems: tuple[str, ...]
) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    assert all(caught.match(problem) for problem in problems)


@given(trees(), st.data())
def test_what_cannot_be_goes_to_the_nearest_that_can(tree: Taxonomy, data: st.DataObject) -> None:
    month, node, size = st.integers(1, 12), st.integers(0, len(tree) - 1), len(tree)
    row = st.tuples(node, st.sampled_from(["", "a", "b"]), month, month)
    rows, now = data.draw(st.lists(row, min_size=1, max_size=5)), data.draw(month)
    ((_, lift),) = Checklist(tree, rows).groups([{"place": "a", "month": now}])
    here = [(v, first, last) for v, place, first, last in rows if place != "b"]
    listed = [v for v, first, last in here if (first <= now) + (now <= last) == 1 + (first <= last)]
    unknown = {place for _, place, *_ in rows} in ({"b"}, {"b", ""})
    can = [v == 0 or unknown or any(tree.lca(v, w) in (v, w) for w in listed) for v in range(size)]
    assert lift.tolist() == [[u for u in tree.ancestors(v) if can[u]][-1] for v in range(size)]

    # A single answer never loses hP, and hR only where the truth cannot be.
    nodes, truth = (np.array(data.draw(st.lists(node, min_size=7, max_size=7))) for _ in range(2))
    (hp, hr), (masked_hp, masked_hr) = (
        precision_recall(tree, nodes, truth),
        precision_recall(tree, lift[nodes], truth),
    )
    kept = (masked_hr == hr) | (lift[truth] != truth)
    assert ((masked_hp >= hp) & (masked_hr <= hr) & kept).all()
    # A majority vote that more than half agree on comes out where it did, or at the nearest that can be.
    policy = SelfConsistency(7, data.draw(st.floats(0.51, 1.0)))
    assert policy.majority(tree, [lift[nodes]])[0] == lift[policy.majority(tree, [nodes])[0]]
    # Probability is kept, and no node that can be loses any.
    nodes = np.array([-1, *range(size)])
    weights = np.array([[data.draw(st.sampled_from([0.0, 0.25, 1.0, 3.0])) for _ in nodes]])
    ends = np.where(nodes >= 0, lift[nodes], -1)
    moved = spread(tree, ends, weights, giving=ends != nodes)
    assert moved.sum() == pytest.approx(weights.sum())
    for v in np.flatnonzero(can).tolist():
        before, after = (
            tree.is_ancestor(v, np.maximum(each, 0)) & (each >= 0) for each in (nodes, ends)
        )
        assert moved[0, after].sum() >= weights[0, before].sum() - 1e-9


def make(folder: Path, vlm: ToyVLM, *overrides: str, checklist: str = SHADES) -> Setup:
    """The toy recipe with a checklist, on images from two places, at each of which half of the shades occur."""
    recipe, manifest = make_files(folder / "in"), folder / "in" / "manifest.csv"
    images = pd.read_csv(manifest)
    images[["place", "month"]] = [WHERE[label] for label in images["label"]]
    images.astype({"month": "Int64"}).to_csv(manifest, index=False)
    (folder / "in" / "list.csv").write_text(checklist)
    usual = ("taxonomy.allowed=list.csv", "data.context=[place, month]", "iterations=1", *overrides)
    return Setup(load_recipe(recipe, usual), folder / "run", vlm=vlm)


@pytest.mark.parametrize(
    ("vlm", "policy", "placement", "masked"),
    [  # of a murky image of navy, which they take for azure
        (ToyVLM, (), "colour/bluish", "colour/bluish/azure"),
        (Wavering, ("policy.samples=4",), "colour/bluish", None),
        (
            Weighing,
            ("policy.kind=posterior", "policy.threshold=0.9"),
            "colour/bluish/navy",
            "colour/bluish",
        ),
    ],
)
def test_each_policy_places_on_what_can_be(
    tmp_path: Path, vlm, policy, placement: str, masked: str | None
) -> None:
    result = tuned(make(tmp_path, vlm(), *policy, "objective.kind=hr_at_hp"))
    rows = result.heldout_baseline.rows
    assert next((row.placement, row.masked) for row in rows if row.image == "navy3.png") == (
        placement,
        masked,
    )
    moved, told = sum(row.masked is not None for row in rows), doubt_lines(summarise(result))
    assert (f"baseline: {moved} of 12 placed elsewhere by the checklist" in told) == bool(masked)
    assert ("without the checklist" in render_report(result)) == bool(masked)


def test_a_checklist_without_the_truth_is_told_and_one_that_changed_is_another_run(
    tmp_path: Path,
) -> None:
    parts = make(tmp_path, ToyVLM(), checklist="node,place\nscarlet,a\nnavy,a\nreddish,b\n")
    plan = make_plan(parts)
    expected = "the checklist lacks the truth of 10 of 20 images: navy, place b (5 images); azure, place A (5 images)"
    assert expected in plan.notes
    row = next(row for row in tuned(parts).baseline.rows if row.image.startswith("navy"))
    assert (row.placement, row.abstained, row.hp) == ("colour", True, 1.0)
    (tmp_path / "in" / "list.csv").write_text(SHADES)
    with pytest.raises(ResumeError, match="checklist"):
        tuned(Setup(parts.recipe, parts.folder, vlm=ToyVLM()), resume=True)
    recipe = parts.recipe.changed({"data.context": ["place"]})
    with pytest.raises(RecipeError, match=r"goes by month.*context: \[month\]"):
        make_checklist(recipe, *make_taxonomy(recipe))


@pytest.mark.heavy
def test_the_field_guides_birds_from_two_places_stay_where_they_are(tmp_path: Path) -> None:
    export(tmp_path, labelled=60)
    data = {
        "kind": "manifest",
        "path": "photos.csv",
        "context": ["place"],
        "tuning": 30,
        "heldout": 30,
    }
    recipe = {
        "name": "birds",
        "taxonomy": {"path": "tree.csv", "allowed": "checklist.csv"},
        "data": data,
    }
    recipe |= {
        "vlm": "builtin:fieldguide",
        "proposer": {"kind": "fragments"},
        "objective": {"kind": "accuracy"},
    }
    recipe |= {"iterations": 1, "tracking": {"mlflow": False}}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    result = tuned(Setup(load_recipe(tmp_path / "recipe.yaml"), tmp_path / "run"))
    moved = [row for row in result.heldout_winner.rows if row.masked]
    assert moved and all(row.masked.startswith(row.placement) for row in moved)  # noqa: PT018
    classifier = taxtune.load_classifier(tmp_path / "run")
    loaded = taxtune.load_classifier(classifier.save(tmp_path / "saved"))
    shown = pd.read_csv(tmp_path / "photos.csv").query("image.str.endswith(@moved[0].image)")
    shown["image"] = str(tmp_path) + "/" + shown["image"]
    for each in (classifier, loaded):
        (found,) = each.classify(shown)
        assert (found.placement, found.masked) == (moved[0].placement, moved[0].masked)
    with pytest.raises(DataError, match="needs 'place'"):
        loaded.classify(shown["image"].tolist())
