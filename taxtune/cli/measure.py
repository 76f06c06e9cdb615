"""`taxtune score measure`: text measures of a file of answers and references."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from taxtune.errors import DataError
from taxtune.options import (
    ANSWERS_HELP,
    AnswerColumnOption,
    ApiBaseOption,
    BatchSizeOption,
    CacheDirOption,
    ConcurrencyOption,
    DeviceOption,
    JsonRowsOption,
    MissingMeansOption,
    OutOption,
    QuestionColumnOption,
    ResamplesOption,
    SeedOption,
    check_out,
    measure_option,
    missing_answers,
    opt,
)
from taxtune.shell import install_extra

__all__ = ["measure"]

_DEFAULT = ("exact-match", "contained", "bleu-2", "rouge-1", "meteor")


def measure(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help=ANSWERS_HELP.format("columns answer and reference (a text, or a list)")),
    ] = None,
    measures: Annotated[list[str] | None, measure_option(f"Default: {', '.join(_DEFAULT)}.")] = None,
    listed: Annotated[bool, opt("List the measures and exit.", "--list")] = False,
    answer_column: AnswerColumnOption = "answer",
    reference_column: Annotated[str, opt("Column with the reference or references.")] = "reference",
    question_column: QuestionColumnOption = "question",
    image_column: Annotated[str, opt("Column with the image, for clip-i2t.")] = "image",
    images: Annotated[
        Path | None, opt("Folder that image names are relative to. Default: the folder of the file.")
    ] = None,
    missing: MissingMeansOption = "error",
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
    """Print the mean of text measures over a file of answers, with 95 % bootstrap intervals.

    Of several references of an answer the best counts. What a measure cannot score is counted, not scored as 0.
    """
    from taxtune.report.output import publish

    if listed:
        _print_list(as_json)
        return
    if file is None:
        raise DataError("No file of answers was given.", remedy="Give one, or list the measures with --list.")
    check_out(out)
    from taxtune.answers import AnswerSchema, read_answers
    from taxtune.answers.measured import check_needs, measured_report
    from taxtune.metrics.registry import MeasureSettings, make_measure, split_spec

    specs = dict.fromkeys(measures or _DEFAULT)
    for spec in specs:
        split_spec(spec)
    schema = AnswerSchema(
        answer=answer_column,
        reference=reference_column,
        question=question_column,
        image=image_column,
        id=None,
        images=images,
        **missing_answers(missing),
    )
    answers = read_answers(file, schema)
    for spec in specs:
        check_needs(spec, split_spec(spec)[0].needs, answers)
    # Models are loaded once the file is known to be in order.
    settings = MeasureSettings(
        device=device,
        batch_size=batch_size,
        cache_dir=cache_dir,
        api_base=api_base,
        concurrency=concurrency,
    )
    report = measured_report(
        answers,
        [make_measure(spec, settings) for spec in specs],
        settings={
            "file": file,
            "columns": {name: getattr(schema, name) for name in ("answer", "reference", "question", "image")},
            "images": images,
            "missing": missing,
            "resamples": resamples,
            "seed": seed,
        },
        resamples=resamples,
        seed=seed,
    )
    publish(report, out=out, as_json=as_json)


def _print_list(as_json: bool) -> None:
    import json
    from dataclasses import asdict

    from taxtune.metrics.registry import MEASURES

    if as_json:
        records = [{k: v for k, v in asdict(kind).items() if k != "factory"} for kind in MEASURES.values()]
        print(json.dumps(records, ensure_ascii=False, indent=2))
        return
    for kind in MEASURES.values():
        print(f"{kind.kind} ({kind.label}; {kind.source})")
        print(f"    {kind.summary}")
        if kind.default_model is not None:
            print(f"    model: {kind.default_model}, or {kind.kind}:MODEL")
        if kind.needs:
            print(f"    needs: a column {' and a column '.join(kind.needs)}")
        if kind.extra is not None:
            print(f"    needs: {install_extra(kind.extra)}")
