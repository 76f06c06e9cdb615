"""All held-out images in the report: each with its picture, every template's answer, and where that is on the tree."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taxtune.metrics.names import metric_name
from taxtune.report.changes import BETTER, DIFFERENT, DIRECTIONS, MISSING, UNCHANGED, WORSE, Change, state_of
from taxtune.report.confusion import level_names
from taxtune.report.pictures import small_copies
from taxtune.report.scores import Result, number, template_name
from taxtune.report.summary import COUNTS
from taxtune.tuning.records import SampleResult

__all__ = ["draw_path", "section"]

#: A sign for each direction, so that none is told by its colour alone.
SYMBOLS = {BETTER: "▲", WORSE: "▼", DIFFERENT: "◆", UNCHANGED: "=", MISSING: "?"}
#: The order of the images: what a reviewer wants to see first.
_ORDER = (WORSE, BETTER, DIFFERENT, MISSING, UNCHANGED)
#: The values of a filter in groups: the group's name, and values with their names.
Groups = list[tuple[str, list[tuple[str, str]]]]


def draw_path(row: SampleResult) -> tuple[list[str], list[str], list[str]]:
    """Returns the labels that answer and truth share, those of the answer alone, and those of the truth alone.

    An answer off the tree has something that the tree lacks below the root.
    """
    truth, placed = row.truth.split("/"), (row.placement or "").split("/")
    if row.off_tree:
        return truth[:1], ["something that the tree lacks"], truth[1:]
    steps = list(zip(truth, placed, strict=False))
    common = next((i for i, (one, other) in enumerate(steps) if one != other), len(steps))
    return truth[:common], placed[common:], truth[common:]


@dataclass(frozen=True, slots=True)
class _Image:
    """A held-out image: its rows and their changes from the baseline, by template."""

    rows: dict[str, SampleResult]
    changes: dict[str, Change]

    @property
    def row(self) -> SampleResult:
        """Any of its rows: the image and its truth are the same in all."""
        return next(iter(self.rows.values()))

    @property
    def order(self) -> int:
        return min((_ORDER.index(change.direction) for change in self.changes.values()), default=0)


def section(result: Result) -> dict[str, Any] | None:
    """Returns all held-out images and the filters that choose among them, None where there are none."""
    images = sorted(_images(result), key=lambda image: image.order)
    if not images:
        return None
    pictures = small_copies([image.row.example for image in images], result.provenance.images)
    subjects = result.contenders or tuple(held.name for held in result.heldout)
    return {
        "title": f"All {result.heldout[0].split} images",
        "split": result.heldout[0].split,
        "cards": [_card(image, subjects, pictures) for image in images],
        "subjects": [template_name(name) for name in subjects],
        "filters": _filters(result, images, subjects),
        "without_picture": len(images) - len(pictures),
    }


def _images(result: Result) -> list[_Image]:
    answered: dict[str, dict[str, SampleResult]] = {}
    for held in result.heldout:
        for row in held.rows:
            answered.setdefault(row.example, {})[held.name] = row
    contenders = result.contenders if result.heldout_baseline is not None else ()
    return [
        _Image(
            rows,
            {name: Change(rows["baseline"], rows[name]) for name in contenders if {name, "baseline"} <= set(rows)},
        )
        for rows in answered.values()
    ]


def _card(image: _Image, subjects: Sequence[str], pictures: Mapping[str, str]) -> dict[str, Any]:
    row = image.row
    truth = row.truth.split("/")
    answers = [f"{template_name(name)}: {_short(of.answer or 'no answer', 80)}" for name, of in image.rows.items()]
    facts = [_facts(image.rows.get(name), image.changes.get(name)) for name in subjects]
    return {
        "image": row.image,
        "label": truth[-1],
        "truth": truth,
        "picture": pictures.get(row.example),
        "alt": f"{truth[-1]}. {'; '.join(answers)}",
        "answers": [_answer(name, of, image.changes.get(name)) for name, of in image.rows.items()],
        "facts": json.dumps(facts, ensure_ascii=False),
        "path": row.truth,
    }


def _answer(name: str, row: SampleResult, change: Change | None) -> dict[str, Any]:
    shared, wrong, missing = ([], [], []) if row.placement is None else draw_path(row)
    measures = [(metric_name(key), number(value)) for key, value in row.measures.items() if value is not None]
    return {
        "name": template_name(name),
        "state": state_of(row),
        "direction": None if change is None else change.direction,
        "symbol": "" if change is None else SYMBOLS[change.direction],
        "change": None if change is None else change.words,
        "text": row.answer,
        "short": _short(row.answer or "", 240),
        "failure": row.failure,
        "path": [("shared", shared), ("wrong", wrong)],
        "missing": missing,
        "scores": [("hP", number(row.hp)), ("hR", number(row.hr)), *measures],
        "stage": row.stage,
        "remarks": [f"{metric_name(key)}: {text}" for key, text in row.remarks.items()],
    }


def _facts(row: SampleResult | None, change: Change | None) -> dict[str, list[str]]:
    """Returns the values of each filter that an image has with one of the templates."""
    return {
        "change": [] if change is None else [change.direction, change.words],
        "error": [] if row is None else [COUNTS[state_of(row)]],
    }


def _filters(result: Result, images: Sequence[_Image], subjects: Sequence[str]) -> list[dict[str, Any]]:
    changes = [change for image in images for change in image.changes.values()]
    directions: Groups = []
    for direction in DIRECTIONS:
        words = sorted({change.words for change in changes if change.direction == direction})
        if words:
            whole = [(direction, f"all {direction}")] if words != [direction] else []
            directions.append((direction, [*whole, *((word, word) for word in words)]))
    states = {state_of(row) for image in images for name, row in image.rows.items() if name in subjects}
    filters: list[dict[str, Any]] = [
        {"name": "change", "label": "Change", "groups": directions},
        {"name": "error", "label": "Answer", "groups": [("", [(n, n) for s, n in COUNTS.items() if s in states])]},
        {"name": "group", "label": "Group", "groups": _tree_groups(result, images)},
    ]
    return [each for each in filters if sum(len(values) for _, values in each["groups"]) > 1]


def _tree_groups(result: Result, images: Sequence[_Image]) -> Groups:
    """Returns the nodes on the truths' paths by level, with their paths."""
    paths = {tuple(image.row.truth.split("/")) for image in images}
    groups: Groups = []
    for level, name in enumerate(level_names(result.heldout, max(map(len, paths)) - 1), start=1):
        nodes = sorted({path[: level + 1] for path in paths if len(path) > level}, key=lambda path: (path[-1], path))
        groups.append((name, [("/".join(path), path[-1]) for path in nodes]))
    return groups


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
