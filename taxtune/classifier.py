"""What a finished run is good for: its winning template, model, mapper and policy put labels on new images.

classifier = taxtune.load_classifier("runs/birds")
classifier.predict(["a.jpg", "b.jpg"])[0].node
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.data.images import content_hash, is_image_data, store_image
from taxtune.errors import DataError, ImageError
from taxtune.models import AnswerStore, Model, Request, ask, make_model
from taxtune.policies import DIRECT, Policy, Vote
from taxtune.tuning.calibrate import read_calibration
from taxtune.tuning.evaluation import Evaluator, why_unanswered
from taxtune.tuning.experiment import template_variables
from taxtune.tuning.from_recipe import Parts
from taxtune.tuning.reopen import finished_run, recipe_of
from taxtune.tuning.template import render

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.recipe import Recipe
    from taxtune.taxonomy import Taxonomy

__all__ = ["Classification", "Classifier", "load_classifier"]


@dataclass(frozen=True, slots=True)
class Classification:
    """Where an image belongs.

    Attributes:
        image: The file, or of an image that is in no file the SHA-256 of its content.
        answer: What the model said; of several answers each with its count. None where there is no answer.
        node: Path of the node, labels joined by "/"; None where there is no answer.
        rank: The node's rank, where the tree has ranks.
        confidence: Between 0 and 1: the share of the answers that agree, or what the mapper says of its placement; None
            where neither says anything.
        off_tree: Whether the answer asserts something that the tree lacks; the node is then the root.
        failure: Why there is no answer.
    """

    image: str
    answer: str | None = None
    node: str | None = None
    rank: str | None = None
    confidence: float | None = None
    off_tree: bool = False
    failure: str | None = None


@dataclass
class Classifier:
    """A template, a model, a mapper and a policy, as a run left them; until it is used it can be sent elsewhere.

    Attributes:
        prompts: The rendered prompts that the policy asks with, mostly one.
        taxonomy: The label tree.
        model: Answers the questions.
        mapper: Places the answers.
        policy: How often an image is asked about, and how the answers make one place.
        use_images: Give the images to the mapper's similarity (CLIP image-to-text).
    """

    prompts: tuple[str, ...]
    taxonomy: Taxonomy
    model: Model
    mapper: Mapper
    policy: Policy = DIRECT
    use_images: bool = False

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(
            self.taxonomy,
            self.model,
            self.mapper,
            store=None,
            variables={},
            use_images=self.use_images,
            policy=self.policy,
        )

    def predict(self, images: Sequence[Any], store: AnswerStore | None = None) -> list[Classification]:
        """Returns where images belong, in the order given.

        Args:
            images: Files; or PIL images, or the bytes of image files.
            store: Where answers are kept and looked for first; None keeps none.

        Raises:
            ModelError: If the model cannot answer at all. An image that cannot be read, or about which the model says
                nothing, has a `failure` instead.
        """
        found: dict[int, Classification] = {}
        files: dict[int, Path] = {}
        requests: dict[int, list[Request]] = {}
        with tempfile.TemporaryDirectory(prefix="taxtune-images-") as folder:
            names = [_name(image) for image in images]
            for i, image in enumerate(images):
                try:
                    files[i] = store_image(image, Path(folder)) if is_image_data(image) else Path(image)
                    requests[i] = self.policy.requests(self.prompts, files[i], content_hash(files[i]))
                except ImageError as error:
                    found[i] = Classification(names[i], failure=str(error))
            replies = iter(ask(self.model, [r for asked in requests.values() for r in asked], store, what="answers"))
            said = {i: [next(replies) for _ in asked] for i, asked in requests.items()}
            settled = self._evaluator.settle(list(said.values()), [files[i] for i in said])
        for position, (i, answers) in enumerate(said.items()):
            if position not in settled:
                found[i] = Classification(names[i], failure=why_unanswered(answers))
                continue
            place = settled[position]
            found[i] = Classification(
                names[i],
                place.text,
                "/".join(self.taxonomy.path(place.node)),
                self.taxonomy.ranks[place.node],
                place.confidence,
                place.off_tree,
            )
        return [found[i] for i in range(len(images))]


def load_classifier(
    run: str | PathLike[str],
    *,
    calibrated: bool = False,
    recipe: Recipe | str | Path | None = None,
    vlm: Model | Callable[..., Any] | str | None = None,
    execution: str | None = None,
) -> Classifier:
    """Returns what a finished run found, ready to label images; nothing is loaded yet.

    Args:
        run: The run's folder.
        calibrated: Use what `calibrate` chose, with its promise, in place of the run's own policy.
        recipe: The run's recipe, where the run does not know it.
        vlm: The model, for a run with a model of one's own.
        execution: Where the model runs: "here", "processes" or "ray"; as in the run's recipe where left out.

    Raises:
        DataError: If there is no finished run in the folder, or no calibration.
        RecipeError: If the run does not know its recipe.
    """
    from taxtune.recipe import Recipe, load_recipe

    folder = Path(run)
    result = finished_run(folder)
    if recipe is None:
        settings = recipe_of(result, own_vlm=vlm is not None)
    else:
        settings = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    changes: dict[str, Any] = {} if execution is None else {"execution.engine": execution}
    templates = [str(result.best.template)]
    policy: Policy | None = None if result.selection is None else _policy(result.selection.policy, folder)
    if calibrated:
        calibration = read_calibration(folder)
        templates, policy = list(calibration.templates), calibration.policy
        if policy is None:
            raise DataError("The calibration found that only always answering the root keeps the risk.", file=folder)
        if calibration.temperature:
            changes |= {"policy.kind": "vote", "policy.temperature": calibration.temperature}
    parts = Parts(settings.changed(changes), folder, vlm=None if vlm is None else make_model(vlm))
    variables = template_variables(settings.prompt)
    return Classifier(
        tuple(render(template, variables) for template in templates),
        parts.taxonomy,
        parts.model,
        parts.mapper,
        policy or parts.policy,
        use_images=settings.mapper.use_images,
    )


def _policy(identity: Mapping[str, Any], folder: Path) -> Policy | None:
    """Returns the policy that a run's winner was chosen with; None where the run's record does not say."""
    kinds: dict[str, Callable[..., Policy]] = {"direct": lambda: DIRECT, "vote": Vote}
    if not identity:
        return None
    settings = {key: value for key, value in identity.items() if key != "kind"}
    if identity["kind"] not in kinds:
        raise DataError(
            f"The run's policy {identity['kind']!r} was given in Python.",
            file=folder,
            remedy="Make a taxtune.Classifier with it.",
        )
    return kinds[identity["kind"]](**settings)


def _name(image: Any) -> str:
    """Returns what an image is called: its file, or a hash of its content."""
    if not is_image_data(image):
        return str(image)
    content = image["bytes"] if isinstance(image, Mapping) else image
    return hashlib.sha256(content if isinstance(content, bytes) else content.tobytes()).hexdigest()
