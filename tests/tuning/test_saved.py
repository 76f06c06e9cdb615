"""A run keeps its winner as a classifier in its own folder, which needs no other file."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

import taxtune
from taxtune.errors import DataError, TaxtuneError
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
    if policy:
        assert isinstance(loaded.policy, SelfConsistency)


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


def test_a_calibration_of_a_template_that_no_longer_wins_is_refused(tmp_path):
    tuned(toy(tmp_path, *SMALL, vlm=Wavering()))
    taxtune.calibrate(tmp_path / "run", risk=0.3, vlm=Wavering())
    taxtune.load_classifier(tmp_path / "run", calibrated=True, vlm=Wavering())
    edit(tmp_path / "run", template="Which colour is this?")
    with pytest.raises(DataError, match=r"another template.*taxtune calibrate .*--risk 0.3"):
        taxtune.load_classifier(tmp_path / "run", calibrated=True, vlm=Wavering())


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


def test_the_password_of_a_server_is_not_written(tmp_path):
    tuned(toy(tmp_path, *SMALL))
    run = find_saved(tmp_path / "run")
    vlm = ApiVLMSettings(model="openai/eyes", api_base="http://me:secret@127.0.0.1:9/v1")
    write_saved(tmp_path / "saved", read_saved(run).model_copy(update={"vlm": vlm}))
    assert "secret" not in (tmp_path / "saved" / "classifier.json").read_text()
    assert read_saved(tmp_path / "saved").vlm.api_base == "http://***@127.0.0.1:9/v1"


def test_it_is_noted_if_the_mapper_is_another_one_now(tmp_path, caplog):
    tuned(toy(tmp_path, *SMALL))
    taxtune.load_classifier(tmp_path / "run", vlm=ToyVLM())
    assert "placed answers with" not in caplog.text
    edit(tmp_path / "run", placed_by={"wordnet": "WordNet 1.5"})
    taxtune.load_classifier(tmp_path / "run", vlm=ToyVLM())
    assert "the run placed answers with wordnet WordNet 1.5" in caplog.text


def test_a_run_from_someone_else_sends_images_to_no_server_unasked(tmp_path):
    tuned(toy(tmp_path, *SMALL))
    vlm = ApiVLMSettings(model="openai/eyes", api_base="http://attacker.example/v1").model_dump()
    edit(tmp_path / "run", vlm=vlm)
    with pytest.raises(TaxtuneError, match=r"attacker.example, which you have not confirmed"):
        taxtune.load_classifier(tmp_path / "run")
