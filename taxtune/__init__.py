"""taxtune: tune the prompts of vision-language models against a label taxonomy.

The names below are loaded when they are first used, so that importing taxtune costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taxtune.api import calibrate as calibrate
    from taxtune.api import calibrate_cascade as calibrate_cascade
    from taxtune.api import compare as compare
    from taxtune.api import evaluate as evaluate
    from taxtune.api import load_run as load_run
    from taxtune.api import place as place
    from taxtune.api import score as score
    from taxtune.api import tune as tune
    from taxtune.classifier import Classifier as Classifier
    from taxtune.classifier import load_classifier as load_classifier
    from taxtune.classifier.cascading import load_cascade as load_cascade
    from taxtune.classifier.scores import calibrate_scores as calibrate_scores
    from taxtune.errors import TaxtuneError as TaxtuneError
    from taxtune.integrations.scikit_learn import Calibrated as Calibrated
    from taxtune.mapping import Mapper as Mapper
    from taxtune.mapping import MapperConfig as MapperConfig
    from taxtune.mapping import Placement as Placement
    from taxtune.metrics import HierarchicalScores as HierarchicalScores
    from taxtune.metrics import InformationScores as InformationScores
    from taxtune.metrics import RankScores as RankScores
    from taxtune.metrics import information_scores as information_scores
    from taxtune.metrics import leaf_information as leaf_information
    from taxtune.metrics import measure as measure
    from taxtune.metrics import rank_scores as rank_scores
    from taxtune.metrics.registry import make_measure as make_measure
    from taxtune.models import FunctionModel as FunctionModel
    from taxtune.models import Model as Model
    from taxtune.models import ModelSettings as ModelSettings
    from taxtune.models import make_model as make_model
    from taxtune.objective import Constraint as Constraint
    from taxtune.objective import Objective as Objective
    from taxtune.policies import SelfConsistency as SelfConsistency
    from taxtune.recipe import Recipe as Recipe
    from taxtune.recipe import load_recipe as load_recipe
    from taxtune.report.html import save_report as save_report
    from taxtune.results import choose as choose
    from taxtune.taxonomy import Taxonomy as Taxonomy
    from taxtune.taxonomy import read_taxonomy as read_taxonomy
    from taxtune.tuning.loop import Callback as Callback
    from taxtune.tuning.proposers import Proposal as Proposal
    from taxtune.tuning.proposers import Proposer as Proposer
    from taxtune.tuning.proposers.evidence import Evidence as Evidence
    from taxtune.tuning.proposers.evidence import evidence as evidence
    from taxtune.tuning.records import ComparisonResult as ComparisonResult
    from taxtune.tuning.records import TuneResult as TuneResult

    __version__: str

#: The public names of each module.
_PUBLIC = {
    "taxtune.api": "calibrate calibrate_cascade compare evaluate load_run place score tune",
    "taxtune.classifier": "Classifier load_classifier",
    "taxtune.classifier.cascading": "load_cascade",
    "taxtune.classifier.scores": "calibrate_scores",
    "taxtune.errors": "TaxtuneError",
    "taxtune.integrations.scikit_learn": "Calibrated",
    "taxtune.mapping": "Mapper MapperConfig Placement",
    "taxtune.metrics": (
        "HierarchicalScores InformationScores RankScores information_scores leaf_information measure rank_scores"
    ),
    "taxtune.metrics.registry": "make_measure",
    "taxtune.models": "FunctionModel Model ModelSettings make_model",
    "taxtune.policies": "SelfConsistency",
    "taxtune.recipe": "Recipe load_recipe",
    "taxtune.report.html": "save_report",
    "taxtune.results": "choose",
    "taxtune.taxonomy": "Taxonomy read_taxonomy",
    "taxtune.tuning.loop": "Callback",
    "taxtune.objective": "Constraint Objective",
    "taxtune.tuning.proposers": "Proposal Proposer",
    "taxtune.tuning.proposers.evidence": "Evidence evidence",
    "taxtune.tuning.records": "ComparisonResult TuneResult",
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from taxtune.resources import version

        return version()
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
