"""Recorded landscapes: what many templates were answered on many images, so that searches can be replayed on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.metrics import precision_recall
from taxtune.policies import PlacedAnswer
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.proposers.fragments import Fragments, read_fragments
from taxtune.tuning.records import SampleResult
from taxtune.tuning.run_folder import finished_run

HERE = Path(__file__).resolve().parent
FIELDGUIDE = HERE / "fieldguide.npz"
FRAGMENTS = HERE / "fragments.yaml"

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Of the answers only the scores are recorded.
_ANSWERED = PlacedAnswer(
    answer="",
    node=0,
    placement="",
    off_tree=False,
    abstained=False,
    stage="",
    confidence=None,
)


@dataclass(frozen=True)
class Landscape:
    """hP and hR of every template on every image; the first template is the baseline.

    Attributes:
        name: What it is called in tables.
        hp: hP of each answer, shape (templates, images), in (0, 1].
        hr: hR of each answer, shape (templates, images), in (0, 1].
        templates: The templates' sources.
        parameters: What each was composed of, choice by slot; empty where it was not composed.
        trivial_hr: Mean hR of always answering the root.
        fragments: The file of which the templates are all the compositions; None where they are
            not.
        degraded: Which images are degraded, shape (images,); None where that is not known.
    """

    name: str
    hp: FloatArray
    hr: FloatArray
    templates: tuple[str, ...]
    parameters: tuple[dict[str, str], ...]
    trivial_hr: float
    fragments: Fragments | None = None
    degraded: NDArray[np.bool_] | None = field(default=None, repr=False)

    @cached_property
    def differences(self) -> IntArray:
        """In how many slots two templates differ, shape (templates, templates).

        One that was not composed counts as one slot away from every other.
        """
        slots = sorted({slot for each in self.parameters for slot in each})
        choices = np.array(
            [[each.get(slot, "") for slot in slots] for each in self.parameters], dtype=str
        )
        different = np.zeros((len(self.templates),) * 2, dtype=np.int64)
        for column in choices.T:
            different += column[:, None] != column[None, :]
        plain = np.array([not each for each in self.parameters])
        different[plain, :] = different[:, plain] = 1
        np.fill_diagonal(different, 0)
        return different

    def rows(self, template: int) -> list[SampleResult]:
        """Returns the records of a template's answers about all images."""
        if template not in self._rows:
            scores = zip(self.hp[template].tolist(), self.hr[template].tolist(), strict=True)
            self._rows[template] = [
                SampleResult(
                    str(i), f"{i}.png", 0, "", placed=_ANSWERED, scores={"hp": hp, "hr": hr}
                )
                for i, (hp, hr) in enumerate(scores)
            ]
        return self._rows[template]

    @cached_property
    def _rows(self) -> dict[int, list[SampleResult]]:
        return {}

    def of_images(self, images: Sequence[int] | IntArray, name: str) -> Landscape:
        """Returns the part of the landscape with these images, by number."""
        degraded = None if self.degraded is None else self.degraded[images]
        return replace(
            self, name=name, hp=self.hp[:, images], hr=self.hr[:, images], degraded=degraded
        )

    def with_degraded(self, share: float) -> Landscape:
        """Returns the landscape on the most images of which a share is degraded: the first so many of either kind.

        Args:
            share: The share, in (0, 1).
        """
        assert self.degraded is not None
        kinds = (np.flatnonzero(self.degraded), np.flatnonzero(~self.degraded))
        images = int(min(len(kinds[0]) / share, len(kinds[1]) / (1 - share)))
        bad = round(share * images)
        return self.of_images(
            np.sort(np.concatenate([kinds[0][:bad], kinds[1][: images - bad]])),
            f"{share:.0%} degraded",
        )


def read_landscape(file: Path = FIELDGUIDE, fragments: Path | None = FRAGMENTS) -> Landscape:
    """Reads a landscape that `record.py` wrote.

    Args:
        file: The landscape.
        fragments: The file that its templates were composed from.

    Raises:
        DataError: If its templates are not the baseline and every composition of the fragments,
            once each.
    """
    with np.load(file) as data:
        tree = Taxonomy(data["labels"].tolist(), data["parents"].astype(np.int64))
        nodes = data["nodes"].astype(np.int64)
        off = data["off_tree"]
        targets = data["targets"].astype(np.int64)
        templates = tuple(map(str, data["templates"]))
        parameters = tuple(json.loads(str(text)) for text in data["parameters"])
        degraded = data["degraded"]
    known = None if fragments is None else read_fragments(fragments)
    if known is not None:
        wanted = sorted(
            known.compose(known.parameters(number)) for number in range(known.compositions)
        )
        if sorted(templates[1:]) != wanted:
            raise DataError(
                f"The landscape does not hold every composition of {known.name!r} once.",
                file=file,
                remedy="Record it again with benchmarks/landscapes/record.py.",
            )
    hp, hr = precision_recall(
        tree, nodes.ravel(), np.tile(targets, len(nodes)), off_tree=off.ravel()
    )
    trivial = float((1 / (tree.depth[targets] + 1)).mean())
    return Landscape(
        file.stem,
        hp.reshape(nodes.shape),
        hr.reshape(nodes.shape),
        templates,
        parameters,
        trivial,
        known,
        degraded,
    )


def landscape_of_run(folder: Path) -> Landscape:
    """Returns the templates of a tuning run that were asked about all of its tuning images.

    Args:
        folder: The run's folder.

    Raises:
        DataError: If fewer than three templates have an answer to every image.
    """
    records = [record for record in finished_run(folder).iterations if record.state == "complete"]
    most = max((len(record.rows) for record in records), default=0)
    whole = [
        r for r in records if len(r.rows) == most and all(row.hp is not None for row in r.rows)
    ]
    if len(whole) < 3 or whole[0].iteration != 0:
        raise DataError(
            f"{len(whole)} templates of the run, the baseline included, have an answer to each of {most} images.",
            file=folder,
            remedy="Give a run in which at least three have, the baseline among them.",
        )
    rows = [record.rows for record in whole]
    return Landscape(
        folder.name,
        np.array([[row.hp for row in some] for some in rows], dtype=np.float64),
        np.array([[row.hr for row in some] for some in rows], dtype=np.float64),
        tuple(str(record.template) for record in whole),
        tuple(record.parameters for record in whole),
        float(np.mean([1 / (row.truth.count("/") + 1) for row in rows[0]])),
    )
