"""A cascade, another classifier first and a model for the rest, beside either alone: hR against the share asked.

    python benchmarks/cascade.py
    python benchmarks/cascade.py --scores scores.csv truth.csv tree.csv

Without files both halves are recorded (`benchmarks/landscapes`): the first classifiers are small ones of scikit-learn,
which learned from other drawings, and the second is the field guide's model, with the probabilities of one call or
with 8 answers. With files, read as `taxtune calibrate` does, the first half is theirs and the second is **simulated**:
8 answers to each image, right with a probability of its own whose mean is stated; a wrong one is another leaf, in 7 of
10 cases of the same genus or family. The harder an image is for the scores, the harder it may be for the simulation.

A split draws calibration images from all with replacement, so that the promise, 1 - hP at most the risk with 90 %
confidence, is about all images, whose means are known. It is kept if *every* point of the price list that a split
keeps holds on all images, since a user may choose any after a look. hR is that of all images, and of those on the root
where a split keeps nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm, rankdata

sys.path.insert(0, str(Path(__file__).resolve().parent))

from landscapes.bed import LANDSCAPES, read_bed

from taxtune.answers.classifier_scores import read_scores, read_truth
from taxtune.metrics import precision_recall
from taxtune.metrics.bounds import p_value
from taxtune.metrics.groups import Groups
from taxtune.policies import THRESHOLDS, Paths, RiskGuarantee, spread, weighted_paths, worst_loss
from taxtune.policies.cascade import FIRST, PART, PART_MODEL, join_nodes, known_first, price_list
from taxtune.report.output import Cell, Table
from taxtune.taxonomy import Taxonomy, as_taxonomy

DIFFICULTIES = (0.25, 0.5, 0.75)
RISKS = (0.02, 0.05)
CONFIDENCE = 0.9
#: The parts of the level of the scores alone, the first thresholds and the model alone; and equal ones.
PARTS = [PART] * len(FIRST) + [PART_MODEL]
EIGHTHS = [1 / len(PARTS)] * len(PARTS)
#: How much hR a cheaper point may lack.
NEAR = 0.01
#: Thresholds of the scores alone.
ALONE = THRESHOLDS[::5]
SCORES_ALONE = "scores alone"
MODEL_ALONE = "model alone"
VOTES = 8
#: What the first classifier sees, and how the model answers.
RECORDED = (("features", "posterior"), ("features", "votes"), ("pixels", "posterior"))
#: What the simulated model knows: its accuracy, and how much what is hard for the scores is hard for it.
SIMULATED = ((0.85, 0.0), (0.92, 0.0), (0.92, 0.6), (0.98, 0.6))
_SAME_GROUP = 0.7
#: The parameters of a beta distribution add up to it: of most images all answers are alike.
_SPREAD = 1.5

#: Orders in which images are asked about.
BY_SHARE = "by depth and share"
ORDERS = ("random", "by depth", BY_SHARE, "by the gain itself")
TITLES = {
    "reached": "hR",
    "kept": "Share of splits in which the promise is kept on all images",
    "orders": "Part of the gain after half of the calls of the chosen point",
}

Row = dict[str, Cell]
Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Pair:
    """The scores of a classifier and the answers of a model about the same n images.

    Attributes:
        title: What they are.
        tree: The label tree.
        target: The true nodes, shape (n,).
        scores: Where the scores lead.
        answers: Where the answers lead.
        thresholds: Second thresholds, the largest first.
    """

    title: str
    tree: Taxonomy
    target: IntArray
    scores: Paths
    answers: Paths
    thresholds: Sequence[float]

    def of(self, images: IntArray) -> Pair:
        """Returns the part about some images."""
        return replace(
            self,
            target=self.target[images],
            scores=self.scores.select(images),
            answers=self.answers.select(images),
        )

    @property
    def leaves(self) -> BoolArray:
        """Which nodes are leaves, shape (nodes,)."""
        return np.isin(np.arange(len(self.tree)), self.tree.leaves)


@dataclass(frozen=True)
class Column:
    """Labels at one first threshold and every second one, on n images.

    Attributes:
        name: What is printed.
        asked: Which images are asked about, shape (n,).
        before: The node of each image that is not asked about yet, shape (n,).
        labels: The labels, shape (thresholds, n).
        loss: 1 - hP of the labels, or before where that is more: what is tested.
        hr: hR of the labels, shape (thresholds, n).
    """

    name: str
    asked: BoolArray
    before: IntArray
    labels: IntArray
    loss: Array
    hr: Array


def nodes_at(paths: Paths, threshold: float | None) -> IntArray:
    """Returns the deepest nodes that reach a threshold, or the root for None."""
    return paths.nodes[:, 0] if threshold is None else paths.at(paths.depths(threshold))[0]


def judge(
    pair: Pair,
    name: str,
    labels: Sequence[IntArray],
    *,
    before: IntArray | None = None,
    asked: BoolArray | None = None,
) -> Column:
    """Returns a column with the losses of its labels. Without nodes before, nothing is known before."""
    n = len(pair.target)
    if before is None:
        before = np.zeros(n, dtype=np.int64)
    if asked is None:
        asked = np.ones(n, dtype=bool)
    scores = np.array([precision_recall(pair.tree, row, pair.target) for row in labels])
    least = 1 - precision_recall(pair.tree, before, pair.target)[0]
    loss = np.clip(1 - scores[:, 0], least, worst_loss(pair.tree))
    return Column(
        name=name,
        asked=asked,
        before=before,
        labels=np.array(labels),
        loss=loss,
        hr=scores[:, 1],
    )


def columns_of(
    pair: Pair, *, one_for_all: bool = False, one_threshold: bool = False
) -> list[Column]:
    """Returns the scores alone, then a column for each first threshold, the cheapest first.

    Args:
        pair: The two sources.
        one_for_all: Whether nodes above the leaves need no more of the scores than a leaf does.
        one_threshold: Whether, as soon as an image is asked about, the second threshold is that of
            the scores as well. Then nothing is promised of images that are not asked about yet.
    """
    support = [nodes_at(pair.answers, needed) for needed in pair.thresholds]
    alone = [nodes_at(pair.scores, needed) for needed in ALONE]
    nothing = np.zeros(len(pair.target), dtype=bool)
    columns = [judge(pair, SCORES_ALONE, alone, asked=nothing)]
    for first in FIRST:
        if first is None:
            columns.append(judge(pair, MODEL_ALONE, support))
            continue
        before, asked = known_first(pair.scores, first, pair.leaves)
        if one_for_all:
            before = nodes_at(pair.scores, first)
        labels = []
        for needed, node in zip(pair.thresholds, support, strict=True):
            known = nodes_at(pair.scores, needed) if one_threshold else before
            labels.append(np.where(asked, join_nodes(pair.tree, known, node), before))
        stays = None if one_threshold else before
        columns.append(judge(pair, f"first {first:g}", labels, before=stays, asked=asked))
    return columns


def last_kept(losses: Array, risk: float, level: float, worst: float) -> int:
    """Returns the last threshold that fixed-sequence testing keeps, -1 for none.

    Args:
        losses: Shape (thresholds, n), the most cautious threshold first.
        risk: The mean loss to keep.
        level: The level of the tests.
        worst: The largest loss.
    """
    last = -1
    changes = np.append((losses[1:] != losses[:-1]).any(axis=1), True)
    for end in np.flatnonzero(changes):  # of rows that are alike one is tested
        if p_value(losses[end] / worst, risk / worst, level=level) > level:
            break
        last = int(end)
    return last


# -- beds ------------------------------------------------------------------------------------------


def recorded(kind: str, share: float, second: str) -> Pair:
    """Returns a recorded first classifier, and the field guide's model.

    Args:
        kind: What the classifier sees: "features" or "pixels".
        share: How many of the images are degraded.
        second: "posterior" or "votes".
    """
    bed = read_bed("fieldguide")
    with np.load(LANDSCAPES / "first.npz") as file:
        if (file["targets"] != bed.target).any():
            raise SystemExit("first.npz is of other images: record it again (first.py)")
        logs = file[kind].astype(np.float64)
        nodes = file["nodes"].astype(np.int64)
    scores = weighted_paths(bed.tree, nodes, np.exp(logs))
    if second == "votes":
        answers = weighted_paths(bed.tree, bed.votes[0][:, :VOTES])
    else:
        weights = spread(bed.tree, bed.nodes, np.exp(bed.logs(0)))
        answers = weighted_paths(bed.tree, bed.nodes, weights)
    images = bed.part(share)
    title = f"{kind.capitalize()}, then {second}, {share:.0%} of {len(images):,} images degraded"
    every = Pair(
        title=title,
        tree=bed.tree,
        target=bed.target,
        scores=scores,
        answers=answers,
        thresholds=_thresholds(second),
    )
    return every.of(images)


def simulated(files: Sequence[str], accuracy: float, likeness: float, seed: int = 0) -> Pair:
    """Returns scores of files, and a simulated model.

    Args:
        files: Scores, truth and tree.
        accuracy: How many of its answers are right.
        likeness: Correlation of what is hard for it and for the scores, in normal ranks.
        seed: Of the simulation.
    """
    tree = as_taxonomy(files[2])
    scores = read_scores(files[0], tree)
    truth = read_truth(files[1], tree)
    target = np.array([truth[image] for image in scores.images])
    paths = weighted_paths(tree, scores.nodes, scores.weights)
    at_truth = np.where(scores.nodes == target[:, np.newaxis], scores.weights, 0.0).sum(axis=1)
    rng = np.random.default_rng(seed)
    easy = norm.ppf((rankdata(at_truth, method="average") - 0.5) / len(target))
    mixed = likeness * easy + np.sqrt(1 - likeness**2) * rng.normal(size=len(target))
    ranks = (rankdata(mixed) - 0.5) / len(target)
    sure = beta.ppf(ranks, accuracy * _SPREAD, (1 - accuracy) * _SPREAD)
    confused = np.array([_confused(tree, int(node), rng) for node in target])
    is_right = rng.random((len(target), VOTES)) < sure[:, np.newaxis]
    votes = np.where(is_right, target[:, np.newaxis], confused[:, np.newaxis])
    title = f"{len(target):,} images, then a simulated model, {accuracy:.0%} right, likeness {likeness:g}"
    return Pair(
        title=title,
        tree=tree,
        target=target,
        scores=paths,
        answers=weighted_paths(tree, votes),
        thresholds=_thresholds("votes"),
    )


def _confused(tree: Taxonomy, node: int, rng: np.random.Generator) -> int:
    """Returns a leaf that is taken for another one: a near one, or any."""
    leaves = tree.leaves[tree.leaves != node]
    above = tree.parents[node]
    near = leaves[tree.is_ancestor(above, leaves)]
    if not near.size and above > 0:
        near = leaves[tree.is_ancestor(tree.parents[above], leaves)]
    among = near if near.size and rng.random() < _SAME_GROUP else leaves
    return int(rng.choice(among))


def _thresholds(second: str) -> tuple[float, ...]:
    if second == "votes":
        return tuple(count / VOTES for count in range(VOTES, 0, -1))
    return THRESHOLDS


# -- splits ----------------------------------------------------------------------------------------


class Split(NamedTuple):
    """What a split keeps.

    Attributes:
        rows: The number of the last second threshold that each column keeps, -1 for none.
        best: The column with the highest hR on the calibration images; -1 if none is kept.
        chosen: The cheapest column whose hR there is within `NEAR` of the best; -1 as well.
        images: The calibration images.
    """

    rows: list[int]
    best: int
    chosen: int
    images: IntArray


def splits_of(
    pair: Pair,
    columns: Sequence[Column],
    risk: float,
    parts: Sequence[float],
    given: argparse.Namespace,
) -> Iterator[Split]:
    """Yields what each split keeps, each column tested at its part of the level."""
    worst = worst_loss(pair.tree)
    for draw in range(given.splits):
        rng = np.random.default_rng([given.seed, draw])
        images = rng.choice(len(pair.target), given.images)
        rows = []
        for column, part in zip(columns, parts, strict=True):
            level = (1 - CONFIDENCE) * part
            rows.append(last_kept(column.loss[:, images], risk, level, worst))
        hr = []
        for column, row in zip(columns, rows, strict=True):
            hr.append(float(column.hr[row, images].mean()) if row >= 0 else -np.inf)
        best = int(np.argmax(hr))
        near = int(np.flatnonzero(np.array(hr) >= max(hr) - NEAR)[0])
        is_any = max(rows) >= 0
        yield Split(rows, best if is_any else -1, near if is_any else -1, images)


def mean_recall(pair: Pair, column: Column, rows: Sequence[int]) -> float:
    """Returns the mean hR of all images over splits that keep these thresholds."""
    means = np.append(column.hr.mean(axis=1), (1 / (pair.tree.depth[pair.target] + 1)).mean())
    return float(means[list(rows)].mean())


def is_kept(columns: Sequence[Column], split: Split, risk: float) -> bool:
    """Tells whether every point that a split keeps holds on all images."""
    for column, row in zip(columns, split.rows, strict=True):
        if row >= 0 and column.loss[row].mean() > risk:
            return False
    return True


def measure(pair: Pair, risk: float, given: argparse.Namespace) -> dict[str, list[Row]]:
    """Returns rows of each table, by its name."""
    columns = columns_of(pair)
    splits = list(splits_of(pair, columns, risk, PARTS, given))
    alone = [columns[0], columns[-1]]
    whole = list(splits_of(pair, alone, risk, (1, 1), given))
    others = {
        "hR, eighths": (columns, EIGHTHS),
        "hR, one threshold": (columns_of(pair, one_threshold=True), PARTS),
        "hR, first for all": (columns_of(pair, one_for_all=True), PARTS),
    }
    kept_by_others = {}
    for name, (every, parts) in others.items():
        kept_by_others[name] = list(splits_of(pair, every, risk, parts, given))
    lists = price_lists(pair, risk, given)
    points: list[Row] = []
    for i, column in enumerate(columns):
        rows = [split.rows[i] for split in splits]
        point: Row = {
            "way": column.name,
            "asked": float(column.asked.mean()),
            "kept in": float(np.mean([row >= 0 for row in rows])),
            "hR": mean_recall(pair, column, rows),
            "hR of the list": float(np.mean([hr[i] for hr in lists])) if lists else None,
        }
        for name, (every, _) in others.items():
            rows_so = [split.rows[i] for split in kept_by_others[name]]
            point[name] = mean_recall(pair, every[i], rows_so)
        if column in alone:
            by_itself = [split.rows[alone.index(column)] for split in whole]
            point["hR by itself"] = mean_recall(pair, column, by_itself)
        points.append(point)
    runs = [run_of(pair, columns, split, given.seed + draw) for draw, split in enumerate(splits)]
    about: Row = {"sources": pair.title, "risk": risk}
    best = [
        columns[split.best].hr[split.rows[split.best]].mean() for split in splits if split.best >= 0
    ]
    reached: Row = {
        "scores by themselves": points[0]["hR by itself"],
        "model by itself": points[-1]["hR by itself"],
        "model in the list": points[-1]["hR"],
        "best point": _mean(best),
        "chosen": _mean([run.hr for run in runs if run]),
        "asked": _mean([run.asked for run in runs if run]),
        "half of the calls": _mean([half_of(pair, columns, split, given.seed) for split in splits]),
    }
    kept: Row = {
        "every point": _mean([is_kept(columns, split, risk) for split in splits]),
        "chosen": _mean([run.loss <= risk for run in runs if run]),
        "stopped anywhere": _mean([run.anywhere <= risk for run in runs if run]),
        "stopped at half": _mean([run.halfway <= risk for run in runs if run]),
    }
    orders: Row = {}
    for order in ORDERS:
        orders[order] = _mean([run.shares[order] for run in runs if run and run.shares])
    return {
        "points": points,
        "reached": [about | reached],
        "kept": [about | kept],
        "orders": [about | orders],
    }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def price_lists(pair: Pair, risk: float, given: argparse.Namespace) -> list[list[float]]:
    """Returns the cross-fitted hR of every point of some price lists, as taxtune prints them."""
    promise = RiskGuarantee.asked(risk, CONFIDENCE)
    groups = Groups(np.arange(given.images))
    lists = []
    for draw in range(given.lists):
        images = np.random.default_rng([given.seed, draw]).choice(len(pair.target), given.images)
        some = pair.of(images)
        points = price_list(
            some.tree,
            some.scores,
            some.answers,
            some.target,
            promise,
            groups,
            some.leaves,
            some.thresholds,
        )
        lists.append([point.hr for point in points])
    return lists


# -- runs that stop --------------------------------------------------------------------------------


class Run(NamedTuple):
    """What the chosen point of a split gives on all images.

    Attributes:
        asked: Share of the images that are asked about.
        hr: Mean hR.
        loss: Mean of 1 - hP.
        anywhere: The same where a random share of the calls was made, in random order.
        halfway: The same after half of the calls, in order of the expected gain.
        shares: Part of the gain in hR after half of the calls, by order, on images outside of the
            calibration. Empty where nothing is asked.
    """

    asked: float
    hr: float
    loss: float
    anywhere: float
    halfway: float
    shares: dict[str, float]


def features_of(pair: Pair, column: Column, *, with_share: bool) -> Array:
    """Returns the features that the gain of asking is guessed from, shape (n, features): depths of what is known.

    Args:
        pair: The two sources.
        column: The first threshold.
        with_share: Whether the share of the likeliest leaf is a feature, too.
    """
    depths = pair.tree.depth[column.before]
    features: Array = (depths[:, np.newaxis] == np.arange(pair.tree.height + 1)).astype(float)
    if not with_share:
        return features
    ends = (pair.scores.nodes >= 0).sum(axis=1) - 1
    shares = pair.scores.at(ends)[1]
    return np.column_stack([features, shares])


def expected_gains(
    pair: Pair, column: Column, gain: Array, images: IntArray, rng: np.random.Generator
) -> dict[str, Array]:
    """Returns the gain that is expected of each image, by order: least squares on the calibration images.

    Args:
        pair: The two sources.
        column: The first threshold.
        gain: The hR that asking adds, shape (n,).
        images: The calibration images.
        rng: For the random order, and for images of which the same is expected.
    """
    noise = 1e-9 * rng.random(len(gain))
    known = images[column.asked[images]]
    by_order = {"random": noise}
    for name, with_share in (("by depth", False), (BY_SHARE, True)):
        features = features_of(pair, column, with_share=with_share)
        weights = np.linalg.lstsq(features[known], gain[known])[0]
        by_order[name] = np.asarray(features @ weights + noise)
    by_order["by the gain itself"] = gain + noise
    return by_order


def first_asked(asked: BoolArray, expected: Array, calls: int) -> BoolArray:
    """Tells which images are asked about with so many calls, the largest expectation first."""
    order = np.argsort(np.where(asked, -expected, np.inf), kind="stable")
    first = np.zeros(len(asked), dtype=bool)
    first[order[: min(calls, int(asked.sum()))]] = True
    return first


def run_of(pair: Pair, columns: Sequence[Column], split: Split, seed: int) -> Run | None:
    """Measures the chosen point of a split on all images; None if no point is kept."""
    if split.chosen < 0:
        return None
    column = columns[split.chosen]
    row = split.rows[split.chosen]
    n = len(pair.target)
    before_hp, before_hr = precision_recall(pair.tree, column.before, pair.target)
    hp = precision_recall(pair.tree, column.labels[row], pair.target)[0]
    asked = float(column.asked.mean())
    if asked == 0:
        loss = float(1 - hp.mean())
        return Run(asked, float(column.hr[row].mean()), loss, loss, loss, {})
    gain = column.hr[row] - before_hr
    rng = np.random.default_rng([seed, 1])
    expected = expected_gains(pair, column, gain, split.images, rng)

    def loss_after(order: str, calls: int) -> float:
        first = first_asked(column.asked, expected[order], calls)
        return float(1 - np.where(first, hp, before_hp).mean())

    others = np.setdiff1d(np.arange(n), split.images)
    half = int(column.asked[others].sum()) // 2
    shares = {}
    for order, each in expected.items():
        first = first_asked(column.asked[others], each[others], half)
        shares[order] = float(gain[others][first].sum() / max(gain[others].sum(), 1e-9))
    return Run(
        asked=asked,
        hr=float(column.hr[row].mean()),
        loss=loss_after("random", n),
        anywhere=loss_after("random", int(rng.integers(column.asked.sum() + 1))),
        halfway=loss_after(BY_SHARE, int(column.asked.sum()) // 2),
        shares=shares,
    )


def half_of(pair: Pair, columns: Sequence[Column], split: Split, seed: int) -> float:
    """Returns the hR, on all images, of the column that is best on the calibration images with half of the calls.

    At most half of all images are asked about, in the order of the expected gain. The others keep
    what they have.
    """
    best = (-1.0, 0.0)
    for column, row in zip(columns, split.rows, strict=True):
        if row < 0:
            continue
        hr = column.hr[row]
        if column.asked.any():
            before = precision_recall(pair.tree, column.before, pair.target)[1]
            rng = np.random.default_rng([seed, 2])
            gain = hr - before
            expected = expected_gains(pair, column, gain, split.images, rng)[BY_SHARE]
            first = first_asked(column.asked, expected, len(gain) // 2)
            hr = np.where(first, hr, before)
        best = max(best, (float(hr[split.images].mean()), float(hr.mean())))
    root = (1 / (pair.tree.depth[pair.target] + 1)).mean()
    return best[1] if best[0] >= 0 else float(root)


# -- tables ----------------------------------------------------------------------------------------


def pairs_of(given: argparse.Namespace) -> Iterator[Pair]:
    """Yields the pairs that are asked for."""
    if given.scores:
        for accuracy, likeness in SIMULATED[: 1 if given.quick else None]:
            yield simulated(given.scores, accuracy, likeness, given.seed)
        return
    for first, second in RECORDED[: 1 if given.quick else None]:
        for share in DIFFICULTIES[1:2] if given.quick else DIFFICULTIES:
            yield recorded(first, share, second)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scores", nargs=3, metavar=("SCORES", "TRUTH", "TREE"), help="files")
    parser.add_argument("--splits", type=int, default=1000, help="(default %(default)s)")
    parser.add_argument(
        "--lists", type=int, default=5, help="price lists to make whole (default %(default)s)"
    )
    parser.add_argument(
        "--images", type=int, default=600, help="to calibrate on (default %(default)s)"
    )
    parser.add_argument("--risks", type=float, nargs="+", default=RISKS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="one pair, one risk, few splits")
    given = parser.parse_args(arguments)
    if given.quick:
        given.splits, given.lists, given.risks = 5, 1, given.risks[:1]
    tables: dict[str, list[Row]] = {}
    for pair in pairs_of(given):
        for risk in given.risks:
            found = measure(pair, risk, given)
            title = f"{pair.title}: 1 - hP at most {risk:g}"
            print(Table.from_records("points", title, found.pop("points")).markdown(), flush=True)
            for name, rows in found.items():
                tables.setdefault(name, []).extend(rows)
    ending = f"in {given.splits:,} splits of {given.images:,} calibration images"
    for name, rows in tables.items():
        print(Table.from_records(name, f"{TITLES[name]}, {ending}", rows).markdown())


if __name__ == "__main__":
    main()
