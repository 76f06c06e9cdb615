"""The evidence of a watched guarantee, as a curve of the run in MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from taxtune.progress import note
from taxtune.tracking.store import check_store, open_client, record_folder, short_reason, store_uri
from taxtune.tuning.history import read_note

__all__ = ["log_evidence"]


def log_evidence(folder: Path, values: Sequence[float], watch: str) -> None:
    """Logs what the run of a folder has not yet of a curve, if it has a record in MLflow.

    Args:
        folder: The run's folder.
        values: The evidence after each label, as powers of ten.
        watch: The name of the watch: each calibration has a curve of its own.
    """
    identity = read_note(folder, "mlflow_run")
    if identity is None:
        return
    name = f"watch_evidence/{watch}"
    beside = record_folder(folder)
    try:
        check_store(beside)
        client = open_client(store_uri(beside))
        known = len(client.get_metric_history(identity, name))
        for step, value in enumerate(values[known:], known + 1):
            client.log_metric(identity, name, value, step=step)
    except Exception as error:  # whatever MLflow raises: the watch is kept in its file
        note(f"MLflow could not record the evidence: {short_reason(error)}")
