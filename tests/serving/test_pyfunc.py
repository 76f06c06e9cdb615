"""A classifier as MLflow loads and calls it."""

from __future__ import annotations

import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from taxtune.classifier import Reliability, load_classifier
from taxtune.classifier.classifier import COLUMNS
from taxtune.errors import ImageError
from taxtune.serving.pyfunc import ServedClassifier, as_pyfunc, read_image, requirements
from taxtune.settings import ApiVLMSettings, LocalVLMSettings
from tests.serving.samples import BIRD, in_base64, save_field_guide, toy
from tests.tuning.toy import BicycleMapper, Cyclist, ToyVLM


def test_a_table_in_and_a_table_out(tmp_path):
    import pandas as pd

    squares = tmp_path / "in"
    classifier = toy(squares, reliability=Reliability(((4,), (4, 3), (4, 3, 2))))
    given = [
        str(squares / "scarlet0.png"),
        in_base64(squares / "navy0.png"),
        str(tmp_path / "gone.png"),
        "data:x",
    ]
    table = ServedClassifier(classifier).predict(pd.DataFrame({"image": given}))
    assert tuple(table.columns) == (*COLUMNS, "nodes")
    assert table.placement.tolist() == ["colour/reddish/scarlet", "colour/bluish/navy", None, None]
    assert table.image[0] == given[0]
    assert len(table.image[1]) == 64  # what is in no file is known by the hash of its content
    assert table.failure.map(bool).tolist() == [False, False, True, True]
    assert "does not exist" in table.failure[2]
    assert "not an image file in base64" in table.failure[3]
    nodes = table.nodes[0]
    assert [node["label"] for node in nodes] == ["colour", "reddish", "scarlet"]
    sure = [node["confidence"] for node in nodes]
    assert sure == sorted(sure, reverse=True)
    assert table.confidence[0] == sure[-1] == classifier.classify([given[0]])[0].confidence
    assert table.nodes[2] == []
    # JSON has no NaN, so what is missing must be None.
    assert "NaN" not in json.dumps(table.to_dict("records"))


def test_off_the_tree_and_nothing_said(tmp_path):
    squares = tmp_path / "in"
    classifier = toy(squares, Cyclist())
    classifier = toy(squares, Cyclist(), mapper=BicycleMapper(classifier.taxonomy))
    (murky,) = ServedClassifier(classifier).predict([str(squares / "navy4.png")]).to_dict("records")
    assert (murky["off_tree"], murky["placement"], murky["nodes"], murky["failure"]) == (
        True,
        "colour",
        [],
        None,
    )
    assert murky["answer"].startswith("A bicycle")


CONTENT = b"\xff\xd8\xff\xe0 not much of a JPEG"
BASE64 = base64.b64encode(CONTENT).decode()


@pytest.mark.parametrize("content_only", [True, False])
@pytest.mark.parametrize(
    "text", [BASE64, f"data:image/jpeg;base64,{BASE64}", f"{BASE64[:8]}\n{BASE64[8:]}", "data:,A"]
)
def test_content_is_read(text, content_only):
    assert read_image(text, content_only=content_only) == (b"A" if text == "data:,A" else CONTENT)


def test_a_path_that_could_be_base64_is_a_path_where_there_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_image("abcd") == base64.b64decode("abcd")
    Path("abcd").touch()
    assert read_image("abcd") == Path("abcd")
    assert read_image("photo.jpg") == Path("photo.jpg")
    no_name = "no image? " * 40  # longer than the name of a file may be
    assert read_image(no_name) == Path(no_name)
    for text in (
        "photo.jpg",
        "file:///photo.jpg",
        "http://host/a.jpg",
        "data:x",
        "data:image/png;base64,?",
    ):
        with pytest.raises(ImageError, match="not an image file in base64"):
            read_image(text, content_only=True)


def test_an_image_has_a_largest_size(monkeypatch):
    monkeypatch.setattr("taxtune.serving.pyfunc.MAX_BYTES", 20)
    with pytest.raises(ImageError, match="more than 0 MB"):
        read_image(BASE64)


def test_one_request_at_a_time_reaches_the_model(tmp_path):
    class Jealous(ToyVLM):
        """Fails where it is asked again before it has answered."""

        alone = threading.Lock()

        def answer(self, questions):
            assert self.alone.acquire(blocking=False)
            try:
                self.seconds = 0.01
                return super().answer(questions)
            finally:
                self.alone.release()

    model = ServedClassifier(toy(tmp_path / "in", Jealous()))
    file = str(tmp_path / "in" / "azure0.png")
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: model.predict([file]).placement[0], range(8)))
    assert set(found) == {"colour/bluish/azure"}


def test_a_model_that_cannot_answer_is_told_as_what_mlflow_passes_on(tmp_path):
    from mlflow.exceptions import MlflowException

    from taxtune.errors import ModelError

    class Down(ToyVLM):
        def answer(self, questions):
            raise ModelError("The server is down.")

    with pytest.raises(MlflowException, match="server is down") as error:
        ServedClassifier(toy(tmp_path / "in", Down())).predict(
            [str(tmp_path / "in" / "azure0.png")]
        )
    assert error.value.get_http_status_code() == 503


@pytest.mark.heavy
def test_saved_it_is_one_folder_without_code_or_pickle(tmp_path):
    import mlflow.pyfunc
    import pandas as pd

    mlflow.pyfunc.save_model(tmp_path / "model", **as_pyfunc(save_field_guide(tmp_path)))
    names = {path.name for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert not {name for name in names if name.endswith((".pkl", ".py", ".pt", ".bin"))}
    assert {"classifier.json", "MLmodel", "requirements.txt"} <= names
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert model.metadata.get_input_schema().input_names() == ["image"]
    # What is loaded is loaded once, before the first image is asked about.
    network = model.get_raw_model().model._network
    table = model.predict(pd.DataFrame({"image": [str(BIRD), in_base64(BIRD), "bm90IGFuIGltYWdl"]}))
    assert (
        table.placement[0]
        == table.placement[1]
        == load_classifier(tmp_path / "classifier").predict([BIRD])[0]
    )
    assert table.failure[2].startswith(
        "This is not an image"
    )  # and no file of the server's is named
    assert model.get_raw_model().model._network is network


def test_the_packages_that_can_change_an_answer():
    def named(vlm):
        return [text.partition("==")[0] for text in requirements(vlm)]

    local = LocalVLMSettings(model="builtin:fieldguide")
    assert named(local) == ["taxtune", "mlflow", "torch", "torchvision", "transformers"]
    assert named(local.model_copy(update={"device": "balanced"}))[0] == "taxtune[sharded]"
    assert named(ApiVLMSettings(model="openai/x")) == ["taxtune", "mlflow", "litellm"]
