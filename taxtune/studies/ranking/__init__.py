"""How the ranking of models changes with the measure: paper 1, §7.1, Figure 5, Tables 4 and 5."""

from taxtune.studies.ranking.settings import RankingSettings
from taxtune.studies.ranking.study import run

__all__ = ["RankingSettings", "run"]
