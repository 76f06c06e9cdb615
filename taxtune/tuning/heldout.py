"""The held-out split: templates asked about the same images, once, and compared image by image."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.data import Example
from taxtune.errors import VLMError
from taxtune.metrics.hierarchical import score
from taxtune.metrics.information import Information, information_scores
from taxtune.metrics.ranks import bootstrap_ranks, rank_scores
from taxtune.metrics.statistics import (
    PairedDifference,
    Sample,
    bootstrap,
    hierarchical_sample,
    information_sample,
    paired_bootstrap,
)
from taxtune.taxonomy import Domain, Taxonomy
from taxtune.tuning.evaluation import Evaluation, Evaluator
from taxtune.tuning.records import ExampleRow, FullTreeScores, HeldoutResult, TemplateScores
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
    placed = {
        name: _Placed.of(
            [e.rows[i] for i in keep], as_child=evaluator.off_tree == "child", rated=evaluator.judge is not None
        )
        for name, e in evaluations.items()
    }
    seed, part, information = session.recipe.seed, session.part, evaluator.information
    results = tuple(
        HeldoutResult(
            name=name,
            template=templates[name],
            scores=TemplateScores(
                **score(session.taxonomy, found.nodes, target, off_tree=found.as_child).as_dict(),  # type: ignore[arg-type]
                **information_scores(information, found.nodes, target, off_tree=found.as_child).as_dict(),  # type: ignore[arg-type]
                **{key: float(values.mean()) for key, values in found.means.items()},  # type: ignore[arg-type]
                ranks=tuple(rank_scores(session.taxonomy, found.nodes, target, off_tree=found.as_child)),
            ),
            intervals=bootstrap(*found.samples(session.taxonomy, target, information), seed=seed),
            rows=evaluations[name].rows,
            full=None if part is None else _on_full(part, found, target, seed),
            off_tree_as=evaluator.off_tree,
            ranks=tuple(bootstrap_ranks(session.taxonomy, found.nodes, target, off_tree=found.as_child, seed=seed)),
        )
        for name, found in placed.items()
    )
    differences = _differences(
        {name: found.samples(session.taxonomy, target, information) for name, found in placed.items()}, seed
    )
    full = {} if part is None else {name: [_full_sample(part, found, target)] for name, found in placed.items()}
    return Judgement(results, differences, _differences(full, seed))


@dataclass(frozen=True, slots=True)
class _Placed:
    """The answers to one template, on the images that were answered for all.

    Attributes:
        nodes: Their nodes, shape (n,).
        as_child: Which count as a child of the root that is never right, shape (n,). On the whole taxonomy it is a
            child of *its* root: what a part lacks may be anywhere outside of it, or nowhere, so that nothing on the way
            from the root to the part is said.
        means: By score, values whose mean it is, each of shape (n,).
    """

    nodes: NDArray[np.int64]
    as_child: NDArray[np.bool_]
    means: dict[str, NDArray[np.float64]]

    @classmethod
    def of(cls, rows: Sequence[ExampleRow], *, as_child: bool, rated: bool) -> _Placed:
        keys = ("abstained", "off_tree", *(("lave",) if rated else ()))
        return cls(
            np.array([row.node for row in rows], dtype=np.int64),
            np.array([row.off_tree and as_child for row in rows], dtype=bool),
            {key: np.array([getattr(row, key) for row in rows], dtype=np.float64) for key in keys},
        )

    def samples(self, taxonomy: Taxonomy, target: NDArray[np.int64], information: Information) -> list[Sample]:
        """Returns what the scores on the tree, in bits, and the other means are made of."""
        return [
            hierarchical_sample(taxonomy, self.nodes, target, off_tree=self.as_child),
            information_sample(information, self.nodes, target, off_tree=self.as_child),
            *(Sample.mean(key, values) for key, values in self.means.items()),
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


def _differences(samples: Mapping[str, Sequence[Sample]], seed: int) -> Differences:
    """Returns the differences of all pairs of templates, the later minus the earlier one."""
    return {
        f"{later} - {earlier}": paired_bootstrap(*zip(samples[later], samples[earlier], strict=True), seed=seed)
        for earlier, later in itertools.combinations(samples, 2)
    }
