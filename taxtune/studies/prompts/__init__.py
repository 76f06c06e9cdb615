"""What another prompt does to hP and hR (paper 1, §7.1, Figure 7) and to measures of text (paper 2, prompts)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from taxtune.options import ResamplesOption, SeedOption, measure_option, taxonomy_option
from taxtune.report.output import StudyReport
from taxtune.studies.settings import (
    NOT_RECORDED,
    ContestantSettings,
    MapperSettings,
    TextMeasureSettings,
    TreeSettings,
)

__all__ = ["PromptsSettings", "run"]


@dataclass(frozen=True, kw_only=True)
class PromptsSettings(TextMeasureSettings, MapperSettings, ContestantSettings, TreeSettings):
    """Which prompts are compared: see `taxtune study prompts --help`."""

    files: Annotated[
        tuple[str, ...],
        typer.Argument(metavar="MODEL:PROMPT=FILE...", help="Files of answers; or runs, as RUN or MODEL=RUN."),
    ]
    taxonomy: Annotated[Any, taxonomy_option("Not needed for runs.")] = None
    baseline: Annotated[str | None, typer.Option(help="Where the arrows start. Default: each model's first.")] = None
    measure: Annotated[
        tuple[Any, ...], measure_option("Shown with their gains over the baseline prompt."), NOT_RECORDED
    ] = ()
    reply: Annotated[
        Literal["answer", "whole"],
        typer.Option(help="What measures see of a reply: the answer without reasoning, or all of it."),
    ] = "answer"
    model_column: Annotated[str | None, typer.Option(help="Column that splits the file into models.")] = None
    prompt_column: Annotated[str | None, typer.Option(help="Column that splits each file into prompts.")] = None
    guess: Annotated[tuple[str, ...], typer.Option(help="Guesses as prompts: 1, 2, top-3 or all; repeatable.")] = ()
    resamples: Annotated[int, ResamplesOption] = 2000
    seed: Annotated[int, SeedOption] = 0


def run(settings: PromptsSettings) -> StudyReport:
    """Compare prompts in the hP-hR plane: arrows from a baseline prompt to others (paper 1, Figure 7).

    Prints hP, hR, hF and accuracy of every prompt with intervals, and the paired differences to the baseline; with
    --measure also measures of text and their gains (paper 2); with --out also draws the arrows and the gains.

    Raises:
        TaxtuneError: If files or folders of runs cannot be used, a model has a single prompt or lacks the baseline, a
            measure lacks what it needs, or no example was answered under both prompts.
    """
    from taxtune.studies.prompts.study import prompts

    return prompts(settings)
