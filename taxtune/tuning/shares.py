"""The share of the probability that a node needs, chosen on tuning images for what a run is tuned for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.hierarchical import harmonic_mean, precision_recall
from taxtune.metrics.information import Information, information_values
from taxtune.policies import SHARES, Paths, control_risk, worst_loss
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.objective import Objective
from taxtune.tuning.records import SampleResult, TemplateScores

__all__ = ["can_choose", "cross_fitted", "final_share", "paths_of"]

_FOLDS = 10
_CHOICE = SHARES[::5]  # finer ones place few of some hundred images elsewhere

FloatArray = NDArray[np.float64]
Value = Callable[[TemplateScores], float]


def paths_of(taxonomy: Taxonomy, rows: Sequence[SampleResult]) -> Paths:
    """Returns the ways that recorded probabilities lead; each row has one."""
    nodes = np.full((len(rows), taxonomy.height + 1), -1, dtype=np.int64)
    inside, outside = np.zeros(nodes.shape), np.full(nodes.shape, np.inf)
    for i, row in enumerate(rows):
        nodes[i, : len(row.way)], inside[i, : len(row.way)] = row.way, row.shares
        outside[i, : len(row.way)] = 1 - inside[i, : len(row.way)]
    return Paths(nodes, inside, outside)


def can_choose(objective: Objective) -> bool:
    """Tells whether a share can be chosen for an objective: it is a function of the means that a place alone has."""
    means = dict.fromkeys(("hp", "hr", "hf", "accuracy", "depth", "ihp", "ihr", "ihf"), 0.5)
    try:
        objective.aimed(TemplateScores(n=1, remaining_uncertainty=0.5, misinformation=0.5, **means))  # type: ignore[arg-type]
    except Exception:  # it may be a user's own function
        return False
    return not objective.held_to_baseline


def final_share(
    taxonomy: Taxonomy, information: Information, rows: Sequence[SampleResult], objective: Objective
) -> float:
    """Returns the share that a winner is judged by.

    Where the objective holds hP with a confidence it is the smallest share whose bound does, as `control_risk` tests
    them; where none does, or it holds nothing so, the one that is best on the images.

    Args:
        taxonomy: The label tree.
        information: Weights of the nodes.
        rows: The winner's rows on the tuning images; those without an answer are left out.
        objective: What the run is tuned for.
    """
    rows = [row for row in rows if row.node is not None]
    off = np.array([row.off_tree for row in rows])
    tables = _tables(taxonomy, information, paths_of(taxonomy, rows), [row.target for row in rows], off)
    for held in objective.constraints:
        if held.measure == "hp" and held.confidence > 0.5 and held.least < 1:
            losses, risk = 1 - tables["hp"], 1 - held.least
            levels = control_risk(losses, risk, held.confidence, worst=worst_loss(taxonomy))
            if kept := sum(level.kept for level in levels):
                return _CHOICE[kept - 1]
    return _CHOICE[_best(tables, objective.value, np.ones(len(rows), dtype=bool))]


def cross_fitted(
    taxonomy: Taxonomy,
    information: Information,
    paths: Paths,
    targets: Sequence[int],
    value: Value,
    *,
    off_tree: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Returns the depth that each image is placed at by the share that is best on the other folds, shape (n,).

    Folds are the images in turn; a single image is placed at the root.

    Args:
        taxonomy: The label tree.
        information: Weights of the nodes.
        paths: The ways that the images' answers lead.
        targets: The true nodes, shape (n,).
        value: From scores to the number to maximise.
        off_tree: Answers that count as a child of the root that is never right, shape (n,).
    """
    tables = _tables(taxonomy, information, paths, targets, off_tree)
    n = len(off_tree)
    fold, depths = np.arange(n) % min(_FOLDS, n), np.zeros(n, dtype=np.int64)
    for each in np.unique(fold):
        own = fold == each
        if not own.all():
            depths[own] = paths.depths(_CHOICE[_best(tables, value, ~own)])[own]
    return depths


def _tables(
    taxonomy: Taxonomy, information: Information, paths: Paths, targets: Sequence[int], off_tree: NDArray[np.bool_]
) -> dict[str, FloatArray]:
    """Returns hP, hR, accuracy and their like of each image at each share, each of shape (shares, n)."""
    target = np.asarray(targets, dtype=np.int64)
    names = ("hp", "hr", "ihp", "ihr", "remaining_uncertainty", "misinformation", "accuracy", "abstained", "depth")
    rows = []
    for share in _CHOICE:
        nodes = paths.at(paths.depths(share))[0]
        hp, hr = precision_recall(taxonomy, nodes, target, off_tree=off_tree)
        bits = information_values(information, nodes, target, off_tree=off_tree)
        on_root = (nodes == taxonomy.root) & ~off_tree
        rows.append((hp, hr, *bits, (nodes == target) & ~off_tree, on_root, taxonomy.depth[nodes] + off_tree))
    return dict(zip(names, np.array(rows, dtype=np.float64).transpose(1, 0, 2), strict=True))


def _best(tables: dict[str, FloatArray], value: Value, images: NDArray[np.bool_]) -> int:
    means = {name: table[:, images].mean(axis=1).tolist() for name, table in tables.items()}
    values = []
    for i in range(len(_CHOICE)):
        at = {name: mean[i] for name, mean in means.items()}
        at |= {"hf": harmonic_mean(at["hp"], at["hr"]), "ihf": harmonic_mean(at["ihp"], at["ihr"])}
        values.append(value(TemplateScores(n=int(images.sum()), **at)))
    return int(np.argmax(values))
