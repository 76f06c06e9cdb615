"""A run's images as traces, its templates as versions of a prompt, and its winner as a model, in MLflow.

A recipe has one prompt. Its baseline is the first version that a run registers, each template that became the best so
far is one after it, and an alias named after the objective is on the winner's; the runs of a comparison share versions
and differ in the alias. The functions work on the store in force and the active run (`store.in_force`).
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
from taxtune.report.gallery import thumbnail
from taxtune.report.scores import number
from taxtune.report.summary import verdict
from taxtune.serving.pyfunc import as_pyfunc
from taxtune.tracking.store import TrackingStore
from taxtune.tracking.values import TAG_LIMIT, cut, headline_metrics
from taxtune.tuning.records import (
    HeldoutResult,
    IterationRecord,
    SampleResult,
    TemplateScores,
    TuneResult,
)
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
#: The tag of runs and versions that says whether the winner is "certified", "passes-alone" or an "estimate".
TARGET_REACHED = "taxtune.target_reached"
_RUN, _ITERATION = "taxtune.run", "taxtune.iteration"


def log_traces(
    store: TrackingStore,
    run: str,
    template: IterationRecord | HeldoutResult,
    prompt: Callable[[SampleResult], str] | None,
    *,
    number: int,
    identity: str,
    model: str = "",
    images: Mapping[str, Path] | None = None,
) -> list[str]:
    """Records a sample of a template's images as traces.

    They are put together whole, since MLflow's own way of making traces follows code as it runs. The trace of an image
    has the spans `ask`, `place` and `score`; its time is the image's share of the template's. The true label is its
    expectation, hP and hR are feedback on it; an image without an answer has an error instead. Every template has
    traces of the same images, as long as they were asked about. Ids follow from the identity: recorded again, a trace
    replaces itself. A store that takes no spans gets none.

    Args:
        store: The open store and the experiment.
        run: The MLflow run that the traces belong to.
        template: An iteration, or a template on the held-out images.
        prompt: Returns the prompt of a row; None where there is no template.
        number: Most images to take.
        identity: The template's identity in the run.
        model: Name of the model that was asked.
        images: Image files by example id, for thumbnails; others have none.

    Returns:
        The ids of the traces.
    """
    from mlflow.entities import (
        AssessmentSource,
        Expectation,
        Feedback,
        Span,
        TraceInfo,
        TraceLocation,
        TraceState,
    )
    from mlflow.tracing.client import TracingClient

    if not store.spans:
        return []
    client, source = TracingClient(store.uri), AssessmentSource("CODE", "taxtune")
    seconds = template.usage.seconds / max(1, len(template.rows))
    began = time.time_ns() - int(template.usage.seconds * 1e9)
    ended = began + int(seconds * 1e9)
    ids, spans = [], []
    for row in sorted(template.rows, key=lambda row: _hash(row.example, 64))[:number]:
        key, status = (
            _hash(f"{identity}\0{row.example}", 32),
            "OK" if row.failure is None else "ERROR",
        )
        ids.append(trace_id := f"tr-{key}")
        steps = _steps(
            row, "" if prompt is None else prompt(row), model, (images or {}).get(row.example)
        )
        assessments = [Expectation("label", row.truth, source=source)]
        for name, value in (("hp", row.hp), ("hr", row.hr)):
            why = (
                {"error": row.failure or "There is no answer."}
                if value is None
                else {"value": value}
            )
            assessments.append(Feedback(name, source=source, **why))
        for i, assessment in enumerate(assessments):
            assessment.assessment_id = f"a-{key[:24]}{i}"
        info = TraceInfo(
            trace_id=trace_id,
            trace_location=TraceLocation.from_experiment_id(store.experiment),
            request_time=began // 1_000_000,
            execution_duration=int(seconds * 1000),
            state=TraceState(status),
            request_preview=row.image,
            response_preview=row.failure or row.placement or "",
            trace_metadata={
                "mlflow.sourceRun": run,
                "mlflow.traceInputs": steps["classify"]["mlflow.spanInputs"],
                "mlflow.traceOutputs": steps["classify"]["mlflow.spanOutputs"],
            },
            tags={"mlflow.traceName": "classify", "taxtune.about": row.example},
            assessments=assessments,
        )
        client.start_trace(info)
        for i, (name, attributes) in enumerate(steps.items()):
            span = {
                "trace_id": trace_id,
                "span_id": _hash(f"{trace_id}{i}", 16),
                "parent_span_id": _hash(f"{trace_id}0", 16) if i else None,
                "name": name,
                "start_time_unix_nano": began if i < 2 else ended,  # the model takes the time
                "end_time_unix_nano": ended,
                "status": {"code": status, "message": row.failure or ""},
                "attributes": {"mlflow.traceRequestId": json.dumps(trace_id), **attributes},
            }
            spans.append(Span.from_dict(span))
    if spans:
        client.log_spans(store.experiment, spans)
    return ids


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _steps(
    row: SampleResult, prompt: str, model: str, file: Path | None
) -> dict[str, dict[str, str]]:
    """Returns the attributes of an image's spans by name; without an answer there is none that places or scores it."""

    def step(kind: str, inputs: Any, outputs: Any, **more: Any) -> dict[str, str]:
        values = {
            "mlflow.spanType": kind,
            "mlflow.spanInputs": inputs,
            "mlflow.spanOutputs": outputs,
            **more,
        }
        return {key: json.dumps(value) for key, value in values.items()}

    picture = None if file is None else thumbnail(file)
    content: list[Any] = (
        [] if picture is None else [{"type": "image_url", "image_url": {"url": picture}}]
    )
    messages = {
        "messages": [{"role": "user", "content": [*content, {"type": "text", "text": prompt}]}]
    }
    about = {"mlflow.message.format": "openai", "from_store": row.from_store}
    about |= {"mlflow.llm.model": model} if model else {}
    image = {"image": row.image, "example": row.example}
    if row.answer is None:
        return {
            "classify": step("CHAIN", image, None),
            "ask": step("CHAT_MODEL", messages, None, **about),
        }
    reply = {"choices": [{"message": {"role": "assistant", "content": row.answer}}]}
    placed = {
        key: getattr(row, key)
        for key in ("placement", "stage", "confidence", "off_tree", "abstained")
    }
    scores = {
        **row.scores,
        **row.measures,
        "unrated": row.unrated,
    }
    scored = {key: value for key, value in scores.items() if value is not None} | row.remarks
    return {
        "classify": step("CHAIN", image, {"answer": row.answer, **placed}),
        "ask": step("CHAT_MODEL", messages, reply, **about),
        "place": step("PARSER", {"answer": row.answer}, placed),
        "score": step("EVALUATOR", {"placement": row.placement, "truth": row.truth}, scored),
    }


