"""How well measures agree with people: paper 4, Tables 2 and 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from taxtune.errors import DataError
from taxtune.options import (
    AnswerColumnOption,
    IdColumnOption,
    QuestionColumnOption,
    SeedOption,
    measure_option,
)
from taxtune.report.output import StudyReport
from taxtune.studies.settings import NOT_RECORDED, ApiSettings, BatchSize, Recorded

__all__ = ["JudgeSettings", "run"]


@dataclass(frozen=True, kw_only=True)
class JudgeSettings(ApiSettings):
    """Which measures are compared with which ratings: see `taxtune study judge --help`.

    Raises:
        DataError: If LAVE's prompt is to be varied and there is no language model.
    """

    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV or JSONL of answers with references and human ratings.")
    ]
    measure: Annotated[
        tuple[Any, ...], measure_option("VQA accuracy and its soft form are always included."), NOT_RECORDED
    ] = ()
    judge: Annotated[
        tuple[str, ...],
        typer.Option(
            metavar="MODEL", help="A language model for LAVE, repeatable: local:MODEL, or litellm's openai/gpt-4o-mini."
        ),
        NOT_RECORDED,
    ] = ()
    ablations: Annotated[
        bool, typer.Option("--ablations", help="Vary LAVE's prompt as paper 4's Table 3 does, for each judge.")
    ] = False
    demonstrations: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your own demonstrations for LAVE, instead of taxtune's (YAML)."),
        NOT_RECORDED,
    ] = None
    yes_no_demonstrations: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The same for yes/no questions."),
        NOT_RECORDED,
    ] = None
    answer_column: Annotated[str, AnswerColumnOption, NOT_RECORDED] = "answer"
    references_column: Annotated[
        str,
        typer.Option(metavar="COLUMN", help="Column with the references: a list (in CSV, a JSON list) or one text."),
        Recorded("columns.references"),
    ] = "references"
    human_column: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="Column with the rating (a number or five binary ratings), or five columns separated by commas.",
        ),
        Recorded("columns.human"),
    ] = "human"
    question_column: Annotated[str, QuestionColumnOption, NOT_RECORDED] = "question"
    caption_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with a description of the image for LAVE."),
        NOT_RECORDED,
    ] = None
    id_column: Annotated[str, IdColumnOption, NOT_RECORDED] = "id"
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column to group the answers by, such as the model."),
        Recorded("columns.by"),
    ] = None
    category: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with the kind of answer, for the table of correct answers that VQA accuracy misses.",
        ),
        Recorded("columns.category"),
    ] = None
    resamples: Annotated[
        int, typer.Option(min=1, max=100_000, help="Number of bootstrap resamples of the answers.")
    ] = 5000
    seed: Annotated[int, SeedOption] = 0
    batch_size: BatchSize = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ablations and not self.judge:
            raise DataError("--ablations varies LAVE's prompt.", remedy="Give the language model with --judge.")

    def works(self) -> Sequence[str]:
        """Returns the measures and LAVE with each judge, whose scores and replies are kept."""
        return [spec for spec in self.measure if isinstance(spec, str)] + [f"lave:{model}" for model in self.judge]


def run(settings: JudgeSettings) -> StudyReport:
    """Correlate measures with human ratings of answers (paper 4, Table 2).

    Prints Spearman's and Kendall's correlation of each measure with the ratings, with bootstrap intervals, whether
    measures differ, and the mean scores of correct answers that VQA accuracy misses.

    Args:
        settings: Which measures are compared with which ratings.

    Raises:
        TaxtuneError: If the file cannot be used, a measure needs what it lacks, or no answer was scored by all.
    """
    from taxtune.studies.judge.study import judge

    return judge(settings)
