"""Granularity (paper 3, §4): coarse labels directly, or by way of the fine ones below them."""

from taxtune.studies.granularity.settings import GranularitySettings
from taxtune.studies.granularity.study import run

__all__ = ["GranularitySettings", "run"]
