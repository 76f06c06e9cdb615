"""How the ranking of models changes with the measure: paper 1, §7.1, Figure 5, Tables 4 and 5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from typer import Argument, Option

from taxtune.errors import DataError
from taxtune.options import measure_option, taxonomy_option
from taxtune.report.output import StudyReport
from taxtune.studies.settings import NOT_RECORDED, ContestantSettings

__all__ = ["RankingSettings", "run"]

_DEFAULT = ("exact-match", "contained", "rouge-1", "meteor")


@dataclass(frozen=True, kw_only=True)
class RankingSettings(ContestantSettings):
    """The models and measures: see `taxtune study ranking --help`.

    Raises:
        DataError: If there is neither a taxonomy nor a table of scores, or both.
    """

    files: Annotated[
        tuple[str, ...],
        Argument(metavar="MODEL=FILE...", help="Files with the columns answer and truth, one per model."),
    ] = ()
    taxonomy: Annotated[Any, taxonomy_option("Needed unless --scores is given.")] = None
    measure: Annotated[tuple[Any, ...], measure_option(f"Default: {', '.join(_DEFAULT)}."), NOT_RECORDED] = _DEFAULT
    scores: Annotated[
        Literal["paper1-table4", "paper1-table5", "paper2-main"] | None,
        Option(
            metavar="TABLE",
            help="Instead of files: a table that a paper prints, paper1-table4, paper1-table5 or paper2-main.",
        ),
        NOT_RECORDED,
    ] = None
    resamples: Annotated[int, Option(min=1, max=100_000, help="Bootstrap resamples of the ranks.")] = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scores is None and self.taxonomy is None:
            raise DataError("No taxonomy was given.", remedy="Give one with --taxonomy.")
        if self.scores is not None and (other := self.files or self.taxonomy):
            remedy = "Remove the other options."
            raise DataError("--scores ranks only the models of a table.", value=other, remedy=remedy)


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
