"""What a run will do, and what stands in its way, before it does anything: `--dry-run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from taxtune.atomic import check_folder
from taxtune.errors import TaxtuneError
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.objective import ObjectiveSpec, asks_a_model
from taxtune.tuning.power import PowerAnalysis, analyse_power
from taxtune.tuning.selection import Round

__all__ = ["Plan", "make_plan"]


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
        max_off_tree: Largest share of the baseline's answers that may be off the tree; above it the run ends.
    """

    name: str
    goals: tuple[ObjectiveSpec, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    nodes: int | None
    images: int | None
    tuning_images: int
    heldout_images: int
    stages: tuple[Round, ...]
    power: tuple[PowerAnalysis, ...]
    vlm: dict[str, Any]
    vlm_calls: int
    llm_calls: int = 0
    judge_calls: int = 0
    judge: str | None = None
    max_off_tree: float = 0.5

    def as_dict(self) -> dict[str, Any]:
        """Returns the plan as plain values."""
        return asdict(self)


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
    recipe, compared = experiment.recipe, tuple(objectives)
    names = compared or (recipe.objective.kind,)
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
    goals = [attempt(partial(experiment.make_objective, name)) for name in names] if splits is not None else []
    if splits is not None:
        notes += attempt(experiment.baseline_notes) or ()
        attempt(lambda: experiment.weights)
    if tree is not None:
        attempt(lambda: experiment.mapper)
    judged = [name for name in names if asks_a_model(name)]
    # A recipe without a judge says so when it is read; a comparison may ask for one that it does not name.
    parts: list[Callable[[], Any]] = [
        lambda: experiment.vlm,
        lambda: experiment.proposer,
        *(partial(experiment.measure, n) for n in judged),
    ]
    made = [attempt(part) for part in parts]
    for each in made:
        notes += attempt(getattr(each, "check", tuple)) or ()
    attempt(lambda: check_folder(experiment.folder))
    attempt(lambda: experiment.check_folder(compared, resume=resume))
    for check in checks:
        attempt(check)

    heldout, calls = experiment.sizes[1], experiment.policy.samples
    races = [experiment.race_of(name) for name in names]
    stages = races[0][0]
    proposals, drafts = stages[0].templates - 1, 0
    proposer: dict[str, Any] = {} if made[1] is None else made[1].identity()
    if experiment.budget.vlm_calls is None:  # of a budget, drafts take templates' place
        drafts = proposer.get("trial_images", 0) * proposals
    replies = proposer.get("max_turns", 3 if proposer.get("kind") == "llm" else 0)
    # Runs that are compared ask about the baseline once.
    images = sum(asked + drafts for _, asked in races) - (len(names) - 1) * stages[0].images
    images += heldout * (1 + len(names))
    return Plan(
        name=recipe.name,
        goals=tuple(goal.spec for goal in goals if goal is not None),
        problems=tuple(problems),
        notes=tuple(notes),
        nodes=None if tree is None else len(tree),
        images=None if examples is None else len(examples),
        tuning_images=experiment.sizes[0],
        heldout_images=heldout,
        stages=stages,
        power=tuple(power for goal in goals if goal is not None for power in analyse_power(goal, experiment.sizes[0])),
        vlm={"kind": recipe.vlm.kind, "model": recipe.vlm.model},
        vlm_calls=images * calls,
        llm_calls=replies * proposals * len(names),
        # The runs that are tuned for a rating, and every template on the held-out images.
        judge_calls=len(judged) * (max(asked + drafts for _, asked in races) + heldout * (1 + len(names))),
        judge=None if recipe.judge is None or not judged else recipe.judge.model,
        max_off_tree=recipe.max_off_tree,
    )
