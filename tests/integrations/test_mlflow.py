"""taxtune's scores as a scorer of `mlflow.genai.evaluate`, into a store on disk and without a network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taxtune.errors import DataError
from taxtune.integrations.mlflow import scorer
from taxtune.metrics import score
from taxtune.taxonomy import Taxonomy
from taxtune.tracking.store import open_store
from taxtune.tracking.traces import log_traces
from taxtune.tuning.records import IterationRecord, SampleResult

TREE = Taxonomy.from_dict({"bird": {"duck": ["mallard", "teal"], "owl": ["tawny owl", "barn owl"]}})
OFF = TREE.root
ROWS = {
    "a mallard": ("mallard", "mallard"),
    "A teal, I think.": ("teal", "bird/duck/mallard"),
    "some duck": ("duck", "mallard"),
    "a bicycle": (None, "mallard"),  # off the tree
    "I cannot tell.": ("bird", "tawny owl"),
}


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Evaluates rows with MLflow, and gives what it made of each: feedbacks by name."""
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no look at prices on the web
        patch.delenv("MLFLOW_EXPERIMENT_ID", raising=False)
        import mlflow

        mlflow.tracing.reset()  # its exporter may know the store of another test

        def evaluated(rows: list[dict[str, Any]], **settings: Any) -> tuple[dict[str, float], list[dict[str, Any]]]:
            data = [{"inputs": {"row": i}, **row} for i, row in enumerate(rows)]
            found = mlflow.genai.evaluate(data=data, scorers=[scorer(TREE, **settings)])
            traces = sorted(
                mlflow.search_traces(run_id=found.run_id, return_type="list"),
                key=lambda trace: trace.data.spans[0].inputs["row"],
            )
            feedbacks = [
                {each.name: each for each in trace.info.assessments if each.feedback is not None} for trace in traces
            ]
            return found.metrics, feedbacks

        yield evaluated
        mlflow.tracing.reset()


def test_mlflow_finds_the_scores_that_taxtune_has(evaluate: Any) -> None:
    rows = [{"outputs": said, "expectations": {"label": label}} for said, (_, label) in ROWS.items()]
    names = ("hp", "hr", "accuracy", "depth", "off_tree", "abstained")
    metrics, feedbacks = evaluate(rows, scores=names)
    nodes = [OFF if node is None else TREE.resolve(node) for node, _ in ROWS.values()]
    targets = [TREE.resolve(label) for _, label in ROWS.values()]
    own = score(TREE, nodes, targets, off_tree=[node is None for node, _ in ROWS.values()])
    for name in ("hp", "hr", "accuracy", "depth"):
        assert metrics[f"{name}/mean"] == pytest.approx(getattr(own, name)), name
    assert metrics["off_tree/mean"] == metrics["abstained/mean"] == pytest.approx(1 / 5)
    assert [each["hp"].value for each in feedbacks] == pytest.approx([1, 2 / 3, 1, 1 / 2, 1])
    assert "bird/duck/teal" in feedbacks[1]["hp"].rationale
    assert {each.source.source_type for found in feedbacks for each in found.values()} == {"CODE"}


def test_what_has_no_answer_or_no_label_is_an_error_and_never_zero(evaluate: Any) -> None:
    metrics, feedbacks = evaluate(
        [
            {"outputs": {"answer": "a mallard", "sure": True}, "expectations": {"label": "mallard"}},
            {"outputs": {"sure": False}, "expectations": {"label": "mallard"}},
            {"outputs": None, "expectations": {"label": "mallard"}},
            {"outputs": "a mallard", "expectations": {"label": "mallrad"}},
            {"outputs": "a mallard", "expectations": {"other": "mallard"}},
        ]
    )
    assert metrics == {"hp/mean": 1.0, "hr/mean": 1.0, "accuracy/mean": 1.0}
    assert all(each.value is None for found in feedbacks[1:] for each in found.values())
    errors = [found["hr"].error.error_message for found in feedbacks[1:]]
    named = ["outputs['answer']", "outputs['answer']", "mallrad", "expectations['label']"]
    for said, error in zip(named, errors, strict=True):
        assert said in error


def test_the_traces_of_a_run_can_be_scored(evaluate: Any, tmp_path: Path) -> None:
    import mlflow

    store = open_store("traced", tmp_path, os.environ["MLFLOW_TRACKING_URI"])
    run = store.client.create_run(store.experiment).info.run_id
    answers = {"right": "a mallard", "wrong": "a teal", "silent": None}
    rows = tuple(
        SampleResult(name, f"{name}.jpg", 2, "bird/duck/mallard", said, failure=None if said else "timed out")
        for name, said in answers.items()
    )
    log_traces(store, run, IterationRecord(0, "complete", "x", rows=rows), "x", number=9, identity=run)
    traces = mlflow.search_traces(locations=[store.experiment], run_id=run)
    found = mlflow.genai.evaluate(data=traces, scorers=[scorer(TREE, name="again", scores=("hp", "depth"))])
    assert found.metrics["depth/mean"] == 2
    assert found.metrics["hp/mean"] == pytest.approx((1 + 2 / 3) / 2)  # of the two that have an answer


def test_an_unknown_score_names_those_that_there_are() -> None:
    with pytest.raises(DataError, match="hr, hf"):
        scorer(TREE, ("hp", "precision"))
