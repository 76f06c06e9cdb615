"""Proposers: what makes the next template from the history."""

from __future__ import annotations

from taxtune.tuning.proposers.base import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.make import FunctionProposer, make_proposer

__all__ = ["Check", "FunctionProposer", "Goal", "Proposal", "ProposalFailed", "Proposer", "make_proposer"]
