"""The held-out images in the report: groups that are confused, and each image with every template's answer on the tree.

From the baseline to another template an answer gets better, worse, different (wrong in another way), or does not
change. Exact is better than general, general better than nothing, and nothing better than something that is not true.
Between two general answers the more specific one is better, between two wrong ones the one that has more right and less
wrong.
"""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from taxtune.data.images import load_image
from taxtune.errors import TaxtuneError
from taxtune.metrics.names import metric_name
from taxtune.report.scores import Result, number, template_name
from taxtune.report.summary import (
    ABSTAINED,
    EXACT,
    GENERAL,
    MISSING,
    OFF_TREE,
    STATES,
    WRONG,
    state_of,
)
from taxtune.tuning.records import SampleResult

__all__ = ["all_images", "change", "confused_pairs", "draw_path", "small_jpeg", "thumbnail"]

BETTER, WORSE, DIFFERENT, UNCHANGED = "better", "worse", "different", "unchanged"
#: The directions of a change, in the order of the images, with a sign, so that none is told by its colour alone.
SYMBOLS = {WORSE: "▼", BETTER: "▲", DIFFERENT: "◆", MISSING: "?", UNCHANGED: "="}
_VALUE = {EXACT: 3, GENERAL: 2, ABSTAINED: 1, WRONG: 0, OFF_TREE: 0}
#: The values of a filter in groups: the group's name, and values with their names.
Groups = list[tuple[str, list[tuple[str, str]]]]
#: Each template's row of one image, by the template's name.
Rows = dict[str, SampleResult]

#: What a placement is called, by whether it is doubtful, as far as that is known.
_DOUBTS = {True: "doubtful", False: "sure", None: ""}
# Confused pairs that are shown.
_PAIRS = 12
# Bytes of a report that its pictures may take together, and images whose files are read at a time.
_MOST_BYTES, _BLOCK = 6_000_000, 64
#: Longest side in pixels, of few pictures and of many.
_SIDE, _SMALL_SIDE, _FEW = 176, 112, 500


def change(before: SampleResult, after: SampleResult) -> tuple[str, str]:
    """Returns the direction of a change, one of `SYMBOLS`, and the change in words: "exact → wrong", "wrong, better".

    Args:
        before: The baseline's row.
        after: Another template's row of the same image.
    """
    old, new = state_of(before), state_of(after)
    if MISSING in (old, new):
        return MISSING, MISSING
    if old != new:
        gain = _VALUE[new] - _VALUE[old]
        return BETTER if gain > 0 else WORSE if gain < 0 else DIFFERENT, f"{old} → {new}"
    direction = UNCHANGED
    if old in (GENERAL, WRONG) and before.node != after.node:
        gains = [(after.hp or 0) - (before.hp or 0), (after.hr or 0) - (before.hr or 0)]
        better, worse = max(gains) > 0 and min(gains) >= 0, min(gains) < 0 and max(gains) <= 0
        direction = BETTER if better else WORSE if worse else DIFFERENT
    return direction, f"{old}, {direction}"


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


def confused_pairs(result: Result) -> dict[str, Any] | None:
    """Returns the groups that are named in place of one another, None where no answer names a wrong one.

    All is counted over the images that were answered for every template, as the scores are. An answer on a node asserts
    that node and all above it, and an answer off the tree nothing below the root. A pair is the true group and the one
    named, children of the same node, where an answer leaves the true path; the stronger direction of a pair leads.
    """
    rows = [
        {row.example: row for row in held.rows if row.placement is not None and row.unrated is None}
        for held in result.heldout
    ]
    shared = [example for example in (rows[0] if rows else ()) if all(example in of for of in rows)]
    wrong = [Counter(pair for example in shared if (pair := _parting(of[example]))) for of in rows]
    if not any(wrong):
        return None
    paths = [tuple(rows[0][example].truth.split("/")) for example in shared]
    images = Counter(path[:length] for path in paths for length in range(1, len(path) + 1))
    most = {pair: max(of[pair] for of in wrong) for of in wrong for pair in of}
    ordered = sorted(most, key=lambda pair: (-most[pair], -sum(of[pair] for of in wrong), pair))
    stronger = [pair for rank, pair in enumerate(ordered) if pair[::-1] not in ordered[:rank]]
    names = [template_name(held.name) for held in result.heldout]
    pairs = [
        {
            "truth": truth[-1],
            "named": named[-1],
            "parent": truth[-2],
            "images": images[truth],
            "counts": [(name, of[truth, named]) for name, of in zip(names, wrong, strict=True)],
            "back": {"images": images[named], "counts": [of[named, truth] for of in wrong]},
        }
        for truth, named in stronger[:_PAIRS]
    ]
    return {"title": "Confused groups", "pairs": pairs}


