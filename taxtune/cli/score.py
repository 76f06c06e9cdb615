"""`taxtune score`: hP, hR, hF, accuracy and depth of a file of answers or predicted nodes."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune.errors import DataError

if TYPE_CHECKING:
    from taxtune.mapping import Placement
    from taxtune.metrics import Interval
    from taxtune.metrics.predictions import Predictions
    from taxtune.taxonomy import Taxonomy

__all__ = ["score"]

_CONFIDENCE = 0.95
_SHOWN = {
    "hp": "hP",
    "hr": "hR",
    "hf": "hF",
    "accuracy": "accuracy",
    "depth": "depth",
}


def score(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="CSV or JSONL with target, and answer (text) or predicted (a node).")
    ],
    taxonomy: Annotated[str, typer.Option("--taxonomy", "-t", help="The taxonomy file, or builtin:fieldguide.")],
    format: Annotated[
        str, typer.Option("--format", help="The taxonomy's format: auto, inat21-json, inat21-csv, edges or paths.")
    ] = "auto",
    similarity: Annotated[str, typer.Option(help="For answers: lexical, sentence:MODEL or clip:MODEL.")] = "lexical",
    preset: Annotated[str, typer.Option(help="For answers: default or paper-listing.")] = "default",
    empty: Annotated[str, typer.Option(help="What an empty answer cell means: error, abstain or leave-out.")] = "error",
    resamples: Annotated[int, typer.Option(min=1, max=1_000_000, help="Bootstrap resamples for the intervals.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with a record for each row.")] = False,
) -> None:
    """Print hP, hR, hF, accuracy and mean placed depth with 95 % bootstrap intervals."""
    from taxtune.metrics import bootstrap_scores
    from taxtune.metrics.predictions import EMPTY, read_predictions
    from taxtune.taxonomy import read_taxonomy

    if empty not in EMPTY:
        raise DataError("There is no such meaning of an empty answer.", value=empty, remedy=f"Use {', '.join(EMPTY)}.")
    tree = read_taxonomy(taxonomy, format=format)
    rows = read_predictions(file, tree, empty=empty)
    for note in rows.notes:
        print(f"taxtune: note: {note}", file=sys.stderr)
    placements: list[Placement] = []
    mapper: dict[str, Any] | None = None
    predicted = list(rows.predicted)
    if rows.kind == "answer":
        from taxtune.mapping import Mapper, MapperConfig

        placer = Mapper(tree, similarity=similarity, config=MapperConfig(preset=preset))
        placements = list(placer.place(list(rows.answers)))
        mapper = dict(placer.identity())
        predicted = [placement.node for placement in placements]
    intervals = bootstrap_scores(
        tree, predicted, list(rows.targets), resamples=resamples, confidence=_CONFIDENCE, seed=seed
    )
    abstained = sum(placement.abstained for placement in placements)
    if not as_json:
        _print_scores(rows, intervals, abstained)
        return
    result = {
        "file": rows.file,
        "taxonomy": taxonomy,
        "scored": rows.kind,
        "n": len(rows.rows),
        "abstained": abstained if mapper is not None else None,
        "left_out": list(rows.left_out),
        "confidence": _CONFIDENCE,
        "resamples": resamples,
        "seed": seed,
        "scores": {name: asdict(interval) for name, interval in intervals.items()},
        "mapper": mapper,
        "rows": _row_records(tree, rows, predicted, placements),
    }
    print(json.dumps(result, ensure_ascii=False, indent=2))


def _row_records(
    tree: Taxonomy, rows: Predictions, predicted: list[int], placements: list[Placement]
) -> list[dict[str, Any]]:
    from taxtune.metrics import precision_recall

    hp, hr = precision_recall(tree, predicted, list(rows.targets))
    records: list[dict[str, Any]] = [
        {
            "row": row,
            "target": "/".join(tree.path(target)),
            "predicted": "/".join(tree.path(node)),
            "hp": p,
            "hr": r,
        }
        for row, target, node, p, r in zip(rows.rows, rows.targets, predicted, hp.tolist(), hr.tolist(), strict=True)
    ]
    for record, placement in zip(records, placements, strict=False):
        record |= {
            "answer": placement.answer,
            "stage": str(placement.stage),
            "score": float(placement.score),
            "abstained": placement.abstained,
        }
    return records


def _print_scores(rows: Predictions, intervals: dict[str, Interval], abstained: int) -> None:
    lines = [("", "estimate", f"{_CONFIDENCE:.0%} interval".replace("%", " %"))]
    for name, value in intervals.items():
        digits = 2 if name == "depth" else 3
        lines.append(
            (
                _SHOWN[name],
                f"{value.estimate:.{digits}f}",
                f"{value.low:.{digits}f} – {value.high:.{digits}f}",
            )
        )
    for name, estimate, interval in lines:
        print(f"{name:<9} {estimate:>8}  {interval:>15}")
    examples = f"{len(rows.rows):,} example{'' if len(rows.rows) == 1 else 's'}"
    if rows.kind == "answer":
        examples += f", {abstained:,} of them abstentions (answers that name nothing, placed on the root)"
    print(examples)
    if rows.left_out:
        shown = ", ".join(map(str, rows.left_out[:20])) + (", …" if len(rows.left_out) > 20 else "")
        plural = "" if len(rows.left_out) == 1 else "s"
        print(f"{len(rows.left_out):,} row{plural} without an answer left out: {shown}")
