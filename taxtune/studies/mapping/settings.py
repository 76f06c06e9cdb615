"""Settings of the study mapping."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from typer import Argument, Option

from taxtune.options import (
    AnswerColumnOption,
    FormatOption,
    MissingOption,
    NodeColumnOption,
    NoNodeOption,
    ResamplesOption,
    SeedOption,
)
from taxtune.studies.settings import NOT_RECORDED, BatchSize, ModelSettings, TreeSettings

__all__ = ["MappingSettings"]


@dataclass(frozen=True, kw_only=True)
class MappingSettings(ModelSettings, TreeSettings):
    """The placed answers and the measures: see `taxtune study mapping --help`."""

    rows_in_json: ClassVar[bool] = True

    file: Annotated[Path, Argument(metavar="FILE", help="CSV or JSONL with answers and the nodes that they name.")]
    format: Annotated[str, FormatOption, NOT_RECORDED] = "auto"
    measure: Annotated[
        tuple[str, ...], Option("--measure", "-m", metavar="[NAME=]SPEC", help="A measure or lexical; repeatable.")
    ] = ("exact-match", "contained", "bleu-2", "rouge-1", "meteor", "lexical")
    similarity: Annotated[str, Option(metavar="SPEC", help="Similarity of the default mapper.")] = "lexical"
    names: Annotated[
        Literal["all", "common"], Option(help="Names that a measure compares with: all, or the common one.")
    ] = "all"
    ties: Annotated[
        Literal["deepest", "ancestor", "random"], Option(help="Which of several equally similar nodes to use.")
    ] = "deepest"
    answer_column: Annotated[str, AnswerColumnOption, NOT_RECORDED] = "answer"
    node_column: Annotated[str, NodeColumnOption, NOT_RECORDED] = "node"
    also_column: Annotated[str, Option(help="Column with further acceptable nodes."), NOT_RECORDED] = "also"
    style_column: Annotated[str, Option(help="Column to group answers by."), NOT_RECORDED] = "style"
    no_node: Annotated[Literal["root", "error", "leave-out"], NoNodeOption, NOT_RECORDED] = "root"
    missing: Annotated[Literal["error", "leave-out"], MissingOption, NOT_RECORDED] = "error"
    resamples: ResamplesOption = 2000
    seed: SeedOption = 0
    batch_size: BatchSize = 64
