"""A run's templates as versions of a prompt, and its winner as a model, in MLflow's registry.

A recipe has one prompt. Its baseline is the first version that a run registers, each template that became the best so
far is one after it, and an alias named after the objective is on the winner's; the runs of a comparison share versions
and differ in the alias. The registry looks in the process's default store, which must be the run's (`store.in_force`).
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taxtune.metrics.names import metric_name
from taxtune.report.scores import best_so_far, number
from taxtune.serving.pyfunc import save_mlflow_model
from taxtune.tracking.store import Store
from taxtune.tracking.values import TAG_LIMIT, cut, headline_metrics
from taxtune.tuning.records import IterationRecord, TuneResult

__all__ = [
    "CHAMPION",
    "TARGET_REACHED",
    "log_classifier",
    "register_prompts",
    "registered_name",
    "versions_of",
]

#: The alias of the version that is to be used.
CHAMPION = "champion"
#: The tag of runs and versions that says whether the winner is "certified", "passes-alone" or an "estimate".
TARGET_REACHED = "taxtune.target_reached"
_RUN, _ITERATION = "taxtune.run", "taxtune.iteration"


@dataclass(frozen=True)
class Version:
    """A template that is to be a version of a prompt.

    Attributes:
        iteration: Its iteration.
        template: The Jinja source, kept exactly.
        message: The commit message: the proposer's description and the score.
        tags: Scores and the like.
        aliases: Names by which to find it.
    """

    iteration: int
    template: str
    message: str
    tags: dict[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


def registered_name(name: str, *, dots: bool = False) -> str:
    """Returns a name for the registry; characters that MLflow does not take become dashes (models have no dots)."""
    return re.sub(r"[^A-Za-z0-9_.-]+" if dots else r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "taxtune"


def versions_of(result: TuneResult) -> Iterator[Version]:
    """Yields the baseline, each template that became the best so far, and the winner, in the order of iterations."""
    held = {scored.template: scored.scores for scored in result.heldout}
    before: IterationRecord | None = None
    for record, best in zip(result.iterations, best_so_far(result.iterations), strict=True):
        wins, became_best = record.iteration == result.winner, best is not before and best is record
        before = best
        if record.template is None or not (record.iteration == 0 or became_best or wins):
            continue
        scores = headline_metrics(held.get(record.template))
        aliases: tuple[str, ...] = ("baseline",) if record.iteration == 0 else ()
        if wins:
            aliases += (re.sub(r"[^\w-]+", "-", result.objective),)
        tags = {"objective": result.objective, _ITERATION: str(record.iteration)}
        tags |= {f"heldout.{key}": f"{value:.4f}" for key, value in scores.items()}
        yield Version(record.iteration, record.template, _message(record, result.objective), tags, aliases)


def _message(record: IterationRecord, objective: str) -> str:
    """Returns the reason for a template, from its proposer, and its score on the tuning images."""
    value = "" if record.value is None else f": {metric_name(objective)} {number(record.value)}"
    scored = f"{value} on {len(record.rows)} tuning images."
    if record.iteration == 0:
        return f"The baseline{scored}"
    why = "; ".join(f"{key}: {text}" for key, text in record.parameters.items())
    turns = [turn.tool or "text" for turn in record.trace]
    if not why and turns:
        why = f"proposed in {len(turns)} steps: {', '.join(turns)}"
    return cut(f"Iteration {record.iteration}{scored}{f' {why[0].upper()}{why[1:]}.' if why else ''}", 1_000)


def register_prompts(
    name: str, versions: Iterator[Version], *, root: str, runs: Mapping[int, list[str]]
) -> dict[int, str]:
    """Registers versions of a prompt, each once however often this is called.

    Args:
        name: The prompt's name.
        versions: The versions.
        root: Id of the run that registers them: of a comparison the one above its runs, which share versions.
        runs: Ids of the runs to link each version to, by iteration.

    Returns:
        The versions' addresses, "prompts:/NAME/VERSION", by iteration.
    """
    import mlflow

    client = mlflow.MlflowClient()
    known: dict[str, int] = {}
    if client.get_prompt(name) is not None:
        token = None
        while True:
            page = client.search_prompt_versions(name, page_token=token)
            known |= {each.template: int(each.version) for each in page if each.tags.get(_RUN) == root}
            token = page.token
            if not token:
                break
    addresses = {}
    for version in versions:
        if version.template not in known:
            made = mlflow.genai.register_prompt(
                name, version.template, commit_message=version.message, tags={_RUN: root}
            )
            known[version.template] = int(made.version)
        number = known[version.template]
        for key, value in version.tags.items():  # not with the version: MLflow would give them to the prompt, too
            client.set_prompt_version_tag(name, number, key, cut(value, TAG_LIMIT))
        for alias in version.aliases:
            mlflow.genai.set_prompt_alias(name, alias, number)
        addresses[version.iteration] = f"prompts:/{name}/{number}"
        for run in runs.get(version.iteration, ()):
            client.link_prompt_version_to_run(run, addresses[version.iteration])
    return addresses


def log_classifier(
    store: Store,
    run: str,
    classifier: Path,
    *,
    name: str,
    metrics: Mapping[str, float] | None = None,
    tags: Mapping[str, str] | None = None,
    example: str | None = None,
    step: int = 0,
    status: str | None = None,
    description: str = "",
) -> str:
    """Logs a saved classifier as a model of a run and registers it; a run that has a version gets no second one.

    The version gets the alias `champion`, unless the version that has it is certified and this one is not.

    Args:
        store: The open store and the experiment.
        run: The run that the model comes from.
        classifier: The folder that `Classifier.save` wrote.
        name: The model's name in the registry, which it shares with prompts.
        metrics: Held-out scores by name, kept with the model.
        tags: Tags of the model and its version.
        example: An image as a request has it, to show how the model is asked.
        step: The step of the scores among the run's metrics.
        status: "certified", "passes-alone" or "estimate"; None where nothing is to be proven.
        description: What is known of the winner, in a sentence, for the version's page.

    Returns:
        The address of the version, "models:/NAME/VERSION".
    """
    client, known, name = store.client, dict(metrics or {}), registered_name(name)
    there = client.search_model_versions(f"name = '{name}' and run_id = '{run}'")
    if there:
        return f"models:/{name}/{there[0].version}"
    model = _log(store, run, classifier, name, known, dict(tags or {}), example, step)
    labels = {**(tags or {}), **({} if status is None else {TARGET_REACHED: status})}
    labels |= {f"heldout.{key}": f"{value:.4f}" for key, value in known.items()}
    champion = _champion(client, name)
    version = client.create_model_version(
        name, f"models:/{model}", run_id=run, tags=labels, model_id=model, description=description or None
    )
    if champion is None or champion.tags.get(TARGET_REACHED) != "certified" or status == "certified":
        client.set_registered_model_alias(name, CHAMPION, version.version)
    return f"models:/{name}/{version.version}"


def _log(
    store: Store,
    run: str,
    classifier: Path,
    name: str,
    metrics: Mapping[str, float],
    tags: dict[str, str],
    example: str | None,
    step: int,
) -> str:
    """Logs the model and returns its id."""
    from mlflow.entities import LoggedModelOutput, Metric
    from mlflow.models import Model

    client, kind = store.client, {"source_run_id": run, "model_type": "classifier"}
    model = str(client.create_logged_model(store.experiment, name, tags=tags, **kind).model_id)
    try:
        with tempfile.TemporaryDirectory(prefix="taxtune-model-") as folder:
            made = Path(folder) / "model"
            save_mlflow_model(classifier, made, example=example, mlflow_model=Model(run_id=run, model_id=model))
            client.log_model_artifacts(model, str(made))
    except BaseException:
        client.finalize_logged_model(model, "FAILED")
        raise
    client.finalize_logged_model(model, "READY")
    client.log_outputs(run, [LoggedModelOutput(model, step=0)])
    now = int(time.time() * 1000)
    # In the run's metrics, too: MLflow keeps no metric of a model alone.
    client.log_batch(
        run, metrics=[Metric(f"heldout/{key}", value, now, step, model_id=model) for key, value in metrics.items()]
    )
    return model


def _champion(client: Any, name: str) -> Any:
    """Returns the version that is in use, or None; makes the model's entry in the registry where there is none."""
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
        version = client.get_registered_model(name).aliases.get(CHAMPION)
        return None if version is None else client.get_model_version(name, version)
    return None
