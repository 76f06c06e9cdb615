"""Made-up results of the shapes that the loop makes, for the tests of the tracker and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import eq
from typing import Any

import numpy as np

from taxtune.metrics.doubt import Doubt
from taxtune.metrics.ranks import RankIntervals, RankScores
from taxtune.metrics.statistics import (
    INFORMATION_METRICS,
    METRICS,
    Interval,
    PairedDifference,
)
from taxtune.metrics.table import TemplateScores, with_derived
from taxtune.objective import Constraint, ObjectiveSpec
from taxtune.tuning.records import (
    Candidate,
    ComparisonResult,
    Difference,
    Held,
    HeldoutResult,
    IterationRecord,
    ModelUsage,
    SampleResult,
    Selection,
    TuneResult,
    Turn,
    Usage,
    outcomes_of,
)
from tests.rows import sample_row

__all__ = [
    "BASELINE",
    "HOSTILE",
    "answer",
    "answered",
    "comparison",
    "heldout",
    "iteration",
    "rows",
    "scores",
    "tune",
    "with_candidates_of",
]

BASELINE = "What is this an image of? Answer in the format 'A: <answer>.'"
HOSTILE = "<script>alert('x')</script> & \"quoted\" </pre>"
PATH = ["bird", "Passeriformes", "Turdidae", "Turdus", "common blackbird"]


def scores(hp: float, hr: float, accuracy: float, n: int = 20) -> TemplateScores:
    means = {
        "hp": hp,
        "hr": hr,
        "accuracy": accuracy,
        "depth": round(4 * hr / hp, 3),
        "ihp": 0.9 * hp,
        "ihr": 0.6 * hr,
        "remaining_uncertainty": 13.0 * (1 - 0.6 * hr),
        "misinformation": 2.5 * (1 - hp),
        "target_bits": 13.0,
        "abstained": 0.1,
        "off_tree": 0.05,
    }
    order = RankScores("order", n, n, n - 1)
    species = RankScores("<b>species", n // 2, n, n // 4)
    return TemplateScores(n=n, means=with_derived(means), ranks=(order, species))


def answer(example: str, truth: str, placed: str | None, **facts: Any) -> SampleResult:
    """A row of an image by its paths; `placed` is None where the call failed."""
    facts |= {"example": example, "image": f"{example.replace('-', '_')}.png", "truth": truth}
    if placed is None:
        return sample_row(**facts, failure="timed out after 60 s")
    want = truth.split("/")
    path = placed.split("/")
    shared = sum(map(eq, want, path))
    facts.setdefault("answer", path[-1])
    facts["placement"] = placed
    facts["node"] = len(path) - 1 if shared == len(path) else 4 + shared
    facts["hp"] = shared / len(path)
    facts["hr"] = shared / len(want)
    facts["ihp"] = (shared - 1) / max(1, len(path) - 1)
    facts["ihr"] = (shared - 1) / max(1, len(want) - 1)
    return sample_row(**facts)


def rows(n: int, seed: int = 0, depth: int | None = None) -> tuple[SampleResult, ...]:
    """Rows of blackbirds: right down to a drawn depth, the first one hostile, the second missing."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        level = int(rng.integers(0, 5)) if depth is None else depth
        path = PATH[: level + 1]
        if rng.random() < 0.3 and level > 1:
            path[-1] = "somewhere else"
        doubtful = i % 7 == 3
        facts = {"from_store": i % 3 == 0, "abstained": level == 0, "doubtful": doubtful}
        facts["confidence"] = 0.625 if doubtful else 0.875
        if i == 0:
            facts["answer"] = HOSTILE
        placed = None if i == 1 else "/".join(path)
        made.append(answer(f"bird-{i:03d}", "/".join(PATH), placed, **facts))
    return tuple(made)


