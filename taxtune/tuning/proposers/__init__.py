"""Proposers: what makes the next template from the history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from taxtune.tuning.proposers.base import Check, Goal, Objective, Proposal, ProposalFailed, Proposer, Trial

if TYPE_CHECKING:
    from taxtune.tuning.proposers.fragment_files import Fragments

__all__ = ["Check", "Goal", "Objective", "Proposal", "ProposalFailed", "Proposer", "Trial", "make_proposer"]


@overload
def make_proposer(
    kind: Literal["fragments"], *, fragments: str | Path | Fragments = "default", startup: int = 8
) -> Proposer: ...


@overload
def make_proposer(
    kind: Literal["llm"],
    *,
    model: str = ...,
    api_base: str | None = None,
    api_key: str | None = None,
    temperature: float | None = 1.0,
    max_history_tokens: int = 6_000,
    max_tokens: int = 2_000,
    timeout: float = 120.0,
    max_retries: int = 5,
    prompts: str | Path | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Proposer: ...


def make_proposer(kind: str, **settings: object) -> Proposer:
    """Returns a proposer.

    Args:
        kind: "fragments" (`FragmentsProposer`, needs no key) or "llm" (`LLMProposer`).
        **settings: The settings of that class; a wrong name is a `TypeError`.

    Raises:
        ProposerError: The fragments or the prompts cannot be read.
        ValueError: There is no proposer of this kind.
    """
    if kind == "fragments":
        from taxtune.tuning.proposers.fragments import FragmentsProposer

        return FragmentsProposer(**settings)  # type: ignore[arg-type]
    if kind == "llm":
        from taxtune.tuning.proposers.llm import LLMProposer

        return LLMProposer(**settings)  # type: ignore[arg-type]
    raise ValueError(f"there is no proposer {kind!r}; there are 'fragments' and 'llm'")
