"""The report's tree: how far down it the answers to each template are right, drawn as an icicle with a table beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taxtune.report import wording
from taxtune.report.clades import Clade, alike, answered, grow, level_names, path_of
from taxtune.report.icicle import LINE, Box, Icicle, lay_out
from taxtune.report.wording import Result
from taxtune.tuning.records import HeldoutResult, SampleResult

__all__ = ["section"]

_ROOT_WIDTH = 0.45  # of another column's: there is little to say of the root
_NAMED = 3
# The least width of a column (see report.css), and about that of a character, in pixels.
_NARROWEST, _CHARACTER = 140, 6.5


def section(result: Result) -> dict[str, Any] | None:
    """Returns how far down the tree each held-out template is right, None where there is no held-out answer.

    Args:
        result: A tuning run, or templates compared.
    """
    trees = [tree for held in alike(result.heldout) if (tree := _tree(result, held)) is not None]
    return {"title": "How far down the tree the answers are right", "trees": trees} if trees else None


def _tree(result: Result, heldout: Sequence[HeldoutResult]) -> dict[str, Any] | None:
    """Returns the tree of templates that were asked about the same images, None where none was answered for all."""
    images = answered(heldout)
    root = grow(images)
    if root is None:
        return None
    icicle = lay_out(root)
    levels = level_names(heldout, images)
    names = [wording.template_name(held.name) for held in heldout]
    bases = [_base(result, heldout, i) for i in range(len(names))]
    return {
        "images": len(images),
        "height": round(icicle.height),
        "columns": [
            {"x": f"{_x(icicle, i):.3f}%", "name": "" if depth == 0 else levels[depth - 1]}
            for i, depth in enumerate(icicle.columns)
        ],
        "grouped": any(len(box.members) > 1 for box in icicle.root.walk()),
        "shown": next((i for i, base in enumerate(bases) if base is not None), 0),
        "compared": any(base is not None for base in bases),
        "panels": [
            {
                "name": name,
                "against": None if base is None else names[base],
                "alt": _alt(name, images, i, levels),
                "aside": _aside(images, i),
                "boxes": [_drawn(box, icicle, i, base) for box in icicle.root.walk()],
                "rows": _rows(icicle.root, i, base),
            }
            for i, (name, base) in enumerate(zip(names, bases, strict=True))
        ],
    }


def _base(result: Result, heldout: Sequence[HeldoutResult], i: int) -> int | None:
    """Returns the place of the baseline that a template is compared with, None for a baseline itself."""
    found = result.baseline_of(heldout[i].name)
    return next((k for k, held in enumerate(heldout) if held is found and k != i), None)


def _x(icicle: Icicle, column: int) -> float:
    """Returns where a column begins, in per cent of the width."""
    single = len(icicle.columns) == 1
    widths = [1.0 if single or i else _ROOT_WIDTH for i in range(len(icicle.columns))]
    return 100 * sum(widths[:column]) / sum(widths)


def _drawn(box: Box, icicle: Icicle, i: int, base: int | None) -> dict[str, Any]:
    first, after = icicle.column(box.level), icicle.column(box.end + 1)
    label = _label(box)
    share = 100 / box.images
    # Of the root every answer is right.
    number = str(box.images) if box.level == 0 == box.end else f"{box.right[i]}/{box.images}"
    change = "" if base is None or box.right[i] == box.right[base] else _signed(box.right[i] - box.right[base])
    taken = (len(f"{number} {change}") + 2) * _CHARACTER / (_NARROWEST * max(1, after - first))
    return {
        "x": f"{_x(icicle, first):.3f}%",
        "width": f"{_x(icicle, after) - _x(icicle, first):.3f}%",
        "y": f"{box.top:.2f}",
        "height": f"{box.height:.2f}",
        # Above one another where there is room, else on one line.
        "lines": (f"{box.height / 2 - 8:.2f}", f"{box.height / 2 + 8:.2f}") if box.height >= 2 * LINE else None,
        "middle": f"{box.height / 2:.2f}",
        "right": f"{share * box.right[i]:.2f}%",
        "wrong": f"{share * box.wrong[i]:.2f}%",
        "label": _short(box) if box.height >= LINE - 0.5 else "",
        "room": f"{100 * max(0.2, 1 - taken):.0f}%",
        "number": number,
        "change": change,
        "title": f"{label}: {_counts(box, i)}"
        + ("" if base is None else f" (with the baseline {box.right[base]:,} right, {box.wrong[base]:,} wrong)"),
    }


def _counts(box: Box, i: int) -> str:
    broader = box.images - box.right[i] - box.wrong[i]
    what = "image" if box.images == 1 else "images"
    return f"of {box.images:,} {what} {box.right[i]:,} right, {broader:,} broader, {box.wrong[i]:,} wrong"


def _label(box: Box) -> str:
    if box.labels:
        return wording.visible(" › ".join(box.labels))
    return f"{len(box.members):,} others" if box.partial else f"all {len(box.members):,}"


def _short(box: Box) -> str:
    """Returns what stands in a box: of a long chain the ends."""
    if len(box.labels) > 2:
        return wording.visible(f"{box.labels[0]} › … › {box.labels[-1]}")
    return _label(box)


def _rows(box: Box, i: int, base: int | None, depth: int = 0) -> list[dict[str, Any]]:
    """Returns the table: a row a box, and after what is below it one for nodes that are said there and never true."""
    rows: list[dict[str, Any]] = [
        {
            "depth": depth,
            "label": _label(box),
            "images": box.images,
            "right": box.right[i],
            "share": f"{100 * box.right[i] / box.images:.0f} %",
            "broader": box.images - box.right[i] - box.wrong[i],
            "wrong": box.wrong[i],
            "said": box.said[i],
            "before": None if base is None else (box.right[base], box.wrong[base]),
        }
    ]
    for child in box.children:
        rows += _rows(child, i, base, depth + 1)
    unseen = [each for each in box.unseen if each.said[i]]
    if unseen:
        said = sum(each.said[i] for each in unseen)
        rows.append({"depth": depth + 1, "label": _unseen(unseen, i), "images": 0, "said": said})
    return rows


def _unseen(clades: Sequence[Clade], i: int) -> str:
    ordered = sorted(clades, key=lambda each: (-each.said[i], each.path))
    names = ", ".join(wording.visible(each.path[-1]) for each in ordered[:_NAMED])
    more = len(ordered) - _NAMED
    return f"not shown by any image: {names}" + (f" and {more:,} more" if more > 0 else "")


def _alt(name: str, images: Sequence[tuple[SampleResult, ...]], i: int, levels: Sequence[str]) -> str:
    """Returns what the drawing shows, for those who do not see it: how many are right at each level."""
    # The tree once more, as if each level were one box.
    said = []
    for depth, level in enumerate(levels, start=2):
        due = [rows for rows in images if len(path_of(rows[0].truth)) >= depth]
        right = sum(
            not rows[i].off_tree and path_of(rows[i].placement or "")[:depth] == path_of(rows[i].truth)[:depth]
            for rows in due
        )
        if due:
            said.append(f"{level} {right:,} of {len(due):,}")
    found = "; ".join(said) or "the images are of the root itself"
    return f"The tree of the images, answered with the {name} template. Right down to: {found}."


def _aside(images: Sequence[tuple[SampleResult, ...]], i: int) -> str:
    """Returns how many answers are nowhere below the root, as a sentence; empty where none is."""
    off = sum(rows[i].off_tree for rows in images)
    silent = sum(rows[i].abstained for rows in images)
    said = [f"{off:,} off the tree, which counts as wrong"] if off else []
    said += [f"{silent:,} that decline or say nothing, which counts as broader"] if silent else []
    return f"Among the answers: {' and '.join(said)}." if said else ""


def _signed(value: int) -> str:
    return f"{value:+,}".replace("-", "−")
