"""Settings of taxtune score diagnose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import typer

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
    MapperSettings,
    TextMeasureSettings,
    TreeSettings,
    needs_of,
)

__all__ = ["DiagnosisSettings"]

# What is only asked of measures, and recorded where there are any.
_MEASURED = ("high", "question", "question_column", "reference")


@dataclass(frozen=True, kw_only=True)
class DiagnosisSettings(TextMeasureSettings, MapperSettings, AnswerSettings, TreeSettings):
    """What is diagnosed, and with what: see `taxtune score diagnose --help`.

    Raises:
        DataError: If a value is out of range, or one excludes another or needs it.
    """

    rows_in_json: ClassVar[bool] = True

    file: Annotated[str, typer.Argument(metavar="FILE", help=ANSWERS_HELP.format("columns answer and truth"))]
    missing: Annotated[Literal["error", "leave-out"], MissingOption] = "error"
    frequencies: FrequenciesOption = None
    smoothing: SmoothingOption = 0.0
    inclusion: Annotated[
        Any | None, typer.Option(metavar="SPEC", help="Inclusion measure for paper 2's types."), NOT_RECORDED
    ] = None
    concept: Annotated[
        Any | None, typer.Option(metavar="SPEC", help="Concept similarity for paper 2's types."), NOT_RECORDED
    ] = None
    question: Annotated[str | None, typer.Option(help="The prompt asked about every image, for a judge.")] = None
    high: Annotated[
        float, typer.Option(min=-1, max=1, help="Concept similarity that counts as high (the threshold is ours).")
    ] = 0.7
    tags: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="What is in each image: rows with id or image, and tags or an answer."),
    ] = None
    least: Annotated[int, typer.Option(min=1, help="Smallest number of answers for a clade to be listed.")] = 5
    clades: Annotated[int, typer.Option(min=0, help="Number of clades to list.")] = 10
    examples: Annotated[int, typer.Option(min=0, help="Number of examples to show for each type.")] = 3
    resamples: ResamplesOption = 2000
    seed: SeedOption = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.inclusion is None) != (self.concept is None):
            raise DataError(
                "Error types from measures need an inclusion measure and a similarity.",
                value=self.inclusion or self.concept,
                remedy="Give both, such as --inclusion text-inclusion --concept sentence:MODEL.",
            )
        if self.question is not None and self.question_column is not None:
            raise DataError("--question and --question-column exclude each other.", remedy="Give one of them.")
        for measure in self.asked:
            if "image" in needs_of(measure):
                raise DataError(
                    f"The measure {measure} needs images, which a file of answers does not contain.",
                    remedy="Use one that compares texts.",
                )

    @property
    def asked(self) -> tuple[Any, ...]:
        """The inclusion measure and the similarity; empty where there are none."""
        return () if self.inclusion is None else (self.inclusion, self.concept)

    def record(self) -> dict[str, Any]:
        """The fields as the report records them; those of measures and tags only where there are such."""
        record = super().record() | {"where": [f"{name}={value}" for name, value in self.where.items()]}
        out = (*(() if self.asked else _MEASURED), *(() if self.tags else ("tags",)))
        return {name: value for name, value in record.items() if name not in out}

    def works(self) -> Sequence[str]:
        """The similarity and the measures, whose scores and embeddings are kept."""
        return [spec for spec in (self.similarity, *self.asked) if isinstance(spec, str)]
