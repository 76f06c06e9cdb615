"""The protocol of proposers, called once per iteration, with its input and output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from taxtune.errors import ProposerError
from taxtune.objective import Objective
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.context import Known
from taxtune.tuning.records import IterationRecord, SampleResult, Turn, Usage

__all__ = ["Check", "Goal", "Proposal", "ProposalFailed", "Proposer"]

Check = Callable[[str], None]
"""Raises `TemplateError` with a reason where a template is not acceptable."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is being tuned for.

    Attributes:
        objective: What makes one template better than another.
        trivial_hp: hP of always answering the domain's root on the tuning split; in bits it is
            `trivial_ihp`.
        trivial_hr: hR of the same; in bits it is `trivial_ihr`.
        domain: What the images show, e.g. "bird"; also the trivial answer.
        question: The recipe's question.
        ranks: Ranks below the domain's root, broadest first.
        tuning_images: Number of images in the tuning split.
        off_tree: How an answer off the tree is scored: "child" (of the root, never right) or
            "root".
        examples: The recipe's example answers, which templates may refer to; often there are none.
        taxonomy: The label tree that the history's nodes are numbers of; None where it is not
            known.
        domain_node: The node of `domain` in it.
        context: What templates may know of each image.
        ask: From a checked template and a number to the rows of the first so many tuning images,
            fewer where the run's budget ends; None where drafts cannot be tried.
        images: The files of the tuning images by id, in their order; empty where they are not
            known.
    """

    objective: Objective
    trivial_hp: float
    trivial_hr: float
    domain: str
    question: str
    ranks: list[str]
    tuning_images: int
    off_tree: str = "child"
    trivial_ihp: float = 1.0
    trivial_ihr: float = 0.0
    examples: tuple[str, ...] = ()
    taxonomy: Taxonomy | None = field(default=None, repr=False)
    domain_node: int = 0
    context: tuple[Known, ...] = ()
    ask: Callable[[str, int], tuple[SampleResult, ...]] | None = field(default=None, repr=False)
    images: Mapping[str, Path] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A template that passed the check.

    Attributes:
        template: The Jinja source.
        parameters: The proposer's own description of it; the fragments' choice by slot. "parent"
            has the numbers of the iterations that it was made from, with commas between, where they
            are known.
        prompt_tokens: Tokens sent to the proposer's model, over all its calls.
        completion_tokens: Tokens that the model wrote.
        cost_usd: Cost of the calls in US dollars; None where the price is unknown.
        rejected: Templates proposed on the way and refused, each with the reason.
        trace: The turns of the proposer's model, for the record.
        trials: Usage of the drafts that were tried on the way; the loop adds what its `ask` used.
    """

    template: str
    parameters: dict[str, str] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    rejected: tuple[tuple[str, str], ...] = ()
    trace: tuple[Turn, ...] = ()
    trials: Usage = field(default_factory=Usage)


class ProposalFailed(ProposerError):  # noqa: N818 - it ends one iteration, not the run
    """No acceptable template in this iteration, which is recorded as failed; the run goes on.

    Args:
        reason: Why, fit for the record and for the proposer's next message.
        final: Whether no later iteration can succeed either (every composition has been tried).
        out_of_reach: Whether the proposer's model did not answer; the next iteration may find that
            it does.
        **spent: What was refused, said and used on the way, as `Proposal` takes it.
    """

    def __init__(
        self, reason: str, *, final: bool = False, out_of_reach: bool = False, **spent: Any
    ) -> None:
        super().__init__(reason)
        self.reason, self.final, self.out_of_reach = reason, final, out_of_reach
        self.spent = Proposal("", **spent)


@runtime_checkable
class Proposer(Protocol):
    """Makes the next template from the history; a subclass inherits everything but `propose`."""

    def propose(
        self,
        history: Sequence[IterationRecord],
        goal: Goal,
        *,
        iteration: int,
        seed: int,
        check: Check,
    ) -> Proposal:
        """Returns a template that passes `check`.

        Args:
            history: Every iteration so far, the baseline first, with its template, its scores and
                its rows (answer, placement or failure of each image).
            goal: What is being tuned for.
            iteration: Number of the iteration that the template is for.
            seed: The run's seed. Random draws depend on (seed, iteration) alone, so that a resumed
                run proposes what an uninterrupted one would have.
            check: Raises `TemplateError` where a template is not acceptable.

        Raises:
            ProposalFailed: No acceptable template was found; the iteration is recorded as failed.
            ProposerError: No proposal can be made (no key, no server); the run stops and can be
                resumed.
        """
        ...

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns plain values of all that can change a proposal, never a key or a password."""
        return {"kind": type(self).__qualname__}

    def check(self) -> None:
        """Checks that a proposal could be asked for (a key, a known provider); by default nothing.

        Raises:
            ProposerError: What is missing, and what to do.
        """
        return
