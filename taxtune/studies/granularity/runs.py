"""The granularity study from its settings: which scores, which form, which report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from taxtune.encoders.base import TextEncoder
from taxtune.encoders.clip import ClipEncoder
from taxtune.encoders.sentence import SentenceEncoder
from taxtune.errors import DataError
from taxtune.studies.answer_files import AnswerFile, Columns, Excluded, read_answer_file
from taxtune.studies.granularity.label_prompts import LabelPrompts, read_label_prompts
from taxtune.studies.granularity.language_chat import language_chat
from taxtune.studies.granularity.score_files import read_scores, write_scores
from taxtune.studies.granularity.score_matrix import ScoreMatrix, score_images, score_texts
from taxtune.studies.granularity.study import granularity, granularity_report, steps
from taxtune.studies.granularity.two_level import LanguageOnly, coarse_cut, language_only, two_level
from taxtune.studies.granularity.two_level_report import language_report, two_level_report
from taxtune.studies.matching import excluded_records
from taxtune.studies.output import StudyReport
from taxtune.studies.progress import progress
from taxtune.taxonomy import Domain, read_taxonomy, restrict
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["FORMS", "Settings", "make_encoder", "run_granularity"]

Form = Literal["hierarchy", "two-level", "language"]
FORMS: tuple[Form, ...] = ("hierarchy", "two-level", "language")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the granularity study is asked.

    Attributes:
        taxonomy: The taxonomy's file, or builtin:fieldguide.
        format: Its format, or "auto".
        form: "hierarchy" (Table 2), "two-level" (Table 5) or "language" (Table 6).
        scores: Files of score matrices.
        models: "clip:MODEL" or a model as open_clip names it; "sentence:MODEL"; for the form language also "llm:MODEL".
        data: A manifest, a folder a class or an inat21 JSON file: the images.
        images: The folder that the manifest's image names are relative to, or None.
        answers: A file of answers to score in the place of images, or None.
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
    columns: Columns = field(default_factory=Columns)
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
    save_scores: Path | None = None


def run_granularity(settings: Settings, *, note: Callable[[str], None] = lambda _: None) -> StudyReport:
    """Runs the study.

    Args:
        settings: What is asked.
        note: Called with what the user should know but need not mend.

    Raises:
        TaxtuneError: If a file, a label or a model is not there or not what it must be, or settings contradict.
    """
    _check(settings)
    taxonomy = read_taxonomy(settings.taxonomy, format=settings.format, names=settings.english_names)
    part = None if settings.root is None else restrict(taxonomy, settings.root)
    if part is not None:
        taxonomy = part.tree
    if len(taxonomy.leaves) < 2:
        raise DataError("The taxonomy needs at least two leaves.", file=settings.taxonomy, value=len(taxonomy.leaves))
    if settings.form == "language":
        return _run_language(settings, taxonomy)
    answers = None if settings.answers is None else _read_answers(settings, settings.answers, taxonomy, part)
    matrices = _matrices(settings, taxonomy, part, answers, note)
    report = _report(settings, taxonomy, matrices)
    if answers is None:
        return report
    return replace(report, data={**report.data, "excluded": excluded_records([answers])})


def _report(settings: Settings, taxonomy: Taxonomy, matrices: Sequence[ScoreMatrix]) -> StudyReport:
    if settings.form == "two-level":
        grouping = coarse_cut(taxonomy, level=settings.coarse_level, labels=settings.coarse)
        results = [two_level(m, taxonomy, grouping, resamples=settings.resamples, seed=settings.seed) for m in matrices]
        return two_level_report(results, taxonomy, grouping, _record(settings))
    found = []
    for matrix in matrices:
        with progress(steps(taxonomy, settings.resamples), "labels") as advance:
            found.append(
                granularity(
                    matrix,
                    taxonomy,
                    trivial=settings.trivial,
                    resamples=settings.resamples,
                    seed=settings.seed,
                    on_progress=advance,
                )
            )
    return granularity_report(found, taxonomy, _record(settings))


def make_encoder(spec: str, settings: Settings) -> TextEncoder:
    """Returns the encoder that "sentence:MODEL", "clip:MODEL" or a model as open_clip names it stands for.

    Raises:
        ModelError: If its model cannot be loaded.
        MissingExtraError: If its package is not installed.
    """
    kind, _, model = spec.partition(":")
    if kind == "sentence" and model:
        return SentenceEncoder(
            model, device=settings.device, cache_dir=settings.cache_dir, batch_size=settings.batch_size
        )
    return ClipEncoder(
        model if kind == "clip" and model else spec,
        device=settings.device,
        cache_dir=settings.cache_dir,
        batch_size=settings.batch_size,
    )


def _check(settings: Settings) -> None:
    if settings.form not in FORMS:
        raise DataError("There is no such form.", value=settings.form, remedy=f"Take {', '.join(FORMS)}.")
    for name, value, allowed in (
        ("label-names", settings.label_names, ("common", "label")),
        ("trivial", settings.trivial, ("keep", "leave-out")),
    ):
        if value not in allowed:
            raise DataError(f"--{name} takes {' or '.join(allowed)}.", value=value)
    chat = [spec for spec in settings.models if spec.startswith("llm:")]
    if settings.form == "language":
        if not settings.models:
            raise DataError("The form `language` needs a --model.", remedy="Give sentence:, clip: or llm:MODEL.")
        if settings.scores or settings.data or settings.answers:
            raise DataError("The form `language` takes no images, answers or scores: it compares label with label.")
        return
    if chat:
        raise DataError("A chat model gives no scores.", value=chat[0], remedy="Take it with --form language.")
    sources = (settings.data is not None) + (settings.answers is not None)
    if bool(settings.models) != bool(sources) or sources > 1:
        raise DataError(
            "A --model needs something to score, --data (images) or --answers (texts), and these need a --model."
        )
    if not settings.scores and not settings.models:
        raise DataError("There are no scores.", remedy="Give --scores FILE, or a --model with --data or --answers.")
    if settings.save_scores is not None and len(settings.models) != 1:
        raise DataError("--save-scores keeps the scores of one --model.", value=list(settings.models))


def _matrices(
    settings: Settings,
    taxonomy: Taxonomy,
    part: Domain | None,
    answers: AnswerFile | None,
    note: Callable[[str], None],
) -> list[ScoreMatrix]:
    matrices = [read_scores(path, taxonomy) for path in settings.scores]
    for spec in settings.models:
        if answers is not None:
            matrix = _score_answers(spec, settings, taxonomy, answers)
        else:
            matrix = _score_data(spec, settings, taxonomy, part, note)
        matrices.append(matrix)
    if settings.save_scores is not None:
        write_scores(settings.save_scores, matrices[-1], taxonomy)
    return matrices


def _score_data(
    spec: str, settings: Settings, taxonomy: Taxonomy, part: Domain | None, note: Callable[[str], None]
) -> ScoreMatrix:
    from taxtune.data import load_examples

    assert settings.data is not None
    encoder = make_encoder(spec, settings)
    if not isinstance(encoder, ClipEncoder):
        raise DataError("This encoder reads no images.", value=spec, remedy="Take a CLIP model, or give --answers.")
    kind = "folder" if settings.data.is_dir() else "inat21" if settings.data.suffix == ".json" else "manifest"
    examples = load_examples(kind, settings.data, taxonomy, part=part, images=settings.images, on_note=note)
    prompts = read_label_prompts(settings.templates or "photos")
    # One bar: a template's labels are embedded in about the time of a batch of images.
    with progress(len(examples) + len(prompts.templates), "images") as advance:
        return score_images(
            encoder,
            taxonomy,
            examples,
            prompts,
            names=settings.label_names,
            on_progress=advance,
            on_template=advance,
        )


def _read_answers(settings: Settings, path: Path, taxonomy: Taxonomy, part: Domain | None) -> AnswerFile:
    """Returns the answers that can be embedded: an empty text has no direction."""
    answers = read_answer_file(
        path,
        taxonomy,
        columns=settings.columns,
        where=dict(settings.where),
        guesses=settings.guesses,
        off_tree=settings.off_tree,
        missing=settings.missing,
        part=part,
    )
    empty = [row for row in answers.rows if not (row.answer or "").strip()]
    if not empty:
        return answers
    if len(empty) == len(answers.rows):
        raise DataError("All answers are empty.", file=answers.file)
    note = f"{answers.file}: {len(empty):,} of {len(answers.rows):,} rows left out: the answer is empty."
    return replace(
        answers,
        rows=tuple(row for row in answers.rows if (row.answer or "").strip()),
        excluded=answers.excluded + tuple(Excluded(row.row, row.id, "the answer is empty") for row in empty),
        notes=(*answers.notes, note),
    )


def _score_answers(spec: str, settings: Settings, taxonomy: Taxonomy, answers: AnswerFile) -> ScoreMatrix:
    matrix = score_texts(
        make_encoder(spec, settings),
        taxonomy,
        [row.id for row in answers.rows],
        [row.answer or "" for row in answers.rows],
        [row.target for row in answers.rows],
        read_label_prompts(settings.templates or "label"),
        names=settings.label_names,
    )
    return replace(matrix, notes=(*answers.notes, *matrix.notes))


def _run_language(settings: Settings, taxonomy: Taxonomy) -> StudyReport:
    grouping = coarse_cut(taxonomy, level=settings.coarse_level, labels=settings.coarse)
    prompts = read_label_prompts(settings.templates or "label")
    results = []
    for spec in settings.models:
        if spec.startswith("llm:"):
            results.append(_ask(spec.removeprefix("llm:"), settings, taxonomy, grouping))
        else:
            results.append(_embed(spec, settings, taxonomy, grouping, prompts))
    return language_report(results, taxonomy, grouping, _record(settings))


def _embed(spec: str, settings: Settings, taxonomy: Taxonomy, grouping: Any, prompts: LabelPrompts) -> LanguageOnly:
    return language_only(
        make_encoder(spec, settings),
        taxonomy,
        grouping,
        prompts,
        names=settings.label_names,
        resamples=settings.resamples,
        seed=settings.seed,
    )


def _ask(model: str, settings: Settings, taxonomy: Taxonomy, grouping: Any) -> LanguageOnly:
    from taxtune.llm import LLMSettings, make_llm
    from taxtune.llm.ask import reply_store

    llm = make_llm(model, LLMSettings(api_base=settings.api_base, device=settings.device, max_tokens=64))
    llm.check()
    with reply_store(settings.cache_dir) as store, progress(len(grouping.fine), "names") as advance:
        done = 0

        def show(now: int, _: int) -> None:
            nonlocal done
            advance(now - done)
            done = now

        return language_chat(
            llm,
            f"llm:{model}",
            taxonomy,
            grouping,
            names=settings.label_names,
            store=store,
            resamples=settings.resamples,
            seed=settings.seed,
            on_progress=show,
        )


def _record(settings: Settings) -> dict[str, Any]:
    """Returns the settings that change a result, as they go into the report."""
    left_out = {"device", "cache_dir", "save_scores"}
    return {name: value for name, value in asdict(settings).items() if name not in left_out}
