"""A run's images and labels as MLflow's data sets: inputs of its runs, and evaluation data sets for `mlflow.genai`."""

from __future__ import annotations

from typing import Any

from taxtune.tracking.base import Split

__all__ = ["evaluation_dataset", "run_input"]


def run_input(split: Split) -> Any:
    """Returns a split as an input of a run, an `mlflow.entities.DatasetInput`."""
    import pandas as pd
    from mlflow.data.pandas_dataset import from_pandas
    from mlflow.data.sources import LocalArtifactDatasetSource
    from mlflow.entities import Dataset, DatasetInput, InputTag

    frame = pd.DataFrame({"image": list(split.labels), "label": list(split.labels.values())})
    # MLflow finds two readings of a path, both the same, and warns of it.
    source = split.source if "://" in split.source else LocalArtifactDatasetSource(split.source)
    made = from_pandas(frame, source=source, targets="label", name=split.name, digest=split.digest)
    return DatasetInput(Dataset(**made.to_dict()), [InputTag("mlflow.data.context", split.context)])


def evaluation_dataset(client: Any, experiment: str, split: Split) -> str:
    """Makes a split an evaluation data set, unless it is one already, and returns its id.

    `mlflow.genai.evaluate` takes it as it is: an image's file under `inputs`, its label under `expectations`. The
    process's default store must be the client's.
    """
    name = f"{split.name}-{split.digest}"
    found = client.search_datasets(experiment_ids=[experiment], filter_string=f"name = '{name}'", max_results=1)
    made = found[0] if found else client.create_dataset(name, experiment_id=experiment, tags={"context": split.context})
    # Records are known by their inputs: what is there already is not there twice.
    made.merge_records(
        [
            {"inputs": {"image": str(split.images[example])}, "expectations": {"label": label}}
            for example, label in split.labels.items()
        ]
    )
    return str(made.dataset_id)
