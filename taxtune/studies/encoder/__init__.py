"""Which encoder places text best at which level of a tree, for choosing a recipe's mapper: paper 3, Appendix B."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from taxtune.errors import DataError
from taxtune.options import ResamplesOption, SeedOption
from taxtune.report.output import StudyReport
from taxtune.studies.settings import ModelSettings, Recorded, TreeSettings, check_once

__all__ = ["EncoderSettings", "run"]


@dataclass(frozen=True, kw_only=True)
class EncoderSettings(ModelSettings, TreeSettings):
    """Which encoders are compared, on which texts: see `taxtune study encoder --help`.

    Raises:
        DataError: If there is no encoder, or a template is given twice.
    """

    encoder: Annotated[
        tuple[str, ...],
        Option("--encoder", "-e", metavar="[NAME=]SPEC", help="lexical, sentence:MODEL, clip:MODEL; repeatable."),
        Recorded("encoders"),
    ] = ("lexical",)
    answers: Annotated[
        Path | None, Option(metavar="FILE", help="Answers placed by people: CSV or JSONL with answer and node.")
    ] = None
    by: Annotated[Literal["auto", "rank", "depth"], Option(help="What a level is.")] = "auto"
    per_level: Annotated[int, Option(min=1, help="Number of nodes to draw at each level.")] = 200
    template: Annotated[
        tuple[str, ...], Option(help="Answer with {name} or {plural}; repeatable."), Recorded("templates")
    ] = ("A: {name}.", "a photo of a {name}", "{plural}")
    metric: Annotated[Literal["hf", "hp", "hr", "accuracy"], Option(help="Metric to compare encoders by.")] = "hf"
    resamples: ResamplesOption = 10_000
    seed: SeedOption = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.encoder:
            raise DataError("No encoder was given.", remedy="Give one with --encoder.")
        check_once("--template", self.template)


def run(settings: EncoderSettings) -> StudyReport:
    """Say which encoder places text best at which level, and what a recipe's mapper should use (paper 3, App. B).

    Raises:
        TaxtuneError: If the tree has nothing to draw, there is no such similarity, or its model cannot be loaded.
    """
    from taxtune.studies.encoder.study import encoder

    return encoder(settings)
