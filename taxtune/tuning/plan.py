"""What a run will do, and what stands in its way, before it does anything: `--dry-run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from taxtune.atomic import check_folder
from taxtune.errors import TaxtuneError
from taxtune.recipe import LLMProposerSettings
from taxtune.tracking.store import check_store
from taxtune.tuning.history import check_unused
from taxtune.tuning.objective import ObjectiveKind
from taxtune.tuning.session import Session

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


def make_plan(session: Session, kinds: Sequence[ObjectiveKind] = (), *, resume: bool = False) -> Plan:
    """Returns the plan of a tuning run, or of one run an objective; tries everything but asks no model anything.

    Args:
        session: The recipe and the folder of the run.
        kinds: The objectives of a comparison; empty for a tuning run.
        resume: Whether the run may go on with one that is in the folder.
    """
    recipe = session.recipe
    objectives = tuple(kinds) or (recipe.objective.kind,)
    problems: list[str] = []

    def attempt(step: Callable[[], Any]) -> Any:
        try:
            return step()
        except TaxtuneError as error:
            # A later step that needs an earlier one fails with the same words; say them once.
            if str(error) not in problems:
                problems.append(str(error))
            return None

    taxonomy = attempt(lambda: session.taxonomy)
    # Without a tree there are no labels to look up: the data's own problems show once the tree is mended.
    examples = attempt(lambda: session.examples) if taxonomy is not None else None
    splits = attempt(lambda: session.splits) if examples is not None else None
    trivial = attempt(lambda: session.trivial) if splits is not None else None
    if splits is not None:
        attempt(lambda: session.information)
        attempt(session.check_baseline)
    if taxonomy is not None:
        attempt(lambda: session.mapper)
    vlm = attempt(lambda: session.vlm)
    notes = () if vlm is None else tuple(attempt(vlm.check) or ())
    proposer = attempt(lambda: session.proposer)
    if proposer is not None:
        attempt(proposer.check)
    judged = "lave" in objectives
    judge = None
    if judged:
        # A recipe without a judge says so when it is read; a comparison may ask for one that it does not name.
        lave = attempt(lambda: session.lave)
        notes += () if lave is None else tuple(attempt(lave.check) or ())
    attempt(lambda: _check_output(session, kinds, resume=resume))
    tracking = recipe.tracking
    if tracking.mlflow:
        attempt(lambda: check_store(session.folder, tracking.uri))

    tuning, heldout = recipe.data.tuning, recipe.data.heldout
    proposals = recipe.iterations * len(objectives)
    # The run that is tuned for LAVE, and every template on the held-out images.
    judge_calls = tuning * (1 + recipe.iterations) + heldout * (1 + len(objectives))
    if judged and splits is not None and lave is not None:
        judge = attempt(lambda: _judge_price(session, judge_calls))
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
        vlm_calls=tuning * (1 + proposals) + heldout * (1 + len(objectives)),
        judge=judge,
        judge_calls=judge_calls if judged else 0,
        llm_calls=proposals if asks_llm else 0,
        llm_calls_at_most=3 * proposals if asks_llm else 0,
        max_off_tree=recipe.max_off_tree,
    )


def _check_output(session: Session, kinds: Sequence[ObjectiveKind], *, resume: bool) -> None:
    check_folder(session.folder)
    folders = [session.folder / kind for kind in kinds] or [session.folder]
    for folder in folders:
        if not resume:
            check_unused(folder)


def _judge_price(session: Session, calls: int) -> str:
    """Returns the judge's name with what a call and all of them come to; no price where litellm knows none."""
    from taxtune.models.api_errors import load_litellm

    settings = session.recipe.judge
    assert settings is not None
    example = session.splits.tuning[0]
    # Four characters a token is near enough for English, and so are sixty tokens for a reason and a rating.
    tokens = len(session.answer_judge.prompt("an answer of some words", example.target)) // 4
    told = f"{settings.model}, about {tokens:,} tokens a call"
    if settings.model.partition(":")[0] == "local":
        return told
    try:
        sent, written = load_litellm().cost_per_token(settings.model, prompt_tokens=tokens, completion_tokens=60)
    except Exception:  # a model that litellm knows no price of
        return told
    return f"{told}, about ${calls * (sent + written):.2f} for all calls" if sent + written > 0 else told
