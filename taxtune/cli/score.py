"""`taxtune score`: every score of a file of answers or predicted nodes, and precision and recall at each rank."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from taxtune.cli.interrupts import keep_work
from taxtune.options import (
    ANSWERS_HELP,
    EmptyOption,
    FormatOption,
    FrequenciesOption,
    JsonRowsOption,
    OffTreeAsOption,
    PresetOption,
    ResamplesOption,
    RootLabelOption,
    RootOption,
    SeedOption,
    SimilarityOption,
    SmoothingOption,
    TaxonomyOption,
    missing_answers,
)
from taxtune.progress import note

__all__ = ["score"]


def score(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help=ANSWERS_HELP.format("columns target and answer (text) or predicted (a node)"),
        ),
    ],
    taxonomy: TaxonomyOption,
    format: FormatOption = "auto",
    root_label: RootLabelOption = None,
    root: RootOption = None,
    similarity: SimilarityOption = "lexical",
    preset: PresetOption = "default",
    off_tree_as: OffTreeAsOption = "child",
    empty: EmptyOption = "error",
    frequencies: FrequenciesOption = None,
    smoothing: SmoothingOption = 0.0,
    resamples: ResamplesOption = 2000,
    seed: SeedOption = 0,
    as_json: JsonRowsOption = False,
) -> None:
    """Print hP, hR, hF, accuracy, depth, information-weighted scores and scores by rank, with 95 % intervals."""
    from taxtune.answers import AnswerSchema, read_answers
    from taxtune.answers.scores import score_answers
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.taxonomy.domain import read_part

    config = MapperConfig(preset=preset, off_tree=off_tree_as)
    missing = missing_answers(empty)
    tree, part = read_part(taxonomy, format, root, root_label=root_label)
    schema = AnswerSchema(predicted="predicted", id=None, taxonomy=tree, part=part, off_tree_option="", **missing)
    table = read_answers(file, schema)
    for text in table.notes:
        note(text)
    keep_work([similarity])
    scored = score_answers(
        table,
        tree,
        None if table.rows[0].predicted is not None else Mapper(tree, similarity=similarity, config=config),
        part=part,
        frequencies=frequencies,
        smoothing=smoothing,
        resamples=resamples,
        seed=seed,
    )
    if as_json:
        result = {"file": table.file, "taxonomy": taxonomy, **scored.as_dict()}
        print(json.dumps(result, ensure_ascii=False, indent=2))
    else:
        print(*scored.lines(), sep="\n")
