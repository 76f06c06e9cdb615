"""A cascade that labels images: by their scores where these say enough, else with a run's winner."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.answers.classifier_scores import Columns, Scores, read_scores
from taxtune.answers.records import Source
from taxtune.classifier.cascade import Cascade
from taxtune.classifier.classifier import Classification, Classifier, name_of
from taxtune.classifier.labels import GAIN, SCORES, UNPAID
from taxtune.classifier.loading import load_classifier, policy_of
from taxtune.classifier.scores import NO_SCORES, ScoreCalibration, place_images, scored_paths
from taxtune.data.context import CANDIDATES
from taxtune.errors import DataError
from taxtune.models import AnswerStore
from taxtune.models.batches import BatchModel
from taxtune.policies import RiskGuarantee
from taxtune.policies.cascade import end_shares, join_nodes, known_first, wanted_nodes
from taxtune.tables import read_text
from taxtune.tuning.context import candidates_of
from taxtune.tuning.thresholds import recorded_paths

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CascadeClassifier", "load_cascade", "read_calibrated"]

_ROUNDING = 1e-9  # 0.3 is enough for three times 0.1


@dataclass(repr=False, kw_only=True)
class CascadeClassifier(Classifier):
    """A classifier whose model is asked only about images whose scores do not say enough.

    An image without scores is labelled by the model alone where that keeps the promise.

    Attributes:
        cascade: The calibration.
        budget: US dollars that answers may still cost; None for what they cost.
    """

    cascade: Cascade
    budget: float | None = None

    @property
    def labels_alone(self) -> bool:
        """Whether the model labels images without scores; a prompt with candidates needs them."""
        asks = self.cascade.chosen.second is not None and self.top is None
        return asks and self.cascade.points[-1].kept

    @cached_property
    def _can_change(self) -> bool:
        """Whether an answer can change a label."""
        needed = self.cascade.chosen.second
        if needed is None or self.policy.threshold is not None or self.reliability is None:
            return needed is not None
        depths = range(1, self.taxonomy.height + 1)
        return any(self.reliability.confidences(depth)[1] >= needed for depth in depths)

    def with_scores(
        self, images: pd.DataFrame, source: Source | None, columns: Columns | None = None
    ) -> pd.DataFrame:
        """Returns images with their labels by scores, those first where an answer may gain most.

        Args:
            images: A table with a column `image`.
            source: The scores, as `read_scores` takes them; None for none.
            columns: Those of "image", "label" and "score" that cannot be told.

        Raises:
            DataError: If the scores cannot be read, or are of other images.
        """
        if "source" in images:
            raise DataError("The images have a column 'source' already.", remedy="Rename it.")
        names = images["image"].map(name_of)
        known = {name: Classification(name, failure=NO_SCORES, source="") for name in names}
        alone = self.cascade.points[-1]
        gains = dict.fromkeys(names, alone.gain(0, 0.0) if self.labels_alone else math.nan)
        candidates: dict[str, list[str]] = {}
        if source is not None:
            scores = read_scores(source, self.taxonomy, columns)
            for label, gain in self._by_scores(scores, names.tolist()):
                gains[label.image] = gain
                if self.cascade.chosen.first is not None:
                    known[label.image] = label
            if self.top is not None:
                candidates = candidates_of(scores, self.taxonomy, names.tolist(), self.top)
        listed = images.assign(**{SCORES: names.map(known), GAIN: names.map(gains)})
        if self.top is not None and (candidates or CANDIDATES not in images):
            listed[CANDIDATES] = [candidates.get(name, []) for name in names]
        return listed.sort_values(GAIN, ascending=False, kind="stable")

    def _by_scores(
        self, scores: Scores, names: Sequence[str]
    ) -> Iterator[tuple[Classification, float]]:
        """Yields the label of each image with scores, and what an answer gains; NaN for none."""
        tree = self.taxonomy
        point = self.cascade.chosen
        rows = scores.rows_of(names)
        places = list(rows.values())
        own = Scores(tuple(rows), scores.nodes[places], scores.weights[places])
        paths = scored_paths(tree, own, self.cascade.labels)
        nodes, asked = known_first(paths, point.first, wanted_nodes(tree, self.cascade.wanted))
        if point.first is not None and point.second is None:
            nodes, _ = paths.at(paths.depths(point.first))
        depths = tree.depth[nodes]
        labels = place_images(tree, own, paths, depths)
        for i, share in enumerate(end_shares(paths)):
            is_asked = asked[i] and self._can_change
            gain = point.gain(depths[i], share) if is_asked else math.nan
            yield replace(labels[i], source="scores"), gain

    def classify(self, images: Any, store: AnswerStore | None = None) -> list[Classification]:
        """Places images on the tree, in the order given; see `Classifier.classify`.

        Args:
            images: A table as `with_scores` returns it, or with a column `image` and the score of
                each label, where there are any, in a column `scores`.
            store: Where answers are kept and looked for first.
        """
        if SCORES not in images:
            pairs = zip(images["image"], images.get("scores", ()), strict=False)
            given = {name_of(image): own for image, own in pairs if isinstance(own, Mapping)}
            rows = [{**own, "image": name} for name, own in given.items()]
            images = self.with_scores(images.reset_index(drop=True), rows or None).sort_index()
        labels = images[SCORES].tolist()
        waiting = np.flatnonzero(images[GAIN].notna()).tolist()
        while asked := waiting[: self._affordable(len(waiting))]:
            answers = super().classify(images.iloc[asked], store)
            for i, found in zip(asked, answers, strict=True):
                labels[i] = self._joined(labels[i], found)
            spent = sum(found.usd for found in answers)
            if self.budget is not None:
                self.budget -= spent
            waiting = waiting[len(asked) :]
            if spent and isinstance(self.model, BatchModel):
                break  # the rest of a budget would be spent in the batch of another day
        for i in waiting:
            labels[i] = replace(labels[i], failure=UNPAID)
        return [label.up_to(self.deepest, self.taxonomy) for label in labels]

    def _affordable(self, images: int) -> int:
        """Returns about how many of so many images the budget is enough for."""
        if self.budget is None:
            return images
        if not self.cascade.call.usd:
            message = "What a call costs is not known, or it costs nothing."
            raise DataError(message, remedy="Leave out --budget.")
        price = self.cascade.call.usd * self.cascade.samples
        return max(int(self.budget / price + _ROUNDING), 0)

    def _joined(self, known: Classification, found: Classification) -> Classification:
        """Returns the label of an image by its scores and an answer, as `price_list` tests it."""
        if found.placed is None:
            return replace(known, failure=found.failure, again=found.again, cut=found.cut)
        tree = self.taxonomy
        paths = recorded_paths(tree, [found.placed], self.reliability)
        point = self.cascade.points[-1] if known.placed is None else self.cascade.chosen
        (depth,) = paths.depths(point.second or 1.0)
        said = int(paths.nodes[0, depth])
        before = tree.root if known.placed is None else known.placed.node
        (node,) = join_nodes(tree, [before], [said])
        supporting = []
        if tree.is_ancestor(node, said):
            supporting.append(replace(found, source="model"))
        if known.placed is not None and tree.is_ancestor(node, before):
            supporting.append(known)
        # Of two that are equally sure it is the model's.
        end = int(tree.depth[node])
        ended = [label.up_to(end, tree) for label in supporting]
        label = max(ended, key=_sureness)
        assert label.placed is not None
        placed = replace(
            label.placed,
            answer=found.answer,
            confidence=label.placement_confidence,
            votes=(),
            path=(),
            probabilities=(),
        )
        source = "both" if len(ended) > 1 else label.source
        return replace(label, image=found.image, placed=placed, cut=found.cut, source=source)


def _sureness(label: Classification) -> float:
    """Returns the confidence of a label; one that is not known counts as certain."""
    return 1.0 if label.confidence is None else label.confidence


def read_calibrated(file: Path) -> Cascade | ScoreCalibration:
    """Reads a calibration of scores, with a run or alone."""
    text = read_text(file, error=DataError, what="calibration")
    return Cascade.read(file) if '"taxtune cascade ' in text else ScoreCalibration.read(file)


def load_cascade(file: str | Path, settings: Mapping[str, Any] | None = None) -> CascadeClassifier:
    """Makes the classifier of a calibration of scores with a run; nothing is loaded yet.

    Args:
        file: The calibration, as `taxtune calibrate --then` and `Cascade.write` write it.
        settings: Other values of the recipe's keys, see `load_classifier`.

    Returns:
        The classifier. Its `classify` takes a table with a column `image`, and the score of each
        label in a column `scores`, as in {"duck": 0.7, "teal": 0.2}.

    Raises:
        DataError: If it cannot be read, nothing keeps its promise, or the run is another one now or
            gone.
    """
    file = Path(file)
    cascade = Cascade.read(file)
    if not Path(cascade.run).exists():
        raise DataError(
            "The run of the calibration is gone; it is looked for from the calibration's folder.",
            file=Path(cascade.run),
            remedy="Move both together, or calibrate again: taxtune calibrate SCORES --then RUN.",
        )
    changes = dict(settings or {})
    if cascade.temperature is not None:
        changes.setdefault("vlm.temperature", cascade.temperature)
    # An answer is taken as far as the less cautious of the two takes it, and ended later.
    needed = [point.second or 1.0 for point in (cascade.chosen, cascade.points[-1])]
    policy = policy_of(cascade.policy, file).with_threshold(min(needed))
    loaded = load_classifier(cascade.run, policy=policy, settings=changes)
    before = (cascade.template, cascade.tree.digest)
    if (loaded.template, loaded.taxonomy.digest) != before:
        raise DataError(
            "The run has another template or another tree than when it was calibrated.",
            file=file,
            remedy="Calibrate it again: taxtune calibrate SCORES --then RUN.",
        )
    parts = {each.name: getattr(loaded, each.name) for each in fields(loaded)}
    parts |= {"guarantee": RiskGuarantee.of(cascade), "boxes": None}
    return CascadeClassifier(**parts, cascade=cascade)
