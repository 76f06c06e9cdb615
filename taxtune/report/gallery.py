"""The held-out images in the report: groups that are confused, and each image with all its answers.

From the baseline to another template an answer gets better, worse, different (wrong in another
way), or does not change. Exact is better than general, general better than nothing, and nothing
better than something that is not true. Between two general answers the more specific one is better,
between two wrong ones the one that has more right and less wrong.
"""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taxtune.data.boxes import Box
from taxtune.errors import TaxtuneError
from taxtune.images import load_image
from taxtune.metrics.names import metric_name
from taxtune.metrics.outcomes import (
    ABSTAINED,
    EXACT,
    GENERAL,
    MISSING,
    OFF_TREE,
    STATES,
    WRONG,
)
from taxtune.report.formatting import Result, number, rows_by_image, shortened, template_name
from taxtune.tuning.records import SampleResult

__all__ = ["all_images", "change", "confused_pairs", "draw_path", "small_jpeg", "thumbnail"]

BETTER = "better"
WORSE = "worse"
DIFFERENT = "different"
UNCHANGED = "unchanged"
#: The directions of a change, in the order of the images, with a sign, so that none is told by its
#: colour alone.
SYMBOLS = {WORSE: "▼", BETTER: "▲", DIFFERENT: "◆", MISSING: "?", UNCHANGED: "="}
_VALUE = {EXACT: 3, GENERAL: 2, ABSTAINED: 1, WRONG: 0, OFF_TREE: 0}

#: What a placement is called, by whether it is doubtful, as far as that is known.
_DOUBTS = {True: "doubtful", False: "sure", None: ""}
#: Confused pairs that are shown.
_PAIRS = 12
#: Bytes of a report that its pictures may take together.
_MOST_BYTES = 6_000_000
#: Images whose files are read at a time.
_BATCH = 64
#: Longest side of a picture, in pixels.
_SIDE = 176
#: The same where there are more than `_FEW` pictures.
_SMALL_SIDE = 112
_FEW = 500
#: The colour of a box, which few animals and plants have.
_OUTLINE = "#ff00ff"

#: Each template's row of one image, by the template's name.
Rows = Mapping[str, SampleResult]
#: A group of the tree, as the path to it, and the one named in its place.
Pair = tuple[tuple[str, ...], tuple[str, ...]]
#: The values that an image has of each filter, by the filter's name.
Facts = dict[str, list[str]]


class Change(NamedTuple):
    """The change of an answer: its direction, one of `SYMBOLS`, and words ("exact → wrong")."""

    direction: str
    words: str


def change(before: SampleResult, after: SampleResult) -> Change:
    """Returns the change from the baseline's row to another template's row of the same image."""
    old = before.state
    new = after.state
    if MISSING in (old, new):
        return Change(MISSING, MISSING)
    if old != new:
        return Change(_direction(_VALUE[new] - _VALUE[old]), f"{old} → {new}")
    direction = UNCHANGED
    if old in (GENERAL, WRONG) and before.node != after.node:
        more_right = (after.hp or 0) - (before.hp or 0)
        more_said = (after.hr or 0) - (before.hr or 0)
        direction = _direction(more_right, more_said)
    return Change(direction, f"{old}, {direction}")


def _direction(*gains: float) -> str:
    if max(gains) > 0 and min(gains) >= 0:
        return BETTER
    if min(gains) < 0 and max(gains) <= 0:
        return WORSE
    return DIFFERENT


def draw_path(row: SampleResult) -> tuple[list[str], list[str], list[str]]:
    """Returns the labels that answer and truth share, the answer's own, and the truth's own.

    An answer off the tree has something that the tree lacks below the root.
    """
    truth = row.truth.split("/")
    if row.off_tree:
        return truth[:1], ["something that the tree lacks"], truth[1:]
    placed = (row.placement or "").split("/")
    shared = 0
    for label, other in zip(truth, placed, strict=False):
        if label != other:
            break
        shared += 1
    return truth[:shared], placed[shared:], truth[shared:]


# -- confused groups -------------------------------------------------------------------------------


def confused_pairs(result: Result) -> dict[str, Any] | None:
    """Returns the groups that are named in place of one another; None if no answer names a wrong one.

    All is counted over the images that were answered for every template, as the scores are. An
    answer on a node asserts that node and all above it, and an answer off the tree nothing below
    the root. A pair is the true group and the one named, children of the same node, where an answer
    leaves the true path; the stronger direction of a pair leads.
    """
    counts: dict[str, Counter[Pair]] = {held.name: Counter() for held in result.heldout}
    images: Counter[tuple[str, ...]] = Counter()
    confused: dict[str, set[str]] = {}
    for example, rows in rows_by_image(result.heldout).items():
        if len(rows) < len(counts) or not all(map(_is_answered, rows.values())):
            continue
        for name, row in rows.items():
            turn = _wrong_turn(row)
            if turn is not None:
                counts[name][turn] += 1
                confused.setdefault(example, set()).add(_address(turn))
        path = row.truth.split("/")
        for length in range(1, len(path) + 1):
            images[tuple(path[:length])] += 1
    pairs = []
    names = {}
    for truth, named in _stronger_pairs(list(counts.values()))[:_PAIRS]:
        directions = []
        for turn in ((truth, named), (named, truth)):
            found = [count[turn] for count in counts.values()]
            direction = {"images": images[turn[0]], "counts": found, "address": _address(turn)}
            directions.append(direction)
            if any(found):
                names[_address(turn)] = f"{turn[0][-1]} → {turn[1][-1]}"
        pairs.append((truth, named, directions))
    if not pairs:
        return None
    return {
        "title": "Confused groups",
        "templates": [template_name(name) for name in counts],
        "pairs": pairs,
        "names": names,
        "confused": confused,
    }


