"""Verdicts that people gave in MLflow, on the traces of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from taxtune.answers.schema import AnswerRow
from taxtune.audit.sample import answer_id
from taxtune.audit.verdicts import read_verdict
from taxtune.errors import DataError, command
from taxtune.tracking.entities import EXAMPLE
from taxtune.tracking.store import check_store, open_client, record_folder, store_uri
from taxtune.tuning.history import read_note
from taxtune.untrusted import spreadsheet_cell

__all__ = ["read_feedback"]


def read_feedback(folder: Path, rows: Sequence[AnswerRow]) -> list[dict[str, str]]:
    """Returns the answers of a run that people have judged in MLflow, as rows of `audit.csv`.

    Args:
        folder: The run's folder.
        rows: Its answers; verdicts on those of other templates are left out.

    Raises:
        TaxtuneError: If MLflow cannot be reached.
        DataError: If a verdict is unknown, or nobody has judged.
    """
    answers = {row.fields.get("example"): row.answer for row in rows}
    judged = {}
    for trace in _traces(folder):
        example = trace.info.tags[EXAMPLE]
        (span,) = trace.data.spans
        answer = span.get_attribute("answer")
        verdict = _verdict(trace.info)
        if verdict and answer is not None and answer == answers.get(example):
            judged[example] = {
                "id": answer_id(answer),
                "answer": answer,
                "times": "1",
                "stage": span.get_attribute("stage"),
                "placement": str(spreadsheet_cell(span.get_attribute("placement"))),
                "verdict": verdict,
                "node": "",
            }
    if not judged:
        raise DataError(
            "Nobody has judged these answers in MLflow.",
            file=folder,
            remedy=f"Give traces of the run the feedback placement: {command('mlflow', folder)}",
        )
    return list(judged.values())


def _traces(folder: Path) -> list[Any]:
    """Returns the traces of a run on the held-out images."""
    identity = read_note(folder, "mlflow_run")
    if identity is None:
        return []
    beside = record_folder(folder)
    check_store(beside)
    client = open_client(store_uri(beside))
    experiments = [each.experiment_id for each in client.search_experiments()]
    return list(client.search_traces(locations=experiments, run_id=identity, max_results=500))


def _verdict(trace: Any) -> str:
    """Returns the last verdict of a person on a trace: true is right; empty is none."""
    verdict = ""
    for each in sorted(trace.assessments, key=lambda each: each.last_update_time_ms):
        is_verdict = each.name == "placement" and each.source.source_type == "HUMAN"
        if is_verdict and each.valid is not False:
            said = str(each.value).strip().lower()
            said = {"true": "right", "false": "wrong"}.get(said, said)
            verdict = read_verdict(said, f"MLflow, trace {trace.trace_id}")
    return verdict
