"""What another prompt does to hP and hR (paper 1, §7.1, Figure 7) and to measures of text (paper 2, prompts)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from typer import Argument, Option

from taxtune.options import ResamplesOption, measure_option
from taxtune.report.output import StudyReport
from taxtune.studies.settings import NOT_RECORDED, ContestantSettings

__all__ = ["PromptsSettings", "run"]


@dataclass(frozen=True, kw_only=True)
class PromptsSettings(ContestantSettings):
    """Which prompts are compared: see `taxtune study prompts --help`."""

    files: Annotated[
        tuple[str, ...],
        Argument(
            metavar="MODEL:PROMPT=FILE...",
            help="Files of answers; MODEL=FILE with --by or --guess; or finished runs, as MODEL=RUN.",
        ),
    ]
    baseline: Annotated[str | None, Option(help="Where the arrows start. Default: each model's first.")] = None
    measure: Annotated[
        tuple[Any, ...], measure_option("Shown with their gains over the baseline prompt."), NOT_RECORDED
    ] = ()
    reply: Annotated[
        Literal["answer", "whole"],
        Option(help="What measures see of a reply: the answer without reasoning, or all of it."),
    ] = "answer"
    resamples: Annotated[int, ResamplesOption] = 2000


def run(settings: PromptsSettings) -> StudyReport:
    """Compare prompts in the hP-hR plane: arrows from a baseline prompt to others (paper 1, Figure 7).

    Prints hP, hR, hF and accuracy of every prompt with intervals, and the paired differences to the baseline; with
    --measure also measures of text and their gains (paper 2); with --out also draws the arrows and the gains.

    Raises:
        TaxtuneError: If files or runs cannot be used, a model has a single prompt or lacks the baseline, a measure
            lacks what it needs, or no example was answered under both prompts.
    """
    from taxtune.studies.prompts.study import prompts

    return prompts(settings)