def _address(pair: Pair) -> str:
    """Returns the words that stand for a pair in the page's address: labels alone may recur."""
    truth, named = pair
    return f"{'/'.join(truth)} → {named[-1]}"


def _is_answered(row: SampleResult) -> bool:
    return row.placement is not None and row.unrated is None


def _stronger_pairs(counts: Sequence[Counter[Pair]]) -> list[Pair]:
    """Returns the stronger direction of each confused pair, the most frequent pair first."""
    most: Counter[Pair] = Counter()
    total: Counter[Pair] = Counter()
    for count in counts:
        most |= count
        total += count
    ordered = sorted(most, key=lambda pair: (-most[pair], -total[pair], pair))
    stronger: list[Pair] = []
    for truth, named in ordered:
        if (named, truth) not in stronger:
            stronger.append((truth, named))
    return stronger


def _wrong_turn(row: SampleResult) -> Pair | None:
    """Returns the true group and the one named where an answer leaves the true path, if it does."""
    common, wrong, missing = draw_path(row)
    if row.off_tree or not wrong or not missing:
        return None
    return (*common, missing[0]), (*common, wrong[0])


# -- the images ------------------------------------------------------------------------------------


def all_images(result: Result) -> dict[str, Any] | None:
    """Returns the held-out images and the filters that choose among them; None if there are none."""
    images = rows_by_image(result.heldout)
    if not images:
        return None
    changes = {example: _changes(rows, result.contenders) for example, rows in images.items()}
    examples = sorted(images, key=lambda example: _rank(changes[example]))
    pictures = small_copies(examples, result.provenance.images)
    cut = result.provenance.photos
    whole = {example: photo for example, (photo, _) in cut.items()}
    photos = small_copies(examples, whole, {example: box for example, (_, box) in cut.items()})
    subjects = result.contenders or tuple(held.name for held in result.heldout)
    cards = []
    known: list[Facts] = []
    confusions = confused_pairs(result) or {"names": {}, "confused": {}}
    for example in examples:
        rows = images[example]
        facts = [_facts(rows.get(name), changes[example].get(name)) for name in subjects]
        for of_template in facts:
            # Whichever template confuses them, the baseline too.
            confused = confusions["confused"].get(example, ())
            of_template["confused"] = sorted(confusions["names"].keys() & set(confused))
        known += facts
        card = _card(rows, changes[example])
        card["picture"] = pictures.get(example)
        card["photo"] = photos.get(example)
        # The values of each filter that the image has with each of the templates.
        card["facts"] = json.dumps(facts, ensure_ascii=False)
        cards.append(card)
    split = result.heldout[0].split
    return {
        "title": f"All {split} images",
        "split": split,
        "cards": cards,
        "symbols": SYMBOLS,
        "subjects": [template_name(name) for name in subjects],
        "filters": _filters(known, confusions["names"]),
        "without_picture": len(images) - len(pictures),
    }


def _changes(rows: Rows, contenders: Sequence[str]) -> dict[str, Change]:
    """Returns the change from the baseline for each of the contenders that has both."""
    if "baseline" not in rows:
        return {}
    return {name: change(rows["baseline"], rows[name]) for name in contenders if name in rows}


def _rank(changes: Mapping[str, Change]) -> int:
    """Returns the place of an image's most important change in the order of `SYMBOLS`."""
    directions = list(SYMBOLS)
    return min((directions.index(change.direction) for change in changes.values()), default=0)


def _card(rows: Rows, changes: Mapping[str, Change]) -> dict[str, Any]:
    answers = []
    spoken = []
    for name, row in rows.items():
        answers.append(_answer(name, row, changes.get(name)))
        spoken.append(f"{template_name(name)}: {shortened(row.answer or 'no answer', 80)}")
    # Image and truth are the same for all templates.
    truth = row.truth.split("/")
    return {
        "image": row.image,
        "label": truth[-1],
        "truth": truth,
        "alt": f"{truth[-1]}. {'; '.join(spoken)}",
        "answers": answers,
    }


def _facts(row: SampleResult | None, changed: Change | None) -> Facts:
    facts: Facts = {"change": [], "error": [], "placement": []}
    if changed is not None:
        facts["change"] = list(changed)
    if row is not None:
        facts["error"] = [row.state]
        facts["placement"] = [_DOUBTS[row.doubtful]]
    return facts


