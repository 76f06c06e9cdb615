"""A run keeps its winner as a classifier in its own folder, which needs no other file."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import taxtune
from taxtune.errors import DataError
from taxtune.fieldguide import MODEL_FOLDER
from taxtune.policies import SelfConsistency
from taxtune.recipe import load_recipe
from taxtune.settings import ApiVLMSettings
from taxtune.tuning.build import Setup
from taxtune.tuning.saved import find_saved, read_saved, write_saved
from tests.tuning.toy import ToyVLM, Wavering, compared, make_files, toy, tuned

SMALL = ("data.tuning=4", "data.heldout=6", "iterations=2")


def edit(run, **changes):
    """Changes what the saved winner of a run says."""
    file = find_saved(run) / "classifier.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("policy", [(), ("policy.samples=4",)], ids=["direct", "open threshold"])
def test_it_labels_as_the_run_did_once_all_else_is_gone(tmp_path, policy):
    result = tuned(toy(tmp_path, *SMALL, *policy, vlm=Wavering()))
    rows = result.heldout_winner.rows
    pictures = tmp_path / "pictures"
    shutil.copytree(tmp_path / "in", pictures)
    shutil.copytree(tmp_path / "run", tmp_path / "elsewhere")
    for gone in ("in", "run"):
        shutil.rmtree(tmp_path / gone)
    loaded = taxtune.load_classifier(tmp_path / "elsewhere", vlm=Wavering())
    found = loaded.classify([pictures / row.image for row in rows])
    assert [one.placed for one in found] == [row.placed for row in rows]
    assert {one.failure for one in found} == {None}
    if policy:
        assert isinstance(loaded.policy, SelfConsistency)
        assert [one.confidence for one in found] == [row.confidence for row in rows]


def test_each_run_of_a_comparison_has_its_own(tmp_path):
    result = compared(toy(tmp_path, *SMALL), ("hp", "accuracy"))
    for run in result.runs:
        loaded = taxtune.load_classifier(run.folder, vlm=ToyVLM())
        assert loaded.template == run.best.template
    with pytest.raises(DataError, match=r"does not hold one tuning run.*hp or .*accuracy"):
        taxtune.load_classifier(tmp_path / "run", vlm=ToyVLM())


def test_another_winner_replaces_it(tmp_path):
    parts = toy(tmp_path, *SMALL)
    tuned(parts)
    longer = replace(parts, recipe=parts.recipe.changed({"iterations": 5}))
    result = tuned(longer, resume=True)
    assert read_saved(find_saved(tmp_path / "run")).template == result.best.template
    others = [record for record in result.iterations if record.template != result.best.template]
    taxtune.choose(tmp_path / "run", others[-1].iteration, vlm=ToyVLM())
    assert read_saved(find_saved(tmp_path / "run")).template == others[-1].template


@pytest.mark.heavy
def test_a_checkpoint_that_is_gone_is_named_with_the_setting_for_another(tmp_path):
    recipe = load_recipe(make_files(tmp_path / "in"), SMALL)
    shutil.copytree(MODEL_FOLDER, tmp_path / "in" / "eyes")
    settings = {"vlm.model": "local:eyes", "max_off_tree": 1, "iterations": 1}
    tuned(Setup(recipe.changed(settings), tmp_path / "run"))
    before = taxtune.load_classifier(tmp_path / "run")
    assert before.recipe.vlm.model == str(tmp_path / "in" / "eyes")
    (picture, *_) = sorted((tmp_path / "in").glob("*.png"))
    (tmp_path / "in" / "eyes").rename(tmp_path / "moved")
    with pytest.raises(DataError, match=r"no longer there.*in/eyes.*--set vlm.model=local:FOLDER"):
        taxtune.load_classifier(tmp_path / "run")
    settings = {"vlm.model": f"local:{tmp_path / 'moved'}"}
    moved = taxtune.load_classifier(tmp_path / "run", settings=settings)
    assert moved.classify(picture)[0].answer


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The saved winner of a run, to be copied."""
    folder = tmp_path_factory.mktemp("made")
    tuned(toy(folder, *SMALL))
    return find_saved(folder / "run")


@pytest.fixture
def saved(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "saved"))


def test_the_password_of_a_server_is_not_written(saved):
    vlm = ApiVLMSettings(model="openai/eyes", api_base="http://me:secret@127.0.0.1:9/v1")
    write_saved(saved, read_saved(saved).model_copy(update={"vlm": vlm}))
    assert "secret" not in (saved / "classifier.json").read_text()
    assert read_saved(saved).vlm.api_base == "http://***@127.0.0.1:9/v1"


def test_it_is_noted_if_the_mapper_is_another_one_now(saved, caplog):
    taxtune.load_classifier(saved, vlm=ToyVLM())
    assert "placed answers with" not in caplog.text
    edit(saved, placed_by={"wordnet": "WordNet 1.5"})
    taxtune.load_classifier(saved, vlm=ToyVLM())
    assert "the run placed answers with wordnet WordNet 1.5" in caplog.text
