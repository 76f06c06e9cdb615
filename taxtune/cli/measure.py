"""`taxtune score measure`: text measures of a file of answers and references."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from taxtune import options
from taxtune.errors import DataError, install_extra
from taxtune.report.output import StudyReport, Table
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
    columns = {
        name: getattr(settings, f"{name}_column") for name in ("answer", "reference", "question")
    }
    missing = options.MISSING_MEANS[settings.missing]
    answers = read_answers(settings.file, AnswerSchema(**columns, missing=missing, id=None))
    for spec in asking:
        check_questions(spec, answers)
    # Models are loaded once the file is known to be in order.
    measures, drawn = (
        settings.measures(settings.measure),
        {"resamples": settings.resamples, "seed": settings.seed},
    )
    return measured_report(answers, measures, settings=settings.record(), **drawn)


def _list() -> StudyReport:
    from taxtune.metrics.registry import MEASURES

    rows = []
    for kind in MEASURES.values():
        needs = ["a column question"] * kind.needs_question + (
            [install_extra(kind.extra)] if kind.extra else []
        )
        rows.append(
            (kind.kind, f"{kind.summary} ({kind.source})", kind.default_model, "; ".join(needs))
        )
    heads = ("measure", "what it is", "model, unless MEASURE:MODEL", "needs")
    return StudyReport(
        "measures", "Text measures", {}, (Table("measures", "Text measures", heads, tuple(rows)),)
    )
