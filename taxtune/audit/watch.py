"""A promise that is watched: images are drawn from new labels, and their truths tested.

The images of a file of labels are shuffled and dealt into pools, and one image of each is drawn:
with a quarter of the chance by what its confidence c leaves open, √(c (1 - c)) (Neyman 1934), else
each alike. Weighted by one over its chance, its loss is in the mean that of the pool, whatever was
drawn before, which is all that the evidence rests on (`metrics.evidence`). The drawn images and
their truths are kept beside the calibration, in a file of its own for each; the rest follows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.answers.targets import target_finder
from taxtune.atomic import write_json, write_text
from taxtune.classifier.classifier import COLUMNS, UNDETECTED
from taxtune.classifier.loading import load_classifier
from taxtune.classifier.scores import ScoreCalibration
from taxtune.errors import DataError
from taxtune.metrics.evidence import HEAVIEST, Evidence, weigh_evidence
from taxtune.metrics.hierarchical import precision_recall
from taxtune.policies import RiskGuarantee, worst_loss
from taxtune.progress import note
from taxtune.tables import read_rows, read_table, read_text
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.calibrate import CALIBRATION
from taxtune.tuning.saved import FILE
from taxtune.untrusted import spreadsheet_cell

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SOURCE", "Watch", "pool_chances", "read_added", "watch_file"]

_POOL = 5  # images of which one is drawn, where there are enough
_CONFIDENCE = 0.9  # of the verdicts, where the promise is kept in expectation
#: The column with a digest of the file of labels, beside other columns of the user.
SOURCE = " source"
_COLUMNS = ("image", "placement", "confidence", "truth", "weight", SOURCE, " used")


@dataclass(frozen=True)
class Watch:
    """A classifier's promise, and the images that were drawn since it was made.

    Attributes:
        file: Where they are kept.
        tree: The label tree.
        promise: The promise.
        drawn: A row per image in the order in which they were drawn: `_COLUMNS` (with a digest of
            the file of labels, and how many of its images were dealt by then) and the other columns
            of the labels. The truth is "" where nobody has given it.
    """

    file: Path
    tree: Taxonomy
    promise: RiskGuarantee
    drawn: pd.DataFrame

    @classmethod
    def of(cls, classifier: Path) -> Watch:
        """Returns the watch of a run, a saved classifier or a calibration of scores.

        Raises:
            DataError: If nothing is promised, or a file cannot be read.
        """
        import pandas as pd

        tree, promise = _promised(classifier)
        file = watch_file(classifier)
        drawn = pd.DataFrame(columns=_COLUMNS)
        if file.exists():
            text = read_text(file, error=DataError, what="watch")
            try:
                drawn = pd.DataFrame(json.loads(text)["drawn"])
            except (ValueError, KeyError, TypeError):
                remedy = "Restore it, or move it away to begin anew."
                raise DataError("This is no watch.", file=file, remedy=remedy) from None
        return cls(file, tree, promise, drawn)

    @cached_property
    def nodes(self) -> dict[str, int]:
        """The number of each node, by its path."""
        return {"/".join(self.tree.path(node)): node for node in range(len(self.tree))}

    @cached_property
    def is_label(self) -> NDArray[np.bool_]:
        """Which nodes the promise is about, shape (nodes,): all, or those that are labels."""
        if self.promise.promise == "hp":
            return np.ones(len(self.tree), dtype=bool)
        return self.promise.is_label(self.tree)

    @property
    def level(self) -> float:
        """How often a verdict may be wrong, in (0, 1)."""
        return 1 - (self.promise.confidence_level or _CONFIDENCE)

    @cached_property
    def labelled(self) -> pd.DataFrame:
        """The images with a truth, with the numbers of the nodes; not those that are not known."""
        find = target_finder(self.tree)
        frame = self.drawn.copy()
        frame["node"] = frame["placement"].map(self.nodes)
        frame["target"] = [find(truth).node for truth in frame["truth"]]
        return frame[frame["target"].notna()].astype({"node": int, "target": int})

    def weigh(self, labelled: pd.DataFrame, depth: int | None = None) -> Evidence:
        """Returns the evidence of images with a truth, for labels up to a depth."""
        tree = self.tree
        nodes = labelled["node"].to_numpy()
        if depth is not None:
            ends = np.minimum(tree.depth[nodes], depth)
            nodes = tree.lineage[nodes, ends]
        targets = labelled["target"].to_numpy()
        hp, _ = precision_recall(tree, nodes, targets)
        losses = 1 - hp
        worst = worst_loss(tree)
        if self.promise.promise == "labels":
            losses = self.is_label[nodes] & ~tree.is_ancestor(nodes, targets)
            worst = 1.0
        return weigh_evidence(losses, labelled["weight"], self.promise.risk, worst)

    @cached_property
    def evidence(self) -> Evidence | None:
        """What all images with a truth say; None as long as there are none."""
        return self.weigh(self.labelled) if len(self.labelled) else None

    def broken(self) -> tuple[str, int] | None:
        """Returns since when the promise is broken, and the deepest depth at which it is not.

        A label that ends higher is nowhere worse, so that testing each depth needs no correction.
        """
        evidence = self.evidence
        if evidence is None or evidence.verdict(self.level) != "broken":
            return None
        depth = self.tree.height - 1
        while self.weigh(self.labelled, depth).verdict(self.level) == "broken":
            depth -= 1
        image = self.labelled["image"].iloc[evidence.since]
        number = f"label {evidence.since + 1:,} of {len(self.labelled):,}"
        return f"the promise is broken since {number} ({image})", depth

    def groups(self, by: str) -> dict[str, pd.DataFrame]:
        """Returns the images with a truth by a column of the labels, or by a rank of their node.

        Raises:
            DataError: If it is neither.
        """
        frame = self.labelled.copy()
        if by not in frame:
            ranks = [(rank or "").casefold() for rank in self.tree.ranks]
            if by.casefold() not in ranks:
                raise _no_column(by, [*self.drawn, *filter(None, self.tree.ranks)])
            names = []
            for node in frame["node"]:
                path = self.tree.ancestors(node)
                at = [self.tree.labels[i] for i in path if ranks[i] == by.casefold()]
                names.append((at or [""])[-1])
            frame[by] = names
        frame[by] = frame[by].fillna("")
        return {str(name): rows for name, rows in frame.groupby(by)}

    def read(self, file: Path) -> pd.DataFrame:
        """Returns the labels of a file that `classify` wrote, each with a digest of the file.

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
            is_asked = row.get("answer") != UNDETECTED
            if placement and is_asked and self.is_label[self.nodes[placement]]:
                rows.append(row)
        frame = pd.DataFrame(rows)
        if not {"image", "placement", "confidence"} <= {*frame}:
            message = "The file has no labels, as `taxtune classify` writes them."
            raise DataError(message, file=file)
        others = [name for name in frame if name not in (*COLUMNS, *_COLUMNS, "nodes")]
        frame = frame[["image", "placement", "confidence", *others]]
        confidence = pd.to_numeric(frame["confidence"], errors="coerce")
        frame["confidence"] = confidence.clip(0, 1)
        frame["truth"] = ""
        frame[SOURCE] = _digest(file)
        return frame

    def take(self, file: Path, source: str) -> Watch:
        """Returns the watch with the truths of a file of images that were drawn from a source.

        Raises:
            DataError: If an image was not drawn from it, or a truth is not on the tree.
        """
        find = target_finder(self.tree)
        own = self.drawn[self.drawn[SOURCE] == source]
        rows = dict(zip(own["image"].map(spreadsheet_cell), own.index, strict=True))
        truths = self.drawn["truth"].copy()
        needs = "It needs the columns image and truth."
        for line, row in read_rows(file, ("image", "truth"), what="drawn images", remedy=needs):
            image, truth = row["image"], row["truth"]
            if image not in rows:
                message = "The image was not drawn from the labels as they are now."
                remedy = "Move the file away, to draw again."
                raise DataError(message, file=file, row=line, value=image, remedy=remedy)
            if truth and find(truth).problem:
                message = f"The truth cannot be used: {find(truth).problem}"
                raise DataError(message, file=file, row=line, value=truth)
            truths[rows[image]] = truth
        return replace(self, drawn=self.drawn.assign(truth=truths))

    def draw(self, labels: pd.DataFrame, n: int, group: str | None) -> Watch:
        """Returns the watch with up to n further images drawn, at most one of each group.

        Args:
            labels: As `read` returns them.
            n: How many.
            group: The column of groups; None for one image each.
        """
        import pandas as pd

        source = labels[SOURCE].iloc[0]
        seed = int(source, 16)
        own = self.drawn.loc[self.drawn[SOURCE] == source, " used"]
        used = int(own.iloc[-1]) if len(own) else 0
        order = np.random.default_rng(seed).permutation(len(labels))
        dealt = labels.iloc[order].drop_duplicates("image")
        if group is not None:
            if group not in labels:
                raise _no_column(group, labels)
            dealt = dealt[dealt[group].isna() | ~dealt.duplicated(group)]
        dealt = dealt[used:]
        size = min(_POOL, max(1, len(dealt) // n))
        pools = min(n, len(dealt) // size)
        dealt = dealt[: pools * size].copy()
        pool = np.arange(len(dealt)) // size
        confidences = dealt["confidence"].fillna(0.5).to_numpy()
        chance = pool_chances(confidences.reshape(-1, size)).ravel()
        dealt["weight"] = 1 / (size * chance)
        dealt[" used"] = used + size * (pool + 1)
        rng = np.random.default_rng([seed, used])
        drawn = dealt.groupby(pool).sample(1, weights=chance.tolist(), random_state=rng)
        drawn = drawn[~drawn["image"].isin(self.drawn["image"])]
        return replace(self, drawn=pd.concat([self.drawn, drawn], ignore_index=True))

    def save(self) -> None:
        """Writes the file, with the evidence after each label for those who read it."""
        rows = json.loads(self.drawn.to_json(orient="records"))
        content = {"promise": str(self.promise), "drawn": rows}
        if self.evidence is not None:
            content["broken"] = self.evidence.broken.tolist()
            content["holds"] = self.evidence.holds.tolist()
        write_json(self.file, content)

    def write(self, file: Path, source: str) -> int:
        """Writes the images drawn from a source, to be labelled; returns how many are not."""
        own = self.drawn[self.drawn[SOURCE] == source].dropna(axis=1, how="all")
        first = list(_COLUMNS[:5])
        others = own.columns.difference([*first, SOURCE, " used"], sort=False)
        cells = own[[*first, *others]].map(spreadsheet_cell)
        write_text(file, cells.to_csv(index=False, lineterminator="\n"))
        return int((own["truth"] == "").sum())


def watch_file(classifier: Path) -> Path:
    """Returns the file of the watch of a classifier that promises something."""
    source = classifier
    if classifier.is_dir():
        is_saved = (classifier / FILE).exists()
        source = classifier / (FILE if is_saved else CALIBRATION)
    return source.with_name(f"{source.stem}-watch-{_digest(source)[:8]}.json")


def pool_chances(confidences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the chance of each image to be drawn from its pool, shape (pools, images)."""
    left_open = np.sqrt(confidences * (1 - confidences)) + 1e-9
    total = left_open.sum(axis=1, keepdims=True)
    alike = 1 / HEAVIEST
    chances: NDArray[np.float64] = (1 - alike) * left_open / total
    chances += alike / confidences.shape[1]
    return chances


def read_added(file: Path) -> pd.DataFrame:
    """Returns labelled images of a file of drawn ones, in the columns image, label and others.

    Some are left out at random, by their weights, so that the others are as if all images had been
    drawn alike, as a calibration needs them.

    Raises:
        DataError: If it cannot be read, or no file of drawn images.
    """
    import pandas as pd

    needs = "Give the file NAME-audit.csv that `taxtune audit NAME.csv --of` wrote."
    read_rows(file, ("image", "truth", "weight"), what="drawn images", remedy=needs)
    frame = pd.DataFrame([row for _, row in read_table(file, what="drawn images")])
    frame = frame[frame["truth"].notna()].rename(columns={"truth": "label"})
    weights = pd.to_numeric(frame["weight"])
    chances = weights / weights.max()
    kept = np.random.default_rng(0).random(len(frame)) <= chances
    note(f"{kept.sum():,} of {len(frame):,} labels of {file} are added; see `taxtune audit`")
    added: pd.DataFrame = frame.loc[kept]
    return added


def _no_column(name: str, known: Iterable[Hashable]) -> DataError:
    others = sorted({*map(str, known)} - {*_COLUMNS})
    remedy = f"There are {', '.join(others) or 'none'}."
    return DataError("The labels have no such column.", value=name, remedy=remedy)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def _promised(classifier: Path) -> tuple[Taxonomy, RiskGuarantee]:
    """Returns the label tree and the promise of a calibration, a run or a saved classifier."""
    if classifier.is_dir():
        loaded = load_classifier(classifier, calibrated=True)
        assert loaded.guarantee is not None  # or it would not be calibrated
        return loaded.taxonomy, loaded.guarantee
    calibration = ScoreCalibration.read(classifier)
    return calibration.tree, RiskGuarantee.of(calibration)
