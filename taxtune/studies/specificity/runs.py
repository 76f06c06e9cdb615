"""The specificity study from its settings: which texts, which scores, which report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from taxtune.errors import DataError, ModelError
from taxtune.studies.checks import check_written
from taxtune.studies.embedding import distinct_names, read_label_prompts, shown_name
from taxtune.studies.output import StudyReport, Table
from taxtune.studies.progress import progress
from taxtune.studies.specificity.captions import read_caption_data
from taxtune.studies.specificity.hard_negatives import NEGATIVES, POSITIVES, ImageTexts, make_texts, sampled
from taxtune.studies.specificity.object_words import read_object_words
from taxtune.studies.specificity.scored_pairs import read_pairs, write_pairs
from taxtune.studies.specificity.study import Specificity, specificity, specificity_report
from taxtune.studies.specificity.text_scores import ScoredTexts, check_files, image_hashes, score_with_clip

__all__ = ["Settings", "run_specificity"]


_OTHER_NOUNS = (
    "Take --nouns words or rules, which need no model, or get one: `python -m spacy download en_core_web_sm`."
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the specificity study is asked.

    Attributes:
        captions: COCO's captions file, or None.
        instances: COCO's instances file, or None.
        narratives: Localized Narratives as JSON lines, or None.
        images: The folder of the images, or None.
        models: CLIP models as open_clip names them, "clip:" before them or not.
        scored: Files of scored pairs.
        templates: The prompt template of labels: a set of one template, or a file with one.
        words: A CSV file of words for the object categories, or None for those of COCO.
        nouns: "words" (mentions of categories are swapped) or a chunker ("spacy", "spacy:MODEL", "rules"), whose noun
            phrases' heads are swapped.
        negatives: Wrong texts of each kind for an image.
        sample: Draw this many images at random, or None for all.
        resamples: Bootstrap resamples.
        seed: Seed of everything random.
        pairs: Where to write the pairs of image and text, or None.
        device: Where models run.
        batch_size: Texts or images encoded at once.
        cache_dir: Where embeddings of texts are kept; None is the user's cache folder.
    """

    captions: Path | None = None
    instances: Path | None = None
    narratives: Path | None = None
    images: Path | None = None
    models: tuple[str, ...] = ()
    scored: tuple[Path, ...] = ()
    templates: str = "photo"
    words: Path | None = None
    nouns: str = "words"
    negatives: int = 100
    sample: int | None = None
    resamples: int = 1000
    seed: int = 0
    pairs: Path | None = None
    device: str = "auto"
    batch_size: int = 64
    cache_dir: Path | None = None


def run_specificity(settings: Settings) -> StudyReport:
    """Runs the study; without a model it only makes the texts and writes the pairs.

    Raises:
        TaxtuneError: If a file or a model is not there or not what it must be, or settings contradict.
    """
    _check(settings)
    results = [
        specificity(_with_both(read_pairs(path), path), resamples=settings.resamples, seed=settings.seed)
        for path in settings.scored
    ]
    record = {k: v for k, v in asdict(settings).items() if k not in ("device", "batch_size", "cache_dir", "pairs")}
    if settings.captions is None:
        return specificity_report(_named(results), record)
    made, notes = _texts(settings)
    for spec in settings.models:
        results.append(_score(spec, settings, made, notes))
    if settings.pairs is not None:
        write_pairs(settings.pairs, made, results[-1].scored if settings.models else None)
    if not results:
        return _texts_report(made, notes, record)
    return specificity_report(_named(results), record)


def _named(results: Sequence[Specificity]) -> list[Specificity]:
    names = distinct_names([result.scored.name for result in results])
    return [replace(r, scored=replace(r.scored, name=name)) for r, name in zip(results, names, strict=True)]


def _check(settings: Settings) -> None:
    _check_lists(settings)
    read = (settings.captions, settings.instances, settings.narratives, settings.words, *settings.scored)
    check_written(settings.pairs, "--pairs", ".jsonl", read)
    coco = (settings.captions, settings.instances)
    if (coco[0] is None) != (coco[1] is None):
        raise DataError("--captions and --instances belong together.", remedy="Give both.")
    if settings.captions is None:
        if settings.models or settings.pairs or settings.narratives or settings.images or settings.sample is not None:
            raise DataError("There are no texts.", remedy="Give --captions and --instances.")
        if not settings.scored:
            raise DataError(
                "There is nothing to study.", remedy="Give --captions and --instances with a --model, or --scored FILE."
            )
        return
    if settings.models and settings.images is None:
        raise DataError("A --model needs the images.", remedy="Give their folder with --images.")
    if not settings.models and settings.pairs is None:
        raise DataError(
            "There are texts and nothing that scores them.", remedy="Give a --model, or write them with --pairs FILE."
        )
    if settings.images is not None and not settings.models:
        raise DataError("--images needs a --model that looks at them.", file=settings.images)
    if settings.pairs is not None and len(settings.models) > 1:
        raise DataError("--pairs holds the scores of one --model.", value=list(settings.models))
    if settings.negatives < 1:
        raise DataError("--negatives must be at least 1.", value=settings.negatives)