def registered_name(name: str, *, dots: bool = False) -> str:
    """Returns a name for the registry; characters that MLflow does not take become dashes (models have no dots)."""
    return (
        re.sub(r"[^A-Za-z0-9_.-]+" if dots else r"[^A-Za-z0-9_-]+", "-", name).strip("-")
        or "taxtune"
    )


def register_prompts(
    result: TuneResult, *, root: str, runs: Mapping[int, list[str]]
) -> dict[int, str]:
    """Registers the baseline, each template that became the best so far, and the winner, once however often called.

    Args:
        result: The run.
        root: Id of the run that registers them: of a comparison the one above its runs, which share versions.
        runs: Ids of the runs to link each version to, by iteration.

    Returns:
        The versions' addresses, "prompts:/NAME/VERSION", by iteration.
    """
    import mlflow

    client, name = mlflow.MlflowClient(), registered_name(result.name, dots=True)
    known: dict[str, int] = {}
    token = "" if client.get_prompt(name) is not None else None
    while token is not None:
        page = client.search_prompt_versions(name, page_token=token or None)
        known |= {each.template: int(each.version) for each in page if each.tags.get(_RUN) == root}
        token = page.token or None
    held = {scored.template: scored.scores for scored in result.heldout}
    best, before = best_so_far(result.iterations), None
    addresses = {}
    for record, leader in zip(result.iterations, best, strict=True):
        first, wins = record.iteration == 0, record.iteration == result.winner
        became_best, before = leader is record and leader is not before, leader
        if record.template is None or not (first or wins or became_best):
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
        for (
            key,
            value,
        ) in tags.items():  # not with the version: MLflow would give them to the prompt, too
            client.set_prompt_version_tag(name, version, key, cut(value, TAG_LIMIT))
        for alias in ["baseline"] * first + [re.sub(r"[^\w-]+", "-", result.objective)] * wins:
            mlflow.genai.set_prompt_alias(name, alias, version)
        addresses[record.iteration] = f"prompts:/{name}/{version}"
        for run in runs.get(record.iteration, ()):
            client.link_prompt_version_to_run(run, addresses[record.iteration])
    return addresses


def _message(record: IterationRecord, objective: str) -> str:
    """Returns the reason for a template, from its proposer, and its score on the tuning images."""
    value = "" if record.value is None else f": {metric_name(objective)} {number(record.value)}"
    which = f"Iteration {record.iteration}" if record.iteration else "The baseline"
    why = "; ".join(f"{key}: {text}" for key, text in record.parameters.items())
    why = f" {why[0].upper()}{why[1:]}." if why else ""
    return cut(f"{which}{value} on {len(record.rows)} tuning images.{why}", 1_000)


def _heldout_tags(scores: TemplateScores | None) -> dict[str, str]:
    return {f"heldout.{key}": f"{value:.4f}" for key, value in headline_metrics(scores).items()}


def log_classifier(result: TuneResult, run: str, folder: Path) -> str:
    """Logs a saved classifier as a model of the active run and registers it; a run that has a version gets no second.

    The version gets the alias `champion`, unless the version that has it is certified and this one is not.

    Args:
        result: The run whose winner it is.
        run: The active run's id.
        folder: The folder that `Classifier.save` wrote.

    Returns:
        The address of the version, "models:/NAME/VERSION".
    """
    import mlflow

    client, name = (
        mlflow.MlflowClient(),
        registered_name(f"{result.name}-{result.objective}-classifier"),
    )
    there = client.search_model_versions(f"name = '{name}' and run_id = '{run}'")
    if there:
        return f"models:/{name}/{there[0].version}"
    tags, status = (
        {"objective": result.objective},
        None if result.selection is None else result.selection.status,
    )
    with warnings.catch_warnings():
        # The signature is given, and an image is no example that MLflow could show.
        warnings.filterwarnings("ignore", message=".*input example was not provided")
        made = mlflow.pyfunc.log_model(
            **as_pyfunc(folder), name=name, tags=tags, model_type="classifier", step=result.winner
        )
    tags |= _heldout_tags(result.heldout_winner.scores) | (
        {} if status is None else {TARGET_REACHED: status}
    )
    known = client.search_registered_models(f"name = '{name}'")
    champion = known[0].aliases.get(CHAMPION) if known else None
    if not known:
        client.create_registered_model(name)
    version = client.create_model_version(
        name,
        made.model_uri,
        run_id=run,
        tags=tags,
        model_id=made.model_id,
        description=verdict(result) or None,
    )
    certified = champion is not None and client.get_model_version(name, champion).tags.get(
        TARGET_REACHED
    )
    if certified != "certified" or status == "certified":
        client.set_registered_model_alias(name, CHAMPION, version.version)
    return f"models:/{name}/{version.version}"
