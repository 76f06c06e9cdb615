"""Made-up results of the shapes that the loop makes, for the tests of the tracker and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taxtune.metrics.confidence import Doubt
from taxtune.metrics.hierarchical import harmonic_mean
from taxtune.metrics.ranks import RankIntervals, RankScores
from taxtune.metrics.statistics import Interval, PairedDifference
from taxtune.tuning.objective import Constraint, ObjectiveSpec
from taxtune.tuning.records import (
    ComparisonResult,
    Difference,
    HeldoutResult,
    IterationRecord,
    ModelUsage,
    SampleResult,
    TemplateScores,
    TuneResult,
    Turn,
    Usage,
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
]

BASELINE = "What is this an image of? Answer in the format 'A: <answer>.'"
HOSTILE = "<script>alert('x')</script> & \"quoted\" </pre>"
PATH = ["bird", "Passeriformes", "Turdidae", "Turdus", "common blackbird"]


def spec(objective: str = "hp") -> ObjectiveSpec:
    held = (Constraint("hr", 0.8, of="baseline"),) if objective == "hp" else ()
    return ObjectiveSpec(objective, objective, held)


def scores(hp: float, hr: float, accuracy: float, n: int = 20) -> TemplateScores:
    means = {
        "hp": hp,
        "hr": hr,
        "hf": harmonic_mean(hp, hr),
        "accuracy": accuracy,
        "depth": round(4 * hr / hp, 3),
        "ihp": 0.9 * hp,
        "ihr": 0.6 * hr,
        "ihf": harmonic_mean(0.9 * hp, 0.6 * hr),
        "remaining_uncertainty": 13.0 * (1 - 0.6 * hr),
        "misinformation": 2.5 * (1 - hp),
        "target_bits": 13.0,
        "abstained": 0.1,
        "off_tree": 0.05,
    }
    ranks = (RankScores("order", n, n, n - 1), RankScores("<b>species", n // 2, n, n // 4))
    return TemplateScores(n=n, means=means, ranks=ranks)


def rows(
    n: int, seed: int = 0, depth: int | None = None, *, failures: bool = True
) -> tuple[SampleResult, ...]:
    """Rows of blackbirds: right down to a drawn depth, the first answer hostile, the second missing."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        level = int(rng.integers(0, 5)) if depth is None else depth
        wrong = rng.random() < 0.3 and level > 1
        shared = level if wrong else level + 1
        placed = [*PATH[:level], "somewhere else"] if wrong else PATH[: level + 1]
        about = {
            "example": f"bird-{i:03d}",
            "image": f"bird_{i:03d}.png",
            "target": 4,
            "truth": "/".join(PATH),
            "from_store": i % 3 == 0,
        }
        if failures and i == 1:
            made.append(sample_row(**about, failure="timed out after 60 s"))
            continue
        row = sample_row(
            **about,
            answer=HOSTILE if i == 0 else f"A: {placed[-1]}.",
            node=4 + shared if wrong else level,
            placement="/".join(placed),
            confidence=0.625 if i % 7 == 3 else 0.875,
            hp=shared / len(placed),
            hr=shared / len(PATH),
            ihp=(shared - 1) / max(1, len(placed) - 1),
            ihr=(shared - 1) / (len(PATH) - 1),
            abstained=level == 0,
            doubtful=i % 7 == 3,
        )
        made.append(row)
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
        return IterationRecord(
            iteration=k,
            state="failed",
            template=None,
            reason="three replies in a row were refused: a repeat of iteration 2",
            rejected=(
                ("{{ ''.__class__ }}", "attribute access is refused"),
                (BASELINE, "a repeat of iteration 0"),
            ),
            trace=(
                Turn(
                    "submit", '{"template": "{{ x }}"}', '{"error": "unknown variable"}', 900, 120
                ),
            ),
            usage=Usage(proposer=ModelUsage(2, 0, 900, 120, 0.002), seconds=3),
        )
    source = template or (
        BASELINE
        if k == 0
        else f"{{{{ question }}}} Try {k}: say only what you are sure of.\n{{% if ranks %}}x{{% endif %}}"
    )
    if state == "void":
        return IterationRecord(
            iteration=k,
            state="void",
            template=source,
            reason="18 of 20 calls failed: HTTP 500",
            rows=rows(images, k),
        )
    made = scores(hp, hr, accuracy, images)
    return IterationRecord(
        iteration=k,
        state="complete",
        template=source,
        scores=made,
        value=getattr(made, objective),
        feasible=hr >= 0.42,
        parameters={} if k == 0 else {"care": "if unsure, back off", "format": "short"},
        rows=rows(images, k),
        usage=Usage(
            ModelUsage(15, 5, 500, 90), ModelUsage(1, 0, 1200, 80, 0.0031), seconds=7.5 + k
        ),
    )


