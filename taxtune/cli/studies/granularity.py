"""`taxtune study granularity`: coarse labels directly, or by way of the fine ones below them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taxtune.cli.interrupts import keep_replies, keep_scores
from taxtune.cli.options import (
    AnswerColumnOption,
    BatchSizeOption,
    CacheDirOption,
    ConcurrencyOption,
    DeviceOption,
    EnglishNamesOption,
    FormatOption,
    GuessesOption,
    IdColumnOption,
    JsonOption,
    MissingOption,
    OffTreeOption,
    OutOption,
    SeedOption,
    TargetColumnOption,
    TaxonomyOption,
    WhereOption,
    check_out,
    choice,
    note,
    pairs,
)

__all__ = ["granularity"]


def granularity(
    taxonomy: TaxonomyOption,
    form: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="hierarchy (mAP of all labels), two-level (top-1 of fine and coarse classes), language (label text "
            "alone) or frequency (captions alone).",
        ),
    ] = "hierarchy",
    scores: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A score matrix, .npz or CSV. May be repeated.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="hf-hub:OWNER/MODEL, local-dir:FOLDER, ARCHITECTURE@WEIGHTS (open_clip), sentence:MODEL, or, for "
            "language, llm:MODEL. May be repeated.",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Images: a manifest, a folder a class, or inat21's JSON.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder that the manifest's image names are relative to.")
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Score these texts in the place of images (CSV or JSONL).")
    ] = None,
    captions: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Count how many of these captions name each label: .txt (one a line), CSV, JSONL, also packed, or "
            "COCO's JSON. May be repeated.",
        ),
    ] = None,
    caption_column: Annotated[str, typer.Option(metavar="NAME", help="Column of the captions.")] = "caption",
    answer_column: AnswerColumnOption = "answer",
    target_column: TargetColumnOption = "target",
    id_column: IdColumnOption = "id",
    where: WhereOption = None,
    guesses: GuessesOption = "first",
    off_tree: OffTreeOption = "error",
    missing: MissingOption = "error",
    root: Annotated[
        str | None,
        typer.Option(metavar="NODE", help="Restrict the taxonomy to the part below this node, which becomes the root."),
    ] = None,
    templates: Annotated[
        str | None,
        typer.Option(metavar="SET|FILE", help="Prompt templates of labels: label, photo, photos, or a file of yours."),
    ] = None,
    label_names: Annotated[
        str, typer.Option(metavar="NAMES", help="Names in the prompts: common (where there is one) or label.")
    ] = "common",
    trivial: Annotated[
        str, typer.Option(metavar="WHAT", help="Ancestors that every image shows, AP 1: keep or leave-out.")
    ] = "keep",
    coarse_level: Annotated[
        int | None, typer.Option(metavar="N", help="The coarse classes are the inner nodes of this level.")
    ] = None,
    coarse: Annotated[list[str] | None, typer.Option(metavar="NODE", help="A coarse class. May be repeated.")] = None,
    names: EnglishNamesOption = True,
    resamples: Annotated[int, typer.Option(min=0, max=10_000, help="Bootstrap resamples; 0 for no intervals.")] = 500,
    seed: SeedOption = 0,
    save_scores: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Keep the score matrix that the model made.")
    ] = None,
    format: FormatOption = "auto",
    out: OutOption = None,
    as_json: JsonOption = False,
    device: DeviceOption = "auto",
    batch_size: BatchSizeOption = 64,
    cache_dir: CacheDirOption = None,
    api_base: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of an OpenAI-compatible server, for llm:MODEL.")
    ] = None,
    concurrency: ConcurrencyOption = 8,
) -> None:
    """Tell whether a model knows coarse labels as well as the fine ones below them (paper 3, §4, Appendices A, B)."""
    from taxtune.studies.granularity.runs import run_granularity
    from taxtune.studies.granularity.settings import FORMS, Settings
    from taxtune.studies.output import publish

    check_out(out)
    settings = Settings(
        taxonomy=taxonomy,
        format=format,
        form=choice(form, FORMS, "--form"),  # type: ignore[arg-type]
        scores=tuple(scores or ()),
        models=tuple(model or ()),
        data=data,
        images=images,
        answers=answers,
        captions=tuple(captions or ()),
        caption_column=caption_column,
        columns={"answer": answer_column, "target": target_column, "id": id_column},
        where=tuple(pairs(where, "--where").items()),
        guesses=choice(guesses, ("first", "join"), "--guesses"),  # type: ignore[arg-type]
        off_tree=choice(off_tree, ("error", "leave-out"), "--off-tree"),  # type: ignore[arg-type]
        missing=choice(missing, ("error", "leave-out"), "--missing"),  # type: ignore[arg-type]
        root=root,
        templates=templates,
        label_names=label_names,
        trivial=trivial,
        coarse_level=coarse_level,
        coarse=tuple(coarse or ()),
        english_names=names,
        resamples=resamples,
        seed=seed,
        device=device,
        batch_size=batch_size,
        cache_dir=cache_dir,
        api_base=api_base,
        concurrency=concurrency,
        save_scores=save_scores,
    )
    if any(spec.startswith("llm:") for spec in settings.models):
        keep_replies()
    elif settings.models:
        keep_scores()
    report = run_granularity(settings, note=note)
    publish(report, out=out, as_json=as_json)
