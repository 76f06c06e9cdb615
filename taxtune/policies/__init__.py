"""Policies: from one or more answers about an image to one place on the tree, with its share of the answers."""

from __future__ import annotations

from taxtune.policies.base import DIRECT, Direct, Policy
from taxtune.policies.control import Level, control_risk, images_needed, worst_loss
from taxtune.policies.vote import Vote, vote_paths

__all__ = [
    "DIRECT",
    "Direct",
    "Level",
    "Policy",
    "Vote",
    "control_risk",
    "images_needed",
    "vote_paths",
    "worst_loss",
]
