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
    from mlflow.entities import Assessment

__all__ = ["log_traces", "sample"]

_picture = lru_cache(64)(thumbnail)  # every template's traces show the same images


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
    from mlflow.entities import Span, TraceInfo, TraceLocation, TraceState
    from mlflow.tracing.client import TracingClient

    seconds = asked.usage.seconds / max(1, len(asked.rows))
    began = time.time_ns() - int(asked.usage.seconds * 1e9)
    ended = began + int(seconds * 1e9)
    infos, spans = [], []
    for row in sample(asked.rows, number):
        key = _hash(f"{identity}\0{row.example}", 32)
        trace_id = f"tr-{key}"
        steps = _steps(row, prompt or "", model, (images or {}).get(row.example))
        assessments = _assessments(row)
        for i, assessment in enumerate(assessments):
            assessment.assessment_id = f"a-{key[:24]}{i}"
        infos.append(
            TraceInfo(
                trace_id=trace_id,
                trace_location=TraceLocation.from_experiment_id(store.experiment),
                request_time=began // 1_000_000,
                execution_duration=int(seconds * 1000),
                state=TraceState.OK if row.failure is None else TraceState.ERROR,
                request_preview=row.image,
                response_preview=row.failure or row.placement or "",
                trace_metadata={
                    "mlflow.sourceRun": run,
                    "mlflow.traceInputs": steps[0]["mlflow.spanInputs"],
                    "mlflow.traceOutputs": steps[0].get("mlflow.spanOutputs", "null"),
                },
                tags={"mlflow.traceName": "classify", "taxtune.about": row.example},
                assessments=assessments,
            )
        )
        for i, (name, step) in enumerate(zip(("classify", "ask", "place", "score"), steps, strict=False)):
            data = {
                "trace_id": trace_id,
                "span_id": _hash(f"{trace_id}{i}", 16),
                "parent_span_id": _hash(f"{trace_id}0", 16) if i else None,
                "name": name,
                "start_time_unix_nano": began if i < 2 else ended,  # the model takes the time
                "end_time_unix_nano": ended,
                "status": {"code": "OK" if row.failure is None else "ERROR", "message": row.failure or ""},
                "attributes": {"mlflow.traceRequestId": json.dumps(trace_id), **step},
            }
            spans.append(Span.from_dict(data))
    client = TracingClient(store.uri)
    for info in infos:
        client.start_trace(info)
    if spans:
        client.log_spans(store.experiment, spans)
    return [info.trace_id for info in infos]


def sample(rows: Sequence[SampleResult], number: int) -> list[SampleResult]:
    """Returns up to `number` rows, chosen by their examples alone, in the order given."""
    drawn = sorted(rows, key=lambda row: hashlib.sha256(row.example.encode()).digest())[: max(0, number)]
    chosen = {row.example for row in drawn}
    return [row for row in rows if row.example in chosen]


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _steps(row: SampleResult, prompt: str, model: str, file: Path | None) -> list[dict[str, str]]:
    """Returns the attributes of an image's spans: all, `ask`, and where there is an answer `place` and `score`."""

    def step(kind: str, inputs: Any, outputs: Any, **more: Any) -> dict[str, str]:
        values = {"mlflow.spanType": kind, "mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs, **more}
        return {key: json.dumps(value) for key, value in values.items() if value is not None}

    picture = None if file is None else _picture(file)
    content: list[Any] = [] if picture is None else [{"type": "image_url", "image_url": {"url": picture}}]
    messages = {"messages": [{"role": "user", "content": [*content, {"type": "text", "text": prompt}]}]}
    asked = {"mlflow.message.format": "openai", "from_store": row.from_store, "mlflow.llm.model": model or None}
    image = {"image": row.image, "example": row.example}
    if row.answer is None:
        return [step("CHAIN", image, None), step("CHAT_MODEL", messages, None, **asked)]
    reply = {"choices": [{"message": {"role": "assistant", "content": row.answer}}]}
    placed = {key: getattr(row, key) for key in ("placement", "stage", "confidence", "off_tree", "abstained")}
    scores = {"hp": row.hp, "hr": row.hr, "ihp": row.ihp, "ihr": row.ihr, **row.measures, "unrated": row.unrated}
    scored = {key: value for key, value in scores.items() if value is not None} | row.remarks
    return [
        step("CHAIN", image, {"answer": row.answer, **placed}),
        step("CHAT_MODEL", messages, reply, **asked),
        step("PARSER", {"answer": row.answer}, placed),
        step("EVALUATOR", {"placement": row.placement, "truth": row.truth}, scored),
    ]


def _assessments(row: SampleResult) -> list[Assessment]:
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    source = AssessmentSource("CODE", "taxtune")
    assessments: list[Assessment] = [Expectation("label", row.truth, source=source)]
    for name, value in (("hp", row.hp), ("hr", row.hr)):
        if value is None:
            assessments.append(Feedback(name, error=row.failure or "There is no answer.", source=source))
        else:
            why = f"Placed on {row.placement}; true is {row.truth}."
            assessments.append(Feedback(name, value, source=source, rationale=why))
    return assessments