def iteration(
    k: int,
    hp: float = 0.9,
    hr: float = 0.7,
    accuracy: float = 0.4,
    *,
    objective: str = "hp",
    state: str = "complete",
    images: int = 20,
    template: str | None = None,
) -> IterationRecord:
    if state == "failed":
        return _failed(k)
    tried = f"{{{{ question }}}} Try {k}: say only what you are sure of.\n{{% if ranks %}}x{{% endif %}}"
    source = template or (tried if k else BASELINE)
    bare = IterationRecord(iteration=k, state=state, template=source, rows=rows(images, k))
    if state == "void":
        return replace(bare, reason="18 of 20 calls failed: HTTP 500")
    made = scores(hp, hr, accuracy, images)
    vlm = ModelUsage(15, 5, 500, 90)
    proposer = ModelUsage(1, 0, 1200, 80, 0.0031)
    reasons = {"care": "if unsure, back off", "format": "short"}
    return replace(
        bare,
        scores=made,
        value=made.get(objective),
        feasible=hr >= 0.42,
        parameters=reasons if k else {},
        usage=Usage(vlm, proposer, seconds=7.5 + k),
    )


def _failed(k: int) -> IterationRecord:
    refused = Turn("submit", '{"template": "{{ x }}"}', '{"error": "unknown variable"}', 900, 120)
    unsafe = ("{{ ''.__class__ }}", "attribute access is refused")
    repeated = (BASELINE, "a repeat of iteration 0")
    return IterationRecord(
        iteration=k,
        state="failed",
        template=None,
        reason="three replies in a row were refused: a repeat of iteration 2",
        rejected=(unsafe, repeated),
        trace=(refused,),
        usage=Usage(proposer=ModelUsage(2, 0, 900, 120, 0.002), seconds=3),
    )


#: hP, hR and accuracy of the baseline, how far a run leads from there by its objective, and how
#: much the scores of one template vary.
START = np.array([0.865, 0.742, 0.45])
DRIFT = {"hp": np.array([0.09, -0.13, -0.15]), "accuracy": np.array([-0.03, 0.07, 0.12])}
NOISE = [0.02, 0.03, 0.05]
#: The same of the winners and the baseline on the held-out images.
HELDOUT = {"hp": (0.962, 0.633, 0.31), "accuracy": (0.847, 0.781, 0.535)}
HELDOUT_BASELINE = (0.871, 0.738, 0.47)


def tune(
    objective: str = "hp",
    n: int = 30,
    seed: int = 0,
    *,
    folder: str = "runs/sample",
    images: int = 20,
) -> TuneResult:
    """A run that drifts towards high hP or accuracy, with a failed and a void iteration."""
    rng = np.random.default_rng(seed)
    bad = {7: "failed", 19: "void"}
    records = [iteration(0, *START.tolist(), objective=objective, images=images)]
    for k in range(1, n + 1):
        if k in bad:
            records.append(iteration(k, state=bad[k], images=images))
            continue
        drawn = START + min(1.0, k / 15) * DRIFT[objective] + rng.normal(0, NOISE)
        hp, hr, accuracy = np.clip(drawn, 0, [0.995, 0.97, 1]).tolist()
        made = (round(hp, 4), round(hr, 4), round(accuracy * 20) / 20)
        records.append(iteration(k, *made, objective=objective, images=images))
    complete = [r for r in records if r.state == "complete" and r.feasible]
    winner = max(complete, key=lambda r: r.value or 0.0)
    final = HELDOUT[objective]
    changes = np.subtract(final, HELDOUT_BASELINE).tolist()
    floors = (Constraint("hr", 0.42),) if objective == "hp" else ()
    relative = (Constraint("hr", 0.8, of="baseline"),) if objective == "hp" else ()
    where = {
        "MLflow": "mlflow ui --backend-store-uri sqlite:///runs/sample/mlflow.db",
        "plot": f"{folder}/hp_hr.png",
    }
    change = Difference("winner", "baseline", differences(*changes))
    baseline = heldout("baseline", BASELINE, *HELDOUT_BASELINE, seed=1)
    tuned = heldout("winner", winner.template or "", *final, seed=2)
    return TuneResult(
        name="birds",
        objective=objective,
        constraints=floors,
        trivial_hp=1.0,
        trivial_hr=0.4,
        winner=winner.iteration,
        iterations=tuple(records),
        heldout=(baseline, tuned),
        differences=(change,),
        folder=folder,
        where=where,
        spec=ObjectiveSpec(objective, objective, relative),
    )


