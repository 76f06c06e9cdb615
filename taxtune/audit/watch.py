"""A promise that is watched: images are drawn from new labels, and their truths tested.

Images come in random order. Each is drawn with a chance of 1/2 + √(c (1 - c)) by its confidence c,
the doubtful ones more often, and counts in inverse proportion. So the weighted mean of the next
loss is above the promise just where that of all images is, whatever was drawn before, which is all
that the evidence rests on (`metrics.evidence`). The order is that of hashed names: an image that was
passed over remains so. The drawn images and their truths are kept beside the calibration, in a file
of its own for each; the rest follows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.answers.targets import target_finder
from taxtune.atomic import write_json, write_text
from taxtune.classifier.cascading import read_calibrated
from taxtune.classifier.classifier import COLUMNS, UNDETECTED
from taxtune.classifier.joined import GROUP, PHOTO
from taxtune.classifier.loading import load_classifier
from taxtune.errors import DataError
from taxtune.metrics.evidence import Evidence, weigh_evidence
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.ranks import nodes_at
from taxtune.policies import RiskGuarantee, worst_loss
from taxtune.progress import note
from taxtune.settings import LabelWords
from taxtune.tables import read_rows, read_table, read_text
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.calibrate import CALIBRATION
from taxtune.tuning.saved import FILE
from taxtune.untrusted import spreadsheet_cell

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Watch", "draw_weights", "read_added", "tell_broken"]

_CONFIDENCE = 0.9  # of the verdicts, where the promise is kept in expectation
_COLUMNS = ["image", "placement", "confidence", "truth", "weight"]


@dataclass(frozen=True)
class Watch:
    """A classifier's promise, and the images that were drawn since it was made.

    Attributes:
        file: Where they are kept.
        tree: The label tree.
        promise: The promise.
        words: What truths may say that no tree has; None for the words that are usual.
        drawn: The images in the order in which they were drawn: their labels, weights and truths,
            "" where nobody has given one, and the other columns of the file of labels.
    """

    file: Path
    tree: Taxonomy
    promise: RiskGuarantee
    words: LabelWords | None
    drawn: pd.DataFrame

    @classmethod
    def of(cls, classifier: Path) -> Watch:
        """Returns the watch of a run, a saved classifier or a calibration of scores.

        Raises:
            DataError: If nothing is promised, or a file cannot be read.
        """
        import pandas as pd

        if classifier.is_dir():
            loaded = load_classifier(classifier, calibrated=True)
            assert loaded.guarantee is not None  # or it would not be calibrated
            tree, promise, words = loaded.taxonomy, loaded.guarantee, loaded.words
        else:
            calibration = read_calibrated(classifier)
            tree, promise, words = calibration.tree, RiskGuarantee.of(calibration), None
        file = _watch_file(classifier)
        drawn = pd.DataFrame(columns=_COLUMNS)
        if file.exists():
            text = read_text(file, error=DataError, what="watch")
            try:
                drawn = pd.DataFrame.from_records(json.loads(text)["drawn"])
            except (ValueError, KeyError, TypeError):
                remedy = "Restore it, or move it away to begin anew."
                raise DataError("This is no watch.", file=file, remedy=remedy) from None
        return cls(file, tree, promise, words, drawn)

    @cached_property
    def nodes(self) -> dict[str, int]:
        """The number of each node, by its path."""
        return {"/".join(self.tree.path(node)): node for node in range(len(self.tree))}

    @property
    def level(self) -> float:
        """How often a verdict may be wrong, in (0, 1)."""
        return 1 - (self.promise.confidence_level or _CONFIDENCE)

    @cached_property
    def labelled(self) -> pd.DataFrame:
        """The images whose truth is known, with the nodes of label and truth."""
        find = target_finder(self.tree, words=self.words)
        found = [find(truth).node for truth in self.drawn["truth"]]
        targets = np.array(found, dtype=np.float64)
        frame = self.drawn.assign(node=self.drawn["placement"].map(self.nodes), target=targets)
        return frame[frame["target"].notna()].astype({"node": int, "target": int})

    def weigh(self, labelled: pd.DataFrame, depth: int | None = None) -> Evidence:
        """Returns the evidence of images with a truth, for labels that end at a depth."""
        nodes = labelled["node"].to_numpy()
        targets = labelled["target"].to_numpy()
        weights = labelled["weight"].to_numpy()
        if depth is not None:
            ends = np.minimum(self.tree.depth[nodes], depth)
            nodes = self.tree.lineage[nodes, ends]
        if self.promise.promise == "labels":
            weights = weights * self.promise.is_label(self.tree)[nodes]
            is_wrong = ~self.tree.is_ancestor(nodes, targets)
            return weigh_evidence(is_wrong, weights, self.promise.risk)
        hp, _ = precision_recall(self.tree, nodes, targets)
        return weigh_evidence(1 - hp, weights, self.promise.risk, worst_loss(self.tree))

    def verdicts(self, by: str | None = None) -> list[dict[str, Any]]:
        """Returns rows of a table: of all images with a truth, and of each group of them.

        Args:
            by: A column of the labels, or a rank or a depth of their nodes.
        """
        import pandas as pd

        groups: list[tuple[Any, pd.DataFrame]] = [("all", self.labelled)]
        if by in self.labelled:
            groups += list(self.labelled.groupby(by, dropna=False))
        elif by is not None and len(self.labelled):
            is_there = nodes_at(self.tree, by)
            names = []
            for node in self.labelled["node"]:
                above = [self.tree.labels[i] for i in self.tree.ancestors(node) if is_there[i]]
                names.append(above[-1] if above else f"no {by}")
            groups += list(self.labelled.groupby(names))
        table = []
        level = self.level
        for name, rows in groups:
            if len(rows):
                evidence = self.weigh(rows)
                known = f"no {by}" if pd.isna(name) else name
                row: dict[str, Any] = {"images": known, "labels": len(rows)}
                row["risk"] = evidence.loss
                row["evidence: broken"] = float(evidence.broken[-1])
                row["evidence: holds"] = float(evidence.holds[-1])
                row["promise"] = evidence.verdict(level)
                table.append(row)
            # All groups together say "broken" wrongly as seldom as one test does.
            level = self.level / max(len(groups) - 1, 1)
        return table

    def broken(self) -> tuple[str, int] | None:
        """Returns since when the promise is broken, and the deepest depth at which it is not.

        A label that ends higher is nowhere worse, so that testing each depth needs no correction.
        """
        if not any(row["promise"] == "broken" for row in self.verdicts()):
            return None
        depth = self.tree.height - 1
        while self.weigh(self.labelled, depth).verdict(self.level) == "broken":
            depth -= 1
        first = self.weigh(self.labelled).since
        image = self.labelled["image"].iloc[first]
        number = f"label {first + 1:,} of {len(self.labelled):,}"
        return f"the promise is broken since {number} ({image})", depth

    def read(self, file: Path) -> pd.DataFrame:
        """Returns the labels of a file that `classify` wrote.

        Photos without a box are not among them: the promise is about what the model was asked.

        Raises:
            DataError: If it cannot be read, or has labels of another tree.
        """
        import pandas as pd

        rows = []
        for line, row in read_table(file, what="labels"):
            placement = row.get("placement")
            if placement and placement not in self.nodes:
                message = "The label is not on the tree of the promise."
                raise DataError(message, file=file, row=line, value=placement)
            if placement and row.get("answer") != UNDETECTED:
                rows.append(row)
        frame = pd.DataFrame(rows)
        if not {"image", "placement", "confidence"} <= {*frame}:
            message = "The file has no labels, as `taxtune classify` writes them."
            raise DataError(message, file=file)
        others = [name for name in frame if name not in (*COLUMNS, *_COLUMNS, "nodes")]
        confidence = pd.to_numeric(frame["confidence"], errors="coerce")
        frame["confidence"] = confidence.fillna(0.5).clip(0, 1)
        frame["truth"] = ""
        frame["weight"] = draw_weights(frame["confidence"])
        return frame[[*_COLUMNS, *others]].drop_duplicates("image")

    def of_labels(self, labels: pd.DataFrame) -> pd.DataFrame:
        """Returns the drawn images that are among labels, with the same label and confidence."""
        return self.drawn[np.isin(_keys(self.drawn), _keys(labels))]

    def take(self, file: Path, labels: pd.DataFrame) -> Watch:
        """Returns the watch with the truths of a file of images that were drawn from labels.

        Raises:
            DataError: If an image was not drawn from them, or a truth is not on the tree.
        """
        own = self.of_labels(labels)
        find = target_finder(self.tree, words=self.words)
        rows = dict(zip(own["image"].map(spreadsheet_cell), own.index, strict=True))
        truths = self.drawn["truth"].copy()
        remedy = "It needs the columns image and truth."
        for line, row in read_rows(file, ("image", "truth"), what="drawn images", remedy=remedy):
            image, truth = row["image"], row["truth"]
            if image not in rows:
                message = "The image was not drawn from the labels as they are now."
                remedy = "Move the file away, to draw again."
                raise DataError(message, file=file, row=line, value=image, remedy=remedy)
            if truth and (problem := find(truth).problem):
                message = f"The truth cannot be used: {problem}"
                remedy = "Write a label of the tree, blank where nothing is there, or unknown."
                raise DataError(message, file=file, row=line, value=truth, remedy=remedy)
            truths[rows[image]] = truth
        return replace(self, drawn=self.drawn.assign(truth=truths))

    def draw(self, labels: pd.DataFrame, n: int, group: str | None = None) -> Watch:
        """Returns the watch with up to n further images of labels, at most one of each group.

        Args:
            labels: As `read` returns them.
            n: How many.
            group: The column of groups; by default that of the promise, or the photo of boxes.

        Raises:
            DataError: If there is no such column.
        """
        import pandas as pd

        if group is None:
            usual = (PHOTO,) if self.promise.unit == "image" else (self.promise.unit, GROUP)
            group = next((name for name in usual if name in labels), None)
        elif group not in labels:
            remedy = f"There are {', '.join(labels.columns.difference(_COLUMNS)) or 'none'}."
            raise DataError("The labels have no such column.", value=group, remedy=remedy)
        names = [f"{self.file.name} {key}".encode() for key in _keys(labels)]
        digests = b"".join(hashlib.sha256(name).digest() for name in names)
        order, number, *_ = np.frombuffer(digests, dtype="<u8").reshape(-1, 4).T / 2**64
        is_drawn = number < 0.5 / labels["weight"]
        dealt = labels.assign(is_drawn=is_drawn).iloc[order.argsort()]
        if group is not None:
            dealt = dealt[dealt[group].isna() | ~dealt.duplicated(group)]
        dealt = dealt[dealt.pop("is_drawn")]
        new = dealt[~np.isin(_keys(dealt), _keys(self.drawn))]
        return replace(self, drawn=pd.concat([self.drawn, new[:n]], ignore_index=True))

    def save(self, asked: Path, labels: pd.DataFrame) -> int:
        """Writes the watch, and the images drawn from labels; returns how many have no truth yet."""
        rows = self.drawn.astype(object).where(self.drawn.notna(), None)
        content = {"promise": str(self.promise), "drawn": rows.to_dict("records")}
        if len(self.labelled):
            evidence = self.weigh(self.labelled)
            content["broken"] = evidence.broken.tolist()
            content["holds"] = evidence.holds.tolist()
        write_json(self.file, content)
        own = self.of_labels(labels)[labels.columns]
        write_text(asked, own.map(spreadsheet_cell).to_csv(index=False, lineterminator="\n"))
        return int((own["truth"] == "").sum())


def tell_broken(classifier: Path, on_broken: str) -> tuple[str, int | None]:
    """Says since when a promise is broken, if it is; returns it, and the depth where labels end."""
    broken = Watch.of(classifier).broken() if _watch_file(classifier).exists() else None
    if broken is None:
        return "", None
    text, depth = broken
    if on_broken == "back-off":
        note(f"{text}; labels end at depth {depth}, where it is not")
        return text, depth
    note(f"{text}; --on-broken back-off ends labels at depth {depth}, where it is not")
    return text, None


def draw_weights(confidences: ArrayLike) -> NDArray[np.float64]:
    """Returns the weights of images: half of one over their chance to be drawn, in [0.5, 1]."""
    confidences = np.asarray(confidences, dtype=np.float64)
    chances = 0.5 + np.sqrt(confidences * (1 - confidences))
    return np.asarray(0.5 / chances)


def read_added(file: Path) -> pd.DataFrame:
    """Returns labelled images of a file of drawn ones, in the columns image, label and others.

    Each is kept with a chance in proportion to its weight, so that they are as if all images had
    been drawn alike, as a calibration needs them.

    Raises:
        DataError: If it cannot be read, or no file of drawn images.
    """
    import pandas as pd

    frame = pd.DataFrame([row for _, row in read_table(file, what="drawn images")])
    weights = pd.Series(pd.to_numeric(frame.get("weight", "none"), errors="coerce"))
    if not {"image", "truth"} <= {*frame} or not weights.between(0, 1).all():
        remedy = "Give the file NAME-audit.csv that `taxtune audit NAME.csv --of` wrote."
        raise DataError("These are no drawn images with weights.", file=file, remedy=remedy)
    has_truth = frame["truth"].notna()
    kept = has_truth & (np.random.default_rng(0).random(len(frame)) <= weights / weights.max())
    note(f"{kept.sum():,} of {has_truth.sum():,} labels of {file} are added; see `taxtune audit`")
    added: pd.DataFrame = frame[kept].rename(columns={"truth": "label"})
    if {"photo", "box"} <= {*added}:
        added["image"] = added["photo"]  # a box is no file
    return added


def _watch_file(classifier: Path) -> Path:
    source = classifier
    if classifier.is_dir():
        is_saved = (classifier / FILE).exists()
        source = classifier / (FILE if is_saved else CALIBRATION)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return source.with_name(f"{source.stem}-watch-{digest[:8]}.json")


def _keys(labels: pd.DataFrame) -> list[str]:
    cells = labels[["image", "placement", "confidence"]].values.tolist()
    return ["|".join(map(str, row)) for row in cells]
