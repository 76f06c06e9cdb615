"""Prompt alone, policy alone, and both, at equal VLM calls on the field guide.

Run `python benchmarks/policies.py --out docs/images`. It replays recorded answers (`benchmarks/landscapes`): 329
templates answered greedily about 1,280 images, and 12 of them eight times at temperature 1. In each of many draws some
of the images are for tuning and 400 others for judging; each way may spend the same number of VLM calls on tuning, to
be as specific as it can at an hP of at least 0.98.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taxtune.fieldguide import TAXONOMY_FILE
from taxtune.metrics import precision_recall
from taxtune.policies import Vote, control_risk, worst_loss
from taxtune.report.output import Table
from taxtune.taxonomy import Taxonomy, read_taxonomy

LANDSCAPES = Path(__file__).resolve().parent / "landscapes"
TARGET, NEAR = 0.98, 0.005
HELDOUT = 400
CALLS = (400, 800, 1600)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Ways:
    """hP and hR of several ways to answer, on every image.

    Attributes:
        hp: Shape (templates, options, images).
        hr: Shape (templates, options, images).
        calls: VLM calls per image.
    """

    hp: FloatArray
    hr: FloatArray
    calls: int


def read_recorded(samples: int) -> tuple[Taxonomy, IntArray, Ways, Ways, dict[int, Ways]]:
    """Returns the tree, the targets, prompts alone, votes of prompts, and the baseline's votes by number of answers."""
    tree = read_taxonomy(TAXONOMY_FILE, names=False)
    with np.load(LANDSCAPES / "fieldguide.npz") as file, np.load(LANDSCAPES / "votes.npz") as votes:
        greedy, off, target = file["nodes"].astype(np.int64), file["off_tree"], file["targets"].astype(np.int64)
        recorded, template, sample = votes["nodes"].astype(np.int64), votes["template"], votes["sample"]
        if (votes["targets"] != target).any() or (votes["templates"] != file["templates"][np.unique(template)]).any():
            raise SystemExit("votes.npz and fieldguide.npz do not fit together: record the votes again (votes.py)")
    scored = np.array([precision_recall(tree, n, target, off_tree=o) for n, o in zip(greedy, off, strict=True)])
    prompts = Ways(scored[:, :1], scored[:, 1:], 1)
    votes_of = [recorded[(template == t) & (sample < samples)].T for t in np.unique(template)]
    both = _voted(tree, target, votes_of)
    baseline = recorded[template == 0].T
    counts = [m for m in (2, 4, 8, 16) if m <= baseline.shape[1]]
    return tree, target, prompts, both, {m: _voted(tree, target, [baseline[:, :m]]) for m in counts}


def _voted(tree: Taxonomy, target: IntArray, votes: Sequence[IntArray]) -> Ways:
    """Returns the scores of votes at every share, the most cautious first, after answering the root always."""
    m = votes[0].shape[1]
    places = [[Vote(m, k / m).place(tree, nodes)[0] for k in range(m, 0, -1)] for nodes in votes]
    root = np.zeros(len(target), dtype=np.int64)
    scored = np.array([[precision_recall(tree, nodes, target) for nodes in (root, *one)] for one in places])
    return Ways(scored[:, :, 0], scored[:, :, 1], m)


def best(hp: FloatArray, hr: FloatArray, target: float = TARGET) -> tuple[int, int]:
    """Returns the template and option with the highest mean hR among those whose mean hP reaches the target."""
    means, recall = hp.mean(axis=2), hr.mean(axis=2)
    worth = np.where(means >= target, recall, means - 2)
    found = np.unravel_index(int(worth.argmax()), worth.shape)
    return int(found[0]), int(found[1])


