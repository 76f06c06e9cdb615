"""Proposers: they write the next template from the history."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from taxtune.errors import ProposerError, TaxtuneError, TemplateError
from taxtune.plugins import find_plugin
from taxtune.settings import PROPOSER_PLUGINS, proposer_named
from taxtune.tuning.proposers.base import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.evidence import Evidence, evidence
from taxtune.tuning.records import IterationRecord

__all__ = [
    "Check",
    "Evidence",
    "FunctionProposer",
    "Goal",
    "Proposal",
    "ProposalFailed",
    "Proposer",
    "evidence",
    "make_kind",
    "make_proposer",
]


class FunctionProposer(Proposer):
    """A function that writes the next template.

    Args:
        function: From the history, a list of `IterationRecord`, to a template; a second argument
            without a default is the `Goal`. A template that is refused fails the iteration, and the
            next history tells the reason.
    """

    def __init__(self, function: Callable[..., str]) -> None:
        self.function = function
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):  # a callable of C has none
            parameters = []
        positional = [
            p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        self._wants_goal = sum(p.default is p.empty for p in positional) > 1

    def propose(
        self,
        history: Sequence[IterationRecord],
        goal: Goal,
        *,
        iteration: int,
        seed: int,
        check: Check,
    ) -> Proposal:
        """Returns the function's template; see `Proposer.propose`.

        Raises:
            ProposalFailed: The template is not acceptable.
            ProposerError: The function fails, or does not return text.
        """
        given = (list(history), goal) if self._wants_goal else (list(history),)
        try:
            template = self.function(*given)
            if not isinstance(template, str):
                raise TypeError(f"it returned {template!r}, not a template as a str")
        except ProposerError:
            raise
        except Exception as error:
            raise ProposerError(
                f"The proposer failed in iteration {iteration}: {type(error).__name__}: {error}.",
                remedy="Fix the function and continue with resume=True; finished work is saved.",
            ) from error
        try:
            check(template)
        except TemplateError as error:
            raise ProposalFailed(str(error), rejected=((template, str(error)),)) from None
        return Proposal(template)

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns the function's name and a hash of its code."""
        from taxtune.models import function_identity

        return dict(function_identity(self.function))


def make_proposer(what: str | Proposer | Callable[..., str], **settings: Any) -> Proposer:
    """Returns a proposer.

    Args:
        what: "fragments" (`FragmentsProposer`) or "random" (`RandomProposer`), which need no key; a
            chat model ("openai/gpt-4o", `LLMProposer`), or one with tools ("agent:openai/gpt-4o",
            `AgentProposer`); the name that an installed package registers (entry points
            `taxtune.proposers`: a class or a function of the settings); a function from the history
            to a template; or a proposer.
        **settings: The settings of a proposer that is given by name.

    Raises:
        ProposerError: The fragments or the prompts cannot be read, or there is no such proposer.
    """
    if isinstance(what, Proposer):
        return what
    if callable(what):
        return FunctionProposer(what)
    if not isinstance(what, str):
        raise ProposerError(
            "This is not a proposer.",
            value=what,
            remedy="Give a name, a function of the history, or a Proposer.",
        )
    return make_kind(**proposer_named(what), **settings)


def make_kind(kind: str, **settings: Any) -> Proposer:
    """Returns the proposer of a kind that recipes know: built in, or of an installed package.

    Args:
        kind: "fragments", "random", "llm", "agent", or the name that a package registers.
        **settings: The arguments of its class.

    Raises:
        ProposerError: It cannot be made.
    """
    if kind in ("fragments", "random"):
        from taxtune.tuning.proposers.fragments import FragmentsProposer, RandomProposer

        return FragmentsProposer(**settings) if kind == "fragments" else RandomProposer(**settings)
    if kind == "agent":
        from taxtune.tuning.proposers.agent import AgentProposer

        return AgentProposer(**settings)
    if kind == "llm":
        from taxtune.tuning.proposers.llm import LLMProposer

        return LLMProposer(**settings)
    factory = find_plugin(PROPOSER_PLUGINS, kind)
    try:
        return make_proposer(factory(**settings))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, TaxtuneError):
            reason = str(error)
        raise ProposerError(
            f"The proposer {kind!r}, which a package provides, cannot be created: {reason}"
        ) from error
