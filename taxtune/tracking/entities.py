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
from taxtune.report.formatting import number
from taxtune.report.gallery import thumbnail
from taxtune.report.summary import verdict
from taxtune.serving.pyfunc import as_pyfunc
from taxtune.tables import split_cell
from taxtune.tracking.store import TrackingStore
from taxtune.tracking.values import TAG_LIMIT, headline_metrics, shorten
from taxtune.tuning.records import HeldoutResult, IterationRecord, SampleResult, TuneResult

__all__ = [
    "CHAMPION",
    "EXAMPLE",
    "TARGET_REACHED",
    "log_classifier",
    "log_traces",
    "register_prompts",
    "registered_name",
    "status_of",
]

#: The alias of the version that is to be used.
CHAMPION = "champion"
#: The tag of runs and versions that says whether the winner is "certified", "passes-alone", an
#: "estimate", or "chosen" by a person.
TARGET_REACHED = "taxtune.target_reached"
#: The tag of a trace that says which image it is about.
EXAMPLE = "taxtune.about"
#: A winner of this status is `champion` whatever else is there.
_PREFERRED = ("certified", "chosen")
_RUN = "taxtune.run"
_ITERATION = "taxtune.iteration"
#: The scores of an image that its trace shows.
_SCORES = ("hp", "hr", "ihp", "ihr")
_ANSWER = 500  # characters of an answer beside its placement
_PREVIEW = 1_000  # characters of a preview that MLflow's databases take


