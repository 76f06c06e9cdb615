"""From a finished run's folder to what its winner is calibrated with: model, images, answers that are there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.data import Example, load_examples
from taxtune.data.splits import remaining
from taxtune.errors import DataError, ModelError, TaxtuneError
from taxtune.models import AnswerStore, Model, make_model
from taxtune.policies import Vote, images_needed, worst_loss
from taxtune.recipe import Recipe, VotePolicySettings, load_recipe
from taxtune.tuning.calibrate import Calibration, calibrate, write_calibration
from taxtune.tuning.evaluation import Evaluator, OnAnswers
from taxtune.tuning.experiment import template_variables
from taxtune.tuning.from_recipe import Parts
from taxtune.tuning.records import TuneResult
from taxtune.tuning.reopen import answers_of, finished_run, recipe_of
from taxtune.tuning.template import render

if TYPE_CHECKING:
    from taxtune.data.sources import Source

__all__ = ["CalibrationRun"]

_SAMPLES, _TEMPERATURE = 8, 1.0


@dataclass
class CalibrationRun:
    """A calibration of a run's winner, piece by piece, so that its cost is known before anything is asked.

    Attributes:
        folder: The run's folder; answers are kept there, and so is the calibration.
        risk: The mean of 1 - hP to keep, in (0, 1).
        confidence: With which confidence, in (0, 1); None for in expectation.
        samples: Answers an image; those of the run's own policy, or 8, or one a template, where left out.
        temperature: At which they are sampled; that of the run's own policy, or 1, where left out.
        templates: How many of the run's best templates are asked in turn, the winner first.
        data: Calibration images in place of those that the run has left over.
        heldout: Whether to calibrate on the run's held-out images as well.
        images: Most images to ask about.
        recipe: The run's recipe, for a run that does not know where it was.
        vlm: The model, for a run that was made with one of one's own.
    """

    folder: Path
    risk: float
    confidence: float | None = None
    samples: int | None = None
    temperature: float | None = None
    templates: int = 1
    data: Source | None = None
    heldout: bool = False
    images: int = 500
    recipe: str | Path | None = None
    vlm: Model | Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.risk < 1:
            raise TaxtuneError("The risk must be between 0 and 1.", value=self.risk, remedy="For example: --risk 0.02")
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise TaxtuneError("The confidence must be between 0 and 1.", value=self.confidence)
        if self.templates < 1 or self.images < 1:
            raise TaxtuneError("There must be at least one template and one image.")

    @cached_property
    def result(self) -> TuneResult:
        """The run.

        Raises:
            DataError: If the folder holds no finished run.
        """
        return finished_run(self.folder)

    @cached_property
    def vote(self) -> Vote:
        """The policy that asks; its share is chosen later."""
        own = self._settings.policy
        voted = own.samples[0] if isinstance(own, VotePolicySettings) else _SAMPLES
        return Vote(self.samples or (voted if self.templates == 1 else self.templates))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The templates that are asked in turn: the winner, and the next best by the objective.

        Raises:
            DataError: If the run has not so many, or more than answers are wanted.
        """
        winner = self.result.best
        scored = [record for record in self.result.iterations if record.value is not None and record.template]
        scored.sort(key=lambda r: (r.iteration != winner.iteration, not r.feasible, -(r.value or 0.0), r.iteration))
        found = list(dict.fromkeys(str(record.template) for record in scored))[: self.templates]
        if len(found) < self.templates:
            raise DataError(f"The run has only {len(found)} templates.", file=self.folder, value=self.templates)
        if self.vote.samples < self.templates:
            raise TaxtuneError(f"{self.templates} templates need as many answers an image.", value=self.vote.samples)
        return tuple(found)

    @cached_property
    def parts(self) -> Parts:
        """What the run's recipe describes, with the temperature of the calibration."""
        settings = self._settings
        changes: dict[str, Any] = {}
        if self.templates < self.vote.samples:  # otherwise each template is asked once, as in the run
            own = settings.policy.temperature if isinstance(settings.policy, VotePolicySettings) else _TEMPERATURE
            changes = {
                "policy.kind": "vote",
                "policy.temperature": own if self.temperature is None else self.temperature,
            }
        model = None if self.vlm is None else make_model(self.vlm)
        return Parts(settings.changed(changes), self.folder, vlm=model)

    @cached_property
    def _settings(self) -> Recipe:
        if self.recipe is not None:
            return load_recipe(self.recipe)
        return recipe_of(self.result, given=() if self.vlm is None else ("vlm",))

    @cached_property
    def examples(self) -> tuple[Example, ...]:
        """The calibration images, in an order that does not depend on what they show.

        Raises:
            DataError: If there are none, or the run's own images are no longer those that it was tuned on.
        """
        parts, splits = self.parts, self.parts.splits
        known = set(self.result.provenance.images)
        if known and known != {example.id for example in (*splits.tuning, *splits.heldout)}:
            raise DataError(
                "The images are not those that the run was tuned on and judged by.",
                file=self.folder,
                remedy="Calibrate with the recipe and the images of the run, or tune again.",
            )
        if self.data is not None:
            source, folder = self.data, self.folder / "images"
            pool: Sequence[Example] = load_examples(source, parts.taxonomy, folder=folder, part=parts.part)
        else:
            pool = parts.examples
        used = splits.tuning if self.heldout else (*splits.tuning, *splits.heldout)
        found = remaining(pool, used, most=self.images, seed=parts.recipe.seed.split)
        if not found:
            raise DataError(
                f"The run was tuned on or judged by all of the {len(pool):,} images, so none is left to calibrate on.",
                file=self.folder,
                remedy="Give other labelled images with --data, or use the held-out ones too with --heldout: the "
                "promise holds on them, but the run's held-out scores are then no check of the calibrated policy.",
            )
        return found

    @property
    def described(self) -> str:
        """Which images these are, in words."""
        if self.data is not None:
            name = os.fspath(self.data) if isinstance(self.data, str | Path) else "images given in Python"
            return f"{name}, without images of the run's {'tuning split' if self.heldout else 'splits'}"
        return "images of the run's data that are " + ("not tuned on" if self.heldout else "in neither split")

    @cached_property
    def needed(self) -> int:
        """How many images it takes at best."""
        return images_needed(self.risk, self.confidence, worst=worst_loss(self.parts.taxonomy))

    @property
    def store(self) -> Path:
        """The file of the answers: the run's, or that of the comparison it belongs to."""
        return answers_of(self.folder)

    def cost(self) -> tuple[int, int]:
        """Returns how many answers it takes, and how many of them are in the store."""
        variables = template_variables(self.parts.recipe.prompt)
        prompts = [render(source, variables) for source in self.sources]
        wanted = [r for e in self.examples for r in self.vote.requests(prompts, e.image, e.sha256)]
        place = self.store
        if not place.exists():
            return len(wanted), 0
        with AnswerStore(place) as store:
            there = store.get(dict(self.parts.model.identity), wanted)
        return len(wanted), sum(answer is not None for answer in there)

    def run(self, on_answers: OnAnswers | None = None) -> Calibration:
        """Asks what is not answered yet, chooses the share and writes `calibration.json`.

        Raises:
            DataError: If there are too few images for the promise whatever the answers are.
            ModelError: If the model would always give the same answer.
            TaxtuneError: If the model cannot be asked, or too many images have no answer.
        """
        parts, n = self.parts, len(self.examples)
        if self.templates < self.vote.samples and parts.model.identity.get("temperature") == 0:
            raise ModelError(
                "The model decodes greedily: all its answers to a prompt would be the same.",
                remedy="Give a temperature, or as many templates as answers.",
            )
        if n < self.needed:
            raise DataError(
                f"{n:,} calibration images cannot show that the risk is kept: even if every answer were right, it "
                f"would take {self.needed:,}.",
                remedy="Add labelled images with --data, use the held-out ones too with --heldout, or allow more risk"
                + (" or less confidence." if self.confidence is not None else "."),
            )
        with AnswerStore(self.store) as store:
            evaluator = Evaluator(
                parts.taxonomy,
                parts.model,
                parts.mapper,
                store=store,
                variables=template_variables(parts.recipe.prompt),
                use_images=parts.recipe.mapper.use_images,
            )
            found = calibrate(
                evaluator,
                self.sources,
                self.examples,
                run=self.result.name,
                source=self.described,
                samples=self.vote.samples,
                risk=self.risk,
                confidence=self.confidence,
                max_missing=parts.recipe.max_missing,
                on_answers=on_answers,
            )
        write_calibration(self.folder, found)
        return found
