"""`taxtune score`: every score of a file of answers or predicted nodes, and precision and recall at each rank."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune.cli.interrupts import keep_work
from taxtune.cli.options import (
    EmptyOption,
    FormatOption,
    FrequenciesOption,
    JsonRowsOption,
    OffTreeAsOption,
    PresetOption,
    ResamplesOption,
    RootLabelOption,
    RootOption,
    SeedOption,
    SimilarityOption,
    SmoothingOption,
    TaxonomyOption,
    note,
)
from taxtune.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from taxtune.mapping import Placement
    from taxtune.metrics import Information, Interval, RankIntervals
    from taxtune.metrics.predictions import Predictions
    from taxtune.taxonomy import Domain

__all__ = ["score"]

_CONFIDENCE = 0.95
_SHOWN = {
    "hp": "hP",
    "hr": "hR",
    "hf": "hF",
    "accuracy": "accuracy",
    "depth": "depth",
    "ihp": "ihP",
    "ihr": "ihR",
    "ihf": "ihF",
    "remaining_uncertainty": "remaining uncertainty, bits",
    "misinformation": "misinformation, bits",
}
# What depends on the root; whether a node is exactly right does not.
_ROOTED = tuple(key for key in _SHOWN if key != "accuracy")
_TWO_DIGITS = ("depth", "remaining_uncertainty", "misinformation")


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
    frequencies: FrequenciesOption = None,
    smoothing: SmoothingOption = 0.0,
    resamples: ResamplesOption = 2000,
    seed: SeedOption = 0,
    as_json: JsonRowsOption = False,
) -> None:
    """Print hP, hR, hF, accuracy, depth, information-weighted scores and scores by rank, with 95 % intervals."""
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.metrics import bootstrap_ranks
    from taxtune.metrics.frequencies import make_information
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
    targets = list(rows.targets)
    information = make_information(tree, frequencies, smoothing=smoothing, targets=targets, part=part, on_note=note)
    # The same seed draws the same resamples.
    settings: dict[str, Any] = {"off_tree": off, "resamples": resamples, "confidence": _CONFIDENCE, "seed": seed}
    intervals = _intervals(information, predicted, targets, **settings)
    ranks = bootstrap_ranks(tree, predicted, targets, **settings)
    full = None
    if part is not None:
        on_full = part.on_full(targets).tolist()
        bits = make_information(whole, frequencies, smoothing=smoothing, targets=on_full)
        full = _intervals(bits, part.on_full(predicted).tolist(), on_full, **settings)
    if not as_json:
        _print_scores(rows, intervals, placements, part, full)
        _print_targets(information, targets)
        _print_ranks(ranks)
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
        "targets": {
            "depth": float(tree.depth[targets].mean()),
            "bits": float(information.content[targets].mean()),
        },
        "information": information.as_dict(),
        "ranks": [
            {**asdict(row.scores), "precision": _ends(row.precision), "recall": _ends(row.recall)} for row in ranks
        ],
        "mapper": mapper,
        "rows": _row_records(information, rows, predicted, placements, off, part),
    }
    print(json.dumps(result, ensure_ascii=False, indent=2))


def _intervals(
    information: Information, predicted: list[int], targets: list[int], *, off_tree: list[bool], **settings: Any
) -> dict[str, Interval]:
    from taxtune.metrics import bootstrap, hierarchical_sample, information_sample

    return bootstrap(
        hierarchical_sample(information.taxonomy, predicted, targets, off_tree=off_tree),
        information_sample(information, predicted, targets, off_tree=off_tree),
        **settings,
    )


def _ends(value: Interval | None) -> dict[str, float] | None:
    return None if value is None else asdict(value)


def _row_records(
    information: Information,
    rows: Predictions,
    predicted: list[int],
    placements: list[Placement],
    off: NDArray[np.bool_] | None,
    part: Domain | None,
) -> list[dict[str, Any]]:
    from taxtune.metrics import information_values, precision_recall

    tree, targets = information.taxonomy, list(rows.targets)
    names = ("hp", "hr", "ihp", "ihr", "remaining_uncertainty", "misinformation")
    columns = [
        *precision_recall(tree, predicted, targets, off_tree=off),
        *information_values(information, predicted, targets, off_tree=off),
    ]
    records: list[dict[str, Any]] = [
        {"row": row, "target": "/".join(tree.path(target)), "predicted": "/".join(tree.path(node))}
        | dict(zip(names, scores, strict=True))
        for row, target, node, *scores in zip(
            rows.rows, targets, predicted, *(column.tolist() for column in columns), strict=True
        )
    ]
    if part is not None:
        hp, hr = precision_recall(part.full, part.on_full(predicted), part.on_full(targets), off_tree=off)
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
    digits = 2 if key in _TWO_DIGITS else 3
    return name, f"{value.estimate:.{digits}f}", f"{value.low:.{digits}f} – {value.high:.{digits}f}"


def _print_targets(information: Information, targets: list[int]) -> None:
    depth = float(information.taxonomy.depth[targets].mean())
    bits = float(information.content[targets].mean())
    print(f"targets: mean depth {depth:.2f}, mean information {bits:.2f} bits ({information.counted})")


def _print_ranks(ranks: list[RankIntervals]) -> None:
    def share(value: Interval | None) -> tuple[str, str]:
        return ("–", "") if value is None else _line("", "hp", value)[1:]

    lines = [("rank", "said", "precision", "95 % interval", "to be said", "recall", "95 % interval")]
    lines += [
        (row.scores.rank, f"{row.scores.said:,}", *share(row.precision), f"{row.scores.due:,}", *share(row.recall))
        for row in ranks
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print()
    for name, *cells in lines:
        print(
            name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)), sep="  "
        )
