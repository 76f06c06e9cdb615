"""How soon a promise that is broken is found, and how often one that is kept is called broken.

Run `python benchmarks/watch.py`. 10,000 images pass, in random order within each hundred, of which
the first five that are drawn are labelled.
Wrong labels cost .2, .4 or .6, as the losses of a bird classifier's labels do. The mean loss is .02
and, with a shift, .06 from image 3,000 on, with the same confidences as before: the classifier does
not notice. Confidences tell how likely a label was wrong before the shift, or nothing.

It is compared with one bet from the first label on, and with Clopper and Pearson's bound on the
share of wrong labels, looked at after every fifth label or once. These draw images alike.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from taxtune.audit.watch import draw_weights
from taxtune.metrics.evidence import weigh_evidence
from taxtune.report.output import Table

IMAGES, BATCH, EACH, SHIFT = 10_000, 100, 5, 3_000
LABELS, FIRST = EACH * IMAGES // BATCH, EACH * SHIFT // BATCH
RISK, SHIFTED = 0.02, 0.06
LEVEL = 0.1
WITHIN = 250
SIZES, SHARES = np.array([0.2, 0.4, 0.6]), np.array([0.65, 0.2, 0.15])
SIZE = float(SIZES @ SHARES)
WORST = 0.8

FloatArray = NDArray[np.float64]


def shifted(chance: FloatArray) -> FloatArray:
    """Returns chances of a wrong label whose odds are raised alike, to the mean after the shift."""
    low, high = 1.0, 1000.0
    for _ in range(60):
        factor = (low * high) ** 0.5
        raised = factor * chance / (1 - chance + factor * chance)
        if raised.mean() * SIZE < SHIFTED:
            low = factor
        else:
            high = factor
    return raised


def world(rng: np.random.Generator, *, informed: bool, shift: bool) -> tuple[FloatArray, ...]:
    """Returns losses and weights of images drawn by their confidence, and losses drawn alike."""
    share = RISK / SIZE
    chance = np.full(IMAGES, share)
    confidence = np.full(IMAGES, 1 - share)
    if informed:
        chance = rng.beta(0.35, 0.35 * (1 / share - 1), IMAGES)
        confidence = 1 - chance
    if shift:
        chance = np.concatenate([chance[:SHIFT], shifted(chance)[SHIFT:]])
    is_wrong = rng.random(IMAGES) < chance
    losses = (is_wrong * rng.choice(SIZES, IMAGES, p=SHARES)).reshape(-1, BATCH)
    weights = draw_weights(confidence).reshape(-1, BATCH)
    is_drawn = rng.random(weights.shape) < 0.5 / weights
    drawn = (~is_drawn).argsort(axis=1, kind="stable")[:, :EACH]
    of_drawn = np.take_along_axis(losses, drawn, axis=1).ravel()
    weights = np.take_along_axis(weights, drawn, axis=1).ravel()
    return of_drawn, weights, losses[:, :EACH].ravel()


def watched(losses: FloatArray, weights: FloatArray, promise: float) -> NDArray[np.bool_]:
    """Tells after each label whether the watch says that the promise is broken."""
    return weigh_evidence(losses, weights, promise, WORST).broken >= -np.log10(LEVEL)


def single_bet(losses: FloatArray, promise: float) -> NDArray[np.bool_]:
    """Tells so by one stake, the middle one of the watch, from the first label on."""
    return np.cumprod(1 + 2 * (losses - promise)) >= 1 / LEVEL


def bounded(losses: FloatArray, promise: float, every: int) -> NDArray[np.bool_]:
    """Tells so by a bound for one look on the share of wrong labels, at each so many labels."""
    number = np.arange(1, LABELS + 1)
    wrong = (losses > 0).cumsum()
    lower = beta.ppf(LEVEL, np.maximum(wrong, 1), number - wrong + 1)
    return (wrong > 0) & (lower > promise / SIZE) & (number % every == 0)


def said(
    name: str, losses: FloatArray, weights: FloatArray, alike: FloatArray, promise: float
) -> NDArray[np.bool_]:
    """Returns after each label whether a method says broken."""
    if name == "watch":
        return watched(losses, weights, promise)
    if name == "one bet from the start":
        return single_bet(alike, promise)
    every = 5 if name == "bound, every 5 labels" else FIRST + WITHIN
    return bounded(alike, promise, every)


METHODS = ("watch", "one bet from the start", "bound, every 5 labels", "bound, once")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    rows = []
    for informed in (True, False):
        worlds = {}
        for shift in (False, True):
            rng = np.random.default_rng(36)
            worlds[shift] = [world(rng, informed=informed, shift=shift) for _ in range(runs)]
        for promise in (RISK, 0.03):
            for name in METHODS:
                falsely = [said(name, *each, promise).any() for each in worlds[False]]
                found = []
                for each in worlds[True]:
                    broken = said(name, *each, promise)[FIRST:]
                    found.append(int(broken.argmax()) + 1 if broken.any() else LABELS)
                row = {"confidences": "tell" if informed else "tell nothing", "promise": promise}
                row["method"] = name
                row["called broken, no shift, %"] = 100 * float(np.mean(falsely))
                row[f"found within {WITHIN} labels, %"] = 100 * float(
                    np.mean(np.array(found) <= WITHIN)
                )
                row["labels: median"] = int(np.median(found))
                row["nine in ten"] = int(np.quantile(found, 0.9))
                rows.append(row)
    digits = {"promise": 2, "called broken, no shift, %": 1, f"found within {WITHIN} labels, %": 1}
    print(Table.from_records("watch", f"{runs:,} runs each", rows, digits=digits).markdown())


if __name__ == "__main__":
    main()
