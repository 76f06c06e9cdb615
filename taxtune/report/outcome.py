"""The first screen of a report: each winner's prompt and verdict, one photo with every answer to it, and the counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taxtune.report.changes import EXACT, GENERAL, OFF, WRONG, state_of
from taxtune.report.pictures import thumbnail
from taxtune.report.scores import Result, number, signed
from taxtune.report.summary import COUNTS, Column, Summary, summarise
from taxtune.tuning.records import SampleResult

__all__ = ["EXPLAINED", "answers_to", "backed_off", "change_in_words", "first_screen"]

#: What the scores are, in half a sentence.
EXPLAINED = {"hp": "how much of what the answers say is true", "hr": "how much of what is true the answers say"}
#: A sign for each state of an answer, so that none is told by its colour alone, and its class in the page.
_SIGNS = {WRONG: ("✕", "worse"), OFF: ("✕", "worse"), GENERAL: ("✓", "better"), EXACT: ("✓", "better")}
_SIDE = 320  # pixels


def first_screen(result: Result) -> dict[str, Any] | None:
    """Returns the values of the first screen; None where no template was asked about held-out images."""
    if not result.heldout:
        return None
    summary = summarise(result)
    states = {words: state for state, words in COUNTS.items()}
    return {
        "split": summary.split,
        "images": summary.images,
        "winners": summary.winners,
        "example": _example(result, {column.name: column.title for column in summary.columns}),
        "columns": [column.title for column in summary.columns],
        "counts": [
            {
                "name": words,
                "sign": _sign(states[words]),
                "cells": [(column.counts[words], _subject(result, column)) for column in summary.columns],
            }
            for words in summary.counts
        ],
        "scores": [
            {"name": name, "explained": EXPLAINED.get(key), "cells": _scores(summary, key)}
            for key, name in summary.scores.items()
        ],
    }


def change_in_words(column: Column, key: str) -> tuple[str, str] | None:
    """Returns a score's change from the baseline and its 95 % interval; None where there is none."""
    change = column.changes.get(key)
    if change is None:
        return None
    return signed(change.difference, key), f"{signed(change.low, key)} to {signed(change.high, key)}"


def backed_off(result: Result) -> list[SampleResult]:
    """Returns a template's answers that are right and general where its baseline's are wrong, the most specific first.

    They are those of the first template that has any.
    """
    for held in result.heldout:
        baseline = result.heldout_baseline
        if baseline is None or baseline is held:
            continue
        wrong = {row.example: row for row in baseline.rows if state_of(row) in (WRONG, OFF)}
        rows = [row for row in held.rows if row.example in wrong and state_of(row) == GENERAL]
        if rows:
            # Of those the ones first that the baseline all but knew.
            return sorted(rows, key=lambda row: (-(row.hr or 0), -(wrong[row.example].hp or 0)))
    return []


def answers_to(result: Result, image: SampleResult) -> list[tuple[str, SampleResult]]:
    """Returns every template's row of an image, each with the template's name among the held-out results."""
    return [
        (held.name, row)
        for held in result.heldout
        for row in held.rows
        if (row.example, row.truth) == (image.example, image.truth)
    ]


def _example(result: Result, titles: Mapping[str, str]) -> dict[str, Any] | None:
    """Returns one image on which a template backed off rightly, with every template's answer; None if there is none."""
    rows = backed_off(result)
    if not rows:
        return None
    files = result.provenance.images
    pictures = ((row, thumbnail(Path(files[row.example]), _SIDE)) for row in rows if row.example in files)
    shown, picture = next(((row, data) for row, data in pictures if data is not None), (rows[0], None))
    return {
        "truth": shown.truth.split("/"),
        "picture": picture,
        "answers": [
            {
                "name": titles[name],
                "text": row.answer,
                "failure": row.failure,
                "state": COUNTS[state_of(row)],
                "sign": _sign(state_of(row)),
            }
            for name, row in answers_to(result, shown)
        ],
    }


def _scores(summary: Summary, key: str) -> list[dict[str, Any]]:
    return [
        {
            "value": number(column.scores[key], key),
            "change": change_in_words(column, key),
            "clear": key in column.changes and column.changes[key].significant,
        }
        for column in summary.columns
    ]


def _sign(state: str | None) -> tuple[str, str]:
    return _SIGNS.get(state or "", ("", ""))


def _subject(result: Result, column: Column) -> int | None:
    """Returns a template's number among those that the images below can be chosen by; None of a baseline."""
    return result.contenders.index(column.name) if column.name in result.contenders else None
