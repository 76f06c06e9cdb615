"""One call with the model's own probabilities, self-consistency, and prompts, at the same hP.

Run `python benchmarks/policies.py --out docs/images`. It replays recorded answers and probabilities
(`benchmarks/landscapes`) of two models on 1,280 images: the field guide's, whose species' names are
a token each, and one whose names have 2 to 8. First it compares ways to answer, each made to keep
an hP of at least 0.98 on 400 images and judged on the others. Then it compares tuning the prompt,
the policy and both, for the same number of VLM calls.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))

from landscapes.bed import Bed, Ways, read_bed

from taxtune.metrics.confidence import calibration_error
from taxtune.policies import control_risk, spread, worst_loss
from taxtune.report.output import Table
from taxtune.taxonomy import Taxonomy

TARGET = 0.98
NEAR = 0.005
HELDOUT = 400
CALLS = (400, 800, 1600)
DIFFICULTIES = (0.25, 0.5, 0.75)
RISK = 0.02
CONFIDENCE = 0.9
#: Splits of each bootstrap sample of the images.
_SPLITS = 5
#: Temperatures among which one is fitted.
TEMPERATURES = np.geomspace(0.5, 5, 24)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def ways_of(bed: Bed, sharper: float = 1.0) -> dict[str, Ways]:
    """Returns the ways to answer that are compared.

    Args:
        bed: What was recorded.
        sharper: What the log-probabilities are multiplied with, for a model that is too sure.
    """
    plain = bed.logs(0, sharper)
    asked = range(len(bed.votes))
    m = bed.species
    posterior = {
        "posterior": bed.placed([plain]),
        "posterior, temperature fitted": bed.placed([plain / t for t in TEMPERATURES], fitted=True),
    }
    if sharper != 1:  # the answers are drawn from what is recorded
        drawn = np.random.default_rng(1).gumbel(size=(16, *plain.shape))
        answers = np.maximum(bed.nodes, 0)[(plain + drawn).argmax(axis=2)].T
        return {
            f"self-consistency of {k}": bed.sampled([answers[:, :k]]) for k in (8, 16)
        } | posterior
    mass = np.log(np.exp(plain[:, :m]).sum(axis=1, keepdims=True))
    rest = np.log1p(-np.minimum(np.exp(mass), 1 - 1e-9))

    def again(logs: FloatArray) -> FloatArray:
        """Gives species' names other weights, and the others what they had together."""
        logs = logs - logs.max(axis=1, keepdims=True)
        shares = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True)) + mass
        none = np.full((len(logs), len(bed.nodes) - m - 1), -np.inf)
        return np.hstack([shares, none, rest])

    per_token = plain[:, :-1] / bed.kept["tokens"]
    per_token += np.log(np.exp(plain[:, :-1]).sum(axis=1) / np.exp(per_token).sum(axis=1))[
        :, np.newaxis
    ]
    return {
        "plain prompt": Ways(bed.greedy.hp[:1], bed.greedy.hr[:1], 1),
        f"best of {len(bed.greedy.hp)} prompts": bed.greedy,
        "self-consistency of 8": bed.sampled([bed.votes[0][:, :8]]),
        "self-consistency of 16": bed.sampled([bed.votes[0]]),
        **posterior,
        f"posterior, best of {len(asked)} prompts": bed.placed([bed.logs(t) for t in asked]),
        "posterior, top 5 of each token": _top(bed),
        "posterior, mean by token": bed.placed([np.hstack([per_token, plain[:, -1:]])]),
        "posterior, species alone, all else dropped": bed.placed(
            [np.where(np.arange(plain.shape[1]) < m, plain, -np.inf)]
        ),
        "posterior, species alone, all else at the root": bed.placed([again(plain[:, :m])]),
        "the same, less what a grey image says": bed.placed(
            [again(plain[:, :m] - bed.kept["blank"][0, :m])]
        ),
    }