def _check_lists(settings: Settings) -> None:
    for spec in settings.models:
        if not spec.removeprefix("clip:").strip():
            raise DataError("--model names no model.", value=spec, remedy="Give one as `--help` describes it.")
        if spec.startswith(("sentence:", "llm:")):
            raise DataError("This model reads no images.", value=spec, remedy="Take a CLIP model.")
    for option, given in (("--model", settings.models), ("--scored", settings.scored)):
        repeated = [str(value) for i, value in enumerate(given) if value in given[:i]]
        if repeated:
            raise DataError(f"{option} names the same twice.", value=repeated[0], remedy="Give it once.")


def _texts(settings: Settings) -> tuple[list[ImageTexts], tuple[str, ...]]:
    assert settings.captions is not None
    assert settings.instances is not None
    data = sampled(
        read_caption_data(settings.captions, settings.instances, settings.narratives), settings.sample, settings.seed
    )
    if len(data.images) < 2:
        raise DataError(
            "At least two images with captions and object labels are needed: wrong captions are those of other images.",
            file=settings.captions,
            value=len(data.images),
        )
    if settings.images is not None:
        check_files([image.file_name for image in data.images], settings.images)
    words, notes = read_object_words(data.categories, settings.words)
    prompts = read_label_prompts(settings.templates)
    if len(prompts) != 1:
        raise DataError(
            "The texts of this study are single sentences: give one prompt template.",
            file=settings.templates,
            value=len(prompts),
        )
    chunker = None
    if settings.nouns != "words":
        from taxtune.metrics.chunks import make_chunker

        try:
            chunker = make_chunker(settings.nouns)
        except ModelError as error:
            # The ways out have other names in this command.
            raise DataError(error.message, value=settings.nouns, remedy=_OTHER_NOUNS) from error
    made = make_texts(data, words, prompts[0], negatives=settings.negatives, seed=settings.seed, chunker=chunker)
    return made, (*data.notes, *notes)


def _score(spec: str, settings: Settings, made: Sequence[ImageTexts], notes: tuple[str, ...]) -> Specificity:
    from taxtune.encoders.clip import ClipEncoder

    assert settings.images is not None
    encoder = ClipEncoder(
        spec.removeprefix("clip:"),
        device=settings.device,
        cache_dir=settings.cache_dir,
        batch_size=settings.batch_size,
    )
    hashes = image_hashes(encoder, made, settings.images)
    # Tens of thousands of texts come before the first image: they take a quarter of the bar.
    quarter = max(1, len(made) // 3)
    with progress(len(made) + quarter, "images") as advance:
        shown = 0

        def on_texts(done: int, total: int) -> None:
            nonlocal shown
            advance(quarter * done // total - shown)
            shown = quarter * done // total

        scored = score_with_clip(
            encoder, shown_name(encoder.name), made, settings.images, hashes, on_progress=advance, on_texts=on_texts
        )
    scored = replace(scored, notes=(*notes, *scored.notes))
    return specificity(scored, negatives=settings.negatives, resamples=settings.resamples, seed=settings.seed)


def _with_both(scored: ScoredTexts, path: Path) -> ScoredTexts:
    for kinds, what in ((POSITIVES, "right"), (NEGATIVES, "wrong")):
        if not any(len(texts.get(kind, ())) for texts in scored.scores for kind in kinds):
            raise DataError(f"The file has no {what} texts.", file=path, remedy=f"Their kinds are {', '.join(kinds)}.")
    return scored


def _texts_report(made: Sequence[ImageTexts], notes: tuple[str, ...], record: dict[str, Any]) -> StudyReport:
    """Returns what there is to say where nothing was scored: how many texts of each kind there are."""
    rows = []
    for kind, shown in (POSITIVES | NEGATIVES).items():
        sizes = [len(item.texts[kind]) for item in made]
        side = "right" if kind in POSITIVES else "wrong"
        rows.append((side, shown, sum(sizes), sum(size > 0 for size in sizes), min(sizes), max(sizes)))
    return StudyReport(
        study="specificity",
        title="The texts of the specificity study",
        settings=record,
        tables=(
            Table(
                "texts",
                f"Texts of {len(made):,} images; nothing is scored yet",
                ("side", "texts", "n", "images that have any", "fewest", "most"),
                tuple(rows),
                notes=("Add a `score` to each line of the file of pairs and give it with --scored.",),
            ),
        ),
        notes=notes,
    )
