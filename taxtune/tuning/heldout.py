"""The held-out split: templates asked about the same images, once, and compared image by image."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from taxtune.data import Example
from taxtune.errors import ModelError
from taxtune.metrics.hierarchical import score
from taxtune.metrics.information import Information, information_scores
from taxtune.metrics.ranks import bootstrap_ranks, rank_scores
from taxtune.metrics.statistics import (
    Sample,
    bootstrap,
    hierarchical_sample,
    information_sample,
    paired_bootstrap,
)
from taxtune.policies import Policy
from taxtune.progress import track
from taxtune.taxonomy import Domain, Taxonomy
from taxtune.tuning.evaluation import Evaluation, Evaluator, check_images_there
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.records import Difference, ExampleRow, FullTreeScores, HeldoutResult, TemplateScores

__all__ = ["OnHeldout", "compare_templates"]

OnHeldout = Callable[[str, int, int], None]


def compare_templates(
    experiment: Experiment,
    evaluator: Evaluator,
    templates: Mapping[str, str],
    on_heldout: OnHeldout | None = None,
    *,
    split: Literal["heldout", "tuning"] = "heldout",
    policies: Mapping[str, Policy] | None = None,
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
        policies: By a template's name, the policy that it is asked with where that is not the evaluator's own.

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
        asking = evaluator.at((policies or {}).get(name, evaluator.policy))
        found = asking.evaluate(template, examples, on_answers)
        evaluations[name] = replace(found, usage=replace(found.usage, seconds=time.monotonic() - start))

    usable = [[row.node is not None and row.unrated is None for row in e.rows] for e in evaluations.values()]
    answered = np.array(usable).all(axis=0)
    missing = len(examples) - int(answered.sum())
    if missing > experiment.max_missing * len(examples):
        check_images_there(examples)
        first = next(reason for e in evaluations.values() for reason in e.failures).rstrip(".")
        what = "an answer" if not evaluator.needs else f"an answer or its {' and '.join(evaluator.needs)}"
        raise ModelError(
            f"{missing} of the {len(examples)} images lack {what} for some template; the first: {first}.",
            remedy="Run the same command again when the model answers; answers so far are saved. If it cannot answer "
            "for these images, raise max_missing (with --resume) or remove the images.",
        )
    keep = np.flatnonzero(answered).tolist()
    target = np.array([examples[i].target for i in keep], dtype=np.int64)
    names = [metric.name for metric in evaluator.metrics]
    placed = {
        name: _Placed.of([e.rows[i] for i in keep], as_child=evaluator.off_tree == "child", metrics=names)
        for name, e in evaluations.items()
    }
    tree, seed, part, information = experiment.taxonomy, experiment.seeds.split, experiment.part, evaluator.information
    with track("bootstrapping intervals"):
        results = tuple(
            HeldoutResult(
                name=name,
                template=templates[name],
                scores=TemplateScores(
                    **score(tree, found.nodes, target, off_tree=found.as_child).as_dict(),  # type: ignore[arg-type]
                    **information_scores(information, found.nodes, target, off_tree=found.as_child).as_dict(),  # type: ignore[arg-type]
                    **{key: float(values.mean()) for key, values in found.shares.items()},  # type: ignore[arg-type]
                    ranks=tuple(rank_scores(tree, found.nodes, target, off_tree=found.as_child)),
                    measures={key: float(np.nanmean(v)) for key, v in found.measures.items() if not np.isnan(v).all()},
                ),
                intervals={
                    key: ends
                    for key, ends in bootstrap(*found.samples(tree, target, information), seed=seed).items()
                    if not np.isnan(ends.estimate)  # a metric that gives no answer a value
                },
                rows=evaluations[name].rows,
                full=None if part is None else _on_full(part, found, target, seed),
                off_tree_as=evaluator.off_tree,
                ranks=tuple(bootstrap_ranks(tree, found.nodes, target, off_tree=found.as_child, seed=seed)),
                usage=evaluations[name].usage,
                judged=evaluations[name].judged,
                split="held-out" if split == "heldout" else split,
            )
            for name, found in placed.items()
        )
        samples = {name: found.samples(tree, target, information) for name, found in placed.items()}
        whole = {} if part is None else {name: [_full_sample(part, found, target)] for name, found in placed.items()}
        return results, tuple(
            Difference(
                later,
                earlier,
                paired_bootstrap(*_pairs(samples[later], samples[earlier]), seed=seed),
                paired_bootstrap(*_pairs(whole[later], whole[earlier]), seed=seed) if whole else {},
            )
            for earlier, later in itertools.combinations(placed, 2)
        )


@dataclass(frozen=True, slots=True)
class _Placed:
    """The answers to one template, on the images that were answered for all.

    Attributes:
        nodes: Their nodes, shape (n,).
        as_child: Which count as a child of the root that is never right, shape (n,). On the whole taxonomy it is a
            child of *its* root: what a part lacks may be anywhere outside of it, or nowhere, so nothing on the way
            from the root to the part is said.
        shares: Which answers say nothing, and which are off the tree, each of shape (n,).
        measures: The values of each metric, NaN where there is none, each of shape (n,).
    """

    nodes: NDArray[np.int64]
    as_child: NDArray[np.bool_]
    shares: dict[str, NDArray[np.float64]]
    measures: dict[str, NDArray[np.float64]]

    @classmethod
    def of(cls, rows: Sequence[ExampleRow], *, as_child: bool, metrics: Sequence[str]) -> _Placed:
        return cls(
            np.array([row.node for row in rows], dtype=np.int64),
            np.array([row.off_tree and as_child for row in rows], dtype=bool),
            {key: np.array([getattr(row, key) for row in rows], dtype=np.float64) for key in ("abstained", "off_tree")},
            {name: np.array([row.measures.get(name) for row in rows], dtype=np.float64) for name in metrics},
        )

    def samples(self, taxonomy: Taxonomy, target: NDArray[np.int64], information: Information) -> list[Sample]:
        """Returns what the scores on the tree, in bits, and the other means are made of."""
        return [
            hierarchical_sample(taxonomy, self.nodes, target, off_tree=self.as_child),
            information_sample(information, self.nodes, target, off_tree=self.as_child),
            *(Sample.mean(key, values) for key, values in {**self.shares, **self.measures}.items()),
        ]


def _full_sample(part: Domain, found: _Placed, target: NDArray[np.int64]) -> Sample:
    return hierarchical_sample(part.full, part.on_full(found.nodes), part.on_full(target), off_tree=found.as_child)


def _on_full(part: Domain, found: _Placed, target: NDArray[np.int64], seed: int) -> FullTreeScores:
    """Returns the scores of the placements on the whole taxonomy."""
    return FullTreeScores(
        domain=part.label,
        root=part.full_label,
        scores=score(part.full, part.on_full(found.nodes), part.on_full(target), off_tree=found.as_child),
        intervals=bootstrap(_full_sample(part, found, target), seed=seed),
    )


def _pairs(a: Sequence[Sample], b: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    """Returns samples in pairs; of a metric that lacks a value on either side the examples that have both."""
    pairs = []
    for one, other in zip(a, b, strict=True):
        names = list(one.parts)
        if len(names) == 1:
            (name,) = names
            both = ~np.isnan(one.parts[name]) & ~np.isnan(other.parts[name])
            if not both.any():
                continue
            if not both.all():
                one, other = (Sample.mean(name, each.parts[name][both]) for each in (one, other))
        pairs.append((one, other))
    return pairs
