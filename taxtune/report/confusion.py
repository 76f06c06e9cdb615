"""Confusions between groups of the tree on the held-out images: pairs in words, and a matrix per level that matters.

All is counted on the paths of the rows, over the images that were answered for every template, as the scores are. An
answer on a node asserts that node and all above it, and an answer off the tree nothing below the root.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from taxtune.metrics.ranks import OFF_TREE_RANK
from taxtune.report.scores import Result, template_name
from taxtune.tuning.records import HeldoutResult, SampleResult

__all__ = ["level_names", "section"]

Path = tuple[str, ...]
Images = Sequence[tuple[SampleResult, ...]]
#: How an answer that names no group at a level is counted, and groups without a line of their own.
BROADER, OFF_TREE, OTHER = "broader", "off the tree", "other"

_PAIRS, _LEVELS, _GROUPS = 8, 4, 10


def section(result: Result) -> dict[str, Any] | None:
    """Returns the groups that are named in place of one another, None where no answer names a wrong one."""
    group = _confusions(result.heldout, result.contenders) if result.heldout else None
    return None if group is None else {"title": "Confused groups", "groups": [group]}


def level_names(heldout: Sequence[HeldoutResult], depth: int) -> list[str]:
    """Returns the names of `depth` levels below the root: ranks where there is one per level, else "level 1", ..."""
    ranks = [row.scores.rank for row in heldout[0].ranks if row.scores.rank != OFF_TREE_RANK] if heldout else []
    leaves = {row.truth.count("/") for held in heldout for row in held.rows}
    return ranks if leaves == {len(ranks)} and depth <= len(ranks) else [f"level {i + 1}" for i in range(depth)]


def _confusions(heldout: Sequence[HeldoutResult], contenders: Sequence[str]) -> dict[str, Any] | None:
    """Returns the confusions of templates that were asked about the same images, None where there are none."""
    images = _answered(heldout)
    names = [template_name(held.name) for held in heldout]
    parted = [_parted(images, i) for i in range(len(names))]
    if not any(parted):
        return None
    levels = level_names(heldout, max(len(path) for rows in images for row in rows for path in _paths(row)) - 1)
    # A level matters by the answers that leave the true path there.
    leaving: Counter[int] = Counter()
    for pairs in parted:
        for (truth, _), count in pairs.items():
            leaving[len(truth) - 1] += count
    chosen = sorted(level for level, _ in leaving.most_common(_LEVELS))
    widest = leaving.most_common(1)[0][0]
    shown = {level: _groups_at(images, level) for level in chosen}
    return {
        "images": len(images),
        "pairs": _pairs(images, parted, names, levels),
        "shown": next((i for i, held in enumerate(heldout) if held.name in contenders), 0),
        "panels": [
            {
                "name": name,
                "matrices": [
                    {"level": levels[level - 1], "open": level == widest, **_matrix(images, i, level, *shown[level])}
                    for level in chosen
                ],
            }
            for i, name in enumerate(names)
        ],
    }


def _answered(heldout: Sequence[HeldoutResult]) -> list[tuple[SampleResult, ...]]:
    """Returns the rows of each image that has an answer, and a rating, for every template; one row per template."""
    rows = [
        {row.example: row for row in held.rows if row.placement is not None and row.unrated is None} for held in heldout
    ]
    return [tuple(of[example] for of in rows) for example in rows[0] if all(example in of for of in rows)]


def _paths(row: SampleResult) -> tuple[Path, Path]:
    """Returns the paths of the truth and of the answer; of an answer off the tree the root alone."""
    truth = tuple(row.truth.split("/"))
    return truth, truth[:1] if row.off_tree or row.placement is None else tuple(row.placement.split("/"))


def _parted(images: Images, i: int) -> Counter[tuple[Path, Path]]:
    """Counts where answers leave the true path: from the true group to the one named, children of the same node."""
    parted: Counter[tuple[Path, Path]] = Counter()
    for rows in images:
        truth, named = _paths(rows[i])
        shared = sum(one == other for one, other in zip(truth, named, strict=False))
        if 0 < shared < min(len(truth), len(named)):
            parted[truth[: shared + 1], named[: shared + 1]] += 1
    return parted


def _pairs(
    images: Images, parted: Sequence[Counter[tuple[Path, Path]]], names: Sequence[str], levels: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns the pairs of siblings that are most often confused, each once, the stronger direction first."""
    truths = [_paths(rows[0])[0] for rows in images]
    counts = Counter(path[:length] for path in truths for length in range(1, len(path) + 1))
    most = {pair: max(of[pair] for of in parted) for of in parted for pair in of}
    ordered = sorted(most, key=lambda pair: (-most[pair], -sum(of[pair] for of in parted), pair))
    stronger = [pair for place, pair in enumerate(ordered) if pair[::-1] not in ordered[:place]]
    return [
        {
            "truth": truth[-1],
            "named": named[-1],
            "level": levels[len(truth) - 2],
            "parent": truth[-2],
            "images": counts[truth],
            "counts": [(name, of[truth, named]) for name, of in zip(names, parted, strict=True)],
            "back": {"images": counts[named], "counts": [of[named, truth] for of in parted]},
        }
        for truth, named in stronger[:_PAIRS]
    ]


