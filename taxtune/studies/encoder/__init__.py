"""Which encoder places text best at which level of a tree, for choosing a recipe's mapper: paper 3, Appendix B."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from taxtune.errors import DataError
from taxtune.options import (
    AnswerColumnOption,
    FormatOption,
    MissingOption,
    NodeColumnOption,
    NoNodeOption,
    ResamplesOption,
    SeedOption,
)
from taxtune.report.output import StudyReport
from taxtune.studies.settings import NOT_RECORDED, ModelSettings, Recorded, TreeSettings

__all__ = ["EncoderSettings", "run"]


@dataclass(frozen=True, kw_only=True)
class EncoderSettings(ModelSettings, TreeSettings):
    """Which encoders are compared, on which texts: see `taxtune study encoder --help`.

    Raises:
        DataError: If there is no encoder, or a template is given twice.
    """

    format: Annotated[str, FormatOption, NOT_RECORDED] = "auto"
    encoder: Annotated[
        tuple[str, ...],
        typer.Option("--encoder", "-e", metavar="[NAME=]SPEC", help="lexical, sentence:MODEL, clip:MODEL; repeatable."),
        Recorded("encoders"),
    ] = ("lexical",)
    answers: Annotated[Path | None, typer.Option(metavar="FILE", help="Answers placed by people, CSV or JSONL.")] = None
    answer_column: Annotated[str, AnswerColumnOption, NOT_RECORDED] = "answer"
    node_column: Annotated[str, NodeColumnOption, NOT_RECORDED] = "node"
    no_node: Annotated[str, NoNodeOption, NOT_RECORDED] = "root"
    missing: Annotated[str, MissingOption, NOT_RECORDED] = "error"
    by: Annotated[Literal["auto", "rank", "depth"], typer.Option(help="What a level is.")] = "auto"
    per_level: Annotated[int, typer.Option(min=1, help="Number of nodes to draw at each level.")] = 200
    template: Annotated[
        tuple[str, ...], typer.Option(help="Answer with {name} or {plural}; repeatable."), Recorded("templates")
    ] = ("A: {name}.", "a photo of a {name}", "{plural}")
    metric: Annotated[Literal["hf", "hp", "hr", "accuracy"], typer.Option(help="Metric to compare encoders by.")] = "hf"
    resamples: Annotated[int, ResamplesOption] = 10_000
    seed: Annotated[int, SeedOption] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.encoder:
            raise DataError("No encoder was given.", remedy="Give one with --encoder.")
        if len(set(self.template)) < len(self.template):
            raise DataError("A template is given twice.", value=list(self.template))


def run(settings: EncoderSettings) -> StudyReport:
    """Say which encoder places text best at which level, and what a recipe's mapper should use (paper 3, App. B).

    Raises:
        TaxtuneError: If the tree has nothing to draw, there is no such similarity, or its model cannot be loaded.
    """
    from taxtune.studies.encoder.study import encoder

    return encoder(settings)
