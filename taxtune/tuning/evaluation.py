"""One template on one set of images: render, ask, place, score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.data import Example
from taxtune.errors import ImageError, ModelError
from taxtune.metrics.hierarchical import precision_recall, score
from taxtune.metrics.information import Information, information_scores, information_values, leaf_information
from taxtune.metrics.ranks import rank_scores
from taxtune.models import Answer, Failure, Model, Reply, ask, count_faults
from taxtune.policies import DIRECT, Vote
from taxtune.progress import Task, following, track
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import ModelUsage, SampleResult, TemplateScores, Usage
from taxtune.tuning.template import render

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, Placement
    from taxtune.models import AnswerStore
    from taxtune.tuning.metrics import Metric, MetricValues

__all__ = [
    "DraftEvaluator",
    "Evaluation",
    "Evaluator",
    "PlacedAnswer",
    "check_images_there",
    "nodes_of",
    "template_scores",
    "why_unanswered",
]

OnAnswers = Callable[[int, int], None]

_ASKING = "asking"
_IMAGES_AT_ONCE = 16  # in memory, where the mapper looks at them: a photo takes some 50 MB


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


@dataclass(frozen=True, slots=True)
class PlacedAnswer:
    """The node of one image's answer, in the words of `SampleResult`; `not_subject` as in `Placement`."""

    text: str
    node: int
    off_tree: bool
    abstained: bool
    stage: str
    confidence: float | None
    votes: tuple[int, ...] = ()
    not_subject: bool = False


