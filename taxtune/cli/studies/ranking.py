"""`taxtune study ranking`: models ranked under text measures and under taxonomy-aware metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from taxtune.cli.studies.options import check_out, choice, pairs
from taxtune.errors import DataError

__all__ = ["ranking"]


def ranking(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL=FILE...", help="CSV or JSONL with the columns answer and target, one a model."),
    ] = None,
    taxonomy: Annotated[
        str | None, typer.Option("--taxonomy", "-t", help="The taxonomy file, or builtin:fieldguide.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format", help="The taxonomy's format, see `taxtune taxonomy check --help`; auto looks at the content."
        ),
    ] = "auto",
    root: Annotated[
        str | None,
        typer.Option(help="Restrict the taxonomy to the part below this node; scores on the whole of it are added."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            "-m",
            help="A text measure, repeatable; see taxtune measure --list. Default: exact-match, contained, rouge-1, "
            "meteor.",
        ),
    ] = None,
    by: Annotated[str | None, typer.Option(help="Column that parts the one file into models.")] = None,
    guess: Annotated[
        list[str] | None,
        typer.Option(help="For lists of guesses, repeatable: 1, 2, top-3 or all; each is ranked as a model."),
    ] = None,
    guesses: Annotated[str, typer.Option(help="What a list of guesses is without --guess: first or join.")] = "first",
    where: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="Read only rows that have it; repeatable.")
    ] = None,
    answer_column: Annotated[str, typer.Option(help="Column of the answer.")] = "answer",
    target_column: Annotated[str, typer.Option(help="Column of the target: a label, an alias or a path.")] = "target",
    id_column: Annotated[str, typer.Option(help="Column that identifies an example in all files.")] = "id",
    question_column: Annotated[
        str | None, typer.Option(help="Column of the prompt that was asked, for measures that are judges.")
    ] = None,
    off_tree: Annotated[str, typer.Option(help="Rows whose target is not on the tree: error or leave-out.")] = "error",
    missing: Annotated[str, typer.Option(help="Rows without an answer: keep (count), error or leave-out.")] = "keep",
    rows: Annotated[str, typer.Option(help="Examples that not all files have: error, or common to leave them.")] = (
        "error"
    ),
    unit: Annotated[
        str, typer.Option(help="Compare on each example, or on each target where the files hold different images.")
    ] = "example",
    reference: Annotated[
        str, typer.Option(help="What answers are compared with: the target's common-name, label or any-name.")
    ] = "common-name",
    similarity: Annotated[str, typer.Option(help="The mapper's: lexical, sentence:MODEL or clip:MODEL.")] = "lexical",
    preset: Annotated[str, typer.Option(help="The mapper's: default or paper-listing.")] = "default",
    scores: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Instead of files: a CSV with model and a column a measure, or paper1-table4 or paper1-table5.",
        ),
    ] = None,
    resamples: Annotated[int, typer.Option(min=1, max=100_000, help="Bootstrap resamples of the ranks.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap.")] = 0,
    device: Annotated[str, typer.Option(help="Where models of measures and mapper run.")] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Texts at once in a model.")] = 64,
    cache_dir: Annotated[
        Path | None, typer.Option(file_okay=False, help="Where scores and embeddings are kept.")
    ] = None,
    api_base: Annotated[str | None, typer.Option(help="Address of a judge's OpenAI-compatible server.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for tables, figures and study.json.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
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

    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.metrics.registry import MeasureSettings, make_measure, split_spec
    from taxtune.studies.answer_files import Columns
    from taxtune.studies.both_trees import read_part
    from taxtune.studies.contestants import Reading, read_models
    from taxtune.studies.matching import align, excluded_records
    from taxtune.studies.ranking.study import REFERENCES, RankingSettings, ranking_study

    # What is wrong with an option is said before anything long is done.
    settings = RankingSettings(
        reference=choice(reference, REFERENCES, "--reference"),  # type: ignore[arg-type]
        unit=choice(unit, ("example", "target"), "--unit"),  # type: ignore[arg-type]
        question_column=question_column,
        resamples=resamples,
        seed=seed,
    )
    reading = Reading(
        columns=Columns(answer=answer_column, target=target_column, id=id_column),
        where=pairs(where, "--where"),
        guesses=choice(guesses, ("first", "join"), "--guesses"),  # type: ignore[arg-type]
        off_tree=choice(off_tree, ("error", "leave-out"), "--off-tree"),  # type: ignore[arg-type]
        missing=choice(missing, ("keep", "error", "leave-out"), "--missing"),  # type: ignore[arg-type]
    )
    matching = choice(rows, ("error", "common"), "--rows")
    config = MapperConfig(preset=preset)
    specs = dict.fromkeys(measure or ("exact-match", "contained", "rouge-1", "meteor"))
    for spec in specs:
        split_spec(spec)
    tree, part = read_part(taxonomy, format, root)
    answers = read_models(files or (), tree, replace(reading, part=part), by=by, guess=guess or ())
    notes = [note for file in answers.values() for note in file.notes]
    excluded = excluded_records(answers.values())
    if unit == "example":
        aligned = align(answers, matching)  # type: ignore[arg-type]
        notes += aligned.notes
        excluded = excluded_records(answers.values(), [aligned])
        models = aligned.rows
    else:
        models = {name: file.rows for name, file in answers.items()}
    # Models are loaded once the files are known to be in order.
    shared = MeasureSettings(device=device, batch_size=batch_size, cache_dir=cache_dir, api_base=api_base)
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
            "where": reading.where,
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
