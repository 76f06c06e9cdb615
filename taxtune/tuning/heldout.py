"""The held-out split: templates asked about the same images, once, and compared image by image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from taxtune.data import Example
from taxtune.errors import VLMError
from taxtune.metrics.hierarchical import score
from taxtune.metrics.statistics import PairedDifference, bootstrap_scores, paired_bootstrap
from taxtune.tuning.evaluation import Evaluation, Evaluator
from taxtune.tuning.records import HeldoutResult
from taxtune.tuning.session import Session

__all__ = ["judge"]

OnHeldout = Callable[[str, int, int], None]


def judge(
    session: Session,
    evaluator: Evaluator,
    templates: Mapping[str, str],
    on_heldout: OnHeldout | None = None,
    *,
    examples: Sequence[Example] | None = None,
) -> tuple[tuple[HeldoutResult, ...], dict[str, dict[str, PairedDifference]]]:
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
        The results in the order of `templates`, and the paired differences keyed "later - earlier", then by metric.

    Raises:
        VLMError: If more calls failed than the recipe's `max_missing` allows.
    """
    examples = session.splits.heldout if examples is None else examples
    evaluations: dict[str, Evaluation] = {}
    for name, template in templates.items():

        def on_answers(done: int, _: int, name: str = name) -> None:
            if on_heldout is not None:
                on_heldout(name, done, len(examples))

        evaluations[name] = evaluator.evaluate(template, examples, on_answers)

    answered = np.array([[row.node is not None for row in e.rows] for e in evaluations.values()]).all(axis=0)
    missing = len(examples) - int(answered.sum())
    if missing > session.recipe.max_missing * len(examples):
        first = next(reason for e in evaluations.values() for reason in e.failures).rstrip(".")
        raise VLMError(
            f"{missing} of the {len(examples)} images lack an answer to some template; first: {first}.",
            remedy="Give the same command again when the model answers; answers that were given are kept. If it will "
            "not answer for these images, raise max_missing or take them out.",
        )
    keep = np.flatnonzero(answered).tolist()
    target = np.array([examples[i].target for i in keep], dtype=np.int64)
    placed = {name: np.array([e.rows[i].node for i in keep], dtype=np.int64) for name, e in evaluations.items()}
    seed = session.recipe.seed
    results = tuple(
        HeldoutResult(
            name=name,
            template=templates[name],
            scores=score(session.taxonomy, nodes, target),
            intervals=bootstrap_scores(session.taxonomy, nodes, target, seed=seed),
            rows=evaluations[name].rows,
        )
        for name, nodes in placed.items()
    )
    names = list(templates)
    differences = {
        f"{later} - {earlier}": paired_bootstrap(session.taxonomy, placed[later], placed[earlier], target, seed=seed)
        for i, earlier in enumerate(names)
        for later in names[i + 1 :]
    }
    return results, differences
