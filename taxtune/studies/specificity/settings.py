"""The settings of the study `specificity`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import model_validator
from typer import Option

from taxtune.errors import DataError
from taxtune.options import SeedOption
from taxtune.studies.settings import (
    NOT_RECORDED,
    BatchSize,
    ModelSettings,
    check_once,
    check_written,
)

__all__ = ["SpecificitySettings"]


class SpecificitySettings(ModelSettings):
    """The texts and the models that score them: see `taxtune study specificity --help`.

    Raises:
        DataError: If a value is out of range, or values contradict each other.
    """

    captions: Annotated[Path | None, Option(metavar="FILE", help="Captions in COCO's format.")] = (
        None
    )
    instances: Annotated[Path | None, Option(metavar="FILE", help="Objects in COCO's format.")] = (
        None
    )
    narratives: Annotated[
        Path | None, Option(metavar="FILE", help="Localized Narratives, JSON lines.")
    ] = None
    images: Annotated[Path | None, Option(metavar="FOLDER", help="The folder of the images.")] = (
        None
    )
    model: Annotated[
        tuple[str, ...],
        Option(
            "--model",
            help="hf-hub:OWNER/MODEL, local-dir:FOLDER or ARCHITECTURE@WEIGHTS (open_clip); repeatable.",
        ),
    ] = ()
    scored: Annotated[
        tuple[Path, ...],
        Option(metavar="FILE", help="Pairs with scores: image, kind, text, score; repeatable."),
    ] = ()
    pairs: Annotated[
        Path | None,
        Option(metavar="FILE.jsonl", help="Write every pair of image and text to this file."),
        NOT_RECORDED,
    ] = None
    negatives: Annotated[
        int, Option(metavar="N", min=1, help="Number of wrong texts of each kind per image.")
    ] = 100
    sample: Annotated[
        int | None, Option(min=2, help="Number of images to draw at random. Default: all.")
    ] = None
    resamples: Annotated[
        int, Option(min=0, max=100_000, help="Bootstrap resamples; 0 for no intervals.")
    ] = 1000
    seed: SeedOption = 0
    batch_size: BatchSize = 64

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for spec in self.model:
            if not spec.removeprefix("clip:").strip() or spec.startswith(("sentence:", "llm:")):
                raise DataError(
                    "--model takes no such model.",
                    value=spec,
                    remedy="Use a CLIP model, see --help.",
                )
        check_once("--model", self.model)
        check_once("--scored", self.scored)
        inputs = (self.captions, self.instances, self.narratives, *self.scored)
        check_written(self.pairs, "--pairs", ".jsonl", inputs)
        self._check_texts()
        return self

    def _check_texts(self) -> None:
        has_texts = self.captions is not None
        is_asked = bool(self.model or self.pairs)
        if has_texts != (self.instances is not None):
            raise DataError("--captions and --instances must be given together.")
        if not has_texts and (is_asked or self.narratives or self.sample):
            raise DataError("No texts: give --captions and --instances.")
        if not has_texts and not self.scored:
            raise DataError("Nothing to study: give --captions and --instances, or --scored FILE.")
        if has_texts and not is_asked:
            raise DataError(
                "Nothing to score the texts with: give a --model, or write them with --pairs FILE."
            )
        if (self.images is None) != (not self.model):
            raise DataError("A --model needs the images, and --images needs a --model.")
        if self.pairs is not None and len(self.model) > 1:
            raise DataError("--pairs works with one --model only.")
