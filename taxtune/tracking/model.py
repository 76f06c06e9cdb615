"""A classifier in MLflow: a logged model of its run, and a version in the model registry."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taxtune.serving.pyfunc import save_mlflow_model
from taxtune.tracking.store import Store, hushed

__all__ = ["CHAMPION", "TARGET_REACHED", "log_classifier"]

#: The alias of the version that is to be used.
CHAMPION = "champion"
#: The tag of runs and versions that says whether the winner is "certified", "passes-alone" or an "estimate".
TARGET_REACHED = "taxtune.target_reached"
_JUDGED_ON, _WORTH = "taxtune.heldout", "taxtune.worth"


def log_classifier(
    store: Store,
    run: str,
    classifier: Path,
    *,
    name: str,
    metrics: Mapping[str, float] | None = None,
    worth: float | None = None,
    judged_on: str = "",
    tags: Mapping[str, str] | None = None,
    example: str | None = None,
    step: int = 0,
    status: str | None = None,
    description: str = "",
) -> str:
    """Logs a saved classifier as a model of a run and registers it; of a run that has a version, nothing new.

    The version gets the alias `champion`, unless the version that has it is certified and this one is not, or, where
    both are or neither is, was judged on the same held-out images and is worth more. MLflow's registry looks for the
    logged model in the process's default store, which must be the client's.

    Args:
        store: The open store and the experiment.
        run: The run that the model comes from.
        classifier: The folder that `Classifier.save` wrote.
        name: What the model is called in the registry, which it shares with prompts; characters that MLflow does not
            take become dashes.
        metrics: Held-out scores by name, kept with the model.
        worth: What decides between this version and the champion, more is better; None where nothing does.
        judged_on: What tells the held-out images from others, such as a digest.
        tags: Tags of the model and its version.
        example: An image as a request has it, to show how the model is asked.
        step: The step of the scores among the run's metrics.
        status: Whether the winner is "certified", "passes-alone" or an "estimate"; None where nothing is to be proven.
        description: What is known of the winner, in a sentence, for the version's page.

    Returns:
        The address of the version, "models:/NAME/VERSION".
    """
    client, known = store.client, dict(metrics or {})
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "taxtune"
    with hushed():
        there = client.search_model_versions(f"name = '{name}' and run_id = '{run}'")
        if there:
            return f"models:/{name}/{there[0].version}"
        model = _log(store, run, classifier, name, known, dict(tags or {}), example, step)
        labels = {
            **(tags or {}),
            _JUDGED_ON: judged_on,
            _WORTH: str(worth),
            **({} if status is None else {TARGET_REACHED: status}),
            **{_tag(key): f"{value:.4f}" for key, value in known.items()},
        }
        champion = _champion(client, name)
        version = client.create_model_version(
            name, f"models:/{model}", run_id=run, tags=labels, model_id=model, description=description or None
        )
        if not _better(champion, judged_on, worth, status):
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

    client = store.client
    model = str(
        client.create_logged_model(
            store.experiment, name, source_run_id=run, tags=tags, model_type="classifier"
        ).model_id
    )
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


def _better(champion: Any, judged_on: str, worth: float | None, status: str | None) -> bool:
    """Tells whether the champion alone is certified, or was judged on the same images and is worth more."""
    if champion is None:
        return False
    certified = bool(champion.tags.get(TARGET_REACHED) == "certified")
    if certified != (status == "certified"):
        return certified
    if worth is None or not judged_on or champion.tags.get(_JUDGED_ON) != judged_on:
        return False
    known = champion.tags.get(_WORTH, "None")
    return known != "None" and float(known) > worth


def _tag(metric: str) -> str:
    return f"heldout.{metric}"
