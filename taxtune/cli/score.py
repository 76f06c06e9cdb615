"""`taxtune place` and `taxtune score`: put answers on a taxonomy, and score them there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from taxtune import options
from taxtune.cli.printing import note_arbiter, tell
from taxtune.progress import note
from taxtune.thoughts import CUT_THOUGHT
from taxtune.untrusted import json_line, visible

if TYPE_CHECKING:
    from taxtune.answers import AnswerTable
    from taxtune.mapping import Mapper, Placement
    from taxtune.taxonomy import Taxonomy

__all__ = ["place", "score"]

#: What `taxtune place --json` prints of a placement, besides answer, path, label and stage.
_FIELDS = ("evidence", "confidence", "abstained", "off_tree")

TextsArgument = Annotated[
    str,
    typer.Argument(
        metavar="[FILE|-]",
        help="Text with one answer per line. "
        f"{options.ANSWERS_HELP.format('column answer')} - reads stdin.",
    ),
]
PartOption = Annotated[
    str | None, options.opt("Place on the part of the taxonomy below this node.")
]
JsonLinesOption = Annotated[bool, options.opt("Print one JSON object per line.", "--json")]
ScoredArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help=options.ANSWERS_HELP.format("columns truth and answer (text) or placement (a node)"),
    ),
]


def place(
    taxonomy: options.TaxonomyOption,
    file: TextsArgument = "-",
    similarity: options.SimilarityOption = "lexical",
    preset: options.PresetOption = "default",
    arbiter: options.ArbiterOption = None,
    input: options.InputOption = "auto",
    format: options.FormatOption = "auto",
    root_label: options.RootLabelOption = None,
    root: PartOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Print where each answer belongs on the taxonomy, one line for each answer, in order.

    A line holds the label, the stage that decided, the path from the root and the answer, parted by
    tabs; a blank answer has a line too and is an abstention. An answer that asserts something that the taxonomy lacks
    is off_tree, on the root. A reply that ends within the model's thought is no answer: its stage is missing.
    """
    from taxtune.answers import AnswerSchema, read_answers
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.models.arbiter import named_arbiter
    from taxtune.taxonomy.domain import read_part

    config = MapperConfig(preset=preset)
    answers = read_answers(file, AnswerSchema(id=None, missing="keep", format=input))
    for text in answers.notes:
        note(text)
    tree, _ = read_part(taxonomy, format, root, root_label=root_label)
    mapper = Mapper(tree, similarity, config, arbiter=named_arbiter(arbiter))
    placements = _print_placements(answers, mapper, as_json=as_json)
    missing = len(answers.rows) - len(placements)
    if missing:
        note(
            f"{answers.file}: {missing:,} of {len(answers.rows):,} answers are missing: "
            f"{CUT_THOUGHT}"
        )
    _note_reader(mapper, answers, arbiter)
    abstained = sum(placement.abstained for placement in placements)
    off_tree = sum(placement.off_tree for placement in placements)
    outcome = (
        f"{len(placements):,} answer{'' if len(placements) == 1 else 's'} placed, "
        f"{abstained:,} of them abstentions, {off_tree:,} off the tree"
    )
    tell(outcome)


def _note_reader(mapper: Mapper, answers: AnswerTable, arbiter: str | None) -> None:
    """Notes what a chat model was asked, or would be, unless none is wanted."""
    from taxtune.mapping.config import PAPER_PRESETS
    from taxtune.models.arbiter import offer

    note_arbiter(mapper)
    if arbiter is not None or mapper.config.preset in PAPER_PRESETS:
        return
    texts = {row.answer for row in answers.rows}
    texts.discard(None)
    if texts:
        note(offer(len(texts), "--arbiter PROVIDER/MODEL"))


def _print_placements(answers: AnswerTable, mapper: Mapper, *, as_json: bool) -> list[Placement]:
    """Prints a line for each answer; returns the placements, which a reply without an answer lacks."""
    from taxtune.scoring.nodes import place_texts

    texts = [row.answer or "" for row in answers.rows]
    questions = [row.question for row in answers.rows]
    placements = []
    placed = place_texts(mapper, texts, questions)
    for placement, row in zip(placed, answers.rows, strict=True):
        reply = row.fields.get("answer")
        if row.answer is None and reply is not None:
            print(_missing_line(str(reply), as_json=as_json))
            continue
        placements.append(placement)
        if as_json:
            print(_json_line(mapper.taxonomy, placement))
        else:
            print(_text_line(mapper.taxonomy, placement))
    return placements


def _json_line(tree: Taxonomy, placement: Placement) -> str:
    record: dict[str, object] = {
        "answer": placement.answer,
        "path": list(tree.path(placement.node)),
        "label": tree.labels[placement.node],
        "stage": str(placement.stage),
    }
    for field in _FIELDS:
        record[field] = getattr(placement, field)
    return json_line(record)


def _missing_line(reply: str, *, as_json: bool) -> str:
    """Returns the line of a reply without an answer."""
    if not as_json:
        return visible(f"\tmissing\t\t{' '.join(reply.split())}")
    record: dict[str, object] = {"answer": reply, "path": None, "label": None, "stage": "missing"}
    return json_line(record | dict.fromkeys(_FIELDS))


def _text_line(tree: Taxonomy, placement: Placement) -> str:
    path = " / ".join(tree.path(placement.node))
    answer = " ".join(placement.answer.split())
    return visible(f"{tree.labels[placement.node]}\t{placement.stage}\t{path}\t{answer}")


def score(
    file: ScoredArgument,
    taxonomy: options.TaxonomyOption,
    format: options.FormatOption = "auto",
    root_label: options.RootLabelOption = None,
    root: options.RootOption = None,
    answer_column: options.AnswerColumnOption = "answer",
    truth_column: options.TruthColumnOption = "truth",
    placement_column: options.PlacementColumnOption = "placement",
    similarity: options.SimilarityOption = "lexical",
    preset: options.PresetOption = "default",
    arbiter: options.ArbiterOption = None,
    off_tree_as: options.OffTreeAsOption = "child",
    missing: options.MissingMeansOption = "error",
    frequencies: options.FrequenciesOption = None,
    smoothing: options.SmoothingOption = 0.0,
    resamples: options.ResamplesOption = 2000,
    seed: options.SeedOption = 0,
    as_json: options.JsonRowsOption = False,
) -> None:
    """Print how many answers are wrong, hP, hR, hF, accuracy, depth, bits and scores by rank, with 95 % intervals.

    `taxtune score measure FILE` prints text measures against references instead, and `taxtune score diagnose FILE` what
    goes wrong, where on the taxonomy, and what it costs; both have their own --help.
    """
    from taxtune.answers import AnswerSchema, read_answers
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.models.arbiter import named_arbiter
    from taxtune.report.output import publish
    from taxtune.scoring.nodes import score_answers
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
        missing=options.MISSING_MEANS[missing],
    )
    answers = read_answers(file, schema)
    mapper = None
    if not answers.has_nodes:
        mapper = Mapper(tree, similarity=similarity, config=config, arbiter=named_arbiter(arbiter))
    report = score_answers(
        answers,
        tree,
        mapper,
        part=part,
        frequencies=frequencies,
        smoothing=smoothing,
        resamples=resamples,
        seed=seed,
    )
    if mapper is not None:
        _note_reader(mapper, answers, arbiter)
    publish(report, out=None, as_json=as_json)
