"""How often a promise is wrong where images come in bursts, counted per image and per burst.

Run `python benchmarks/groups.py`; it takes some minutes. Losses (1 - hP) are made: an image is
wrong with a probability of 0.05, and a wrong one loses 1/4, 1/2 or 3/4, each as likely, so that the
true hP is .975. Each image of a burst has the loss of its burst with the probability `likeness`,
and else one of its own. Of 200 images, the last burst is cut.

*Wrong*: the share of runs in which an hP of .98 is certified at 90 %, which may be one in ten. The
bound is that of `taxtune tune` (`choose`, of one template) or that of `taxtune calibrate`
(`control_risk`, of one policy).

*hR*: of policies with a risk of .0025 to .05, whose hR rises by even steps from .40 to .80, the hR
of the one that `control_risk` takes on 1,000 images to keep an hP of .98 at 90 %, on average, and
the share of runs in which it does not keep it. Where it takes none, the hR is that of saying
nothing, .20.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.groups import Groups
from taxtune.metrics.table import TemplateScores
from taxtune.objective import make_objective
from taxtune.policies import PlacedAnswer, control_risk
from taxtune.report.output import Table
from taxtune.tuning.records import IterationRecord, SampleResult, score_table
from taxtune.tuning.selection import choose

RISK = 0.02
CONFIDENCE = 0.9
WORST = 0.75
IMAGES = 200
CALIBRATION = 1000
RATE = 0.05
SIZES = np.array([0.25, 0.5, 0.75])
LIKENESS = (0.5, 0.8, 1.0)
#: The sizes of bursts, the least and the largest.
BURSTS = {"single": (1, 1), "of 3": (3, 3), "of 5": (5, 5), "of 10": (10, 10), "1 to 30": (1, 30)}
#: The share of wrong answers of each policy, and its hR.
RATES = np.linspace(0.005, 0.1, 20)
RECALLS = np.linspace(0.4, 0.8, 20)
SILENT = 0.2
_PLACED = PlacedAnswer("an answer", 1, "a/b", False, False, "verbatim", None)

FloatArray = NDArray[np.float64]


def draw(
    rng: np.random.Generator, burst: tuple[int, int], likeness: float, images: int = IMAGES
) -> tuple[Groups, FloatArray, FloatArray]:
    """Returns the groups of images, how early each goes wrong, and what it then loses.

    An image is wrong at each rate above the first number, which is uniform in [0, 1).
    """
    least, most = burst
    sizes = rng.integers(least, most + 1, images)
    numbers = np.repeat(np.arange(images), sizes)[:images]
    numbers = rng.permutation(numbers)
    alike = rng.random(images) < likeness
    source = np.where(alike, numbers, images + np.arange(images))
    begins = rng.random(2 * images)[source]
    lost = rng.choice(SIZES, 2 * images)[source]
    return Groups.of([str(number) for number in numbers]), begins, lost


def is_certified_by_tune(groups: Groups, losses: FloatArray) -> bool:
    """Tells whether `choose` certifies a template with these losses."""
    rows = []
    for number, loss in zip(groups.numbers, losses.tolist(), strict=True):
        scores = {"hp": 1 - loss, "hr": 0.5, "depth": 1.0}
        row = SampleResult("", "", 1, "a/b", _PLACED, scores=scores, group=f"burst {number}")
        rows.append(row)
    scores = TemplateScores(n=len(rows), means=score_table(rows).means())
    record = IterationRecord(0, "complete", "", scores=scores, value=0.0, rows=tuple(rows))
    objective = make_objective("hr_at_hp")  # an hP of 0.98, at 90 %
    selection = choose([record], objective)
    return selection is not None and selection.status == "certified"


def is_certified_by_calibrate(groups: Groups, losses: FloatArray) -> bool:
    """Tells whether `control_risk` keeps a policy with these losses."""
    (level,) = control_risk([groups.mean(losses)], RISK, CONFIDENCE, worst=WORST)
    return level.kept


BOUNDS = {"tune": is_certified_by_tune, "calibrate": is_certified_by_calibrate}


def wrong_certificates(runs: int, seed: int = 0) -> Table:
    """Returns the share of runs with a wrong certificate, by bound, likeness and size."""
    rows = []
    for name, is_certified in BOUNDS.items():
        for likeness in LIKENESS:
            for counted in ("image", "burst"):
                row: dict[str, str | float] = {"bound": name, "alike": likeness, "per": counted}
                for size, burst in BURSTS.items():
                    rng = np.random.default_rng(seed)
                    wrong = 0
                    for _ in range(runs):
                        groups, begins, lost = draw(rng, burst, likeness)
                        if counted == "image":
                            groups = Groups(np.arange(IMAGES))
                        wrong += is_certified(groups, np.where(begins < RATE, lost, 0.0))
                    row[size] = wrong / runs
                rows.append(row)
    return Table.from_records("wrong", "Wrong certificates", rows, digits={"alike": 1})


def recalls(runs: int, likeness: float = 0.8, seed: int = 0) -> Table:
    """Returns the mean hR of the policies that are taken, and how often they break the promise."""
    rows = []
    for counted in ("image", "burst"):
        hr: dict[str, str | float] = {"per": counted, "": "hR"}
        broken: dict[str, str | float] = {"per": counted, "": "promise broken"}
        for size, burst in BURSTS.items():
            rng = np.random.default_rng(seed)
            taken = []
            for _ in range(runs):
                groups, begins, lost = draw(rng, burst, likeness, CALIBRATION)
                if counted == "image":
                    groups = Groups(np.arange(CALIBRATION))
                taken.append(_taken(groups, begins, lost))
            hr[size] = float(np.append(RECALLS, SILENT)[taken].mean())
            risks = np.append(RATES, 0.0)[taken] * SIZES.mean()
            broken[size] = float((risks > RISK + 1e-9).mean())
        rows += [hr, broken]
    return Table.from_records("recalls", f"Calibrated policies, {likeness} alike", rows)


def _taken(groups: Groups, begins: FloatArray, lost: FloatArray) -> int:
    """Returns the number of the policy that `control_risk` takes; -1, the last, for none."""
    losses = [groups.mean(np.where(begins < rate, lost, 0.0)) for rate in RATES]
    levels = control_risk(losses, RISK, CONFIDENCE, worst=WORST)
    return sum(level.kept for level in levels) - 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="runs of each cell")
    given = parser.parse_args(arguments)
    for table in (wrong_certificates(given.runs), recalls(given.runs)):
        print(table.markdown())


if __name__ == "__main__":
    main()
