"""All held-out images in the report: each with its picture, every template's answer, and where that is on the tree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from taxtune.metrics.ranks import OFF_TREE_RANK
from taxtune.report import wording
from taxtune.report.changes import (
    BETTER,
    DIFFERENT,
    DIRECTIONS,
    MISSING,
    UNCHANGED,
    WORSE,
    WRONG,
    Change,
    error_type,
    state_of,
)
from taxtune.report.pictures import PICTURE_BYTES, Pictures, small_copies
from taxtune.report.summary import COUNTS
from taxtune.report.wording import Result
from taxtune.tuning.records import SampleResult

__all__ = ["Drawn", "draw_path", "section"]

#: A sign for each direction, so that none is told by its colour alone.
SYMBOLS = {BETTER: "▲", WORSE: "▼", DIFFERENT: "◆", UNCHANGED: "=", MISSING: "?"}
#: The order of the images: what a reviewer wants to see first.
_ORDER = (WORSE, BETTER, DIFFERENT, MISSING, UNCHANGED)
#: Nodes of a part of a path that are drawn; of more, those between are counted.
_DRAWN = 5


@dataclass(frozen=True, slots=True)
class Drawn:
    """An answer's path on the tree beside the truth's.

    Attributes:
        shared: Labels that both have, the root first.
        wrong: Labels that the answer goes on with and the truth does not have.
        missing: Labels that the truth goes on with and the answer does not have.
    """

    shared: tuple[str, ...]
    wrong: tuple[str, ...]
    missing: tuple[str, ...]


def draw_path(row: SampleResult) -> Drawn:
    """Returns where an answer is on the tree; one off the tree has something that the tree lacks below the root."""
    truth, placed = row.truth.split("/"), (row.placement or "").split("/")
    if row.off_tree:
        return Drawn((truth[0],), ("something that the tree lacks",), tuple(truth[1:]))
    common = next(
        (i for i, (a, b) in enumerate(zip(truth, placed, strict=False)) if a != b), min(len(truth), len(placed))
    )
    return Drawn(tuple(truth[:common]), tuple(placed[common:]), tuple(truth[common:]))


@dataclass(frozen=True, slots=True)
class _Image:
    """A held-out image: what was recorded of it with each template, and what became of the baseline's answer."""

    rows: dict[str, SampleResult]
    changes: dict[str, Change]

    @property
    def row(self) -> SampleResult:
        """Any of its records: the image and its truth are the same in all."""
        return next(iter(self.rows.values()))

    @property
    def order(self) -> int:
        """Its place among the images."""
        return min((_ORDER.index(each.direction) for each in self.changes.values()), default=0)


def section(result: Result, picture_bytes: int | None = PICTURE_BYTES) -> dict[str, Any] | None:
    """Returns all held-out images and what they can be chosen by, None where there are none.

    Args:
        result: A tuning run, or several compared.
        picture_bytes: Bytes that the pictures may take together; None for no limit.
    """
    images = sorted(_images(result), key=lambda image: image.order)
    if not images:
        return None
    pictures = small_copies([image.row.example for image in images], result.provenance.images, picture_bytes)
    subjects = result.contenders or tuple(held.name for held in result.heldout)
    return {
        "title": f"All {result.heldout[0].split} images",
        "split": result.heldout[0].split,
        "cards": [_card(image, subjects, pictures) for image in images],
        "subjects": [wording.template_name(name) for name in subjects],
        "filters": _filters(result, images, subjects),
        "gone": len(pictures.gone),
        "left_out": len(pictures.left_out),
    }


def _images(result: Result) -> list[_Image]:
    # Runs on other data may have other images of the same name.
    answered: dict[tuple[str, str], dict[str, SampleResult]] = {}
    for held in result.heldout:
        for row in held.rows:
            answered.setdefault((row.example, row.truth), {})[held.name] = row
    baselines = {name: base.name for name in result.contenders if (base := result.baseline_of(name)) is not None}
    return [
        _Image(
            rows,
            {name: Change(rows[base], rows[name]) for name, base in baselines.items() if {name, base} <= set(rows)},
        )
        for rows in answered.values()
    ]


def _card(image: _Image, subjects: Sequence[str], pictures: Pictures) -> dict[str, Any]:
    row = image.row
    steps = row.truth.split("/")
    said = [
        f"{wording.template_name(name)}: {_short(each.answer or 'no answer', 80)}" for name, each in image.rows.items()
    ]
    facts = [_facts(image.rows.get(name), image.changes.get(name)) for name in subjects]
    return {
        "image": row.image,
        "label": steps[-1],
        "truth": steps,
        "picture": pictures.shown.get(row.example),
        "no_picture": "left out" if row.example in pictures.left_out else "no picture",
        "alt": f"{steps[-1]}. {'; '.join(said)}",
        "answers": [_answer(name, each, image.changes.get(name)) for name, each in image.rows.items()],
        "facts": json.dumps(facts, ensure_ascii=False),
        "path": row.truth,
    }


