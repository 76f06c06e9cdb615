"""Rows of images as a run records them, made from plain facts."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from taxtune.metrics.information import leaf_information
from taxtune.metrics.table import SCORES, Predictions, TemplateScores
from taxtune.policies import PlacedAnswer
from taxtune.tuning.records import SampleResult, score_table

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


def sample_row(**facts):
    """Returns a row from the fields of a row, of its placed answer and of its scores; no node is no answer."""
    own = {"example": "1", "image": "1.png", "target": 1, "truth": "a/b"}
    placed = {}
    scores = {}
    for name, value in facts.items():
        if name in _PLACED:
            placed[name] = value
        elif name in SCORES:
            scores[name] = value
        else:
            own[name] = value
    if placed.get("node") is None:
        return SampleResult(**own)
    answer = PlacedAnswer(**_ANSWER | placed)
    return SampleResult(**own, placed=answer, scores=scores)


def placed_row(tree, node, target, *, as_child=None, **facts):
    """Returns the row of an answer on a node, with its scores.

    An answer off the tree is scored as a child of the root unless `as_child` says otherwise.
    """
    if as_child is None:
        as_child = facts.get("off_tree", False)
    predictions = Predictions(
        leaf_information(tree), np.array([node]), np.array([target]), np.array([as_child])
    )
    scores = {name: values.item() for name, values in predictions.scores().items()}
    truth = "/".join(tree.path(target))
    placement = "/".join(tree.path(node))
    return sample_row(target=target, truth=truth, node=node, placement=placement, **facts, **scores)


def changed_row(row, **facts):
    """Returns the row of an answer with other fields of the row, of its answer or of its scores."""
    assert row.placed is not None
    placed = {name: facts.pop(name) for name in _PLACED & facts.keys()}
    scores = {name: facts.pop(name) for name in SCORES.keys() & facts.keys()}
    facts["placed"] = replace(row.placed, **placed)
    return replace(row, **facts, scores=row.scores | scores)


def scores_of(rows):
    """Returns the scores of rows, over those that have an answer."""
    return TemplateScores(n=len(rows), means=score_table(rows).means())
