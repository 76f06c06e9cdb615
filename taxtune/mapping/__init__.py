"""Free text to a node of a taxonomy: `Mapper`."""

from __future__ import annotations

from taxtune.mapping.config import MapperConfig, Placement, Stage
from taxtune.mapping.mapper import Mapper
from taxtune.mapping.similarity import Similarity, make_similarity

__all__ = ["Mapper", "MapperConfig", "Placement", "Similarity", "Stage", "make_similarity"]
