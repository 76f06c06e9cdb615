"""Specificity (paper 3, §5): right texts of any specificity against subtly wrong ones."""

from taxtune.studies.specificity.settings import SpecificitySettings
from taxtune.studies.specificity.study import run

__all__ = ["SpecificitySettings", "run"]
