"""A run's templates as versions of a prompt, and its winner as a model, in MLflow's registry.

A recipe has one prompt. Its baseline is the first version that a run registers, each template that became the best so
far is one after it, and an alias named after the objective is on the winner's; the runs of a comparison share versions
and differ in the alias. The functions work on the store in force and the active run (`store.in_force`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path

from taxtune.metrics.names import metric_name
from taxtune.report.scores import best_so_far, number
from taxtune.serving.pyfunc import as_pyfunc
from taxtune.tracking.values import TAG_LIMIT, cut, headline_metrics
from taxtune.tuning.records import IterationRecord, TuneResult

__all__ = ["CHAMPION", "TARGET_REACHED", "log_classifier", "register_prompts", "registered_name"]

#: The alias of the version that is to be used.
CHAMPION = "champion"
#: The tag of runs and versions that says whether the winner is "certified", "passes-alone" or an "estimate".
TARGET_REACHED = "taxtune.target_reached"
_RUN, _ITERATION = "taxtune.run", "taxtune.iteration"


def registered_name(name: str, *, dots: bool = False) -> str:
    """Returns a name for the registry; characters that MLflow does not take become dashes (models have no dots)."""
    return re.sub(r"[^A-Za-z0-9_.-]+" if dots else r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "taxtune"


def register_prompts(result: TuneResult, *, root: str, runs: Mapping[int, list[str]]) -> dict[int, str]:
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
                name, record.template, commit_message=_message(record, result.objective), tags={_RUN: root}
            )
            known[record.template] = int(made.version)
        version = known[record.template]
        tags = {"objective": result.objective, _ITERATION: str(record.iteration)}
        tags |= _heldout_tags(headline_metrics(held.get(record.template)))
        for key, value in tags.items():  # not with the version: MLflow would give them to the prompt, too
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
    scored = f"{value} on {len(record.rows)} tuning images."
    if record.iteration == 0:
        return f"The baseline{scored}"
    why = "; ".join(f"{key}: {text}" for key, text in record.parameters.items())
    turns = [turn.tool or "text" for turn in record.trace]
    if not why and turns:
        why = f"proposed in {len(turns)} steps: {', '.join(turns)}"
    return cut(f"Iteration {record.iteration}{scored}{f' {why[0].upper()}{why[1:]}.' if why else ''}", 1_000)


def _heldout_tags(metrics: Mapping[str, float]) -> dict[str, str]:
    return {f"heldout.{key}": f"{value:.4f}" for key, value in metrics.items()}


def log_classifier(
    run: str,
    classifier: Path,
    *,
    name: str,
    metrics: Mapping[str, float],
    tags: Mapping[str, str] | None = None,
    step: int = 0,
    status: str | None = None,
    description: str = "",
) -> str:
    """Logs a saved classifier as a model of the active run and registers it; a run that has a version gets no second.

    The version gets the alias `champion`, unless the version that has it is certified and this one is not.

    Args:
        run: The active run's id.
        classifier: The folder that `Classifier.save` wrote.
        name: The model's name in the registry, which it shares with prompts.
        metrics: Held-out scores by name, for tags of the version.
        tags: Tags of the model and its version.
        step: The step of the run's metrics that are the model's, too.
        status: "certified", "passes-alone" or "estimate"; None where nothing is to be proven.
        description: What is known of the winner, in a sentence, for the version's page.

    Returns:
        The address of the version, "models:/NAME/VERSION".
    """
    import mlflow

    client, name = mlflow.MlflowClient(), registered_name(name)
    there = client.search_model_versions(f"name = '{name}' and run_id = '{run}'")
    if there:
        return f"models:/{name}/{there[0].version}"
    with warnings.catch_warnings():
        # The signature is given, and an image is no example that MLflow could show.
        warnings.filterwarnings("ignore", message=".*input example was not provided")
        made = mlflow.pyfunc.log_model(
            **as_pyfunc(classifier), name=name, tags=dict(tags or {}), model_type="classifier", step=step
        )
    labels = {**(tags or {}), **({} if status is None else {TARGET_REACHED: status}), **_heldout_tags(metrics)}
    known = client.search_registered_models(f"name = '{name}'")
    champion = known[0].aliases.get(CHAMPION) if known else None
    if not known:
        client.create_registered_model(name)
    version = client.create_model_version(
        name, made.model_uri, run_id=run, tags=labels, model_id=made.model_id, description=description or None
    )
    certified = champion is not None and client.get_model_version(name, champion).tags.get(TARGET_REACHED)
    if certified != "certified" or status == "certified":
        client.set_registered_model_alias(name, CHAMPION, version.version)
    return f"models:/{name}/{version.version}"
