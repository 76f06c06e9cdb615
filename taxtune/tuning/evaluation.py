"""Templates on a set of images: render, ask, place, score; and several templates compared on the same images."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from taxtune.data import Example
from taxtune.errors import ImageError, ModelError
from taxtune.metrics.confidence import influence_of_doubt
from taxtune.metrics.hierarchical import precision_recall, score
from taxtune.metrics.information import Information, information_scores, information_values
from taxtune.metrics.ranks import bootstrap_ranks, rank_scores
from taxtune.metrics.selective import Selective, climbing_curve, rank_calibration, selective_scores
from taxtune.metrics.statistics import Sample, bootstrap, hierarchical_sample, information_sample, paired_bootstrap
from taxtune.models import Answer, Failure, Model, Reply, Request, ask, count_faults
from taxtune.policies import weighted_paths
from taxtune.progress import track
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.placement import PlacedAnswer, Placer, why_unanswered
from taxtune.tuning.records import (
    Difference,
    HeldoutResult,
    ModelUsage,
    SampleResult,
    TemplateScores,
    Usage,
    selective_values,
)
from taxtune.tuning.shares import paths_of
from taxtune.tuning.template import render_each

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.models import AnswerStore
    from taxtune.tuning.experiment import Experiment
    from taxtune.tuning.metrics import Metric, MetricValues

__all__ = [
    "Evaluation",
    "Evaluator",
    "check_images_there",
    "compare_templates",
    "template_scores",
]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluation of one template.

    Attributes:
        rows: One row per image, in the order given.
        scores: Scores over the images that were answered; None where none was, or what is tuned for has no value.
        usage: Calls to the model and to judges.
        retryable: Failed calls that may succeed later (rate limits, time-outs, servers that are down), the judge's too.
    """

    rows: tuple[SampleResult, ...]
    scores: TemplateScores | None
    usage: Usage
    retryable: int = 0

    @property
    def failures(self) -> list[str]:
        """Why images have no answer, or no value of what the objective needs: one reason for each such image."""
        return [row.missing for row in self.rows if row.missing is not None]


