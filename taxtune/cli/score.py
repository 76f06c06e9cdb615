"""`taxtune score`: hP, hR, hF, accuracy and depth of a file of answers or predicted nodes."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune.cli.interrupts import keep_work
from taxtune.cli.options import (
    EmptyOption,
    FormatOption,
    JsonRowsOption,
    OffTreeAsOption,
    PresetOption,
    ResamplesOption,
    RootLabelOption,
    RootOption,
    SeedOption,
    SimilarityOption,
    TaxonomyOption,
    note,
)
from taxtune.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from taxtune.mapping import Placement
    from taxtune.metrics import Interval
    from taxtune.metrics.predictions import Predictions
    from taxtune.taxonomy import Domain, Taxonomy

__all__ = ["score"]

_CONFIDENCE = 0.95
_SHOWN = {
    "hp": "hP",
    "hr": "hR",
    "hf": "hF",
    "accuracy": "accuracy",
    "depth": "depth",
}
# What depends on the root; whether a node is exactly right does not.
_ROOTED = ("hp", "hr", "hf", "depth")


def score(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="CSV or JSONL with target, and answer (text) or predicted (a node).")
    ],
    taxonomy: TaxonomyOption,
    format: FormatOption = "auto",
    root_label: RootLabelOption = None,
    root: RootOption = None,
    similarity: SimilarityOption = "lexical",
    preset: PresetOption = "default",
    off_tree_as: OffTreeAsOption = "child",
    empty: EmptyOption = "error",
    resamples: ResamplesOption = 2000,
    seed: SeedOption = 0,
    as_json: JsonRowsOption = False,
) -> None:
    """Print hP, hR, hF, accuracy and mean placed depth with 95 % bootstrap intervals."""
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.metrics import bootstrap_scores
    from taxtune.metrics.predictions import EMPTY, read_predictions
    from taxtune.studies.placing import as_child
    from taxtune.taxonomy import read_taxonomy, restrict

    config = MapperConfig(preset=preset, off_tree=off_tree_as)
    if empty not in EMPTY:
        raise DataError("There is no such meaning of an empty answer.", value=empty, remedy=f"Use {', '.join(EMPTY)}.")
    whole = read_taxonomy(taxonomy, format=format, root_label=root_label, on_note=note)
    part = None if root is None else restrict(whole, root)
    tree = whole if part is None else part.tree
    rows = read_predictions(file, tree, empty=empty, part=part)
    for text in rows.notes:
        note(text)
    placements: list[Placement] = []
    mapper: dict[str, Any] | None = None
    off: NDArray[np.bool_] | None = None
    predicted = list(rows.predicted)
    if rows.kind == "answer":
        keep_work([similarity])
        placer = Mapper(tree, similarity=similarity, config=config)
        placements = list(placer.place(list(rows.answers)))
        off = as_child(placer, placements)
        mapper = dict(placer.identity())
        predicted = [placement.node for placement in placements]
    settings: dict[str, Any] = {"off_tree": off, "resamples": resamples, "confidence": _CONFIDENCE, "seed": seed}
    intervals = bootstrap_scores(tree, predicted, list(rows.targets), **settings)
    full = None
    if part is not None:
        # The same seed draws the same resamples.
        full = bootstrap_scores(whole, part.on_full(predicted), part.on_full(list(rows.targets)), **settings)
    if not as_json:
        _print_scores(rows, intervals, placements, part, full)
        return
    result = {
        "file": rows.file,
        "taxonomy": taxonomy,
        "root": "/".join(whole.path(part.root)) if part is not None else None,
        "scored": rows.kind,
        "n": len(rows.rows),
        "abstained": None if mapper is None else sum(placement.abstained for placement in placements),
        "off_tree": None if mapper is None else sum(placement.off_tree for placement in placements),
        "left_out": list(rows.left_out),
        "outside": list(rows.outside),
        "confidence": _CONFIDENCE,
        "resamples": resamples,
        "seed": seed,
        "scores": {name: asdict(interval) for name, interval in intervals.items()},
        "full_scores": None if full is None else {name: asdict(interval) for name, interval in full.items()},
        "mapper": mapper,
        "rows": _row_records(tree, rows, predicted, placements, off, part),
    }
    print(json.dumps(result, ensure_ascii=False, indent=2))


def _row_records(
    tree: Taxonomy,
    rows: Predictions,
    predicted: list[int],
    placements: list[Placement],
    off: NDArray[np.bool_] | None,
    part: Domain | None,
) -> list[dict[str, Any]]:
    from taxtune.metrics import precision_recall

    hp, hr = precision_recall(tree, predicted, list(rows.targets), off_tree=off)
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
    if part is not None:
        hp, hr = precision_recall(part.full, part.on_full(predicted), part.on_full(list(rows.targets)), off_tree=off)
        for record, p, r in zip(records, hp.tolist(), hr.tolist(), strict=True):
            record |= {"full_hp": p, "full_hr": r}
    for record, placement in zip(records, placements, strict=False):
        record |= {
            "answer": placement.answer,
            "stage": str(placement.stage),
            "evidence": placement.evidence,
            "confidence": placement.confidence,
            "abstained": placement.abstained,
            "off_tree": placement.off_tree,
        }
    return records


def _print_scores(
    rows: Predictions,
    intervals: dict[str, Interval],
    placements: list[Placement],
    part: Domain | None,
    full: dict[str, Interval] | None,
) -> None:
    lines = [("", "estimate", f"{_CONFIDENCE:.0%} interval".replace("%", " %"))]
    on = "" if part is None else f" on {part.label}"
    lines += [_line(name + (on if key in _ROOTED else ""), key, intervals[key]) for key, name in _SHOWN.items()]
    if part is not None and full is not None:
        lines += [_line(f"{_SHOWN[key]} on {part.full_label}", key, full[key]) for key in _ROOTED]
    width = max(9, *(len(name) for name, _, _ in lines))
    for name, estimate, interval in lines:
        print(f"{name:<{width}} {estimate:>8}  {interval:>15}")
    examples = f"{len(rows.rows):,} example{'' if len(rows.rows) == 1 else 's'}"
    if rows.kind == "answer":
        silent, off = sum(p.abstained for p in placements), sum(p.off_tree for p in placements)
        examples += (
            f", {silent:,} of them abstentions ({_share(silent, rows)}), which say nothing, and {off:,} off the "
        )
        examples += f"tree ({_share(off, rows)}), which assert what the taxonomy lacks"
    print(examples)
    if rows.left_out:
        shown = ", ".join(map(str, rows.left_out[:20])) + (", …" if len(rows.left_out) > 20 else "")
        plural = "" if len(rows.left_out) == 1 else "s"
        print(f"{len(rows.left_out):,} row{plural} without an answer left out: {shown}")
    if rows.outside and part is not None:
        shown = ", ".join(map(str, rows.outside[:20])) + (", …" if len(rows.outside) > 20 else "")
        plural = "" if len(rows.outside) == 1 else "s"
        print(f"{len(rows.outside):,} row{plural} with a target outside {part.label} left out: {shown}")


def _share(count: int, rows: Predictions) -> str:
    return f"{count / len(rows.rows):.1%}".replace("%", " %")


def _line(name: str, key: str, value: Interval) -> tuple[str, str, str]:
    digits = 2 if key == "depth" else 3
    return name, f"{value.estimate:.{digits}f}", f"{value.low:.{digits}f} – {value.high:.{digits}f}"
