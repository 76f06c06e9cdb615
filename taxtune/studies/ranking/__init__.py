"""How the ranking of models changes with the measure: paper 1, §7.1, Figure 5, Tables 4 and 5."""

from __future__ import annotations

from taxtune.report.output import StudyReport
from taxtune.studies.ranking.settings import RankingSettings

__all__ = ["RankingSettings", "run"]


def run(settings: RankingSettings) -> StudyReport:
    """Rank models by what they answered, under text measures and under hP, hR and hF (paper 1, Figure 5, Tables 4, 5).

    Prints the scores, the ranks, how sure they are (paired bootstrap) and how far each measure's ranking agrees with
    that of hF; with --out also draws the rank-shift chart.

    Raises:
        TaxtuneError: If files do not fit together, there are fewer than two models, a measure lacks an input, or no
            model has an answer.
    """
    from taxtune.studies.ranking.study import ranking, ranking_of_table

    return ranking(settings) if settings.scores is None else ranking_of_table(settings.scores)
