"""The report's confusions: which clades are said for which, in words and as a matrix at each rank that matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from taxtune.report import wording
from taxtune.report.clades import Path, alike, answered, level_names, path_of, said_path
from taxtune.report.wording import Result
from taxtune.tuning.records import HeldoutResult, SampleResult

__all__ = ["section"]

Images = Sequence[tuple[SampleResult, ...]]
#: What an answer without a clade at a level is counted as, and clades that have no line of their own.
BROADER, OFF_TREE, OTHER = "broader", "off the tree", "other"

_PAIRS = 8
_LEVELS = 4
_CLADES = 10


def section(result: Result) -> dict[str, Any] | None:
    """Returns the clades that are said for one another, None where no answer names a wrong one.

    Args:
        result: A tuning run, or templates compared.
    """
    groups = [found for held in alike(result.heldout) if (found := _group(held, result.contenders)) is not None]
    return {"title": "Which clades are said for which", "groups": groups} if groups else None


def _group(heldout: Sequence[HeldoutResult], contenders: Sequence[str]) -> dict[str, Any] | None:
    """Returns the confusions of templates that were asked about the same images, None where there are none."""
    images = answered(heldout)
    names = [wording.template_name(held.name) for held in heldout]
    parted = [_parted(images, i) for i in range(len(names))]
    if not any(parted):
        return None
    levels = level_names(heldout, images)
    # A level matters by the answers that leave the true path there.
    leaving: Counter[int] = Counter()
    for each in parted:
        for (truth, _), count in each.items():
            leaving[len(truth) - 1] += count
    chosen = sorted(level for level, _ in leaving.most_common(_LEVELS))
    widest = leaving.most_common(1)[0][0]
    confused = {level: _confused(images, level) for level in chosen}
    return {
        "images": len(images),
        "pairs": _pairs(images, parted, names, levels),
        "shown": next((i for i, held in enumerate(heldout) if held.name in contenders), 0),
        "panels": [
            {
                "name": name,
                "matrices": [
                    {"level": levels[level - 1], "open": level == widest, **_matrix(images, i, level, confused[level])}
                    for level in chosen
                ],
            }
            for i, name in enumerate(names)
        ],
    }


def _parted(images: Images, i: int) -> Counter[tuple[Path, Path]]:
    """Returns how often answers part from the truth: from the true clade to the one said, children of the same node."""
    found: Counter[tuple[Path, Path]] = Counter()
    for rows in images:
        truth, said = path_of(rows[i].truth), said_path(rows[i])
        shared = sum(one == other for one, other in zip(truth, said, strict=False))
        if 0 < shared < min(len(truth), len(said)):
            found[truth[: shared + 1], said[: shared + 1]] += 1
    return found


def _pairs(
    images: Images, parted: Sequence[Counter[tuple[Path, Path]]], names: Sequence[str], levels: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns the pairs of siblings that are most often said for one another, each once, the stronger way first."""
    lineages = (path_of(rows[0].truth) for rows in images)
    due = Counter(path[:length] for path in lineages for length in range(1, len(path) + 1))
    most = {pair: max(each[pair] for each in parted) for each in parted for pair in each}
    ordered = sorted(most, key=lambda pair: (-most[pair], -sum(each[pair] for each in parted), pair))
    stronger = [pair for place, pair in enumerate(ordered) if pair[::-1] not in ordered[:place]]
    return [
        {
            "truth": truth[-1],
            "said": said[-1],
            "level": levels[len(truth) - 2],
            "parent": truth[-2],
            "due": due[truth],
            "counts": [(name, each[truth, said]) for name, each in zip(names, parted, strict=True)],
            "back": {"due": due[said], "counts": [each[said, truth] for each in parted]},
        }
        for truth, said in stronger[:_PAIRS]
    ]


def _at(path: Path, level: int) -> Path | None:
    return path[: level + 1] if len(path) > level else None


def _confused(images: Images, level: int) -> tuple[list[Path], int]:
    """Returns the clades at a level that have most to do with confusions, and how many others there are."""
    weight: Counter[Path] = Counter()
    known: Counter[Path] = Counter()
    for rows in images:
        truth = _at(path_of(rows[0].truth), level)
        if truth is None:
            continue
        known[truth] += 1
        for row in rows:
            said = _at(said_path(row), level)
            if said is not None and said != truth:
                weight.update((truth, said))
                known[said] += 0
    ordered = sorted(known, key=lambda clade: (-weight[clade], -known[clade], clade))
    # One clade more takes no more room than a line for "1 other".
    kept = ordered if len(ordered) <= _CLADES + 1 else ordered[:_CLADES]
    return sorted(kept), len(ordered) - len(kept)


def _matrix(images: Images, i: int, level: int, shown: tuple[list[Path], int]) -> dict[str, Any]:
    """Returns the counts at a level: a row a true clade, a column a clade that is said."""
    clades, others = shown
    counts: Counter[tuple[Path | str, Path | str]] = Counter()
    right = 0  # of those in the line of the others
    for rows in images:
        truth, said = _at(path_of(rows[i].truth), level), _at(said_path(rows[i]), level)
        if truth is None:
            continue
        line: Path | str = truth if truth in clades else OTHER
        column: Path | str = (
            OFF_TREE if rows[i].off_tree else BROADER if said is None else said if said in clades else OTHER
        )
        counts[line, column] += 1
        right += line == OTHER == column and truth == said
    tail = [OTHER] if others else []
    columns: list[Path | str] = [*clades, *tail, BROADER, OFF_TREE]
    lines = []
    for line in columns[: len(clades) + len(tail)]:
        total = sum(counts[line, column] for column in columns)
        if not total:
            continue  # said and never true
        cells = []
        for column in columns:
            count, kind = counts[line, column], _kind(line, column)
            # Of the others some are right and some say one another.
            text = f"{right:,} right, {count - right:,} wrong" if line == OTHER == column else f"{count:,}"
            cells.append({"text": text, "kind": kind if count else "none", "shade": -(-5 * count // total)})
        lines.append({"name": _name(line, others), "total": total, "cells": cells})
    return {"columns": [_name(column, others) for column in columns], "rows": lines}


def _kind(line: Path | str, column: Path | str) -> str:
    if line == column:
        return "mixed" if line == OTHER else "right"
    return "broader" if column == BROADER else "wrong"


def _name(clade: Path | str, others: int) -> str:
    if isinstance(clade, tuple):
        return clade[-1]
    return f"{others:,} others" if clade == OTHER else clade
