"""One template on one set of images: render, ask, place, score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.data import Example
from taxtune.errors import ImageError
from taxtune.metrics.hierarchical import precision_recall, score
from taxtune.metrics.information import Information, information_scores, information_values, leaf_information
from taxtune.metrics.ranks import rank_scores
from taxtune.models import Answer, Failure, Model, Reply, ask, count_faults
from taxtune.policies import DIRECT, Direct, Policy
from taxtune.progress import Task, following, track
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import ExampleRow, Judged, TemplateScores, Usage, sum_judged
from taxtune.tuning.template import render

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, Placement
    from taxtune.models import AnswerStore
    from taxtune.tuning.metrics import Metric, Taken

__all__ = ["Evaluation", "Evaluator", "Settled", "check_images_there", "why_unanswered"]

OnAnswers = Callable[[int, int], None]

_ASKING = "asking"
_IMAGES_AT_ONCE = 16  # in memory, where the mapper looks at them: a photo takes some 50 MB


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of one template.

    Attributes:
        rows: One row an image, in the order given.
        scores: Scores over the images that were answered; None where none was, or what is tuned for has no value.
        usage: Tokens, cost and how many answers came from the store.
        retryable: Failed calls that may succeed later (rate limits, time-outs, servers that are down), the judge's too.
        judged: What measures asked a language model; None where none did.
    """

    rows: tuple[ExampleRow, ...]
    scores: TemplateScores | None
    usage: Usage
    retryable: int = 0
    judged: Judged | None = None

    @property
    def failures(self) -> list[str]:
        """Why images have no answer, or no value of what the objective needs: one reason an image."""
        reasons = (row.failure or row.unrated for row in self.rows)
        return [reason for reason in reasons if reason is not None]


