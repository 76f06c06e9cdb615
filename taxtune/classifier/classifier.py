"""The classifier: a template, a model, a mapper and a policy, which put labels on images."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.answers.classifier_scores import few
from taxtune.data import Example
from taxtune.data.boxes import Box, Boxes
from taxtune.data.context import EXIF, Variable, blank, exif_values, values_of
from taxtune.errors import DataError, ImageError, TemplateError
from taxtune.images import content_hash, is_image_data, load_image, store_image
from taxtune.metrics.names import metric_name
from taxtune.models import AnswerStore, Failure, Model, Request
from taxtune.models.base import ModelUsage
from taxtune.policies import PlacedAnswer, Policy, Reliability, RiskGuarantee, Single
from taxtune.policies.allowed import Checklist
from taxtune.recipe import Recipe
from taxtune.settings import LabelWords
from taxtune.tables import column_key
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.asker import Asker
from taxtune.tuning.run_folder import as_texts
from taxtune.tuning.saved import FILE, Saved, pinned, tree_columns, write_saved
from taxtune.tuning.template import Template

if TYPE_CHECKING:
    import pandas as pd

    from taxtune.mapping import Mapper

__all__ = [
    "BOX",
    "COLUMNS",
    "UNDETECTED",
    "Classification",
    "Classifier",
    "Step",
    "name_of",
]

#: The column of boxes in tables of images and of labels.
BOX = "box"
#: What a photo without a box has as its answer and its stage.
UNDETECTED = "no detection"
#: The columns of a row of labels.
COLUMNS = (
    "image",
    "placement",
    "rank",
    "confidence",
    "answer",
    "placement_confidence",
    "off_tree",
    "not_subject",
    "masked",
    "failure",
)


@dataclass(frozen=True, slots=True)
class Step:
    """A node on the path from the root to where an image belongs.

    Attributes:
        label: The node's label.
        rank: Its rank, where the tree has ranks.
        confidence: How sure it is that the image belongs there, between 0 and 1 and 1 at the root.
            Of several answers it is the share at the node or below it; of a model's own
            probabilities the sum over the names there; of a single answer the rate at which the
            run's own answers were right (see `Reliability`), None where that is not known.
    """

    label: str
    rank: str | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Classification:
    """Where an image belongs.

    Attributes:
        image: The file, or of an image that is in no file the SHA-256 of its content.
        placed: The answer and the node that it was put on. It is None where there is no answer.
        rank: The node's rank, where the tree has ranks.
        path: The nodes from the root down to the node, each with its confidence, which never rises
            on the way. It is empty where there is no answer, or it is off the tree or not about its
            subject.
        failure: Why there is no answer.
        again: Whether there may be an answer if it is asked for again: the reason may pass.
        cut: How many answers about it were cut off at the longest answer; it is placed as far as
            they go.
        usd: What its answers cost now, in US dollars, as far as that is known.
        source: What supports the node of a cascade: "scores", "model" or "both", "" without one.
    """

    image: str
    placed: PlacedAnswer | None = None
    rank: str | None = None
    path: tuple[Step, ...] = ()
    failure: str | None = None
    again: bool = False
    cut: int = 0
    usd: float = field(default=0.0, compare=False)
    source: str | None = None

    @classmethod
    def of(
        cls,
        image: str,
        placed: PlacedAnswer,
        tree: Taxonomy,
        reliability: Reliability | None = None,
        cut: int = 0,
    ) -> Classification:
        """Returns the classification of an image by its placed answer.

        Args:
            image: What the image is called.
            placed: The placed answer.
            tree: The label tree.
            reliability: How often answers like these were right, for a single answer.
            cut: How many answers were cut off.
        """
        path = []
        if not (placed.off_tree or placed.not_subject):
            length = int(tree.depth[placed.node]) + 1
            nodes = tree.lineage[placed.node, :length].tolist()
            confidences = _confidences(placed, nodes, tree, reliability)
            for node, confidence in zip(nodes, confidences, strict=True):
                path.append(Step(tree.labels[node], tree.ranks[node], confidence))
        rank = tree.ranks[placed.node]
        return cls(image, placed, rank, tuple(path), cut=cut)

    def up_to(self, depth: int | None, tree: Taxonomy) -> Classification:
        """Returns the classification, ended at a depth where it is deeper."""
        if depth is None or len(self.path) <= depth + 1 or self.placed is None:
            return self
        node = int(tree.lineage[self.placed.node, depth])
        placement = "/".join(tree.path(node))
        placed = replace(self.placed, node=node, placement=placement)
        path = self.path[: depth + 1]
        return replace(self, placed=placed, rank=tree.ranks[node], path=path)

    @property
    def evidence(self) -> list[tuple[int, float]]:
        """The nodes that were named, each with its weight, which sum to 1; none without an answer."""
        placed = self.placed
        if placed is None or placed.stage == UNDETECTED:
            return []
        if placed.votes:
            return [(node, 1 / len(placed.votes)) for node in placed.votes]
        if placed.path:
            weights = -np.diff([*placed.probabilities, 0.0])
            return list(zip(placed.path, weights.tolist(), strict=True))
        return [(placed.node, 1.0)]

    @property
    def answer(self) -> str | None:
        """What the model said; of several answers each with its count."""
        return self.placed.answer if self.placed else None

    @property
    def placement(self) -> str | None:
        """Path of the node, labels joined by "/"."""
        return self.placed.placement if self.placed else None

    @property
    def placement_confidence(self) -> float | None:
        """The probability that the answer was placed acceptably, in (0, 1).

        It is None for several answers, and where the mapper gives none.
        """
        placed = self.placed
        if placed is None or placed.votes or placed.path or placed.doubtful is None:
            return None
        return placed.confidence

    @property
    def doubtful(self) -> bool:
        """Whether that is below `DOUBTFUL`, or the node hangs on such placements."""
        return self.placed is not None and bool(self.placed.doubtful)

    @property
    def off_tree(self) -> bool:
        """Whether the answer asserts something that the tree lacks; the node is then the root."""
        return self.placed is not None and self.placed.off_tree

    @property
    def not_subject(self) -> bool:
        """Whether it denies what everything on the tree is: "no bird"; the node is then the root."""
        return self.placed is not None and self.placed.not_subject

    @property
    def masked(self) -> str | None:
        """Path of the node that it would be on without the checklist; None for the same node."""
        return self.placed.masked if self.placed else None

    @property
    def confidence(self) -> float | None:
        """How sure it is that the image belongs to the node, see `Step`; None if that is not known."""
        return self.path[-1].confidence if self.path else None

    def as_row(self) -> dict[str, Any]:
        """Returns `COLUMNS`, and as `nodes` the label, rank and confidence of each node on the path.

        Of a cascade there is the `source` as well.
        """
        row = {name: getattr(self, name) for name in COLUMNS}
        if self.source is not None:
            row["source"] = self.source
        row["nodes"] = [asdict(step) for step in self.path]
        return row


@dataclass
class Classifier:
    """A template, a model, a mapper and a policy, as a run left them.

    Attributes:
        template: What the model is asked with, as a Jinja template.
        taxonomy: The label tree.
        model: Answers the questions.
        mapper: Places the answers.
        policy: How often an image is asked about, and how the answers make one place.
        variables: What the template says of every image.
        context: What has to be known of each image: variables with the columns that they come from.
        allowed: What may occur where and when.
        reliability: How often answers like these were right, for the confidence of a single answer.
        guarantee: What `calibrate` guarantees of the policy.
        boxes: How boxes of photos are cut out; None for a classifier of whole images.
        group: What images belong together, as in the run's recipe (`data.group`).
        recipe: The settings that model and mapper are made from; None if one of them was given in
            Python.
        name: What it is called: the run's name.
        broken: Since when the guarantee is broken, in words; "" as far as it is not.
        deepest: The depth at which labels end, because deeper ones break it; None for any.
    """

    template: str
    taxonomy: Taxonomy
    model: Model
    mapper: Mapper
    policy: Policy = field(default_factory=Single)
    variables: Mapping[str, Any] = field(default_factory=dict)
    context: tuple[Variable, ...] = ()
    allowed: Checklist | None = None
    reliability: Reliability | None = None
    guarantee: RiskGuarantee | None = None
    boxes: Boxes | None = None
    group: str | None = None
    recipe: Recipe | None = None
    words: LabelWords | None = None
    name: str = "classifier"
    broken: str = ""
    deepest: int | None = None

    def __repr__(self) -> str:
        """Returns three lines: name and prompt, model and policy, and what is promised or was the goal."""
        model = self.model.identity.get("model", type(self.model).__name__)
        settings = self.policy.identity().items()
        policy = ", ".join(f"{key} {value}" for key, value in settings).removeprefix("kind ")
        promise = "no promise for new images: taxtune calibrate makes one"
        if self.recipe is not None:
            promise = f"tuned for {metric_name(self.recipe.objective.kind)}; {promise}"
        if self.guarantee is not None:
            promise = f"on images like those of the calibration {self.guarantee}"
        prompt = shorten(self.prompt, 70, placeholder="…")
        return f"{self.name}: {prompt}\nmodel {model}, policy: {policy}\n{promise}"

    @cached_property
    def _asker(self) -> Asker:
        return Asker(
            model=self.model,
            mapper=self.mapper,
            policy=self.policy,
            variables=self.variables,
            allowed=self.allowed,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that images need, beside their files."""
        return tuple(variable.column for variable in self.context if variable.column not in EXIF)

    @property
    def top(self) -> int | None:
        """The most candidates in the prompt; None if it asks for none."""
        return next((variable.top for variable in self.context if variable.top), None)

    def has_boxes(self, table: pd.DataFrame) -> bool:
        """Returns whether boxes of the images of a table are asked about, and not whole images."""
        return self.boxes is not None and BOX in table

    @property
    def prompt(self) -> str:
        """The prompt; the template where images have prompts of their own."""
        if self._parsed.variables.isdisjoint(blank(self.context)):
            return self._parsed.render(self.variables)
        return self.template

    @cached_property
    def _parsed(self) -> Template:
        """The template, parsed and found harmless."""
        return Template.parse(self.template, blank(self.context))

    def classify(self, images: Any, store: AnswerStore | None = None) -> list[Classification]:
        """Places images on the tree, in the order given.

        Args:
            images: Files, PIL images, or the bytes of image files, also mixed; a data frame with a
                column `image`, and `columns` where there are any; or one image alone. Of a
                classifier with `boxes`, the column `box` (or that of its run) has the box of each:
                without one nothing is asked, and the image is on the root.
            store: Where answers are kept and looked for first; None keeps none.

        Raises:
            DataError: If columns are missing, or a cell cannot be used.
            ModelError: If the model cannot answer at all. An image that cannot be read, or about
                which the model says nothing, has a `failure` instead.
        """
        images, cells = self._listed(images)
        names = [name_of(image) for image in images]
        classified: dict[int, Classification] = {}
        examples: dict[int, Example] = {}
        requests: list[list[Request]] = []
        opened = lru_cache(1)(load_image)  # the boxes of a photo follow one another
        with tempfile.TemporaryDirectory(prefix="taxtune-images-") as folder:
            for i, image in enumerate(images):
                file = None
                try:
                    file = store_image(image, Path(folder)) if is_image_data(image) else Path(image)
                    own_cells = cells[i] if cells else {}
                    context = self._context_of(i, file, own_cells)
                    if self.boxes is not None and BOX in own_cells:
                        box = Box.parse(own_cells[BOX])
                        if box is None:
                            classified[i] = self._undetected(names[i])
                            continue
                        file, _ = self.boxes.cut(file, opened(file), box, Path(folder))
                    example = Example(names[i], file, "", 0, content_hash(file), context)
                    own_requests, _ = self._asker.requests(self._parsed, [example])
                    requests += own_requests
                    examples[i] = example
                except (ImageError, TemplateError) as error:
                    reason = _without_file(str(error), image, file)
                    classified[i] = Classification(names[i], failure=reason)
            replies = self._asker.ask(requests, store, what="answers")
            placed = self._asker.place(replies, list(examples.values()))
        for i, own_replies, answer in zip(examples, replies, placed, strict=True):
            cut = sum(bool(reply.cut) for reply in own_replies)
            if isinstance(answer, Failure):
                reason = _without_file(answer.reason, images[i], examples[i].image)
                result = Classification(names[i], failure=reason, again=answer.retryable, cut=cut)
            else:
                result = Classification.of(names[i], answer, self.taxonomy, self.reliability, cut)
            usd = ModelUsage.of(own_replies, {}).cost_usd or 0.0
            classified[i] = replace(result, usd=usd).up_to(self.deepest, self.taxonomy)
        return [classified[i] for i in range(len(images))]

    def _undetected(self, name: str) -> Classification:
        """Returns the classification of a photo in which nothing was detected: it is on the root."""
        tree = self.taxonomy
        placed = PlacedAnswer(
            answer=UNDETECTED,
            node=tree.root,
            placement=tree.labels[tree.root],
            off_tree=False,
            abstained=True,
            stage=UNDETECTED,
            confidence=None,
        )
        return Classification.of(name, placed, tree, self.reliability)

    def _listed(self, images: Any) -> tuple[Sequence[Any], list[dict[str, Any]]]:
        """Lists images, in whatever form they are given, and the cells of each."""
        if isinstance(images, str | PathLike) or is_image_data(images):
            images = [images]
        columns = {column_key(str(name)): name for name in getattr(images, "columns", ())}
        wanted = {name: columns.get(column_key(name)) for name in self.columns}
        missing = [name for name, column in wanted.items() if column is None]
        if missing:
            names = ("image", *self.columns)
            named = ", ".join(map(repr, names))
            raise DataError(
                f"The classifier needs {few(missing)} of each image.",
                remedy=f"Give a table or a data frame with the columns {named}.",
            )
        if not hasattr(images, "columns"):
            return list(images), []
        if "image" not in images.columns:
            raise DataError(
                "The data frame has no column `image`.",
                remedy="Give the column of images, such as frame['photo'].",
            )
        if self.boxes is not None:
            box = columns.get(BOX) or columns.get(column_key(self.boxes.column))
            wanted |= {} if box is None else {BOX: box}
        cells = []
        for row in zip(*(images[column] for column in wanted.values()), strict=True):
            cells.append(dict(zip(wanted, row, strict=True)))
        return list(images["image"]), cells

    def _context_of(self, i: int, file: Path, cells: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values of the i-th image's variables, from its cells and its file."""
        if not self.context:
            return {}
        columns = [variable.column for variable in self.context]
        own = {**cells, **exif_values(file, columns)}
        (values,) = values_of(self.context, [own], "images", [f"image {i + 1}"])
        if self.allowed is not None:
            list(self.allowed.groups([values]))  # tells of a month that is none
        return values

    def save(self, folder: str | PathLike[str]) -> Path:
        """Writes the classifier to a folder of its own: all but the model's weights, as JSON.

        A model behind a name is saved as that name with its commit; one in a folder as the path of
        the folder.

        Args:
            folder: The folder; it must be new, empty, or hold a saved classifier, which is then
                replaced.

        Returns:
            The folder.

        Raises:
            TaxtuneError: If its model or its mapper was given in Python, the folder holds something
                else or cannot be written to, or the commit of the model cannot be found out.
        """
        folder = Path(folder)
        recipe = self.recipe
        if recipe is None:
            raise DataError(
                "The classifier has a model or a mapper that was given in Python, which no folder "
                "can hold.",
                file=folder,
                remedy="Load it from its run with the same objects: "
                "taxtune.load_classifier(run, vlm=...).",
            )
        is_new = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
        if not is_new and not (folder / FILE).exists():
            raise DataError(
                "The folder holds something else than a classifier.",
                file=folder,
                remedy="Give a new or an empty folder.",
            )
        vlm, mapper = pinned(recipe, self.model)
        saved = Saved(
            name=self.name,
            template=self.template,
            variables=dict(self.variables),
            context=self.context,
            allowed=None if self.allowed is None else self.allowed.rows,
            policy=dict(self.policy.identity()),
            vlm=vlm,
            mapper=mapper,
            placed_by=as_texts(self.mapper.identity()),
            seed=recipe.seed,
            taxonomy=tree_columns(self.taxonomy),
            reliability=self.reliability,
            guarantee=self.guarantee,
            words=self.words or LabelWords(),
            boxes=self.boxes,
            group=self.group,
        )
        write_saved(folder, saved)
        return folder

    def predict(self, images: Any) -> NDArray[np.object_]:
        """Predicts the nodes of images, shape (n,): paths as text, None without an answer.

        An image on the root has the root's label; `classify` tells why.

        Args:
            images: As `classify` takes them.
        """
        placements = [result.placement for result in self.classify(images)]
        return np.array(placements, dtype=object)


def _confidences(
    placed: PlacedAnswer,
    nodes: Sequence[int],
    tree: Taxonomy,
    reliability: Reliability | None,
) -> Sequence[float | None]:
    """Returns the confidence of each node of an image's path, see `Step`."""
    if placed.votes:
        votes = np.maximum(placed.votes, tree.root)
        agrees = tree.lineage[votes, : len(nodes)] == nodes
        shares: list[float] = agrees.mean(axis=0).tolist()
        return shares
    if placed.path:
        return placed.probabilities[: len(nodes)]
    if reliability is None:
        return [None] * len(nodes)
    depth = len(nodes) - 1
    known: list[float] = reliability.confidences(depth).tolist()
    return known


def name_of(image: Any) -> str:
    """Returns the name of an image: its file, or a hash of its content."""
    if not is_image_data(image):
        return str(image)
    content = image["bytes"] if isinstance(image, Mapping) else image
    if not isinstance(content, bytes):
        content = content.tobytes()
    return hashlib.sha256(content).hexdigest()


def _without_file(reason: str, image: Any, file: Path | None) -> str:
    """Returns a reason without the file of an image that came as content, which is ours and gone."""
    return reason.removeprefix(f"{file}: ") if is_image_data(image) else reason
