"""What a dry run and a report reckon, against recorded answers: how templates differ, and how lucky a choice is.

Run `python benchmarks/reckoning.py`; it needs the landscape of `benchmarks/landscapes`. First it prints what
`taxtune.tuning.outlook` assumes of two templates before anything is asked. Then, for random sets of templates and
tuning images: how much better the winner looked on them than on all the others, and what the report would expect.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from landscapes.landscape import Landscape, read_landscape

from taxtune.metrics.hierarchical import harmonic_mean
from taxtune.tuning.objective import make_objective
from taxtune.tuning.optimism import simulate_optimism
from taxtune.tuning.outlook import ASSUMED_SHARE, ASSUMED_STEP
from taxtune.tuning.records import IterationRecord, TemplateScores
from taxtune.tuning.selection import choose

TEMPLATES = 31  # the baseline and 30 iterations


def spread(landscape: Landscape) -> None:
    """Prints how much the templates differ from the baseline on one image."""
    for name, values in (("hP", landscape.hp), ("hR", landscape.hr)):
        change = values[1:] - values[0]
        share = np.median((np.abs(change) > 1e-9).mean(axis=1))
        deviation = np.median(change.std(axis=1))
        print(
            f"{name}: median share of images that differ {share:.2f} (assumed {ASSUMED_SHARE}), by "
            f"{deviation / np.sqrt(share):.2f} (assumed {ASSUMED_STEP}), standard deviation {deviation:.3f}"
        )


def luck(landscape: Landscape, objective: str, images: int, seeds: int, draws: int) -> None:
    """Prints the winner's optimism in hP, mean and standard error over seeds, and the mean of what is expected."""
    goal = make_objective(objective)
    true, expected = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        order = rng.permutation(landscape.hp.shape[1])
        inside, outside = order[:images], order[images:]
        drawn = np.concatenate([[0], 1 + rng.permutation(len(landscape.templates) - 1)[: TEMPLATES - 1]])
        records = []
        for k, template in enumerate(drawn.tolist()):
            rows = landscape.rows(template)
            hp, hr = (float(values[template, inside].mean()) for values in (landscape.hp, landscape.hr))
            scores = TemplateScores(hp=hp, hr=hr, hf=harmonic_mean(hp, hr), accuracy=0.0, depth=0.0, n=images)
            records.append(IterationRecord(k, "complete", "x", scores=scores, rows=tuple(rows[i] for i in inside)))
        chosen = choose(records, goal)
        assert chosen is not None
        hp = landscape.hp[drawn[chosen.winner]]
        true.append(hp[inside].mean() - hp[outside].mean())
        expected.append(simulate_optimism(records, goal, ["hp"], draws=draws, seed=seed)["hp"].mean())
    error = np.std(true, ddof=1) / np.sqrt(seeds)
    print(
        f"{objective}, {images} tuning images: the winner looked {np.mean(true):+.4f} ± {error:.4f} too good in hP, "
        f"expected {np.mean(expected):+.4f}",
        flush=True,
    )


def main() -> None:
    """Prints both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    landscape = read_landscape()
    print(f"{len(landscape.templates) - 1} templates against the baseline, {landscape.hp.shape[1]} images")
    spread(landscape)
    for objective in ("hp", "hr_at_hp"):
        for images in (20, 40, 100):
            luck(landscape, objective, images, options.seeds, options.draws)


if __name__ == "__main__":
    main()
