"""One template on one set of images: render, ask, place, score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from taxtune.data import Example
from taxtune.metrics.hierarchical import precision_recall, score
from taxtune.metrics.information import Information, information_scores, information_values, leaf_information
from taxtune.metrics.ranks import rank_scores
from taxtune.models import Answer, Failure, Model, Request, ask
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import ExampleRow, Judged, TemplateScores, Usage
from taxtune.tuning.template import render

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, Placement
    from taxtune.models import AnswerStore
    from taxtune.tuning.judged import AnswerJudge

__all__ = ["Evaluation", "Evaluator"]

OnAnswers = Callable[[int, int], None]

_IMAGES_AT_ONCE = 16  # in memory, where the mapper looks at them: a photo takes some 50 MB


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of one template.

    Attributes:
        rows: One row an image, in the order given.
        scores: Scores over the images that were answered; None where none was, or the judge rated none.
        usage: Tokens, cost and how many answers came from the store.
        retryable: Failed calls that may succeed later (rate limits, time-outs, servers that are down), the judge's too.
        judged: What the judge was asked; None without one.
    """

    rows: tuple[ExampleRow, ...]
    scores: TemplateScores | None
    usage: Usage
    retryable: int = 0
    judged: Judged | None = None

    @property
    def failures(self) -> list[str]:
        """Why images have no answer or, where a judge is asked, no rating: one reason an image."""
        reasons = (row.failure or row.unrated for row in self.rows)
        return [reason for reason in reasons if reason is not None]


class Evaluator:
    """Asks a VLM with a template and scores the answers on the taxonomy.

    Args:
        taxonomy: The label tree.
        vlm: Answers the questions.
        mapper: Places the answers.
        store: Keeps the answers; None asks anew.
        variables: What a template may refer to.
        use_images: Give the images to the mapper's similarity (CLIP image-to-text).
        judge: Rates the answers, for the objective "lave"; None asks no judge.
        off_tree: How answers off the tree are scored: "child" (of the root, never right) or "root".
        information: What the nodes weigh; by their share of leaves where left out.
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
        judge: AnswerJudge | None = None,
        off_tree: str = "child",
        information: Information | None = None,
    ) -> None:
        self.taxonomy = taxonomy
        self.vlm = vlm
        self.mapper = mapper
        self.store = store
        self.variables = variables
        self.use_images = use_images
        self.judge = judge
        self.off_tree = off_tree
        self.information = information or leaf_information(taxonomy)

    def evaluate(self, template: str, examples: Sequence[Example], on_answers: OnAnswers | None = None) -> Evaluation:
        """Returns the rows and scores of `template` on `examples`.

        A failed call gives a row without hP and hR and is left out of the means; it is never scored as zero. So is an
        answer without a rating left out of the mean rating.

        Args:
            template: The Jinja source; rendered once, as its variables are the same for every image.
            examples: The images with their target nodes.
            on_answers: Called with (answers so far, of them from the store) after every batch.

        Raises:
            TemplateError: If the template cannot be rendered.
            ModelError: If the model or the judge cannot answer at all (no weights, no key).
        """
        prompt = render(template, self.variables)
        requests = [Request(prompt, e.image, e.sha256) for e in examples]
        replies = ask(self.vlm, requests, self.store, on_progress=on_answers)

        answered = [i for i, reply in enumerate(replies) if isinstance(reply, Answer)]
        texts = [reply.text for reply in replies if isinstance(reply, Answer)]
        placements = dict(zip(answered, self._place(texts, [examples[i] for i in answered]), strict=True))

        predicted = np.array([placements[i].node for i in answered], dtype=np.int64)
        target = np.array([examples[i].target for i in answered], dtype=np.int64)
        off = np.array([placements[i].off_tree for i in answered], dtype=bool)
        as_child = off if self.off_tree == "child" else None
        measured = np.stack(
            [
                *precision_recall(self.taxonomy, predicted, target, off_tree=as_child),
                *information_values(self.information, predicted, target, off_tree=as_child)[:2],
            ],
            axis=1,
        ).tolist()
        rated = self.judge.rate(texts, target.tolist()) if self.judge is not None else None
        place = {i: j for j, i in enumerate(answered)}

        rows = []
        for i, (example, reply) in enumerate(zip(examples, replies, strict=True)):
            truth = "/".join(self.taxonomy.path(example.target))
            if isinstance(reply, Answer):
                placed = placements[i]
                hp, hr, ihp, ihr = measured[place[i]]
                rows.append(
                    ExampleRow(
                        example=example.id,
                        image=example.image.name,
                        target=example.target,
                        truth=truth,
                        answer=reply.text,
                        node=placed.node,
                        placed="/".join(self.taxonomy.path(placed.node)),
                        stage=str(placed.stage),
                        confidence=placed.confidence,
                        hp=hp,
                        hr=hr,
                        abstained=placed.abstained,
                        from_store=reply.cached,
                        lave=None
                        if rated is None or np.isnan(rated.scores[place[i]])
                        else float(rated.scores[place[i]]),
                        rationale=None if rated is None else rated.rationales[place[i]],
                        unrated=None if rated is None else rated.unrated[place[i]],
                        off_tree=placed.off_tree,
                        ihp=ihp,
                        ihr=ihr,
                    )
                )
            else:
                rows.append(
                    ExampleRow(
                        example=example.id,
                        image=example.image.name,
                        target=example.target,
                        truth=truth,
                        answer=None,
                        node=None,
                        placed=None,
                        stage=None,
                        confidence=None,
                        hp=None,
                        hr=None,
                        abstained=False,
                        from_store=False,
                        failure=reply.reason,
                    )
                )
        new = [reply for reply in replies if isinstance(reply, Answer) and not reply.cached]
        costs = [reply.cost_usd for reply in new if reply.cost_usd is not None]
        usage = Usage(
            vlm_prompt_tokens=sum(reply.prompt_tokens for reply in new),
            vlm_completion_tokens=sum(reply.completion_tokens for reply in new),
            vlm_cost_usd=sum(costs) if costs else None,
            asked=len(new),
            from_store=sum(row.from_store for row in rows),
        )
        scores = None
        if answered and (rated is None or rated.account.rated):
            scores = TemplateScores(
                **score(self.taxonomy, predicted, target, off_tree=as_child).as_dict(),  # type: ignore[arg-type]
                **information_scores(self.information, predicted, target, off_tree=as_child).as_dict(),  # type: ignore[arg-type]
                ranks=tuple(rank_scores(self.taxonomy, predicted, target, off_tree=as_child)),
                lave=None if rated is None else float(np.nanmean(rated.scores)),
                abstained=float(np.mean([placements[i].abstained for i in answered])),
                off_tree=float(off.mean()),
            )
        retryable = sum(isinstance(reply, Failure) and reply.retryable for reply in replies)
        retryable += 0 if rated is None else rated.retryable
        return Evaluation(tuple(rows), scores, usage, retryable, None if rated is None else rated.account)

    def _place(self, texts: Sequence[str], examples: Sequence[Example]) -> list[Placement]:
        if not self.use_images:
            return self.mapper.place(texts)
        from taxtune.data.images import load_image

        placements: list[Placement] = []
        for start in range(0, len(texts), _IMAGES_AT_ONCE):
            chosen = slice(start, start + _IMAGES_AT_ONCE)
            images = [load_image(example.image) for example in examples[chosen]]
            placements += self.mapper.place(texts[chosen], images)
        return placements