def _top(bed: Bed) -> Ways:
    """What an API tells: the likeliest tokens along the greedy answer, each on the node above all that go on so."""
    told = bed.kept["top5"].astype(np.float64)
    names = told[:, : len(bed.tree)]
    begun = told[:, len(bed.tree) :]
    rest = np.maximum(1 - told.sum(axis=1, keepdims=True), 1e-9)
    # What was not told apart stays above the names that it may go on as.
    weights = np.hstack([spread(bed.tree, bed.nodes[:-1], names[:, bed.nodes[:-1]]), begun, rest])
    nodes = np.concatenate([bed.nodes[:-1], np.arange(len(bed.tree)), [-1]])
    with np.errstate(divide="ignore"):
        return bed.placed([np.log(weights)], nodes=nodes, spreads=False)


def _chosen(ways: Ways, images: FloatArray) -> tuple[int, int]:
    """Returns the template and option that are best on weighted images."""
    weight = images / images.sum()
    if ways.loss is None:
        return best(ways.hp @ weight[:, np.newaxis], ways.hr @ weight[:, np.newaxis])
    t = int((ways.loss @ weight).argmin())
    return t, best(ways.hp[[t]] @ weight[:, np.newaxis], ways.hr[[t]] @ weight[:, np.newaxis])[1]