class Evaluator:
    """Asks a VLM with a template and scores the answers on the taxonomy.

    Args:
        taxonomy: The label tree.
        vlm: Answers the questions.
        mapper: Places the answers.
        store: Keeps the answers; None asks again.
        variables: What a template may refer to.
        metrics: Further metrics of each answer.
        needs: Names of the metrics without which an answer does not count, since the objective needs them.
        off_tree: How answers off the tree are scored: "child" (of the root, never right) or "root".
        information: Weights of the nodes; by their share of leaves where left out.
        policy: How often an image is asked about, and how the answers make one place.
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
        off_tree: str = "child",
        information: Information | None = None,
        policy: Vote = DIRECT,
    ) -> None:
        self.taxonomy = taxonomy
        self.vlm = vlm
        self.mapper = mapper
        self.store = store
        self.variables = variables
        self.metrics = tuple(metrics)
        self.needs = tuple(needs)
        self.off_tree = off_tree
        self.information = information or leaf_information(taxonomy)
        self.policy = policy

    def evaluate(self, template: str, examples: Sequence[Example], on_answers: OnAnswers | None = None) -> Evaluation:
        """Returns the rows and scores of `template` on `examples`.

        A failed call gives a row without hP and hR and is left out of the means; it is never scored as zero. So is an
        answer that a metric gives no value left out of that metric's mean.

        Args:
            template: The Jinja source; rendered once, as its variables are the same for every image.
            examples: The images with their target nodes.
            on_answers: Called with (images answered so far, of them from the store) after every batch.

        Raises:
            TemplateError: If the template cannot be rendered.
            ModelError: If the model cannot answer at all (no weights, no key).
            TaxtuneError: If a metric cannot be taken.
        """
        prompts = [render(template, self.variables)]
        calls = self.policy.samples
        questions = [request for e in examples for request in self.policy.requests(prompts, e.image, e.sha256)]

        def tell(task: Task) -> None:
            if on_answers is not None and task.what == _ASKING and not task.ended:
                on_answers(task.done // calls, task.stored // calls)

        with following(tell), count_faults() as faults:
            replies = ask(self.vlm, questions, self.store, what=_ASKING)

        by_image = [replies[start : start + calls] for start in range(0, len(replies), calls)]
        with track("placing"):
            placed = self.settle(by_image, [example.image for example in examples])
        rows = self._rows(examples, by_image, placed)
        with track("scoring"):
            rows, taken = self._measure(rows, examples)
        answered = [row for row in rows if row.node is not None]
        scores = None
        if answered and not any(np.isnan(taken[name].values).all() for name in self.needs):
            scores = template_scores(self.taxonomy, self.information, answered, off_tree=self.off_tree)
        retryable = sum(isinstance(reply, Failure) and reply.retryable for reply in replies)
        return Evaluation(
            tuple(rows),
            scores,
            _usage(replies, faults, [values.account for values in taken.values() if values.account is not None]),
            retryable + sum(values.retryable for values in taken.values()),
        )

    def _rows(
        self, examples: Sequence[Example], by_image: Sequence[Sequence[Reply]], placed: Mapping[int, PlacedAnswer]
    ) -> list[SampleResult]:
        nodes = np.array([answer.node for answer in placed.values()], dtype=np.int64)
        target = np.array([examples[i].target for i in placed], dtype=np.int64)
        as_child = None
        if self.off_tree == "child":
            as_child = np.array([answer.off_tree for answer in placed.values()], dtype=bool)
        values = np.stack(
            [
                *precision_recall(self.taxonomy, nodes, target, off_tree=as_child),
                *information_values(self.information, nodes, target, off_tree=as_child),
            ],
            axis=1,
        )
        measured = dict(zip(placed, values.tolist(), strict=True))
        rows = []
        for i, example in enumerate(examples):
            truth = "/".join(self.taxonomy.path(example.target))
            row = SampleResult(example.id, example.image.name, example.target, truth)
            if i not in placed:
                rows.append(replace(row, failure=why_unanswered(by_image[i])))
                continue
            answer = placed[i]
            hp, hr, ihp, ihr, remaining, wrong = measured[i]
            rows.append(
                replace(
                    row,
                    answer=answer.text,
                    node=answer.node,
                    placement="/".join(self.taxonomy.path(answer.node)),
                    stage=answer.stage,
                    confidence=answer.confidence,
                    hp=hp,
                    hr=hr,
                    abstained=answer.abstained,
                    from_store=all(isinstance(reply, Answer) and reply.cached for reply in by_image[i]),
                    off_tree=answer.off_tree,
                    ihp=ihp,
                    ihr=ihr,
                    remaining_uncertainty=remaining,
                    misinformation=wrong,
                    votes=answer.votes,
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

    def settle(self, by_image: Sequence[Sequence[Reply]], images: Sequence[Path]) -> dict[int, PlacedAnswer]:
        """Returns where the policy puts each image that was answered, by the image's place in the list.

        An image is not answered where a call failed that may yet succeed, or all failed. What a model refuses to say is
        no vote, and so speaks for no node below the root.

        Args:
            by_image: The replies to each image's requests, as many as the policy's `calls`.
            images: The image files, as many.
        """
        answered = [
            i
            for i, replies in enumerate(by_image)
            if any(isinstance(reply, Answer) for reply in replies)
            and not any(isinstance(reply, Failure) and reply.retryable for reply in replies)
        ]
        texts = {
            (row, column): reply.text
            for row, i in enumerate(answered)
            for column, reply in enumerate(by_image[i])
            if isinstance(reply, Answer)
        }
        placements = self._place(list(texts.values()), [images[answered[row]] for row, _ in texts])
        if self.policy.samples == 1:
            return {
                answered[row]: PlacedAnswer(
                    text, at.node, at.off_tree, at.abstained, str(at.stage), at.confidence, not_subject=at.not_subject
                )
                for (row, _), text, at in zip(texts, texts.values(), placements, strict=True)
            }
        nodes = np.full((len(answered), self.policy.samples), -1, dtype=np.int64)
        outside = np.zeros(nodes.shape, dtype=bool)
        for cell, at in zip(texts, placements, strict=True):
            nodes[cell], outside[cell] = self.taxonomy.root if at.off_tree else at.node, at.not_subject
        voted, shares = self.policy.place(self.taxonomy, nodes)
        placed = {}
        for row, i in enumerate(answered):
            node = int(voted[row])
            counts = Counter(reply.text for reply in by_image[i] if isinstance(reply, Answer))
            placed[i] = PlacedAnswer(
                "; ".join(f"{text} ({n} of {self.policy.samples})" for text, n in counts.most_common()),
                node,
                off_tree=False,
                abstained=node == self.taxonomy.root,
                stage="vote",
                confidence=float(shares[row]),
                votes=tuple(nodes[row].tolist()),
                not_subject=node == self.taxonomy.root and 2 * int(outside[row].sum()) > self.policy.samples,
            )
        return placed

    def _place(self, texts: Sequence[str], files: Sequence[Path]) -> list[Placement]:
        if not self.mapper.similarity.needs_images:
            return self.mapper.place(texts)
        from taxtune.data.images import load_image

        placements: list[Placement] = []
        for start in range(0, len(texts), _IMAGES_AT_ONCE):
            chosen = slice(start, start + _IMAGES_AT_ONCE)
            images = [load_image(file) for file in files[chosen]]
            placements += self.mapper.place(texts[chosen], images)
        return placements


class DraftEvaluator:
    """Asks about the drafts that a proposer tries in one iteration; the `ask` of its `Goal`.

    Args:
        evaluator: Asks and scores.
        examples: The tuning images that an iteration asks about first.
        most: Most images to ask about, over all drafts; None for no bound.
        max_missing: Largest share of images without an answer before the run stops.
        on_answers: Called with (answers so far, of them from the store) after every batch.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        examples: Sequence[Example],
        *,
        most: int | None = None,
        max_missing: float = 0.1,
        on_answers: OnAnswers | None = None,
    ) -> None:
        self._evaluator, self._examples = evaluator, examples
        self._most, self._max_missing, self._on_answers = most, max_missing, on_answers
        self._images: dict[str, int] = {}
        self._usage = Usage()

    def __call__(self, template: str, images: int) -> tuple[SampleResult, ...]:
        """Returns the rows of a checked template on the first images, fewer where the budget ends.

        Raises:
            ModelError: If the model is out of reach; answers so far are in the store.
        """
        known = self._images.get(template, 0)
        if self.left is not None:
            images = min(images, known + self.left)
        if images == 0:
            return ()
        evaluation = self._evaluator.evaluate(template, self._examples[:images], self._on_answers)
        failures = evaluation.failures
        if evaluation.retryable and len(failures) > self._max_missing * len(evaluation.rows):
            raise ModelError(
                f"A draft could not be tried: {len(failures)} of {len(evaluation.rows)} images have no answer; the "
                f"first: {failures[0].rstrip('.')}.",
                remedy="Continue with --resume when the model answers again; answers so far are saved.",
            )
        self._images[template] = max(known, len(evaluation.rows))
        self._usage += evaluation.usage
        return evaluation.rows

    @property
    def left(self) -> int | None:
        """Images that may still be asked about; None where there is no bound."""
        return None if self._most is None else max(0, self._most - sum(self._images.values()))

    def usage(self, submitted: str | None = None) -> Usage:
        """Returns the usage of the drafts but `submitted`, whose images the iteration counts itself."""
        tried = sum(images for template, images in self._images.items() if template != submitted)
        return replace(self._usage, tried=tried)


