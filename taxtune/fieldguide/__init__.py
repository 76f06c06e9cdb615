"""The embedded default: drawn birds, their label tree, and a tiny vision-language model that has learnt them."""

from __future__ import annotations

from pathlib import Path

from taxtune.fieldguide.dataset import DRAWING, make_dataset
from taxtune.fieldguide.render import Sight, render
from taxtune.fieldguide.species import TAXONOMY_FILE, Species, all_species

__all__ = ["DRAWING", "MODEL_FOLDER", "TAXONOMY_FILE", "Sight", "Species", "all_species", "make_dataset", "render"]

#: The folder of the embedded model, as `from_pretrained` of transformers takes it.
MODEL_FOLDER = Path(__file__).resolve().parent / "model"
