"""The review queue of a run's traces, and what people say in it, in a store on disk."""

from __future__ import annotations

import pytest

from taxtune.tracking.entities import log_traces
from taxtune.tracking.review import queue_traces, read_judged, traces_of
from taxtune.tracking.store import open_store
from tests.report import samples


def test_what_people_say_is_read_back_and_survives_a_second_record(tmp_path):
    from mlflow.entities import AssessmentSource, Expectation, Feedback
    from mlflow.tracing.client import TracingClient

    store = open_store("reviewed", tmp_path, f"sqlite:///{tmp_path}/mlflow.db")
    run = str(store.client.create_run(store.experiment, run_name="birds (hp)").info.run_id)
    record = samples.iteration(1, images=4)

    def recorded(template):
        traces = log_traces(
            store,
            run,
            record,
            lambda row: "Which bird?",
            name=traces_of(template),
            number=9,
            identity=template,
        )
        queue_traces(store, run, traces)
        return traces

    first, second, *_ = recorded("winner")
    client = TracingClient(store.uri)
    person = AssessmentSource("HUMAN", "ann")
    machine = AssessmentSource("LLM_JUDGE", "gpt-4o")
    client.log_assessment(first, Feedback("placement", value="wrong", source=person))
    client.log_assessment(first, Feedback("placement", value="too general", source=person))
    client.log_assessment(first, Expectation("node", value="Turdus merula", source=person))
    client.log_assessment(second, Feedback("placement", value=True, source=machine))
    client.log_assessment(second, Feedback("tone", value="kind", source=person))
    recorded("winner")  # as when the run is resumed

    judged = {each.trace: each for each in read_judged(store, run, "winner")}
    assert len(judged) == 4
    assert (judged[first].verdict, judged[first].node) == ("too general", "Turdus merula")
    assert (judged[second].verdict, judged[second].node) == (None, None)
    rows = {row.example: row for row in record.rows}
    for each in judged.values():
        row = rows[each.example]
        assert (each.placement or None, each.stage or None) == (row.placement, row.stage)
    assert read_judged(store, run, "baseline") == []

    (queue,) = client._list_review_queues(store.experiment)
    assert queue.name == f"birds (hp), run {run[:8]}"
    items = client._list_review_queue_items(queue.queue_id)
    assert {item.item_id for item in items} == set(judged)
    question = client._get_label_schema_by_name(store.experiment, "placement")
    assert question.input.options == ["right", "too general", "wrong"]
    assert queue.schema_ids == [question.schema_id]


@pytest.mark.heavy
def test_more_traces_than_a_page_are_all_read(tmp_path):
    store = open_store("paged", tmp_path, f"sqlite:///{tmp_path}/mlflow.db")
    run = str(store.client.create_run(store.experiment).info.run_id)
    log_traces(
        store,
        run,
        samples.iteration(1, images=120),
        lambda row: "",
        name=traces_of("winner"),
        number=120,
        identity="winner",
    )
    assert len(read_judged(store, run, "winner")) == 120
