"""`taxtune study specificity`: right texts of any specificity against subtly wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taxtune.cli.interrupts import keep_scores
from taxtune.cli.options import (
    BatchSizeOption,
    CacheDirOption,
    DeviceOption,
    JsonOption,
    OutOption,
    SeedOption,
    check_out,
)

__all__ = ["specificity"]


def specificity(
    captions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Captions in COCO's format (captions_val2017.json).")
    ] = None,
    instances: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Objects in COCO's format (instances_val2017.json).")
    ] = None,
    narratives: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Localized Narratives of the same images, JSON lines.")
    ] = None,
    images: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The folder of the images.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="hf-hub:OWNER/MODEL, local-dir:FOLDER or ARCHITECTURE@WEIGHTS (open_clip). May be repeated.",
        ),
    ] = None,
    scored: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Pairs that any model has scored: image, kind, text, score. May be repeated."
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Write every pair of image and text, to look at or to be scored."),
    ] = None,
    negatives: Annotated[int, typer.Option(metavar="N", help="Wrong texts of each kind for an image.")] = 100,
    sample: Annotated[
        int | None, typer.Option(metavar="N", help="Draw this many images at random; all if left out.")
    ] = None,
    templates: Annotated[
        str, typer.Option(metavar="SET|FILE", help="The prompt template of labels: photo, label, or a file with one.")
    ] = "photo",
    words: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Words for the categories (category, singular, plural, mentions), as CSV."),
    ] = None,
    nouns: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="What is swapped in captions: words (mentions of categories), spacy[:MODEL] or rules."
        ),
    ] = "words",
    resamples: Annotated[int, typer.Option(min=0, max=100_000, help="Bootstrap resamples; 0 for no intervals.")] = 1000,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
    device: DeviceOption = "auto",
    batch_size: BatchSizeOption = 64,
    cache_dir: CacheDirOption = None,
) -> None:
    """Tell whether a model scores right texts above subtly wrong ones (paper 3, Table 3 and Figure 5)."""
    from taxtune.studies.output import publish
    from taxtune.studies.specificity.runs import Settings, run_specificity

    check_out(out)
    settings = Settings(
        captions=captions,
        instances=instances,
        narratives=narratives,
        images=images,
        models=tuple(model or ()),
        scored=tuple(scored or ()),
        templates=templates,
        words=words,
        nouns=nouns,
        negatives=negatives,
        sample=sample,
        resamples=resamples,
        seed=seed,
        pairs=pairs,
        device=device,
        batch_size=batch_size,
        cache_dir=cache_dir,
    )
    if model:
        keep_scores()
    publish(run_specificity(settings), out=out, as_json=as_json)
