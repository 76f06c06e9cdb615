"""The offline proposers: templates composed from fragments, at random or where a model of the choices leads."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import TemplateError
from taxtune.tuning.proposers.base import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.fragment_files import Fragments, read_fragments
from taxtune.tuning.records import IterationRecord

__all__ = ["FragmentsProposer", "RandomProposer"]

FloatArray = NDArray[np.float64]

_LOOKED_AT = 2_000  # compositions considered for one proposal; each check takes milliseconds
# What a record's noise may be, as a multiple of the variance of a choice's effect.
_NOISE = 2.0 ** np.arange(-6, 9, 0.5)
_CONSTANT = 3.0  # how many times wider the prior of the mean of all compositions is than that of an effect
_RECORDED = 20  # refusals that go into the record
_UNLED = 8  # compositions that are scored before the model leads


class RandomProposer(Proposer):
    """Composes a template from one choice of every slot, drawn uniformly among the compositions that were not tried.

    It learns nothing from the scores, so it is what any other proposer must beat. A proposal is a function of the seed,
    the iteration and what was tried, so a resumed run proposes what an uninterrupted one would have.

    Args:
        fragments: Name of a file in `prompts/fragments/` without its ending, the path of a YAML file or of a folder of
            them, or fragments that were read before.
    """

    name = "random"

    def __init__(self, fragments: str | Path | Fragments = "default") -> None:
        self.fragments = fragments if isinstance(fragments, Fragments) else read_fragments(fragments)

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns the fragments' name and the hash of their content."""
        return {
            "kind": self.name,
            "fragments": self.fragments.name,
            "fragments_digest": self.fragments.digest(),
        }

    def check(self) -> None:
        """Does nothing: the fragments were checked when they were read, and nothing else is needed."""

    def propose(
        self, history: Sequence[IterationRecord], goal: Goal, *, iteration: int, seed: int, check: Check
    ) -> Proposal:
        """Returns a composition that passes `check`; see `Proposer.propose`.

        Raises:
            ProposalFailed: Every composition was refused; `final` if there are no others.
        """
        draw = random.Random(_number(seed, iteration))
        total = self.fragments.compositions
        if total > sys.maxsize:  # more than a range can have; among so many none comes twice
            drawn = [draw.randrange(total) for _ in range(_LOOKED_AT)]
        else:
            drawn = draw.sample(range(total), min(total, _LOOKED_AT))
        tried = {frozenset(record.parameters.items()) for record in history}
        untried = (c for c in map(self.fragments.parameters, drawn) if frozenset(c.items()) not in tried)
        refused: list[tuple[str, str]] = []
        for parameters in self._ordered(untried, history, goal, draw):
            template = self.fragments.compose(parameters)
            try:
                check(template)
            except TemplateError as error:
                refused.append((template, str(error)))
                continue
            return Proposal(template, parameters, rejected=tuple(refused[:_RECORDED]))
        final = len(drawn) == total
        which = f"All {total:,} combinations of the fragments" if final else f"{len(drawn):,} combinations in a row"
        reason = f"{which} have already been tried or are rejected"
        reason += f"; the last reason: {refused[-1][1]}" if refused else "."
        raise ProposalFailed(reason, rejected=tuple(refused[:_RECORDED]), final=final)

    def _ordered(
        self,
        compositions: Iterable[dict[str, str]],
        history: Sequence[IterationRecord],
        goal: Goal,
        draw: random.Random,
    ) -> Iterable[dict[str, str]]:
        """The compositions, which come in random order, in the order in which they are to be checked."""
        return compositions