def race(ways: Ways, images: IntArray, calls: int, rng: np.random.Generator) -> tuple[int, int]:
    """Spends a third of the calls on each of three rounds of fewer templates on more images; returns what is best."""
    share = calls // 3
    inside = rng.permutation(len(ways.hp))
    for seen in (10, 40):
        inside = inside[: max(1, share // (seen * ways.calls))]
        if len(inside) == 1:
            break
        rows = images[:seen]
        worth = _worth(ways, inside, rows)
        inside = inside[np.argsort(-worth, kind="stable")]
        if seen == 40:
            break
    left = max(1, share // (40 * ways.calls)) if len(inside) > 1 else 1
    finalists = inside[: max(1, min(left, 4))]
    rows = images[: max(10, min(len(images), share // (len(finalists) * ways.calls)))]
    chosen, option = best(ways.hp[finalists][:, :, rows], ways.hr[finalists][:, :, rows])
    return int(finalists[chosen]), option


def _worth(ways: Ways, inside: IntArray, rows: IntArray) -> FloatArray:
    means, recall = ways.hp[inside][:, :, rows].mean(axis=2), ways.hr[inside][:, :, rows].mean(axis=2)
    worth: FloatArray = np.where(means >= TARGET, recall, means - 2).max(axis=1)
    return worth


def simulate(draws: int, prompts: Ways, fronts: dict[int, Ways], both: Ways, tree: Taxonomy, seed: int = 0) -> Table:
    """Returns the held-out scores of each way, by the calls it may spend."""
    n = prompts.hp.shape[2]
    rows = []
    for calls in CALLS:
        found: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw])
            order = rng.permutation(n)
            held, tuning = order[:HELDOUT], order[HELDOUT:]
            choices = [("prompt alone", prompts, *race(prompts, tuning, calls, rng))]
            for alone in (ways for m, ways in fronts.items() if m >= both.calls):
                few = tuning[: calls // alone.calls]
                choices.append(("policy alone", alone, *best(alone.hp[:, :, few], alone.hr[:, :, few])))
                levels = control_risk(1 - alone.hp[0][1:, few], 1 - TARGET, worst=worst_loss(tree))
                choices.append(("policy alone, risk controlled", alone, 0, sum(level.kept for level in levels)))
            choices.append(("both", both, *race(both, tuning, calls, rng)))
            for name, ways, t, option in choices:
                scores = (float(ways.hp[t, option, held].mean()), float(ways.hr[t, option, held].mean()))
                found.setdefault((name, ways.calls), []).append(scores)
        for (name, each), scores_of in found.items():
            hp, hr = np.array(scores_of).T
            error = float(hr.std(ddof=1) / np.sqrt(draws))
            kept_target = float((hp >= TARGET - NEAR).mean())
            rows.append((calls, name, each, float(hp.mean()), kept_target, float(hr.mean()), error))
    heads = ("calls for tuning", "way", "calls per image", "hP", f"hP ≥ {TARGET - NEAR:.3f}", "hR", "± (SE)")
    title = (
        f"Prompt alone, policy alone and both at equal VLM calls for tuning ({draws} draws, {HELDOUT} held-out images)"
    )
    return Table("policies", title, heads, tuple(rows))


def ceilings(prompts: Ways, fronts: dict[int, Ways], both: Ways) -> Table:
    """Returns the highest hR at the target that is there, on all images."""
    rows = [(f"the best of {len(prompts.hp)} prompts", 1, *_ceiling(prompts))]
    rows += [(f"the baseline, {m} answers", m, *_ceiling(ways)) for m, ways in fronts.items()]
    rows += [(f"the best of {len(both.hp)} prompts, {both.calls} answers", both.calls, *_ceiling(both))]
    heads = ("way", "calls per image", "hP", "hR")
    return Table("ceilings", f"The highest hR at an hP of {TARGET}, on all images", heads, tuple(rows))


def temperatures(tree: Taxonomy) -> Table:
    """Returns the highest hR at two values of hP by temperature, for the baseline on the images of the package."""
    rows = []
    for file in LANDSCAPES.glob("votes-shipped*.npz"):
        with np.load(file) as votes:
            recorded, target = votes["nodes"].astype(np.int64).T, votes["targets"].astype(np.int64)
            found = [_voted(tree, target, [recorded[:, :m]]) for m in (8, 16)]
            reached = [_ceiling(ways, hp)[1] for ways in found for hp in (TARGET, 0.99)]
            rows.append((float(votes["temperature"]), *reached))
    heads = ("temperature", *(f"{m} answers, hP {hp:.2f}" for m in (8, 16) for hp in (TARGET, 0.99)))
    title = "The highest hR of the baseline at an hP, by temperature (400 images of the package)"
    return Table("temperatures", title, heads, tuple(sorted(rows)), digits={"temperature": 1})


def _ceiling(ways: Ways, target: float = TARGET) -> tuple[float, float]:
    t, option = best(ways.hp, ways.hr, target)
    return float(ways.hp[t, option].mean()), float(ways.hr[t, option].mean())


def draw_fronts(prompts: Ways, fronts: dict[int, Ways], both: Ways, file: Path) -> None:
    """Draws hR against hP: a point a prompt, and a line a number of answers."""
    from matplotlib.figure import Figure

    from taxtune.report.drawing import save_figure

    def draw() -> Figure:
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.add_subplot()
        means = prompts.hp.mean(axis=2).ravel(), prompts.hr.mean(axis=2).ravel()
        axes.scatter(*means, s=8, color="0.7", label=f"{len(prompts.hp)} prompts, one answer")
        axes.scatter(means[0][:1], means[1][:1], s=50, marker="X", color="black", label="the baseline, one answer")
        for shade, (m, ways) in zip(("#9ecae1", "#6baed6", "#3182bd", "#08519c"), fronts.items(), strict=False):
            hp, hr = ways.hp[0].mean(axis=1)[1:], ways.hr[0].mean(axis=1)[1:]
            axes.plot(hp, hr, "o-", ms=3, color=shade, label=f"the baseline, {m} answers")
        hp, hr = both.hp.mean(axis=2)[:, 1:], both.hr.mean(axis=2)[:, 1:]
        levels = np.linspace(0.93, 0.999, 70)
        top = [hr[hp >= level].max() for level in levels]
        axes.plot(levels, top, color="#d95f0e", lw=2, label=f"the best of {len(both.hp)} prompts, {both.calls} answers")
        axes.set(xlabel="hP", ylabel="hR", xlim=(0.93, 1.002), ylim=(0.55, 0.95))
        axes.axvline(TARGET, color="0.4", lw=0.8, ls=":")
        axes.legend(loc="lower left", fontsize=8, frameon=False)
        return figure

    save_figure(draw, file)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300, help="draws of images (default %(default)s)")
    parser.add_argument("--samples", type=int, default=8, help="answers per image (default %(default)s)")
    parser.add_argument("--out", type=Path, help="a folder for the figure")
    given = parser.parse_args(arguments)
    tree, _, prompts, both, fronts = read_recorded(given.samples)
    print(ceilings(prompts, fronts, both).markdown())
    print(temperatures(tree).markdown())
    print(simulate(given.draws, prompts, fronts, both, tree).markdown())
    if given.out is not None:
        draw_fronts(prompts, fronts, both, given.out / "policies")


if __name__ == "__main__":
    main()