def judge(ways: Ways, draws: Sequence[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Returns hP and hR on test images, the way chosen on others, for draws of their weights.

    Shape (draws, 2).
    """
    found = []
    for calibration, test in draws:
        t, option = _chosen(ways, calibration)
        found.append([table[t, option] @ test / test.sum() for table in (ways.hp, ways.hr)])
    return np.array(found)


def keeps(ways: Ways, images: IntArray, draws: int, tree: Taxonomy) -> tuple[float, float, float]:
    """Returns the share of draws in which risk control keeps its promise, and its mean hR, on the first template.

    Calibration images are drawn from all with replacement, and all are what the promise is about: so draws are
    independent and the mean is known. The second figure is for splits, whose test images are a sample themselves.
    """
    kept = np.zeros((2, draws), dtype=bool)
    recalls = []
    for draw in range(draws):
        rng = np.random.default_rng([3, draw])
        order = rng.permutation(images)
        for row, (few, judged) in enumerate(
            ((rng.choice(images, HELDOUT), images), (order[:HELDOUT], order[HELDOUT:]))
        ):
            losses = 1 - ways.hp[0][:, few]
            losses = losses[: int((losses.mean(axis=1) <= RISK).sum())]
            # Of options that are alike on these images one is tested.
            ends = np.flatnonzero(np.append((losses[1:] != losses[:-1]).any(axis=1), True))
            levels = control_risk(losses[ends], RISK, CONFIDENCE, worst=worst_loss(tree))
            option = max(ends[max(sum(level.kept for level in levels) - 1, 0)], 0)
            kept[row, draw] = 1 - ways.hp[0, option, judged].mean() <= RISK
        recalls.append(ways.hr[0, option, judged].mean())
    return float(kept[0].mean()), float(kept[1].mean()), float(np.mean(recalls))


def compare(
    bed: Bed, title: str, share: float, draws: int, splits: int, sharper: float = 1.0
) -> Table:
    """Returns the scores that each way reaches on images of which a share is degraded.

    Means are over splits. Standard errors are those of such means when the images are drawn anew
    (the bootstrap; copies of an image are on the same side of a split).
    """
    images = bed.part(share)
    rng = np.random.default_rng(0)
    again = []
    for _ in range(draws // 2):
        again.append(
            np.bincount(rng.integers(len(images), size=len(images)), minlength=len(images))
        )
    counts = [np.ones(len(images))] * draws + [
        count.astype(float) for count in again for _ in range(_SPLITS)
    ]
    weights = []
    for count in counts:
        part = np.zeros(len(images), dtype=bool)
        part[rng.permutation(len(images))[:HELDOUT]] = True
        weights.append((count * part, count * ~part))
    found = {}
    rows = []
    for name, every in ways_of(bed, sharper).items():
        loss = every.loss
        leaf = every.leaf
        ways = Ways(
            every.hp[:, :, images],
            every.hr[:, :, images],
            every.calls,
            None if loss is None else loss[:, images],
            None if leaf is None else (leaf[0][:, images], leaf[1][:, images]),
        )
        found[name] = (ways, judge(ways, weights))
    reference = found["self-consistency of 16"][1][:, 1]
    for name, (ways, scores) in found.items():
        means = scores[:draws].mean(axis=0)
        gain = scores[:, 1] - reference
        error = float(gain[draws:].reshape(-1, _SPLITS).mean(axis=1).std(ddof=1))
        risk: tuple[float | None, ...] = (None, None, None)
        if ways.hp.shape[1] > 1 and len(ways.hp) == 1:
            risk = keeps(ways, np.arange(len(images)), splits, bed.tree)
        off = None
        if ways.leaf is not None and (len(ways.hp) == 1 or ways.loss is not None):
            t = _chosen(ways, np.ones(len(images)))[0]
            off = calibration_error(ways.leaf[0][t], ways.leaf[1][t])
        own = None if name == "self-consistency of 16" else float(gain[:draws].mean())
        rows.append(
            (
                name,
                ways.calls,
                *map(float, means),
                own,
                error if own is not None else None,
                *risk,
                off,
            )
        )
    heads = (
        "way",
        "calls",
        "hP",
        "hR",
        "less self-consistency of 16",
        "± (SE)",
        "risk kept",
        "in splits",
        "hR so",
        "calibration error",
    )
    return Table(
        "compared", f"{title}, {share:.0%} of {len(images):,} images degraded", heads, tuple(rows)
    )


def best(hp: FloatArray, hr: FloatArray, target: float = TARGET) -> tuple[int, int]:
    """Returns the template and option with the highest mean hR among those whose mean hP reaches the target."""
    means = hp.mean(axis=2)
    recall = hr.mean(axis=2)
    worth = np.where(means >= target, recall, means - 2)
    found = np.unravel_index(int(worth.argmax()), worth.shape)
    return int(found[0]), int(found[1])


def successive_halving(
    ways: Ways, images: IntArray, calls: int, rng: np.random.Generator
) -> tuple[int, int]:
    """Spends a third of the calls on each of three rounds of fewer templates on more images.

    Returns what is best.
    """
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
    means = ways.hp[inside][:, :, rows].mean(axis=2)
    recall = ways.hr[inside][:, :, rows].mean(axis=2)
    worth: FloatArray = np.where(means >= TARGET, recall, means - 2).max(axis=1)
    return worth


def simulate(
    bed: Bed, fronts: dict[int, Ways], posteriors: Ways, share: float, draws: int, seed: int = 0
) -> Table:
    """Returns the held-out scores of prompt, policy and both, by the calls that each may spend on tuning."""
    images = bed.part(share)
    both = bed.sampled([votes[:, :8] for votes in bed.votes])
    rows = []
    for calls in CALLS:
        found: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw])
            order = rng.permutation(images)
            held = order[:HELDOUT]
            tuning = order[HELDOUT:]
            choices = [
                ("prompt alone", bed.greedy, *successive_halving(bed.greedy, tuning, calls, rng))
            ]
            alone = [
                ("self-consistency", ways, tuning[: calls // m])
                for m, ways in fronts.items()
                if m >= both.calls
            ]
            first = Ways(posteriors.hp[:1], posteriors.hr[:1], 1)
            for kind, ways, few in (*alone, ("posterior", first, tuning[:calls])):
                picked = best(ways.hp[:, :, few], ways.hr[:, :, few])
                choices.append((f"policy alone: {kind}", ways, *picked))
            choices.append(
                ("both: self-consistency", both, *successive_halving(both, tuning, calls, rng))
            )
            choices.append(
                ("both: posterior", posteriors, *successive_halving(posteriors, tuning, calls, rng))
            )
            for name, ways, t, option in choices:
                scores = (
                    float(ways.hp[t, option, held].mean()),
                    float(ways.hr[t, option, held].mean()),
                )
                found.setdefault((name, ways.calls), []).append(scores)
        for (name, each), scores_of in found.items():
            hp, hr = np.array(scores_of).T
            error = float(hr.std(ddof=1) / np.sqrt(draws))
            kept_target = float((hp >= TARGET - NEAR).mean())
            rows.append((calls, name, each, float(hp.mean()), kept_target, float(hr.mean()), error))
    heads = (
        "calls for tuning",
        "way",
        "calls per image",
        "hP",
        f"hP ≥ {TARGET - NEAR:.3f}",
        "hR",
        "± (SE)",
    )
    title = f"Prompt, policy and both at equal VLM calls for tuning ({share:.0%} degraded, {draws} draws)"
    return Table("policies", title, heads, tuple(rows))


def draw_fronts(prompts: Ways, fronts: dict[int, Ways], posteriors: Ways, file: Path) -> None:
    """Draws hR against hP: a point a prompt, and a line a number of answers."""
    from matplotlib.figure import Figure

    from taxtune.report.drawing import save_figure

    def draw() -> Figure:
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.add_subplot()
        means = prompts.hp.mean(axis=2).ravel(), prompts.hr.mean(axis=2).ravel()
        axes.scatter(*means, s=8, color="0.7", label=f"{len(prompts.hp)} prompts, one answer")
        axes.scatter(
            means[0][:1],
            means[1][:1],
            s=50,
            marker="X",
            color="black",
            label="the baseline, one answer",
        )
        for shade, (m, ways) in zip(
            ("#9ecae1", "#6baed6", "#3182bd", "#08519c"), fronts.items(), strict=False
        ):
            hp = ways.hp[0].mean(axis=1)[1:]
            hr = ways.hr[0].mean(axis=1)[1:]
            axes.plot(hp, hr, "o-", ms=3, color=shade, label=f"the baseline, {m} answers")
        levels = np.linspace(0.93, 0.999, 70)
        for name, part, style in (
            ("the baseline", 1, "--"),
            (f"the best of {len(posteriors.hp)} prompts", None, "-"),
        ):
            hp, hr = (table[:part].mean(axis=2)[:, 1:] for table in (posteriors.hp, posteriors.hr))
            top = [hr[hp >= level].max() for level in levels]
            axes.plot(
                levels, top, style, color="#d95f0e", lw=2, label=f"{name}, probabilities (one call)"
            )
        axes.set(xlabel="hP", ylabel="hR", xlim=(0.93, 1.002), ylim=(0.55, 0.95))
        axes.axvline(TARGET, color="0.4", lw=0.8, ls=":")
        axes.legend(loc="lower left", fontsize=8, frameon=False)
        return figure

    save_figure(draw, file)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--draws", type=int, default=200, help="draws of images (default %(default)s)"
    )
    parser.add_argument(
        "--splits",
        type=int,
        default=1000,
        help="draws to test risk control on (default %(default)s)",
    )
    parser.add_argument("--out", type=Path, help="a folder for the figure")
    given = parser.parse_args(arguments)
    beds = {"The field guide": read_bed("fieldguide"), "Names of 2 to 8 tokens": read_bed("long")}
    for title, bed in beds.items():
        for share in DIFFICULTIES:
            print(compare(bed, title, share, given.draws, given.splits).markdown(), flush=True)
        print(
            compare(
                bed, f"{title}, logits times 3", 0.5, given.draws, given.splits, 3.0
            ).markdown(),
            flush=True,
        )
    bed = beds["The field guide"]
    fronts = {m: bed.sampled([bed.votes[0][:, :m]]) for m in (2, 4, 8, 16)}
    posteriors = bed.placed([bed.logs(t) for t in range(len(bed.votes))])
    for share in DIFFICULTIES:
        print(simulate(bed, fronts, posteriors, share, given.draws).markdown(), flush=True)
    if given.out is not None:
        draw_fronts(bed.greedy, fronts, posteriors, given.out / "policies")


if __name__ == "__main__":
    main()
