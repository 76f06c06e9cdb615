"""`taxtune study correlation`: do text measures tell how near two labels are on the tree?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taxtune.cli.interrupts import keep_work
from taxtune.cli.options import (
    BatchSizeOption,
    CacheDirOption,
    DeviceOption,
    EnglishNamesOption,
    FormatOption,
    ImageRootOption,
    JsonOption,
    OutOption,
    TaxonomyOption,
    check_out,
    choice,
    measure_option,
)

__all__ = ["correlation"]

_DEFAULT = ("exact-match", "contained", "bleu-2", "rouge-1", "meteor")


def correlation(
    taxonomy: TaxonomyOption,
    format: FormatOption = "auto",
    root: Annotated[
        str | None,
        typer.Option(
            "--root",
            metavar="NODE",
            help="Draw pairs from the part of the taxonomy below this node (a label or path), which becomes the root.",
        ),
    ] = None,
    measure: Annotated[list[str] | None, measure_option(f"Default: {', '.join(_DEFAULT)}.")] = None,
    n: Annotated[int, typer.Option("-n", "--pairs", min=2, help="Pairs drawn for each of hP and hR.")] = 100_000,
    labels: Annotated[
        str, typer.Option(help="A node's label: its first common name where it has one (common), or canonical.")
    ] = "common",
    nearest: Annotated[
        int, typer.Option(min=0, help="Least distance of a pair in edges; 0 pairs leaves with themselves.")
    ] = 1,
    farthest: Annotated[int, typer.Option(min=1, help="Greatest distance of a pair in edges.")] = 7,
    draw: Annotated[
        str, typer.Option(help="A node for hP: uniform among the nodes at the distance, or among the steps up first.")
    ] = "nodes",
    names: EnglishNamesOption = True,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Images of the nodes, for clip-i2t: a manifest (image, label), a folder a class, or iNat21's JSON.",
        ),
    ] = None,
    image_root: ImageRootOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the pairs and of the images.")] = 0,
    device: DeviceOption = "auto",
    batch_size: BatchSizeOption = 64,
    cache_dir: CacheDirOption = None,
    save_pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", dir_okay=False, help="Write all pairs drawn there, with their scores."),
    ] = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Correlate measures of labels with hP and hR over drawn pairs of nodes (paper 1, Table 1 and Figure 8).

    The reference is a leaf's label, the answer that of a node 1 to 7 edges away (for hP) or of an ancestor (for hR).
    Prints Kendall's τ beside the paper's, with intervals and p-values; with --out also draws the figure.
    """
    from taxtune.metrics.registry import MeasureSettings, make_measure
    from taxtune.studies.both_trees import read_part
    from taxtune.studies.correlation.pairs import DRAWS
    from taxtune.studies.correlation.report import correlation_report
    from taxtune.studies.correlation.study import LABELS, CorrelationSettings, check_measures, correlate, write_pairs
    from taxtune.studies.mapping.node_images import images_by_node
    from taxtune.studies.output import publish
    from taxtune.studies.relay import ProgressRelay

    # What is wrong with an option is said before anything long is done.
    settings = CorrelationSettings(
        pairs=n,
        nearest=nearest,
        farthest=farthest,
        draw=choice(draw, DRAWS, "--draw"),  # type: ignore[arg-type]
        labels=choice(labels, LABELS, "--labels"),  # type: ignore[arg-type]
        seed=seed,
    )
    specs = list(dict.fromkeys(measure or _DEFAULT))
    check_measures(specs, images=images is not None)
    for place in (out, None if save_pairs is None else save_pairs.parent):
        check_out(place)
    tree, part = read_part(taxonomy, format, root, names=names)
    relay = ProgressRelay()
    shared = MeasureSettings(device=device, batch_size=batch_size, cache_dir=cache_dir)
    keep_work(specs)
    measures = [make_measure(spec, shared) for spec in specs]
    files = None
    if images is not None:
        files = images_by_node(images, tree, root=image_root, part=part)
    sets, found = correlate(tree, measures, settings, images=files, relay=relay)
    record = {
        "taxonomy": taxonomy,
        "format": format,
        "root": None if part is None else "/".join(part.full.path(part.root)),
        "names": names,
        "images": None if images is None else str(images),
        "nodes": len(tree),
        "leaves": len(tree.leaves),
        "nodes_with_common_name": sum(len(tree.names(v)) > 1 for v in range(len(tree))),
    }
    if save_pairs is not None:
        write_pairs(save_pairs, tree, settings, sets, found)
    publish(correlation_report(tree, measures, settings, sets, found, record), out=out, as_json=as_json)
