"""Verdicts that people gave in MLflow, on the traces of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taxtune.answers.records import run_evaluations, split_run
from taxtune.answers.schema import AnswerRow
from taxtune.audit.sample import answer_id
from taxtune.errors import DataError
from taxtune.tracking import entities
from taxtune.tracking.store import open_client, short_reason
from taxtune.tuning.history import read_note
from taxtune.untrusted import spreadsheet_cell

__all__ = ["read_feedback"]


def read_feedback(source: str, rows: Sequence[AnswerRow]) -> tuple[list[str], list[dict[str, str]]]:
    """Returns the answers of a run that have traces in MLflow, and the verdicts of people on them.

    Args:
        source: The run, as RUN or RUN:TEMPLATE.
        rows: Its answers.

    Returns:
        The answers, and rows as those of `audit.csv`, with the trace as their "file". Of several
        verdicts on an answer the last one counts.

    Raises:
        TaxtuneError: If the store cannot be reached.
        DataError: If it has no traces of these answers.
    """
    answers = {row.fields.get("example"): row.answer for row in rows}
    drawn = []
    verdicts = []
    for info in _traces(source):
        answer = answers.get(info.tags[entities.EXAMPLE])
        if answer is None:
            continue
        drawn.append(answer)
        row = _row(info, answer)
        if row["verdict"] or row["node"]:
            verdicts.append(row)
    if not drawn:
        raise DataError(
            "MLflow has no traces of these answers.",
            file=source,
            remedy="Give a run with tracking.mlflow, or leave out --from and judge in audit.csv.",
        )
    return drawn, verdicts


def _traces(source: str) -> list[Any]:
    """Returns the heads of the traces of a run's template on the held-out images."""
    run = split_run(source)
    if run is None:
        return []
    folder, template = run
    names = [name for name in run_evaluations(folder / "result.json") if name != "baseline"]
    template = template or names[0]
    if template in names and template != "winner":  # a comparison's runs have folders of their own
        folder /= template
        template = "winner"
    identity = read_note(folder, "mlflow_run")
    if identity is None:
        return []
    client = open_client(folder)
    try:
        experiment = client.get_run(identity).info.experiment_id
    except Exception as error:
        raise DataError(
            f"MLflow has no record of this run: {short_reason(error)}",
            file=folder,
            remedy="Set MLFLOW_TRACKING_URI as it was when the run was made.",
        ) from error
    found = client.search_traces(
        locations=[experiment],
        run_id=identity,
        filter_string=f"trace.name = '{entities.traces_of(template)}'",
        include_spans=False,
    )
    return [trace.info for trace in found]


def _row(info: Any, answer: str) -> dict[str, str]:
    """Returns the last verdict of a person on an answer: true is right, and false is wrong."""
    said: dict[str, Any] = {}
    for each in sorted(info.assessments, key=lambda each: each.last_update_time_ms):
        if each.source.source_type == "HUMAN" and each.valid is not False:
            said[each.name] = getattr(each, "value", None)
    verdict = said.get("placement")
    if isinstance(verdict, bool):
        verdict = "right" if verdict else "wrong"
    return {
        "id": answer_id(answer),
        "answer": answer,
        "times": "1",
        "stage": info.tags[entities.STAGE],
        "placement": str(spreadsheet_cell(info.tags[entities.PLACEMENT])),
        "verdict": str(verdict or "").strip().lower(),
        "node": str(said.get("node") or "").strip(),
        "file": f"MLflow, trace {info.trace_id}",
    }
