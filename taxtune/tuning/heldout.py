"""The held-out split: templates asked about the same images, once, and compared image by image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.data import Example
from taxtune.errors import VLMError
from taxtune.metrics.hierarchical import score
from taxtune.metrics.statistics import (
    PairedDifference,
    bootstrap_mean,
    bootstrap_scores,
    paired_bootstrap,
    paired_mean,
)
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.evaluation import Evaluation, Evaluator
from taxtune.tuning.records import FullTreeScores, HeldoutResult, TemplateScores
from taxtune.tuning.session import Session

__all__ = ["Judgement", "OnHeldout", "judge"]

OnHeldout = Callable[[str, int, int], None]
Differences = dict[str, dict[str, PairedDifference]]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Templates compared on the same images.

    Attributes:
        results: One result a template, in the order given.
        differences: Paired differences keyed "later - earlier", then by metric.
        full_differences: The same on the whole taxonomy; empty unless the recipe restricts it to a part.
    """

    results: tuple[HeldoutResult, ...]
    differences: Differences
    full_differences: Differences


def judge(
    session: Session,
    evaluator: Evaluator,
    templates: Mapping[str, str],
    on_heldout: OnHeldout | None = None,
    *,
    examples: Sequence[Example] | None = None,
) -> Judgement:
    """Asks about the held-out images with each template and compares every later template with every earlier one.

    Scores, intervals and differences are over the images that were answered for *all* templates, so that the templates
    are compared on the same images; the rows keep every image, with the reason where a call failed.

    Args:
        session: The recipe's tree and splits.
        evaluator: Asks and scores.
        templates: Jinja sources by name, the baseline first.
        on_heldout: Called with (name, answers so far, images) after every batch.
        examples: Other images than the held-out split.

    Returns:
        The results in the order of `templates`, and their paired differences.

    Raises:
        VLMError: If more calls failed than the recipe's `max_missing` allows.
        ModelError: If the judge cannot be asked at all.
    """
    examples = session.splits.heldout if examples is None else examples
    evaluations: dict[str, Evaluation] = {}
    for name, template in templates.items():

        def on_answers(done: int, _: int, name: str = name) -> None:
            if on_heldout is not None:
                on_heldout(name, done, len(examples))

        evaluations[name] = evaluator.evaluate(template, examples, on_answers)

    usable = [[row.node is not None and row.unrated is None for row in e.rows] for e in evaluations.values()]
    answered = np.array(usable).all(axis=0)
    missing = len(examples) - int(answered.sum())
    if missing > session.recipe.max_missing * len(examples):
        first = next(reason for e in evaluations.values() for reason in e.failures).rstrip(".")
        what = "an answer" if evaluator.judge is None else "an answer or its rating"
        raise VLMError(
            f"{missing} of the {len(examples)} images lack {what} to some template; first: {first}.",
            remedy="Give the same command again when the model answers; answers that were given are kept. If it will "
            "not answer for these images, raise max_missing (with --resume) or take them out.",
        )
    keep = np.flatnonzero(answered).tolist()
    target = np.array([examples[i].target for i in keep], dtype=np.int64)
    placed = {name: np.array([e.rows[i].node for i in keep], dtype=np.int64) for name, e in evaluations.items()}
    seed = session.recipe.seed
    full = _on_full(session, placed, target, seed)
    ratings: dict[str, NDArray[np.float64]] = {}
    if evaluator.judge is not None:
        ratings = {name: np.array([e.rows[i].lave for i in keep], dtype=np.float64) for name, e in evaluations.items()}
    results = tuple(
        HeldoutResult(
            name=name,
            template=templates[name],
            scores=TemplateScores(
                **score(session.taxonomy, nodes, target).as_dict(),  # type: ignore[arg-type]
                lave=float(ratings[name].mean()) if name in ratings else None,
            ),
            intervals=bootstrap_scores(session.taxonomy, nodes, target, seed=seed)
            | ({"lave": bootstrap_mean(ratings[name], seed=seed)} if name in ratings else {}),
            rows=evaluations[name].rows,
            full=full.get(name),
        )
        for name, nodes in placed.items()
    )
    part = session.part
    differences = _differences(session.taxonomy, placed, target, seed)
    for pair in differences if ratings else ():
        later, earlier = pair.split(" - ")
        differences[pair]["lave"] = paired_mean(ratings[later], ratings[earlier], seed=seed)
    return Judgement(
        results,
        differences,
        {}
        if part is None
        else _differences(part.full, {n: part.on_full(p) for n, p in placed.items()}, part.on_full(target), seed),
    )


def _on_full(
    session: Session, placed: Mapping[str, NDArray[np.int64]], target: NDArray[np.int64], seed: int
) -> dict[str, FullTreeScores]:
    """Returns the scores of the placements on the whole taxonomy; nothing where the run has all of it."""
    part = session.part
    if part is None:
        return {}
    return {
        name: FullTreeScores(
            domain=part.label,
            root=part.full_label,
            scores=score(part.full, part.on_full(nodes), part.on_full(target)),
            intervals=bootstrap_scores(part.full, part.on_full(nodes), part.on_full(target), seed=seed),
        )
        for name, nodes in placed.items()
    }


def _differences(
    taxonomy: Taxonomy, placed: Mapping[str, NDArray[np.int64]], target: NDArray[np.int64], seed: int
) -> Differences:
    names = list(placed)
    return {
        f"{later} - {earlier}": paired_bootstrap(taxonomy, placed[later], placed[earlier], target, seed=seed)
        for i, earlier in enumerate(names)
        for later in names[i + 1 :]
    }
