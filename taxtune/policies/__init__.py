"""Policies: from what a model says of an image, once, several times or with probabilities, to one node.

`placing.py` puts weighted answers on the tree, `risk.py` chooses the least cautious way that keeps a promise,
`reliability.py` says how sure a single answer is, and `allowed.py` what may be where and when.
"""

from taxtune.policies.outcomes import NamedNodes
from taxtune.policies.placing import DIRECT, Paths, Posterior, Vote, spread, weighted_paths
from taxtune.policies.reliability import Reliability
from taxtune.policies.risk import (
    SHARES,
    Level,
    RiskGuarantee,
    ShareLevel,
    control_risk,
    images_needed,
    share_levels,
    worst_loss,
)

__all__ = [
    "DIRECT",
    "SHARES",
    "Level",
    "NamedNodes",
    "Paths",
    "Posterior",
    "Reliability",
    "RiskGuarantee",
    "ShareLevel",
    "Vote",
    "control_risk",
    "images_needed",
    "share_levels",
    "spread",
    "weighted_paths",
    "worst_loss",
]