#: The scores that have intervals.
WITH_INTERVALS = (*METRICS, *INFORMATION_METRICS)


def heldout(
    name: str, template: str, hp: float, hr: float, accuracy: float, *, seed: int, n: int = 200
) -> HeldoutResult:
    made = scores(hp, hr, accuracy, n)
    intervals = {}
    for key in WITH_INTERVALS:
        value = made.get(key)
        intervals[key] = Interval(value, value - 0.018, value + 0.0162)
    ranks = []
    for row in made.ranks:
        precision = Interval(row.precision or 0, 0.1, 1.0)
        recall = Interval(row.recall or 0, 0.1, 1.0)
        ranks.append(RankIntervals(row, precision, recall))
    wrong = {"hp": hp - 0.06, "hr": hr - 0.05}
    without = {"hp": hp + 0.02, "hr": hr + 0.01}
    return HeldoutResult(
        name=name,
        template=template,
        scores=made,
        intervals=intervals,
        rows=rows(n, seed),
        ranks=tuple(ranks),
        doubt=Doubt(n // 7, wrong, without),
    )


def differences(hp: float, hr: float, accuracy: float) -> dict[str, PairedDifference]:
    """Differences of these sizes; every other score changes as hP does."""
    changes = dict.fromkeys(WITH_INTERVALS, hp) | {"hr": hr, "accuracy": accuracy}
    made = {}
    for key, value in changes.items():
        p = 0.0004 if abs(value) > 0.02 else 0.31
        made[key] = PairedDifference(value, value - 0.021, value + 0.02, p)
    return made


def comparison(n: int = 30, *, folder: str = "runs/sample", images: int = 20) -> ComparisonResult:
    first = tune("hp", n, 0, folder=f"{folder}/hp", images=images)
    second = tune("accuracy", n, 1, folder=f"{folder}/accuracy", images=images)
    baseline, cautious = first.heldout
    _, bold = second.heldout
    bold = heldout("accuracy", bold.template, *HELDOUT["accuracy"], seed=3)
    return ComparisonResult(
        name="birds",
        runs=(first, second),
        heldout=(baseline, replace(cautious, name="hp"), bold),
        differences=(
            Difference("hp", "baseline", differences(0.091, -0.105, -0.16)),
            Difference("accuracy", "baseline", differences(-0.024, 0.043, 0.065)),
            Difference("accuracy", "hp", differences(-0.115, 0.148, 0.225)),
        ),
        folder=folder,
        where=dict(first.where),
    )


def with_candidates_of(run: TuneResult) -> TuneResult:
    """The run with a choice among its iterations 2 (certified, taken), 1 and 0."""
    candidates = []
    lows = {2: (0.983, ("most careful",)), 1: (0.962, ("best estimate", "boldest")), 0: (0.871, ())}
    for number, (low, roles) in lows.items():
        held = Held("hp", 0.98, 0.9, low=low, mean=low + 0.01)
        made = Candidate(
            iteration=number,
            roles=("baseline",) if number == 0 else roles,
            outcomes=outcomes_of(rows(120, 3 - number)),
            hp=low + 0.01,
            low=low,
            confidence=0.9,
            certified=number == 2,
            held=(held,),
            taken=number == 2,
        )
        candidates.append(made)
    chosen = Selection(2, True, 120, status="certified", held=candidates[0].held, there=163)
    return replace(
        run,
        winner=2,
        constraints=(Constraint("hp", 0.98, 0.9),),
        selection=replace(chosen, candidates=tuple(candidates)),
    )


def answered(truths: Sequence[str], **answers: Sequence[str | None]) -> TuneResult:
    """A run whose held-out images are of these paths and have those answers, by template."""
    examples = [f"i{i}" for i in range(len(truths))]
    held = []
    for name, placed in answers.items():
        made = heldout(name, BASELINE, 0.9, 0.8, 0.5, seed=1)
        given = tuple(map(answer, examples, truths, placed))
        held.append(replace(made, rows=given, ranks=()))
    return replace(tune(n=2), heldout=tuple(held))
