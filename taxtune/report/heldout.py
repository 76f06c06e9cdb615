"""The report's tables of held-out scores, of their differences, and of what is right at each rank."""

from __future__ import annotations

from typing import Any

from taxtune.metrics.statistics import Interval, PairedDifference
from taxtune.report import wording
from taxtune.report.wording import Result

__all__ = ["section"]


def section(result: Result) -> dict[str, Any] | None:
    """Returns the scores on the held-out images, None where there are none."""
    if not result.heldout:
        return None
    return {
        "title": f"{result.heldout[0].split.capitalize()} scores",
        "split": result.heldout[0].split,
        "heldout": _heldout(result),
        "score_parts": _score_parts(result),
        "ranks": _ranks(result),
        "target_bits": result.heldout[0].scores.target_bits,
        "off_tree_as": result.heldout[0].off_tree_as,
        "measures": _measures(result),
        "restricted": next((held.full for held in result.heldout if held.full is not None), None),
        "differences": _differences(result),
        "missing": _missing(result),
    }


def _heldout(result: Result) -> list[dict[str, Any]]:
    return [
        {
            "name": wording.template_name(held.name),
            "cells": [
                {
                    "value": wording.number(row.value, row.key),
                    "ends": None if row.ends is None else wording.interval(row.ends, row.key),
                }
                for row in wording.score_rows(held)
            ],
            "n": held.scores.n,
        }
        for held in result.heldout
    ]


def _score_parts(result: Result) -> list[dict[str, Any]]:
    """Returns the columns of a table of scores, parted where they would not stand side by side on a screen.

    The information-weighted ones have a table of their own, and so have, of a run that is restricted to a part of the
    taxonomy, those on the whole of it.
    """
    rows = wording.score_rows(result.heldout[0]) if result.heldout else []
    kinds = ["whole" if row.whole else "bits" if row.key in wording.INFORMATION else "main" for row in rows]
    parts = [
        {"kind": kind, "columns": [(i, row.name) for i, row in enumerate(rows) if kinds[i] == kind]}
        for kind in ("main", "bits", "whole")
    ]
    return [part for part in parts if part["columns"]]


def _ranks(result: Result) -> list[dict[str, Any]]:
    """Returns what is said at each rank with each template, and how much of it is right."""

    def cell(share: Interval | None, count: int) -> dict[str, Any]:
        ends = None if share is None else wording.interval(share)
        return {"value": wording.number(None if share is None else share.estimate), "ends": ends, "count": count}

    return [
        {
            "name": name,
            "cells": [
                shown
                for row in found
                for shown in (
                    (None, None)
                    if row is None
                    else (cell(row.precision, row.scores.n_predicted), cell(row.recall, row.scores.n_relevant))
                )
            ],
        }
        for name, found in wording.rank_rows(result.heldout)
    ]


def _measures(result: Result) -> list[dict[str, str]]:
    """Returns the measures of text that a run takes, with what they measure; its own functions explain themselves."""
    from taxtune.metrics.registry import MEASURES

    keys = dict.fromkeys(key for held in result.heldout for key in held.scores.measures)
    return [{"name": MEASURES[key].label, "summary": MEASURES[key].summary} for key in keys if key in MEASURES]


def _differences(result: Result) -> list[dict[str, Any]]:
    rows = wording.difference_rows(result)
    return [
        {"name": wording.pair_name(each.key), "cells": [_change(found[each.key], key) for key, _, found in rows]}
        for each in result.differences
    ]


def _change(value: PairedDifference | None, key: str) -> dict[str, Any] | None:
    if value is None:
        return None
    return {
        "value": wording.signed(value.difference, key),
        "ends": f"{wording.signed(value.low, key)} to {wording.signed(value.high, key)}",
        "p": wording.p_value(value.p_value),
        "significant": value.significant,
    }


def _missing(result: Result) -> int:
    """Returns how many held-out images some template has no answer for; no score counts them."""
    return len({row.example for held in result.heldout for row in held.rows if row.failure is not None})
