"""A cascade: a classifier's calibrated scores, then a run's winner where they do not say enough."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from taxtune.answers.classifier_scores import Columns, Scores, read_scores
from taxtune.answers.records import Source
from taxtune.atomic import write_json
from taxtune.data import Example
from taxtune.errors import DataError, TaxtuneError
from taxtune.metrics.groups import Groups
from taxtune.policies import (
    Paths,
    Posterior,
    Reliability,
    RiskGuarantee,
    SelfConsistency,
    Single,
    weighted_paths,
)
from taxtune.policies.cascade import (
    FIRST,
    PricePoint,
    known_first,
    part_of,
    price_list,
    wanted_nodes,
)
from taxtune.policies.risk import LABELS_CONFIDENCE
from taxtune.progress import note
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.calibrate import CalibrationRun
from taxtune.tuning.costs import CallCost
from taxtune.tuning.saved import find_saved, read_saved, tree_columns, tree_of_columns
from taxtune.tuning.thresholds import recorded_paths

__all__ = ["IMAGES", "Cascade", "CascadeRun"]

#: How many images prices are told for.
IMAGES = 10_000
_NEAR = 0.01  # hR this near to the best is as good


@dataclass(frozen=True, kw_only=True)
class Cascade(RiskGuarantee):
    """Two thresholds with one guarantee about new images of the same kind, and what they cost.

    Attributes:
        points: The price list, see `price_list`: the scores alone first, the model alone last.
        place: Which point was chosen; None where only always answering the root keeps the promise.
        run: The folder of the run that is asked; in a file from the file's own folder on.
        template: The Jinja source that it asks with.
        policy: The identity of its policy.
        temperature: That of its model; None where it is the provider's.
        wanted: The rank or the depth at which scores say enough; None for a leaf.
        samples: Calls of the model for each image that is asked about.
        call: What a call costs, and how long it takes among those under way at a time.
        labels: The most scores of an image.
        missing: How many more images had a label, and no answer or no scores.
        source: Which images these are, in words.
        needed: How many images, or groups, it takes at best.
        units: How many groups the images are.
        taxonomy: The label tree, by column.
    """

    points: tuple[PricePoint, ...]
    place: int | None
    run: str
    template: str = field(repr=False)
    policy: dict[str, Any]
    temperature: float | None
    wanted: str | None
    samples: int
    call: CallCost
    labels: int
    missing: int
    source: str
    needed: int
    units: int
    taxonomy: dict[str, Any] = field(repr=False)
    format: Literal["taxtune cascade 1"] = "taxtune cascade 1"

    _of: ClassVar[str] = " of scores and a run"

    @classmethod
    def read(cls, file: str | Path) -> Self:
        """Reads a calibration; see `CalibratedThreshold.read`."""
        found = super().read(file)
        if found.place not in (None, *range(len(found.points))):
            raise DataError("The price list has no such point.", file=file, value=found.place)
        return replace(found, run=str((Path(file).parent / found.run).resolve()))

    def write(self, file: str | Path) -> None:
        """Writes a calibration for `taxtune classify`."""
        run = self.run
        with suppress(ValueError):  # on another drive
            run = os.path.relpath(run, Path(file).parent)
        write_json(Path(file), asdict(replace(self, run=run)), indent=None)

    @cached_property
    def tree(self) -> Taxonomy:
        """The label tree."""
        return tree_of_columns(self.taxonomy, None)

    @property
    def chosen(self) -> PricePoint:
        """The point that was chosen.

        Raises:
            DataError: If there is none.
        """
        if self.place is None:
            raise DataError("Only always answering the root keeps the promise.")
        return self.points[self.place]

    def choose(self, *, budget: float | None = None, hr: float | None = None) -> Self:
        """Returns the cascade with another of the points that keep the promise and label anything.

        It is the cheapest one whose hR is within 0.01 of the best.

        Args:
            budget: US dollars for 10,000 images: the highest hR at no more.
            hr: The cheapest point with at least this hR.

        Raises:
            TaxtuneError: If there is none, or what calls cost is not known.
        """
        kept = [point for point in self.points if point.kept and point.level.labels.labels]
        if not kept:
            return replace(self, place=None)
        if budget is None:
            budget = math.inf
        elif self.call.usd is None:
            raise TaxtuneError("What a call costs is not known.", remedy="Choose by the hR.")
        prices = [IMAGES * point.asked * self.samples * (self.call.usd or 0.0) for point in kept]
        within = [point for point, price in zip(kept, prices, strict=True) if price <= budget]
        best = max((point.hr for point in within), default=0.0)
        least = best if budget < math.inf else best - _NEAR
        for point in within:
            if point.hr >= (least if hr is None else hr):
                return replace(self, place=self.points.index(point))
        raise TaxtuneError(
            "No row of the price list that keeps the promise fits.",
            value=budget if hr is None else hr,
            remedy=f"The highest hR is {best:.3f}."
            if within
            else f"They cost ${prices[0]:.2f} or more for {IMAGES:,} images.",
        )


@dataclass(kw_only=True)
class CascadeRun(CalibrationRun):
    """A calibration of a classifier's scores and a run's winner together.

    Attributes:
        scores: The scores, as `read_scores` takes them.
        columns: Those of "image", "label" and "score" that cannot be told.
        wanted: The rank or the depth at which scores say enough; None for a leaf.
        lacking: How many labelled images have no scores.
    """

    scores: Source
    columns: Columns | None = None
    wanted: str | None = None
    lacking: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.confidence is None:
            self.confidence = LABELS_CONFIDENCE
        self.rank = self.wanted if self.promise == "labels" else None
        if isinstance(self.scores, str | Path):
            self.candidates = str(self.scores)
        super().__post_init__()

    @cached_property
    def policy(self) -> SelfConsistency | Posterior | Single:
        """The policy that asks: the run's own where no other is named."""
        own = self.settings.policy
        asks_once = own.kind != "posterior" and own.samples == 1
        if asks_once and self.kind is None and self.samples is None:
            return Single()
        return super().policy

    @cached_property
    def needed(self) -> int:
        """How many images, or groups of images, it takes at best."""
        return part_of(self.guarantee).fewest(self.tree[0])

    @cached_property
    def known(self) -> Scores:
        """The scores."""
        return read_scores(self.scores, self.tree[0], self.columns)

    def usable(self, examples: Sequence[Example]) -> Sequence[Example]:
        """Returns the images that have scores.

        Raises:
            DataError: If none has, or they are boxes of photos.
        """
        if any(example.box for example in examples):
            raise DataError(
                "Scores go with whole photos, and the run asks about boxes of them.",
                file=self.folder,
                remedy="Tune a run on whole photos.",
            )
        rows = self.known.rows_of([example.id for example in examples])
        self.lacking = len(examples) - len(rows)
        if self.lacking:
            note(f"{self.lacking:,} of {len(examples):,} labelled images have no scores")
        return [example for example in examples if example.id in rows]

    def asked(self) -> dict[float | None, float]:
        """Returns the share of the images that is asked about, by the first threshold."""
        paths = self._paths([example.id for example in self.examples])
        wanted = wanted_nodes(self.tree[0], self.wanted)
        return {first: known_first(paths, first, wanted)[1].mean() for first in FIRST}

    def cascade(self) -> Cascade:
        """Asks what is not answered yet, and tests thresholds; raises as `run` does."""
        tree, _ = self.tree
        wanted = wanted_nodes(tree, self.wanted)
        rows = self.answered_rows()
        placed = [row.placed for row in rows if row.placed is not None]
        groups = Groups.of([row.group for row in rows])
        points = price_list(
            tree,
            self._paths([row.example for row in rows]),
            recorded_paths(tree, placed, self._reliability()),
            [row.target for row in rows],
            self.guarantee,
            groups,
            wanted,
            self.policy.thresholds,
        )
        model: Any = self.asker.model
        facts = self.facts(groups)
        facts["missing"] += self.lacking
        cascade = Cascade(
            **facts,
            points=points,
            place=None,
            run=str(self.folder.absolute()),
            policy=dict(self.policy.identity()),
            temperature=model.identity.get("temperature"),
            wanted=self.wanted,
            call=self.call,
            labels=self.known.nodes.shape[1] - 1,
            taxonomy=tree_columns(tree),
        )
        return cascade.choose()

    def _paths(self, images: Sequence[str]) -> Paths:
        known = self.known.rows_of(images)
        rows = [known[image] for image in images]
        return weighted_paths(self.tree[0], self.known.nodes[rows], self.known.weights[rows])

    def _reliability(self) -> Reliability | None:
        if self.policy != Single():
            return None
        return read_saved(find_saved(self.folder)).reliability
