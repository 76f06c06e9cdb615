"""From a recipe to everything that a run needs: the tree, the splits, the model, the mapper, the proposer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.data import Example, load_examples
from taxtune.data.splits import Splits, split
from taxtune.errors import RecipeError, TemplateError
from taxtune.metrics.frequencies import TARGETS, make_information
from taxtune.metrics.hierarchical import score
from taxtune.metrics.information import Information, information_scores
from taxtune.models import Model, check_model
from taxtune.recipe import (
    FieldGuideData,
    INat21Data,
    ManifestData,
    Recipe,
)
from taxtune.taxonomy import Domain, Taxonomy, read_taxonomy, restrict
from taxtune.tuning import models
from taxtune.tuning.evaluation import Evaluator
from taxtune.tuning.objective import Objective, ObjectiveKind
from taxtune.tuning.proposers import Goal, Proposer
from taxtune.tuning.template import check_template

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.metrics.lave import Lave
    from taxtune.models import AnswerStore
    from taxtune.tuning.judged import AnswerJudge

__all__ = ["Session"]

# Settings that a resumed run may change: they alter how the work is done, or how much of it, but not what comes out;
# and `max_missing` and `max_off_tree`, since a run that stops for one says to raise it: what is void by then stays so.
_FREE = (
    "description",
    "iterations",
    "judge",  # what of it can change a rating is in the identity of a run that asks it
    "max_missing",
    "max_off_tree",
    "objective.kind",  # a comparison runs a recipe with several; each run's own kind is in the identity
    "proposer.max_retries",
    "proposer.timeout",
    "tracking.",
    "vlm.batch_size",
    "vlm.concurrency",
    "vlm.max_retries",
    "vlm.timeout",
)


def _ignore(*_: object) -> None:
    pass


@dataclass
class Session:
    """What a recipe asks for, built when it is first needed.

    Attributes:
        recipe: The recipe.
        folder: Where a run writes.
        on_note: Called with remarks worth showing, such as how many images were left out and why.
        on_images: Called with the number of images read and how many there are to read.
    """

    recipe: Recipe
    folder: Path
    on_note: Callable[[str], None] = _ignore
    on_images: Callable[[int, int], None] = _ignore

    # -- data ----------------------------------------------------------------------------------------------------------

    @cached_property
    def full_taxonomy(self) -> Taxonomy:
        """The whole label tree of the recipe's file."""
        settings = self.recipe.taxonomy
        path = settings.path if settings.path.startswith("builtin:") else self.recipe.path(settings.path)
        return read_taxonomy(
            path,
            format=settings.format,
            names=settings.english_names,
            root_label=settings.root_label,
            on_note=self.on_note,
        )

    @cached_property
    def part(self) -> Domain | None:
        """The part of the tree that the recipe's `taxonomy.root` restricts everything to; None for the whole."""
        root = self.recipe.taxonomy.root
        return None if root is None else restrict(self.full_taxonomy, root)

    @property
    def taxonomy(self) -> Taxonomy:
        """The label tree, restricted to `taxonomy.root` where the recipe says so."""
        return self.full_taxonomy if self.part is None else self.part.tree

    @cached_property
    def examples(self) -> list[Example]:
        """Every labelled image below the domain."""
        data = self.recipe.data
        images: Path | None = None
        columns = ("image", "label")
        if isinstance(data, FieldGuideData):
            kind, source = "manifest", self._draw(data) / "manifest.csv"
        else:
            kind, source = data.kind, self.recipe.path(data.path)
        if isinstance(data, ManifestData):
            images = None if data.images is None else self.recipe.path(data.images)
            columns = (data.image_column, data.label_column)
        if isinstance(data, INat21Data):
            images = self.recipe.path(data.images)
        return load_examples(
            kind,
            source,
            self.taxonomy,
            images=images,
            image_column=columns[0],
            label_column=columns[1],
            domain=None if self.recipe.taxonomy.domain is None else self.domain,
            part=self.part,
            on_note=self.on_note,
            on_progress=self.on_images,
        )

    def _draw(self, data: FieldGuideData) -> Path:
        from platformdirs import user_cache_path

        from taxtune.fieldguide import DRAWING, make_dataset

        # The name tells the content: a changed recipe, or a taxtune that draws otherwise, does not meet old images.
        name = f"v{DRAWING}-n{data.count}-d{data.degraded:.12g}-s{data.seed}"
        folder = user_cache_path("taxtune") / "fieldguide" / name
        return make_dataset(folder, n=data.count, seed=data.seed, degraded=data.degraded)

    @cached_property
    def splits(self) -> Splits:
        """The tuning and held-out splits, disjoint by image content; every image in them is readable."""
        data = self.recipe.data
        return split(
            self.examples,
            tuning=data.tuning,
            heldout=data.heldout,
            seed=self.recipe.seed,
            on_note=self.on_note,
            on_progress=self.on_images,
        )

    # -- the trivial answer and what follows from it -------------------------------------------------------------------

    @cached_property
    def domain(self) -> int:
        """The node of the trivial answer: the recipe's, or the lowest node above every example's label."""
        if self.recipe.taxonomy.domain is not None:
            return self.taxonomy.resolve(self.recipe.taxonomy.domain)
        return self.taxonomy.common_ancestor({example.target for example in self.examples})

    @cached_property
    def trivial(self) -> tuple[float, float]:
        """HP and hR of always answering the domain's root on the tuning split."""
        target = np.array([example.target for example in self.splits.tuning])
        scores = score(self.taxonomy, np.full_like(target, self.domain), target)
        return scores.hp, scores.hr

    @cached_property
    def information(self) -> Information:
        """What the nodes weigh: by the share of leaves, or by the frequencies that the recipe gives.

        Raises:
            DataError: If the frequencies cannot be used.
        """
        settings = self.recipe.taxonomy
        given = settings.frequencies
        return make_information(
            self.taxonomy,
            given if given is None or given == TARGETS else self.recipe.path(given),
            smoothing=settings.smoothing or 0.0,
            targets=[] if given != TARGETS else [example.target for example in self.splits.tuning],
            part=self.part,
            on_note=self.on_note,
        )

    def objective(self, kind: ObjectiveKind | None = None) -> Objective:
        """Returns the recipe's objective, or another kind of it on the same tuning split."""
        settings = self.recipe.objective
        if (kind or settings.kind) == "lave" and self.recipe.judge is None:
            raise RecipeError(
                "The objective 'lave' needs a judge, and the recipe names none.",
                file=self.recipe.source,
                remedy="Add judge: {model: openai/gpt-4o-mini}, or --set judge.model=...",
            )
        return Objective.make(kind or settings.kind, hr_floor=settings.hr_floor, trivial_hr=self.trivial[1])

    @cached_property
    def variables(self) -> dict[str, object]:
        """What a template may refer to."""
        prompt = self.recipe.prompt
        return {
            "question": prompt.question,
            "domain": prompt.domain,
            "ranks": list(prompt.ranks),
            "examples": list(prompt.examples),
        }

    @cached_property
    def forbidden(self) -> tuple[str, ...]:
        """Names of the tuning images' labels, which a template must not give away."""
        names = {name for e in self.splits.tuning if e.target != self.domain for name in self.taxonomy.names(e.target)}
        return tuple(sorted(names))

    def check(self, template: str, earlier: tuple[str, ...] = ()) -> None:
        """Checks a template that nobody vouches for.

        Raises:
            TemplateError: With a reason fit for the proposer.
        """
        check_template(template, earlier=earlier, forbidden_labels=self.forbidden, sample=self.variables)

    def check_baseline(self) -> None:
        """Checks the template that the recipe begins with.

        Raises:
            TemplateError: Naming the recipe and the key.
        """
        recipe = self.recipe
        try:
            self.check(recipe.prompt.baseline)
        except TemplateError as error:
            raise TemplateError(f"prompt.baseline: {error.message}", file=recipe.source, remedy=error.remedy) from None

    def goal(self, objective: Objective) -> Goal:
        """Returns what the proposer is told."""
        hp, hr = self.trivial
        target = np.array([example.target for example in self.splits.tuning])
        bits = information_scores(self.information, np.full_like(target, self.domain), target)
        prompt = self.recipe.prompt
        return Goal(
            objective=objective.kind,
            hr_floor=objective.hr_floor,
            trivial_hp=hp,
            trivial_hr=hr,
            domain=prompt.domain,
            question=prompt.question,
            ranks=list(prompt.ranks),
            tuning_images=len(self.splits.tuning),
            off_tree=self.off_tree,
            trivial_ihp=bits.ihp,
            trivial_ihr=bits.ihr,
        )

    # -- models --------------------------------------------------------------------------------------------------------

    @cached_property
    def vlm(self) -> Model:
        """The vision-language model; weights are loaded at the first question."""
        return models.vlm(self.recipe, self._note)

    @cached_property
    def mapper(self) -> Mapper:
        """Places answers on the tree."""
        return models.mapper(self.recipe, self.taxonomy)

    @cached_property
    def off_tree(self) -> str:
        """How answers off the tree are scored: "child" or "root"."""
        return models.mapper_config(self.recipe).off_tree

    @cached_property
    def proposer(self) -> Proposer:
        """Makes the templates."""
        return models.proposer(self.recipe, self._note)

    @cached_property
    def lave(self) -> Lave:
        """The judge of the objective "lave"; its replies are kept in `replies.db` in the folder."""
        return models.lave(self.recipe, self.folder, self._note)

    @cached_property
    def answer_judge(self) -> AnswerJudge:
        """Rates answers by the recipe's question and the names of their targets."""
        from taxtune.tuning.judged import AnswerJudge

        return AnswerJudge(self.lave, self.taxonomy, self.recipe.prompt.question, self._note)

    def evaluator(self, store: AnswerStore | None, *, judged: bool = False) -> Evaluator:
        """Returns what asks and scores a template; `judged`: and has its answers rated."""
        return Evaluator(
            self.taxonomy,
            self.vlm,
            self.mapper,
            store=store,
            variables=self.variables,
            use_images=self.recipe.mapper.use_images,
            off_tree=self.off_tree,
            information=self.information,
            judge=self.answer_judge if judged else None,
        )

    def _note(self, text: str) -> None:
        # Looked up at every note: the display that shows them comes later than the models.
        self.on_note(text)

    def check_models(self, *, judged: bool = False) -> None:
        """Checks that the model, the proposer and where there is one the judge can be asked, before that costs.

        Raises:
            ProposerError: If the proposer's key is missing, or its provider unknown.
            ModelError: If the model or the judge is missing, or its key.
        """
        # A model of one's own need not be able to check itself.
        for note in check_model(self.vlm):
            self.on_note(note)
        self.proposer.check()
        for note in self.lave.check() if judged else ():
            self.on_note(note)

    # -- identity ------------------------------------------------------------------------------------------------------

    def identity(self, objective: Objective) -> dict[str, Any]:
        """Returns what must stay the same for a run to be resumed, by dotted key."""
        recipe = {f"recipe.{key}": value for key, value in self.recipe.flat().items() if not key.startswith(_FREE)}
        whole = {} if self.part is None else {"domain root": "/".join(self.full_taxonomy.path(self.part.root))}
        return {
            **recipe,
            **whole,
            "objective": objective.kind,
            "objective.hr_floor": objective.hr_floor,
            "taxonomy": _digest(
                [
                    self.taxonomy.labels,
                    self.taxonomy.parents.tolist(),
                    [self.taxonomy.names(v)[1:] for v in range(len(self.taxonomy))],
                ]
            ),
            # By the leaves they follow from the taxonomy.
            **(
                {}
                if self.recipe.taxonomy.frequencies is None
                else {"weights": _digest(self.information.weight.tolist())}
            ),
            "tuning images": _digest([(e.sha256, e.target) for e in self.splits.tuning]),
            "held-out images": _digest([(e.sha256, e.target) for e in self.splits.heldout]),
            **{f"vlm.{key}": value for key, value in self.vlm.identity.items()},
            **{f"mapper.{key}": value for key, value in self.mapper.identity().items()},
            **{f"proposer.{key}": value for key, value in self.proposer.identity().items()},
            **(
                {f"judge.{key}": value for key, value in self.lave.identity().items()}
                if objective.kind == "lave"
                else {}
            ),
        }

    def details(self) -> dict[str, dict[str, dict[str, str]]]:
        """Returns what the hashes of the splits in the identity stand for: the content and label of each image."""
        splits = (("tuning images", self.splits.tuning), ("held-out images", self.splits.heldout))
        return {
            name: {e.id: {"content": e.sha256[:16], "label": "/".join(self.taxonomy.path(e.target))} for e in examples}
            for name, examples in splits
        }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False, default=list).encode()).hexdigest()[:16]
