"""Two models whose greedy answers, sampled answers and probabilities were recorded, as scores of ways to answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taxtune.fieldguide import TAXONOMY_FILE
from taxtune.metrics import precision_recall
from taxtune.policies import THRESHOLDS, SelfConsistency, spread, weighted_paths
from taxtune.taxonomy import Taxonomy, read_taxonomy

LANDSCAPES = Path(__file__).resolve().parent

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Ways:
    """hP and hR of several ways to answer, on every image.

    Attributes:
        hp: Shape (templates, options, images), the most cautious option first, which never has less
            hP than another.
        hr: Shape (templates, options, images).
        calls: VLM calls per image.
        loss: Where the templates are temperatures, the log-loss of each, shape (templates, images):
            the one with least is taken.
        leaf: How sure each image's most likely species is, and whether it is right, both of shape
            (templates, images).
    """

    hp: FloatArray
    hr: FloatArray
    calls: int
    loss: FloatArray | None = None
    leaf: tuple[FloatArray, FloatArray] | None = None


@dataclass(frozen=True)
class Bed:
    """What was recorded of one model; see `landscapes/README.md`.

    Attributes:
        tree: The label tree.
        target: The true node of each image.
        degraded: Which are seen badly.
        greedy: hP and hR of greedy answers, the baseline's first.
        votes: Nodes of sampled answers by template, each of shape (images, answers).
        kept: The arrays of probabilities.
    """

    tree: Taxonomy
    target: IntArray
    degraded: NDArray[np.bool_]
    greedy: Ways
    votes: list[IntArray]
    kept: dict[str, NDArray[np.generic]]

    @cached_property
    def nodes(self) -> IntArray:
        """The node of each name, the species first; -1 for all else."""
        return np.append(self.kept["nodes"].astype(np.int64), -1)

    @cached_property
    def species(self) -> int:
        """How many names are those of species."""
        return int(np.isin(self.nodes, self.tree.leaves).sum())

    def logs(self, template: int, sharper: float = 1.0) -> FloatArray:
        """Returns the log-probabilities of the names and of all else, shape (images, names + 1)."""
        logs = self.kept["logp"][template].astype(np.float64)
        rest = np.log(np.maximum(1 - np.exp(logs).sum(axis=1, keepdims=True), 1e-9))
        return np.hstack([logs, rest]) * sharper

    def part(self, share: float) -> IntArray:
        """Returns the most images of which a share is degraded: the first so many of either kind."""
        kinds = (np.flatnonzero(self.degraded), np.flatnonzero(~self.degraded))
        images = int(min(len(kinds[0]) / share, len(kinds[1]) / (1 - share)))
        bad = round(share * images)
        return np.sort(np.concatenate([kinds[0][:bad], kinds[1][: images - bad]]))

    def placed(
        self,
        logs: Sequence[FloatArray],
        *,
        nodes: IntArray | None = None,
        spreads: bool = True,
        fitted: bool = False,
    ) -> Ways:
        """Returns the scores at every threshold after answering the root always, by table of log-weights."""
        nodes = self.nodes if nodes is None else nodes
        hp, hr, loss, sure, right = ([] for _ in range(5))
        column = {int(node): i for i, node in enumerate(self.nodes[: self.species])}
        true = np.array([column[int(node)] for node in self.target])
        rows = np.arange(len(true))
        for log in logs:
            weights = np.exp(log - log.max(axis=1, keepdims=True))
            weights = spread(self.tree, nodes, weights) if spreads else weights
            paths = weighted_paths(self.tree, nodes, weights)
            places = [
                paths.nodes[:, 0],
                *(paths.at(paths.depths(threshold))[0] for threshold in THRESHOLDS),
            ]
            scores = np.array([precision_recall(self.tree, place, self.target) for place in places])
            hp.append(scores[:, 0])
            hr.append(scores[:, 1])
            leaves = weights[:, : self.species] / weights.sum(axis=1, keepdims=True)
            loss.append(-np.log(np.maximum(leaves[rows, true], 1e-12)))
            sure.append(leaves.max(axis=1))
            right.append(leaves.argmax(axis=1) == true)
        leaf = (np.array(sure), np.array(right, dtype=np.float64))
        return Ways(np.array(hp), np.array(hr), 1, np.array(loss) if fitted else None, leaf)

    def sampled(self, votes: Sequence[IntArray]) -> Ways:
        """Returns the scores of self-consistency at every threshold, after answering the root always, by template."""
        m = votes[0].shape[1]
        places = []
        for nodes in votes:
            places.append(
                [SelfConsistency(m, k / m).majority(self.tree, nodes)[0] for k in range(m, 0, -1)]
            )
        root = np.zeros(len(self.target), dtype=np.int64)
        scored = []
        for one in places:
            scored.append(
                [precision_recall(self.tree, nodes, self.target) for nodes in (root, *one)]
            )
        scores = np.array(scored)
        return Ways(scores[:, :, 0], scores[:, :, 1], m)


def read_bed(name: str) -> Bed:
    """Returns the recorded arrays of a model: "fieldguide" or "long"."""
    tree = read_taxonomy(TAXONOMY_FILE, names=False)
    end = "" if name == "fieldguide" else f"-{name}"
    with (
        np.load(LANDSCAPES / f"votes{end}.npz") as votes,
        np.load(LANDSCAPES / f"outcomes{end}.npz") as file,
    ):
        kept = dict(file)
        target = kept["targets"].astype(np.int64)
        template = votes["template"]
        if (votes["targets"] != target).any() or (votes["templates"] != kept["templates"]).any():
            raise SystemExit(
                "votes and outcomes do not fit together: record them again (votes.py, outcomes.py)"
            )
        of = [votes["nodes"][template == t].astype(np.int64).T for t in np.unique(template)]
    nodes = kept["greedy"].astype(np.int64)
    off = kept["off_tree"]
    if name == "fieldguide":
        with np.load(LANDSCAPES / "fieldguide.npz") as file:  # all templates
            nodes = file["nodes"].astype(np.int64)
            off = file["off_tree"]
    scored = np.array(
        [precision_recall(tree, n, target, off_tree=o) for n, o in zip(nodes, off, strict=True)]
    )
    return Bed(
        tree, target, kept["degraded"].astype(bool), Ways(scored[:, :1], scored[:, 1:], 1), of, kept
    )