class Evaluator(Placer):
    """Asks a VLM with a template and scores the answers on the taxonomy.

    Args:
        taxonomy: The label tree.
        vlm: Answers the questions.
        mapper: Places the answers.
        store: Keeps the answers; None asks again.
        variables: What a template may refer to.
        metrics: Further metrics of each answer.
        needs: Names of the metrics without which an answer does not count, since the objective needs them.
        placing: Further arguments of `Placer`.
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        vlm: Model,
        mapper: Mapper,
        *,
        store: AnswerStore | None,
        variables: Mapping[str, object],
        metrics: Sequence[Metric] = (),
        needs: Sequence[str] = (),
        **placing: Any,
    ) -> None:
        super().__init__(taxonomy, mapper, **placing)
        self.vlm, self.store, self.variables = vlm, store, variables
        self.metrics, self.needs = tuple(metrics), tuple(needs)

    def asked(self, template: str, examples: Sequence[Example]) -> tuple[list[list[Request]], list[dict[str, Any]]]:
        """Makes the requests of `template` about each example, with what it uses of the example's variables.

        Raises:
            TemplateError: If the template cannot be rendered.
        """
        prompts, contexts = render_each(template, self.variables, [example.context for example in examples])
        asked = [self.questions(prompt, e.image, e.sha256) for prompt, e in zip(prompts, examples, strict=True)]
        return asked, contexts

    def evaluate(self, template: str, examples: Sequence[Example]) -> Evaluation:
        """Returns the rows and scores of `template` on `examples`.

        A failed call gives a row without hP and hR and is left out of the means; it is never scored as zero. So is an
        answer that a metric gives no value left out of that metric's mean.

        Raises:
            TaxtuneError: If the template cannot be rendered, the model cannot answer at all, or a metric not be taken.
        """
        requests, contexts = self.asked(template, examples)
        calls, questions = self.policy.samples, [request for some in requests for request in some]

        with count_faults() as faults:
            replies = ask(self.vlm, questions, self.store, what="asking")

        by_image = [replies[start : start + calls] for start in range(0, len(replies), calls)]
        # What the arbiter of a mapper is asked counts with the judges.
        spent = getattr(getattr(self.mapper, "arbiter", None), "spent", ModelUsage)
        spent()
        with track("placing"):
            images, targets = [example.image for example in examples], [example.target for example in examples]
            placed = self.settle(by_image, images, targets, [example.context for example in examples])
        rows = self._rows(examples, by_image, placed)
        if any(contexts):
            rows = [replace(row, context=used) for row, used in zip(rows, contexts, strict=True)]
        with track("scoring"):
            rows, taken = self._measure(rows, examples)
        answered = [row for row in rows if row.node is not None]
        scores = None
        if answered and not any(np.isnan(taken[name].values).all() for name in self.needs):
            scores = template_scores(self.taxonomy, self.information, answered, off_tree=self.off_tree)
        retryable = sum(isinstance(reply, Failure) and reply.retryable for reply in replies)
        asked = [spent(), *(values.account for values in taken.values() if values.account is not None)]
        return Evaluation(
            tuple(rows),
            scores,
            Usage(ModelUsage.of(replies, faults), judge=sum(asked, ModelUsage())),
            retryable + sum(values.retryable for values in taken.values()),
        )

    def _rows(
        self, examples: Sequence[Example], by_image: Sequence[Sequence[Reply]], placed: Mapping[int, PlacedAnswer]
    ) -> list[SampleResult]:
        nodes = np.array([answer.node for answer in placed.values()], dtype=np.int64)
        target = np.array([examples[i].target for i in placed], dtype=np.int64)
        off = np.array([answer.off_tree and self.off_tree == "child" for answer in placed.values()], dtype=bool)
        values = (
            *precision_recall(self.taxonomy, nodes, target, off_tree=off),
            *information_values(self.information, nodes, target, off_tree=off),
        )
        names = ("hp", "hr", "ihp", "ihr", "remaining_uncertainty", "misinformation")
        scored = dict(zip(placed, np.stack(values, axis=1).tolist(), strict=True))
        rows = []
        for i, example in enumerate(examples):
            row = SampleResult(
                example.id, example.image.name, example.target, "/".join(self.taxonomy.path(example.target))
            )
            if i not in placed:
                rows.append(replace(row, failure=why_unanswered(by_image[i])))
                continue
            facts = asdict(placed[i]) | dict(zip(names, scored[i], strict=True))
            del facts["not_subject"]
            rows.append(
                replace(
                    row,
                    **facts,
                    placement="/".join(self.taxonomy.path(placed[i].node)),
                    from_store=all(isinstance(reply, Answer) and reply.cached for reply in by_image[i]),
                )
            )
        return rows

    def _measure(
        self, rows: Sequence[SampleResult], examples: Sequence[Example]
    ) -> tuple[list[SampleResult], dict[str, MetricValues]]:
        """Returns the rows with the metrics' values, and what the metrics returned."""
        rows = list(rows)
        answered = [i for i, row in enumerate(rows) if row.answer is not None]
        taken = {
            metric.name: metric.take([rows[i] for i in answered], [examples[i] for i in answered])
            for metric in self.metrics
        }
        for place, i in enumerate(answered):
            values = {name: None if np.isnan(t.values[place]) else float(t.values[place]) for name, t in taken.items()}
            remarks = {name: text for name, t in taken.items() if t.remarks and (text := t.remarks[place]) is not None}
            reasons = [
                (taken[name].reasons[place] if taken[name].reasons else None) or f"{name} has no value for this answer"
                for name in self.needs
                if values.get(name) is None
            ]
            rows[i] = replace(rows[i], measures=values, remarks=remarks, unrated=reasons[0] if reasons else None)
        return rows, taken


def compare_templates(
    experiment: Experiment,
    evaluator: Evaluator,
    templates: Mapping[str, str],
    on_heldout: Callable[[str, int], None],
    *,
    split: Literal["heldout", "tuning"] = "heldout",
) -> tuple[tuple[HeldoutResult, ...], tuple[Difference, ...]]:
    """Asks about the held-out images with each template and compares every later template with every earlier one.

    Scores, intervals and differences are over the images that were answered for *all* templates, so that the templates
    are compared on the same images; the rows keep every image, with the reason where a call failed.

    Args:
        experiment: The splits, the seed and `max_missing`.
        evaluator: Asks and scores.
        templates: Jinja sources by name, the baseline first; the results are in this order.
        on_heldout: Called with the name and the number of images before a template is asked.
        split: Which images to ask about.

    Raises:
        ModelError: If more calls failed than `max_missing` allows; an `ImageError` if images are gone.
    """
    examples: Sequence[Example] = getattr(experiment.splits, split)
    evaluations: dict[str, Evaluation] = {}
    for name, template in templates.items():
        on_heldout(name, len(examples))
        start = time.monotonic()
        evaluation = evaluator.evaluate(template, examples)
        usage = replace(evaluation.usage, seconds=time.monotonic() - start)
        evaluations[name] = replace(evaluation, usage=usage)
    usable = [[row.node is not None and row.unrated is None for row in e.rows] for e in evaluations.values()]
    keep = np.flatnonzero(np.array(usable).all(axis=0)).tolist()
    if (missing := len(examples) - len(keep)) > experiment.recipe.max_missing * len(examples):
        check_images_there(examples)
        first = next(reason for e in evaluations.values() for reason in e.failures).rstrip(".")
        what = "an answer" if not evaluator.needs else f"an answer or its {' and '.join(evaluator.needs)}"
        raise ModelError(
            f"{missing} of the {len(examples)} images lack {what} for some template; the first: {first}.",
            remedy="Run the same command again when the model answers; answers so far are saved. If it cannot answer "
            "for these images, raise max_missing (with --resume) or remove the images.",
        )
    seed, samples, results = experiment.recipe.seed, {}, []
    with track("bootstrapping intervals"):
        for name, evaluation in evaluations.items():
            rows, tree = [evaluation.rows[i] for i in keep], evaluator.taxonomy
            nodes, target, off = _nodes(rows, evaluator.off_tree)
            samples[name] = _samples(evaluator, rows)
            intervals = bootstrap(*samples[name], seed=seed)
            doubtful = [row.doubtful for row in rows]
            results.append(
                HeldoutResult(
                    name=name,
                    template=templates[name],
                    scores=template_scores(tree, evaluator.information, rows, off_tree=evaluator.off_tree),
                    # A metric that gives no answer a value has none.
                    intervals={key: ends for key, ends in intervals.items() if not np.isnan(ends.estimate)},
                    rows=evaluation.rows,
                    off_tree_as=evaluator.off_tree,
                    ranks=tuple(bootstrap_ranks(tree, nodes, target, off_tree=off, seed=seed)),
                    usage=evaluation.usage,
                    split="held-out" if split == "heldout" else split,
                    doubt=None
                    if None in doubtful
                    else influence_of_doubt(tree, nodes, target, np.array(doubtful, dtype=bool), off_tree=off),
                    selective=_selective(tree, rows),
                )
            )
        return tuple(results), tuple(
            Difference(later, earlier, paired_bootstrap(*_pairs(samples[later], samples[earlier]), seed=seed))
            for earlier, later in itertools.combinations(evaluations, 2)
        )


