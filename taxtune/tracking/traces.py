"""Some of a template's images as MLflow traces: prompt, answer, placement and scores.

MLflow's own way of making traces follows code as it runs. The records here are of the past, so traces are put together
whole, with ids that the records determine (recorded again, a trace replaces itself), and sent by the client that
MLflow's exporter uses itself: one call for all spans, and one per trace.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.report.pictures import thumbnail
from taxtune.tracking.store import Store
from taxtune.tuning.records import HeldoutResult, IterationRecord, SampleResult

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Span, TraceInfo

__all__ = ["log_traces", "sample"]

#: A span: its name, type, inputs, outputs, further attributes, the failure, and whether it takes the trace's time.
_Step = tuple[str, str, Any, Any, Mapping[str, Any], str | None, bool]


def log_traces(
    store: Store,
    run: str,
    asked: IterationRecord | HeldoutResult,
    prompt: str | None,
    *,
    number: int,
    identity: str,
    model: str = "",
    images: Mapping[str, Path] | None = None,
) -> list[str]:
    """Records a sample of a template's images as traces.

    The trace of an image has the spans `ask`, `place` and `score`. The true label is its expectation, hP and hR are
    feedback on it; an image without an answer has an error instead. Every template has traces of the same images, as
    long as they were asked about. An image's time is its share of the template's.

    Args:
        store: The open store and the experiment.
        run: The MLflow run that the traces belong to.
        asked: An iteration, or a template on the held-out images.
        prompt: The rendered prompt, if there is one.
        number: Most images to take; with 0 nothing is recorded at all.
        identity: The template's identity in the run; traces of the same identity are replaced.
        model: Name of the model that was asked.
        images: Image files by example id, for thumbnails; others have none.

    Returns:
        The ids of the traces.
    """
    from mlflow.tracing.client import TracingClient

    if number <= 0:
        return []
    began = time.time_ns() - int(asked.usage.seconds * 1e9)
    seconds = asked.usage.seconds / max(1, len(asked.rows))
    infos: list[TraceInfo] = []
    spans: list[Span] = []

    for row in sample(asked.rows, number):
        steps = _image_steps(row, prompt or "", model, (images or {}).get(row.example))
        info, made = _trace(store.experiment, run, identity, row, steps, began, seconds)
        infos.append(info)
        spans.extend(made)
    client = TracingClient(store.uri)
    for info in infos:
        client.start_trace(info)
    if spans:
        client.log_spans(store.experiment, spans)
    return [info.trace_id for info in infos]


def sample(rows: Sequence[SampleResult], number: int) -> list[SampleResult]:
    """Returns up to `number` rows, chosen by their examples alone, in the order given."""
    drawn = sorted(rows, key=lambda row: hashlib.sha256(row.example.encode()).digest())[:number]
    chosen = {row.example for row in drawn}
    return [row for row in rows if row.example in chosen]


@lru_cache(64)
def _picture(file: Path) -> str | None:
    """Returns an image's small copy: every template's traces show the same images."""
    return thumbnail(file)


def _image_steps(row: SampleResult, prompt: str, model: str, file: Path | None) -> list[_Step]:
    picture = None if file is None else _picture(file)
    content: list[Any] = [] if picture is None else [{"type": "image_url", "image_url": {"url": picture}}]
    messages = {"messages": [{"role": "user", "content": [*content, {"type": "text", "text": prompt}]}]}
    attributes = {"mlflow.message.format": "openai", "from_store": row.from_store}
    attributes |= {"mlflow.llm.model": model} if model else {}
    placed = {key: getattr(row, key) for key in ("placement", "stage", "confidence", "off_tree", "abstained")}
    inputs = {"image": row.image, "example": row.example}
    if row.answer is None:
        return [
            ("classify", "CHAIN", inputs, None, {}, row.failure, True),
            ("ask", "CHAT_MODEL", messages, None, attributes, row.failure, True),
        ]
    reply = {"choices": [{"message": {"role": "assistant", "content": row.answer}}]}
    scores = {"hp": row.hp, "hr": row.hr, "ihp": row.ihp, "ihr": row.ihr, **row.measures}
    scored = {key: value for key, value in scores.items() if value is not None}
    remarks = row.remarks | ({} if row.unrated is None else {"unrated": row.unrated})
    return [
        ("classify", "CHAIN", inputs, {"answer": row.answer, **placed}, {}, row.failure, True),
        ("ask", "CHAT_MODEL", messages, reply, attributes, row.failure, True),
        ("place", "PARSER", {"answer": row.answer}, placed, {}, None, False),
        ("score", "EVALUATOR", {"placement": row.placement, "truth": row.truth}, scored | remarks, {}, None, False),
    ]


def _trace(
    experiment: str, run: str, identity: str, row: SampleResult, steps: Sequence[_Step], began: int, seconds: float
) -> tuple[TraceInfo, list[Span]]:
    """Returns a trace and its spans: the first step is the root, the others are its children."""
    from mlflow.entities import Span, TraceInfo, TraceLocation, TraceState

    name, _, inputs, outputs, _, failure, _ = steps[0]
    number = hashlib.sha256(f"{identity}\0{row.example}\0{name}".encode()).hexdigest()[:32]
    ended = began + int(seconds * 1e9)
    assessments = _assessments(row)
    for i, assessment in enumerate(assessments):
        assessment.assessment_id = f"a-{number[:24]}{i}"
    metadata = {
        "mlflow.sourceRun": run,
        "mlflow.traceInputs": json.dumps(inputs),
        "mlflow.traceOutputs": json.dumps(outputs),
    }
    info = TraceInfo(
        trace_id=f"tr-{number}",
        trace_location=TraceLocation.from_experiment_id(experiment),
        request_time=began // 1_000_000,
        execution_duration=int(seconds * 1000),
        state=TraceState.OK if failure is None else TraceState.ERROR,
        request_preview=row.image,
        response_preview=row.failure or row.placement or "",
        trace_metadata=metadata,
        tags={"mlflow.traceName": name, "taxtune.about": row.example},
        assessments=assessments,
    )
    ids = [hashlib.sha256(f"tr-{number}{i}".encode()).hexdigest()[:16] for i in range(len(steps))]
    spans = []
    for i, (span, kind, given, made, attributes, failed, whole) in enumerate(steps):
        kept = {
            "mlflow.traceRequestId": f"tr-{number}",
            "mlflow.spanType": kind,
            "mlflow.spanInputs": given,
            "mlflow.spanOutputs": made,
            **attributes,
        }
        data = {
            "trace_id": f"tr-{number}",
            "span_id": ids[i],
            "parent_span_id": ids[0] if i else None,
            "name": span,
            "start_time_unix_nano": began if whole else ended,
            "end_time_unix_nano": ended,
            "status": {"code": "OK" if failed is None else "ERROR", "message": failed or ""},
            "attributes": {key: json.dumps(value) for key, value in kept.items() if value is not None},
        }
        spans.append(Span.from_dict(data))
    return info, spans


def _assessments(row: SampleResult) -> list[Assessment]:
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    source = AssessmentSource("CODE", "taxtune")
    assessments: list[Assessment] = [Expectation("label", row.truth, source=source)]
    for name in ("hp", "hr"):
        if (value := getattr(row, name)) is None:
            assessments.append(Feedback(name, error=row.failure or "There is no answer.", source=source))
        else:
            why = f"Placed on {row.placement}; true is {row.truth}."
            assessments.append(Feedback(name, value, source=source, rationale=why))
    return assessments
