"""Calibrates a run's winner: the threshold at which it keeps a guaranteed risk on new images."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from taxtune.atomic import write_json
from taxtune.data import Example
from taxtune.data.context import blank
from taxtune.data.splits import remaining
from taxtune.errors import DataError, ModelError, TaxtuneError, command
from taxtune.metrics.groups import Groups, unit_of
from taxtune.metrics.information import leaf_information
from taxtune.models import Answer, AnswerStore, Model, Request, make_model
from taxtune.policies import (
    Posterior,
    RiskGuarantee,
    SelfConsistency,
    Single,
    threshold_levels,
)
from taxtune.policies.risk import CalibratedThreshold, Promise, last_kept
from taxtune.progress import note
from taxtune.recipe import Recipe, flatten, load_recipe
from taxtune.tuning.asker import Asker, answer_limit
from taxtune.tuning.build import (
    LabelledData,
    Setup,
    further_examples,
    make_data,
    make_mapper,
    make_splits,
    make_taxonomy,
    make_vlm,
    sampling_temperature,
    with_arbiter,
)
from taxtune.tuning.costs import CallCost, call_cost, mean_cost
from taxtune.tuning.evaluation import Evaluator
from taxtune.tuning.experiment import Experiment, make_checklist
from taxtune.tuning.records import SampleResult, TuneResult, cut_in_words
from taxtune.tuning.run_folder import answers_of, finished_run, images_of, note_answers, recipe_of
from taxtune.tuning.selection import TOLERANCE
from taxtune.tuning.template import Template
from taxtune.tuning.thresholds import can_choose, recorded_paths

if TYPE_CHECKING:
    from taxtune.data.sources import Source
    from taxtune.taxonomy import Domain, Taxonomy

__all__ = ["CALIBRATION", "Calibration", "CalibrationRun", "posterior_offer", "read_calibration"]

#: The file of a run's folder that holds its calibration.
CALIBRATION = "calibration.json"
_OFFERED = 200  # images on which an offer rests, at most
_SAMPLES, _TEMPERATURE = 8, 1.0  # where the run itself asks once


@dataclass(frozen=True, kw_only=True)
class Calibration(CalibratedThreshold):
    """A run's policy with a guarantee about new images of the same kind.

    Attributes:
        run: Name of the run.
        template: The Jinja source.
        samples: Number of answers to each image.
        identity: The settings of questions and placement, by dotted key; it must be the same where
            this is used.
        names: What the model's own probabilities are taken of, see `Posterior`; None for
            self-consistency.
    """

    run: str
    template: str = field(repr=False)
    samples: int
    identity: Mapping[str, str | int | float | None] = field(repr=False)
    names: Literal["species", "all", "aliases"] | None = None

    @property
    def policy(self) -> SelfConsistency | Posterior | None:
        """The calibrated policy; None where only answering the root always keeps the guarantee."""
        if self.threshold is None:
            return None
        if self.names is None:
            return SelfConsistency(self.samples, self.threshold)
        return Posterior(self.threshold, self.names)


@dataclass
class CalibrationRun:
    """A calibration of a run's winner, whose cost is known before anything is asked.

    Attributes:
        folder: The run's folder; the calibration is kept there.
        confidence: With which confidence, in (0, 1).
        kind: What is calibrated, the `policy` of `taxtune.calibrate`; further attributes are there.
        candidates: A classifier's scores of the images of `data`, for a prompt that asks for
            candidates; None for those of the run's recipe.
        add: Labelled images beside those.
    """

    folder: Path
    risk: float
    confidence: float | None = None
    kind: Literal["self_consistency", "posterior"] | None = None
    samples: int | None = None
    data: Source | None = None
    images: int = 500
    recipe: str | Path | None = None
    vlm: Model | Callable[..., Any] | None = None
    answers: str | Path | None = None
    promise: Promise = "hp"
    rank: str | None = None
    candidates: str | None = None
    add: Source | None = None

    def __post_init__(self) -> None:
        self._asked = RiskGuarantee.asked(self.risk, self.confidence, self.promise, self.rank)
        if self.images < 1:
            raise TaxtuneError("There must be at least one image.", value=self.images)
        if self.kind == "posterior" and self.samples is not None:
            raise TaxtuneError(
                "The model's own probabilities take one answer per image.",
                remedy="Leave out samples.",
            )

    @cached_property
    def result(self) -> TuneResult:
        """The run."""
        return finished_run(self.folder)

    @cached_property
    def settings(self) -> Recipe:
        """The run's recipe."""
        if self.recipe is not None:
            return with_arbiter(Setup(load_recipe(self.recipe), self.folder))
        given = {"vlm": self.vlm, "data": images_of(self.result)}
        return recipe_of(self.result, given=[group for group in given if given[group] is not None])

    @cached_property
    def policy(self) -> SelfConsistency | Posterior | Single:
        """The policy that asks; its threshold is chosen later."""
        own = self.settings.policy
        if (self.kind or own.kind) == "posterior":
            return Posterior(names=own.names)
        usual = own.samples if own.samples > 1 else _SAMPLES
        return SelfConsistency(usual if self.samples is None else self.samples)

    @cached_property
    def tree(self) -> tuple[Taxonomy, Domain | None]:
        """The run's label tree, and what it is a part of."""
        return make_taxonomy(self.settings)

    @cached_property
    def run_data(self) -> LabelledData:
        """All images of the run's data."""
        source = None if self.recipe is not None else images_of(self.result)
        return make_data(self.settings, *self.tree, source, self.folder)

    @cached_property
    def template(self) -> Template:
        """The run's winner."""
        source = str(self.result.best.template)
        return Template.parse(source, blank(self.run_data.variables))

    @cached_property
    def asker(self) -> Asker:
        """What asks the run's model; for several answers at a temperature at which they differ."""
        recipe = self.settings
        if self.policy.samples > 1:
            temperature: float | None = _TEMPERATURE
            if recipe.policy.samples > 1:
                temperature = sampling_temperature(recipe)
            recipe = recipe.changed({"vlm.temperature": temperature})
        return Asker(
            model=make_vlm(recipe) if self.vlm is None else make_model(self.vlm),
            mapper=make_mapper(recipe, self.tree[0]),
            # Any threshold will do: rows tell what every one would come to.
            policy=self.policy.with_threshold(0.5),
            variables=recipe.prompt.variables,
            allowed=make_checklist(recipe, *self.tree),
        )

    @cached_property
    def examples(self) -> tuple[Example, ...]:
        """The calibration images, in an order that does not depend on what they show.

        Raises:
            DataError: If there are none, or the run's own images are no longer those that it was
                tuned on.
        """
        recipe = self.settings
        splits = make_splits(recipe, self.run_data.examples)
        used = (*splits.tuning, *splits.heldout)
        known = set(self.result.provenance.images)
        if known and known != {example.id for example in used}:
            raise DataError(
                "The images are not those that the run was tuned on and judged by.",
                file=self.folder,
                remedy="Calibrate with the recipe and the images of the run, or tune again.",
            )
        pool = self.run_data.examples
        variables = self.run_data.variables
        if self.data is not None:
            further = partial(further_examples, recipe, *self.tree)
            pool = further(self.data, self.folder, variables, self.candidates)
        if self.add is not None:
            added = further_examples(recipe, *self.tree, self.add, self.folder, variables)
            pool = [*pool, *added]
        usable = self.usable(pool)
        unused = remaining(usable, used, most=self.images, seed=recipe.seed)
        if not unused:
            raise DataError(
                f"The run was tuned on or judged by all of the {len(pool):,} images, so none is "
                "free to calibrate on.",
                file=self.folder,
                remedy="Give other labelled images with --data.",
            )
        return unused

    def usable(self, examples: Sequence[Example]) -> Sequence[Example]:
        """Returns the labelled images that can be calibrated on."""
        return examples

    @property
    def described(self) -> str:
        """Which images these are, in words."""
        added = "" if self.add is None else ", and those labelled in an audit"
        if self.data is None:
            return f"images of the run's data that are in neither split{added}"
        name = "images given in Python"
        if isinstance(self.data, str | Path):
            name = os.fspath(self.data)
        return f"{name}, without images of the run's splits{added}"

    @cached_property
    def guarantee(self) -> RiskGuarantee:
        """What is to be promised, by the name of a group of the run's data."""
        return replace(self._asked, unit=unit_of(self.settings.data.group, self.groups) or "image")

    @cached_property
    def groups(self) -> Groups:
        """Which of the calibration images belong together."""
        return Groups.of([example.group for example in self.examples])

    @cached_property
    def needed(self) -> int:
        """How many images, or groups of images, it takes at best."""
        return self.guarantee.fewest(self.tree[0])

    def cost(self) -> tuple[int, int]:
        """Returns the number of answers needed, and of those in the store."""
        return len(self._requests), len(self._stored())

    @property
    def call(self) -> CallCost:
        """What a call costs, by the answers so far or else by those to other prompts.

        Its time is its share of that of the calls under way.
        """
        model = self.asker.model
        stored = self._stored()
        if stored:
            call = mean_cost(stored)
        else:
            is_local = self.vlm is None and self.settings.vlm.kind == "local"
            answers = answers_of(self.folder, self.answers)
            call = call_cost(model, self._requests[0], answers, is_local=is_local)
        if call.seconds is None:
            return call
        return replace(call, seconds=call.seconds / getattr(model, "concurrency", 1))

    @cached_property
    def _requests(self) -> list[Request]:
        requests, _ = self.asker.requests(self.template, self.examples)
        return [request for some in requests for request in some]

    def _stored(self) -> list[Answer]:
        """Returns the answers that are in the store already."""
        answers = answers_of(self.folder, self.answers)
        if not answers.exists():
            return []
        with AnswerStore(answers) as store:
            known = store.get(dict(self.asker.model.identity), self._requests)
        return [answer for answer in known if answer is not None]

    def run(self) -> Calibration:
        """Asks what is not answered yet, chooses the threshold and writes `calibration.json`.

        Raises:
            DataError: If there are too few images for the guarantee whatever the answers are.
            ModelError: If the model would always give the same answer, or too many images have no
                answer.
            TaxtuneError: If the model cannot be asked.
        """
        tree, _ = self.tree
        rows = self.answered_rows()
        placed = [row.placed for row in rows if row.placed is not None]
        targets = [row.target for row in rows]
        groups = Groups.of([row.group for row in rows])
        levels = threshold_levels(
            tree,
            recorded_paths(tree, placed),
            targets,
            self.guarantee,
            groups,
            self.policy.thresholds,
        )
        identities = {
            "vlm": self.asker.model.identity,
            "mapper": self.asker.mapper.identity(),
        }
        calibration = Calibration(
            **self.facts(groups),
            threshold=last_kept(levels).threshold,
            levels=levels,
            run=self.result.name,
            names=self.policy.names,
            identity=flatten(identities),
        )
        write_json(self.folder / CALIBRATION, asdict(calibration))
        return calibration

    def facts(self, groups: Groups) -> dict[str, Any]:
        """Returns the fields that every calibration has, of one on groups of answered images."""
        images = groups.numbers.size
        return {
            **asdict(replace(self.guarantee, images=images)),
            "units": len(groups),
            "template": self.template.source,
            "samples": self.policy.samples,
            "missing": len(self.examples) - images,
            "source": self.described,
            "needed": self.needed,
        }

    def answered_rows(self) -> list[SampleResult]:
        """Asks what is not answered yet, and returns the rows of images with an answer; see `run`."""
        # What is wrong with the images is told first.
        n = len(self.examples)
        self.guarantee.is_label(self.tree[0])
        vlm = self.asker.model
        if self.policy.samples > 1 and vlm.identity.get("temperature") == 0:
            raise ModelError(
                "The model decodes greedily: all its answers to a prompt would be the same.",
                remedy="Give one that samples: vlm=.",
            )
        self.guarantee.check_enough(self.groups, self.needed)
        with AnswerStore(answers_of(self.folder, self.answers)) as store:
            if self.answers is not None:
                note_answers(self.folder, self.answers)
            evaluator = Evaluator(self.asker, leaf_information(self.tree[0]), store)
            if self.policy.names is not None:  # the first answer tells that a model gives none
                evaluator.evaluate(self.template, self.examples[:1])
            evaluation = evaluator.evaluate(self.template, self.examples)
        cut = cut_in_words(evaluation.rows, answer_limit(vlm))
        if cut:
            note(cut)
        rows = [row for row in evaluation.rows if row.node is not None]
        votes = [row.placed.votes for row in rows if row.placed is not None]
        if self.policy.samples > 1 and all(len(set(each)) == 1 for each in votes):
            note(
                f"the {self.policy.samples} answers to each image are placed alike: a model that "
                "answers the same each time gains nothing from several; let it sample"
            )
        if n - len(rows) > self.settings.max_missing * n:
            raise ModelError(
                f"{n - len(rows)} of the {n} calibration images have no answer; the first: "
                f"{evaluation.failures[0].rstrip('.')}.",
                remedy="Run the same command again when the model answers; answers so far are "
                "saved.",
            )
        return rows


