"""`taxtune parity`: how often a model's answers depend on batches and kept images."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taxtune.errors import DataError
from taxtune.options import BatchSizeOption, DeviceOption, JsonOption, OutOption, SeedOption, check_out
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.models.parity import Parity
    from taxtune.report.output import StudyReport

__all__ = ["parity"]

_TITLES = {"alone": "one by one", "batched": "in batches", "kept": "in batches, images kept"}


def parity(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Vision-language model: Hugging Face name or folder.")],
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES...", help="Image files, or folders of them.")],
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Text with one prompt per line. Default: four that come with taxtune."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Most images; of more, so many are drawn.")] = 50,
    batch_size: BatchSizeOption = 8,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 48,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of the model.")] = None,
    device: DeviceOption = "auto",
    examples: Annotated[int, typer.Option(min=0, metavar="N", help="Most answers that differ to be shown.")] = 5,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print how often a model answers differently one by one, in batches, and from kept images.

    Rounding depends on the shape of a batch, and where two tokens are about equally likely it decides which one is
    written: hardly ever in float32, now and then in bfloat16.
    """
    from taxtune.report.output import publish

    check_out(out)
    texts = _prompts(prompts)
    files = _images(images)
    if len(files) > limit:
        files = sorted(random.Random(seed).sample(files, limit))
    from taxtune.models import ModelSettings, Request, check_model
    from taxtune.models.names import parse_model
    from taxtune.models.parity import compare_ways
    from taxtune.models.vision import LocalVLM

    settings = ModelSettings(
        max_tokens=max_new_tokens, batch_size=batch_size, dtype=dtype, device=device, revision=revision
    )
    name = parse_model(model)
    if name.kind != "local":
        raise DataError("Only a model on this machine answers in batches.", value=model, remedy="Give local:MODEL.")
    vlm = LocalVLM(name.model, settings)
    for text in check_model(vlm):
        note(text)
    found = compare_ways(vlm, [Request(text, file) for text in texts for file in files])
    asked = {"prompts": prompts, "images": len(files), "batch_size": batch_size, "seed": seed}
    publish(_report(found, {**vlm.identity, **asked}, examples), out=out, as_json=as_json)


def _prompts(file: Path | None) -> list[str]:
    from taxtune.resources import prompts_dir

    source = file or prompts_dir() / "parity" / "questions.txt"
    try:
        lines = source.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"The prompts cannot be read: {error}", file=source, remedy="Give a UTF-8 text file.") from None
    texts = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not texts:
        raise DataError("The file has no prompts.", file=source, remedy="Write one prompt per line.")
    return texts


def _images(given: Sequence[Path]) -> list[Path]:
    from taxtune.data.images import IMAGE_SUFFIXES

    files: dict[Path, None] = {}
    for path in given:
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES and file.is_file())
            if not found:
                raise DataError("The folder contains no images.", file=path, remedy="Give a folder with images.")
            files.update(dict.fromkeys(found))
        elif path.is_file():
            files[path] = None
        else:
            raise DataError("The image does not exist.", file=path, remedy="Check the path.")
    return list(files)


def _report(found: Parity, settings: dict[str, object], examples: int) -> StudyReport:
    from taxtune.models.base import Answer
    from taxtune.report.output import StudyReport, Table

    questions = len(found.questions)
    rows = []
    for name, way in found.ways.items():
        compared, differ = len(found.answered(name)), len(found.differing(name))
        failed = sum(not isinstance(reply, Answer) for reply in way.replies)
        share = 100 * differ / compared if compared else None
        mine = name == "alone"
        rows.append(
            (_TITLES[name], way.batch_size, failed, None if mine else differ, None if mine else share, way.seconds)
        )
    different = sorted({i for name in found.ways for i in found.differing(name)})
    tables = [
        Table(
            "parity",
            f"{questions:,} questions to {settings['model']} in {settings['dtype']}",
            ("asked", "batch size", "failed", "differ", "%", "seconds"),
            tuple(rows),
            digits={"%": 2, "seconds": 1},
            notes=("differ: answers with another text than one by one, of the questions answered in both ways",),
        )
    ]
    if different and examples:
        shown = tuple(
            (str(found.questions[i].image), found.questions[i].prompt, *(found.text(name, i) for name in found.ways))
            for i in different[:examples]
        )
        title = f"{len(shown)} of {len(different):,} questions with different answers"
        tables.append(Table("examples", title, ("image", "prompt", *(_TITLES[name] for name in found.ways)), shown))
    notes = () if found.not_kept is None else (f"images of this model are not kept: {found.not_kept}.",)
    return StudyReport(
        "parity", "How often answers depend on how they are computed", settings, tuple(tables), notes=notes
    )
