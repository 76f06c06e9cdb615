"""`taxtune study judge`: how well measures agree with people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taxtune.cli.interrupts import keep_replies, keep_work
from taxtune.cli.options import (
    AnswerColumnOption,
    ApiBaseOption,
    BatchSizeOption,
    CacheDirOption,
    ConcurrencyOption,
    DeviceOption,
    IdColumnOption,
    JsonOption,
    OutOption,
    QuestionColumnOption,
    SeedOption,
    measure_option,
)
from taxtune.errors import DataError

if TYPE_CHECKING:
    from taxtune.metrics.registry import MeasureSettings
    from taxtune.studies.judge.study import Rater

__all__ = ["judge"]

_BASELINES = ("vqa-accuracy", "soft-vqa-accuracy")


def judge(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV or JSONL of answers with references and human ratings.")
    ],
    measure: Annotated[list[str] | None, measure_option("VQA accuracy and its soft form are always there.")] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL", help="A language model for LAVE, repeatable: local:MODEL, or litellm's openai/gpt-4o-mini."
        ),
    ] = None,
    ablations: Annotated[
        bool, typer.Option("--ablations", help="Vary LAVE's prompt as paper 4's Table 3 does, for each judge.")
    ] = False,
    demonstrations: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your own demonstrations for LAVE, in place of ours (YAML)."),
    ] = None,
    yes_no_demonstrations: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The same for questions whose references are yes or no.")
    ] = None,
    answer_column: AnswerColumnOption = "answer",
    references_column: Annotated[
        str,
        typer.Option(metavar="COLUMN", help="Column of the references: a list, in CSV a JSON list, or one text."),
    ] = "references",
    human_column: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="Column of the rating: a number or five binary ratings; or five columns, with commas.",
        ),
    ] = "human",
    question_column: QuestionColumnOption = "question",
    caption_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of a description of the image, which LAVE is shown."),
    ] = None,
    id_column: IdColumnOption = "id",
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that groups the answers, such as the model.")
    ] = None,
    category: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of the kind of answer, for the table of what VQA accuracy misses."),
    ] = None,
    resamples: Annotated[int, typer.Option(min=1, max=100_000, help="Bootstrap resamples of the answers.")] = 5000,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    batch_size: BatchSizeOption = 16,
    concurrency: ConcurrencyOption = 8,
    cache_dir: CacheDirOption = None,
    api_base: ApiBaseOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Correlate measures with human ratings of answers (paper 4, Table 2).

    Prints Spearman's and Kendall's correlation of each measure with the ratings, with bootstrap intervals, whether
    measures differ, and the mean scores of correct answers that VQA accuracy misses.
    """
    from taxtune.metrics.lave import LaveOptions
    from taxtune.metrics.registry import MeasureSettings
    from taxtune.studies.judge.human_ratings import RatingColumns, read_rated_answers
    from taxtune.studies.judge.study import JudgeSettings, Steps, judge_study
    from taxtune.studies.output import publish

    if ablations and not judge:
        raise DataError("--ablations varies LAVE's prompt.", remedy="Name its language model with --judge.")
    columns = RatingColumns(
        answer=answer_column,
        references=references_column,
        human=human_column,
        question=question_column,
        id=id_column,
        caption=caption_column,
        by=by,
        category=category,
    )
    options = LaveOptions(demonstrations=demonstrations, yes_no_demonstrations=yes_no_demonstrations)
    answers = read_rated_answers(file, columns)
    record = {
        "columns": {"human": human_column, "references": references_column, "by": by, "category": category},
        "ablations": ablations,
    }
    steps = Steps()
    settings = MeasureSettings(
        device=device,
        batch_size=batch_size,
        cache_dir=cache_dir,
        api_base=api_base,
        concurrency=concurrency,
    )
    keep_work(measure or ())
    if judge:
        keep_replies()
    shown = caption_column is not None
    raters = _raters(measure or [], judge or [], settings, options, ablations=ablations, captions=shown)
    chosen = JudgeSettings(resamples=resamples, seed=seed)
    paper = ("paper4-table2", "paper4-table3") if ablations else ("paper4-table2",)
    report = judge_study(answers, raters, chosen, record=record, steps=steps, paper=paper)
    publish(report, out=out, as_json=as_json)


def _raters(
    measures: list[str],
    judges: list[str],
    settings: MeasureSettings,
    options: object,
    *,
    ablations: bool,
    captions: bool,
) -> list[Rater]:
    """Returns the baselines, the measures and LAVE with each judge, every one under a name of its own."""
    from dataclasses import replace

    from taxtune.metrics.lave import LaveOptions, make_lave
    from taxtune.metrics.registry import make_measure, split_spec
    from taxtune.studies.judge.study import Rater

    assert isinstance(options, LaveOptions)
    raters = []
    specs = list(dict.fromkeys([*_BASELINES, *measures]))
    kinds = [spec.partition(":")[0] for spec in specs]
    if "clip-i2t" in kinds:  # said before its weights are fetched
        raise DataError("clip-i2t needs images, and rated answers have none.", remedy="Leave it out.")
    for spec, kind in zip(specs, kinds, strict=True):
        if kind == "lave":
            model = split_spec(spec)[1]
            made = make_lave(model, settings, options)
            made.check()
        else:
            made = make_measure(spec, settings)  # type: ignore[assignment]
        name = made.label if kinds.count(kind) == 1 else f"{made.label} ({spec.partition(':')[2] or 'default'})"
        raters.append(Rater(name, made, captions=captions and kind == "lave"))
    for model in dict.fromkeys(judges):
        make_lave(model, settings, options).check()  # before a call is paid for
        name = f"LAVE ({model.removeprefix('local:').rsplit('/', 1)[-1]})"
        variants = {name: (options, captions and not ablations)}
        if ablations:
            variants |= {
                f"{name}, 1-shot": (replace(options, shots=1), False),
                f"{name}, 4-shot": (replace(options, shots=4), False),
                f"{name}, without rationale": (replace(options, rationale=False), False),
                f"{name}, without filtering references": (replace(options, filter_references=False), False),
            }
            variants |= {f"{name}, with caption": (options, True)} if captions else {}
        raters += [
            Rater(label, make_lave(model, settings, varied), captions=shown)
            for label, (varied, shown) in variants.items()
        ]
    return raters
