"""Some of a template's images as MLflow traces: what was asked and said, where it was placed, what it is worth.

MLflow's own way of making traces follows code as it runs, into the one store that the process is set to. What is
recorded here has happened already and goes into the store of the run, so traces are put together whole and sent by the
client that MLflow's exporter uses itself: one call for all spans, and one for each trace.
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

__all__ = ["link_traces", "log_traces", "sample"]

_FEEDBACKS = ("hp", "hr")


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
    prompt_version: str | None = None,
) -> list[str]:
    """Records a sample of a template's images as traces, and how its proposer's model came to it as another.

    The trace of an image has the spans `ask`, `place` and `score`. The true label is its expectation, hP and hR are
    feedback on it; an image without an answer has an error in their place. Of every template the same images are
    taken, as long as they were asked about. Spans have no times of their own: an image's is its share of the
    template's.

    Args:
        store: The open store and the experiment.
        run: The MLflow run that the traces belong to.
        asked: An iteration, or a template on the held-out images.
        prompt: The rendered prompt; None where there is none.
        number: Most images to take; with 0 nothing is recorded at all.
        identity: What the template is in the run. Traces that are recorded again under the same identity replace the
            earlier ones.
        model: Name of the model that was asked.
        images: Image files by example id, for thumbnails; others have none.
        prompt_version: Address of the template in the prompt registry, "prompts:/NAME/VERSION".

    Returns:
        The ids of the traces.
    """
    from mlflow.tracing.client import TracingClient

    if number <= 0:
        return []
    ended = time.time_ns()
    seconds = asked.usage.seconds / max(1, len(asked.rows))
    made = _Traces(store.experiment, run, identity, ended - int(asked.usage.seconds * 1e9))
    for row in sample(asked.rows, number):
        made.image(row, prompt or "", seconds, model, (images or {}).get(row.example))
    if isinstance(asked, IterationRecord) and (asked.trace or asked.rejected):
        made.proposal(asked)
    client = TracingClient(store.uri)
    for info in made.infos:
        client.start_trace(info)
    if made.spans:
        client.log_spans(store.experiment, made.spans)
    if prompt_version is not None:
        _link(client, [info.trace_id for info in made.infos], prompt_version)
    return [info.trace_id for info in made.infos]


def sample(rows: Sequence[SampleResult], number: int) -> list[SampleResult]:
    """Returns up to `number` rows, chosen by their examples alone, in the order given."""
    drawn = sorted(rows, key=lambda row: hashlib.sha256(row.example.encode()).digest())[:number]
    chosen = {row.example for row in drawn}
    return [row for row in rows if row.example in chosen]


@lru_cache(64)
def _picture(file: Path) -> str | None:
    """Returns an image's small copy: every template's traces show the same images."""
    return thumbnail(file)


def link_traces(store: Store, run: str, prompt_version: str) -> None:
    """Links the traces of a run to a version of a prompt that was registered after them."""
    from mlflow.tracing.client import TracingClient

    found = store.client.search_traces(locations=[store.experiment], run_id=run, include_spans=False)
    _link(TracingClient(store.uri), [trace.info.trace_id for trace in found], prompt_version)


def _link(client: Any, traces: Sequence[str], prompt_version: str) -> None:
    from mlflow.entities.model_registry import PromptVersion

    name, version = prompt_version.removeprefix("prompts:/").rsplit("/", 1)
    for trace in traces:
        client.store.link_prompts_to_trace(trace, [PromptVersion(name, int(version), template="")])


class _Traces:
    """Traces of one template, put together.

    Args:
        experiment: Id of the experiment.
        run: The run that they belong to.
        identity: What their ids are made from, with what each is about.
        began: When the template was begun, in nanoseconds since 1970.
    """

    def __init__(self, experiment: str, run: str, identity: str, began: int) -> None:
        self._experiment, self._run, self._identity, self._began = experiment, run, identity, began
        self.infos: list[TraceInfo] = []
        self.spans: list[Span] = []

    def image(self, row: SampleResult, prompt: str, seconds: float, model: str, file: Path | None) -> None:
        """Adds the trace of one image."""
        placed = {
            "placement": row.placement,
            "stage": row.stage,
            "confidence": row.confidence,
            "off_tree": row.off_tree,
            "abstained": row.abstained,
        }
        outputs = None if row.answer is None else {"answer": row.answer, **placed}
        failed = row.failure
        picture = None if file is None else _picture(file)
        content = [] if picture is None else [{"type": "image_url", "image_url": {"url": picture}}]
        content += [{"type": "text", "text": prompt}]
        said = None if row.answer is None else {"choices": [{"message": {"role": "assistant", "content": row.answer}}]}
        trace = self._trace(
            row.example,
            "classify",
            {"image": row.image, "example": row.example},
            outputs,
            seconds=seconds,
            failure=failed,
            preview=(row.image, failed or row.placement or ""),
            assessments=_assessments(row),
        )
        asking: dict[str, Any] = {"mlflow.message.format": "openai", "from_store": row.from_store}
        if model:
            asking["mlflow.llm.model"] = model
        messages = {"messages": [{"role": "user", "content": content}]}
        trace.child("ask", "CHAT_MODEL", messages, said, asking, failure=failed, whole=True)
        if row.answer is not None:
            trace.child("place", "PARSER", {"answer": row.answer}, placed)
            worth = {"hp": row.hp, "hr": row.hr, "ihp": row.ihp, "ihr": row.ihr, **row.measures}
            known = {key: value for key, value in worth.items() if value is not None}
            told = row.remarks | ({} if row.unrated is None else {"unrated": row.unrated})
            trace.child("score", "EVALUATOR", {"placement": row.placement, "truth": row.truth}, known | told)

    def proposal(self, record: IterationRecord) -> None:
        """Adds the trace of how a proposer's model came to an iteration's template, or to none."""
        usage = {
            "input_tokens": record.usage.proposer_prompt_tokens,
            "output_tokens": record.usage.proposer_completion_tokens,
        }
        usage["total_tokens"] = sum(usage.values())
        asked = {"iteration": record.iteration}
        template = None if record.template is None else {"template": record.template, **record.parameters}
        preview = (f"Iteration {record.iteration}", record.template or record.reason or "")
        failed = record.reason if record.template is None else None
        trace = self._trace(
            "proposal", "propose", asked, template, span_type="AGENT", failure=failed, preview=preview, usage=usage
        )
        for turn in record.trace:
            if turn.tool is None:
                said = {"choices": [{"message": {"role": "assistant", "content": turn.arguments}}]}
                trace.child("reply", "CHAT_MODEL", None, said, {"result": turn.result})
            else:
                trace.child(turn.tool, "TOOL", _parsed(turn.arguments), _parsed(turn.result))
        for refused, reason in record.rejected:
            trace.child("check", "GUARDRAIL", {"template": refused}, None, failure=reason)

    def _trace(
        self,
        about: str,
        name: str,
        inputs: Any,
        outputs: Any,
        *,
        preview: tuple[str, str],
        seconds: float = 0.0,
        failure: str | None = None,
        span_type: str = "CHAIN",
        assessments: Sequence[Assessment] = (),
        usage: Mapping[str, int] | None = None,
    ) -> _Trace:
        from mlflow.entities import TraceInfo, TraceLocation, TraceState

        number = hashlib.sha256(f"{self._identity}\0{name}\0{about}".encode()).hexdigest()[:32]
        for i, assessment in enumerate(assessments):
            assessment.assessment_id = f"a-{number[:24]}{i}"
        metadata = {
            "mlflow.sourceRun": self._run,
            "mlflow.traceInputs": json.dumps(inputs),
            "mlflow.traceOutputs": json.dumps(outputs),
        }
        if usage is not None:
            metadata["mlflow.trace.tokenUsage"] = json.dumps(usage)
        info = TraceInfo(
            trace_id=f"tr-{number}",
            trace_location=TraceLocation.from_experiment_id(self._experiment),
            request_time=self._began // 1_000_000,
            execution_duration=int(seconds * 1000),
            state=TraceState.OK if failure is None else TraceState.ERROR,
            request_preview=preview[0],
            response_preview=preview[1],
            trace_metadata=metadata,
            tags={"mlflow.traceName": name, "taxtune.about": about},
            assessments=list(assessments),
        )
        self.infos.append(info)
        trace = _Trace(f"tr-{number}", self._began, self._began + int(seconds * 1e9), self.spans)
        trace.child(name, span_type, inputs, outputs, failure=failure, whole=True)
        return trace


class _Trace:
    """One trace, to which spans are added; the first is the root, and the others are its children."""

    def __init__(self, number: str, began: int, ended: int, spans: list[Span]) -> None:
        self._number, self._began, self._ended, self._spans = number, began, ended, spans
        self._count = 0

    def child(
        self,
        name: str,
        span_type: str,
        inputs: Any,
        outputs: Any,
        attributes: Mapping[str, Any] | None = None,
        *,
        failure: str | None = None,
        whole: bool = False,
    ) -> None:
        """Adds a span that takes the whole time of the trace, or no time at its end."""
        from mlflow.entities import Span

        kept = {
            "mlflow.traceRequestId": self._number,
            "mlflow.spanType": span_type,
            "mlflow.spanInputs": inputs,
            "mlflow.spanOutputs": outputs,
            **(attributes or {}),
        }
        data = {
            "trace_id": self._number,
            "span_id": self._id(self._count),
            "parent_span_id": self._id(0) if self._count else None,
            "name": name,
            "start_time_unix_nano": self._began if whole else self._ended,
            "end_time_unix_nano": self._ended,
            "status": {"code": "OK" if failure is None else "ERROR", "message": failure or ""},
            "attributes": {key: json.dumps(value) for key, value in kept.items() if value is not None},
        }
        self._spans.append(Span.from_dict(data))
        self._count += 1

    def _id(self, place: int) -> str:
        return hashlib.sha256(f"{self._number}{place}".encode()).hexdigest()[:16]


def _assessments(row: SampleResult) -> list[Assessment]:
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    source = AssessmentSource("CODE", "taxtune")
    found: list[Assessment] = [Expectation("label", row.truth, source=source)]
    for name in _FEEDBACKS:
        if (value := getattr(row, name)) is None:
            found.append(Feedback(name, error=row.failure or "There is no answer.", source=source))
        else:
            found.append(
                Feedback(name, value, source=source, rationale=f"Placed on {row.placement}; true is {row.truth}.")
            )
    return found


def _parsed(text: str) -> Any:
    """Returns JSON as what it holds, and anything else as text: arguments are as a model wrote them, or cut."""
    try:
        return json.loads(text)
    except ValueError:
        return text
