"""Mapping (paper 1, §6.1): measures as mappers, alone and with Algorithm 1, on answers that people have placed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from typer import Argument, Option

from taxtune.options import ResamplesOption, SeedOption
from taxtune.report.output import StudyReport
from taxtune.studies.settings import BatchSize, ModelSettings, TreeSettings

__all__ = ["MappingSettings", "run"]


@dataclass(frozen=True, kw_only=True)
class MappingSettings(ModelSettings, TreeSettings):
    """The placed answers and the measures: see `taxtune study mapping --help`."""

    rows_in_json: ClassVar[bool] = True

    file: Annotated[
        Path, Argument(metavar="FILE", help="Answers placed by people: answer, node and, if known, also and style.")
    ]
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
    resamples: ResamplesOption = 2000
    seed: SeedOption = 0
    batch_size: BatchSize = 64


def run(settings: MappingSettings) -> StudyReport:
    """Place annotated answers by each measure, alone and with Algorithm 1 (paper 1, Table 2 and Figure 4).

    Raises:
        TaxtuneError: If a file cannot be used, or a measure does not exist, lacks images or cannot place.
    """
    from taxtune.studies.mapping.study import mapping

    return mapping(settings)
