"""taxtune: tune the prompts of vision-language models against a label taxonomy.

The names below are loaded when they are first used, so that importing taxtune costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taxtune.api import calibrate, compare, evaluate, load_run, place, score, tune
    from taxtune.classifier import Classifier, load_classifier
    from taxtune.classifier.ray_data import classify_dataset
    from taxtune.errors import TaxtuneError
    from taxtune.mapping import Mapper, MapperConfig, Placement
    from taxtune.metrics import (
        HierarchicalScores,
        InformationScores,
        RankScores,
        information_scores,
        leaf_information,
        measure,
        rank_scores,
    )
    from taxtune.metrics.registry import make_measure
    from taxtune.models import FunctionModel, Model, ModelSettings, make_model
    from taxtune.policies import Policy, Vote
    from taxtune.recipe import Recipe, load_recipe
    from taxtune.report.html import save_report
    from taxtune.taxonomy import Node, Taxonomy, read_taxonomy
    from taxtune.tuning.callbacks import Callback
    from taxtune.tuning.objective import Constraint, Objective
    from taxtune.tuning.proposers import Proposal, Proposer
    from taxtune.tuning.proposers.evidence import Evidence, evidence
    from taxtune.tuning.records import ComparisonResult, TuneResult

    __version__: str

#: Where each public name lives.
_HOME = {
    "Callback": "taxtune.tuning.callbacks",
    "Classifier": "taxtune.classifier",
    "ComparisonResult": "taxtune.tuning.records",
    "Evidence": "taxtune.tuning.proposers.evidence",
    "FunctionModel": "taxtune.models",
    "HierarchicalScores": "taxtune.metrics",
    "InformationScores": "taxtune.metrics",
    "Mapper": "taxtune.mapping",
    "MapperConfig": "taxtune.mapping",
    "Model": "taxtune.models",
    "ModelSettings": "taxtune.models",
    "Node": "taxtune.taxonomy",
    "Constraint": "taxtune.tuning.objective",
    "Objective": "taxtune.tuning.objective",
    "Placement": "taxtune.mapping",
    "Policy": "taxtune.policies",
    "Proposal": "taxtune.tuning.proposers",
    "Proposer": "taxtune.tuning.proposers",
    "RankScores": "taxtune.metrics",
    "Recipe": "taxtune.recipe",
    "Taxonomy": "taxtune.taxonomy",
    "TaxtuneError": "taxtune.errors",
    "TuneResult": "taxtune.tuning.records",
    "Vote": "taxtune.policies",
    "calibrate": "taxtune.api",
    "classify_dataset": "taxtune.classifier.ray_data",
    "compare": "taxtune.api",
    "evaluate": "taxtune.api",
    "evidence": "taxtune.tuning.proposers.evidence",
    "information_scores": "taxtune.metrics",
    "leaf_information": "taxtune.metrics",
    "load_classifier": "taxtune.classifier",
    "load_recipe": "taxtune.recipe",
    "load_run": "taxtune.api",
    "make_measure": "taxtune.metrics.registry",
    "make_model": "taxtune.models",
    "measure": "taxtune.metrics",
    "place": "taxtune.api",
    "save_report": "taxtune.report.html",
    "rank_scores": "taxtune.metrics",
    "read_taxonomy": "taxtune.taxonomy",
    "score": "taxtune.api",
    "tune": "taxtune.api",
}

__all__ = [
    "Callback",
    "Classifier",
    "ComparisonResult",
    "Constraint",
    "Evidence",
    "FunctionModel",
    "HierarchicalScores",
    "InformationScores",
    "Mapper",
    "MapperConfig",
    "Model",
    "ModelSettings",
    "Node",
    "Objective",
    "Placement",
    "Policy",
    "Proposal",
    "Proposer",
    "RankScores",
    "Recipe",
    "Taxonomy",
    "TaxtuneError",
    "TuneResult",
    "Vote",
    "__version__",
    "calibrate",
    "classify_dataset",
    "compare",
    "evaluate",
    "evidence",
    "information_scores",
    "leaf_information",
    "load_classifier",
    "load_recipe",
    "load_run",
    "make_measure",
    "make_model",
    "measure",
    "place",
    "rank_scores",
    "read_taxonomy",
    "save_report",
    "score",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("taxtune")
        except PackageNotFoundError:  # a checkout that is not installed
            return "0+unknown"
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
