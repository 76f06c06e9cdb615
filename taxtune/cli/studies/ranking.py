"""`taxtune study ranking`: models ranked under text measures and under taxonomy-aware metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from taxtune.cli.interrupts import keep_work
from taxtune.cli.options import (
    AnswerColumnOption,
    ApiBaseOption,
    BatchSizeOption,
    CacheDirOption,
    ConcurrencyOption,
    DeviceOption,
    FormatOption,
    IdColumnOption,
    JsonOption,
    MissingKeptOption,
    OffTreeAsOption,
    OffTreeOption,
    OtherGuessesOption,
    OutOption,
    PresetOption,
    RootOption,
    RowsOption,
    SeedOption,
    SimilarityOption,
    TargetColumnOption,
    WhereOption,
    check_out,
    choice,
    measure_option,
    pairs,
    taxonomy_option,
)
from taxtune.errors import DataError

__all__ = ["ranking"]

_DEFAULT = ("exact-match", "contained", "rouge-1", "meteor")


def ranking(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL=FILE...", help="CSV or JSONL with the columns answer and target, one a model."),
    ] = None,
    taxonomy: Annotated[str | None, taxonomy_option("Needed unless --scores is given.")] = None,
    format: FormatOption = "auto",
    root: RootOption = None,
    measure: Annotated[list[str] | None, measure_option(f"Default: {', '.join(_DEFAULT)}.")] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that parts the one file into models.")
    ] = None,
    guess: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHICH", help="For lists of guesses, repeatable: 1, 2, top-3 or all; each is ranked as a model."
        ),
    ] = None,
    guesses: OtherGuessesOption = "first",
    where: WhereOption = None,
    answer_column: AnswerColumnOption = "answer",
    target_column: TargetColumnOption = "target",
    id_column: IdColumnOption = "id",
    question_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column of the prompt that was asked, for measures that are judges."),
    ] = None,
    off_tree: OffTreeOption = "error",
    missing: MissingKeptOption = "keep",
    rows: RowsOption = "error",
    unit: Annotated[
        str,
        typer.Option(
            metavar="WHAT", help="Compare on each example, or on each target where the files hold different images."
        ),
    ] = "example",
    reference: Annotated[
        str,
        typer.Option(
            metavar="WHAT", help="What answers are compared with: the target's common-name, label or any-name."
        ),
    ] = "common-name",
    similarity: SimilarityOption = "lexical",
    preset: PresetOption = "default",
    off_tree_as: OffTreeAsOption = "child",
    scores: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Instead of files: a CSV with model and a column a measure, or paper1-table4 or paper1-table5.",
        ),
    ] = None,
    resamples: Annotated[int, typer.Option(min=1, max=100_000, help="Bootstrap resamples of the ranks.")] = 2000,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    batch_size: BatchSizeOption = 64,
    cache_dir: CacheDirOption = None,
    api_base: ApiBaseOption = None,
    concurrency: ConcurrencyOption = 8,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank models by what they answered, under text measures and under hP, hR and hF (paper 1, Figure 5, Tables 4, 5).

    Prints the scores, the ranks, how sure they are (paired bootstrap) and how far each measure's ranking agrees with
    that of hF; with --out also draws the rank-shift chart.
    """
    from taxtune.studies.output import publish

    check_out(out)
    if scores is not None:
        given = files or taxonomy or measure or by or guess or where
        if given:
            raise DataError("--scores ranks by a table alone.", value=given, remedy="Leave the other options out.")
        publish(_of_table(scores), out=out, as_json=as_json)
        return
    if taxonomy is None:
        raise DataError("A taxonomy is needed.", remedy="Name it with --taxonomy.")
    from dataclasses import replace

    from taxtune.answers import AnswerSchema
    from taxtune.answers.matching import align, excluded_records
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.metrics.registry import MeasureSettings, make_measure, split_spec
    from taxtune.studies.both_trees import read_part
    from taxtune.studies.contestants import read_models
    from taxtune.studies.ranking.study import (
        REFERENCES,
        RankingSettings,
        check_kinds,
        check_questions,
        ranking_study,
    )

    # What is wrong with an option is said before anything long is done.
    settings = RankingSettings(
        reference=choice(reference, REFERENCES, "--reference"),  # type: ignore[arg-type]
        unit=choice(unit, ("example", "target"), "--unit"),  # type: ignore[arg-type]
        question_column=question_column,
        resamples=resamples,
        seed=seed,
    )
    schema = AnswerSchema(
        answer=answer_column,
        target=target_column,
        id=id_column,
        where=pairs(where, "--where"),
        guesses=choice(guesses, ("first", "join"), "--guesses"),  # type: ignore[arg-type]
        off_tree=choice(off_tree, ("error", "leave-out"), "--off-tree"),  # type: ignore[arg-type]
        missing=choice(missing, ("keep", "error", "leave-out"), "--missing"),  # type: ignore[arg-type]
    )
    matching = choice(rows, ("error", "common"), "--rows")
    config = MapperConfig(preset=preset, off_tree=off_tree_as)
    specs = dict.fromkeys(measure or _DEFAULT)
    kinds = [split_spec(spec)[0] for spec in specs]
    judges = check_kinds(kinds, question_column)
    tree, part = read_part(taxonomy, format, root)
    answers = read_models(files or (), replace(schema, taxonomy=tree, part=part), by=by, guess=guess or ())
    notes = [note for file in answers.values() for note in file.notes]
    excluded = excluded_records(answers.values())
    if unit == "example":
        aligned = align(answers, matching)  # type: ignore[arg-type]
        notes += aligned.notes
        excluded = excluded_records(answers.values(), [aligned])
        models = aligned.rows
    else:
        models = {name: file.rows for name, file in answers.items()}
    if judges:
        for name, answered in models.items():
            check_questions(name, answered, question_column)
    # Models are loaded once the files are known to be in order.
    shared = MeasureSettings(
        device=device, batch_size=batch_size, cache_dir=cache_dir, api_base=api_base, concurrency=concurrency
    )
    keep_work([*specs, similarity])
    measures = [make_measure(spec, shared) for spec in specs]
    mapper = Mapper(tree, similarity, config, device=device, cache_dir=cache_dir)
    report = ranking_study(
        models,
        tree,
        mapper,
        measures,
        settings=settings,
        notes=tuple(dict.fromkeys(notes)),  # parts of one file say the same about it once
        record={
            "taxonomy": taxonomy,
            "format": format,
            "root": root,
            "files": list(files or ()),
            "by": by,
            "guess": list(guess or ()),
            "guesses": guesses,
            "where": schema.where,
            "columns": {"answer": answer_column, "target": target_column, "id": id_column},
            "off_tree": off_tree,
            "missing": missing,
            "rows": rows,
        },
        part=part,
    )
    publish(replace(report, data={**report.data, "excluded": excluded}), out=out, as_json=as_json)


def _of_table(name: str) -> Any:
    from taxtune.studies.published import published
    from taxtune.studies.ranking.tables import ranking_of_table, read_scores

    if not Path(name).exists() and "/" not in name and "." not in name:
        try:
            return ranking_of_table(published(name), source=name)
        except FileNotFoundError:
            raise DataError(
                "There is no such table.", value=name, remedy="Give a CSV file, or paper1-table4 or paper1-table5."
            ) from None
    return ranking_of_table(read_scores(name), source=name)