def tune(
    objective: str = "hp",
    n: int = 30,
    seed: int = 0,
    *,
    folder: str = "runs/sample",
    images: int = 20,
) -> TuneResult:
    """A run that drifts from the baseline towards high hP (or high accuracy), with a failed and a void iteration."""
    rng = np.random.default_rng(seed)
    records = [iteration(0, 0.865, 0.742, 0.45, objective=objective, images=images)]
    for k in range(1, n + 1):
        if k in (7, 19):
            records.append(iteration(k, state="failed" if k == 7 else "void", images=images))
            continue
        progress = min(1.0, k / 15)
        if objective == "accuracy":
            hp, hr = 0.865 - 0.03 * progress, 0.742 + 0.07 * progress
            accuracy = 0.45 + 0.12 * progress
        else:
            hp, hr, accuracy = (
                0.865 + 0.09 * progress,
                0.742 - 0.13 * progress,
                0.45 - 0.15 * progress,
            )
        noise = rng.normal(0, [0.02, 0.03, 0.05])
        hp, hr = float(min(0.995, hp + noise[0])), float(min(0.97, hr + noise[1]))
        accuracy = round(float(np.clip(accuracy + noise[2], 0, 1)) * 20) / 20
        records.append(
            iteration(k, round(hp, 4), round(hr, 4), accuracy, objective=objective, images=images)
        )
    complete = [r for r in records if r.state == "complete" and r.feasible]
    winner = max(complete, key=lambda r: r.value or 0.0)
    final = (0.962, 0.633, 0.31) if objective == "hp" else (0.847, 0.781, 0.535)
    return TuneResult(
        name="birds",
        objective=objective,
        constraints=(Constraint("hr", 0.42),) if objective == "hp" else (),
        trivial_hp=1.0,
        trivial_hr=0.4,
        winner=winner.iteration,
        iterations=tuple(records),
        heldout=(
            heldout("baseline", BASELINE, 0.871, 0.738, 0.47, seed=1),
            heldout("winner", winner.template or "", *final, seed=2),
        ),
        differences=(
            Difference(
                "winner",
                "baseline",
                differences(final[0] - 0.871, final[1] - 0.738, final[2] - 0.47),
            ),
        ),
        folder=folder,
        where={
            "MLflow": "mlflow ui --backend-store-uri sqlite:///runs/sample/mlflow.db",
            "plot": f"{folder}/hp_hr.png",
        },
        spec=spec(objective),
    )


def heldout(
    name: str, template: str, hp: float, hr: float, accuracy: float, *, seed: int, n: int = 200
) -> HeldoutResult:
    made = scores(hp, hr, accuracy, n)
    width = {"hp": 0.018, "hr": 0.024, "hf": 0.02, "accuracy": 0.068, "depth": 0.15}
    width |= {
        "ihp": 0.03,
        "ihr": 0.04,
        "ihf": 0.03,
        "remaining_uncertainty": 0.4,
        "misinformation": 0.2,
    }
    return HeldoutResult(
        name=name,
        template=template,
        scores=made,
        intervals={
            key: Interval(getattr(made, key), getattr(made, key) - w, getattr(made, key) + 0.9 * w)
            for key, w in width.items()
        },
        rows=rows(n, seed),
        ranks=tuple(
            RankIntervals(
                row,
                Interval(row.precision or 0, 0.1, 1.0),
                Interval(row.recall or 0, 0.1, 1.0) if row.n_relevant else None,
            )
            for row in made.ranks
        ),
        doubt=Doubt(n // 7, {"hp": hp - 0.06, "hr": hr - 0.05}, {"hp": hp + 0.02, "hr": hr + 0.01}),
    )


def differences(hp: float, hr: float, accuracy: float) -> dict[str, PairedDifference]:
    values = {"hp": hp, "hr": hr, "hf": (hp + hr) / 2, "accuracy": accuracy, "depth": hr * 3}
    values |= {
        "ihp": 1.5 * hp,
        "ihr": 0.8 * hr,
        "ihf": hr / 2,
        "remaining_uncertainty": -hr,
        "misinformation": -hp,
    }
    return {
        key: PairedDifference(v, v - 0.021, v + 0.02, 0.0004 if abs(v) > 0.02 else 0.31)
        for key, v in values.items()
    }


def comparison(n: int = 30, *, folder: str = "runs/sample", images: int = 20) -> ComparisonResult:
    runs = (
        tune("hp", n, 0, folder=f"{folder}/hp", images=images),
        tune("accuracy", n, 1, folder=f"{folder}/accuracy", images=images),
    )
    return ComparisonResult(
        name="birds",
        runs=runs,
        heldout=(
            runs[0].heldout[0],
            heldout("hp", runs[0].heldout[1].template, 0.962, 0.633, 0.31, seed=2),
            heldout("accuracy", runs[1].heldout[1].template, 0.847, 0.781, 0.535, seed=3),
        ),
        differences=(
            Difference("hp", "baseline", differences(0.091, -0.105, -0.16)),
            Difference("accuracy", "baseline", differences(-0.024, 0.043, 0.065)),
            Difference("accuracy", "hp", differences(-0.115, 0.148, 0.225)),
        ),
        folder=folder,
        where=dict(runs[0].where),
    )


def answer(example: str, truth: str, placed: str | None) -> SampleResult:
    """A row of an image by its paths; `placed` is None where the call failed."""
    about = {"example": example, "image": f"{example}.png", "truth": truth}
    if placed is None:
        return sample_row(**about, failure="timed out")
    want, said = truth.split("/"), placed.split("/")
    shared = sum(one == other for one, other in zip(want, said, strict=False))
    return sample_row(
        **about,
        answer=said[-1],
        node=1 if placed == truth else 2,
        placement=placed,
        hp=shared / len(said),
        hr=shared / len(want),
    )


def answered(truths: Sequence[str], **answers: Sequence[str | None]) -> TuneResult:
    """A run whose held-out images are of these paths and answered with those, by the template's name."""
    held = []
    for name, placed in answers.items():
        pairs = enumerate(zip(truths, placed, strict=True))
        made = tuple(answer(f"i{i}", truth, said) for i, (truth, said) in pairs)
        held.append(replace(heldout(name, BASELINE, 0.9, 0.8, 0.5, seed=1), rows=made, ranks=()))
    return replace(tune(n=2), heldout=tuple(held))
