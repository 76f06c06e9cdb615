"""How long hP and hR of a million pairs take, beside plain Python sets on the same pairs.

Run `python benchmarks/metrics.py`; `--taxonomy FILE` takes a tree of your own (iNat21's, say) in
place of a made one of the same shape as iNat21's.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics import precision_recall
from taxtune.metrics.statistics import bootstrap, hierarchical_sample, paired_bootstrap
from taxtune.taxonomy import Taxonomy, read_taxonomy

# Nodes at each depth of iNat21, the root first.
LEVELS = (1, 3, 13, 51, 273, 1103, 4900, 10_000)


def made_tree(seed: int) -> Taxonomy:
    """A tree with as many nodes per level as iNat21's, parents drawn at random."""
    rng = np.random.default_rng(seed)
    parents = [-1]
    first = 0
    for above, level in itertools.pairwise(LEVELS):
        parents += (first + rng.integers(0, above, level)).tolist()
        first += above
    return Taxonomy([f"n{i}" for i in range(len(parents))], parents)


def with_sets(
    tree: Taxonomy, predicted: list[int], target: list[int]
) -> tuple[list[float], list[float]]:
    """Computes hP and hR as the equations read: an intersection of ancestor sets for each pair, the sets made once."""
    ancestors = [frozenset(tree.ancestors(i).tolist()) for i in range(len(tree))]
    hp = []
    hr = []
    for p, t in zip(predicted, target, strict=True):
        shared = len(ancestors[p] & ancestors[t])
        hp.append(shared / len(ancestors[p]))
        hr.append(shared / len(ancestors[t]))
    return hp, hr


def seconds(function: Callable[[], object], repeats: int) -> float:
    """The fastest of some runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--taxonomy", help="a taxonomy file; a made tree of iNat21's shape if left out"
    )
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    tree = (
        read_taxonomy(arguments.taxonomy, names=False)
        if arguments.taxonomy
        else made_tree(arguments.seed)
    )
    rng = np.random.default_rng(arguments.seed)
    predicted: NDArray[np.int64] = rng.integers(0, len(tree), arguments.pairs)
    target: NDArray[np.int64] = rng.choice(tree.leaves, arguments.pairs)
    as_lists = predicted.tolist(), target.tolist()

    plain_hp, plain_hr = with_sets(tree, *as_lists)
    hp, hr = precision_recall(tree, predicted, target)
    assert (hp == plain_hp).all(), "hP differs from plain sets"
    assert (hr == plain_hr).all(), "hR differs from plain sets"

    arrays = seconds(lambda: precision_recall(tree, predicted, target), arguments.repeats)
    sets = seconds(lambda: with_sets(tree, *as_lists), arguments.repeats)
    print(f"{tree!r}, {arguments.pairs:,} pairs; identical values")
    print(f"arrays   {arrays:8.3f} s")
    print(f"sets     {sets:8.3f} s   {sets / arrays:.1f} times as long")
    scores = seconds(lambda: bootstrap(hierarchical_sample(tree, predicted, target)), 1)
    both = []
    for nodes in (predicted, rng.integers(0, len(tree), len(target))):
        both.append(hierarchical_sample(tree, nodes, target))
    paired = seconds(lambda: paired_bootstrap((both[0], both[1])), 1)
    print(f"bootstrap, 2,000 resamples           {scores:6.3f} s")
    print(f"paired_bootstrap, 10,000 resamples   {paired:6.3f} s")


if __name__ == "__main__":
    main()