def posterior_offer(
    experiment: Experiment, evaluator: Evaluator, result: TuneResult
) -> dict[str, str]:
    """Returns an offer of the model's own probabilities for a finished run, with the command.

    The winner's hR on the first tuning images, each placed by the threshold that is best on the
    others, is compared with that of its answers; where it is less, nothing is offered. Only models
    on this machine are asked, for runs that hold hP and take one answer per image.
    """
    winner = result.best
    held = [c for c in result.constraints if c.measure == "hp" and c.of is None]
    rows = [row for row in winner.rows[:_OFFERED] if row.hr is not None]
    is_asked = experiment.vlm.identity.get("kind") == "local" and experiment.policy == Single()
    if not is_asked or not held or not rows or not can_choose(experiment.objective):
        return {}
    try:
        examples = experiment.splits.tuning[: len(winner.rows)][:_OFFERED]
        weighing = evaluator.with_policy(Posterior().fitted(experiment.cross_fit))
        weighing = replace(weighing, metrics=(), needs=())  # no judge is asked again
        template = experiment.rules.parse(str(winner.template))
        found = weighing.evaluate(template, examples).scores
    except TaxtuneError:  # a network that cannot be read so has nothing to offer
        return {}
    now = sum(row.hr or 0.0 for row in rows) / len(rows)
    least = held[0].least
    if found is None or not least <= found.hp + TOLERANCE or found.hr <= now:
        return {}
    words = ["calibrate", result.folder, "--policy", "posterior", "--risk", f"{1 - least:.4g}"]
    used = len(experiment.splits.tuning) + len(experiment.splits.heldout)
    if len(experiment.examples) <= used:
        words += ["--data", "PHOTOS"]
    return {
        "probabilities": "By the model's own probabilities it would have an hR of "
        f"{found.hr:.3f}, not {now:.3f}, at the same goal (tuning images): {command(*words)}"
    }


def read_calibration(folder: str | Path) -> Calibration:
    """Reads the calibration of a run back from its folder.

    Raises:
        DataError: If there is none, or it cannot be read.
    """
    file = Path(folder) / CALIBRATION
    if not file.exists():
        raise DataError(
            "The run is not calibrated.",
            file=Path(folder),
            remedy=f"Run `{command('calibrate', folder)} --risk 0.02`, for a hP of 0.98.",
        )
    return Calibration.read(file)
