"""Proposers: what makes the next template from the history."""

from __future__ import annotations

from taxtune.tuning.proposers.base import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.evidence import Evidence, HiddenAnswer, evidence, hidden_answers
from taxtune.tuning.proposers.make import FunctionProposer, make_proposer

__all__ = [
    "Check",
    "Evidence",
    "FunctionProposer",
    "Goal",
    "HiddenAnswer",
    "Proposal",
    "ProposalFailed",
    "Proposer",
    "evidence",
    "hidden_answers",
    "make_proposer",
]
