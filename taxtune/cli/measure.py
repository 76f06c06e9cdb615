"""`taxtune score measure`: text measures of a file of answers and references."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from taxtune import options
from taxtune.errors import DataError, install_extra
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.settings import NOT_RECORDED, ApiSettings, BatchSize

__all__ = ["TextMeasures", "run"]

_DEFAULT = ("exact-match", "contained", "bleu-2", "rouge-1", "meteor")


class TextMeasures(ApiSettings):
    """What is measured, on which answers: see `taxtune score measure --help`."""

    rows_in_json: ClassVar[bool] = True

    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help=options.ANSWERS_HELP.format("columns answer and reference (a text, or a list)"),
        ),
    ] = None
    measure: Annotated[
        tuple[str, ...], options.measure_option(f"Default: {', '.join(_DEFAULT)}."), NOT_RECORDED
    ] = _DEFAULT
    listed: Annotated[bool, options.opt("List the measures and exit.", "--list"), NOT_RECORDED] = (
        False
    )
    answer_column: options.AnswerColumnOption = "answer"
    reference_column: Annotated[str, options.opt("Column with the reference or references.")] = (
        "reference"
    )
    question_column: options.QuestionColumnOption = "question"
    missing: options.MissingMeansOption = "error"
    resamples: options.ResamplesOption = 2000
    seed: options.SeedOption = 0
    batch_size: BatchSize = 64


def run(settings: TextMeasures) -> StudyReport:
    """Print the mean of text measures over a file of answers, with 95 % bootstrap intervals.

    Of several references of an answer the best counts. What a measure cannot score is counted, not scored as 0.

    Raises:
        DataError: If the file cannot be used, or a measure does not exist or lacks something.
    """
    from taxtune.answers import AnswerSchema, read_answers
    from taxtune.metrics.registry import split_spec
    from taxtune.scoring.texts import check_questions, measured_report

    if settings.listed:
        return _list()
    if settings.file is None:
        raise DataError(
            "No file of answers was given.", remedy="Give one, or list the measures with --list."
        )
    asking = [spec for spec in settings.measure if split_spec(spec)[0].needs_question]
    schema = AnswerSchema(
        answer=settings.answer_column,
        reference=settings.reference_column,
        question=settings.question_column,
        missing=options.MISSING_MEANS[settings.missing],
        id=None,
    )
    answers = read_answers(settings.file, schema)
    for spec in asking:
        check_questions(spec, answers)
    # Models are loaded once the file is known to be in order.
    measures = settings.measures(settings.measure)
    return measured_report(
        answers,
        measures,
        settings=settings.record(),
        resamples=settings.resamples,
        seed=settings.seed,
    )


def _list() -> StudyReport:
    from taxtune.metrics.registry import MEASURES

    rows: list[dict[str, Cell]] = []
    for kind in MEASURES.values():
        needs = ["a column question"] if kind.needs_question else []
        if kind.extra:
            needs.append(install_extra(kind.extra))
        rows.append(
            {
                "measure": kind.kind,
                "what it is": f"{kind.summary} ({kind.source})",
                "model, unless MEASURE:MODEL": kind.default_model,
                "needs": "; ".join(needs),
            }
        )
    table = Table.from_records("measures", "Text measures", rows)
    return StudyReport("measures", "Text measures", {}, (table,))
