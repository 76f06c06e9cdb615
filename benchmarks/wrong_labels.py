"""Whether a promise about wrong labels is kept on scores of your own, and what it costs beside one about 1 - hP.

    python benchmarks/wrong_labels.py scores.csv truth.csv tree.csv --ranks any 4

Each split draws images to calibrate on. Four ways choose a threshold by the share of wrong labels among those given,
at 90 % confidence: a part of the images chooses where tests begin (`control_labels`, which is what taxtune does),
tests begin at a fixed threshold, at five fixed ones among which the level is divided (the fallback procedure of
Wiens 2003), or each of all thresholds is tested by itself (Bonferroni). The fifth way is the promise about 1 - hP at
the same number.

A promise is kept if at most that share is wrong among all images of the file: the calibration images are drawn from
these without replacement, so that theirs is the share that the promise is about. What the images outside of the
calibration say is printed as well; it has the noise of their number. Files are read as `taxtune calibrate` does.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from taxtune.answers.classifier_scores import read_scores, read_truth
from taxtune.metrics.bounds import p_value
from taxtune.metrics.hierarchical import precision_recall
from taxtune.policies import THRESHOLDS, RiskGuarantee, weighted_paths, worst_loss
from taxtune.policies.risk import control_labels
from taxtune.taxonomy import as_taxonomy

Array = NDArray[np.float64]
CONFIDENCE = 0.9
#: Where tests begin: one threshold, and five of them.
START = 0.95
STARTS = (0.999, 0.99, 0.95, 0.9, 0.8)


#: All thresholds, after always answering the root, which no share of the scores reaches.
ALL = (np.inf, *THRESHOLDS)


@dataclass(frozen=True)
class Judged:
    """What each threshold says of each image, shape (thresholds, n) each.

    Attributes:
        wrong: Whether it gets a wrong label.
        given: Whether it gets a label.
        loss: 1 - hP.
        hr: hR.
    """

    wrong: Array
    given: Array
    loss: Array
    hr: Array

    def of(self, images: NDArray[np.int64]) -> Judged:
        """Returns the part about some images."""
        parts = (self.wrong, self.given, self.loss, self.hr)
        return Judged(*(part[:, images] for part in parts))


Way = Callable[[Judged, float], int]


def judge(files: argparse.Namespace, rank: str | None, power: float) -> tuple[Judged, float]:
    """Judges all thresholds on all images, with scores raised to a power; also returns the largest 1 - hP."""
    tree = as_taxonomy(files.tree)
    scores = read_scores(files.scores, tree)
    truth = read_truth(files.truth, tree)
    target = np.array([truth[image] for image in scores.images])
    weights = scores.weights**power
    weights /= weights.sum(axis=1, keepdims=True)
    paths = weighted_paths(tree, scores.nodes, weights)
    is_label = RiskGuarantee.asked(0.1, CONFIDENCE, "labels", rank).is_label(tree)
    rows = []
    for threshold in ALL:
        nodes = paths.nodes[:, 0]
        if threshold <= 1:
            nodes, _ = paths.at(paths.depths(threshold))
        hp, hr = precision_recall(tree, nodes, target)
        given = is_label[nodes]
        wrong = given & ~tree.is_ancestor(nodes, target)
        rows.append((wrong, given, 1 - hp, hr))
    columns = zip(*rows, strict=True)
    judged = Judged(*(np.array(column, dtype=np.float64) for column in columns))
    return judged, worst_loss(tree)


# -- ways to choose the last threshold that is kept; 0 is always the root --------------------------


def from_a_part(drawn: Judged, risk: float) -> int:
    """A part of the images chooses where tests begin."""
    levels = control_labels(drawn.wrong, drawn.given, risk, CONFIDENCE, single=True)
    return max((i for i, level in enumerate(levels) if level.kept), default=0)


def p_values(drawn: Judged, risk: float) -> Array:
    """Returns the exact p-value of each threshold, that more of its labels are wrong."""
    return np.asarray(binom.cdf(drawn.wrong.sum(axis=1), drawn.given.sum(axis=1), risk))


def from_starts(drawn: Judged, risk: float, *, starts: tuple[float, ...]) -> int:
    """The fallback procedure: a threshold that is rejected hands its level on; of one start a fixed sequence."""
    firsts = [int(np.flatnonzero(np.array(ALL) <= start)[0]) for start in starts]
    last = 0
    level = 0.0
    for i, p in enumerate(p_values(drawn, risk)):
        level += (1 - CONFIDENCE) / len(starts) * firsts.count(i)
        if p > level:
            level = 0.0
        elif level > 0:
            last = i
    return last


def each_by_itself(drawn: Judged, risk: float) -> int:
    """Bonferroni."""
    kept = np.flatnonzero(p_values(drawn, risk) <= (1 - CONFIDENCE) / len(THRESHOLDS))
    return int(kept[-1]) if kept.size else 0


def by_loss(drawn: Judged, risk: float, *, worst: float) -> int:
    """The promise about 1 - hP: the fixed sequence, from the most cautious threshold on."""
    level = 1 - CONFIDENCE
    last = 0
    for i, losses in enumerate(drawn.loss):
        if p_value(losses / worst, risk / worst, level=level) > level:
            break
        last = i
    return last


# -- splits ----------------------------------------------------------------------------------------


def measured(
    judged: Judged, choose: Way, risk: float, given: argparse.Namespace, *, of_loss: bool
) -> tuple[float, float, float, float]:
    """Returns the shares of splits that keep it, on all images and on the others, and that label any, and the hR."""
    rng = np.random.default_rng(given.seed)
    n = judged.wrong.shape[1]
    totals = judged.loss if of_loss else judged.wrong
    counts = np.ones_like(totals) if of_loss else judged.given
    rows = []
    for _ in range(given.splits):
        order = rng.permutation(n)
        others = order[given.images :]
        i = choose(judged.of(order[: given.images]), risk)
        share = totals[i].sum() / max(counts[i].sum(), 1)
        seen = totals[i, others].sum() / max(counts[i, others].sum(), 1)
        rows.append((share <= risk, seen <= risk, i > 0, judged.hr[i, others].mean()))
    kept, kept_on_others, labelled, hr = np.mean(rows, axis=0).tolist()
    return kept, kept_on_others, labelled, hr


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scores")
    parser.add_argument("truth")
    parser.add_argument("tree")
    parser.add_argument("--splits", type=int, default=1000, help="(default %(default)s)")
    parser.add_argument(
        "--images", type=int, default=1000, help="to calibrate on (default %(default)s)"
    )
    parser.add_argument("--risks", type=float, nargs="+", default=[0.02, 0.05, 0.1])
    parser.add_argument("--ranks", nargs="+", default=["any"], help="a rank or a depth, or any")
    parser.add_argument(
        "--powers",
        type=float,
        nargs="+",
        default=[1.0],
        help="of the scores: 3 is three times as sure",
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| scores | labels | risk | way | kept, of all | of the others | any labels | hR |")
    print("| --- | --- | ---: | --- | ---: | ---: | ---: | ---: |")
    for power, rank in itertools.product(given.powers, given.ranks):
        judged, worst = judge(given, None if rank == "any" else rank, power)
        ways: dict[str, Way] = {
            "a fifth chooses where to begin": from_a_part,
            f"from {START}": partial(from_starts, starts=(START,)),
            "from five starts": partial(from_starts, starts=STARTS),
            "each by itself": each_by_itself,
            "1 - hP": partial(by_loss, worst=worst),
        }
        for risk, (name, choose) in itertools.product(given.risks, ways.items()):
            found = measured(judged, choose, risk, given, of_loss=name == "1 - hP")
            cells = " | ".join(f"{value:.3f}" for value in found)
            print(f"| to the {power:g} | {rank} | {risk:g} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
