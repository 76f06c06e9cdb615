"""The names that metrics are shown by, in tables and in sentences."""

from __future__ import annotations

from taxtune.metrics.registry import MEASURES
from taxtune.metrics.table import SCORES

__all__ = ["meaning", "metric_name"]

_OBJECTIVES = {"hr_at_hp": "hR at hP", "ihr_at_ihp": "ihR at ihP", "aurc": "AURC"}
_MEANING = {
    "hr_at_hp": "hierarchical recall (hR) at a held hierarchical precision (hP)",
    "ihr_at_ihp": "information-weighted recall (ihR) at a held precision (ihP)",
}


def metric_name(key: str) -> str:
    """Returns the name of a metric or objective.

    Such are "hP", a text measure's label, or the key of one of the run's own.
    """
    if key in SCORES:
        return SCORES[key].label
    if key in _OBJECTIVES:
        return _OBJECTIVES[key]
    return MEASURES[key].label if key in MEASURES else key


def meaning(key: str) -> str:
    """Returns the name of a metric or objective in a sentence: "hierarchical precision (hP)"."""
    text = SCORES[key].meaning if key in SCORES else _MEANING.get(key)
    if text is not None:
        return text
    return f"the mean {MEASURES[key].label}" if key in MEASURES else f"{key!r}"