def _answer(name: str, row: SampleResult, changed: Change | None) -> dict[str, Any]:
    """Returns a template's answer as a card shows it."""
    shared: list[str] = []
    wrong: list[str] = []
    missing: list[str] = []
    if row.placement is not None:
        shared, wrong, missing = draw_path(row)
    measures = {key: value for key, value in row.measures.items() if value is not None}
    scores = {"hp": row.hp, "hr": row.hr, **measures}
    stage = row.stage
    if row.doubtful is not None:
        stage = f"{stage}, {_confidence(row)}"
    remarks = [f"{metric_name(key)}: {text}" for key, text in row.remarks.items()]
    remarks += [f"{column}: {value}" for column, value in row.context.items() if value]
    if row.masked is not None:
        remarks.append(f"without the checklist: {row.masked}")
    return {
        "name": template_name(name),
        "state": row.state,
        "direction": changed and changed.direction,
        "change": changed and changed.words,
        "text": row.answer,
        "short": shortened(row.answer or "", 240),
        "failure": row.failure,
        "path": [("shared", shared), ("wrong", wrong)],
        "missing": missing,
        "scores": [(metric_name(key), number(value)) for key, value in scores.items()],
        "stage": stage,
        "remarks": remarks,
    }


def _confidence(row: SampleResult) -> str:
    """Returns the confidence of a placement; of several answers it is a share of them."""
    kind = "share" if row.votes else "confidence"
    text = f"{kind} {number(row.confidence)}"
    return f"{text}: {_DOUBTS[True]}" if row.doubtful else text


def _filters(known: Sequence[Facts], pairs: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns the filters that have a choice: each with groups of values, and the values' names.

    Args:
        known: The values of each image with each template.
        pairs: The names of confused groups.
    """
    changes = {tuple(facts["change"]) for facts in known if facts["change"]}
    states = {state for facts in known for state in facts["error"]}
    doubts = {doubt for facts in known for doubt in facts["placement"]} - {""}
    directions = {}
    for direction in SYMBOLS:
        words = sorted(words for changed, words in changes if changed == direction)
        names = {word: word for word in words}
        if words and words != [direction]:
            names = {direction: f"all {direction}", **names}
        directions[direction] = names
    error = {state: state for state in STATES if state in states}
    placement = {doubt: doubt for doubt in sorted(doubts)}
    filters: list[dict[str, Any]] = [
        {"name": "change", "label": "Change", "groups": directions},
        {"name": "error", "label": "Answer", "groups": {"": error}},
        {"name": "placement", "label": "Placement", "groups": {"": placement}},
    ]
    shown = [choice for choice in filters if sum(map(len, choice["groups"].values())) > 1]
    if pairs:  # the table of confused groups leads to a single one, too
        shown.append({"name": "confused", "label": "Confused groups", "groups": {"": pairs}})
    return shown


def small_copies(
    wanted: Sequence[str], files: Mapping[str, str], boxes: Mapping[str, Box] | None = None
) -> dict[str, str]:
    """Returns small copies of images by example, of as many of the first as there is room for.

    Args:
        wanted: Examples, the most important first.
        files: Image files by example; examples without a file that can be read have no copy.
        boxes: The boxes to draw, by example.
    """
    drawn = boxes or {}
    copies: dict[str, str] = {}
    used = 0
    side = _SIDE if len(wanted) <= _FEW else _SMALL_SIDE
    # Decoding lets go of the interpreter lock. A batch at a time, so that no image is read in vain.
    with ThreadPoolExecutor(4) as pool:
        for start in range(0, len(wanted), _BATCH):
            batch = [example for example in wanted[start : start + _BATCH] if example in files]
            paths = [Path(files[example]) for example in batch]
            pictures = pool.map(thumbnail, paths, repeat(side), map(drawn.get, batch))
            for example, picture in zip(batch, pictures, strict=True):
                if picture is None:
                    continue
                used += len(picture)
                if used > _MOST_BYTES:
                    return copies
                copies[example] = picture
    return copies


def thumbnail(path: Path, side: int = _SIDE, box: Box | None = None) -> str | None:
    """Returns a small copy of an image as a data address; see `small_jpeg`."""
    data = small_jpeg(path, side, box)
    if data is None:
        return None
    return "data:image/jpeg;base64," + base64.b64encode(data).decode("ascii")


@lru_cache(1024)  # traces and tables of every template show the same images
def small_jpeg(path: Path, side: int, box: Box | None = None) -> bytes | None:
    """Returns a small copy of an image, with a box, as a JPEG file; None if it cannot be read any more.

    The scores do not depend on the picture, and the run has read it before: a report without it is
    still true.
    """
    from PIL import ImageDraw

    try:
        picture = load_image(path)
    except TaxtuneError:
        return None
    picture.thumbnail((side, side))
    if box is not None:
        corners = np.reshape(box, (2, 2)).cumsum(axis=0) * picture.size
        pen = ImageDraw.Draw(picture)
        pen.rectangle(corners.ravel().tolist(), outline=_OUTLINE, width=2)
    picture.info = {}  # Pillow would write a file's comment again
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=80, optimize=True)
    return buffer.getvalue()
