"""How sure a single answer is said to be, and how often it is right: `taxtune.policies.Reliability`, by replay.

    python benchmarks/confidence.py

Each draw takes a prompt of the field guide's recorded landscape, at random or as the winner of 40 on 200 tuning images
(the most hR at an hP of at least 0.98), counts on N held-out images, and compares what is then said of the nodes of all
other images with how often they are right. The luckiest tenth are the draws whose held-out images flattered the prompt
most: what the plain shares say, less the truth.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.landscapes.landscape import FIELDGUIDE
from taxtune.classifier import Reliability
from taxtune.metrics import precision_recall
from taxtune.taxonomy import Taxonomy

IMAGES = (30, 60, 100, 200)
DRAWS = 600
CANDIDATES = 40
TUNING = 200
TARGET = 0.98

Counts = NDArray[np.float64]


def main() -> None:
    """Prints a line for each number of held-out images."""
    recorded = np.load(FIELDGUIDE)
    tree = Taxonomy(recorded["labels"].tolist(), recorded["parents"].astype(np.int64))
    nodes = recorded["nodes"].astype(np.int64)
    off = recorded["off_tree"]
    targets = recorded["targets"].astype(np.int64)
    print(
        "prompt  held-out   all: said right   surer half: said right   luckiest tenth: said right  log loss"
    )
    for kind in ("random", "winner"):
        for n in IMAGES:
            rng = np.random.default_rng(0)
            draws = []
            for _ in range(DRAWS):
                order = rng.permutation(len(targets))
                which = int(rng.integers(len(nodes)))
                if kind == "winner":
                    which = winner(tree, nodes, off, targets, order[:TUNING], rng)
                    order = order[TUNING:]
                kept = order[~off[which][order]]
                counted = np.isin(kept, order[:n])
                draws.append(compared(tree, nodes[which], targets, kept[counted], kept[~counted]))
            print(f"{kind:7} {n:8} {line(draws)}")


def winner(
    tree: Taxonomy,
    nodes: Counts,
    off: Counts,
    targets: Counts,
    images: Counts,
    rng: np.random.Generator,
) -> int:
    """Returns the best of some prompts on the tuning images."""
    found = []
    for which in rng.choice(len(nodes), CANDIDATES, replace=False):
        hp, hr = precision_recall(
            tree, nodes[which][images], targets[images], off_tree=off[which][images]
        )
        keeps = hp.mean() >= TARGET
        found.append((keeps, hr.mean() if keeps else hp.mean(), int(which)))
    return max(found)[-1]


def compared(
    tree: Taxonomy, nodes: Counts, targets: Counts, counted: Counts, checked: Counts
) -> Counts:
    """Returns a row for each depth of answers and of nodes above them: said, right, nodes, and the plain share."""
    known = Reliability.of(tree, nodes[counted], targets[counted])
    checked_counts = Reliability.of(tree, nodes[checked], targets[checked]).counts
    rows = []
    for depth in range(1, tree.height + 1):
        said = known.confidences(depth)
        for d in range(1, depth + 1):
            answers = sum(row[0] for row in known.counts[d:])
            plain = sum(row[d] for row in known.counts[d:]) / answers if answers else said[d]
            rows.append((said[d], checked_counts[depth][d], checked_counts[depth][0], plain))
    return np.array(rows)


def line(draws: list[Counts]) -> str:
    """Returns the stated and the correct nodes, in columns."""

    def means(rows: Counts) -> str:
        return f"{np.average(rows[:, 0], weights=rows[:, 2]):.3f} {rows[:, 1].sum() / rows[:, 2].sum():.3f}"

    luck = [
        np.average(rows[:, 3], weights=rows[:, 2]) - rows[:, 1].sum() / rows[:, 2].sum()
        for rows in draws
    ]
    lucky = np.concatenate([draws[i] for i in np.argsort(luck)[-len(draws) // 10 :]])
    rows = np.concatenate(draws)
    surest = rows[np.argsort(-rows[:, 0])]
    surest = surest[surest[:, 2].cumsum() <= surest[:, 2].sum() / 2]
    said = rows[:, 0]
    right = rows[:, 1]
    number = rows[:, 2]
    loss = -(right * np.log(said) + (number - right) * np.log(1 - said)).sum() / number.sum()
    return f"       {means(rows)}              {means(surest)}                  {means(lucky)}    {loss:.4f}"


if __name__ == "__main__":
    main()
