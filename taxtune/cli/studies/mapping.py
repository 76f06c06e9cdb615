"""`taxtune study mapping`: measures as mappers, alone and with Algorithm 1, on answers that people have placed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taxtune.cli.studies.options import check_out, note
from taxtune.errors import DataError

__all__ = ["mapping"]


def mapping(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV or JSONL of answers and the nodes that people placed them on.")
    ],
    taxonomy: Annotated[
        str, typer.Option("--taxonomy", "-t", metavar="TREE", help="The taxonomy file, or builtin:fieldguide.")
    ],
    format: Annotated[
        str,
        typer.Option(
            "--format", help="The taxonomy's format, see `taxtune taxonomy check --help`; auto looks at the content."
        ),
    ] = "auto",
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            "-m",
            metavar="[NAME=]SPEC",
            help="A measure (rouge-1, sentence:MODEL, clip-t2t:MODEL, ...) or lexical, repeatable. "
            "Default: exact-match, contained, bleu-2, rouge-1, meteor and lexical.",
        ),
    ] = None,
    alone: Annotated[bool, typer.Option(help="Place by the most similar name alone.")] = True,
    algorithm: Annotated[bool, typer.Option(help="Place with Algorithm 1, the preset paper-listing.")] = True,
    default: Annotated[bool, typer.Option(help="Place with taxtune's default mapper.")] = True,
    similarity: Annotated[
        str, typer.Option(help="The default mapper's: lexical, sentence:MODEL or clip:MODEL.")
    ] = "lexical",
    names: Annotated[
        str, typer.Option(help="Names that a measure compares: all of a node's, or its common one as in the paper.")
    ] = "all",
    ties: Annotated[
        str,
        typer.Option(
            help="Where nodes share the highest score: the deepest, their common ancestor, or one at random "
            "(deepest, ancestor, random)."
        ),
    ] = "deepest",
    answer_column: Annotated[str, typer.Option(help="Column of the answer.")] = "answer",
    node_column: Annotated[str, typer.Option(help="Column of the node.")] = "node",
    also_column: Annotated[str, typer.Option(help="Column of further acceptable nodes.")] = "also",
    style_column: Annotated[str, typer.Option(help="Column that answers are grouped by.")] = "style",
    images: Annotated[
        Path | None,
        typer.Option(
            help="Images of the nodes, which clip-i2t compares the answer with: a manifest (image, label), a folder a "
            "class, or iNat21's JSON."
        ),
    ] = None,
    image_root: Annotated[Path | None, typer.Option(help="Folder that --images is relative to.")] = None,
    image_column: Annotated[
        str | None,
        typer.Option(
            help="Column of the answer's own image, relative to FILE's folder: clip-i2t then compares it, in place of "
            "the answer, with the names of the nodes."
        ),
    ] = None,
    no_node: Annotated[
        str,
        typer.Option(help="What an empty node means: root (the answer names nothing), error or leave-out."),
    ] = "root",
    missing: Annotated[str, typer.Option(help="Rows without an answer: error or leave-out.")] = "error",
    resamples: Annotated[int, typer.Option(min=1, max=1_000_000, help="Bootstrap resamples.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap and of random ties.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write tables, figures and study.json there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with a record for each answer.")] = False,
    device: Annotated[str, typer.Option(help="Where models run: auto, cpu, cuda, ...")] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Texts or pairs computed at once.")] = 64,
    cache_dir: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where embeddings and scores are kept.")] = (
        None
    ),
) -> None:
    """Place annotated answers by each measure, alone and with Algorithm 1 (paper 1, Table 2 and Figure 4)."""
    from taxtune.metrics.registry import MeasureSettings
    from taxtune.studies.mapping.annotated import AnnotatedColumns, read_annotated
    from taxtune.studies.mapping.node_images import draw_node_images
    from taxtune.studies.mapping.report import run_mapping
    from taxtune.studies.mapping.study import DEFAULT_MEASURES, MappingSettings
    from taxtune.studies.output import publish
    from taxtune.taxonomy import read_taxonomy

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
    tree = read_taxonomy(taxonomy, format=format, on_note=note)
    columns = AnnotatedColumns(answer_column, node_column, also_column, style_column, image_column)
    answers = read_annotated(file, tree, columns=columns, no_node=no_node, missing=missing)
    told = MeasureSettings(device=device, batch_size=batch_size, cache_dir=cache_dir)
    shown = None
    if images is not None:
        shown = draw_node_images(images, tree, root=image_root, seed=seed, on_note=note)
    publish(run_mapping(tree, answers, settings, told, shown), out=out, as_json=as_json)
