"""The state of each held-out image's answer and its change from the baseline, on one yardstick for every objective.

An answer is exact, general (right but not to the bottom), says nothing, is wrong, or is off the tree. From the baseline
to another template it gets better, worse, different (wrong in another way), or does not change. Exact is better than
general, general better than nothing, and nothing better than something that is not true. Between two general answers
the more specific one is better, between two wrong ones the one that has more right and less wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

from taxtune.tuning.records import SampleResult

__all__ = ["DIRECTIONS", "Change", "state_of"]

EXACT, GENERAL, NOTHING, WRONG, OFF = "exact", "general", "nothing said", "wrong", "off the tree"
BETTER, WORSE, DIFFERENT, UNCHANGED, MISSING = "better", "worse", "different", "unchanged", "no answer"
#: The directions in which an answer may change.
DIRECTIONS = (BETTER, WORSE, DIFFERENT, UNCHANGED, MISSING)
_VALUE = {EXACT: 3, GENERAL: 2, NOTHING: 1, WRONG: 0, OFF: 0}
#: The names of changes within a state.
_WITHIN = {
    (GENERAL, BETTER): "more specific",
    (GENERAL, WORSE): "more general",
    (WRONG, BETTER): "less wrong",
    (WRONG, WORSE): "more wrong",
    (WRONG, DIFFERENT): "otherwise wrong",
}


def state_of(row: SampleResult) -> str | None:
    """Returns an answer's state; None where there is no answer."""
    if row.hp is None or row.hr is None or row.placement is None:
        return None
    if row.off_tree or row.abstained:
        return OFF if row.off_tree else NOTHING
    if row.node == row.target:
        return EXACT
    return GENERAL if row.hp == 1 else WRONG


@dataclass(frozen=True, slots=True)
class Change:
    """One image answered with two templates.

    Attributes:
        before: The baseline's row.
        after: The other template's row.
    """

    before: SampleResult
    after: SampleResult

    @property
    def direction(self) -> str:
        """The direction of the change: one of `DIRECTIONS`."""
        before, after = state_of(self.before), state_of(self.after)
        if before is None or after is None:
            return MISSING
        if before != after:
            gain = _VALUE[after] - _VALUE[before]
            return BETTER if gain > 0 else WORSE if gain < 0 else DIFFERENT
        if before not in (GENERAL, WRONG) or self.before.node == self.after.node:
            return UNCHANGED
        gains = [(self.after.hp or 0) - (self.before.hp or 0), (self.after.hr or 0) - (self.before.hr or 0)]
        if max(gains) > 0 and min(gains) >= 0:
            return BETTER
        return WORSE if min(gains) < 0 and max(gains) <= 0 else DIFFERENT

    @property
    def words(self) -> str:
        """The change in words: "exact → general", "general → more specific", "exact, unchanged"."""
        before, after, direction = state_of(self.before), state_of(self.after), self.direction
        if before is None or after is None:
            return MISSING
        if direction == UNCHANGED:
            return f"{before}, unchanged"
        return f"{before} → {after if before != after else _WITHIN[before, direction]}"
