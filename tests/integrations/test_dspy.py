"""taxtune's scores as a DSPy metric: programs of DSPy that ask a model over HTTP about toy images."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from taxtune.errors import DataError, TaxonomyError
from taxtune.integrations.dspy import Metric
from taxtune.taxonomy import Taxonomy, read_taxonomy
from tests.servers import OpenAIServer, status
from tests.tuning.toy import COLOURS, make_files


@pytest.fixture(scope="module")
def dspy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """DSPy on its own, with its cache out of the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSPY_CACHEDIR", str(tmp_path_factory.mktemp("dspy")))
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no look at prices on the web
        yield pytest.importorskip("dspy", reason="dspy is not installed: pip install '.[dspy]'")


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    return make_files(tmp_path / "toy").parent


@pytest.fixture
def tree(toy: Path) -> Taxonomy:
    return read_taxonomy(toy / "tree.csv")


def see(request: dict[str, Any]) -> str:
    """Answers as a model that cannot tell the shades of murky images, and names families when told to."""
    content = request["messages"][-1]["content"]
    (url,) = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    with Image.open(io.BytesIO(base64.b64decode(url.split(",", 1)[1]))) as image:
        red, green, blue = image.convert("RGB").getpixel((0, 0))  # type: ignore[misc]
    family = "reddish" if red > blue else "bluish"
    shade = {"reddish": "scarlet" if green >= 30 or red > 180 else "crimson"}.get(
        family, "azure" if green >= 30 or blue > 200 else "navy"
    )
    said = family if "careful" in json.dumps(request["messages"]) and green >= 30 else shade
    return f"[[ ## answer ## ]]\nA: {said}.\n\n[[ ## completed ## ]]"


def model(dspy: Any, server: OpenAIServer) -> Any:
    return dspy.LM("openai/gpt-4o", api_base=server.api_base, api_key="sk-test", cache=False, num_retries=0)


def devset_of(dspy: Any, toy: Path) -> list[Any]:
    rows = [line.split(",") for line in (toy / "manifest.csv").read_text().splitlines()[1:]]
    return [
        dspy.Example(image=dspy.Image(Image.open(toy / file)), label=label).with_inputs("image") for file, label in rows
    ]


@pytest.mark.parametrize(
    ("said", "label", "objective", "score"),
    [
        ("A: scarlet.", "scarlet", "hf", 1.0),
        ("reddish", "colour/reddish/scarlet", "hp", (4 * 1 + 2 / 3) / 5),
        ("crimson", "scarlet", "accuracy", 0.0),
        ("", "scarlet", lambda scores: scores.abstained, 1.0),
        ("I don't know.", "scarlet", "hf", 0.5),
        ("a bicycle", "scarlet", lambda scores: scores.off_tree, 1.0),
    ],
)
def test_a_metric_is_a_function_of_example_and_prediction(
    dspy: Any, tree: Taxonomy, said: str, label: str, objective: Any, score: float
) -> None:
    metric = Metric(tree, objective)
    gold = dspy.Example(label=label, image="").with_inputs("image")
    assert metric(gold, dspy.Prediction(answer=said)) == pytest.approx(score)
    found = metric(gold, dspy.Prediction(answer=said), None, "self", None)
    assert found.score == pytest.approx(score)
    assert not any(name in found.feedback for name in COLOURS)


def test_an_evaluation_with_a_program_that_asks_a_model(dspy: Any, toy: Path, tree: Taxonomy) -> None:
    devset = devset_of(dspy, toy)
    with OpenAIServer(see) as server, dspy.context(lm=model(dspy, server)):
        program = dspy.Predict("image: dspy.Image -> answer: str")
        plain = dspy.Evaluate(devset=devset, metric=Metric(tree, "accuracy"), num_threads=4)(program)
        told = dspy.Predict(dspy.Signature("image: dspy.Image -> answer: str", "Be careful."))
        careful = dspy.Evaluate(devset=devset, metric=Metric(tree, lambda scores: scores.hp), num_threads=4)(told)
    # Of five images of each shade three are murky: scarlet and azure are guessed right, crimson and navy wrong.
    assert plain.score == pytest.approx(100 * 14 / 20)
    assert careful.score == 100


def test_a_program_that_fails_is_dspys_to_score(dspy: Any, toy: Path, tree: Taxonomy) -> None:
    devset = devset_of(dspy, toy)[:3]

    def sometimes(request: dict[str, Any], calls: list[int] = []) -> Any:  # noqa: B006 - counts the calls
        calls.append(1)
        return see(request) if len(calls) != 2 else status(400, "bad")

    with OpenAIServer(sometimes) as server, dspy.context(lm=model(dspy, server)):
        program = dspy.Predict("image: dspy.Image -> answer: str")
        evaluate = dspy.Evaluate(devset=devset, metric=Metric(tree), num_threads=1, failure_score=math.nan)
        result = evaluate(program)
    assert math.isnan(result.score)
    assert [math.isnan(score) for _, _, score in result.results] == [False, True, False]


def test_gepa_in_dspy_learns_from_the_feedback(dspy: Any, toy: Path, tree: Taxonomy) -> None:
    devset = devset_of(dspy, toy)[5:13]
    reflected: list[str] = []

    def reflect(request: dict[str, Any]) -> str:
        reflected.append(json.dumps(request["messages"]))
        return json.dumps({"new_instruction": "Be careful.", "improved_instruction": "Be careful."})

    with OpenAIServer(see) as server, OpenAIServer(reflect) as thinker, dspy.context(lm=model(dspy, server)):
        teacher = dspy.GEPA(
            metric=Metric(tree, lambda scores: scores.hp, domain="colour"),
            max_metric_calls=60,
            reflection_lm=model(dspy, thinker),
            num_threads=1,
            use_merge=False,
        )
        program = teacher.compile(dspy.Predict("image: dspy.Image -> answer: str"), trainset=devset, valset=devset)
    assert program.signature.instructions == "Be careful."
    assert "a wrong level-2 label of the right level-1 label" in reflected[0]


@pytest.mark.parametrize(
    ("gold", "pred", "error", "message"),
    [
        ({"label": "scarlet"}, {"colour": "red"}, DataError, "no text in the field 'answer'.*answer=..."),
        ({"label": "scarlet"}, {"answer": None}, DataError, "no text in the field 'answer'"),
        ({"name": "scarlet"}, {"answer": "red"}, DataError, "no text in the field 'label'.*label=..."),
        ({"label": "bicycle"}, {"answer": "red"}, TaxonomyError, "bicycle"),
    ],
)
def test_what_cannot_be_scored(
    dspy: Any, tree: Taxonomy, gold: dict[str, Any], pred: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Metric(tree)(dspy.Example(**gold), dspy.Prediction(**pred))


def test_a_measure_of_text_is_no_metric_here(tree: Taxonomy) -> None:
    with pytest.raises(DataError, match="needs a measure of text"):
        Metric(tree, "rouge-1")
