"""`taxtune study granularity`: coarse labels directly, or by way of the fine ones below them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from taxtune.cli.studies.options import check_out, choice, pairs

__all__ = ["granularity"]


def granularity(
    taxonomy: Annotated[
        str, typer.Option("--taxonomy", "-t", metavar="FILE", help="The taxonomy, or builtin:fieldguide.")
    ],
    form: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="hierarchy (mAP of all labels), two-level (top-1 of fine and coarse classes) or language (label text "
            "alone).",
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
    answer_column: Annotated[str, typer.Option(metavar="NAME", help="Column of the answers.")] = "answer",
    target_column: Annotated[str, typer.Option(metavar="NAME", help="Column of the answers' targets.")] = "target",
    id_column: Annotated[str, typer.Option(metavar="NAME", help="Column of the examples' ids.")] = "id",
    where: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="Only these rows of the answers. May be repeated.")
    ] = None,
    guesses: Annotated[
        str, typer.Option(metavar="WHAT", help="What a list of guesses is as one text: first or join.")
    ] = "first",
    off_tree: Annotated[
        str, typer.Option(metavar="WHAT", help="Answers whose target is not on the tree: error or leave-out.")
    ] = "error",
    missing: Annotated[str, typer.Option(metavar="WHAT", help="Rows without an answer: error or leave-out.")] = "error",
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
    names: Annotated[bool, typer.Option(help="Add the English names that come with taxtune.")] = True,
    resamples: Annotated[int, typer.Option(min=0, max=10_000, help="Bootstrap resamples; 0 for no intervals.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")] = 0,
    save_scores: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Keep the score matrix that the model made.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format", help="The taxonomy's format, see `taxtune taxonomy check --help`; auto looks at the content."
        ),
    ] = "auto",
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write tables, figure and study.json there.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Annotated[str, typer.Option(help="Where models run: auto, cpu, cuda, ...")] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Texts or images encoded at once.")] = 64,
    cache_dir: Annotated[
        Path | None, typer.Option(metavar="FOLDER", file_okay=False, help="Where embeddings are kept.")
    ] = None,
    api_base: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of an OpenAI-compatible server, for llm:MODEL.")
    ] = None,
) -> None:
    """Tell whether a model knows coarse labels as well as the fine ones below them (paper 3, Tables 2, 5 and 6)."""
    from taxtune.studies.answer_files import Columns
    from taxtune.studies.granularity.runs import FORMS, Settings, run_granularity
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
        columns=Columns(answer_column, target_column, id_column),
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
        save_scores=save_scores,
    )
    report = run_granularity(settings, note=lambda text: print(f"taxtune: note: {text}", file=sys.stderr))
    publish(report, out=out, as_json=as_json)
