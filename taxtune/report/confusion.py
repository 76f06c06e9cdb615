"""Confusions between groups of the tree on the held-out images: pairs in words, and a matrix at the level that matters.

All is counted over the images that were answered for every template, as the scores are. An answer on a node asserts
that node and all above it, and an answer off the tree nothing below the root.
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
#: The paths of the truth and of the answer of each image; those of an answer off the tree end at the root.
Answers = Sequence[tuple[Path, Path, SampleResult]]
# How an answer that names no group at a level is counted, and groups without a line of their own.
_BROADER, _OFF_TREE, _OTHER = "broader", "off the tree", "others"
_PAIRS, _GROUPS = 8, 10


def section(result: Result) -> dict[str, Any] | None:
    """Returns the groups that are named in place of one another, None where no answer names a wrong one."""
    names, answers = [template_name(held.name) for held in result.heldout], _answers(result.heldout)
    wrong = [Counter(pair for truth, named, _ in some if (pair := _parting(truth, named))) for some in answers]
    if not any(wrong):
        return None
    levels = level_names(result.heldout, max(len(path) for some in answers for pair in some for path in pair[:2]) - 1)
    # The level at which most answers leave the true path.
    level = Counter(len(truth) - 1 for some in wrong for truth, _ in some.elements()).most_common(1)[0][0]
    groups, others = _groups_at(answers, level)
    return {
        "title": "Confused groups",
        "pairs": _pairs(answers, wrong, names, levels),
        "level": levels[level - 1],
        "shown": next((i for i, held in enumerate(result.heldout) if held.name in result.contenders), 0),
        "matrices": [
            {"name": name, **_matrix(some, level, groups, others)} for name, some in zip(names, answers, strict=True)
        ],
    }


def level_names(heldout: Sequence[HeldoutResult], depth: int) -> list[str]:
    """Returns the names of `depth` levels below the root: ranks where there is one per level, else "level 1", ..."""
    ranks = [row.scores.rank for row in heldout[0].ranks if row.scores.rank != OFF_TREE_RANK] if heldout else []
    leaves = {row.truth.count("/") for held in heldout for row in held.rows}
    return ranks if leaves == {len(ranks)} and depth <= len(ranks) else [f"level {i + 1}" for i in range(depth)]


def _answers(heldout: Sequence[HeldoutResult]) -> list[Answers]:
    """Returns each template's answers to the images that have an answer, and a rating, for every template."""
    rows = [
        {row.example: row for row in held.rows if row.placement is not None and row.unrated is None} for held in heldout
    ]
    shared = [example for example in (rows[0] if rows else ()) if all(example in of for of in rows)]
    return [[_paths(of[example]) for example in shared] for of in rows]


def _paths(row: SampleResult) -> tuple[Path, Path, SampleResult]:
    truth = tuple(row.truth.split("/"))
    return truth, truth[:1] if row.off_tree or row.placement is None else tuple(row.placement.split("/")), row


def _parting(truth: Path, named: Path) -> tuple[Path, Path] | None:
    """Returns the true group and the one named, children of the same node, where an answer leaves the true path."""
    shared = sum(one == other for one, other in zip(truth, named, strict=False))
    return (truth[: shared + 1], named[: shared + 1]) if 0 < shared < min(len(truth), len(named)) else None


def _pairs(
    answers: Sequence[Answers], wrong: Sequence[Counter[tuple[Path, Path]]], names: Sequence[str], levels: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns the pairs of siblings that are most often confused, each once, the stronger direction first."""
    counts = Counter(truth[:length] for truth, *_ in answers[0] for length in range(1, len(truth) + 1))
    most = {pair: max(of[pair] for of in wrong) for of in wrong for pair in of}
    ordered = sorted(most, key=lambda pair: (-most[pair], -sum(of[pair] for of in wrong), pair))
    stronger = [pair for place, pair in enumerate(ordered) if pair[::-1] not in ordered[:place]]
    return [
        {
            "truth": truth[-1],
            "named": named[-1],
            "level": levels[len(truth) - 2],
            "parent": truth[-2],
            "images": counts[truth],
            "counts": [(name, of[truth, named]) for name, of in zip(names, wrong, strict=True)],
            "back": {"images": counts[named], "counts": [of[named, truth] for of in wrong]},
        }
        for truth, named in stronger[:_PAIRS]
    ]


def _groups_at(answers: Sequence[Answers], level: int) -> tuple[list[Path], int]:
    """Returns the groups at a level that have most to do with confusions, and how many others there are."""
    weight: Counter[Path] = Counter()
    known: Counter[Path] = Counter()
    for some in answers:
        for truth, named, _ in some:
            if len(truth) > level:
                pair = truth[: level + 1], named[: level + 1]
                known[pair[0]] += 1
                if len(named) > level and pair[0] != pair[1]:
                    weight.update(pair)
                    known[pair[1]] += 0
    ordered = sorted(known, key=lambda group: (-weight[group], -known[group], group))
    # One group more takes no more room than a line for "1 other".
    kept = ordered if len(ordered) <= _GROUPS + 1 else ordered[:_GROUPS]
    return sorted(kept), len(ordered) - len(kept)


def _matrix(answers: Answers, level: int, groups: list[Path], others: int) -> dict[str, Any]:
    """Returns the counts at a level: a row per true group, a column per group that is named."""
    counts: Counter[tuple[Path | str, Path | str]] = Counter()
    for truth, named, row in answers:
        if len(truth) > level:
            line, column = (path[: level + 1] if path[: level + 1] in groups else _OTHER for path in (truth, named))
            column = _OFF_TREE if row.off_tree else _BROADER if len(named) <= level else column
            counts[line, column] += 1
    lines: list[Path | str] = [*groups, *([_OTHER] if others else [])]
    columns: list[Path | str] = [*lines, _BROADER, _OFF_TREE]
    rows = []
    for line in lines:
        total = sum(counts[line, column] for column in columns)
        cells = []
        for column in columns:
            # Of the others some are right and some are named for one another.
            kind = "broader" if column == _BROADER or line == _OTHER == column else "wrong"
            kind = "right" if line == column != _OTHER else kind
            count = counts[line, column]
            share = round(100 * count / total) if total else 0
            cells.append({"count": count, "kind": kind if count else "none", "share": share})
        if total:  # not named and never true
            rows.append({"name": _name(line, others), "total": total, "cells": cells})
    return {"columns": [_name(column, others) for column in columns], "rows": rows}


def _name(group: Path | str, others: int) -> str:
    return group[-1] if isinstance(group, tuple) else f"{others:,} others" if group == _OTHER else group
