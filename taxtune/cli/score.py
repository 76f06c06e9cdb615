"""`taxtune place` and `taxtune score`: put answers on a taxonomy, and score them there."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune import options
from taxtune.progress import note
from taxtune.thoughts import CUT_THOUGHT
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from taxtune.mapping import Placement
    from taxtune.taxonomy import Taxonomy

__all__ = ["place", "score"]


def place(
    taxonomy: options.TaxonomyOption,
    file: Annotated[
        str,
        typer.Argument(
            metavar="[FILE|-]",
            help="Text with one answer per line. "
            + options.ANSWERS_HELP.format("column answer")
            + " - reads stdin.",
        ),
    ] = "-",
    similarity: options.SimilarityOption = "lexical",
    preset: options.PresetOption = "default",
    arbiter: options.ArbiterOption = None,
    input: options.InputOption = "auto",
    format: options.FormatOption = "auto",
    root_label: options.RootLabelOption = None,
    root: Annotated[
        str | None, options.opt("Place on the part of the taxonomy below this node.")
    ] = None,
    as_json: Annotated[bool, options.opt("Print one JSON object per line.", "--json")] = False,
) -> None:
    """Print where each answer belongs on the taxonomy, one line for each answer, in order.

    A line holds the label, the stage that decided, the path from the root and the answer, parted by
    tabs; a blank answer has a line too and is an abstention. An answer that asserts something that the taxonomy lacks
    is off_tree, on the root. A reply that ends within the model's thought is no answer: its stage is missing.
    """
    from taxtune.answers import AnswerSchema, read_answers
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.models.arbiter import ChatArbiter
    from taxtune.scoring.nodes import place_texts
    from taxtune.taxonomy.domain import read_part

    config = MapperConfig(preset=preset)
    answers = read_answers(file, AnswerSchema(id=None, missing="keep", format=input))
    for text in answers.notes:
        note(text)
    tree, _ = read_part(taxonomy, format, root, root_label=root_label)
    chat = None if arbiter is None else ChatArbiter(arbiter)
    mapper = Mapper(tree, similarity, config, arbiter=chat)
    texts = [row.answer or "" for row in answers.rows]
    cut = [row.answer is None and row.fields.get("answer") is not None for row in answers.rows]
    placements = []
    for placement, row, is_cut in zip(place_texts(mapper, texts), answers.rows, cut, strict=True):
        if is_cut:
            print(_missing_line(str(row.fields["answer"]), as_json=as_json))
        else:
            placements.append(placement)
            print(_json_line(tree, placement) if as_json else _text_line(tree, placement))
    if any(cut):
        note(f"{answers.file}: {sum(cut):,} of {len(cut):,} answers are missing: {CUT_THOUGHT}")
    abstained, off = (
        sum(one.abstained for one in placements),
        sum(one.off_tree for one in placements),
    )
    counted = f"{len(placements):,} answer{'' if len(placements) == 1 else 's'} placed"
    looked_up = (
        f"; words were looked up in {mapper.wordnet.source}" if mapper.wordnet is not None else ""
    )
    if chat is not None:
        chat.note_spent()
    print(
        f"taxtune: {counted}, {abstained:,} of them abstentions, {off:,} off the tree{looked_up}",
        file=sys.stderr,
    )


def _json_line(tree: Taxonomy, placement: Placement) -> str:
    record = {
        "answer": placement.answer,
        "path": list(tree.path(placement.node)),
        "label": tree.labels[placement.node],
        "stage": str(placement.stage),
        **{
            name: getattr(placement, name)
            for name in ("evidence", "confidence", "abstained", "off_tree")
        },
    }
    return _one_line(record)


def _missing_line(reply: str, *, as_json: bool) -> str:
    """Returns the line of a reply without an answer."""
    if as_json:
        nothing = dict.fromkeys(
            ("path", "label", "stage", "evidence", "confidence", "abstained", "off_tree")
        )
        return _one_line({"answer": reply, **nothing, "stage": "missing"})
    return visible("\t".join(("", "missing", "", " ".join(reply.split()))))


def _one_line(record: dict[str, Any]) -> str:
    line = json.dumps(record, ensure_ascii=False)
    # Unicode's own line ends are legal inside JSON and would still part the line for many readers.
    return line.translate({0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"})


def _text_line(tree: Taxonomy, placement: Placement) -> str:
    path, answer = " / ".join(tree.path(placement.node)), " ".join(placement.answer.split())
    return visible("\t".join((tree.labels[placement.node], str(placement.stage), path, answer)))


def score(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help=options.ANSWERS_HELP.format(
                "columns truth and answer (text) or placement (a node)"
            ),
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
    arbiter: options.ArbiterOption = None,
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
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.models.arbiter import ChatArbiter
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
    chat = None if arbiter is None else ChatArbiter(arbiter)
    report = score_answers(
        answers,
        tree,
        None
        if answers.has_nodes
        else Mapper(tree, similarity=similarity, config=config, arbiter=chat),
        part=part,
        frequencies=frequencies,
        smoothing=smoothing,
        resamples=resamples,
        seed=seed,
    )
    if chat is not None:
        chat.note_spent()
    publish(report, out=None, as_json=as_json)