def _groups_at(images: Images, level: int) -> tuple[list[Path], int]:
    """Returns the groups at a level that have most to do with confusions, and how many others there are."""
    weight: Counter[Path] = Counter()
    known: Counter[Path] = Counter()
    for rows in images:
        truth = _paths(rows[0])[0]
        if len(truth) <= level:
            continue
        known[truth[: level + 1]] += 1
        for row in rows:
            named = _paths(row)[1]
            if len(named) > level and named[: level + 1] != truth[: level + 1]:
                weight.update((truth[: level + 1], named[: level + 1]))
                known[named[: level + 1]] += 0
    ordered = sorted(known, key=lambda group: (-weight[group], -known[group], group))
    # One group more takes no more room than a line for "1 other".
    kept = ordered if len(ordered) <= _GROUPS + 1 else ordered[:_GROUPS]
    return sorted(kept), len(ordered) - len(kept)


def _matrix(images: Images, i: int, level: int, groups: list[Path], others: int) -> dict[str, Any]:
    """Returns the counts at a level: a row per true group, a column per group that is named."""
    counts: Counter[tuple[Path | str, Path | str]] = Counter()
    right = 0  # of those in the line of the others
    for rows in images:
        truth, named = (path[: level + 1] if len(path) > level else None for path in _paths(rows[i]))
        if truth is None:
            continue
        line: Path | str = truth if truth in groups else OTHER
        column: Path | str = BROADER if named is None else named if named in groups else OTHER
        column = OFF_TREE if rows[i].off_tree else column
        counts[line, column] += 1
        right += line == OTHER == column and truth == named
    lines: list[Path | str] = [*groups, *([OTHER] if others else [])]
    columns: list[Path | str] = [*lines, BROADER, OFF_TREE]
    name: dict[Path | str, str] = {OTHER: f"{others:,} others", **{group: group[-1] for group in groups}}
    shown = []
    for line in lines:
        total = sum(counts[line, column] for column in columns)
        if not total:
            continue  # named and never true
        cells = []
        for column in columns:
            count = counts[line, column]
            kind = "right" if line == column else "broader" if column == BROADER else "wrong"
            kind, text = ("mixed" if line == OTHER == column else kind), f"{count:,}"
            if kind == "mixed":  # of the others some are right and some are named for one another
                text = f"{right:,} right, {count - right:,} wrong"
            cells.append({"text": text, "kind": kind if count else "none", "share": round(100 * count / total)})
        shown.append({"name": name[line], "total": total, "cells": cells})
    return {"columns": [name.get(column, column) for column in columns], "rows": shown}
