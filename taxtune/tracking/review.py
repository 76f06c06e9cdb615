"""Placements for people to judge in MLflow, and what they said of them.

The traces of the winner's held-out images are in a review queue, whose question is the feedback
`placement`; the same feedback may be given on any trace, and the expectation `node` beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from taxtune.mapping.config import VERDICTS
from taxtune.tracking.store import TrackingStore

__all__ = ["EXAMPLE", "PLACEMENT", "STAGE", "Judged", "queue_traces", "read_judged", "traces_of"]

#: Tags of a trace: the image that it is about, the node that the answer was placed on, the stage
#: that placed it.
EXAMPLE = "taxtune.about"
PLACEMENT = "taxtune.placement"
STAGE = "taxtune.stage"
#: The names under which people assess a trace: the verdict, and the node on which the answer
#: belongs.
_VERDICT = "placement"
_NODE = "node"
_QUESTION = (
    "Is the answer placed on the right node? Judge the text, not the photo. right: the node is what "
    "the answer says. too general: a node below it fits as well. wrong: the answer says something "
    "else, or less."
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A placement in MLflow, judged by a person or not.

    Attributes:
        trace: The trace's id.
        example: The image's id.
        placement: Path of the node that the answer was placed on.
        stage: The mapper's stage that placed it.
        verdict: What the last person who judged it said, as it is there; None if nobody did.
        node: The node that a person named; None if nobody did.
    """

    trace: str
    example: str
    placement: str
    stage: str
    verdict: Any = None
    node: Any = None


def traces_of(template: str) -> str:
    """Returns the name of the traces of a template on the held-out images."""
    return f"{template}, held out"


def queue_traces(store: TrackingStore, run: str, traces: Sequence[str]) -> None:
    """Puts traces into the review queue of a run, which is made if there is none yet."""
    from mlflow.exceptions import MlflowException
    from mlflow.genai.label_schemas import InputCategorical
    from mlflow.tracing.client import TracingClient

    client = TracingClient(store.uri)
    try:
        question = client._get_label_schema_by_name(store.experiment, _VERDICT)
    except MlflowException:
        question = client._create_label_schema(
            store.experiment,
            name=_VERDICT,
            type="feedback",
            input=InputCategorical(options=list(VERDICTS)),
            instruction=_QUESTION,
        )
    name = f"{store.client.get_run(run).info.run_name}, run {run[:8]}"
    try:
        queue = client._get_review_queue_by_name(store.experiment, name)
    except MlflowException:
        queue = client._create_review_queue(
            store.experiment, name=name, queue_type="custom", schema_ids=[question.schema_id]
        )
    client._add_items_to_review_queue(queue.queue_id, item_ids=list(traces))


def read_judged(store: TrackingStore, run: str, template: str) -> list[Judged]:
    """Returns a template's traces of held-out images, with what people said of the placements.

    Args:
        store: The open store and the experiment.
        run: The MLflow run.
        template: The template's name, "winner" or "baseline".
    """
    found = []
    token = None
    while True:
        page = store.client.search_traces(
            locations=[store.experiment],
            run_id=run,
            filter_string=f"trace.name = '{traces_of(template)}'",
            include_spans=False,
            page_token=token,
        )
        found += [_judged(trace.info) for trace in page]
        token = page.token
        if not token:
            return found


def _judged(info: Any) -> Judged:
    said: dict[str, Any] = {}
    for each in sorted(info.assessments, key=lambda each: each.last_update_time_ms):
        if each.source.source_type == "HUMAN" and each.valid is not False:
            said[each.name] = getattr(each, "value", None)
    return Judged(
        trace=info.trace_id,
        example=info.tags.get(EXAMPLE, ""),
        placement=info.tags.get(PLACEMENT, ""),
        stage=info.tags.get(STAGE, ""),
        verdict=said.get(_VERDICT),
        node=said.get(_NODE),
    )