def _answer(name: str, row: SampleResult, change: Change | None) -> dict[str, Any]:
    drawn = None if row.placement is None else draw_path(row)
    measures = [
        (wording.metric_name(key), wording.number(value)) for key, value in row.measures.items() if value is not None
    ]
    return {
        "name": wording.template_name(name),
        "state": state_of(row),
        "direction": None if change is None else change.direction,
        "symbol": "" if change is None else SYMBOLS[change.direction],
        "change": None if change is None else change.words,
        "text": row.answer,
        "short": _short(row.answer or "", 240),
        "failure": row.failure,
        "parts": [] if drawn is None else [("shared", _few(drawn.shared)), ("wrong", _few(drawn.wrong))],
        "missing": [] if drawn is None else _few(drawn.missing),
        "scores": [("hP", wording.number(row.hp)), ("hR", wording.number(row.hr)), *measures],
        "stage": row.stage,
        "remarks": [f"{wording.metric_name(key)}: {text}" for key, text in row.remarks.items()],
    }


def _facts(row: SampleResult | None, change: Change | None) -> dict[str, list[str]]:
    """Returns what an image can be chosen by, with one of the templates: the values of each filter that it has."""
    return {
        "change": [] if change is None else [change.direction, change.words],
        "error": [] if row is None else list(dict.fromkeys(_kinds(row))),
        "stage": [row.stage] if row is not None and row.stage is not None else [],
    }


def _kinds(row: SampleResult) -> tuple[str, str]:
    """Returns how the first screen counts an answer, and of a wrong one how it is wrong."""
    state = state_of(row)
    return COUNTS[state], str(error_type(row)) if state == WRONG else COUNTS[state]


def _filters(result: Result, images: Sequence[_Image], subjects: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the filters: a name, what it is called, and groups of values with what they are called."""
    every = [change for image in images for change in image.changes.values()]
    groups = []
    for direction in DIRECTIONS:
        words = sorted({change.words for change in every if change.direction == direction})
        if words:
            every_one = [(direction, f"all {direction}")] if words != [direction] else []
            groups.append((direction, [*every_one, *((each, each) for each in words)]))
    rows = [row for image in images for name, row in image.rows.items() if name in subjects]
    kinds = sorted({_kinds(row) for row in rows}, key=lambda found: (list(COUNTS.values()).index(found[0]), found[1]))
    stages = sorted({row.stage for row in rows if row.stage is not None})
    filters = [
        {"name": "change", "label": "Change", "groups": groups},
        {"name": "error", "label": "Answer", "groups": _errors(kinds)},
        {"name": "clade", "label": "Clade", "groups": _clades(result, images)},
        {"name": "stage", "label": "Mapper's stage", "groups": [("", [(each, each) for each in stages])]},
    ]
    return [each for each in filters if sum(len(values) for _, values in each["groups"]) > 1]


def _errors(kinds: Sequence[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Returns the ways in which answers are wrong as a group, and every other state as a value."""
    groups = []
    for state in dict.fromkeys(state for state, _ in kinds):
        ways = [(way, way) for each, way in kinds if each == state]
        groups.append((state, [(state, f"all {state}"), *ways]) if state == COUNTS[WRONG] else ("", ways))
    return groups


def _clades(result: Result, images: Sequence[_Image]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Returns the nodes on the truths' paths by level, with their paths."""
    paths = {tuple(image.row.truth.split("/")) for image in images}
    depth = max(map(len, paths))
    names = [row.scores.rank for row in result.heldout[0].ranks if row.scores.rank != OFF_TREE_RANK]
    if {len(path) for path in paths} != {len(names) + 1}:  # ranks name levels where every path has one node of each
        names = [f"level {level}" for level in range(1, depth)]
    groups = []
    for level in range(1, depth):
        nodes = sorted({path[: level + 1] for path in paths if len(path) > level}, key=lambda path: (path[-1], path))
        groups.append((names[level - 1], [("/".join(path), path[-1]) for path in nodes]))
    return groups


def _few(labels: Sequence[str]) -> list[tuple[str, bool]]:
    """Returns labels to draw, each with whether it is one; those in the middle of many are counted instead."""
    if len(labels) <= _DRAWN:
        return [(label, True) for label in labels]
    return [(labels[0], True), (f"{len(labels) - 3} more", False), *((label, True) for label in labels[-2:])]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