def _selective(tree: Taxonomy, rows: Sequence[SampleResult]) -> Selective | None:
    """Returns the worth of the confidence; that of several answers is a share, known at each node on the way down."""
    sure, hp = (np.array([getattr(row, key) for row in rows], dtype=float) for key in ("confidence", "hp"))
    if np.isnan(sure).any():
        return None
    if not all(row.votes or row.way for row in rows):
        return selective_scores(sure, hp)
    votes = all(row.votes for row in rows)
    paths = weighted_paths(tree, [row.votes for row in rows]) if votes else paths_of(tree, rows)
    way = tree, paths.nodes, paths.shares, np.array([row.target for row in rows])
    return selective_scores(sure, hp, hp == 1, rank_calibration(*way), climbing_curve(*way))


def _samples(evaluator: Evaluator, rows: Sequence[SampleResult]) -> list[Sample]:
    """Returns the samples behind the scores on the tree, in bits, and the other means."""
    nodes, target, off = _nodes(rows, evaluator.off_tree)
    values = {key: [getattr(row, key) for row in rows] for key in ("abstained", "off_tree")}
    values["selective_hp"] = selective_values(rows).tolist()
    values |= {metric.name: [row.measures.get(metric.name) for row in rows] for metric in evaluator.metrics}
    return [
        hierarchical_sample(evaluator.taxonomy, nodes, target, off_tree=off),
        information_sample(evaluator.information, nodes, target, off_tree=off),
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


def _nodes(
    rows: Sequence[SampleResult], off_tree: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the nodes of rows, their targets, and which count as a child of the root that is never right."""
    return (
        np.array([row.node for row in rows], dtype=np.int64),
        np.array([row.target for row in rows], dtype=np.int64),
        np.array([row.off_tree and off_tree == "child" for row in rows], dtype=bool),
    )


def template_scores(
    taxonomy: Taxonomy, information: Information, rows: Sequence[SampleResult], *, off_tree: str
) -> TemplateScores:
    """Returns the scores of rows that all have an answer, at least one; `off_tree` as in `Evaluator`."""
    nodes, target, off = _nodes(rows, off_tree)
    measures = {name: np.array([row.measures.get(name) for row in rows], dtype=float) for name in rows[0].measures}
    selective = float(selective_values(rows).mean())
    return TemplateScores(
        **score(taxonomy, nodes, target, off_tree=off).as_dict(),  # type: ignore[arg-type]
        **information_scores(information, nodes, target, off_tree=off).as_dict(),  # type: ignore[arg-type]
        ranks=tuple(rank_scores(taxonomy, nodes, target, off_tree=off)),
        abstained=float(np.mean([row.abstained for row in rows])),
        off_tree=float(np.mean([row.off_tree for row in rows])),
        selective_hp=None if np.isnan(selective) else selective,
        measures={name: float(np.nanmean(each)) for name, each in measures.items() if not np.isnan(each).all()},
    )


def check_images_there(examples: Sequence[Example]) -> None:
    """Raises an `ImageError` if images have gone since the run began, which is no fault of a template or a model."""
    gone = [example.image for example in examples if not example.image.exists()]
    if gone:
        raise ImageError(
            f"{len(gone)} of {len(examples)} images are no longer there; the first is this one.",
            file=gone[0],
            remedy="Check that their folder was not moved and that its disk is mounted.",
        )
