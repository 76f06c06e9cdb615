"""`taxtune study mapping`: measures as mappers, alone and with Algorithm 1, on answers that people have placed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taxtune.cli.interrupts import keep_work
from taxtune.cli.options import (
    AnswerColumnOption,
    BatchSizeOption,
    CacheDirOption,
    DeviceOption,
    FormatOption,
    ImageRootOption,
    JsonRowsOption,
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
from taxtune.errors import DataError

__all__ = ["mapping"]


def mapping(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV or JSONL of answers and the nodes that people placed them on.")
    ],
    taxonomy: TaxonomyOption,
    format: FormatOption = "auto",
    root: RootOption = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            "-m",
            metavar="[NAME=]SPEC",
            help="A measure (see `taxtune measure --list`) or lexical, repeatable. "
            "Default: exact-match, contained, bleu-2, rouge-1, meteor and lexical.",
        ),
    ] = None,
    alone: Annotated[bool, typer.Option(help="Place by the most similar name alone.")] = True,
    algorithm: Annotated[bool, typer.Option(help="Place with Algorithm 1, the preset paper-listing.")] = True,
    default: Annotated[bool, typer.Option(help="Place with taxtune's default mapper.")] = True,
    similarity: Annotated[
        str, typer.Option(metavar="SPEC", help="The default mapper's: lexical, sentence:MODEL or clip:MODEL.")
    ] = "lexical",
    names: Annotated[
        str,
        typer.Option(
            metavar="WHAT", help="Names that a measure compares: all of a node's, or its common one as in the paper."
        ),
    ] = "all",
    ties: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="Where nodes share the highest score: the deepest, their common ancestor, or one at random "
            "(deepest, ancestor, random).",
        ),
    ] = "deepest",
    answer_column: AnswerColumnOption = "answer",
    node_column: NodeColumnOption = "node",
    also_column: Annotated[str, typer.Option(metavar="COLUMN", help="Column of further acceptable nodes.")] = "also",
    style_column: Annotated[str, typer.Option(metavar="COLUMN", help="Column that answers are grouped by.")] = "style",
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Images of the nodes, which clip-i2t compares the answer with: a manifest (image, label), a folder a "
            "class, or iNat21's JSON.",
        ),
    ] = None,
    image_root: ImageRootOption = None,
    image_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the answer's own image, relative to FILE's folder: clip-i2t then compares it, in place of "
            "the answer, with the names of the nodes.",
        ),
    ] = None,
    no_node: NoNodeOption = "root",
    missing: MissingOption = "error",
    resamples: ResamplesOption = 2000,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonRowsOption = False,
    device: DeviceOption = "auto",
    batch_size: BatchSizeOption = 64,
    cache_dir: CacheDirOption = None,
) -> None:
    """Place annotated answers by each measure, alone and with Algorithm 1 (paper 1, Table 2 and Figure 4)."""
    from taxtune.metrics.registry import MeasureSettings
    from taxtune.studies.both_trees import read_part
    from taxtune.studies.mapping.annotated import AnnotatedColumns, read_annotated
    from taxtune.studies.mapping.node_images import draw_node_images
    from taxtune.studies.mapping.report import run_mapping
    from taxtune.studies.mapping.scorers import split_name
    from taxtune.studies.mapping.study import DEFAULT_MEASURES, MappingSettings
    from taxtune.studies.output import publish

    if images is not None and image_column is not None:
        raise DataError("--images and --image-column exclude each other.", remedy="Give one of them.")
    settings = MappingSettings(
        measures=tuple(measure) if measure else DEFAULT_MEASURES,
        alone=alone,
        algorithm=algorithm,
        default=default,
        similarity=similarity,
        names=names,
        ties=ties,
        resamples=resamples,
        seed=seed,
    )
    check_out(out)
    tree, part = read_part(taxonomy, format, root)
    columns = AnnotatedColumns(answer_column, node_column, also_column, style_column, image_column)
    answers = read_annotated(file, tree, columns=columns, no_node=no_node, missing=missing, part=part)
    keep_work(split_name(spec)[1] for spec in (*settings.measures, similarity))
    told = MeasureSettings(device=device, batch_size=batch_size, cache_dir=cache_dir)
    shown = None
    if images is not None:
        shown = draw_node_images(images, tree, root=image_root, seed=seed, part=part)
    publish(run_mapping(tree, answers, settings, told, shown, part), out=out, as_json=as_json)
