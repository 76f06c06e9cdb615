"""What a run will do, and what stands in its way, before it does anything: `--dry-run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from taxtune.atomic import check_folder
from taxtune.errors import TaxtuneError
from taxtune.recipe import LLMProposerSettings
from taxtune.tracking.store import check_store
from taxtune.tuning.experiment import check_baseline, label_names, trivial_scores
from taxtune.tuning.from_recipe import Parts
from taxtune.tuning.metrics import MeasureMetric
from taxtune.tuning.objective import asks_a_model

__all__ = ["Plan", "make_plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A run before it is run.

    Attributes:
        name: The recipe's name.
        objectives: One tuning run each.
        problems: Everything that is missing or wrong; empty where the run can start.
        notes: What is worth knowing and need not be mended, such as weights that will be downloaded.
        nodes: Nodes of the taxonomy.
        images: Labelled images that the recipe's data has.
        tuning_images: Size of the tuning split.
        heldout_images: Size of the held-out split.
        trivial_hp: hP of always answering the domain's root on the tuning split.
        trivial_hr: hR of always answering the domain's root on the tuning split.
        vlm: What is known of the model, by name.
        judge: The language model that rates the answers, with what a call takes; None where none is asked.
        max_off_tree: Largest share of the baseline's answers that may be off the tree; above it the run ends.
        judge_calls: Answers that it is asked about at most; replies on disk and repeated answers make it fewer.
        vlm_calls: Questions the VLM is asked at most; answers in the store and repeated questions make it fewer.
        llm_calls: Calls of the proposer's model if every first reply is acceptable.
        llm_calls_at_most: Calls of the proposer's model if every iteration needs three replies.
    """

    name: str
    objectives: tuple[str, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    nodes: int | None
    images: int | None
    tuning_images: int
    heldout_images: int
    trivial_hp: float | None
    trivial_hr: float | None
    vlm: dict[str, Any]
    vlm_calls: int
    llm_calls: int
    llm_calls_at_most: int
    judge: str | None = None
    judge_calls: int = 0
    max_off_tree: float = 0.5

    def as_dict(self) -> dict[str, Any]:
        """Returns the plan as plain values."""
        return asdict(self)


def make_plan(parts: Parts, objectives: Sequence[str] = (), *, resume: bool = False) -> Plan:
    """Returns the plan of a tuning run, or of one run an objective; tries everything but asks no model anything.

    Args:
        parts: The recipe and the folder of the run.
        objectives: The objectives of a comparison; empty for a tuning run.
        resume: Whether the run may go on with one that is in the folder.
    """
    recipe = parts.recipe
    compared = tuple(objectives)
    objectives = compared or (recipe.objective.kind,)
    problems: list[str] = []

    def attempt(step: Callable[[], Any]) -> Any:
        try:
            return step()
        except TaxtuneError as error:
            # A later step that needs an earlier one fails with the same words; say them once.
            if str(error) not in problems:
                problems.append(str(error))
            return None

    taxonomy = attempt(lambda: parts.taxonomy)
    # Without a tree there are no labels to look up: the data's own problems show once the tree is mended.
    examples = attempt(lambda: parts.examples) if taxonomy is not None else None
    splits = attempt(lambda: parts.splits) if examples is not None else None
    trivial = (
        attempt(lambda: trivial_scores(parts.taxonomy, parts.domain, parts.splits)) if splits is not None else None
    )
    if splits is not None:
        attempt(lambda: parts.information)
        attempt(lambda: _check_baseline(parts))
    if taxonomy is not None:
        attempt(lambda: parts.mapper)
    vlm = attempt(lambda: parts.model)
    notes = () if vlm is None else tuple(attempt(getattr(vlm, "check", tuple)) or ())
    proposer = attempt(lambda: parts.proposer)
    if proposer is not None:
        attempt(proposer.check)
    rated = [name for name in objectives if asks_a_model(name)]
    judge = None
    # A recipe without a judge says so when it is read; a comparison may ask for one that it does not name.
    judges = [metric for name in rated if (metric := attempt(partial(parts.metric, name))) is not None]
    for metric in judges:
        notes += tuple(attempt(metric.check) or ())
    attempt(lambda: _check_output(parts, compared, resume=resume))
    tracking = recipe.tracking
    if tracking.mlflow:
        attempt(lambda: check_store(parts.folder, tracking.uri))

    tuning, heldout = recipe.data.tuning, recipe.data.heldout
    proposals = recipe.iterations * len(objectives)
    # The runs that are tuned for a rating, and every template on the held-out images.
    judge_calls = len(rated) * (tuning * (1 + recipe.iterations) + heldout * (1 + len(objectives)))
    if splits is not None and judges:
        judge = attempt(lambda: _judge_price(parts, judges[0], judge_calls))
    asks_llm = isinstance(recipe.proposer, LLMProposerSettings)
    return Plan(
        name=recipe.name,
        objectives=objectives,
        problems=tuple(problems),
        notes=notes,
        nodes=None if taxonomy is None else len(taxonomy),
        images=None if examples is None else len(examples),
        tuning_images=tuning,
        heldout_images=heldout,
        trivial_hp=None if trivial is None else trivial[0],
        trivial_hr=None if trivial is None else trivial[1],
        vlm={"kind": recipe.vlm.kind, "model": recipe.vlm.model},
        # The baseline is asked once for all objectives.
        vlm_calls=(tuning * (1 + proposals) + heldout * (1 + len(objectives))) * parts.policy.calls,
        judge=judge,
        judge_calls=judge_calls,
        llm_calls=proposals if asks_llm else 0,
        llm_calls_at_most=3 * proposals if asks_llm else 0,
        max_off_tree=recipe.max_off_tree,
    )


def _check_baseline(parts: Parts) -> None:
    names = label_names(parts.taxonomy, parts.domain, parts.splits)
    check_baseline(parts.recipe.prompt, names, parts.recipe.source)


def _check_output(parts: Parts, objectives: Sequence[str], *, resume: bool) -> None:
    check_folder(parts.folder)
    if not resume:
        parts.check_unused(objectives)


def _judge_price(parts: Parts, metric: MeasureMetric, calls: int) -> str:
    """Returns the judge's name with what a call and all of them come to; no price where litellm knows none."""
    from taxtune.models.api_errors import load_litellm

    settings = parts.recipe.judge
    assert settings is not None
    example = parts.splits.tuning[0]
    render = getattr(metric.measure, "prompt", None)
    if render is None:
        return settings.model
    question = parts.recipe.prompt.question
    # Four characters a token is near enough for English, and so are sixty tokens for a reason and a rating.
    tokens = len(render(question, metric.references(example.target), "an answer of some words")) // 4
    told = f"{settings.model}, about {tokens:,} tokens per call"
    if settings.model.partition(":")[0] == "local":
        return told
    try:
        sent, written = load_litellm().cost_per_token(settings.model, prompt_tokens=tokens, completion_tokens=60)
    except Exception:  # a model that litellm knows no price of
        return told
    return f"{told}, about ${calls * (sent + written):.2f} for all calls" if sent + written > 0 else told
