"""A run's images as traces, its templates as versions of a prompt, its winner as a model, in MLflow.

A recipe has one prompt. Its baseline is the first version that a run registers, each template that
became the best so far is one after it, and an alias named after the objective is on the winner's;
the runs of a comparison share versions and differ in the alias. The functions work on the store in
force and the active run (`store.in_force`).
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from taxtune.metrics.names import metric_name
from taxtune.metrics.table import TemplateScores
from taxtune.report.formatting import number
from taxtune.report.gallery import thumbnail
from taxtune.report.summary import verdict
from taxtune.serving.pyfunc import as_pyfunc
from taxtune.tracking.store import TrackingStore
from taxtune.tracking.values import TAG_LIMIT, headline_metrics, shorten
from taxtune.tuning.records import HeldoutResult, IterationRecord, SampleResult, TuneResult
from taxtune.tuning.selection import best_so_far

__all__ = [
    "CHAMPION",
    "TARGET_REACHED",
    "log_classifier",
    "log_traces",
    "register_prompts",
    "registered_name",
]

#: The alias of the version that is to be used.
CHAMPION = "champion"
#: The tag of runs and versions that says whether the winner is "certified", "passes-alone" or an
#: "estimate".
TARGET_REACHED = "taxtune.target_reached"
_RUN = "taxtune.run"
_ITERATION = "taxtune.iteration"
#: Attributes of an image's spans, by the span's name, as JSON.
Steps = dict[str, dict[str, str]]


def log_traces(
    store: TrackingStore,
    run: str,
    template: IterationRecord | HeldoutResult,
    prompt: Callable[[SampleResult], str],
    *,
    number: int,
    identity: str,
    model: str = "",
    images: Mapping[str, Path] | None = None,
) -> list[str]:
    """Records a sample of a template's images as traces.

    They are put together whole, since MLflow's own way of making traces follows code as it runs. The
    trace of an image has the spans `ask`, `place` and `score`; its time is the image's share of the
    template's. The true label is its expectation, hP and hR are feedback on it; an image without an
    answer has an error instead. Every template has traces of the same images, as long as they were
    asked about. Ids follow from the identity: recorded again, a trace replaces itself. A store that
    takes no spans gets none.

    Args:
        store: The open store and the experiment.
        run: The MLflow run that the traces belong to.
        template: An iteration, or a template on the held-out images.
        prompt: Returns the prompt of a row.
        number: Most images to take.
        identity: The template's identity in the run.
        model: Name of the model that was asked.
        images: Image files by example id, for thumbnails; others have none.

    Returns:
        The ids of the traces.
    """
    from mlflow.tracing.client import TracingClient

    if not store.spans:
        return []
    client = TracingClient(store.uri)
    seconds = template.usage.seconds / max(1, len(template.rows))
    began = time.time_ns() - int(template.usage.seconds * 1e9)
    ids = []
    spans: list[Any] = []
    for row in sorted(template.rows, key=lambda row: _hash(row.example, 64))[:number]:
        trace = "tr-" + _hash(f"{identity}\0{row.example}", 32)
        steps = _steps(row, prompt(row), model, (images or {}).get(row.example))
        client.start_trace(_trace_info(row, trace, run, store.experiment, began, seconds, steps))
        spans += _spans(row, trace, began, began + int(seconds * 1e9), steps)
        ids.append(trace)
    if spans:
        client.log_spans(store.experiment, spans)
    return ids


def _trace_info(
    row: SampleResult,
    trace: str,
    run: str,
    experiment: str,
    began: int,
    seconds: float,
    steps: Steps,
) -> Any:
    """Returns the head of a trace, which has no spans; it began at a time in nanoseconds."""
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    whole = steps["classify"]
    return TraceInfo(
        trace_id=trace,
        trace_location=TraceLocation.from_experiment_id(experiment),
        request_time=began // 1_000_000,
        execution_duration=int(seconds * 1000),
        state=TraceState(_status(row)),
        request_preview=row.image,
        response_preview=row.failure or row.placement or "",
        trace_metadata={
            "mlflow.sourceRun": run,
            "mlflow.traceInputs": whole["mlflow.spanInputs"],
            "mlflow.traceOutputs": whole["mlflow.spanOutputs"],
        },
        tags={"mlflow.traceName": "classify", "taxtune.about": row.example},
        assessments=_assessments(row, trace),
    )


def _assessments(row: SampleResult, trace: str) -> list[Any]:
    """Returns the true label as an expectation, and hP and hR as feedback."""
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    source = AssessmentSource("CODE", "taxtune")
    error = row.failure or "There is no answer."
    made: list[Any] = [Expectation("label", row.truth, source=source)]
    for name, value in {"hp": row.hp, "hr": row.hr}.items():
        if value is None:
            made.append(Feedback(name, source=source, error=error))
        else:
            made.append(Feedback(name, source=source, value=value))
    for i, assessment in enumerate(made):
        assessment.assessment_id = f"a-{trace.removeprefix('tr-')[:24]}{i}"
    return made


def _spans(row: SampleResult, trace: str, began: int, ended: int, steps: Steps) -> list[Any]:
    """Returns the spans of a trace; the first one is the parent of the others."""
    from mlflow.entities import Span

    spans = []
    for i, (name, attributes) in enumerate(steps.items()):
        span = {
            "trace_id": trace,
            "span_id": _hash(f"{trace}{i}", 16),
            "parent_span_id": _hash(f"{trace}0", 16) if i else None,
            "name": name,
            "start_time_unix_nano": began if i < 2 else ended,  # the model takes the time
            "end_time_unix_nano": ended,
            "status": {"code": _status(row), "message": row.failure or ""},
            "attributes": {"mlflow.traceRequestId": json.dumps(trace), **attributes},
        }
        spans.append(Span.from_dict(span))
    return spans


def _status(row: SampleResult) -> str:
    return "OK" if row.failure is None else "ERROR"


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _steps(row: SampleResult, prompt: str, model: str, file: Path | None) -> Steps:
    """Returns the steps of an image; without an answer none places or scores it."""
    picture = None if file is None else thumbnail(file)
    content: list[Any] = [{"type": "text", "text": prompt}]
    if picture is not None:
        content.insert(0, {"type": "image_url", "image_url": {"url": picture}})
    messages = {"messages": [{"role": "user", "content": content}]}
    asked = {"mlflow.message.format": "openai", "from_store": row.from_store}
    if model:
        asked["mlflow.llm.model"] = model
    image = {"image": row.image, "example": row.example}
    if row.answer is None:
        return {
            "classify": _step("CHAIN", image, None),
            "ask": _step("CHAT_MODEL", messages, None) | _as_json(asked),
        }
    reply = {"choices": [{"message": {"role": "assistant", "content": row.answer}}]}
    placed = {
        "placement": row.placement,
        "stage": row.stage,
        "confidence": row.confidence,
        "off_tree": row.off_tree,
        "abstained": row.abstained,
    }
    scores = {**row.scores, **row.measures}
    scored: dict[str, Any] = {key: value for key, value in scores.items() if value is not None}
    if row.unrated is not None:
        scored["unrated"] = row.unrated
    compared = {"placement": row.placement, "truth": row.truth}
    return {
        "classify": _step("CHAIN", image, {"answer": row.answer, **placed}),
        "ask": _step("CHAT_MODEL", messages, reply) | _as_json(asked),
        "place": _step("PARSER", {"answer": row.answer}, placed),
        "score": _step("EVALUATOR", compared, scored | row.remarks),
    }


def _step(kind: str, inputs: object, outputs: object) -> dict[str, str]:
    return _as_json(
        {"mlflow.spanType": kind, "mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs}
    )


def _as_json(values: Mapping[str, object]) -> dict[str, str]:
    return {key: json.dumps(value) for key, value in values.items()}


# -- templates as prompts --------------------------------------------------------------------------


def registered_name(name: str, *, dots: bool = False) -> str:
    """Returns a name for the registry; what MLflow does not take become dashes (models: dots too)."""
    foreign = r"[^A-Za-z0-9_.-]+" if dots else r"[^A-Za-z0-9_-]+"
    return re.sub(foreign, "-", name).strip("-") or "taxtune"


def register_prompts(
    result: TuneResult, *, root: str, runs: Mapping[int, list[str]]
) -> dict[int, str]:
    """Registers the baseline, each template that became the best so far, and the winner.

    Called again it registers nothing twice.

    Args:
        result: The run.
        root: Id of the run that registers them: of a comparison the one above its runs, which share
            versions.
        runs: Ids of the runs to link each version to, by iteration.

    Returns:
        The versions' addresses, "prompts:/NAME/VERSION", by iteration.
    """
    import mlflow

    client = mlflow.MlflowClient()
    name = registered_name(result.name, dots=True)
    known = _known_versions(client, name, root)
    held = {scored.template: scored.scores for scored in result.heldout}
    best = best_so_far(result.iterations)
    addresses = {}
    for record, leader in zip(result.iterations, best, strict=True):
        is_baseline = record.iteration == 0
        is_winner = record.iteration == result.winner
        if record.template is None or not (is_baseline or is_winner or leader is record):
            continue
        if record.template not in known:
            made = mlflow.genai.register_prompt(
                name,
                record.template,
                commit_message=_message(record, result.objective),
                tags={_RUN: root},
            )
            known[record.template] = int(made.version)
        version = known[record.template]
        tags = {"objective": result.objective, _ITERATION: str(record.iteration)}
        tags |= _heldout_tags(held.get(record.template))
        # Not with the version: MLflow would give them to the prompt, too.
        for key, value in tags.items():
            client.set_prompt_version_tag(name, version, key, shorten(value, TAG_LIMIT))
        if is_baseline:
            mlflow.genai.set_prompt_alias(name, "baseline", version)
        if is_winner:
            mlflow.genai.set_prompt_alias(name, re.sub(r"[^\w-]+", "-", result.objective), version)
        address = f"prompts:/{name}/{version}"
        addresses[record.iteration] = address
        for run in runs.get(record.iteration, ()):
            client.link_prompt_version_to_run(run, address)
    return addresses


def _known_versions(client: Any, name: str, root: str) -> dict[str, int]:
    """Returns the versions of a prompt that a run has registered, by template."""
    if client.get_prompt(name) is None:
        return {}
    known: dict[str, int] = {}
    token = None
    while True:
        page = client.search_prompt_versions(name, page_token=token)
        for version in page:
            if version.tags.get(_RUN) == root:
                known[version.template] = int(version.version)
        token = page.token
        if not token:
            return known


def _message(record: IterationRecord, objective: str) -> str:
    """Returns the reason for a template, from its proposer, and its score on the tuning images."""
    message = f"Iteration {record.iteration}" if record.iteration else "The baseline"
    if record.value is not None:
        message += f": {metric_name(objective)} {number(record.value)}"
    message += f" on {len(record.rows)} tuning images."
    reasons = "; ".join(f"{key}: {text}" for key, text in record.parameters.items())
    if reasons:
        message += f" {reasons[0].upper()}{reasons[1:]}."
    return shorten(message, 1_000)


def _heldout_tags(scores: TemplateScores | None) -> dict[str, str]:
    return {f"heldout.{key}": f"{value:.4f}" for key, value in headline_metrics(scores).items()}


def log_classifier(result: TuneResult, run: str, folder: Path) -> str:
    """Logs a saved classifier as a model of the active run, and registers it.

    A run that has a version gets no second. The version gets the alias `champion`, unless the
    version that has it is certified and this one is not.

    Args:
        result: The run whose winner it is.
        run: The active run's id.
        folder: The folder that `Classifier.save` wrote.

    Returns:
        The address of the version, "models:/NAME/VERSION".
    """
    import mlflow

    client = mlflow.MlflowClient()
    name = registered_name(f"{result.name}-{result.objective}-classifier")
    versions = client.search_model_versions(f"name = '{name}' and run_id = '{run}'")
    if versions:
        return f"models:/{name}/{versions[0].version}"
    tags = {"objective": result.objective}
    with warnings.catch_warnings():
        # The signature is given, and an image is no example that MLflow could show.
        warnings.filterwarnings("ignore", message=".*input example was not provided")
        model = mlflow.pyfunc.log_model(
            **as_pyfunc(folder), name=name, tags=tags, model_type="classifier", step=result.winner
        )
    status = None if result.selection is None else result.selection.status
    tags |= _heldout_tags(result.heldout_winner.scores)
    if status is not None:
        tags[TARGET_REACHED] = status
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    version = client.create_model_version(
        name,
        model.model_uri,
        run_id=run,
        tags=tags,
        model_id=model.model_id,
        description=verdict(result) or None,
    )
    if status == "certified" or _champion_status(client, name) != "certified":
        client.set_registered_model_alias(name, CHAMPION, version.version)
    return f"models:/{name}/{version.version}"


def _champion_status(client: Any, name: str) -> str | None:
    champion = client.get_registered_model(name).aliases.get(CHAMPION)
    if champion is None:
        return None
    status: str | None = client.get_model_version(name, champion).tags.get(TARGET_REACHED)
    return status
