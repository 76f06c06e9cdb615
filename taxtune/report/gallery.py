"""Held-out images whose answers the tuning changed most, for the report."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.errors import TaxtuneError
from taxtune.metrics.hierarchical import harmonic_mean
from taxtune.report import wording
from taxtune.report.wording import Result
from taxtune.tuning.records import ExampleRow, HeldoutResult

__all__ = ["Change", "changed_most", "section", "thumbnail"]

_THUMBNAIL_SIDE = 224


@dataclass(frozen=True, slots=True)
class Change:
    """One image answered with two templates.

    Attributes:
        before: The baseline's row.
        after: The winner's row.
        gain: Score after minus score before, in [-1, 1].
        picture: The image as a data address, or None where there is no file.
    """

    before: ExampleRow
    after: ExampleRow
    gain: float
    picture: str | None


def section(result: Result) -> dict[str, Any] | None:
    """Returns the images that each run changed most, None where no winner differs from the baseline."""
    galleries = _galleries(result)
    return {"title": "What tuning changed", "galleries": galleries} if galleries else None


def changed_most(
    baseline: HeldoutResult, winner: HeldoutResult, objective: str, images: Mapping[str, Path], count: int = 6
) -> tuple[list[Change], list[Change]]:
    """Returns the images that gained most and those that lost most, of those answered with both templates.

    Args:
        baseline: The baseline on the held-out split.
        winner: The winner on the same images.
        objective: "hp" and "ihp" compare each image's own, "ihf" the harmonic mean of its ihP and ihR, a measure or a
            metric of the run's own its value; the others the harmonic mean of hP and hR.
        images: Image files by example id; others get no picture.
        count: Most images to return of either kind.
    """
    after = {row.example: row for row in winner.rows}
    pairs = [
        (_score(after[row.example], objective) - _score(row, objective), row, after[row.example])
        for row in baseline.rows
        if row.example in after and _scored(row, objective) and _scored(after[row.example], objective)
    ]
    gained = sorted((pair for pair in pairs if pair[0] > 1e-9), key=lambda pair: (-pair[0], pair[1].example))
    lost = sorted((pair for pair in pairs if pair[0] < -1e-9), key=lambda pair: (pair[0], pair[1].example))
    return _changes(gained[:count], images), _changes(lost[:count], images)


def thumbnail(path: Path) -> str | None:
    """Returns a small copy of an image as a data address, or None where the image cannot be read any more."""
    from taxtune.data.images import load_image

    try:
        picture = load_image(path)
    except TaxtuneError:
        # The scores do not depend on the picture, and the run has read it before: a report without it is still true.
        return None
    picture.thumbnail((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _changes(pairs: Sequence[tuple[float, ExampleRow, ExampleRow]], images: Mapping[str, Path]) -> list[Change]:
    return [
        Change(before, after, gain, thumbnail(images[before.example]) if before.example in images else None)
        for gain, before, after in pairs
    ]


def _scored(row: ExampleRow, objective: str) -> bool:
    needed = {"ihp": row.ihp, "ihf": row.ihp, **row.measures}
    return row.hp is not None and needed.get(objective, row.hp) is not None


def _score(row: ExampleRow, objective: str) -> float:
    if objective in row.measures:
        return row.measures[objective] or 0.0
    hp, hr = (row.ihp, row.ihr) if objective in ("ihp", "ihf") else (row.hp, row.hr)
    return hp or 0.0 if objective in ("hp", "ihp") else harmonic_mean(hp or 0.0, hr or 0.0)


def _galleries(result: Result) -> list[dict[str, Any]]:
    held = {each.name: each for each in result.heldout}
    images = {example: Path(file) for example, file in result.provenance.images.items()}
    galleries = []
    for name, run in result.named_runs:
        objective = run.objective
        if "baseline" not in held or name not in held or held[name].template == held["baseline"].template:
            continue
        gained, lost = changed_most(held["baseline"], held[name], objective, images)
        galleries.append(
            {
                "objective": wording.metric_name(objective),
                "gained": gained,
                "lost": lost,
                "better": _count(held["baseline"], held[name], objective, 1),
                "worse": _count(held["baseline"], held[name], objective, -1),
            }
        )
    return galleries


def _count(baseline: HeldoutResult, winner: HeldoutResult, objective: str, sign: int) -> int:
    gained, lost = changed_most(baseline, winner, objective, {}, count=len(baseline.rows))
    return len(gained if sign > 0 else lost)
