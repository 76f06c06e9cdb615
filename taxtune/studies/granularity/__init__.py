"""Granularity (paper 3, §4): coarse labels directly, or by way of the fine ones below them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from taxtune.errors import DataError
from taxtune.options import BatchSizeOption, EnglishNamesOption, MissingOption, SeedOption
from taxtune.report.output import StudyReport
from taxtune.studies.settings import (
    NOT_RECORDED,
    AnswerSettings,
    ApiSettings,
    Recorded,
    TreeSettings,
    check_once,
    check_written,
)

__all__ = ["GranularitySettings", "run"]

# Which forms an option belongs to, where not to all.
_SCOPES = {
    "captions": ("hierarchy", "frequency"),
    "coarse_level": ("two-level", "language"),
    "coarse": ("two-level", "language"),
    "save_scores": ("hierarchy", "two-level"),
}


@dataclass(frozen=True, kw_only=True)
class GranularitySettings(ApiSettings, AnswerSettings, TreeSettings):
    """What is scored and how: see `taxtune study granularity --help`.

    Raises:
        DataError: If a value is out of range, or values contradict each other.
        TaxtuneError: If the file of scores cannot be written.
    """

    form: Annotated[
        Literal["hierarchy", "two-level", "language", "frequency"],
        typer.Option(
            metavar="FORM",
            help="hierarchy (mAP of all labels), two-level (top-1 of fine and coarse classes), language (label text "
            "alone) or frequency (captions alone).",
        ),
    ] = "hierarchy"
    scores: Annotated[
        tuple[Path, ...], typer.Option(metavar="FILE", help="A score matrix, .npz or CSV. May be repeated.")
    ] = ()
    model: Annotated[
        tuple[str, ...],
        typer.Option(
            "--model",
            metavar="MODEL",
            help="hf-hub:OWNER/MODEL, local-dir:FOLDER, ARCHITECTURE@WEIGHTS (open_clip), sentence:MODEL, or, for "
            "language, llm:MODEL. May be repeated.",
        ),
        Recorded("models"),
    ] = ()
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Images: a manifest, one folder for each class, or inat21's JSON."),
    ] = None
    images: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder that the manifest's image names are relative to.")
    ] = None
    answers: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Score these texts instead of images: a file of answers, or a run."),
    ] = None
    captions: Annotated[
        tuple[Path, ...],
        typer.Option(
            metavar="FILE",
            help="Count how many of these captions name each label: .txt (one per line), CSV, JSONL, also compressed, "
            "or COCO's JSON. May be repeated.",
        ),
    ] = ()
    caption_column: Annotated[str, typer.Option(metavar="NAME", help="Column with the captions.")] = "caption"
    missing: Annotated[Literal["error", "leave-out"], MissingOption] = "error"
    graph: Annotated[
        bool,
        typer.Option(
            "--graph",
            help="The taxonomy is a graph whose nodes may have several parents: any file that `taxtune taxonomy build` "
            "takes, or writes with `--parents all`.",
        ),
    ] = False
    root: Annotated[
        str | None,
        typer.Option(metavar="NODE", help="Restrict the taxonomy to the part below this node, which becomes the root."),
    ] = None
    templates: Annotated[
        str | None,
        typer.Option(metavar="SET|FILE", help="Prompt templates for labels: label, photo, photos, or your own file."),
    ] = None
    label_names: Annotated[
        Literal["common", "label"],
        typer.Option(metavar="NAMES", help="Names in the prompts: common (if there is one) or label."),
    ] = "common"
    trivial: Annotated[
        Literal["keep", "leave-out"],
        typer.Option(
            metavar="WHAT",
            help="Ancestors that every image shows, whose average precision is always 1: keep or leave-out.",
        ),
    ] = "keep"
    coarse_level: Annotated[
        int | None, typer.Option(metavar="N", help="Level whose inner nodes are the coarse classes.")
    ] = None
    coarse: Annotated[tuple[str, ...], typer.Option(metavar="NODE", help="A coarse class. May be repeated.")] = ()
    names: Annotated[EnglishNamesOption, Recorded("english_names")] = True
    resamples: Annotated[
        int, typer.Option(min=0, max=10_000, help="Number of bootstrap resamples; 0 for no intervals.")
    ] = 500
    seed: SeedOption = 0
    save_scores: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Write the model's score matrix to this file."),
        NOT_RECORDED,
    ] = None
    batch_size: BatchSizeOption = 64
    api_base: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of an OpenAI-compatible server, for llm:MODEL.")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for spec in self.model:
            if not spec.strip() or spec in ("sentence:", "clip:", "llm:"):
                raise DataError("--model is empty.", value=spec, remedy="Use one of the forms listed by `--help`.")
        for name, forms in _SCOPES.items():
            if getattr(self, name) not in (None, ()) and self.form not in forms:
                raise DataError(
                    f"The form `{self.form}` does not use --{name.replace('_', '-')}.",
                    remedy=f"Use it with --form {' or '.join(forms)}.",
                )
        if self.graph:
            self._check_graph()
        if self.images is not None and self.data is None:
            raise DataError("--images is the folder of a manifest's images.", remedy="Give the manifest with --data.")
        for option, given in (("--model", self.model), ("--scores", self.scores), ("--captions", self.captions)):
            check_once(option, given)
        scored = bool(self.scores or self.data or self.answers)
        if self.form == "frequency":
            if self.model or scored:
                raise DataError(
                    "The form `frequency` counts names in captions; it takes no images, answers, scores or models.",
                    remedy="To compare captions with scores, use --form hierarchy.",
                )
            if not self.captions:
                raise DataError("No captions were given.", remedy="Give --captions FILE.")
        elif self.form == "language":
            if not self.model:
                raise DataError("The form `language` needs a --model.", remedy="Give sentence:, clip: or llm:MODEL.")
            if scored:
                raise DataError(
                    "The form `language` compares labels with labels; it takes no images, answers or scores."
                )
        else:
            self._check_sources()

    def _check_graph(self) -> None:
        """Checks that what is asked for has a meaning where labels have several parents."""
        if self.form in ("two-level", "language"):
            raise DataError(
                f"The form `{self.form}` does not use --graph: a fine class belongs to one coarse class.",
                remedy="Use it with --form hierarchy or frequency, or give a tree.",
            )
        if self.root is not None:
            raise DataError(
                "--root does not go with --graph.",
                value=self.root,
                remedy="Make the graph of that part: `taxtune taxonomy build FILE --root NODE --parents all`.",
            )
        if not isinstance(self.taxonomy, str | Path):
            raise DataError("--graph reads a file.", value=self.taxonomy, remedy="Give its path.")

    def _check_sources(self) -> None:
        """Checks where the scores of labels come from."""
        for spec in self.model:
            if spec.startswith("llm:"):
                raise DataError("A chat model does not give scores.", value=spec, remedy="Use it with --form language.")
            if spec.startswith("sentence:") and self.data is not None:
                raise DataError(
                    "This encoder does not take images.", value=spec, remedy="Use a CLIP model, or give --answers."
                )
        if bool(self.model) != ((self.data is None) != (self.answers is None)) or (self.data and self.answers):
            raise DataError("--model needs --data (images) or --answers (texts) to score, and these need a --model.")
        if not self.scores and not self.model:
            raise DataError(
                "No scores were given.", remedy="Give --scores FILE, or a --model with --data or --answers."
            )
        if self.save_scores is not None and len(self.model) != 1:
            raise DataError("--save-scores works with one --model only.", value=list(self.model))
        read = (self.taxonomy, self.data, self.answers, *self.scores, *self.captions)
        check_written(self.save_scores, "--save-scores", ".npz", read)

    def record(self) -> dict[str, Any]:
        """Returns the fields as the report records them."""
        return super().record() | {"where": list(self.where.items())}


def run(settings: GranularitySettings) -> StudyReport:
    """Tell whether a model knows coarse labels as well as the fine ones below them (paper 3, §4, Appendices A, B).

    Args:
        settings: What is scored and how.

    Raises:
        TaxtuneError: If a file, a label or a model is not there or not what it must be.
    """
    from taxtune.studies.granularity.study import granularity

    return granularity(settings)