def log_traces(
    store: TrackingStore,
    run: str,
    template: IterationRecord | HeldoutResult,
    prompt: Callable[[SampleResult], str],
    *,
    name: str,
    number: int,
    identity: str,
    model: str = "",
    images: Mapping[str, Path] | None = None,
) -> list[str]:
    """Records a sample of a template's images as traces.

    They are put together whole, since MLflow's own way of making traces follows code as it runs. The
    trace of an image has one span, with the prompt, the picture, the answer, its placement and the
    truth; its time is the image's share of the template's. The true label is its expectation, hP and
    hR are feedback on it; an image without an answer has an error instead. Every template has traces
    of the same images, as long as they were asked about. Ids follow from the identity: recorded
    again, a trace replaces itself. A store that takes no spans gets none.

    Args:
        store: The open store and the experiment.
        run: The MLflow run that the traces belong to.
        template: An iteration, or a template on the held-out images.
        prompt: Returns the prompt of a row.
        name: The name of the template's traces.
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
    files = images or {}
    seconds = template.usage.seconds / max(1, len(template.rows))
    began = time.time_ns() - int(template.usage.seconds * 1e9)
    ended = began + int(seconds * 1e9)
    rows = sorted(template.rows, key=lambda row: _hash(row.example, 64))
    ids = []
    spans: list[Any] = []
    for row in rows[:number]:
        trace = "tr-" + _hash(f"{identity}\0{row.example}", 32)
        head = _trace_info(row, trace, run, store.experiment, began, seconds, name)
        client.start_trace(head)
        question = _question(prompt(row), files.get(row.example))
        spans.append(_span(row, trace, began, ended, question, model))
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
    name: str,
) -> Any:
    """Returns the head of a trace, which has no spans; it began at a time in nanoseconds."""
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    return TraceInfo(
        trace_id=trace,
        trace_location=TraceLocation.from_experiment_id(experiment),
        request_time=began // 1_000_000,
        execution_duration=int(seconds * 1000),
        state=TraceState(_status(row)),
        request_preview=row.image,
        response_preview=shorten(_outcome(row), _PREVIEW),
        trace_metadata={"mlflow.sourceRun": run},
        tags={"mlflow.traceName": name, EXAMPLE: row.example},
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


def _span(
    row: SampleResult, trace: str, began: int, ended: int, question: dict[str, Any], model: str
) -> Any:
    """Returns the span of an image: the question, the answer with its placement, and the scores."""
    from mlflow.entities import Span

    message = {"role": "assistant", "content": _outcome(row)}
    attributes: dict[str, Any] = {
        "mlflow.traceRequestId": trace,
        "mlflow.spanType": "CHAT_MODEL",
        "mlflow.spanInputs": question,
        "mlflow.spanOutputs": None if row.answer is None else {"choices": [{"message": message}]},
        "mlflow.message.format": "openai",
        "mlflow.llm.model": model,
        "answer": row.answer,
        "placement": row.placement,
        "stage": row.stage,
        "confidence": row.confidence,
        "from_store": row.from_store,
        "unrated": row.unrated,
        **{name: row.scores.get(name) for name in _SCORES},
        **row.measures,
        **row.remarks,
    }
    known = {key: value for key, value in attributes.items() if value is not None}
    span = {
        "trace_id": trace,
        "span_id": _hash(trace, 16),
        "parent_span_id": None,
        "name": "classify",
        "start_time_unix_nano": began,
        "end_time_unix_nano": ended,
        "status": {"code": _status(row), "message": row.failure or ""},
        "attributes": {key: json.dumps(value) for key, value in known.items()},
    }
    return Span.from_dict(span)


def _status(row: SampleResult) -> str:
    return "OK" if row.failure is None else "ERROR"


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _outcome(row: SampleResult) -> str:
    """Returns the answer, its placement and the truth as Markdown, whose first line says most."""
    if row.answer is None or row.placement is None:
        return row.failure or ""
    node = split_cell(row.placement, "/")[-1]
    said = shorten(row.answer, _ANSWER)
    return f"{said} → {node}\n\n- placed on: {row.placement}\n- truth: {row.truth}"


def _question(prompt: str, file: Path | None) -> dict[str, Any]:
    """Returns the messages to a model: a small copy of the image, if there is one, and the prompt."""
    content: list[Any] = []
    picture = None if file is None else thumbnail(file)
    if picture is not None:
        content.append({"type": "image_url", "image_url": {"url": picture}})
    content.append({"type": "text", "text": prompt})
    message = {"role": "user", "content": content}
    return {"messages": [message]}


# -- templates as prompts --------------------------------------------------------------------------


def registered_name(name: str, *, dots: bool = False) -> str:
    """Returns a name for the registry; what MLflow does not take become dashes (models: dots too)."""
    foreign = r"[^A-Za-z0-9_.-]+" if dots else r"[^A-Za-z0-9_-]+"
    taken = re.sub(foreign, "-", name)
    return taken.strip("-") or "taxtune"


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
    held = {each.template: each for each in result.heldout}
    addresses = {}
    for record in _milestones(result):
        template = str(record.template)
        if template not in known:
            message = _message(record, result.objective)
            prompt = mlflow.genai.register_prompt(
                name, template, commit_message=message, tags={_RUN: root}
            )
            known[template] = int(prompt.version)
        version = known[template]
        tags = {"objective": result.objective, _ITERATION: str(record.iteration)}
        if template in held:
            tags |= _heldout_tags(held[template])
        # Not with the version: MLflow would give them to the prompt, too.
        for key, value in tags.items():
            client.set_prompt_version_tag(name, version, key, shorten(value, TAG_LIMIT))
        if record.iteration == 0:
            mlflow.genai.set_prompt_alias(name, "baseline", version)
        if record.iteration == result.winner:
            alias = re.sub(r"[^\w-]+", "-", result.objective)
            mlflow.genai.set_prompt_alias(name, alias, version)
        address = f"prompts:/{name}/{version}"
        addresses[record.iteration] = address
        for run in runs.get(record.iteration, ()):
            client.link_prompt_version_to_run(run, address)
    return addresses


def _milestones(result: TuneResult) -> list[IterationRecord]:
    """Returns the baseline, each template that became the best so far, and the winner."""
    milestones = []
    for record, leader in zip(result.iterations, result.leaders, strict=True):
        is_milestone = leader is record or record.iteration in (0, result.winner)
        if record.template is not None and is_milestone:
            milestones.append(record)
    return milestones


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


def _heldout_tags(held: HeldoutResult) -> dict[str, str]:
    metrics = headline_metrics(held)
    return {f"heldout.{key}": f"{value:.6g}" for key, value in metrics.items()}


def status_of(result: TuneResult) -> str:
    """Returns the value of the tag `TARGET_REACHED`; empty where the objective holds nothing."""
    if result.is_chosen:
        return "chosen"
    return "" if result.selection is None else result.selection.status or ""


def log_classifier(result: TuneResult, run: str, folder: Path) -> str:
    """Logs a saved classifier as a model of the active run, and registers it.

    A run has one version of a winner. It gets the alias `champion`, unless the version that has it
    is certified and this one is neither certified nor chosen by a person.

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
    winner = f"tags.`{_ITERATION}` = '{result.winner}'"
    known = client.search_model_versions(f"name = '{name}' and run_id = '{run}' and {winner}")
    version = known[0] if known else _new_version(client, result, run, folder, name)
    if status_of(result) in _PREFERRED or _champion_status(client, name) != "certified":
        client.set_registered_model_alias(name, CHAMPION, version.version)
    return f"models:/{name}/{version.version}"


def _new_version(client: Any, result: TuneResult, run: str, folder: Path, name: str) -> Any:
    """Logs a saved classifier as a model of the active run, and returns its registered version."""
    import mlflow

    tags = {"objective": result.objective}
    with warnings.catch_warnings():
        # The signature is given, and an image is no example that MLflow could show.
        warnings.filterwarnings("ignore", message=".*input example was not provided")
        model = mlflow.pyfunc.log_model(
            **as_pyfunc(folder),
            name=name,
            tags=tags,
            model_type="classifier",
            # MLflow gives the model the run's metrics of this step: the winner's.
            step=len(result.iterations),
        )
    tags |= _heldout_tags(result.heldout_winner)
    tags |= {_ITERATION: str(result.winner), TARGET_REACHED: status_of(result)}
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    return client.create_model_version(
        name,
        model.model_uri,
        run_id=run,
        tags=tags,
        model_id=model.model_id,
        description=verdict(result) or None,
    )


def _champion_status(client: Any, name: str) -> str | None:
    champion = client.get_registered_model(name).aliases.get(CHAMPION)
    if champion is None:
        return None
    status: str | None = client.get_model_version(name, champion).tags.get(TARGET_REACHED)
    return status
