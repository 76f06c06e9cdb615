"""Verdicts that people gave in MLflow, on the traces of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.answers.records import run_evaluations
from taxtune.audit.sample import answer_id
from taxtune.audit.verdicts import check_verdict
from taxtune.errors import DataError
from taxtune.tracking.review import Judged, read_judged
from taxtune.tracking.store import store_with
from taxtune.tuning.history import read_note
from taxtune.untrusted import spreadsheet_cell

if TYPE_CHECKING:
    from taxtune.taxonomy.tree import Taxonomy

__all__ = ["read_feedback", "verdicts_of"]


def read_feedback(folder: Path, template: str | None) -> list[Judged]:
    """Returns the placements of a run that are traces in MLflow, with what people said of them.

    Args:
        folder: The folder of a tuning run or a comparison.
        template: The template on the held-out images: "winner", "baseline", of a comparison an
            objective; None is the winner, of a comparison that of its first objective.

    Raises:
        TaxtuneError: If the store cannot be reached.
        DataError: If it has no such traces.
    """
    names = [name for name in run_evaluations(folder / "result.json") if name != "baseline"]
    template = template or next(iter(names), "winner")
    if template in names and template != "winner":  # a comparison's runs have folders of their own
        folder /= template
        template = "winner"
    run = read_note(folder, "mlflow_run")
    judged = [] if run is None else read_judged(store_with(folder, run), run, template)
    if not judged:
        raise DataError(
            "MLflow has no traces of these held-out images.",
            file=folder,
            value=template,
            remedy="Tune with tracking.mlflow, or leave out --from and judge in audit.csv.",
        )
    return judged


def verdicts_of(
    judged: list[Judged], answers: Mapping[str, str], tree: Taxonomy
) -> dict[str, dict[str, str]]:
    """Returns verdicts as the rows of a file of verdicts, by the id of the answer.

    Args:
        judged: Placements, of which some are judged.
        answers: The answers by the id of the image.
        tree: The label tree.

    Raises:
        DataError: If a verdict or a node is unknown, or two verdicts on an answer differ.
    """
    rows: dict[str, dict[str, str]] = {}
    for each in judged:
        answer = answers.get(each.example)
        if answer is None or (each.verdict is None and each.node is None):
            continue
        place = f"MLflow, trace {each.trace}"
        said = {"verdict": _verdict(each.verdict), "node": _text(each.node)}
        check_verdict(tree, said["verdict"], said["node"], file=place)
        row: dict[str, str] = {
            "id": answer_id(answer),
            "answer": answer,
            "times": "1",
            "placement": str(spreadsheet_cell(each.placement)),
            "stage": each.stage,
            **said,
        }
        other = rows.setdefault(row["id"], row)
        if (other["verdict"], other["node"]) != (row["verdict"], row["node"]):
            raise DataError(
                "Another trace judges this answer otherwise.",
                file=place,
                value=answer,
                remedy="Change one of the two, or delete it.",
            )
    return rows


def _verdict(value: Any) -> str:
    """Returns a feedback as a verdict; true is right, and false is wrong."""
    if isinstance(value, bool):
        return "right" if value else "wrong"
    return _text(value).lower()


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
