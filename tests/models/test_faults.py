from __future__ import annotations

from taxtune.models import Fault, count_fault, count_faults
from taxtune.models.side_by_side import ConcurrencyLimit, as_completed


def test_faults_are_counted_where_the_calls_are_made_in_threads_too() -> None:
    count_fault(Fault.TIMEOUT)  # where nobody counts
    with count_faults() as outer:
        count_fault(Fault.EMPTY)
        with count_faults() as inner:
            list(as_completed(range(20), lambda *_: count_fault(Fault.RATE_LIMIT), ConcurrencyLimit(4)))
        count_fault(Fault.EMPTY)
    count_fault(Fault.TIMEOUT)
    assert outer == {"empty_text": 2}, "what the model is asked for the proposer is not the proposer's"
    assert inner == {"rate_limit": 20}


def test_what_ends_the_work_is_not_tried_again() -> None:
    assert {fault for fault in Fault if fault.fatal} == {Fault.KEY, Fault.NO_CREDIT, Fault.NOT_FOUND}
    assert not any(fault.retries is None or fault.passes for fault in Fault if fault.fatal)
    assert len({fault.key for fault in Fault}) == len(Fault)
