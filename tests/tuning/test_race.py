"""The race over the tuning images."""

from __future__ import annotations

import numpy as np
import pytest

from taxtune.metrics.hierarchical import harmonic_mean
from taxtune.tuning.objective import make_objective
from taxtune.tuning.records import IterationRecord, SampleResult, TemplateScores
from taxtune.tuning.selection import next_steps, rounds


def _record(iteration: int, hp: np.ndarray, hr: np.ndarray) -> IterationRecord:
    rows = tuple(
        SampleResult(str(i), f"{i}.png", 0, "", answer="", node=0, placement="", hp=float(p), hr=float(r))
        for i, (p, r) in enumerate(zip(hp, hr, strict=True))
    )
    means = float(hp.mean()), float(hr.mean())
    exact = float(((hp == 1) & (hr == 1)).mean())
    scores = TemplateScores(*means, harmonic_mean(*means), accuracy=exact, depth=2.0, n=len(rows))
    return IterationRecord(iteration, "complete", f"template {iteration}", scores=scores, rows=rows)


@pytest.mark.parametrize("name", ["hp", "hr_at_hp", "hf"])
def test_no_more_templates_go_on_than_a_stage_has_room_for(name: str) -> None:
    """Rows that a template got later, the baseline's among them, do not change who went on before."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        kinds = rng.integers(6, size=14)  # some templates answer alike
        hp = np.where(rng.random((6, 120)) < rng.uniform(0.02, 0.2, (6, 1)), 0.5, 1.0)[kinds]
        hr = np.where(rng.random((6, 120)) < rng.uniform(0.2, 0.8, (6, 1)), 0.5, 1.0)[kinds]
        objective, stages = make_objective(name), rounds(10, 120, len(kinds))
        records = [_record(i, hp[i, :10], hr[i, :10]) for i in range(len(kinds))]
        while steps := next_steps(records, objective, stages):
            iteration, images = steps[0]
            records[iteration] = _record(iteration, hp[iteration, :images], hr[iteration, :images])
        for stage in stages:
            inside = sum(len(record.rows) >= stage.images for record in records)
            # The baseline that "hp" holds others to is asked about all they are asked about.
            assert inside == stage.templates or (name == "hp" and inside == stage.templates + 1)
