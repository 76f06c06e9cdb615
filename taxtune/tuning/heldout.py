"""The held-out split: templates asked about the same images, once, and compared image by image."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from taxtune.data import Example
from taxtune.errors import ModelError
from taxtune.metrics.ranks import bootstrap_ranks
from taxtune.metrics.statistics import Sample, bootstrap, hierarchical_sample, information_sample, paired_bootstrap
from taxtune.progress import track
from taxtune.tuning.evaluation import Evaluation, Evaluator, check_images_there, nodes_of, template_scores
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.records import Difference, HeldoutResult, SampleResult

__all__ = ["OnHeldout", "compare_templates"]

OnHeldout = Callable[[str, int, int], None]


def compare_templates(
    experiment: Experiment,
    evaluator: Evaluator,
    templates: Mapping[str, str],
    on_heldout: OnHeldout | None = None,
    *,
    split: Literal["heldout", "tuning"] = "heldout",
) -> tuple[tuple[HeldoutResult, ...], tuple[Difference, ...]]:
    """Asks about the held-out images with each template and compares every later template with every earlier one.

    Scores, intervals and differences are over the images that were answered for *all* templates, so that the templates
    are compared on the same images; the rows keep every image, with the reason where a call failed.

    Args:
        experiment: The tree and the splits.
        evaluator: Asks and scores.
        templates: Jinja sources by name, the baseline first.
        on_heldout: Called with (name, answers so far, images) after every batch.
        split: Which images to ask about.

    Returns:
        The results in the order of `templates`, and their paired differences.

    Raises:
        ModelError: If more calls failed than `max_missing` allows.
        ImageError: If they did since images are gone.
        TaxtuneError: If a metric cannot be taken at all.
    """
    examples: Sequence[Example] = getattr(experiment.splits, split)
    evaluations: dict[str, Evaluation] = {}
    for name, template in templates.items():

        def on_answers(done: int, _: int, name: str = name) -> None:
            if on_heldout is not None:
                on_heldout(name, done, len(examples))

        start = time.monotonic()
        evaluation = evaluator.evaluate(template, examples, on_answers)
        seconds = time.monotonic() - start
        evaluations[name] = replace(evaluation, usage=replace(evaluation.usage, seconds=seconds))
    keep = _answered_for_all(experiment, evaluator, evaluations, examples)
    answered = {name: [evaluation.rows[i] for i in keep] for name, evaluation in evaluations.items()}
    seed = experiment.seed
    with track("bootstrapping intervals"):
        samples = {name: _samples(evaluator, rows) for name, rows in answered.items()}
        results = []
        for name, rows in answered.items():
            nodes, target, as_child = nodes_of(rows, evaluator.off_tree)
            tree = evaluator.taxonomy
            intervals = bootstrap(*samples[name], seed=seed)
            results.append(
                HeldoutResult(
                    name=name,
                    template=templates[name],
                    scores=template_scores(tree, evaluator.information, rows, off_tree=evaluator.off_tree),
                    # A metric that gives no answer a value has none.
                    intervals={key: ends for key, ends in intervals.items() if not np.isnan(ends.estimate)},
                    rows=evaluations[name].rows,
                    off_tree_as=evaluator.off_tree,
                    ranks=tuple(bootstrap_ranks(tree, nodes, target, off_tree=as_child, seed=seed)),
                    usage=evaluations[name].usage,
                    split="held-out" if split == "heldout" else split,
                )
            )
        return tuple(results), tuple(
            Difference(later, earlier, paired_bootstrap(*_pairs(samples[later], samples[earlier]), seed=seed))
            for earlier, later in itertools.combinations(answered, 2)
        )


def _answered_for_all(
    experiment: Experiment, evaluator: Evaluator, evaluations: Mapping[str, Evaluation], examples: Sequence[Example]
) -> list[int]:
    """Returns the places of the images that count for every template."""
    usable = [[row.node is not None and row.unrated is None for row in e.rows] for e in evaluations.values()]
    answered = np.array(usable).all(axis=0)
    missing = len(examples) - int(answered.sum())
    if missing > experiment.recipe.max_missing * len(examples):
        check_images_there(examples)
        first = next(reason for e in evaluations.values() for reason in e.failures).rstrip(".")
        what = "an answer" if not evaluator.needs else f"an answer or its {' and '.join(evaluator.needs)}"
        raise ModelError(
            f"{missing} of the {len(examples)} images lack {what} for some template; the first: {first}.",
            remedy="Run the same command again when the model answers; answers so far are saved. If it cannot answer "
            "for these images, raise max_missing (with --resume) or remove the images.",
        )
    return [int(i) for i in np.flatnonzero(answered)]


def _samples(evaluator: Evaluator, rows: Sequence[SampleResult]) -> list[Sample]:
    """Returns the samples behind the scores on the tree, in bits, and the other means."""
    nodes, target, as_child = nodes_of(rows, evaluator.off_tree)
    values = {key: [getattr(row, key) for row in rows] for key in ("abstained", "off_tree")}
    values |= {metric.name: [row.measures.get(metric.name) for row in rows] for metric in evaluator.metrics}
    return [
        hierarchical_sample(evaluator.taxonomy, nodes, target, off_tree=as_child),
        information_sample(evaluator.information, nodes, target, off_tree=as_child),
        *(Sample.mean(key, np.array(each, dtype=np.float64)) for key, each in values.items()),
    ]


def _pairs(a: Sequence[Sample], b: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    """Returns samples in pairs; of a metric that lacks a value on either side the examples that have both."""
    pairs = []
    for one, other in zip(a, b, strict=True):
        if len(one.parts) == 1:
            (name,) = one.parts
            both = ~np.isnan(one.parts[name]) & ~np.isnan(other.parts[name])
            if not both.any():
                continue
            if not both.all():
                one, other = (Sample.mean(name, each.parts[name][both]) for each in (one, other))
        pairs.append((one, other))
    return pairs
