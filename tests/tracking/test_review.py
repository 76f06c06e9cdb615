"""The review queue of a run's traces, in a store on disk."""

from __future__ import annotations

from taxtune.audit.verdicts import VERDICTS
from taxtune.tracking.entities import log_traces, queue_traces, traces_of
from taxtune.tracking.store import open_store
from tests.report import samples


def test_a_queue_asks_about_each_trace_once_and_verdicts_survive_a_second_record(tmp_path):
    from mlflow.entities import AssessmentSource, Feedback
    from mlflow.tracing.client import TracingClient

    store = open_store("reviewed", tmp_path, f"sqlite:///{tmp_path}/mlflow.db")
    run = str(store.client.create_run(store.experiment, run_name="birds (hp)").info.run_id)
    record = samples.iteration(1, images=4)

    def recorded():
        traces = log_traces(
            store,
            run,
            record,
            lambda row: "Which bird?",
            name=traces_of("winner"),
            number=9,
            identity=run,
        )
        queue_traces(store, run, traces)
        return traces

    first, *others = recorded()
    client = TracingClient(store.uri)
    person = AssessmentSource("HUMAN", "ann")
    client.log_assessment(first, Feedback("placement", value="wrong", source=person))
    assert recorded() == [first, *others]  # as when the run is resumed
    assessments = store.client.get_trace(first).info.assessments
    assert [each.value for each in assessments if each.name == "placement"] == ["wrong"]

    (queue,) = client._list_review_queues(store.experiment)
    assert queue.name == f"birds (hp), run {run[:8]}"
    items = client._list_review_queue_items(queue.queue_id)
    assert sorted(item.item_id for item in items) == sorted([first, *others])
    question = client._get_label_schema_by_name(store.experiment, "placement")
    assert question.input.options == list(VERDICTS)
    assert queue.schema_ids == [question.schema_id]
