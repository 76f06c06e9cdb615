"""The names that metrics are shown by, in tables and in sentences."""

from __future__ import annotations

from taxtune.metrics.registry import MEASURES

__all__ = ["INFORMATION", "METRICS", "SELECTIVE", "SHARES", "meaning", "metric_name"]

#: The scores in the order in which they are shown.
METRICS = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy", "depth": "depth"}
#: The information-weighted scores.
INFORMATION = {
    "ihp": "ihP",
    "ihr": "ihR",
    "ihf": "ihF",
    "remaining_uncertainty": "remaining uncertainty, bits",
    "misinformation": "misinformation, bits",
}
#: Shares of the answers: those that say nothing, and those that assert something the tree lacks.
SHARES = {"abstained": "abstained", "off_tree": "off the tree"}
#: The scores of a confidence.
SELECTIVE = {"selective_hp": "selective hP"}
_OBJECTIVES = {"hr_at_hp": "hR at hP", "ihr_at_ihp": "ihR at ihP", "aurc": "AURC"}
_NAMES = {**METRICS, **INFORMATION, **SHARES, **SELECTIVE, **_OBJECTIVES}
_MEANING = {
    "hp": "hierarchical precision (hP)",
    "hr": "hierarchical recall (hR)",
    "hf": "hierarchical F (hF)",
    "ihp": "information-weighted hierarchical precision (ihP)",
    "ihr": "information-weighted hierarchical recall (ihR)",
    "ihf": "information-weighted hierarchical F (ihF)",
    "accuracy": "exact accuracy",
    "selective_hp": "hP of the surest answers, averaged over all coverages (1 − AURC)",
    "hr_at_hp": "hierarchical recall (hR) at a held hierarchical precision (hP)",
    "ihr_at_ihp": "information-weighted recall (ihR) at a held precision (ihP)",
}


def metric_name(key: str) -> str:
    """Returns the name of a metric or objective.

    Such are "hP", a text measure's label, or the key of one of the run's own.
    """
    if key in _NAMES:
        return _NAMES[key]
    return MEASURES[key].label if key in MEASURES else key


def meaning(key: str) -> str:
    """Returns the name of a metric or objective in a sentence: "hierarchical precision (hP)"."""
    if key in _MEANING:
        return _MEANING[key]
    return f"the mean {MEASURES[key].label}" if key in MEASURES else f"{key!r}"
