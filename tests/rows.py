"""Rows of images as a run records them, made from plain facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from taxtune.metrics.information import leaf_information
from taxtune.metrics.table import SCORES, Predictions, ScoreTable, TemplateScores
from taxtune.policies import PlacedAnswer
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import SampleResult

__all__ = ["changed_row", "placed_row", "sample_row", "scores_of"]

_PLACED = {field.name for field in fields(PlacedAnswer)}
_ANSWER = {
    "answer": "an answer",
    "placement": "",
    "off_tree": False,
    "abstained": False,
    "stage": "verbatim",
    "confidence": None,
}


def sample_row(**facts: Any) -> SampleResult:
    """Returns a row from the fields of a row, of its placed answer and of its scores; no node is no answer."""
    own = {"example": "1", "image": "1.png", "target": 1, "truth": "a/b"}
    placed: dict[str, Any] = {}
    scores: dict[str, float] = {}
    for name, value in facts.items():
        part = placed if name in _PLACED else scores if name in SCORES else own
        part[name] = value
    if placed.get("node") is None:
        return SampleResult(**own)
    return SampleResult(**own, placed=PlacedAnswer(**{**_ANSWER, **placed}), scores=scores)


def placed_row(
    tree: Taxonomy, node: int, target: int, *, as_child: bool | None = None, **facts: Any
) -> SampleResult:
    """Returns the row of an answer on a node, with its scores.

    An answer off the tree is scored as a child of the root unless `as_child` says otherwise.
    """
    if as_child is None:
        as_child = facts.get("off_tree", False)
    weights = leaf_information(tree)
    off_tree = np.array([as_child])
    predictions = Predictions(weights, np.array([node]), np.array([target]), off_tree)
    scores = {name: float(values[0]) for name, values in predictions.scores().items()}
    truth = "/".join(tree.path(target))
    placement = "/".join(tree.path(node))
    return sample_row(target=target, truth=truth, node=node, placement=placement, **facts, **scores)


def changed_row(row: SampleResult, **facts: Any) -> SampleResult:
    """Returns the row of an answer with other fields of the row, of its answer or of its scores."""
    assert row.placed is not None
    placed = {name: facts.pop(name) for name in _PLACED & facts.keys()}
    scores = {name: facts.pop(name) for name in SCORES.keys() & facts.keys()}
    facts["placed"] = replace(row.placed, **placed)
    return replace(row, **facts, scores=row.scores | scores)


def scores_of(rows: Sequence[SampleResult]) -> TemplateScores:
    """Returns the scores of rows, over those that have an answer."""
    means = ScoreTable.of_rows([row.values for row in rows]).means()
    return TemplateScores(n=len(rows), means=means)
