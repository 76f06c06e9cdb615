"""`taxtune diagnose`: what kinds of mistakes answers make, where on the tree, and what each costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune.cli.interrupts import keep_work
from taxtune.cli.options import (
    ANSWERS_HELP,
    AnswerColumnOption,
    ApiBaseOption,
    BatchSizeOption,
    CacheDirOption,
    ChunkerOption,
    ConcurrencyOption,
    DeviceOption,
    FormatOption,
    FrequenciesOption,
    GuessesOption,
    IdColumnOption,
    JsonRowsOption,
    MissingOption,
    OffTreeAsOption,
    OffTreeOption,
    OutOption,
    PresetOption,
    ResamplesOption,
    RootOption,
    SeedOption,
    SimilarityOption,
    SmoothingOption,
    TargetColumnOption,
    TaxonomyOption,
    WhereOption,
    check_out,
    choice,
    pairs,
)
from taxtune.errors import DataError

if TYPE_CHECKING:
    from taxtune.answers import AnswerTable
    from taxtune.metrics.diagnosis import MeasuredType
    from taxtune.metrics.registry import MeasureSettings
    from taxtune.taxonomy import Taxonomy

__all__ = ["diagnose"]


def diagnose(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help=ANSWERS_HELP.format("columns answer and target"),
        ),
    ],
    taxonomy: TaxonomyOption,
    format: FormatOption = "auto",
    root: RootOption = None,
    answer: AnswerColumnOption = "answer",
    target: TargetColumnOption = "target",
    id: IdColumnOption = "id",
    where: WhereOption = None,
    guesses: GuessesOption = "first",
    off_tree: OffTreeOption = "error",
    missing: MissingOption = "error",
    similarity: SimilarityOption = "lexical",
    preset: PresetOption = "default",
    off_tree_as: OffTreeAsOption = "child",
    frequencies: FrequenciesOption = None,
    smoothing: SmoothingOption = 0.0,
    inclusion: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="A measure whose verdict paper 2's error types rest on, such as text-inclusion."
        ),
    ] = None,
    concept: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="The similarity that stands beside it, such as concept:MODEL or sentence:MODEL."
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The prompt that was asked about all images, for an inclusion judge."),
    ] = None,
    question_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Or the column of the prompt that was asked about each.")
    ] = None,
    high: Annotated[
        float, typer.Option(min=-1, max=1, help="From which similarity on two texts speak of one thing.")
    ] = 0.7,
    near: Annotated[float, typer.Option(min=-1, max=1, help="From which similarity on a mistake is near.")] = 0.4,
    chunker: ChunkerOption = "spacy",
    least: Annotated[int, typer.Option(min=1, help="Fewest answers of a clade that is listed.")] = 5,
    clades: Annotated[int, typer.Option(min=0, help="Clades to list.")] = 10,
    examples: Annotated[int, typer.Option(min=0, help="Examples to show of each type.")] = 3,
    resamples: ResamplesOption = 2000,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    batch_size: BatchSizeOption = 64,
    cache_dir: CacheDirOption = None,
    api_base: ApiBaseOption = None,
    concurrency: ConcurrencyOption = 8,
    out: OutOption = None,
    as_json: JsonRowsOption = False,
) -> None:
    """Print error types with counts and costs in hP and hR, all scores, also by rank, worst clades and examples."""
    from dataclasses import replace

    from taxtune.answers import AnswerSchema, read_answers
    from taxtune.answers.matching import excluded_records
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.metrics.frequencies import make_information
    from taxtune.metrics.registry import MeasureSettings, split_spec
    from taxtune.studies.both_trees import both_trees_table, read_part
    from taxtune.studies.diagnosis.study import diagnose as find
    from taxtune.studies.diagnosis.study import report_of
    from taxtune.studies.output import publish
    from taxtune.studies.placing import as_child, place_texts
    from taxtune.studies.progress import progress

    check_out(out)
    choice(guesses, ("first", "join"), "--guesses")
    choice(off_tree, ("error", "leave-out"), "--off-tree")
    choice(missing, ("error", "leave-out"), "--missing")
    if (inclusion is None) != (concept is None):
        raise DataError(
            "Error types from measures need an inclusion measure and a similarity.",
            value=inclusion or concept,
            remedy="Give both, such as --inclusion text-inclusion --concept sentence:MODEL.",
        )
    if not near <= high:  # NaN is no threshold either
        raise DataError("--near must be a number not above --high.", value=near)
    if question is not None and question_column is not None:
        raise DataError("--question and --question-column both say what was asked.", remedy="Give one of them.")
    for spec in (inclusion, concept):
        if spec is not None and "image" in split_spec(spec)[0].needs:
            raise DataError(
                f"The measure {spec} needs images, which a file of answers does not hold.",
                remedy="Give one that compares texts.",
            )
    config = MapperConfig(preset=preset, off_tree=off_tree_as)
    tree, part = read_part(taxonomy, format, root)
    schema = AnswerSchema(
        answer=answer,
        target=target,
        id=id,
        where=pairs(where, "--where"),
        guesses=guesses,  # type: ignore[arg-type]
        off_tree=off_tree,  # type: ignore[arg-type]
        missing=missing,  # type: ignore[arg-type]
        taxonomy=tree,
        part=part,
    )
    answers = read_answers(file, schema)
    targets = [row.target for row in answers.rows]
    information = make_information(tree, frequencies, smoothing=smoothing, targets=targets, part=part)
    keep_work((similarity, inclusion, concept))
    for spec in (inclusion, concept):
        if spec is not None and "question" in split_spec(spec)[0].needs:
            _questions(answers, spec, question, question_column)  # what it lacks is said before a model is loaded
    mapper = Mapper(tree, similarity, config, device=device, cache_dir=cache_dir)
    texts = [row.answer or "" for row in answers.rows]
    with progress(len(set(texts)), "answers placed") as advance:
        placed = place_texts(mapper, texts, advance)
    placements = [placed[text] for text in texts]
    off = as_child(mapper, placements)
    found = find(
        tree,
        placements,
        targets,
        as_child=off,
        information=information,
        least=least,
        clades=clades,
        resamples=resamples,
        seed=seed,
    )
    settings: dict[str, Any] = {
        "file": file,
        "taxonomy": taxonomy,
        "format": format,
        "root": root,
        "columns": {"answer": answer, "target": target, "id": id},
        "where": list(where or []),
        "guesses": guesses,
        "off_tree": off_tree,
        "missing": missing,
        "mapper": dict(mapper.identity()),
        "frequencies": frequencies,
        "smoothing": smoothing,
        "least": least,
        "clades": clades,
        "examples": examples,
        "resamples": resamples,
        "seed": seed,
    }
    measured: list[MeasuredType] | None = None
    notes = list(answers.notes)
    if inclusion is not None and concept is not None:
        shared = MeasureSettings(
            device=device,
            batch_size=batch_size,
            cache_dir=cache_dir,
            api_base=api_base,
            concurrency=concurrency,
            chunker=chunker,
        )
        asked = (question, question_column)
        measured, identities, said = _by_measures(tree, answers, (inclusion, concept), asked, (high, near), shared)
        notes += said
        settings |= {"inclusion": identities[0], "concept": identities[1], "high": high, "near": near}
        settings |= {"question": question, "question_column": question_column}
    report = report_of(
        found,
        tree,
        placements,
        targets,
        [row.id for row in answers.rows],
        settings=settings,
        notes=notes,
        examples=examples,
        clades=clades > 0,
        measured=measured,
    )
    if part is not None:
        nodes = [placement.node for placement in placements]
        both = both_trees_table(part, {"all": (nodes, targets)}, "answers of", off_tree={"all": off})
        report = replace(report, tables=(*report.tables, both))
    publish(replace(report, data={**report.data, "excluded": excluded_records([answers])}), out=out, as_json=as_json)


def _by_measures(
    tree: Taxonomy,
    answers: AnswerTable,
    specs: tuple[str, str],
    asked: tuple[str | None, str | None],
    thresholds: tuple[float, float],
    settings: MeasureSettings,
) -> tuple[list[MeasuredType], list[dict[str, Any]], list[str]]:
    """Returns what two measures say of each answer, the measures' identities, and what they have to tell.

    Args:
        tree: The tree; answers are compared with the target's preferred common name.
        answers: The answers.
        specs: The inclusion measure and the similarity.
        asked: The prompt that was asked about all images, or the column of those that were.
        thresholds: From which similarity on texts speak of one thing, and a mistake is near.
        settings: Devices, batches, caches.
    """
    from taxtune.metrics.diagnosis import classify_by_measures
    from taxtune.metrics.registry import make_measure

    said = [row.answer or "" for row in answers.rows]
    references = [tree.common_name(row.target) for row in answers.rows]
    measures = [make_measure(spec, settings) for spec in specs]
    scores, notes = [], []
    for measure in measures:
        questions = _questions(answers, measure.name, *asked) if measure.needs_questions else None
        scores.append(measure.scores(said, references, questions=questions))
        notes += [f"{measure.label}: {note}" for note in measure.notes]
    high, near = thresholds
    identities = [dict(measure.identity()) for measure in measures]
    return classify_by_measures(*scores, high=high, near=near), identities, notes


def _questions(answers: AnswerTable, measure: str, question: str | None, column: str | None) -> list[str]:
    """Returns the prompt that was asked for each answer.

    Raises:
        DataError: If it is not known.
    """
    if column is None:
        if question is None or not question.strip():
            raise DataError(
                f"The measure {measure} judges answers to a question.",
                remedy="Give the prompt that was asked with --question, or its column with --question-column.",
            )
        return [question] * len(answers.rows)
    found = []
    for row in answers.rows:
        value = row.fields.get(column)
        if not isinstance(value, str) or not value.strip():
            raise DataError(f"The row has no {column}.", file=answers.file, row=row.row, value=value)
        found.append(value)
    return found
