"""Images and proposals as MLflow traces, read back from a store on disk."""

from __future__ import annotations

import pytest
from PIL import Image

from taxtune.tracking.entities import log_traces
from taxtune.tracking.store import open_store
from tests.report import samples


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One store for the module: MLflow takes seconds to make one."""
    folder = tmp_path_factory.mktemp("store")
    return open_store("traced", folder, f"sqlite:///{folder}/mlflow.db")


@pytest.fixture
def run(store):
    return str(store.client.create_run(store.experiment).info.run_id)


def traces_of(store, run):
    return list(store.client.search_traces(locations=[store.experiment], run_id=run))


def trace_of(store, ids, row):
    traces = [store.client.get_trace(each) for each in ids]
    return next(trace for trace in traces if trace.info.tags["taxtune.about"] == row.example)


def assessments(trace):
    found = {each.name: each for each in trace.info.assessments}
    assert len(found) == len(trace.info.assessments)
    return found


def test_a_trace_says_what_was_asked_placed_and_scored(store, run, tmp_path):
    record = samples.iteration(1, images=3)
    record.rows[2].scores["depth"] = 2.0  # which no trace shows
    Image.new("RGB", (900, 300), (200, 30, 30)).save(tmp_path / "bird.png")
    images = {"bird-002": tmp_path / "bird.png"}
    ids = log_traces(
        store,
        run,
        record,
        lambda row: "Which bird?",
        name="winner, held out",
        number=9,
        identity=run,
        model="openai/gpt-4o",
        images=images,
    )
    assert {trace.info.trace_id for trace in traces_of(store, run)} == set(ids)
    assert len(ids) == 3  # failures included

    row = record.rows[2]
    trace = trace_of(store, ids, row)
    (span,) = trace.data.spans
    # All that a person judges by is on the trace's first page.
    picture, words = span.inputs["messages"][0]["content"]
    assert picture["image_url"]["url"].startswith("data:image/jpeg;base64,")
    assert len(picture["image_url"]["url"]) < 10_000
    assert words["text"] == "Which bird?"
    said = span.outputs["choices"][0]["message"]["content"]
    for part in (row.answer, f"placed on: {row.placement}", f"truth: {row.truth}"):
        assert part in said
        assert part in trace.info.response_preview
    known = {"answer": row.answer, "placement": row.placement, "stage": row.stage}
    known |= {name: row.scores[name] for name in ("hp", "hr", "ihp", "ihr")}
    assert {name: span.get_attribute(name) for name in known} == known
    assert span.get_attribute("depth") is None
    assert span.get_attribute("mlflow.llm.model") == "openai/gpt-4o"
    assert span.get_attribute("from_store") is row.from_store

    found = assessments(trace)
    assert found["label"].expectation.value == row.truth
    assert (found["hp"].value, found["hr"].value) == (row.hp, row.hr)
    assert found["hp"].source.source_type == "CODE"
    assert trace.info.state == "OK"
    # An image's time is its share of the iteration's.
    assert trace.info.execution_duration == pytest.approx(record.usage.seconds * 1000 / 3, abs=1)


def test_an_image_without_an_answer_is_an_error_and_has_no_score(store, run):
    record = samples.iteration(1, images=3)
    ids = log_traces(
        store, run, record, lambda row: "Which bird?", name="baseline", number=9, identity=run
    )
    trace = trace_of(store, ids, record.rows[1])
    assert trace.info.state == "ERROR"
    (span,) = trace.data.spans
    assert span.outputs is None
    assert span.get_attribute("hp") is None
    found = assessments(trace)
    assert found["hp"].value is None
    assert (
        found["hp"].error.error_message == found["hr"].error.error_message == "timed out after 60 s"
    )


def test_recorded_again_a_trace_is_there_once(store, run):
    record = samples.iteration(1, images=3)
    later = str(store.client.create_run(store.experiment).info.run_id)
    first, second = (
        log_traces(
            store,
            into,
            record,
            lambda row: "Which bird?",
            name="iteration 01, tuning",
            number=9,
            identity=f"{run}/1",
        )
        for into in (run, later)
    )
    assert first == second
    assert traces_of(store, run) == []
    (trace, *_) = traces_of(store, later)
    assert len(assessments(trace)) == 3
    assert len({span.span_id for span in trace.data.spans}) == len(trace.data.spans)
