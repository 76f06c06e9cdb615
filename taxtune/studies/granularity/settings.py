"""The settings of the study `granularity`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import model_validator
from typer import Option

from taxtune.errors import DataError
from taxtune.options import MissingOption, SeedOption
from taxtune.studies.settings import (
    AnswerSettings,
    ApiSettings,
    BatchSize,
    Recorded,
    TreeSettings,
    check_once,
)

__all__ = ["GranularitySettings"]

_IMAGES = ("hierarchy", "two-level")
# The forms that an option belongs to, where not to all.
_FORMS = {
    "scores": _IMAGES,
    "data": _IMAGES,
    "answers": _IMAGES,
    "model": (*_IMAGES, "language"),
    "captions": ("hierarchy", "frequency"),
    "coarse_level": ("two-level", "language"),
    "coarse": ("two-level", "language"),
}


class GranularitySettings(ApiSettings, AnswerSettings, TreeSettings):
    """What is scored and how: see `taxtune study granularity --help`.

    Raises:
        DataError: If a value is out of range, or values contradict each other.
    """

    form: Annotated[
        Literal["hierarchy", "two-level", "language", "frequency"],
        Option(
            metavar="FORM",
            help="hierarchy (mAP of all labels), two-level (top-1, fine and coarse), language (label text "
            "alone) or frequency (captions alone).",
        ),
    ] = "hierarchy"
    scores: Annotated[
        tuple[Path, ...], Option(metavar="FILE", help="Score matrix, .npz or CSV; repeatable.")
    ] = ()
    model: Annotated[
        tuple[str, ...],
        Option(
            "--model",
            metavar="MODEL",
            help="hf-hub:OWNER/MODEL, local-dir:FOLDER, ARCHITECTURE@WEIGHTS (open_clip), sentence:MODEL, or, for "
            "language, llm:MODEL; repeatable.",
        ),
        Recorded("models"),
    ] = ()
    data: Annotated[
        Path | None,
        Option(
            metavar="PATH", help="Images: a manifest, one folder for each class, or inat21's JSON."
        ),
    ] = None
    images: Annotated[
        Path | None,
        Option(
            metavar="FOLDER", help="The folder that the manifest's image names are relative to."
        ),
    ] = None
    answers: Annotated[
        str | None,
        Option(
            metavar="FILE", help="Score these texts instead of images: a file of answers, or a run."
        ),
    ] = None
    captions: Annotated[
        tuple[Path, ...],
        Option(
            metavar="FILE",
            help="Count the captions that name each label: .txt (one per line) or a table; repeatable.",
        ),
    ] = ()
    caption_column: Annotated[str, Option(metavar="NAME", help="Column with the captions.")] = (
        "caption"
    )
    missing: Annotated[Literal["error", "leave-out"], MissingOption] = "error"
    root: Annotated[
        str | None,
        Option(
            metavar="NODE", help="Restrict the taxonomy to the part below this node, the new root."
        ),
    ] = None
    templates: Annotated[
        str | None,
        Option(
            metavar="SET|FILE", help="Prompts for labels: label, photo, photos, or your own file."
        ),
    ] = None
    trivial: Annotated[
        Literal["keep", "leave-out"],
        Option(
            metavar="WHAT",
            help="Ancestors that every image shows, whose average precision is always 1.",
        ),
    ] = "keep"
    coarse_level: Annotated[
        int | None, Option(metavar="N", help="Level whose inner nodes are the coarse classes.")
    ] = None
    coarse: Annotated[
        tuple[str, ...], Option(metavar="NODE", help="A coarse class; repeatable.")
    ] = ()
    resamples: Annotated[
        int, Option(min=0, max=10_000, help="Number of bootstrap resamples; 0: no intervals.")
    ] = 500
    seed: SeedOption = 0
    batch_size: BatchSize = 64

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name in ("model", "scores", "captions"):
            check_once(f"--{name}", getattr(self, name))
        for name, forms in _FORMS.items():
            is_given = getattr(self, name) not in (None, ())
            if is_given and self.form not in forms:
                message = f"The form `{self.form}` does not use {self.option(name)}."
                remedy = f"Use it with --form {' or '.join(forms)}."
                raise DataError(message, remedy=remedy)
        self._check_sources()
        return self

    def _check_sources(self) -> None:
        kinds = [spec.partition(":")[0] for spec in self.model]
        if self.form == "frequency" and not self.captions:
            raise DataError("No captions were given: give --captions FILE.")
        if self.form == "language" and not self.model:
            raise DataError("The form `language` needs a --model: sentence:, clip: or llm:MODEL.")
        if self.form in _IMAGES and "llm" in kinds:
            raise DataError(
                "A chat model does not give scores: use llm:MODEL with --form language."
            )
        if self.images is not None and self.data is None:
            raise DataError("--images goes with a manifest that --data gives.")
        if self.data is not None and "sentence" in kinds:
            raise DataError("A sentence encoder takes no images: use CLIP, or give --answers.")
        if self.form not in _IMAGES:
            return
        sources = [source for source in (self.data, self.answers) if source is not None]
        if len(sources) != bool(self.model):
            raise DataError(
                "--model needs --data (images) or --answers (texts) to score, and these a --model."
            )
        if not self.scores and not self.model:
            raise DataError("No scores were given: give --scores FILE, or a --model.")
