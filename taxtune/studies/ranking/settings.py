"""The settings of the study `ranking`."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument, Option

from taxtune.options import measure_option
from taxtune.studies.settings import NOT_RECORDED, ContestantSettings

__all__ = ["RankingSettings"]

_DEFAULT = ("exact-match", "contained", "rouge-1", "meteor")


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
