from __future__ import annotations

from taxtune.tracking.values import all_scores, iteration_metrics
from taxtune.tuning.records import IterationRecord, Judged, Usage


def test_failed_calls_are_told_by_kind_and_are_no_metrics() -> None:
    usage = Usage(asked=5, vlm_faults={"rate_limit": 2, "empty_text": 1}, proposer_faults={"timeout": 3})
    record = IterationRecord(1, "void", "What?", usage=usage, judged=Judged(1, 0, 2, faults={"server_error": 2}))
    metrics = all_scores(record)
    assert {key: value for key, value in metrics.items() if "faults" in key} == {
        "vlm_faults.rate_limit": 2,
        "vlm_faults.empty_text": 1,
        "proposer_faults.timeout": 3,
        "judge_faults.server_error": 2,
    }
    assert (metrics["asked"], metrics["judge_failed"]) == (5, 2)
    assert not [key for key in iteration_metrics(record) if "faults" in key]
