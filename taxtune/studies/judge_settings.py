"""Settings of the study of judges, which the reader of its rated answers needs as well."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import model_validator
from typer import Argument, Option

from taxtune.errors import DataError
from taxtune.options import (
    AnswerColumnOption,
    IdColumnOption,
    QuestionColumnOption,
    SeedOption,
    measure_option,
)
from taxtune.studies.settings import NOT_RECORDED, ApiSettings, BatchSize

__all__ = ["JudgeStudySettings"]


class JudgeStudySettings(ApiSettings):
    """The rated answers and the measures: see `taxtune study judge --help`."""

    file: Annotated[
        Path,
        Argument(metavar="FILE", help="CSV or JSONL of answers with references and human ratings."),
    ]
    measure: Annotated[
        tuple[Any, ...],
        measure_option("VQA accuracy and its soft form are always included."),
        NOT_RECORDED,
    ] = ()
    judge: Annotated[
        tuple[str, ...],
        Option(
            metavar="MODEL",
            help="A language model for LAVE: local:MODEL, or openai/gpt-4o-mini; repeatable.",
        ),
        NOT_RECORDED,
    ] = ()
    ablations: Annotated[
        bool, Option("--ablations", help="Vary LAVE's prompt as paper 4's Table 3 does.")
    ] = False
    answer_column: Annotated[str, AnswerColumnOption, NOT_RECORDED] = "answer"
    references_column: Annotated[
        str,
        Option(
            metavar="COLUMN",
            help="Column with the references: a list (in CSV, a JSON list) or one text.",
        ),
    ] = "references"
    human_column: Annotated[
        str,
        Option(
            metavar="COLUMN",
            help="Column with the rating: a number, or a list of five binary ones.",
        ),
    ] = "human"
    question_column: Annotated[str, QuestionColumnOption, NOT_RECORDED] = "question"
    caption_column: Annotated[
        str | None,
        Option(metavar="COLUMN", help="Column with a description of the image for LAVE."),
        NOT_RECORDED,
    ] = None
    id_column: Annotated[str, IdColumnOption, NOT_RECORDED] = "id"
    by: Annotated[str | None, Option(metavar="COLUMN", help="Column to group the answers by.")] = (
        None
    )
    category: Annotated[
        str | None, Option(metavar="COLUMN", help="Column with the kind of answer.")
    ] = None
    resamples: Annotated[
        int, Option(min=1, max=100_000, help="Bootstrap resamples of the answers.")
    ] = 5000
    seed: SeedOption = 0
    batch_size: BatchSize = 16

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.ablations and not self.judge:
            raise DataError(
                "--ablations varies LAVE's prompt.", remedy="Give the language model with --judge."
            )
        return self
