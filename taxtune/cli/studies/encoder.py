"""`taxtune study encoder`: which encoder places text best at which level of a taxonomy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taxtune.cli.studies.options import check_out, note

__all__ = ["encoder"]


def encoder(
    taxonomy: Annotated[
        str, typer.Option("--taxonomy", "-t", metavar="TREE", help="The taxonomy file, or builtin:fieldguide.")
    ],
    format: Annotated[
        str,
        typer.Option(
            "--format", help="The taxonomy's format, see `taxtune taxonomy check --help`; auto looks at the content."
        ),
    ] = "auto",
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
    answer_column: Annotated[str, typer.Option(help="Its column of the answer.")] = "answer",
    node_column: Annotated[str, typer.Option(help="Its column of the node.")] = "node",
    no_node: Annotated[
        str, typer.Option(help="What an empty node means: root (the answer names nothing), error or leave-out.")
    ] = "root",
    missing: Annotated[str, typer.Option(help="Rows without an answer: error or leave-out.")] = "error",
    by: Annotated[str, typer.Option(help="What a level is: rank, depth, or auto.")] = "auto",
    per_level: Annotated[int, typer.Option(min=1, help="Nodes drawn at each level.")] = 200,
    template: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="How answers hold names: a text with {name} or {plural}, repeatable. Default: three."
        ),
    ] = None,
    metric: Annotated[str, typer.Option(help="What an encoder must be better in: hf, hp, hr or accuracy.")] = "hf",
    resamples: Annotated[int, typer.Option(min=1, max=1_000_000, help="Bootstrap resamples.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the drawing and the bootstrap.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write tables, figures and study.json there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the recipe's lines.")] = False,
    device: Annotated[str, typer.Option(help="Where encoders run: auto, cpu, cuda, ...")] = "auto",
    cache_dir: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where embeddings are kept.")] = None,
) -> None:
    """Say which encoder places text best at which level, and what a recipe's mapper should take (paper 3, App. B)."""
    from taxtune.studies.encoder.report import run_encoder
    from taxtune.studies.encoder.study import DEFAULT_TEMPLATES, EncoderSettings
    from taxtune.studies.mapping.annotated import AnnotatedColumns, read_annotated
    from taxtune.studies.output import publish
    from taxtune.taxonomy import read_taxonomy

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
    tree = read_taxonomy(taxonomy, format=format, on_note=note)
    placed = None
    if answers is not None:
        columns = AnnotatedColumns(answer_column, node_column)
        placed = read_annotated(answers, tree, columns=columns, no_node=no_node, missing=missing)
    publish(run_encoder(tree, settings, placed), out=out, as_json=as_json)
