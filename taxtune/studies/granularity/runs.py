"""The granularity study from its settings: which scores, which form, which report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from taxtune.answers import AnswerSchema, AnswerTable, Excluded, read_answers
from taxtune.answers.matching import excluded_records
from taxtune.data.examples import Example
from taxtune.encoders.base import TextEncoder
from taxtune.encoders.clip import ClipEncoder
from taxtune.encoders.sentence import SentenceEncoder
from taxtune.errors import DataError
from taxtune.studies.granularity.caption_counts import CaptionCounts, count_captions
from taxtune.studies.granularity.caption_files import read_captions
from taxtune.studies.granularity.frequency_report import frequency_report, with_frequencies
from taxtune.studies.granularity.label_prompts import LabelPrompts, read_label_prompts
from taxtune.studies.granularity.language_chat import language_chat
from taxtune.studies.granularity.score_files import read_scores, write_scores
from taxtune.studies.granularity.score_matrix import (
    ScoreMatrix,
    check_targets,
    distinct_names,
    score_images,
    score_texts,
)
from taxtune.studies.granularity.settings import Settings, check_settings, settings_record
from taxtune.studies.granularity.study import Granularity, granularity, granularity_report, steps
from taxtune.studies.granularity.two_level import LanguageOnly, coarse_cut, language_only, two_level
from taxtune.studies.granularity.two_level_report import language_report, two_level_report
from taxtune.studies.output import StudyReport
from taxtune.studies.progress import late_progress, progress
from taxtune.taxonomy import Domain, read_taxonomy, restrict
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["make_encoder", "run_granularity"]

_KIB = 1024


def run_granularity(settings: Settings, *, note: Callable[[str], None] = lambda _: None) -> StudyReport:
    """Runs the study.

    Args:
        settings: What is asked.
        note: Called with what the user should know but need not mend.

    Raises:
        TaxtuneError: If a file, a label or a model is not there or not what it must be, or settings contradict.
    """
    check_settings(settings)
    taxonomy = read_taxonomy(settings.taxonomy, format=settings.format, names=settings.english_names)
    part = None if settings.root is None else restrict(taxonomy, settings.root)
    if part is not None:
        taxonomy = part.tree
    if len(taxonomy.leaves) < 2:
        raise DataError("The taxonomy needs at least two leaves.", file=settings.taxonomy, value=len(taxonomy.leaves))
    if settings.form == "language":
        return _run_language(settings, taxonomy)
    # What is wrong with a file or a setting is said before a model is asked about every image.
    counts = _count_captions(settings, taxonomy, part) if settings.captions else None
    if settings.form == "frequency":
        assert counts is not None
        return frequency_report(counts, taxonomy, settings_record(settings))
    grouping = None
    if settings.form == "two-level":
        grouping = coarse_cut(taxonomy, level=settings.coarse_level, labels=settings.coarse)
    answers = None if settings.answers is None else _read_answers(settings, settings.answers, taxonomy, part)
    matrices = _matrices(settings, taxonomy, part, answers, note)
    if grouping is not None:
        results = [two_level(m, taxonomy, grouping, resamples=settings.resamples, seed=settings.seed) for m in matrices]
        report = two_level_report(results, taxonomy, grouping, settings_record(settings))
    else:
        found = [_precisions(matrix, settings, taxonomy) for matrix in matrices]
        report = granularity_report(found, taxonomy, settings_record(settings))
        if counts is not None:
            report = with_frequencies(report, found, counts, taxonomy)
    if answers is None:
        return report
    return replace(report, data={**report.data, "excluded": excluded_records([answers])})


def _precisions(matrix: ScoreMatrix, settings: Settings, taxonomy: Taxonomy) -> Granularity:
    with progress(steps(taxonomy, settings.resamples), "labels") as advance:
        return granularity(
            matrix,
            taxonomy,
            trivial=settings.trivial,
            resamples=settings.resamples,
            seed=settings.seed,
            on_progress=advance,
        )


def _count_captions(settings: Settings, taxonomy: Taxonomy, part: Domain | None) -> CaptionCounts:
    sizes = [path.stat().st_size if path.is_file() else 0 for path in settings.captions]
    with progress(max(1, sum(sizes) // _KIB), "KiB of captions") as advance:
        shown = 0

        def show(done: int) -> None:
            nonlocal shown
            advance(done // _KIB - shown)
            shown = done // _KIB

        def captions() -> Iterator[str]:
            before = 0
            for path, size in zip(settings.captions, sizes, strict=True):
                hear = partial(lambda before, done, _: show(before + done), before)
                yield from read_captions(path, column=settings.caption_column, on_bytes=hear)
                before += size

        source = ", ".join(map(str, settings.captions))
        return count_captions(captions(), taxonomy, part, source=source)


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


def _matrices(
    settings: Settings,
    taxonomy: Taxonomy,
    part: Domain | None,
    answers: AnswerTable | None,
    note: Callable[[str], None],
) -> list[ScoreMatrix]:
    matrices = [read_scores(path, taxonomy, part) for path in settings.scores]
    prompts = read_label_prompts(settings.templates or ("photos" if answers is None else "label"))
    examples: Sequence[Example] = ()
    for spec in settings.models:
        encoder = make_encoder(spec, settings)
        if answers is not None:
            matrices.append(_score_answers(encoder, settings, taxonomy, answers, prompts))
            continue
        assert isinstance(encoder, ClipEncoder)
        assert settings.data is not None
        # A model is loaded in less time than many images are checked: if it is not there, that is said first.
        examples = examples or _read_examples(settings, settings.data, taxonomy, part, note)
        matrices.append(_score_data(encoder, settings, taxonomy, examples, prompts))
    if settings.save_scores is not None:
        write_scores(settings.save_scores, matrices[-1], taxonomy)
    names = distinct_names([matrix.name for matrix in matrices])
    return [replace(matrix, name=name) for matrix, name in zip(matrices, names, strict=True)]


def _read_examples(
    settings: Settings, path: Path, taxonomy: Taxonomy, part: Domain | None, note: Callable[[str], None]
) -> Sequence[Example]:
    from taxtune.data import load_examples

    with late_progress("images checked") as show:
        examples = load_examples(path, taxonomy, part=part, images=settings.images, on_note=note, on_progress=show)
    check_targets(np.array([e.target for e in examples], dtype=np.int64), taxonomy, str(path))
    return examples


def _score_data(
    encoder: ClipEncoder,
    settings: Settings,
    taxonomy: Taxonomy,
    examples: Sequence[Example],
    prompts: LabelPrompts,
) -> ScoreMatrix:
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


def _read_answers(settings: Settings, path: Path, taxonomy: Taxonomy, part: Domain | None) -> AnswerTable:
    """Returns the answers that can be embedded: an empty text has no direction."""
    schema = AnswerSchema(
        **settings.columns,
        where=dict(settings.where),
        guesses=settings.guesses,
        off_tree=settings.off_tree,
        missing=settings.missing,
        taxonomy=taxonomy,
        part=part,
    )
    answers = read_answers(path, schema)
    empty = [row for row in answers.rows if not (row.answer or "").strip()]
    if empty and len(empty) == len(answers.rows):
        raise DataError("All answers are empty.", file=answers.file)
    if empty:
        note = (
            f"{answers.file}: {len(empty):,} of {len(answers.rows):,} rows are left out: an empty text is not embedded"
        )
        answers = replace(
            answers,
            rows=tuple(row for row in answers.rows if (row.answer or "").strip()),
            excluded=answers.excluded + tuple(Excluded(row.row, row.id, "the answer is empty") for row in empty),
            notes=(*answers.notes, note),
        )
    check_targets(np.array([row.target for row in answers.rows], dtype=np.int64), taxonomy, answers.file)
    return answers


def _score_answers(
    encoder: TextEncoder, settings: Settings, taxonomy: Taxonomy, answers: AnswerTable, prompts: LabelPrompts
) -> ScoreMatrix:
    matrix = score_texts(
        encoder,
        taxonomy,
        [row.id for row in answers.rows],
        [row.answer or "" for row in answers.rows],
        [row.target for row in answers.rows],
        prompts,
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
    return language_report(results, taxonomy, grouping, settings_record(settings))


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
    from taxtune.models import ModelSettings, check_model, make_model, open_replies

    llm = make_model(
        model,
        ModelSettings(
            task="text-generation",
            api_base=settings.api_base,
            concurrency=settings.concurrency,
            device=settings.device,
            max_tokens=64,
        ),
    )
    check_model(llm)
    with open_replies(settings.cache_dir) as store, progress(len(grouping.fine), "names") as advance:
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
