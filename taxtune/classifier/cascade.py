"""A cascade: a classifier's calibrated scores, then a run's winner where they do not say enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from taxtune.policies import RiskGuarantee
from taxtune.policies.cascade import PricePoint
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.costs import CallCost
from taxtune.tuning.saved import tree_of_columns

__all__ = ["Cascade"]


@dataclass(frozen=True, kw_only=True)
class Cascade(RiskGuarantee):
    """Two thresholds with one guarantee about new images of the same kind, and what they cost.

    Attributes:
        points: The price list, see `price_list`: the scores alone first, the model alone last.
        place: Which point was chosen.
        run: The folder of the run, or of a saved classifier, that is asked; from the folder of the
            calibration's file, if it is relative.
        template: The Jinja source that it asks with.
        policy: The identity of its policy.
        temperature: That of its model; None where it is the provider's.
        wanted: The rank or the depth at which scores say enough; None for a leaf.
        samples: Calls of the model for each image that is asked about.
        call: What a call costs, and how long it takes.
        concurrency: Calls under way at a time.
        labels: The most scores of an image.
        missing: How many more images had a label, and no answer or no scores.
        source: Which images these are, in words.
        needed: How many images, or groups, it takes at best.
        units: How many groups the images are.
        taxonomy: The label tree, by column.
    """

    points: tuple[PricePoint, ...]
    place: int
    run: str
    template: str = field(repr=False)
    policy: dict[str, Any]
    temperature: float | None
    wanted: str | None
    samples: int
    call: CallCost
    concurrency: int
    labels: int
    missing: int
    source: str
    needed: int
    units: int
    taxonomy: dict[str, Any] = field(repr=False)
    format: Literal["taxtune cascade 1"] = "taxtune cascade 1"

    @property
    def chosen(self) -> PricePoint:
        """The point that was chosen."""
        return self.points[self.place]

    def dollars(self, point: PricePoint, images: int = 10_000) -> float | None:
        """Returns the US dollars that a point takes for so many images; None where they are not known."""
        if point.asked == 0:
            return 0.0
        usd = self.call.usd
        return None if usd is None else images * point.asked * self.samples * usd

    def minutes(self, point: PricePoint, images: int = 10_000) -> float | None:
        """Returns the minutes that its calls take for so many images; None where none was timed."""
        if point.asked == 0:
            return 0.0
        seconds = self.call.seconds
        if seconds is None:
            return None
        return images * point.asked * self.samples * seconds / self.concurrency / 60

    @cached_property
    def tree(self) -> Taxonomy:
        """The label tree."""
        return tree_of_columns(self.taxonomy, None)
