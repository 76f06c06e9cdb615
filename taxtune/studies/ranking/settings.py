"""Settings of the study ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from typer import Argument, Option

from taxtune.errors import DataError
from taxtune.options import SeedOption, measure_option, taxonomy_option
from taxtune.studies.settings import NOT_RECORDED, ContestantSettings, MapperSettings, TextMeasureSettings, TreeSettings

__all__ = ["RankingSettings"]

_DEFAULT = ("exact-match", "contained", "rouge-1", "meteor")


@dataclass(frozen=True, kw_only=True)
class RankingSettings(TextMeasureSettings, MapperSettings, ContestantSettings, TreeSettings):
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
    by: Annotated[str | None, Option(metavar="COLUMN", help="Column that splits the file into models.")] = None
    guess: Annotated[
        tuple[str, ...], Option(help="For lists of guesses: 1, 2, top-3 or all, each ranked as a model; repeatable.")
    ] = ()
    scores: Annotated[
        Literal["paper1-table4", "paper1-table5", "paper2-main"] | None,
        Option(
            metavar="TABLE",
            help="Instead of files: a table that a paper prints, paper1-table4, paper1-table5 or paper2-main.",
        ),
        NOT_RECORDED,
    ] = None
    resamples: Annotated[int, Option(min=1, max=100_000, help="Bootstrap resamples of the ranks.")] = 2000
    seed: SeedOption = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scores is None and self.taxonomy is None:
            raise DataError("No taxonomy was given.", remedy="Give one with --taxonomy.")
        measure = self.measure if self.measure != _DEFAULT else None
        given = (self.files, self.taxonomy, self.root, measure, self.by, self.guess, self.where)
        if self.scores is not None and (other := next(filter(None, given), None)):
            remedy = "Remove the other options."
            raise DataError("--scores ranks only the models of a table.", value=other, remedy=remedy)
