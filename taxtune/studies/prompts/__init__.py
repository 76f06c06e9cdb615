"""What another prompt does to hP and hR: paper 1, §7.1, Figure 7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from taxtune.options import ResamplesOption, SeedOption, taxonomy_option
from taxtune.report.output import StudyReport
from taxtune.studies.settings import ContestantSettings, MapperSettings, TreeSettings

__all__ = ["PromptsSettings", "run"]


@dataclass(frozen=True, kw_only=True)
class PromptsSettings(MapperSettings, ContestantSettings, TreeSettings):
    """Which prompts are compared: see `taxtune study prompts --help`."""

    files: Annotated[
        tuple[str, ...],
        typer.Argument(
            metavar="MODEL:PROMPT=FILE...",
            help="CSV or JSONL with the columns answer and target; or folders of finished runs, as RUN or MODEL=RUN.",
        ),
    ]
    taxonomy: Annotated[Any, taxonomy_option("Not needed for runs.")] = None
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="PROMPT", help="The baseline prompt, where the arrows start. Default: each model's first."
        ),
    ] = None
    model_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that splits the file into models.")
    ] = None
    prompt_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that splits each file into prompts.")
    ] = None
    guess: Annotated[
        tuple[str, ...],
        typer.Option(
            metavar="WHICH", help="For lists of guesses: 1, 2, top-3 or all, each treated as a prompt; repeatable."
        ),
    ] = ()
    resamples: Annotated[int, ResamplesOption] = 2000
    seed: Annotated[int, SeedOption] = 0

    def works(self) -> Sequence[str]:
        """Returns the similarity, whose embeddings are kept."""
        return (self.similarity,)


def run(settings: PromptsSettings) -> StudyReport:
    """Compare prompts in the hP-hR plane: arrows from a baseline prompt to others (paper 1, Figure 7).

    Prints hP, hR, hF and accuracy of every prompt with intervals, and the paired differences to the baseline; with
    --out also draws the arrows.

    Args:
        settings: Which prompts are compared.

    Raises:
        TaxtuneError: If files or folders of runs cannot be used, a model has a single prompt or lacks the baseline, or
            no example was answered under both prompts.
    """
    from taxtune.studies.prompts.study import prompts

    return prompts(settings)
