"""From what a model says of images to the node of each: what the mapper makes of it, and the policy of that."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from taxtune.answers.doubt import find_doubtful
from taxtune.data.context import Value
from taxtune.errors import ModelError
from taxtune.metrics.information import Information, leaf_information
from taxtune.models import Answer, Failure, Reply, Request
from taxtune.policies import DIRECT, NamedNodes, Paths, Posterior, Vote, spread, weighted_paths
from taxtune.policies.allowed import Checklist
from taxtune.progress import note
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import TemplateScores
from taxtune.tuning.shares import cross_fitted

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, Placement

__all__ = ["PlacedAnswer", "Placer", "why_unanswered"]

IntArray = NDArray[np.int64]

_NAMED = 0.5  # share of the probability that the names should hold
_IMAGES_AT_ONCE = 16  # in memory, where the mapper looks at them: a photo takes some 50 MB


@dataclass(frozen=True, slots=True)
class PlacedAnswer:
    """The node of one image's answer, in the words of `SampleResult`; `not_subject` as in `Placement`."""

    answer: str
    node: int
    off_tree: bool
    abstained: bool
    stage: str
    confidence: float | None
    votes: tuple[int, ...] = ()
    doubtful: bool | None = None
    not_subject: bool = False
    way: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    named: float | None = None
    masked: str | None = None