def nodes_of(
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
    """Returns the scores of rows that all have an answer.

    Args:
        taxonomy: The label tree.
        information: Weights of its nodes.
        rows: The answered images, at least one.
        off_tree: How answers off the tree are scored: "child" or "root".
    """
    nodes, target, as_child = nodes_of(rows, off_tree)
    measures = {name: np.array([row.measures.get(name) for row in rows], dtype=float) for name in rows[0].measures}
    return TemplateScores(
        **score(taxonomy, nodes, target, off_tree=as_child).as_dict(),  # type: ignore[arg-type]
        **information_scores(information, nodes, target, off_tree=as_child).as_dict(),  # type: ignore[arg-type]
        ranks=tuple(rank_scores(taxonomy, nodes, target, off_tree=as_child)),
        abstained=float(np.mean([row.abstained for row in rows])),
        off_tree=float(np.mean([row.off_tree for row in rows])),
        measures={name: float(np.nanmean(each)) for name, each in measures.items() if not np.isnan(each).all()},
    )


def check_images_there(examples: Sequence[Example]) -> None:
    """Checks that no image has gone since the run began: that is no fault of a template or of the model.

    Raises:
        ImageError: If one has.
    """
    gone = [example.image for example in examples if not example.image.exists()]
    if gone:
        raise ImageError(
            f"{len(gone)} of {len(examples)} images are no longer there; the first is this one.",
            file=gone[0],
            remedy="Check that their folder was not moved and that its disk is mounted.",
        )


def why_unanswered(replies: Sequence[Reply]) -> str:
    """Returns why an image has no answer: a failure that may yet succeed comes first."""
    failures = [reply for reply in replies if isinstance(reply, Failure)]
    return min(failures, key=lambda failure: not failure.retryable).reason


def _usage(replies: Sequence[Reply], faults: Mapping[str, int], judges: Sequence[ModelUsage]) -> Usage:
    new = [reply for reply in replies if isinstance(reply, Answer) and not reply.cached]
    costs = [reply.cost_usd for reply in new if reply.cost_usd is not None]
    vlm = ModelUsage(
        calls=len(new),
        from_store=sum(isinstance(reply, Answer) and reply.cached for reply in replies),
        prompt_tokens=sum(reply.prompt_tokens for reply in new),
        completion_tokens=sum(reply.completion_tokens for reply in new),
        cost_usd=sum(costs) if costs else None,
        faults=dict(faults),
    )
    batches = Counter(str(reply.batch) for reply in new if reply.batch is not None)
    return Usage(vlm, judge=sum(judges, ModelUsage()), batches=dict(sorted(batches.items())))
