"""What the granularity study can be asked, and what contradicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from taxtune.errors import DataError
from taxtune.studies.written import check_written

__all__ = ["FORMS", "Settings", "check_settings", "settings_record"]

Form = Literal["hierarchy", "two-level", "language", "frequency"]
FORMS: tuple[Form, ...] = ("hierarchy", "two-level", "language", "frequency")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the granularity study is asked.

    Attributes:
        taxonomy: The taxonomy's file, or builtin:fieldguide.
        format: Its format, or "auto".
        form: "hierarchy" (Table 2; with captions Figure 4), "two-level" (Table 5), "language" (Table 6) or "frequency"
            (Figure 4 left: captions alone).
        scores: Files of score matrices.
        models: "clip:MODEL" or a model as open_clip names it; "sentence:MODEL"; for the form language also "llm:MODEL".
        data: A manifest, a folder a class or an inat21 JSON file: the images.
        images: The folder that the manifest's image names are relative to, or None.
        answers: A file of answers to score in the place of images, or None.
        captions: Files of captions in which the labels' names are counted.
        caption_column: Which column of them holds the caption.
        columns: Which columns of it hold answer, target and id.
        where: Columns and the values that its rows must have.
        guesses: What a list of guesses means as one answer: "first" or "join".
        off_tree: What to do with its rows whose target is not on the tree: "error" or "leave-out".
        missing: What to do with its rows without an answer: "error" or "leave-out".
        root: Restrict the taxonomy to the part below this node, which becomes the root; None for the whole.
        templates: Prompt templates: label, photo, photos or a file; None is photos with images and label without.
        label_names: "common" or "label": which name of a node stands in a prompt.
        trivial: "keep" or "leave-out": ancestors that every image shows.
        coarse_level: Level of the coarse classes, or None.
        coarse: Labels of the coarse classes.
        english_names: Whether the English names that come with taxtune are added to the taxonomy.
        resamples: Bootstrap resamples.
        seed: Seed of everything random.
        device: Where models run.
        batch_size: Texts or images encoded at once.
        cache_dir: Where embeddings and replies are kept; None is the user's cache folder.
        api_base: Address of an OpenAI-compatible server, for llm:MODEL.
        concurrency: Calls of it under way at a time.
        save_scores: Where to keep the score matrix that a model made, or None.
    """

    taxonomy: str
    format: str = "auto"
    form: Form = "hierarchy"
    scores: tuple[Path, ...] = ()
    models: tuple[str, ...] = ()
    data: Path | None = None
    images: Path | None = None
    answers: Path | None = None
    captions: tuple[Path, ...] = ()
    caption_column: str = "caption"
    columns: Mapping[str, Any] = field(default_factory=lambda: {name: name for name in ("answer", "target", "id")})
    where: tuple[tuple[str, str], ...] = ()
    guesses: Literal["first", "join"] = "first"
    off_tree: Literal["error", "leave-out"] = "error"
    missing: Literal["error", "leave-out"] = "error"
    root: str | None = None
    templates: str | None = None
    label_names: str = "common"
    trivial: str = "keep"
    coarse_level: int | None = None
    coarse: tuple[str, ...] = ()
    english_names: bool = True
    resamples: int = 500
    seed: int = 0
    device: str = "auto"
    batch_size: int = 64
    cache_dir: Path | None = None
    api_base: str | None = None
    concurrency: int = 8
    save_scores: Path | None = None


def check_settings(settings: Settings) -> None:
    """Checks that the settings go together, before anything is read.

    Raises:
        DataError: If they do not.
        TaxtuneError: If the file of scores cannot be written.
    """
    if settings.form not in FORMS:
        raise DataError("There is no such form.", value=settings.form, remedy=f"Take {', '.join(FORMS)}.")
    for name, value, allowed in (
        ("label-names", settings.label_names, ("common", "label")),
        ("trivial", settings.trivial, ("keep", "leave-out")),
    ):
        if value not in allowed:
            raise DataError(f"--{name} takes {' or '.join(allowed)}.", value=value)
    for spec in settings.models:
        if not spec.strip() or spec in ("sentence:", "clip:", "llm:"):
            raise DataError("--model names no model.", value=spec, remedy="Give one as `--help` describes it.")
    _check_scope(settings)
    if settings.form == "frequency":
        if settings.models or settings.scores or settings.data or settings.answers:
            raise DataError(
                "The form `frequency` takes no images, answers, scores or models: it counts names in captions.",
                remedy="With --form hierarchy, captions and scores are compared.",
            )
        if not settings.captions:
            raise DataError("There is nothing to count in.", remedy="Give --captions FILE.")
        return
    if settings.form == "language":
        if not settings.models:
            raise DataError("The form `language` needs a --model.", remedy="Give sentence:, clip: or llm:MODEL.")
        if settings.scores or settings.data or settings.answers:
            raise DataError("The form `language` takes no images, answers or scores: it compares label with label.")
        return
    chat = [spec for spec in settings.models if spec.startswith("llm:")]
    if chat:
        raise DataError("A chat model gives no scores.", value=chat[0], remedy="Take it with --form language.")
    texts_only = [spec for spec in settings.models if spec.startswith("sentence:")]
    if settings.data is not None and texts_only:
        raise DataError(
            "This encoder reads no images.", value=texts_only[0], remedy="Take a CLIP model, or give --answers."
        )
    sources = (settings.data is not None) + (settings.answers is not None)
    if bool(settings.models) != bool(sources) or sources > 1:
        raise DataError(
            "A --model needs something to score, --data (images) or --answers (texts), and these need a --model."
        )
    if not settings.scores and not settings.models:
        raise DataError("There are no scores.", remedy="Give --scores FILE, or a --model with --data or --answers.")
    if settings.save_scores is not None and len(settings.models) != 1:
        raise DataError("--save-scores keeps the scores of one --model.", value=list(settings.models))
    read = (settings.taxonomy, settings.data, settings.answers, *settings.scores, *settings.captions)
    check_written(settings.save_scores, "--save-scores", ".npz", read)


def _check_scope(settings: Settings) -> None:
    """Checks that no setting is given that the form would pass over in silence."""
    forms: dict[str, tuple[object, tuple[Form, ...]]] = {
        "--captions": (settings.captions, ("hierarchy", "frequency")),
        "--coarse-level": (settings.coarse_level is not None, ("two-level", "language")),
        "--coarse": (settings.coarse, ("two-level", "language")),
        "--save-scores": (settings.save_scores, ("hierarchy", "two-level")),
    }
    for option, (given, allowed) in forms.items():
        if given and settings.form not in allowed:
            raise DataError(
                f"The form `{settings.form}` has no use for {option}.",
                remedy=f"It belongs to --form {' and '.join(allowed)}.",
            )
    if settings.images is not None and settings.data is None:
        raise DataError("--images is the folder of a manifest's images.", remedy="Give the manifest with --data.")
    for option, given in (
        ("--model", settings.models),
        ("--scores", settings.scores),
        ("--captions", settings.captions),
    ):
        repeated = [str(value) for i, value in enumerate(given) if value in given[:i]]
        if repeated:
            raise DataError(f"{option} names the same twice.", value=repeated[0])


def settings_record(settings: Settings) -> dict[str, Any]:
    """Returns the settings that change a result, as they go into the report."""
    left_out = {"device", "cache_dir", "concurrency", "save_scores"}
    return {name: value for name, value in asdict(settings).items() if name not in left_out}