class FragmentsProposer(RandomProposer):
    """Composes the template of which a model of the choices' effects expects most.

    What the objective maximises and what each of its constraints holds are modelled apart, each as a sum of effects of
    the choices, by Bayesian ridge regression (MacKay, 1992), which estimates from the records how large the effects are
    and how noisy a record is. One draw from the posterior decides (Thompson, 1933), so that choices of which little is
    known are tried too: of the compositions that meet the constraints in that draw, the one with the highest aim.

    A record counts by its number of answers. Those of equally many images were asked about the same ones, which may be
    easy or hard; so that number is in the model like one more choice, and predictions are for the largest.

    Until eight compositions are scored it draws as `RandomProposer` does.

    Args:
        fragments: As for `RandomProposer`.
    """

    name = "fragments"

    def _ordered(
        self,
        compositions: Iterable[dict[str, str]],
        history: Sequence[IterationRecord],
        goal: Goal,
        draw: random.Random,
    ) -> Iterable[dict[str, str]]:
        scored = [
            (record.parameters, record.scores, len(record.rows))
            for record in history
            if record.scores is not None and self.fragments.fits(record.parameters)
        ]
        if len(scored) < _UNLED:
            return compositions
        candidates = list(compositions)
        if not candidates:
            return candidates
        parameters, scores, images = zip(*scored, strict=True)
        lengths = np.unique(images)
        known = np.hstack([self._features(parameters), np.equal.outer(images, lengths)])
        asked = np.hstack([self._features(candidates), np.tile(lengths == lengths[-1], (len(candidates), 1))])
        answers = np.array([each.n for each in scores], dtype=np.float64)
        rng = np.random.default_rng(draw.getrandbits(64))

        def drawn(values: list[float]) -> FloatArray:
            return _drawn_values(known, np.array(values), answers / answers.max(), asked, rng)

        baseline = next((record.scores for record in history if record.iteration == 0), None)
        missed = np.zeros(len(candidates))
        for each in goal.objective.constraints:
            held = drawn([score.get(each.measure) for score in scores])
            missed += np.maximum(each.bound(baseline) - held, 0.0)
        aimed = drawn([goal.objective.aimed(score) for score in scores])
        return [candidates[i] for i in np.lexsort((-aimed, missed))]

    def _features(self, compositions: Sequence[Mapping[str, str]]) -> FloatArray:
        """Which choices each composition has, 0 or 1, and a constant; shape (compositions, choices in all + 1)."""
        choices = [(slot.id, choice.id) for slot in self.fragments.slots for choice in slot.choices]
        column = {choice: index for index, choice in enumerate(choices)}
        features = np.zeros((len(compositions), len(choices) + 1))
        features[:, -1] = _CONSTANT
        chosen = [[column[choice] for choice in each.items()] for each in compositions]
        np.put_along_axis(features, np.array(chosen), 1.0, axis=1)
        return features


def _drawn_values(
    known: FloatArray, values: FloatArray, weights: FloatArray, asked: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Values of compositions in one draw from the posterior of a Bayesian ridge regression.

    Args:
        known: Features of the compositions whose values are known, shape (n, features).
        values: Their values, shape (n,).
        weights: How much each counts, shape (n,).
        asked: Features of the compositions in question, shape (m, features).
        rng: Where the draw comes from.

    Returns:
        The values, shape (m,).
    """
    centre = np.average(values, weights=weights)
    root = np.sqrt(weights)
    left, size, right = np.linalg.svd(known * root[:, None], full_matrices=False)
    along = left.T @ ((values - centre) * root)
    beside = max(float(np.sum(weights * (values - centre) ** 2) - along @ along), 0.0)
    # The evidence for each ratio of noise to effects, at the variance of the effects that suits it best.
    spread = size**2 + _NOISE[:, None]
    variance = (np.sum(along**2 / spread, axis=1) + beside / _NOISE) / len(values)
    if not variance.any():  # all values are the same: nothing is known of any effect
        return np.full(len(asked), centre)
    unseen = len(values) - len(size)
    evidence = -len(values) * np.log(variance) - np.sum(np.log(spread), axis=1) - unseen * np.log(_NOISE)
    best = int(np.argmax(evidence))
    mean = right.T @ (size / spread[best] * along)
    noise = rng.normal(size=known.shape[1])
    noise -= right.T @ ((1.0 - np.sqrt(_NOISE[best] / spread[best])) * (right @ noise))
    return np.asarray(centre + asked @ (mean + np.sqrt(variance[best]) * noise))


def _number(seed: int, *parts: object) -> int:
    """A number that depends on the seed and the parts alone, not on the process."""
    return int.from_bytes(hashlib.sha256(repr((seed, *parts)).encode()).digest()[:8])
