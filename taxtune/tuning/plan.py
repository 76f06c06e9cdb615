"""What a run will do, what its images can prove, and what stands in its way, before it does anything: `--dry-run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from taxtune.atomic import check_folder
from taxtune.errors import TaxtuneError
from taxtune.metrics.bounds import errorless_images, highest_provable
from taxtune.models.arbiter import DOUBTFUL_SHARE, ChatArbiter
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.objective import Objective, ObjectiveSpec, asks_a_model
from taxtune.tuning.run_folder import check_run_folder
from taxtune.tuning.selection import Rung

__all__ = [
    "Plan",
    "PowerAnalysis",
    "analyse_power",
    "make_plan",
]


@dataclass(frozen=True, slots=True)
class PowerAnalysis:
    """What the tuning images can prove of a score whose mean an objective demands with a confidence in (0.5, 1).

    If no answer loses anything, `provable` is the highest mean that they prove, and `needed` images prove the goal.
    """

    measure: str
    goal: float
    confidence: float
    images: int
    provable: float
    needed: int


def analyse_power(objective: Objective, images: int) -> tuple[PowerAnalysis, ...]:
    """Returns the bound that so many images can prove of each score held with a confidence."""
    return tuple(
        PowerAnalysis(
            *(held.measure, held.least, held.confidence, images),
            provable=highest_provable(images, held.confidence),
            needed=errorless_images(held.least, held.confidence),
        )
        for held in objective.constraints
        if held.confidence > 0.5 and held.of is None and held.least < 1
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """A run before it is run.

    Attributes:
        name: The recipe's name.
        goals: What is tuned for, one tuning run each.
        problems: Everything that is missing or wrong; empty where the run can start.
        notes: Remarks that need no action, such as weights that will be downloaded.
        nodes: Nodes of the taxonomy.
        images: Labelled images that the recipe's data has.
        tuning_images: Size of the tuning split.
        heldout_images: Size of the held-out split.
        stages: The rounds of the race: how many templates are asked about how many of the tuning images.
        power: What the tuning images can prove.
        vlm: The model's kind and name.
        vlm_calls: Most calls of the model; answers in the store and repeated questions make it fewer.
        llm_calls: Most calls of the proposer's model.
        judge_calls: Most calls of the judge.
        judge: The language model that rates the answers; None where none is asked.
        arbiter: The chat model that chooses where the mapper is in doubt; None where none is asked.
        arbiter_calls: Its calls, if the share of doubtful answers is as usual (`DOUBTFUL_SHARE`).
        arbiter_usd: Their price in US dollars; None where litellm knows none.
        max_off_tree: As in the recipe.
    """

    name: str
    goals: tuple[ObjectiveSpec, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    nodes: int | None
    images: int | None
    tuning_images: int
    heldout_images: int
    stages: tuple[Rung, ...]
    power: tuple[PowerAnalysis, ...]
    vlm: dict[str, Any]
    vlm_calls: int
    llm_calls: int
    judge_calls: int
    judge: str | None
    arbiter: str | None
    arbiter_calls: int
    arbiter_usd: float | None
    max_off_tree: float


def make_plan(
    experiment: Experiment,
    objectives: Sequence[str] = (),
    *,
    resume: bool = False,
    checks: Sequence[Callable[[], object]] = (),
) -> Plan:
    """Returns the plan of a tuning run, or of one run an objective; tries everything but asks no model anything.

    Args:
        experiment: The recipe and the folder of the run.
        objectives: The objectives of a comparison; empty for a tuning run.
        resume: Whether the run may go on with one that is in the folder.
        checks: What else is to be tried, such as whether results can be recorded.
    """
    recipe = experiment.recipe
    names = tuple(objectives) or (recipe.objective.kind,)
    problems: list[str] = []
    notes: list[str] = []

    def attempt(step: Callable[[], Any]) -> Any:
        try:
            return step()
        except TaxtuneError as error:
            # A later step that needs an earlier one fails with the same words; say them once.
            if str(error) not in problems:
                problems.append(str(error))
            return None

    tree = attempt(lambda: experiment.taxonomy)
    # Without a tree there are no labels to look up.
    examples = attempt(lambda: experiment.examples) if tree is not None else None
    splits = attempt(lambda: experiment.splits) if examples is not None else None
    goals = (
        [attempt(partial(experiment.make_objective, name)) for name in names]
        if splits is not None
        else []
    )
    goals = [goal for goal in goals if goal is not None]
    if splits is not None:
        notes += attempt(experiment.baseline_notes) or ()
        notes += attempt(experiment.allowed_notes) or ()
        known = ", ".join(f"{each.name} ({each.kind})" for each in experiment.context)
        notes += [f"templates may know of each image: {known}"] if known else []
        attempt(lambda: experiment.weights)
    mapper = attempt(lambda: experiment.mapper) if tree is not None else None
    # A function of the user's own costs what it costs.
    arbiter = given if isinstance(given := getattr(mapper, "arbiter", None), ChatArbiter) else None
    judged = [name for name in names if asks_a_model(name)]
    # A recipe without a judge says so when it is read; a comparison may ask for one that it does not name.
    made = [attempt(lambda: experiment.vlm), attempt(lambda: experiment.proposer)]
    made += [attempt(partial(experiment.measure, name)) for name in judged]
    for each in [*made, arbiter]:
        notes += attempt(getattr(each, "check", tuple)) or ()
    attempt(lambda: check_folder(experiment.folder))
    attempt(lambda: check_run_folder(experiment.folder, objectives, resume=resume))
    for check in checks:
        attempt(check)

    heldout, races = experiment.sizes[1], [experiment.race_of(name) for name in names]
    stages = races[0][0]
    proposals, drafts = stages[0].templates - 1, 0
    proposer: dict[str, Any] = {} if made[1] is None else made[1].identity()
    if experiment.budget.vlm_calls is None:  # of a budget, drafts take templates' place
        drafts = proposer.get("trial_images", 0) * proposals
    if made[1] is not None and proposer.get("pictures"):
        notes.append(made[1].picture_note(proposals * len(names)))
    replies = proposer.get("max_turns", 3 if proposer.get("kind") == "llm" else 0)
    # Runs that are compared ask about the baseline once.
    images = sum(asked + drafts for _, asked in races) - (len(names) - 1) * stages[0].images
    images += heldout * (1 + len(names))
    chosen = 0 if arbiter is None else round(DOUBTFUL_SHARE * images * experiment.policy.samples)
    price = None if arbiter is None else attempt(arbiter.price)
    return Plan(
        name=recipe.name,
        goals=tuple(goal.spec for goal in goals),
        problems=tuple(problems),
        notes=tuple(notes),
        nodes=None if tree is None else len(tree),
        images=None if examples is None else len(examples),
        tuning_images=experiment.sizes[0],
        heldout_images=heldout,
        stages=stages,
        power=tuple(power for goal in goals for power in analyse_power(goal, experiment.sizes[0])),
        vlm={"kind": recipe.vlm.kind, "model": recipe.vlm.model},
        vlm_calls=images * experiment.policy.samples,
        llm_calls=replies * proposals * len(names),
        # The runs that are tuned for a rating, and every template on the held-out images.
        judge_calls=len(judged)
        * (max(asked + drafts for _, asked in races) + heldout * (1 + len(names))),
        judge=None if recipe.judge is None or not judged else recipe.judge.model,
        arbiter=None if arbiter is None else recipe.mapper.arbiter or "given in Python",
        arbiter_calls=chosen,
        arbiter_usd=None if price is None else price * chosen,
        max_off_tree=recipe.max_off_tree,
    )
