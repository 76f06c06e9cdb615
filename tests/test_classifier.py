"""A finished run labels images as it did its own."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from PIL import Image

import taxtune
from taxtune.classifier import Classifier
from taxtune.data.images import content_hash
from taxtune.errors import DataError, RecipeError
from taxtune.models import AnswerStore
from taxtune.policies import Vote
from taxtune.policies.base import Places
from taxtune.tuning.records import TuneResult
from tests.tuning.toy import ToyVLM, Wavering, make_parts, tuned

SMALL = ("data.tuning=4", "data.heldout=6", "iterations=2")
VOTE = ("policy.kind=vote", "policy.samples=4", "policy.share=[0.75, 0.5]")


def toy_run(folder: Path, *overrides: str) -> TuneResult:
    return tuned(make_parts(folder / "in", folder / "run", Wavering(), (*SMALL, *overrides)))


@pytest.mark.parametrize("overrides", [(), VOTE], ids=["direct", "vote"])
def test_it_labels_the_held_out_images_as_the_run_did(tmp_path, overrides):
    result = toy_run(tmp_path, *overrides)
    classifier = taxtune.load_classifier(tmp_path / "run", vlm=Wavering())
    rows = result.heldout[-1].rows
    found = classifier.predict([tmp_path / "in" / row.image for row in rows])
    assert [(one.answer, one.node, one.confidence, one.off_tree) for one in found] == [
        (row.answer, row.placed, row.confidence, row.off_tree) for row in rows
    ]
    assert [Path(one.image).name for one in found] == [row.image for row in rows]
    assert not any(one.failure for one in found)


def test_images_may_be_in_no_file_and_bad_ones_fail_alone(tmp_path):
    toy_run(tmp_path)
    classifier = taxtune.load_classifier(tmp_path / "run", vlm=ToyVLM())
    file = next((tmp_path / "in").rglob("*.png"))
    gone = tmp_path / "gone.png"
    with Image.open(file) as opened:
        path, content, pixels, lost = classifier.predict([file, file.read_bytes(), opened, gone])
    assert path.node is not None
    assert (content.answer, content.node, pixels.node) == (path.answer, path.node, path.node)
    assert (path.image, content.image) == (str(file), content_hash(file))
    assert (lost.image, lost.node, lost.answer) == (str(gone), None, None)
    assert "does not exist" in str(lost.failure)
    (refused,) = taxtune.load_classifier(tmp_path / "run", vlm=ToyVLM(fail="")).predict([file])
    assert refused.failure
    assert refused.node is None


def test_answers_are_kept_where_a_store_is_given(tmp_path):
    toy_run(tmp_path)
    vlm = ToyVLM()
    files = sorted((tmp_path / "in").rglob("*.png"))[:5]
    with AnswerStore(tmp_path / "more.db") as store:
        classifier = taxtune.load_classifier(tmp_path / "run", vlm=vlm)
        first = classifier.predict(files, store)
        asked = vlm.asked
        assert classifier.predict(files, store) == first
    assert vlm.asked == asked


def test_it_can_be_sent_to_another_process(tmp_path):
    toy_run(tmp_path)
    file = next((tmp_path / "in").rglob("*.png"))
    classifier = taxtune.load_classifier(tmp_path / "run", vlm=ToyVLM())
    sent: Classifier = pickle.loads(pickle.dumps(classifier))
    assert sent.predict([file]) == classifier.predict([file])


def test_a_calibration_takes_the_place_of_the_runs_own_policy(tmp_path):
    toy_run(tmp_path)
    with pytest.raises(DataError, match="not calibrated"):
        taxtune.load_classifier(tmp_path / "run", calibrated=True, vlm=Wavering())
    found = taxtune.calibrate(tmp_path / "run", risk=0.3, heldout=True, vlm=Wavering())
    classifier = taxtune.load_classifier(tmp_path / "run", calibrated=True, vlm=Wavering())
    assert classifier.policy == found.policy
    assert isinstance(classifier.policy, Vote)


def test_what_is_not_one_finished_run_with_a_model_says_so(tmp_path):
    toy_run(tmp_path)
    with pytest.raises(RecipeError, match="given in Python"):
        taxtune.load_classifier(tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(DataError, match="not finished"):
        taxtune.load_classifier(tmp_path / "run", vlm=ToyVLM())


def test_a_policy_of_ones_own_must_be_given_again(tmp_path):
    class Last(Vote):
        """The last answer counts."""

        def place(self, taxonomy, nodes, off_tree):
            return Places(nodes[:, -1], off_tree[:, -1])

        def identity(self):
            return {"kind": "last", "samples": self.samples}

    recipe = make_parts(tmp_path / "in", tmp_path / "run", None, SMALL).recipe
    taxtune.tune(recipe=recipe, vlm=Wavering(), policy=Last(3), out=tmp_path / "run", mlflow=False)
    with pytest.raises(DataError, match="'last' was given in Python"):
        taxtune.load_classifier(tmp_path / "run", vlm=Wavering())