def _parting(row: SampleResult) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Returns the paths of the true group and the one named where an answer leaves the true path; else None."""
    common, wrong, missing = draw_path(row)
    if row.off_tree or not (wrong and missing):
        return None
    return (*common, missing[0]), (*common, wrong[0])


def all_images(result: Result) -> dict[str, Any] | None:
    """Returns all held-out images and the filters that choose among them, None where there are none."""
    images: dict[str, Rows] = {}
    for held in result.heldout:
        for row in held.rows:
            images.setdefault(row.example, {})[held.name] = row
    if not images:
        return None
    contenders = result.contenders if result.heldout_baseline is not None else ()
    changes = {
        example: {
            name: change(rows["baseline"], rows[name])
            for name in contenders
            if {name, "baseline"} <= set(rows)
        }
        for example, rows in images.items()
    }
    order = list(SYMBOLS)
    examples = sorted(
        images,
        key=lambda example: min((order.index(d) for d, _ in changes[example].values()), default=0),
    )
    pictures = small_copies(examples, result.provenance.images)
    subjects = result.contenders or tuple(held.name for held in result.heldout)
    return {
        "title": f"All {result.heldout[0].split} images",
        "split": result.heldout[0].split,
        "cards": [
            _card(images[example], changes[example], subjects, pictures.get(example))
            for example in examples
        ],
        "subjects": [template_name(name) for name in subjects],
        "filters": _filters(list(images.values()), list(changes.values()), subjects),
        "without_picture": len(images) - len(pictures),
    }


def _card(
    rows: Rows, changes: Mapping[str, tuple[str, str]], subjects: Sequence[str], picture: str | None
) -> dict[str, Any]:
    row = next(iter(rows.values()))  # image and truth are the same in all
    truth = row.truth.split("/")
    answers = [
        f"{template_name(name)}: {_short(of.answer or 'no answer', 80)}"
        for name, of in rows.items()
    ]
    # The values of each filter that the image has with each of the templates.
    facts = [
        {
            "change": [*changes.get(name, ())],
            "error": [state_of(rows[name])] if name in rows else [],
            "placement": [_DOUBTS[rows[name].doubtful]] if name in rows else [],
        }
        for name in subjects
    ]
    return {
        "image": row.image,
        "label": truth[-1],
        "truth": truth,
        "picture": picture,
        "alt": f"{truth[-1]}. {'; '.join(answers)}",
        "answers": [
            _answer(name, of, *changes.get(name, (None, None))) for name, of in rows.items()
        ],
        "facts": json.dumps(facts, ensure_ascii=False),
    }


def _answer(
    name: str, row: SampleResult, direction: str | None, words: str | None
) -> dict[str, Any]:
    shared, wrong, missing = ([], [], []) if row.placement is None else draw_path(row)
    measures = [
        (metric_name(key), number(value))
        for key, value in row.measures.items()
        if value is not None
    ]
    return {
        "name": template_name(name),
        "state": state_of(row),
        "direction": direction,
        "symbol": SYMBOLS.get(direction or "", ""),
        "change": words,
        "text": row.answer,
        "short": _short(row.answer or "", 240),
        "failure": row.failure,
        "path": [("shared", shared), ("wrong", wrong)],
        "missing": missing,
        "scores": [("hP", number(row.hp)), ("hR", number(row.hr)), *measures],
        "stage": row.stage if row.doubtful is None else f"{row.stage}, {_sureness(row)}",
        "remarks": [f"{metric_name(key)}: {text}" for key, text in row.remarks.items()]
        + [f"{name}: {value}" for name, value in row.context.items() if value]
        + [f"without the checklist: {row.masked}"] * (row.masked is not None),
    }


def _sureness(row: SampleResult) -> str:
    """Returns the confidence of a placement in words; of several answers it is a share, and no probability."""
    sure = f"{'share' if row.votes else 'confidence'} {number(row.confidence)}"
    return f"{sure}: {_DOUBTS[True]}" if row.doubtful else sure


def _filters(
    images: Sequence[Rows],
    changes: Sequence[Mapping[str, tuple[str, str]]],
    subjects: Sequence[str],
) -> list[dict[str, Any]]:
    directions: Groups = []
    for direction in SYMBOLS:
        words = sorted(
            {words for one in changes for kind, words in one.values() if kind == direction}
        )
        if words:
            whole = [(direction, f"all {direction}")] if words != [direction] else []
            directions.append((direction, [*whole, *((word, word) for word in words)]))
    shown = [row for rows in images for name, row in rows.items() if name in subjects]
    states, doubts = {state_of(row) for row in shown}, {_DOUBTS[row.doubtful] for row in shown}
    filters: list[dict[str, Any]] = [
        {"name": "change", "label": "Change", "groups": directions},
        {
            "name": "error",
            "label": "Answer",
            "groups": [("", [(state, state) for state in STATES if state in states])],
        },
        {
            "name": "placement",
            "label": "Placement",
            "groups": [("", [(word, word) for word in sorted(doubts - {""})])],
        },
    ]
    return [each for each in filters if sum(len(values) for _, values in each["groups"]) > 1]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def small_copies(wanted: Sequence[str], files: Mapping[str, str]) -> dict[str, str]:
    """Returns small copies of images by example, the first ones of those wanted that there is room for.

    Args:
        wanted: Examples, the most important first.
        files: Image files by example; examples without a file that can be read have no copy.
    """
    shown: dict[str, str] = {}
    used, side = 0, _SIDE if len(wanted) <= _FEW else _SMALL_SIDE
    # Decoding lets go of the interpreter lock. A block at a time, so that no image is read in vain.
    with ThreadPoolExecutor(4) as pool:
        for start in range(0, len(wanted), _BLOCK):
            block = [example for example in wanted[start : start + _BLOCK] if example in files]
            pictures = pool.map(lambda example: thumbnail(Path(files[example]), side), block)
            for example, picture in zip(block, pictures, strict=True):
                used += len(picture or "")
                if used > _MOST_BYTES:
                    return shown
                if picture is not None:
                    shown[example] = picture
    return shown


def thumbnail(path: Path, side: int = _SIDE) -> str | None:
    """Returns a small copy of an image as a data address; see `small_jpeg`."""
    data = small_jpeg(path, side)
    return (
        None if data is None else "data:image/jpeg;base64," + base64.b64encode(data).decode("ascii")
    )


@lru_cache(1024)  # traces and tables of every template show the same images
def small_jpeg(path: Path, side: int) -> bytes | None:
    """Returns a small copy of an image as a JPEG file, or None where the image cannot be read any more.

    The scores do not depend on the picture, and the run has read it before: a report without it is still true.
    """
    try:
        picture = load_image(path)
    except TaxtuneError:
        return None
    picture.thumbnail((side, side))
    picture.info = {}  # Pillow would write a file's comment again
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=80, optimize=True)
    return buffer.getvalue()
