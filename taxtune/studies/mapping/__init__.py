"""Mapping (paper 1, §6.1): measures as mappers, alone and with Algorithm 1, on answers that people have placed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, ClassVar, Literal

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
from taxtune.studies.settings import NOT_RECORDED, BatchSize, ModelSettings, Recorded, TreeSettings

__all__ = ["PRINTED", "MappingSettings", "run"]

#: Stands for the answers that paper 1 prints, instead of a file.
PRINTED = "paper1-table9"


@dataclass(frozen=True, kw_only=True)
class MappingSettings(ModelSettings, TreeSettings):
    """What is compared, and how: see `taxtune study mapping --help`.

    Raises:
        DataError: If nothing is left to compare, or an option does not apply to the printed answers.
    """

    rows_in_json: ClassVar[bool] = True

    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV or JSONL with answers and their nodes; or paper1-table9.")
    ]
    format: Annotated[str, FormatOption, NOT_RECORDED] = "auto"
    measure: Annotated[
        tuple[str, ...],
        typer.Option("--measure", "-m", metavar="[NAME=]SPEC", help="A measure or lexical; repeatable."),
        Recorded("measures"),
    ] = ("exact-match", "contained", "bleu-2", "rouge-1", "meteor", "lexical")
    alone: Annotated[bool, typer.Option(help="Place by the most similar name only.")] = True
    algorithm: Annotated[bool, typer.Option(help="Place with Algorithm 1 (paper-listing and paper-prose).")] = True
    default: Annotated[bool, typer.Option(help="Place with taxtune's default mapper.")] = True
    similarity: Annotated[str, typer.Option(metavar="SPEC", help="Similarity of the default mapper.")] = "lexical"
    names: Annotated[
        Literal["all", "common"], typer.Option(help="Names that a measure compares with: all, or the common one.")
    ] = "all"
    ties: Annotated[
        Literal["deepest", "ancestor", "random"], typer.Option(help="Which of several equally similar nodes to use.")
    ] = "deepest"
    answer_column: Annotated[str, AnswerColumnOption, NOT_RECORDED] = "answer"
    node_column: Annotated[str, NodeColumnOption, NOT_RECORDED] = "node"
    also_column: Annotated[str, typer.Option(help="Column with further acceptable nodes."), NOT_RECORDED] = "also"
    style_column: Annotated[str, typer.Option(help="Column to group answers by."), NOT_RECORDED] = "style"
    no_node: Annotated[Literal["root", "error", "leave-out"], NoNodeOption, NOT_RECORDED] = "root"
    missing: Annotated[Literal["error", "leave-out"], MissingOption, NOT_RECORDED] = "error"
    resamples: ResamplesOption = 2000
    seed: SeedOption = 0
    batch_size: BatchSize = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_printed:
            allowed = {"file", "taxonomy", "format", "root", "similarity", "device", "cache_dir"}
            given = [f.name for f in fields(self) if f.name not in allowed and getattr(self, f.name) != f.default]
            if given:
                raise DataError(
                    f"{PRINTED} is placed by the mapper's presets alone.",
                    value=", ".join(given),
                    remedy="Remove these options.",
                )
        if not (self.default or (self.measure and (self.alone or self.algorithm))):
            raise DataError("Nothing is left to compare.", remedy="Use --alone, --algorithm or --default.")

    @property
    def is_printed(self) -> bool:
        """Whether the answers are those that paper 1 prints."""
        return str(self.file) == PRINTED and not self.file.exists()


def run(settings: MappingSettings) -> StudyReport:
    """Place annotated answers by each measure, alone and with Algorithm 1 (paper 1, Table 2 and Figure 4).

    Raises:
        TaxtuneError: If a file cannot be used, or a measure does not exist, lacks images or cannot place.
    """
    from taxtune.studies.mapping.printed import printed_report
    from taxtune.studies.mapping.study import mapping

    return printed_report(settings) if settings.is_printed else mapping(settings)