class Placer:
    """Asks about images as a policy does, and puts them on the tree by what was said.

    Args:
        taxonomy: The label tree.
        mapper: Places the answers.
        off_tree: How answers off the tree are scored: "child" (of the root, never right) or "root".
        information: Weights of the nodes; by their share of leaves where left out.
        policy: How often an image is asked about, and how the answers make one place.
        allowed: What may occur where and when; what cannot is placed above.
        value: What a share is chosen for where the policy leaves it open: from scores to a number, larger is better.
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        mapper: Mapper,
        *,
        policy: Vote | Posterior = DIRECT,
        allowed: Checklist | None = None,
        information: Information | None = None,
        value: Callable[[TemplateScores], float] | None = None,
        off_tree: str = "child",
    ) -> None:
        self.taxonomy, self.mapper, self.policy, self.allowed = taxonomy, mapper, policy, allowed
        self.information, self.value, self.off_tree = information or leaf_information(taxonomy), value, off_tree
        self.named = NamedNodes(taxonomy, policy.names) if isinstance(policy, Posterior) else None
        self._warned = False

    def by(self, policy: Vote | Posterior) -> Self:
        """Returns one that places by another policy."""
        other = copy(self)
        other.policy = policy
        other.named = NamedNodes(self.taxonomy, policy.names) if isinstance(policy, Posterior) else None
        return other

    def questions(self, prompt: str, image: Path, sha256: str) -> list[Request]:
        """Makes the requests of the policy about an image (its file and SHA-256), with its rendered prompt."""
        requests = self.policy.requests(prompt, image, sha256)
        candidates = None if self.named is None else self.named.candidates
        return [replace(request, candidates=candidates) for request in requests]

    def settle(
        self,
        by_image: Sequence[Sequence[Reply]],
        images: Sequence[Path],
        targets: Sequence[int] = (),
        contexts: Sequence[Mapping[str, Value]] = (),
    ) -> dict[int, PlacedAnswer]:
        """Returns where the policy puts each image that was answered, by the image's place in the list.

        An image is not answered where a call failed that may yet succeed, or all failed. What a model refuses to say is
        no vote, and so speaks for no node below the root. A vote is doubtful where it comes out elsewhere once its
        answers with a doubtful placement vote for nothing. The targets are for choosing a share, each by the others;
        the contexts, what is known of each image, for what may be there (`allowed`).
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
        doubtful = find_doubtful(self.mapper, placements)
        groups = [] if self.allowed is None else list(self.allowed.groups([contexts[i] for i in answered]))
        if self.named is not None:
            some = [reply for i in answered for reply in by_image[i] if isinstance(reply, Answer)]
            theirs = [targets[i] for i in answered] if targets else []
            return dict(zip(answered, self._by_outcomes(some, placements, theirs, groups), strict=True)) if some else {}
        assert isinstance(self.policy, Vote)
        nodes = np.full((len(answered), self.policy.samples), -1, dtype=np.int64)
        outside = np.zeros(nodes.shape, dtype=bool)
        for cell, at in zip(texts, placements, strict=True):
            nodes[cell], outside[cell] = self.taxonomy.root if at.off_tree else at.node, at.not_subject
        said = nodes.copy()
        for group, lift in groups:
            nodes[group] = np.where(nodes[group] >= 0, lift[nodes[group]], -1)
        if self.policy.samples == 1:
            unsure = [None] * len(texts) if doubtful is None else doubtful.tolist()
            return {
                answered[row]: PlacedAnswer(
                    *(text, int(nodes[row, 0]), at.off_tree),
                    at.abstained or bool(said[row, 0] != nodes[row, 0] == self.taxonomy.root),
                    *(str(at.stage), at.confidence),
                    doubtful=doubt,
                    not_subject=at.not_subject,
                    masked=self._moved(said[row, 0], nodes[row, 0]),
                )
                for ((row, _), text), at, doubt in zip(texts.items(), placements, unsure, strict=True)
            }
        voted, shares = self.policy.place(self.taxonomy, nodes)
        free = self.policy.place(self.taxonomy, said)[0] if groups else voted
        moved: list[bool | None] = [None] * len(answered)
        if doubtful is not None:
            sure = nodes.copy()
            for cell in itertools.compress(texts, doubtful):
                sure[cell] = -1
            moved = (self.policy.place(self.taxonomy, sure)[0] != voted).tolist()
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
                doubtful=moved[row],
                masked=self._moved(free[row], voted[row]),
                not_subject=node == self.taxonomy.root and 2 * int(outside[row].sum()) > self.policy.samples,
            )
        return placed

    def _moved(self, free: int, node: int) -> str | None:
        """Returns the path of where an image would be without the checklist; None where that is no other node."""
        return None if free == node else "/".join(self.taxonomy.path(free))

    def _by_outcomes(
        self,
        replies: Sequence[Answer],
        placements: Sequence[Placement],
        targets: Sequence[int],
        groups: Sequence[tuple[list[int], IntArray]],
    ) -> list[PlacedAnswer]:
        """Returns where a model's own probabilities lead; an answer that names nothing is placed by what it says."""
        assert self.named is not None
        outcomes = [reply.outcomes for reply in replies if reply.outcomes is not None]
        if len(outcomes) < len(replies):
            raise ModelError(
                "The model gives no probabilities of its answers.",
                remedy="Set policy.kind to vote and policy.samples to 8, for shares of several answers.",
            )
        nodes, weights = self.named.weigh(outcomes)
        held = 1 - weights[:, nodes < 0].sum(axis=1)
        if isinstance(self.policy, Posterior) and self.policy.names == "species":
            # What is no species may be a name above one.
            weights[:, nodes < 0] *= (held <= 0)[:, np.newaxis]
        free = paths = weighted_paths(self.taxonomy, nodes, weights)
        if groups:
            parts = []
            for group, lift in groups:
                # What cannot be goes up to what can, and on to the names below that.
                ends = np.where(nodes >= 0, lift[nodes], -1)
                kept = spread(self.taxonomy, ends, weights[group], giving=ends != nodes)
                parts.append(weighted_paths(self.taxonomy, ends, kept))
            order = np.argsort(np.concatenate([group for group, _ in groups]))
            paths = Paths(*(np.concatenate(each)[order] for each in zip(*parts, strict=True)))
        if not self._warned and held.mean() < _NAMED:
            self._warned = True
            note(
                f"the tree's names hold only {held.mean():.0%} of the probability of what the model says: ask for "
                "names as the tree has them, or set policy.names to aliases"
            )
        off = np.array([at.off_tree for at in placements]) & (held == 0)
        both = (paths, free) if groups else (paths,)
        if self.policy.share is not None:
            depths = [each.depths(self.policy.share) for each in both]
        else:
            assert self.value is not None
            how: Any = {"value": self.value, "off_tree": off & (self.off_tree == "child")}
            depths = [cross_fitted(self.taxonomy, self.information, each, targets, **how) for each in both]
        (placed, sure), shares = paths.at(depths[0]), paths.shares
        unmasked, _ = free.at(depths[-1])
        found = []
        for i, (reply, at) in enumerate(zip(replies, placements, strict=True)):
            long = int((paths.nodes[i] >= 0).sum())
            found.append(
                PlacedAnswer(
                    *(reply.text, int(placed[i]), bool(off[i]), bool(placed[i] == self.taxonomy.root and not off[i])),
                    *("posterior", float(sure[i])),
                    not_subject=bool(held[i] == 0 and at.not_subject),
                    way=tuple(paths.nodes[i, :long].tolist()),
                    shares=tuple(shares[i, :long].tolist()),
                    named=float(held[i]),
                    masked=self._moved(unmasked[i], placed[i]),
                )
            )
        return found

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


def why_unanswered(replies: Sequence[Reply]) -> str:
    """Returns why an image has no answer: a failure that may yet succeed comes first."""
    failures = [reply for reply in replies if isinstance(reply, Failure)]
    return min(failures, key=lambda failure: not failure.retryable).reason
