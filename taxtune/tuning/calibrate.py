"""Calibrating a run's winner: the share of votes at which it keeps a promised risk on new images of the same kind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.atomic import write_json
from taxtune.data import Example
from taxtune.errors import DataError, ModelError
from taxtune.metrics.hierarchical import precision_recall, score
from taxtune.policies import Vote, control_risk, images_needed, worst_loss
from taxtune.shell import command
from taxtune.tuning.evaluation import Evaluator, OnAnswers

if TYPE_CHECKING:
    from taxtune.taxonomy import Taxonomy

__all__ = ["CALIBRATION", "Calibration", "ShareLevel", "calibrate", "read_calibration"]

#: The file of a run's folder that holds its calibration.
CALIBRATION = "calibration.json"


@dataclass(frozen=True, slots=True)
class ShareLevel:
    """What the calibration images say of one share of the votes.

    Attributes:
        votes: How many of the answers a node needs; one more than there are is to answer the root always.
        share: The same as a share of the answers; None for always the root.
        hp: Mean hP on the calibration images.
        hr: Mean hR on the calibration images.
        accuracy: Share of the images that were placed on exactly the target.
        root: Share of the images that stayed on the root.
        bound: What 1 - hP is at most: in expectation, or with the confidence.
        kept: Whether the promise holds at this share.
    """

    votes: int
    share: float | None
    hp: float
    hr: float
    accuracy: float
    root: float
    bound: float
    kept: bool


@dataclass(frozen=True, slots=True)
class Calibration:
    """A policy with a promise: that the mean 1 - hP on new images of the same kind is at most `risk`.

    Attributes:
        run: Name of the run.
        templates: The Jinja sources that are asked in turn, mostly one.
        samples: Answers an image.
        temperature: At which they were sampled; None where the model says nothing of it.
        share: The share of the answers that a node needs; None where only answering the root always keeps the promise.
        risk: The mean of 1 - hP that is promised.
        confidence_level: How often that holds; None for in expectation.
        images: How many images it was calibrated on.
        missing: How many more had no answer and were left out.
        source: Which images these are, in words.
        needed: How many images it takes at best, if none of them had a loss.
        levels: What the images say of each share, the most cautious first.
        identity: What was asked and how answers were placed, by dotted key; it must be the same where this is used.
    """

    run: str
    templates: tuple[str, ...]
    samples: int
    temperature: float | None
    share: float | None
    risk: float
    confidence_level: float | None
    images: int
    missing: int
    source: str
    needed: int
    levels: tuple[ShareLevel, ...]
    identity: Mapping[str, str | int | float | None]

    @property
    def policy(self) -> Vote | None:
        """The calibrated policy; None where only answering the root always keeps the promise."""
        return None if self.share is None else Vote(self.samples, self.share)

    @property
    def chosen(self) -> ShareLevel:
        """What the images say of the share that was chosen."""
        return next(level for level in self.levels if level.share == self.share)

    def as_dict(self) -> dict[str, Any]:
        """Returns the calibration as plain values, for JSON."""
        return asdict(self)


def calibrate(
    evaluator: Evaluator,
    templates: Sequence[str],
    examples: Sequence[Example],
    *,
    run: str,
    source: str,
    samples: int,
    risk: float,
    confidence: float | None = None,
    max_missing: float = 0.1,
    on_answers: OnAnswers | None = None,
) -> Calibration:
    """Asks about the calibration images and chooses the smallest share of the votes that keeps the risk.

    Args:
        evaluator: Asks, the store first, and places; its own policy is not used.
        templates: The Jinja sources to ask with, in turn.
        examples: The calibration images, in an order that does not depend on what they show.
        run: Name of the run, for the record.
        source: Which images these are, in words, for the record.
        samples: Answers an image.
        risk: The mean of 1 - hP to keep, in (0, 1).
        confidence: With which confidence, in (0, 1); None for in expectation.
        max_missing: Largest share of images without an answer.
        on_answers: Called with (images answered so far, of them from the store) after every batch.

    Raises:
        DataError: If there are no images.
        ModelError: If too many images have no answer.
        TaxtuneError: If the model cannot be asked.
    """
    if not examples:
        raise DataError("There are no images to calibrate on.", remedy="Give some with --data.")
    evaluation = evaluator.at(Vote(samples)).evaluate(templates, examples, on_answers)
    rows = [row for row in evaluation.rows if row.node is not None]
    missing = len(examples) - len(rows)
    if missing > max_missing * len(examples):
        raise ModelError(
            f"{missing} of the {len(examples)} calibration images have no answer; the first: "
            f"{evaluation.failures[0].rstrip('.')}.",
            remedy="Run the same command again when the model answers; answers so far are saved.",
        )
    tree = evaluator.taxonomy
    votes = np.array([row.votes for row in rows], dtype=np.int64)
    target = np.array([row.target for row in rows], dtype=np.int64)
    worst = worst_loss(tree)
    levels = share_levels(tree, votes, target, risk, confidence)
    kept = [level for level in levels if level.kept]
    return Calibration(
        run=run,
        templates=tuple(templates),
        samples=samples,
        temperature=_temperature(evaluator),
        share=kept[-1].share if kept else None,
        risk=risk,
        confidence_level=confidence,
        images=len(rows),
        missing=missing,
        source=source,
        needed=images_needed(risk, confidence, worst=worst),
        levels=levels,
        identity={
            **{f"vlm.{key}": value for key, value in evaluator.vlm.identity.items()},
            **{f"mapper.{key}": value for key, value in evaluator.mapper.identity().items()},
        },
    )


def share_levels(
    taxonomy: Taxonomy, votes: np.ndarray[Any, Any], target: np.ndarray[Any, Any], risk: float, confidence: float | None
) -> tuple[ShareLevel, ...]:
    """Returns what votes say of every share that makes a difference, after answering the root always.

    Args:
        taxonomy: The label tree.
        votes: The node of each answer, shape (images, answers); the root for one off the tree, -1 for one refused.
        target: Node numbers, shape (images,).
        risk: The mean of 1 - hP to keep.
        confidence: With which confidence; None for in expectation.
    """
    n, samples = votes.shape
    off = np.zeros(votes.shape, dtype=bool)
    counts = [samples + 1, *range(samples, 0, -1)]
    places = [np.full(n, taxonomy.root)]
    places += [Vote(samples, count / samples).place(taxonomy, votes, off).nodes for count in counts[1:]]
    losses = np.array([1 - precision_recall(taxonomy, nodes, target)[0] for nodes in places])
    # Of the root alone nothing needs to be tested: it has no loss on any image.
    tested = control_risk(losses[1:], risk, confidence, worst=worst_loss(taxonomy))
    bounds = [(0.0, True), *((level.bound, level.kept) for level in tested)]
    levels = []
    for count, nodes, (bound, kept) in zip(counts, places, bounds, strict=True):
        found = score(taxonomy, nodes, target)
        levels.append(
            ShareLevel(
                count,
                None if count > samples else count / samples,
                found.hp,
                found.hr,
                found.accuracy,
                float((nodes == taxonomy.root).mean()),
                bound,
                kept,
            )
        )
    return tuple(levels)


def _temperature(evaluator: Evaluator) -> float | None:
    found = evaluator.vlm.identity.get("temperature")
    return float(found) if isinstance(found, int | float) else None


def write_calibration(folder: Path, calibration: Calibration) -> Path:
    """Writes a calibration to a run's folder; returns the file.

    Raises:
        TaxtuneError: If it cannot be written.
    """
    file = folder / CALIBRATION
    write_json(file, calibration.as_dict())
    return file


def read_calibration(folder: str | Path) -> Calibration:
    """Reads the calibration of a run back from its folder.

    Raises:
        DataError: If there is none, or it cannot be read.
    """
    from pydantic import TypeAdapter, ValidationError

    file = Path(folder) / CALIBRATION
    if not file.exists():
        raise DataError(
            "The run is not calibrated.",
            file=Path(folder),
            remedy=f"Run `{command('calibrate', folder)} --risk 0.02`, for a hP of 0.98.",
        )
    try:
        return TypeAdapter(Calibration).validate_python(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise DataError(
            f"The file is not a calibration, or one of an earlier version: {str(error).splitlines()[0]}.",
            file=file,
            remedy=f"Run `{command('calibrate', folder)}` again; answers in the store are not asked for twice.",
        ) from error
