"""The offline proposer: composes templates from fragments, led by Optuna's TPE (Bergstra et al., 2011)."""

from __future__ import annotations

import hashlib
import math
import random
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.errors import TemplateError
from taxtune.tuning.proposers.base import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.fragment_files import Fragments, read_fragments
from taxtune.tuning.records import IterationRecord

if TYPE_CHECKING:
    import optuna

__all__ = ["FragmentsProposer"]

_RESAMPLES = 50
_LOOKED_AT = 2_000  # compositions checked for one proposal; each check takes milliseconds
_RECORDED = 20  # refusals that go into the record


class FragmentsProposer(Proposer):
    """Composes a template from one choice of every slot.

    The first `startup` iterations follow a plan that shows every choice of a slot about equally often; then Optuna's
    tree-structured Parzen estimator draws what is likely to score better. A proposal is a function of the history, the
    iteration and the seed alone: the history is replayed into a study in memory whose sampler is seeded with
    (seed, iteration). So a resumed run proposes what an uninterrupted one would have.

    TPE looks only at the order of the iterations' values. `IterationRecord.value` orders infeasible templates (hR below
    the floor) below all feasible ones, nearer to the floor first, so no constraint has to be distinguished from it.
    Iterations without parameters (the baseline) or without a value (failed) teach TPE nothing.

    Args:
        fragments: Name of a file in `prompts/fragments/` without its ending, the path of a YAML file or of a folder of
            them, or fragments that were read before.
        startup: Iterations that follow the plan.
    """

    name = "fragments"

    def __init__(self, fragments: str | Path | Fragments = "default", *, startup: int = 8) -> None:
        if startup < 1:
            raise ValueError(f"startup must be at least 1, got {startup}")
        self.fragments = fragments if isinstance(fragments, Fragments) else read_fragments(fragments)
        self.startup = startup

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns the fragments' name and the hash of their content."""
        return {
            "kind": self.name,
            "fragments": self.fragments.name,
            "fragments_digest": self.fragments.digest(),
            "startup": self.startup,
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
        tried = {tuple(sorted(trial.parameters.items())) for trial in history if self.fragments.fits(trial.parameters)}
        refused: list[tuple[str, str]] = []
        looked_at: set[tuple[tuple[str, str], ...]] = set()
        for parameters in self._candidates(history, iteration, seed):
            key = tuple(sorted(parameters.items()))
            if key in looked_at:
                continue
            if len(looked_at) >= _LOOKED_AT:
                break
            looked_at.add(key)
            if key in tried:
                continue
            template = self.fragments.compose(parameters)
            try:
                check(template)
            except TemplateError as error:
                refused.append((template, str(error)))
                continue
            return Proposal(template, parameters, rejected=tuple(refused[:_RECORDED]))
        total = self.fragments.compositions
        final = len(looked_at) >= total
        which = f"All {total:,} combinations of the fragments" if final else f"{len(looked_at):,} combinations in a row"
        reason = f"{which} have already been tried or are rejected"
        reason += f"; the last reason: {refused[-1][1]}" if refused else "."
        raise ProposalFailed(reason, rejected=tuple(refused[:_RECORDED]), final=final)

    def _candidates(self, history: Sequence[IterationRecord], iteration: int, seed: int) -> Iterator[dict[str, str]]:
        usable = [t for t in history if t.state == "complete" and t.value is not None and math.isfinite(t.value)]
        usable = [t for t in usable if self.fragments.fits(t.parameters)]
        if len(usable) < self.startup:
            yield self._planned(iteration, seed)
        yield from self._sampled(usable, iteration, seed)
        yield from self._others(iteration, seed)

    def _planned(self, iteration: int, seed: int) -> dict[str, str]:
        """Row `iteration` of a plan that, however long it is, shows the choices of each slot about equally often.

        Each row has the least shown choice of every slot, in the stance that allows that best.
        """
        draw = random.Random(_number(seed, "plan"))
        shown: Counter[tuple[str, str]] = Counter()
        row: dict[str, str] = {}
        for _ in range(max(iteration, 1)):
            rows = []
            for stance in draw.sample(self.fragments.stances or (None,), max(len(self.fragments.stances), 1)):
                row = {}
                for slot in self.fragments.slots:
                    least = [(shown[slot.id, choice.id], draw.random(), choice.id) for choice in slot.allowed(stance)]
                    row[slot.id] = min(least)[-1]
                rows.append(row)
            row = min(rows, key=lambda row: sum(shown[pair] for pair in row.items()))
            shown.update(row.items())
        return row

    def _sampled(self, usable: Sequence[IterationRecord], iteration: int, seed: int) -> Iterator[dict[str, str]]:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "multivariate" is marked experimental in some versions
            sampler = optuna.samplers.TPESampler(
                seed=_number(seed, "tpe", iteration) % 2**32,
                n_startup_trials=min(self.startup, 4),
                multivariate=True,
                constant_liar=False,
            )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        distributions = self._distributions()
        for trial in usable:
            study.add_trial(
                optuna.trial.create_trial(params=dict(trial.parameters), distributions=distributions, value=trial.value)
            )
        for _ in range(_RESAMPLES):
            asked = study.ask(fixed_distributions=distributions)
            parameters = {slot.id: str(asked.params[slot.id]) for slot in self.fragments.slots}
            if self.fragments.fits(parameters):  # TPE does not know which choices contradict each other
                yield parameters
            study.tell(asked, state=optuna.trial.TrialState.FAIL)

    def _distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        import optuna

        return {
            slot.id: optuna.distributions.CategoricalDistribution([choice.id for choice in slot.choices])
            for slot in self.fragments.slots
        }

    def _others(self, iteration: int, seed: int) -> Iterator[dict[str, str]]:
        """Every composition once, in an order that the seed and the iteration decide."""
        total = self.fragments.compositions
        draw = random.Random(_number(seed, "others", iteration))
        start = draw.randrange(total)
        # A stride that shares no factor with the total visits every number, without holding them all.
        stride = draw.randrange(1, total + 1)
        while math.gcd(stride, total) != 1:
            stride = stride % total + 1
        for step in range(total):
            yield self.fragments.parameters((start + step * stride) % total)


def _number(seed: int, *parts: object) -> int:
    """A number that depends on the seed and the parts alone, not on the process."""
    return int.from_bytes(hashlib.sha256(repr((seed, *parts)).encode()).digest()[:8])