@dataclass(frozen=True, slots=True)
class Settled:
    """Where one image went, in the words of `ExampleRow`; `not_subject` as in `Placement`, of most answers."""

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
        use_images: Give the images to the mapper's similarity (CLIP image-to-text).
        metrics: What is taken of each answer besides.
        needs: Names of the metrics without which an answer does not count, since the objective needs them.
        off_tree: How answers off the tree are scored: "child" (of the root, never right) or "root".
        information: What the nodes weigh; by their share of leaves where left out.
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
        use_images: bool = False,
        metrics: Sequence[Metric] = (),
        needs: Sequence[str] = (),
        off_tree: str = "child",
        information: Information | None = None,
        policy: Policy = DIRECT,
    ) -> None:
        self.taxonomy = taxonomy
        self.vlm = vlm
        self.mapper = mapper
        self.store = store
        self.variables = variables
        self.use_images = use_images
        self.metrics = tuple(metrics)
        self.needs = tuple(needs)
        self.off_tree = off_tree
        self.information = information or leaf_information(taxonomy)
        self.policy = policy

    def at(self, policy: Policy) -> Evaluator:
        """Returns the same evaluator with another policy."""
        other = copy(self)
        other.policy = policy
        return other

    def evaluate(
        self, template: str | Sequence[str], examples: Sequence[Example], on_answers: OnAnswers | None = None
    ) -> Evaluation:
        """Returns the rows and scores of `template` on `examples`.

        A failed call gives a row without hP and hR and is left out of the means; it is never scored as zero. So is an
        answer that a metric gives no value left out of that metric's mean.

        Args:
            template: The Jinja source; rendered once, as its variables are the same for every image. Several for a
                policy that asks with several.
            examples: The images with their target nodes.
            on_answers: Called with (images answered so far, of them from the store) after every batch.

        Raises:
            TemplateError: If the template cannot be rendered.
            ModelError: If the model cannot answer at all (no weights, no key).
            TaxtuneError: If a metric cannot be taken.
        """
        prompts = [render(each, self.variables) for each in ([template] if isinstance(template, str) else template)]
        calls = self.policy.calls
        questions = [request for e in examples for request in self.policy.requests(prompts, e.image, e.sha256)]

        def tell(task: Task) -> None:
            if on_answers is not None and task.what == _ASKING and not task.ended:
                on_answers(task.done // calls, task.stored // calls)

        with following(tell), count_faults() as faults:
            replies = ask(self.vlm, questions, self.store, what=_ASKING)

        said = [replies[start : start + calls] for start in range(0, len(replies), calls)]
        with track("placing"):
            settled = self.settle(said, [example.image for example in examples])
        answered = list(settled)
        predicted = np.array([settled[i].node for i in answered], dtype=np.int64)
        target = np.array([examples[i].target for i in answered], dtype=np.int64)
        off = np.array([settled[i].off_tree for i in answered], dtype=bool)
        as_child = off if self.off_tree == "child" else None
        measured = np.stack(
            [
                *precision_recall(self.taxonomy, predicted, target, off_tree=as_child),
                *information_values(self.information, predicted, target, off_tree=as_child),
            ],
            axis=1,
        ).tolist()
        rows = []
        values = iter(measured)
        for i, example in enumerate(examples):
            truth = "/".join(self.taxonomy.path(example.target))
            known: dict[str, Any] = {
                "example": example.id,
                "image": example.image.name,
                "target": example.target,
                "truth": truth,
            }
            if i not in settled:
                rows.append(ExampleRow(**known, failure=why_unanswered(said[i])))
                continue
            placed = settled[i]
            hp, hr, ihp, ihr, missing, wrong = next(values)
            rows.append(
                ExampleRow(
                    **known,
                    answer=placed.text,
                    node=placed.node,
                    placement="/".join(self.taxonomy.path(placed.node)),
                    stage=placed.stage,
                    confidence=placed.confidence,
                    hp=hp,
                    hr=hr,
                    abstained=placed.abstained,
                    from_store=all(isinstance(reply, Answer) and reply.cached for reply in said[i]),
                    off_tree=placed.off_tree,
                    ihp=ihp,
                    ihr=ihr,
                    remaining_uncertainty=missing,
                    misinformation=wrong,
                    votes=placed.votes,
                )
            )
        with track("scoring"):
            rows, taken = self._take(rows, examples)
        new = [reply for reply in replies if isinstance(reply, Answer) and not reply.cached]
        costs = [reply.cost_usd for reply in new if reply.cost_usd is not None]
        usage = Usage(
            vlm_prompt_tokens=sum(reply.prompt_tokens for reply in new),
            vlm_completion_tokens=sum(reply.completion_tokens for reply in new),
            vlm_cost_usd=sum(costs) if costs else None,
            asked=len(new),
            from_store=sum(isinstance(reply, Answer) and reply.cached for reply in replies),
            vlm_faults=dict(faults),
            vlm_batches=dict(sorted(Counter(str(reply.batch) for reply in new if reply.batch is not None).items())),
        )
        means = {name: float(np.nanmean(t.values)) for name, t in taken.items() if not np.isnan(t.values).all()}
        scores = None
        if answered and all(name in means for name in self.needs):
            scores = TemplateScores(
                **score(self.taxonomy, predicted, target, off_tree=as_child).as_dict(),  # type: ignore[arg-type]
                **information_scores(self.information, predicted, target, off_tree=as_child).as_dict(),  # type: ignore[arg-type]
                ranks=tuple(rank_scores(self.taxonomy, predicted, target, off_tree=as_child)),
                abstained=float(np.mean([settled[i].abstained for i in answered])),
                off_tree=float(off.mean()),
                measures=means,
            )
        retryable = sum(isinstance(reply, Failure) and reply.retryable for reply in replies)
        retryable += sum(t.retryable for t in taken.values())
        accounts = [t.account for t in taken.values() if t.account is not None]
        return Evaluation(tuple(rows), scores, usage, retryable, sum_judged(accounts))

    def _take(
        self, rows: Sequence[ExampleRow], examples: Sequence[Example]
    ) -> tuple[list[ExampleRow], dict[str, Taken]]:
        """Returns the rows with the metrics' values, and what the metrics said."""
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

    def settle(self, said: Sequence[Sequence[Reply]], images: Sequence[Path]) -> dict[int, Settled]:
        """Returns where the policy puts each image that was answered, by the image's place in the list.

        An image is not answered where a call failed that may yet succeed, or all failed. What a model refuses to say is
        no vote, and so speaks for no node below the root.

        Args:
            said: What came of each image's requests, as many as the policy's `calls`.
            images: The image files, as many.
        """
        answered = [
            i
            for i, replies in enumerate(said)
            if any(isinstance(reply, Answer) for reply in replies)
            and not any(isinstance(reply, Failure) and reply.retryable for reply in replies)
        ]
        texts = {
            (row, column): reply.text
            for row, i in enumerate(answered)
            for column, reply in enumerate(said[i])
            if isinstance(reply, Answer)
        }
        placements = self._place(list(texts.values()), [images[answered[row]] for row, _ in texts])
        nodes = np.full((len(answered), self.policy.calls), -1, dtype=np.int64)
        off, outside = np.zeros(nodes.shape, dtype=bool), np.zeros(nodes.shape, dtype=bool)
        for place, found in zip(texts, placements, strict=True):
            nodes[place], off[place], outside[place] = found.node, found.off_tree, found.not_subject
        if isinstance(self.policy, Direct):
            return {
                answered[row]: Settled(
                    text, at.node, at.off_tree, at.abstained, str(at.stage), at.confidence, not_subject=at.not_subject
                )
                for (row, _), text, at in zip(texts, texts.values(), placements, strict=True)
            }
        places = self.policy.place(self.taxonomy, nodes, off)
        settled = {}
        for row, i in enumerate(answered):
            node, off_tree = int(places.nodes[row]), bool(places.off_tree[row])
            counts = Counter(reply.text for reply in said[i] if isinstance(reply, Answer))
            settled[i] = Settled(
                "; ".join(f"{text} ({n} of {self.policy.calls})" for text, n in counts.most_common()),
                node,
                off_tree,
                abstained=node == self.taxonomy.root and not off_tree,
                stage=str(self.policy.identity()["kind"]),
                confidence=None if places.shares is None else float(places.shares[row]),
                votes=tuple(nodes[row].tolist()),
                not_subject=node == self.taxonomy.root and 2 * int(outside[row].sum()) > self.policy.calls,
            )
        return settled

    def _place(self, texts: Sequence[str], files: Sequence[Path]) -> list[Placement]:
        if not self.use_images:
            return self.mapper.place(texts)
        from taxtune.data.images import load_image

        placements: list[Placement] = []
        for start in range(0, len(texts), _IMAGES_AT_ONCE):
            chosen = slice(start, start + _IMAGES_AT_ONCE)
            images = [load_image(file) for file in files[chosen]]
            placements += self.mapper.place(texts[chosen], images)
        return placements


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
    """Returns why an image has no answer: what may yet succeed comes first."""
    failures = [reply for reply in replies if isinstance(reply, Failure)]
    return min(failures, key=lambda failure: not failure.retryable).reason
