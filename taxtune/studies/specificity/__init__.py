"""Specificity (paper 3, §5): right texts of any specificity against subtly wrong ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from taxtune.errors import DataError
from taxtune.options import SeedOption
from taxtune.report.output import StudyReport
from taxtune.studies.settings import NOT_RECORDED, BatchSize, ModelSettings, Recorded, check_once, check_written

__all__ = ["SpecificitySettings", "run"]


@dataclass(frozen=True, kw_only=True)
class SpecificitySettings(ModelSettings):
    """Which texts are scored by what: see `taxtune study specificity --help`.

    Raises:
        DataError: If a value is out of range, or values contradict each other.
        TaxtuneError: If the file of pairs cannot be written.
    """

    captions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Captions in COCO's format (captions_val2017.json).")
    ] = None
    instances: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Objects in COCO's format (instances_val2017.json).")
    ] = None
    narratives: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Localized Narratives of the same images, JSON lines.")
    ] = None
    images: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The folder of the images.")] = None
    model: Annotated[
        tuple[str, ...],
        typer.Option(
            "--model",
            metavar="MODEL",
            help="hf-hub:OWNER/MODEL, local-dir:FOLDER or ARCHITECTURE@WEIGHTS (open_clip). May be repeated.",
        ),
        Recorded("models"),
    ] = ()
    scored: Annotated[
        tuple[Path, ...],
        typer.Option(metavar="FILE", help="Pairs scored by any model: image, kind, text, score. May be repeated."),
    ] = ()
    pairs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl", help="Write every pair of image and text to this file, for inspection or scoring."
        ),
        NOT_RECORDED,
    ] = None
    negatives: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of wrong texts of each kind for an image.")
    ] = 100
    sample: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Number of images to draw at random. Default: all.")
    ] = None
    templates: Annotated[
        str, typer.Option(metavar="SET|FILE", help="The prompt template for labels: photo, label, or a file with one.")
    ] = "photo"
    words: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Words for the categories (category, singular, plural, mentions), as CSV."),
    ] = None
    nouns: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="What to swap in captions: words (mentions of categories), spacy[:MODEL] or rules."
        ),
    ] = "words"
    resamples: Annotated[
        int, typer.Option(min=0, max=100_000, help="Number of bootstrap resamples; 0 for no intervals.")
    ] = 1000
    seed: SeedOption = 0
    batch_size: BatchSize = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        for spec in self.model:
            if not spec.removeprefix("clip:").strip() or spec.startswith(("sentence:", "llm:")):
                raise DataError("--model takes no such model.", value=spec, remedy="Use a CLIP model, see --help.")
        check_once("--model", self.model)
        check_once("--scored", self.scored)
        inputs = (self.captions, self.instances, self.narratives, self.words, *self.scored)
        check_written(self.pairs, "--pairs", ".jsonl", inputs)
        wrong = None
        if (self.captions is None) != (self.instances is None):
            wrong = "--captions and --instances must be given together."
        elif self.captions is None and (self.model or self.pairs or self.narratives or self.images or self.sample):
            wrong = "No texts were given: --model, --pairs and the like need --captions and --instances."
        elif self.captions is None and not self.scored:
            wrong = "Nothing to study was given: give --captions and --instances, or --scored FILE."
        elif self.captions is not None and not self.model and self.pairs is None:
            wrong = "There is nothing to score the texts with: give a --model, or write them with --pairs FILE."
        elif (self.images is None) != (not self.model):
            wrong = "A --model needs the images, and --images needs a --model."
        elif self.pairs is not None and len(self.model) > 1:
            wrong = "--pairs works with one --model only."
        if wrong is not None:
            raise DataError(wrong)

    def works(self) -> Sequence[str]:
        """Returns the models, whose embeddings and scores are kept."""
        return [f"clip:{spec}" for spec in self.model]


def run(settings: SpecificitySettings) -> StudyReport:
    """Tell whether a model scores right texts above subtly wrong ones (paper 3, Table 3 and Figure 5).

    Without a model it only makes the texts and writes the pairs.

    Args:
        settings: Which texts are scored by what.

    Raises:
        TaxtuneError: If a file or a model is not there or not what it must be.
    """
    from taxtune.studies.specificity.study import specificity

    return specificity(settings)
