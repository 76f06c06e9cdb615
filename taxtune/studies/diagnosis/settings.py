"""The settings of `taxtune score diagnose`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

import typer
from pydantic import model_validator

from taxtune.errors import DataError
from taxtune.options import (
    ANSWERS_HELP,
    FrequenciesOption,
    MissingOption,
    ResamplesOption,
    SeedOption,
    SmoothingOption,
)
from taxtune.studies.settings import (
    NOT_RECORDED,
    AnswerSettings,
    PlacingSettings,
    TextMeasureSettings,
    TreeSettings,
)

__all__ = ["DiagnosisSettings"]


class DiagnosisSettings(TextMeasureSettings, PlacingSettings, AnswerSettings, TreeSettings):
    """What is diagnosed, and with what: see `taxtune score diagnose --help`.

    Raises:
        DataError: If a value is out of range, or one excludes another or needs it.
    """

    rows_in_json: ClassVar[bool] = True

    file: Annotated[
        str, typer.Argument(metavar="FILE", help=ANSWERS_HELP.format("columns answer and truth"))
    ]
    missing: Annotated[Literal["error", "leave-out"], MissingOption] = "error"
    frequencies: FrequenciesOption = None
    smoothing: SmoothingOption = 0.0
    inclusion: Annotated[
        Any | None,
        typer.Option(metavar="SPEC", help="Inclusion measure for paper 2's types."),
        NOT_RECORDED,
    ] = None
    concept: Annotated[
        Any | None,
        typer.Option(metavar="SPEC", help="Concept similarity for paper 2's types."),
        NOT_RECORDED,
    ] = None
    high: Annotated[
        float,
        typer.Option(
            min=-1, max=1, help="Concept similarity that counts as high (the threshold is ours)."
        ),
    ] = 0.7
    tags: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What each image shows: a table with the columns id (or image) and tags.",
        ),
    ] = None
    least: Annotated[
        int, typer.Option(min=1, help="Smallest number of answers for a clade to be listed.")
    ] = 5
    examples: Annotated[
        int, typer.Option(min=1, help="Number of examples to show for each type.")
    ] = 3
    resamples: ResamplesOption = 2000
    seed: SeedOption = 0

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.inclusion is None) != (self.concept is None):
            raise DataError(
                "Error types from measures need an inclusion measure and a similarity.",
                value=self.inclusion or self.concept,
                remedy="Give both, such as --inclusion text-inclusion --concept sentence:MODEL.",
            )
        return self

    @property
    def roles(self) -> dict[str, Any]:
        """The inclusion measure and the similarity, by role; for tags alone a verdict on the text."""
        if self.inclusion is not None:
            return {"inclusion": self.inclusion, "concept": self.concept}
        return {"inclusion": "text-inclusion"} if self.tags else {}

    def record(self) -> dict[str, Any]:
        """The fields as the report records them."""
        return super().record() | {
            "where": [f"{name}={value}" for name, value in self.where.items()]
        }
