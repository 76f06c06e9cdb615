"""taxtune: tune the prompts of vision-language models against a label taxonomy.

The names below are loaded when they are first used, so that importing taxtune costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        score,
    )
    from taxtune.recipe import Recipe, load_recipe
    from taxtune.taxonomy import Node, Taxonomy, read_taxonomy

    __version__: str

__all__ = [
    "HierarchicalScores",
    "InformationScores",
    "Mapper",
    "MapperConfig",
    "Node",
    "Placement",
    "RankScores",
    "Recipe",
    "Taxonomy",
    "TaxtuneError",
    "__version__",
    "information_scores",
    "leaf_information",
    "load_recipe",
    "measure",
    "rank_scores",
    "read_taxonomy",
    "score",
]

_HOME = {
    "HierarchicalScores": "taxtune.metrics",
    "InformationScores": "taxtune.metrics",
    "Mapper": "taxtune.mapping",
    "MapperConfig": "taxtune.mapping",
    "Node": "taxtune.taxonomy",
    "Placement": "taxtune.mapping",
    "RankScores": "taxtune.metrics",
    "Recipe": "taxtune.recipe",
    "Taxonomy": "taxtune.taxonomy",
    "TaxtuneError": "taxtune.errors",
    "information_scores": "taxtune.metrics",
    "leaf_information": "taxtune.metrics",
    "measure": "taxtune.metrics",
    "load_recipe": "taxtune.recipe",
    "rank_scores": "taxtune.metrics",
    "read_taxonomy": "taxtune.taxonomy",
    "score": "taxtune.metrics",
}


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
