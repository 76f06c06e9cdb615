"""A finished run labels images as it did its own."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import taxtune
from taxtune.classifier import Classifier, load_classifier
from taxtune.errors import DataError
from taxtune.fieldguide import MANIFEST_FILE, MODEL_FOLDER
from taxtune.images import content_hash
from taxtune.mapping import Mapper, MapperConfig
from taxtune.policies import RiskGuarantee, SelfConsistency, Single
from taxtune.settings import ObjectiveSettings
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.build import make_taxonomy
from taxtune.tuning.records import TuneResult
from tests.serving.samples import save_field_guide
from tests.taxonomy.test_convert import trees as odd_trees
from tests.trees import trees
from tests.tuning.toy import Cyclist, ToyVLM, Wavering, make_files, make_parts, tuned, with_bicycles

SMALL = ("data.tuning=4", "data.heldout=6", "iterations=2")
SAMPLED = ("policy.samples=4", "policy.threshold=0.5")

FEW = {"data.tuning": 4, "data.heldout": 6, "iterations": 1, "tracking.mlflow": False}
NAVY = "colour/bluish/navy"

by_policy = pytest.mark.parametrize("overrides", [(), SAMPLED], ids=["direct", "self_consistency"])


def toy_run(folder: Path, *overrides: str) -> TuneResult:
    parts = make_parts(folder / "in", folder / "run", Wavering(), (*SMALL, *overrides))
    return tuned(parts)


@pytest.fixture
def run(tmp_path):
    """Returns the folder of a finished run, whose images are in its neighbour `in`."""
    toy_run(tmp_path)
    return tmp_path / "run"


def all_images(folder):
    return sorted((folder / "in").rglob("*.png"))


def test_it_is_shown_in_three_lines(run):
    classifier = taxtune.load_classifier(run, vlm=ToyVLM(), policy=SelfConsistency(4, 0.5))
    asked, model, promise = repr(classifier).splitlines()
    assert asked.startswith(f"{classifier.name}: {classifier.prompt[:20]}")
    assert model == "model toy, policy: self_consistency, samples 4, threshold 0.5"
    assert promise == "no promise for new images: taxtune calibrate makes one"
    classifier.recipe = taxtune.Recipe.model_construct(objective=ObjectiveSettings())
    assert repr(classifier).splitlines()[2] == f"tuned for hR at hP; {promise}"
    classifier.guarantee = RiskGuarantee(risk=0.02, confidence_level=0.9, images=80)
    assert repr(classifier).endswith("the mean of 1 - hP is at most 0.02 with 90 % confidence")


def test_images_may_be_in_no_file_and_bad_ones_fail_alone(tmp_path, run):
    classifier = taxtune.load_classifier(run, vlm=ToyVLM())
    file = all_images(tmp_path)[0]
    gone = tmp_path / "gone.png"
    with Image.open(file) as opened:
        images = [file, file.read_bytes(), opened, gone, b""]
        path, content, pixels, lost, empty = classifier.classify(images)
    assert path.placement is not None
    assert path.placed == content.placed
    assert path.placement == pixels.placement
    assert (path.image, content.image) == (str(file), content_hash(file))
    assert (lost.image, lost.placement, lost.answer) == (str(gone), None, None)
    assert "does not exist" in str(lost.failure)
    assert str(empty.failure).startswith("The image file is empty")
    mute = taxtune.load_classifier(run, vlm=ToyVLM(fail=""))
    (refused,) = mute.classify([file])
    assert refused.failure
    assert refused.placement is None


def test_a_calibration_takes_the_place_of_the_runs_own_policy(run):
    with pytest.raises(DataError, match="not calibrated"):
        taxtune.load_classifier(run, calibrated=True, vlm=Wavering())
    found = taxtune.calibrate(run, risk=0.3, vlm=Wavering())
    classifier = taxtune.load_classifier(run, calibrated=True, vlm=Wavering())
    assert classifier.policy == found.policy
    assert isinstance(classifier.policy, SelfConsistency)
    file = run / "classifier" / "classifier.json"
    saved = json.loads(file.read_text())
    file.write_text(json.dumps(saved | {"template": "Which colour is this?"}))
    with pytest.raises(DataError, match=r"another template.*taxtune calibrate .*--risk 0.3"):
        taxtune.load_classifier(run, calibrated=True, vlm=Wavering())


def test_what_is_not_one_finished_run_with_a_model_says_so(run):
    with pytest.raises(DataError, match=r"model was given in Python.*vlm=.*--set vlm.model="):
        taxtune.load_classifier(run)
    shutil.rmtree(run / "classifier")
    with pytest.raises(DataError, match=r"lacks the winner's classifier.*--resume"):
        taxtune.load_classifier(run, vlm=ToyVLM())
    (run / "result.json").unlink()
    with pytest.raises(DataError, match="not finished"):
        taxtune.load_classifier(run, vlm=ToyVLM())


def test_images_come_in_the_forms_that_people_have(tmp_path, run):
    classifier = taxtune.load_classifier(run, vlm=ToyVLM())
    file = tmp_path / "in" / "navy0.png"
    with Image.open(file) as opened:
        for alone in (file, str(file), file.read_bytes(), opened, {"bytes": file.read_bytes()}):
            assert [*classifier.predict(alone)] == [NAVY]
    table = pd.DataFrame({"image": [str(file)] * 2, "seen": ["May", "June"]}, index=[7, 8])
    for some in (table, table.image, table.image.to_numpy(), (file, file)):
        assert [*classifier.predict(some)] == [NAVY, NAVY]
    with pytest.raises(DataError, match=r"no column `image`"):
        classifier.predict(table.rename(columns={"image": "photo"}))


@by_policy
def test_every_node_on_the_way_has_a_confidence(tmp_path, overrides):
    result = toy_run(tmp_path, *overrides)
    classifier = taxtune.load_classifier(result, vlm=Wavering())
    for one in classifier.classify(all_images(tmp_path)):
        sure = [step.confidence for step in one.path]
        assert "/".join(step.label for step in one.path) == one.placement
        assert sure[0] == 1
        assert sorted(sure, reverse=True) == sure
        assert one.rank == one.path[-1].rank
        assert one.confidence == sure[-1]


def test_what_the_tree_lacks_has_no_place_on_it(tmp_path, run):
    mapper = with_bicycles(make_parts(tmp_path / "in", run)).mapper
    classifier = taxtune.load_classifier(run, vlm=Cyclist(), mapper=mapper)
    found = classifier.classify(all_images(tmp_path))
    lacking = {(one.path, one.confidence, one.placement) for one in found if one.off_tree}
    assert lacking == {((), None, "colour")}


@pytest.mark.heavy
def test_a_saved_classifier_is_the_same_without_its_run(tmp_path):
    result = taxtune.tune(
        recipe="fieldguide",
        settings={**FEW, "data.heldout": 30},
        out=tmp_path / "run",
        progress=False,
    )
    made = taxtune.load_classifier(result)
    files = sorted(MANIFEST_FILE.parent.glob("images/*.png"))[:6]
    folder = made.save(tmp_path / "saved")
    assert sorted(file.name for file in folder.iterdir()) == ["classifier.json"]
    shutil.rmtree(tmp_path / "run")
    loaded = load_classifier(folder)
    assert loaded.taxonomy.digest == made.taxonomy.digest
    for name in ("prompt", "policy", "reliability", "name"):
        assert getattr(loaded, name) == getattr(made, name)
    assert dict(loaded.model.identity) == dict(made.model.identity)
    assert loaded.mapper.identity() == made.mapper.identity()
    assert loaded.classify(files) == made.classify(files)
    sampled = taxtune.load_classifier(folder, policy=SelfConsistency(3, 0.6))
    assert sampled.model.identity["temperature"] == 1
    by_keys = load_classifier(folder, settings={"policy.samples": 3, "policy.threshold": 0.6})
    assert by_keys.policy == SelfConsistency(3, 0.6)
    assert by_keys.model.identity["temperature"] == 1
    with pytest.raises(DataError, match=r"no such policy.*smaples"):
        load_classifier(folder, settings={"policy.smaples": 3})
    changed = {"vlm.model": f"local:{MODEL_FOLDER}", "vlm.max_tokens": 5}
    elsewhere = taxtune.load_classifier(folder, settings=changed)
    assert elsewhere.model.identity["max_new_tokens"] == 5
    assert elsewhere.model.identity["model"] == "model"
    assert sampled.save(folder) == folder
    assert load_classifier(folder).policy == SelfConsistency(3, 0.6)


def test_a_saved_classifier_that_cannot_be_used_says_why(tmp_path, run):
    own = taxtune.load_classifier(run, vlm=ToyVLM())
    with pytest.raises(DataError, match=r"given in Python.*load_classifier\(run, vlm="):
        own.save(tmp_path / "saved")
    folder = save_field_guide(tmp_path)
    made = load_classifier(folder)
    with pytest.raises(DataError, match="without a calibration"):
        load_classifier(folder, calibrated=True)
    with pytest.raises(DataError, match="something else"):
        made.save(tmp_path / "in")

    file = folder / "classifier.json"

    def refuses(content, message):
        before = file.read_text()
        file.write_text(content)
        with pytest.raises(DataError, match=message):
            load_classifier(folder)
        file.write_text(before)

    data = json.loads(file.read_text())
    other_version = "no classifier of this version of taxtune: "
    for change, message in (
        ({"format": "taxtune classifier 1"}, f"{other_version}format: "),
        ({"prompts": []}, f"{other_version}prompts: "),
        ({"policy": {}}, "no such policy"),
        ({"policy": {"kind": "self_consistency", "samples": "8"}}, "no such policy"),
    ):
        refuses(json.dumps(data | change), message)
    refuses("[" * 100_000, other_version)
    labels = [1, *data["taxonomy"]["labels"][1:]]
    for tree in ({}, {"labels": []}, data["taxonomy"] | {"labels": labels}):
        refuses(json.dumps(data | {"taxonomy": tree}), "tree cannot be read")


def test_a_run_made_in_python_is_a_classifier_when_its_objects_are_given_again(tmp_path):
    make_files(tmp_path / "in")
    tree = taxtune.read_taxonomy(tmp_path / "in" / "tree.csv")
    result = taxtune.tune(
        taxonomy=Taxonomy(tree.labels, tree.parents),
        examples=tmp_path / "in" / "manifest.csv",
        vlm=ToyVLM(),
        settings={"name": "my-colours", **FEW},
        out=tmp_path / "run",
    )
    with pytest.raises(DataError, match="Give the same model in Python"):
        taxtune.load_classifier(result)
    classifier = taxtune.load_classifier(result, vlm=ToyVLM())
    assert classifier.name == "my-colours"
    assert classifier.taxonomy.digest == tree.digest
    assert [*classifier.predict([tmp_path / "in" / "navy0.png"])] == [NAVY]


def test_the_commit_that_was_asked_is_kept(tmp_path):
    commit = "0123456789" * 4
    asked = ToyVLM()
    asked.identity = {"kind": "local", "model": "owner/model", "revision": commit}
    recipe = taxtune.load_recipe("fieldguide").changed({"vlm.model": "local:owner/model"})
    parts = make_parts(tmp_path / "in", tmp_path / "run")
    tree, _ = make_taxonomy(parts.recipe)
    made = Classifier("What is this?", tree, asked, Mapper(tree), recipe=recipe)
    loaded = load_classifier(made.save(tmp_path / "saved"))
    assert (loaded.recipe.vlm.model, loaded.recipe.vlm.revision) == ("owner/model", commit)
    other = load_classifier(tmp_path / "saved", settings={"vlm.model": "local:owner/other"})
    assert other.recipe.vlm.revision is None


@given(
    st.one_of(trees(), odd_trees()),
    st.sampled_from([Single(), SelfConsistency(3, 0.6)]),
    st.text(min_size=1, max_size=30),
)
@settings(max_examples=20, deadline=None)
def test_whatever_tree_there_is_comes_back_as_it_was(tree, policy, prompt):
    recipe = taxtune.load_recipe("fieldguide")
    made = Classifier(prompt, tree, ToyVLM(), Mapper(tree), policy, recipe=recipe, name="trees")
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_classifier(made.save(folder))
    assert loaded.taxonomy.digest == tree.digest
    assert loaded.taxonomy.ids == tree.ids
    assert (loaded.template, loaded.policy) == (prompt, policy)


def test_a_mapper_that_was_given_in_python_has_to_be_given_again(tmp_path):
    files = make_files(tmp_path / "in").parent
    config = MapperConfig(coverage=0.6)
    result = taxtune.tune(
        taxonomy=files / "tree.csv",
        examples=files / "manifest.csv",
        vlm=Wavering(),
        settings={"mapper": config, **FEW},
        out=tmp_path / "run",
    )
    with pytest.raises(DataError, match="Give the same mapper in Python"):
        taxtune.load_classifier(result, vlm=Wavering())
    own = Mapper(make_parts(tmp_path / "in", tmp_path / "other").taxonomy, config=config)
    assert taxtune.load_classifier(result, vlm=Wavering(), mapper=own).mapper is own
