"""`taxtune study prompts`: what a prompt does to hP and hR."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taxtune.cli.interrupts import keep_work
from taxtune.cli.options import (
    AnswerColumnOption,
    CacheDirOption,
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
    ResamplesOption,
    RootOption,
    RowsOption,
    SeedOption,
    SimilarityOption,
    TargetColumnOption,
    WhereOption,
    check_out,
    choice,
    pairs,
    taxonomy_option,
)
from taxtune.errors import DataError

if TYPE_CHECKING:
    from taxtune.studies.prompts.study import PromptedModel
    from taxtune.taxonomy import Taxonomy

__all__ = ["prompts"]


def prompts(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL:PROMPT=FILE...",
            help="CSV or JSONL with the columns answer and target; or folders of finished runs, as RUN or MODEL=RUN.",
        ),
    ],
    taxonomy: Annotated[str | None, taxonomy_option("Runs need none.")] = None,
    format: FormatOption = "auto",
    root: RootOption = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="PROMPT", help="The prompt that the arrows start at. Default: each model's first."),
    ] = None,
    model_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that parts the one file into models.")
    ] = None,
    prompt_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that parts each file into prompts.")
    ] = None,
    guess: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHICH", help="For lists of guesses, repeatable: 1, 2, top-3 or all; each stands for a prompt."
        ),
    ] = None,
    guesses: OtherGuessesOption = "first",
    where: WhereOption = None,
    answer_column: AnswerColumnOption = "answer",
    target_column: TargetColumnOption = "target",
    id_column: IdColumnOption = "id",
    off_tree: OffTreeOption = "error",
    missing: MissingKeptOption = "keep",
    rows: RowsOption = "error",
    similarity: SimilarityOption = "lexical",
    preset: PresetOption = "default",
    off_tree_as: OffTreeAsOption = "child",
    resamples: ResamplesOption = 2000,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    cache_dir: CacheDirOption = None,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare prompts in the hP-hR plane: arrows from a baseline prompt to others (paper 1, Figure 7).

    Prints hP, hR, hF and accuracy of every prompt with intervals, and the paired differences to the baseline; with
    --out also draws the arrows.
    """
    from dataclasses import replace

    from taxtune.studies.both_trees import both_trees_table, read_part
    from taxtune.studies.output import publish
    from taxtune.studies.prompts.study import prompts_study

    check_out(out)
    notes: list[str] = []
    excluded: list[dict[str, object]] = []
    record: dict[str, object] = {"files": files, "taxonomy": taxonomy, "format": format, "root": root}
    runs = _runs(files)
    tree, part = (None, None) if taxonomy is None else read_part(taxonomy, format, root)
    if runs:
        if root is not None and tree is None:
            raise DataError("--root is a node of a taxonomy.", value=root, remedy="Name the runs' own with --taxonomy.")
        models = _of_runs(runs, tree)
        given = [prompt_column, model_column, guess, where]
        if any(value is not None for value in given):
            raise DataError("Runs have no columns or guesses to choose from.", remedy="Leave these options out.")
    else:
        if tree is None:
            raise DataError("A taxonomy is needed.", remedy="Name it with --taxonomy.")
        from taxtune.answers import AnswerSchema
        from taxtune.answers.matching import align, excluded_records
        from taxtune.mapping import Mapper, MapperConfig
        from taxtune.studies.contestants import read_prompts
        from taxtune.studies.prompts.study import place_prompts

        schema = AnswerSchema(
            answer=answer_column,
            target=target_column,
            id=id_column,
            where=pairs(where, "--where"),
            guesses=choice(guesses, ("first", "join"), "--guesses"),  # type: ignore[arg-type]
            off_tree=choice(off_tree, ("error", "leave-out"), "--off-tree"),  # type: ignore[arg-type]
            missing=choice(missing, ("keep", "error", "leave-out"), "--missing"),  # type: ignore[arg-type]
            taxonomy=tree,
            part=part,
        )
        matching = choice(rows, ("error", "common"), "--rows")
        config = MapperConfig(preset=preset, off_tree=off_tree_as)
        keep_work([similarity])
        mapper = Mapper(tree, similarity, config, device=device, cache_dir=cache_dir)
        read = read_prompts(files, schema, columns=(model_column, prompt_column), guess=guess or ())
        aligned = {name: align(parts, matching) for name, parts in read.items()}  # type: ignore[arg-type]
        notes += [note for parts in read.values() for file in parts.values() for note in file.notes]
        notes += [f"{name}: {note}" for name, match in aligned.items() for note in match.notes]
        excluded = excluded_records([file for parts in read.values() for file in parts.values()], aligned.values())
        models = place_prompts({name: match.rows for name, match in aligned.items()}, tree, mapper)
        record |= {
            "model_column": model_column,
            "prompt_column": prompt_column,
            "guess": list(guess or ()),
            "guesses": guesses,
            "where": schema.where,
            "columns": {"answer": answer_column, "target": target_column, "id": id_column},
            "off_tree": off_tree,
            "missing": missing,
            "rows": rows,
            "mapper": mapper.identity(),
        }
    report = prompts_study(
        models, baseline=baseline, resamples=resamples, seed=seed, notes=tuple(dict.fromkeys(notes)), record=record
    )
    if part is not None:
        every = {
            f"{name}: {prompt}": (placed, model.targets)
            for name, model in models.items()
            for prompt, placed in model.prompts.items()
        }
        both = both_trees_table(
            part,
            {name: (placed.nodes, targets) for name, (placed, targets) in every.items()},
            "model and prompt",
            off_tree={name: placed.as_child for name, (placed, _) in every.items() if placed.as_child is not None},
        )
        report = replace(report, tables=(*report.tables, both))
    publish(replace(report, data={**report.data, "excluded": excluded}), out=out, as_json=as_json)


def _runs(arguments: Sequence[str]) -> dict[str, str]:
    """Returns the folders of runs by name, where the arguments are such."""
    from taxtune.studies.contestants import named_paths

    found = {name: path for name, path in named_paths(arguments).items() if Path(path).is_dir()}
    if found and len(found) != len(arguments):
        raise DataError(
            "Some of the arguments are folders of runs and some are files.",
            value=list(arguments),
            remedy="Draw runs and files apart.",
        )
    return found


def _of_runs(runs: dict[str, str], tree: Taxonomy | None) -> dict[str, PromptedModel]:
    from taxtune.studies.prompts.run_folders import read_run

    return {name: read_run(path, tree) for name, path in runs.items()}
