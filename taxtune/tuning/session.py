"""From a recipe to everything that a run needs: the tree, the splits, the model, the mapper, the proposer."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.data import Example, load_examples
from taxtune.data.splits import Splits, split
from taxtune.errors import RecipeError, TemplateError
from taxtune.metrics.hierarchical import score
from taxtune.recipe import (
    FieldGuideData,
    FragmentsProposerSettings,
    INat21Data,
    LocalVLMSettings,
    ManifestData,
    Recipe,
)
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.tuning.evaluation import Evaluator
from taxtune.tuning.objective import Objective, ObjectiveKind
from taxtune.tuning.proposers import Goal, Proposer, make_proposer
from taxtune.tuning.template import check_template
from taxtune.vlm import VLM

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.vlm.answers import AnswerStore

__all__ = ["Session"]

# Settings that a resumed run may change: they alter how the work is done, or how much of it, but not what comes out.
_FREE = (
    "description",
    "iterations",
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
    def taxonomy(self) -> Taxonomy:
        """The label tree, restricted to `taxonomy.root` where the recipe says so."""
        settings = self.recipe.taxonomy
        path = settings.path if settings.path.startswith("builtin:") else self.recipe.path(settings.path)
        tree = read_taxonomy(path, format=settings.format, names=settings.english_names)
        return tree if settings.root is None else tree.subtree(tree.resolve(settings.root))

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

    def objective(self, kind: ObjectiveKind | None = None) -> Objective:
        """Returns the recipe's objective, or another kind of it on the same tuning split."""
        settings = self.recipe.objective
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
        )

    # -- models --------------------------------------------------------------------------------------------------------

    @cached_property
    def vlm(self) -> VLM:
        """The vision-language model; weights are loaded at the first question."""
        s = self.recipe.vlm
        if isinstance(s, LocalVLMSettings):
            from taxtune.vlm.local import LocalVLM

            # A model on this machine is a path of the recipe; anything else is a name on the hub.
            path = None if s.model.startswith("builtin:") else self.recipe.path(s.model)
            return LocalVLM(
                str(path) if path is not None and path.is_dir() else s.model,
                revision=s.revision,
                dtype=s.dtype,
                device=s.device,
                batch_size=s.batch_size,
                max_new_tokens=s.max_new_tokens,
                temperature=s.temperature,
                system_prompt=s.system_prompt,
            )
        from taxtune.vlm.api import ApiVLM

        return ApiVLM(
            s.model,
            api_base=s.api_base,
            api_key=self._key(s.api_key_env, "vlm.api_key_env"),
            concurrency=s.concurrency,
            max_tokens=s.max_tokens,
            temperature=s.temperature,
            timeout=s.timeout,
            max_retries=s.max_retries,
            system_prompt=s.system_prompt,
            on_note=self._note,
        )

    @cached_property
    def mapper(self) -> Mapper:
        """Places answers on the tree."""
        from taxtune.mapping import Mapper, MapperConfig
        from taxtune.mapping.similarity import make_similarity

        s = self.recipe.mapper
        spec = s.similarity.replace("clip:", "clip-i2t:", 1) if s.use_images else s.similarity
        config = MapperConfig(preset=s.preset, k=s.k, thr_top2=s.thr_top2, thr_topk=s.thr_topk, thr_vote=s.thr_vote)
        return Mapper(self.taxonomy, make_similarity(spec), config)

    @cached_property
    def proposer(self) -> Proposer:
        """Makes the templates."""
        s = self.recipe.proposer
        if isinstance(s, FragmentsProposerSettings):
            path = self.recipe.path(s.fragments)
            return make_proposer("fragments", fragments=path if path.is_file() else s.fragments)
        return make_proposer(
            "llm",
            model=s.model,
            api_base=s.api_base,
            api_key=self._key(s.api_key_env, "proposer.api_key_env"),
            temperature=s.temperature,
            max_history_tokens=s.max_history_tokens,
            timeout=s.timeout,
            max_retries=s.max_retries,
            on_note=self._note,
        )

    def evaluator(self, store: AnswerStore | None) -> Evaluator:
        """Returns what asks and scores a template."""
        return Evaluator(
            self.taxonomy,
            self.vlm,
            self.mapper,
            store=store,
            variables=self.variables,
            use_images=self.recipe.mapper.use_images,
        )

    def _note(self, text: str) -> None:
        # Looked up at every note: the display that shows them comes later than the models.
        self.on_note(text)

    def _key(self, variable: str | None, key: str) -> str | None:
        if variable is None:
            return None
        if not os.environ.get(variable):
            raise RecipeError(
                f"{key} names the environment variable {variable}, which is not set.",
                file=self.recipe.source,
                remedy=f"Set it: export {variable}=...",
            )
        return os.environ[variable]

    def check_models(self) -> None:
        """Checks that the model and the proposer can be asked, before either is asked anything that costs.

        Raises:
            VLMError: If the model is missing, or its key.
            ProposerError: If the proposer's key is missing, or its provider unknown.
        """
        # A model of one's own need not be able to check itself.
        for note in getattr(self.vlm, "check", tuple)() or ():
            self.on_note(note)
        self.proposer.check()

    # -- identity ------------------------------------------------------------------------------------------------------

    def identity(self, objective: Objective) -> dict[str, Any]:
        """Returns what must stay the same for a run to be resumed, by dotted key."""
        recipe = {f"recipe.{key}": value for key, value in self.recipe.flat().items() if not key.startswith(_FREE)}
        return {
            **recipe,
            "objective": objective.kind,
            "objective.hr_floor": objective.hr_floor,
            "taxonomy": _digest([self.taxonomy.labels, self.taxonomy.parents.tolist(), self.taxonomy.aliases]),
            "tuning images": _digest([(e.sha256, e.target) for e in self.splits.tuning]),
            "held-out images": _digest([(e.sha256, e.target) for e in self.splits.heldout]),
            **{f"vlm.{key}": value for key, value in self.vlm.identity.items()},
            **{f"mapper.{key}": value for key, value in self.mapper.identity().items()},
            **{f"proposer.{key}": value for key, value in self.proposer.identity().items()},
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
