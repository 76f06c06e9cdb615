"""`taxtune score`: every score of a file of answers or predicted nodes, and precision and recall at each rank."""

from __future__ import annotations

from typing import Annotated

import typer

from taxtune import options

__all__ = ["score"]


def score(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help=options.ANSWERS_HELP.format("columns truth and answer (text) or placement (a node)")
        ),
    ],
    taxonomy: options.TaxonomyOption,
    format: options.FormatOption = "auto",
    root_label: options.RootLabelOption = None,
    root: options.RootOption = None,
    answer_column: options.AnswerColumnOption = "answer",
    truth_column: options.TruthColumnOption = "truth",
    placement_column: options.PlacementColumnOption = "placement",
    similarity: options.SimilarityOption = "lexical",
    preset: options.PresetOption = "default",
    off_tree_as: options.OffTreeAsOption = "child",
    missing: options.MissingMeansOption = "error",
    frequencies: options.FrequenciesOption = None,
    smoothing: options.SmoothingOption = 0.0,
    resamples: options.ResamplesOption = 2000,
    seed: options.SeedOption = 0,
    as_json: options.JsonRowsOption = False,
) -> None:
    """Print hP, hR, hF, accuracy, depth, information-weighted scores and scores by rank, with 95 % intervals.

    `taxtune score measure FILE` prints text measures against references instead, and `taxtune score diagnose FILE` what
    goes wrong, where on the taxonomy, and what it costs; both have their own --help.
    """
    from taxtune.answers import AnswerSchema, read_answers
    from taxtune.answers.scores import score_answers
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.report.output import publish
    from taxtune.taxonomy.domain import read_part

    config = MapperConfig(preset=preset, off_tree=off_tree_as)
    tree, part = read_part(taxonomy, format, root, root_label=root_label)
    schema = AnswerSchema(
        answer=answer_column,
        truth=truth_column,
        placement=placement_column,
        id=None,
        taxonomy=tree,
        part=part,
        **options.missing_answers(missing),
    )
    answers = read_answers(file, schema)
    report = score_answers(
        answers,
        tree,
        None if answers.has_nodes else Mapper(tree, similarity=similarity, config=config),
        part=part,
        frequencies=frequencies,
        smoothing=smoothing,
        resamples=resamples,
        seed=seed,
    )
    publish(report, out=None, as_json=as_json)
