"""How the ranking of models changes with the measure: paper 1, §7.1, Figure 5, Tables 4 and 5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from typer import Argument, Option

from taxtune.options import measure_option
from taxtune.report.output import StudyReport
from taxtune.studies.settings import NOT_RECORDED, ContestantSettings

__all__ = ["RankingSettings", "run"]

_DEFAULT = ("exact-match", "contained", "rouge-1", "meteor")


@dataclass(frozen=True, kw_only=True)
class RankingSettings(ContestantSettings):
    """The models and measures: see `taxtune study ranking --help`."""

    files: Annotated[
        tuple[str, ...],
        Argument(
            metavar="MODEL=FILE...", help="Files with the columns answer and truth, one per model."
        ),
    ] = ()
    measure: Annotated[
        tuple[Any, ...], measure_option(f"Default: {', '.join(_DEFAULT)}."), NOT_RECORDED
    ] = _DEFAULT
    resamples: Annotated[
        int, Option(min=1, max=100_000, help="Bootstrap resamples of the ranks.")
    ] = 2000


def run(settings: RankingSettings) -> StudyReport:
    """Rank models by what they answered, under text measures and under hP, hR and hF (paper 1, Figure 5, Tables 4, 5).

    Prints the scores, the ranks, how sure they are (paired bootstrap) and how far each measure's ranking agrees with
    that of hF; with --out also draws the rank-shift chart.

    Raises:
        TaxtuneError: If files do not fit together, there are fewer than two models, a measure lacks an input, or no
            model has an answer.
    """
    from taxtune.studies.ranking.study import ranking

    return ranking(settings)
