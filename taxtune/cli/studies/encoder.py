"""`taxtune study encoder`: which encoder places text best at which level of a taxonomy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taxtune.cli.interrupts import keep_work
from taxtune.cli.options import (
    AnswerColumnOption,
    CacheDirOption,
    DeviceOption,
    FormatOption,
    JsonOption,
    MissingOption,
    NodeColumnOption,
    NoNodeOption,
    OutOption,
    ResamplesOption,
    RootOption,
    SeedOption,
    TaxonomyOption,
    check_out,
)

__all__ = ["encoder"]


def encoder(
    taxonomy: TaxonomyOption,
    format: FormatOption = "auto",
    root: RootOption = None,
    encoders: Annotated[
        list[str] | None,
        typer.Option(
            "--encoder",
            "-e",
            metavar="[NAME=]SPEC",
            help="What a recipe's mapper.similarity may be: lexical, sentence:MODEL or clip:MODEL. Repeatable.",
        ),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Answers that people have placed, CSV or JSONL.")
    ] = None,
    answer_column: AnswerColumnOption = "answer",
    node_column: NodeColumnOption = "node",
    no_node: NoNodeOption = "root",
    missing: MissingOption = "error",
    by: Annotated[str, typer.Option(metavar="WHAT", help="What a level is: rank, depth, or auto.")] = "auto",
    per_level: Annotated[int, typer.Option(min=1, help="Nodes drawn at each level.")] = 200,
    template: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="How answers hold names: a text with {name} or {plural}, repeatable. Default: three."
        ),
    ] = None,
    metric: Annotated[
        str, typer.Option(metavar="METRIC", help="What an encoder must be better in: hf, hp, hr or accuracy.")
    ] = "hf",
    resamples: ResamplesOption = 10_000,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
    device: DeviceOption = "auto",
    cache_dir: CacheDirOption = None,
) -> None:
    """Say which encoder places text best at which level, and what a recipe's mapper should take (paper 3, App. B)."""
    from taxtune.studies.both_trees import read_part
    from taxtune.studies.encoder.report import run_encoder
    from taxtune.studies.encoder.study import DEFAULT_TEMPLATES, EncoderSettings
    from taxtune.studies.mapping.annotated import AnnotatedColumns, read_annotated
    from taxtune.studies.mapping.scorers import split_name
    from taxtune.studies.output import publish

    settings = EncoderSettings(
        encoders=tuple(encoders) if encoders else ("lexical",),
        by=by,
        per_level=per_level,
        templates=tuple(template) if template else DEFAULT_TEMPLATES,
        metric=metric,
        resamples=resamples,
        seed=seed,
        device=device,
        cache_dir=cache_dir,
    )
    check_out(out)
    tree, part = read_part(taxonomy, format, root)
    placed = None
    if answers is not None:
        columns = AnnotatedColumns(answer_column, node_column)
        placed = read_annotated(answers, tree, columns=columns, no_node=no_node, missing=missing, part=part)
    keep_work(split_name(spec)[1] for spec in settings.encoders)
    publish(run_encoder(tree, settings, placed, part), out=out, as_json=as_json)
