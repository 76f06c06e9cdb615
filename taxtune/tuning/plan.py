"""What a run will do, and what stands in its way, before it does anything: `--dry-run`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from taxtune.atomic import check_folder
from taxtune.errors import TaxtuneError
from taxtune.models import AnswerStore, Rates
from taxtune.models.names import is_local
from taxtune.recipe import AgentProposerSettings, ApiVLMSettings, LLMProposerSettings, LocalVLMSettings
from taxtune.tracking.store import check_store
from taxtune.tuning.account import Asked, Forecast, measured_rates, price
from taxtune.tuning.experiment import check_baseline, label_names, template_variables
from taxtune.tuning.from_recipe import Parts
from taxtune.tuning.history import read_records
from taxtune.tuning.metrics import MeasureMetric
from taxtune.tuning.objective import asks_a_model
from taxtune.tuning.outlook import Outlook, make_outlook
from taxtune.tuning.records import IterationRecord
from taxtune.tuning.selection import Round
from taxtune.tuning.template import render

__all__ = ["Plan", "make_plan"]

# About so many tokens: what a proposer is told besides the past templates, a template, a reason with a rating.
_INSTRUCTIONS, _TEMPLATE, _RATING = 2000, 300, 60


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
        stages: The rounds of the race: how many templates are asked about how many of the tuning images.
        outlook: What the tuning images can show; None where they cannot be had.
        vlm: What is known of the model, by name.
        judge: The language model that rates the answers; None where none is asked.
        forecast: What is asked at most, and what that costs as far as it is known. Answers in the store and repeated
            questions make it fewer.
        max_off_tree: Largest share of the baseline's answers that may be off the tree; above it the run ends.
        repeats: How many runs an objective, with other seeds.
    """

    name: str
    objectives: tuple[str, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    nodes: int | None
    images: int | None
    tuning_images: int
    heldout_images: int
    stages: tuple[Round, ...]
    outlook: Outlook | None
    vlm: dict[str, Any]
    forecast: Forecast
    judge: str | None = None
    max_off_tree: float = 0.5
    repeats: int = 1

    def as_dict(self) -> dict[str, Any]:
        """Returns the plan as plain values."""
        return asdict(self) | {"forecast": self.forecast.as_dict()}


def make_plan(parts: Parts, objectives: Sequence[str] = (), *, repeats: int = 1, resume: bool = False) -> Plan:
    """Returns the plan of a tuning run, or of one run an objective; tries everything but asks no model anything.

    Args:
        parts: The recipe and the folder of the run.
        objectives: The objectives of a comparison; empty for a tuning run.
        repeats: How many runs, with other seeds.
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

    said: list[str] = []
    taxonomy = attempt(lambda: parts.taxonomy)
    # Without a tree there are no labels to look up: the data's own problems show once the tree is mended.
    examples = attempt(lambda: parts.examples) if taxonomy is not None else None
    splits = attempt(lambda: parts.splits) if examples is not None else None
    outlook = attempt(lambda: _outlook(parts, objectives)) if splits is not None else None
    if splits is not None:
        said = attempt(lambda: _check_baseline(parts)) or []
    if taxonomy is not None:
        attempt(lambda: parts.mapper)
    vlm = attempt(lambda: parts.model)
    notes = (*said, *(() if vlm is None else attempt(getattr(vlm, "check", tuple)) or ()))
    proposer = attempt(lambda: parts.proposer)
    if proposer is not None:
        attempt(proposer.check)
    rated = [name for name in objectives if asks_a_model(name)]
    # A recipe without a judge says so when it is read; a comparison may ask for one that it does not name.
    judges = [metric for name in rated if (metric := attempt(partial(parts.metric, name))) is not None]
    for metric in judges:
        notes += tuple(attempt(metric.check) or ())
    attempt(lambda: _check_output(parts, compared, repeats, resume=resume))
    tracking = recipe.tracking
    if tracking.mlflow:
        attempt(lambda: check_store(parts.folder, recipe.tracking_uri))

    forecast = _forecast(
        parts,
        objectives,
        repeats,
        rated=len(rated),
        metric=judges[0] if judges else None,
        ready=splits is not None,
    )
    return Plan(
        name=recipe.name,
        objectives=objectives,
        problems=tuple(problems),
        notes=notes,
        nodes=None if taxonomy is None else len(taxonomy),
        images=None if examples is None else len(examples),
        tuning_images=parts.sizes[0],
        heldout_images=parts.sizes[1],
        stages=parts.race(objectives[0])[0],
        outlook=outlook,
        vlm={"kind": recipe.vlm.kind, "model": recipe.vlm.model},
        forecast=forecast,
        judge=None if recipe.judge is None or not rated else recipe.judge.model,
        max_off_tree=recipe.max_off_tree,
        repeats=repeats,
    )


def _outlook(parts: Parts, objectives: Sequence[str]) -> Outlook:
    targets = [example.target for example in parts.splits.tuning]
    goals = [parts.objective(name) for name in objectives]
    return make_outlook(parts.taxonomy, parts.domain, targets, parts.information, goals)


def _check_baseline(parts: Parts) -> list[str]:
    names = label_names(parts.taxonomy, parts.domain, parts.splits)
    return check_baseline(parts.recipe.prompt, names, parts.recipe.source)


def _check_output(parts: Parts, objectives: Sequence[str], repeats: int, *, resume: bool) -> None:
    check_folder(parts.folder)
    parts.check_folder(objectives, repeats if repeats > 1 else None, resume=resume)


def _forecast(
    parts: Parts, objectives: Sequence[str], repeats: int, *, rated: int, metric: MeasureMetric | None, ready: bool
) -> Forecast:
    """Returns what is asked at most, and what that costs as far as it is known.

    Args:
        parts: The recipe and the folder.
        objectives: The objectives, a run each.
        repeats: How many runs an objective.
        rated: How many of the objectives a judge rates.
        metric: The first measure that asks the judge.
        ready: Whether there are images, to reckon with.
    """
    recipe = parts.recipe
    heldout = parts.sizes[1]
    races = [parts.race(name) for name in objectives]
    runs, stages = len(objectives) * repeats, races[0][0]
    proposals = (stages[0].templates - 1) * runs
    # The baseline is asked once for all runs, unless each repeat has samples of its own.
    baselines = 1 if parts.temperature == 0 else repeats
    drafts = 0
    if isinstance(recipe.proposer, AgentProposerSettings) and recipe.limits()[1].vlm_calls is None:
        drafts = recipe.proposer.trial_images * (stages[0].templates - 1)  # of a budget, drafts take templates' place
    raced = sum(asked + drafts for _, asked in races)
    images = repeats * raced - (runs - baselines) * stages[0].images + heldout * (baselines + runs)
    calls = images * parts.policy.calls
    stored, earlier = _stored(parts), measured_rates(_earlier(parts.folder))
    rates = stored or earlier
    tokens_each, bytes_each = _question_size(parts) if ready else (None, None)
    model = Asked(calls, usd=0.0 if isinstance(recipe.vlm, LocalVLMSettings) else None)
    if rates is not None:
        usd = model.usd if rates.usd is None else round(calls * rates.usd, 4)
        model = replace(model, tokens=round(calls * rates.tokens), usd=usd)
    elif isinstance(recipe.vlm, ApiVLMSettings):
        model = _priced(recipe.vlm.model, calls, tokens_each, recipe.vlm.max_tokens)
    proposer = None
    if isinstance(recipe.proposer, LLMProposerSettings):
        tokens = recipe.proposer.max_history_tokens + _INSTRUCTIONS
        proposer = replace(_priced(recipe.proposer.model, proposals, tokens, _TEMPLATE), at_most=3 * proposals)
    elif isinstance(recipe.proposer, AgentProposerSettings):
        s = recipe.proposer
        turns, tokens = proposals * s.max_turns, proposals * s.max_total_tokens
        proposer = Asked(turns, tokens=tokens, usd=price(s.model, tokens, turns * _TEMPLATE))
    judge = None
    if rated and recipe.judge is not None:
        # The runs that are tuned for a rating, and every template on the held-out images.
        longest = max(asked + drafts for _, asked in races)
        ratings = repeats * rated * (longest + heldout * (1 + len(objectives)))
        read = _rating_tokens(parts, metric) if ready and metric is not None else None
        judge = _priced(recipe.judge.model, ratings, read, _RATING)
    forecast = Forecast(
        model,
        proposer=proposer,
        judge=judge,
        at_a_time=_at_a_time(parts),
        bytes_sent=None if bytes_each is None else calls * bytes_each,
    )
    if stored is not None and stored.seconds and (forecast.at_a_time is not None or earlier is None):
        at_a_time = forecast.at_a_time
        return replace(
            forecast,
            seconds=None if at_a_time is None else calls * stored.seconds / at_a_time,
            seconds_each=stored.seconds,
            basis=f"the {stored.answers:,} answers of this model in the store",
        )
    if earlier is None:
        return forecast
    return replace(
        forecast,
        seconds=calls * earlier.seconds,
        basis=f"the {earlier.answers:,} answers that this folder has iterations of",
    )


def _stored(parts: Parts) -> Rates | None:
    """Returns what the model's answers in the store took; nothing is made where there is no store."""
    with suppress(TaxtuneError, OSError):  # what is wrong with the model or the store is a problem of its own
        place = parts.folder / "answers.db"
        if place.exists():
            with AnswerStore(place) as store:
                return store.rates(dict(parts.model.identity))
    return None


def _at_a_time(parts: Parts) -> int | None:
    """Returns how many of the model's answers are under way at a time; None where a server decides."""
    with suppress(TaxtuneError):
        model = parts.model
        workers: int | None = getattr(model, "workers", None)
        if workers is None and isinstance(parts.recipe.vlm, ApiVLMSettings):
            most: object = parts.recipe.vlm.concurrency
            return most if isinstance(most, int) else None
        return workers or 1
    return 1


def _earlier(folder: Path) -> list[IterationRecord]:
    """Returns the iterations that were done in a run's folder, or in those of the runs below it."""
    found: list[IterationRecord] = []
    files: list[Path] = []
    with suppress(OSError):  # what is wrong with the folder is a problem of its own
        files = sorted((*folder.glob("history.jsonl"), *folder.glob("*/history.jsonl")))
    for file in files:
        with suppress(TaxtuneError):  # of another version: then nothing is known
            found += read_records(file.parent)
    return found


def _priced(model: str, calls: int, prompt: int | None, completion: int) -> Asked:
    """Returns calls of so many tokens each with their price; a model on this machine costs nothing."""
    if prompt is None:
        return Asked(calls)
    tokens = calls * (prompt + completion)
    if is_local(model):
        return Asked(calls, tokens=tokens, usd=0.0)
    return Asked(calls, tokens=tokens, usd=price(model, calls * prompt, calls * completion))


def _question_size(parts: Parts) -> tuple[int | None, int | None]:
    """Returns the tokens, as litellm counts them, and the bytes of the baseline about the first tuning image.

    Both are None for a model behind no API, and where they cannot be counted.
    """
    from taxtune.models import Request
    from taxtune.models.api import ApiModel
    from taxtune.models.api_errors import load_litellm

    model = None
    with suppress(TaxtuneError):  # what is wrong with the model is a problem of its own
        model = parts.model
    image = parts.splits.tuning[0]
    if not isinstance(model, ApiModel):
        return None, None
    size = None
    try:
        prompt = render(parts.recipe.prompt.baseline, template_variables(parts.recipe.prompt))
        messages = model.messages(Request(prompt, image.image, image.sha256))
        size = len(json.dumps(messages))
        return int(load_litellm().token_counter(model=model.model, messages=messages)), size
    except Exception:  # a tokenizer that cannot be had, or an image that it cannot count
        return None, size


def _rating_tokens(parts: Parts, metric: MeasureMetric) -> int | None:
    """Returns the tokens that a judge reads to rate an answer; four characters a token is near enough for English."""
    ask = getattr(metric.measure, "prompt", None)
    if ask is None:
        return None
    references = metric.references(parts.splits.tuning[0].target)
    return len(ask(parts.recipe.prompt.question, references, "an answer of some words")) // 4
