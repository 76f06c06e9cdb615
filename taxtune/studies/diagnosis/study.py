"""What goes wrong, where on the tree, and what it costs: the report of `taxtune diagnose`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerTable
from taxtune.answers.frequencies import make_information
from taxtune.answers.matching import excluded_records
from taxtune.answers.scores import as_child
from taxtune.metrics.diagnosis import (
    Clade,
    ErrorType,
    MeasuredType,
    TypeCost,
    classify,
    costs,
    worst_clades,
    wrong_from,
)
from taxtune.metrics.hierarchical import HierarchicalScores, precision_recall, score
from taxtune.metrics.information import Information, information_values
from taxtune.metrics.ranks import RankIntervals, bootstrap_ranks, rank_of
from taxtune.metrics.statistics import (
    INFORMATION_METRICS,
    Interval,
    bootstrap,
    hierarchical_sample,
    information_sample,
)
from taxtune.report.output import Cell, StudyReport, Table, node_name
from taxtune.studies.both_trees import both_trees_table
from taxtune.studies.diagnosis import DiagnosisSettings
from taxtune.studies.diagnosis.by_measures import (
    costs_table,
    crossed_table,
    judge_questions,
    measure_types,
    measured_table,
)
from taxtune.studies.diagnosis.tags import read_tags, tagged, tags_table
from taxtune.studies.placing import place_texts

if TYPE_CHECKING:
    from taxtune.mapping import Placement
    from taxtune.taxonomy import Taxonomy

__all__ = ["DOUBTFUL_STAGES", "Diagnosis", "diagnosis"]

#: Stages of the mapper that guess where nothing on the tree is named in so many words.
DOUBTFUL_STAGES = ("ngram", "vote", "similarity")

# Characters of an answer that the table of examples shows.
_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The types of a set of answers, and what they cost.

    Attributes:
        answers: A record for each answer, as `--json` has it, with its nodes as "node" and "target".
        scores: hP, hR and hF.
        costs: The types, wrong branches with the rank where they leave the right path, from the root down.
        clades: The clades that cost most.
        off: Which answers are scored as a child of the root that is never right, shape (answers,).
        intervals: Every score with its 95 % bootstrap interval.
        ranks: Precision and recall at each rank, the broadest first.
        information: What the nodes weigh.
        measured: Paper 2's types and what they cost; empty where no measures were asked.
    """

    answers: tuple[dict[str, Any], ...]
    scores: HierarchicalScores
    costs: tuple[TypeCost, ...]
    clades: tuple[Clade, ...]
    off: NDArray[np.bool_]
    intervals: dict[str, Interval]
    ranks: tuple[RankIntervals, ...]
    information: Information
    measured: tuple[TypeCost, ...]


def diagnosis(settings: DiagnosisSettings) -> StudyReport:
    """Places the answers, diagnoses them and returns the report; see `taxtune.studies.diagnosis.run`."""
    from taxtune.studies.diagnosis.figure import draw_diagnosis, draw_ranks

    taxonomy, part = settings.read_tree()
    answers = settings.read_answers(settings.file, taxonomy, part)
    information = make_information(
        taxonomy,
        settings.frequencies,
        smoothing=settings.smoothing,
        targets=[row.target for row in answers.rows],
        part=part,
    )
    for spec in settings.asked:  # what a measure lacks is said before a model is loaded
        judge_questions(answers, spec, settings)
    tags, tag_notes = read_tags(settings.tags, answers, settings.id_column) if settings.tags else (None, [])
    mapper = settings.mapper(taxonomy)
    texts = [row.answer or "" for row in answers.rows]
    placed = place_texts(mapper, texts)
    placements = [placed[text] for text in texts]
    measured = measure_types(taxonomy, answers, settings)
    off = as_child(mapper, placements)
    types = classify(
        taxonomy,
        [placement.node for placement in placements],
        [row.target for row in answers.rows],
        abstained=[placement.abstained for placement in placements],
        off_tree=[placement.off_tree for placement in placements],
        doubtful=[str(placement.stage) in DOUBTFUL_STAGES for placement in placements],
    )
    found = _diagnosed(taxonomy, answers, placements, types, off, information, measured.types, settings)
    tables = [_types_table(found), _scores_table(found, taxonomy), _ranks_table(found)]
    tables += [_clades_table(found, taxonomy)] if settings.clades else []
    tables += [_examples_table(found, taxonomy, settings.examples)] if settings.examples else []
    figures = {
        "diagnosis": partial(draw_diagnosis, found.costs, found.scores),
        "ranks": partial(draw_ranks, found.ranks),
    }
    if measured.types is not None:
        tables += [measured_table(found.measured, found.scores), crossed_table(types, measured.types)]
        figures["measured"] = partial(draw_diagnosis, found.measured, found.scores)
    if tags is not None:
        named = tagged(measured.measures["inclusion"], texts, tags, measured.questions)
        for one, tag in zip(found.answers, named, strict=True):
            one["tags"], one["named"] = (None, None) if tag is None else (list(tag.tags), list(tag.named))
        views: dict[str, Sequence[ErrorType] | Sequence[MeasuredType]] = {"placement": types}
        views |= {} if measured.types is None else {"measures": measured.types}
        tables.append(tags_table(named, views, resamples=settings.resamples, seed=settings.seed))
    if part is not None:
        nodes, targets = ([one[key] for one in found.answers] for key in ("node", "target"))
        tables.append(both_trees_table(part, {"all": (nodes, targets)}, "answers of", off_tree={"all": found.off}))
    shares = {name: float(np.mean([one[name] for one in found.answers])) for name in ("abstained", "off_tree")}
    weighted = {key: one.estimate for key, one in found.intervals.items() if key in INFORMATION_METRICS}
    inner = {"node", "target", *shares}
    return StudyReport(
        study="diagnose",
        title="What goes wrong, where, and what it costs",
        settings={
            **settings.record(),
            "mapper": dict(mapper.identity()),
            **{role: dict(measure.identity()) for role, measure in measured.measures.items()},
        },
        tables=tuple(tables),
        figures=figures,
        notes=(*answers.notes, *tag_notes, *measured.notes),
        data={
            "scores": {key: getattr(found.scores, key) for key in ("hp", "hr", "hf", "n")} | shares | weighted,
            "information": information.as_dict(),
            "costs": [asdict(cost) for cost in found.costs],
            **({"measured_costs": [asdict(cost) for cost in found.measured]} if found.measured else {}),
            "answers": [{key: one[key] for key in one if key not in inner} for one in found.answers],
            "excluded": excluded_records([answers]),
        },
    )


def _diagnosed(
    taxonomy: Taxonomy,
    answers: AnswerTable,
    placements: Sequence[Placement],
    types: Sequence[ErrorType],
    off: NDArray[np.bool_],
    information: Information,
    measured: Sequence[MeasuredType] | None,
    settings: DiagnosisSettings,
) -> Diagnosis:
    nodes, targets = [placement.node for placement in placements], [row.target for row in answers.rows]
    kinds, order = _refined(taxonomy, nodes, targets, types)
    hp, hr = precision_recall(taxonomy, nodes, targets, off_tree=off)
    bits = information_values(information, nodes, targets, off_tree=off)
    columns = {"hp": hp, "hr": hr}
    columns |= dict(zip(("ihp", "ihr", "remaining_uncertainty", "misinformation"), bits, strict=True))
    path = {node: "/".join(taxonomy.path(node)) for node in {*nodes, *targets}}
    records: list[dict[str, Any]] = [
        {
            "id": row.id,
            "answer": placement.answer,
            "truth": path[row.target],
            "placement": path[placement.node],
            "stage": str(placement.stage),
            "type": kinds[i],
            **{name: float(values[i]) for name, values in columns.items()},
            **({} if measured is None else {"measured": str(measured[i])}),
            "node": placement.node,
            "target": row.target,
            "abstained": placement.abstained,
            "off_tree": placement.off_tree,
        }
        for i, (row, placement) in enumerate(zip(answers.rows, placements, strict=True))
    ]
    drawn: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    scored, lost = (taxonomy, nodes, targets), {"off_tree": off, **drawn}
    return Diagnosis(
        answers=tuple(records),
        scores=score(*scored, off_tree=off),
        costs=tuple(costs(*scored, kinds, order=order, **lost)),
        clades=tuple(worst_clades(*scored, kinds, off_tree=off, least=settings.least, most=settings.clades)),
        off=off,
        intervals=bootstrap(
            hierarchical_sample(*scored, off_tree=off),
            information_sample(information, nodes, targets, off_tree=off),
            **drawn,
        ),
        ranks=tuple(bootstrap_ranks(*scored, off_tree=off, **drawn)),
        information=information,
        measured=() if measured is None else tuple(costs(*scored, measured, order=list(MeasuredType), **lost)),
    )


def _refined(
    taxonomy: Taxonomy, nodes: list[int], targets: list[int], types: Sequence[ErrorType]
) -> tuple[list[str], list[str]]:
    """Returns the types with the rank of each wrong branch, and the order in which to list them."""
    kinds: list[str] = []
    level: dict[str, int] = {}
    shared = taxonomy.shared(nodes, targets).tolist()
    for kind, rank, common in zip(types, wrong_from(taxonomy, nodes, targets), shared, strict=True):
        wrong = kind is ErrorType.WRONG_BRANCH
        kinds.append(f"{kind} at {rank}" if wrong else str(kind))
        if wrong:
            level[kinds[-1]] = min(common, level.get(kinds[-1], common))
    branches = sorted(level, key=lambda name: (level[name], name)) or [str(ErrorType.WRONG_BRANCH)]
    order = [name for kind in ErrorType for name in (branches if kind is ErrorType.WRONG_BRANCH else [str(kind)])]
    return kinds, order


# -- the tables -------------------------------------------------------------------------------------------------------


def _types_table(found: Diagnosis) -> Table:
    return costs_table(
        "types",
        "Error types and what they cost",
        found.costs,
        found.scores,
        (
            "A type's cost is how much its answers lower the mean over all answers, with 95 % bootstrap intervals; the "
            "costs add up to 1 − hP and 1 − hR.",
            "Wrong branch at a rank: the rank of the target's highest ancestor that the placement does not share.",
            f"Mapper doubtful: not correct, and placed by a guess ({', '.join(DOUBTFUL_STAGES)}).",
            "Off the tree: asserts something that the tree lacks. Abstained: declines, denies or says nothing.",
        ),
    )


def _scores_table(found: Diagnosis, taxonomy: Taxonomy) -> Table:
    from taxtune.metrics.names import metric_name
    from taxtune.report.scores import interval

    targets = [one["target"] for one in found.answers]
    return Table(
        "scores",
        "All scores",
        ("score", "mean", "95 % interval"),
        tuple((metric_name(key), one.estimate, interval(one, key)) for key, one in found.intervals.items()),
        notes=(
            f"The targets are at depth {taxonomy.depth[targets].mean():.2f} and hold "
            f"{found.information.content[targets].mean():.2f} bits on average ({found.information.counted}).",
            "ihP and ihR: hP and hR with each node weighted by the information it adds. Remaining uncertainty: bits of "
            "the truth that are not said. Misinformation: wrong bits that are said.",
        ),
    )


def _ranks_table(found: Diagnosis) -> Table:
    from taxtune.report.scores import interval

    def cells(share: Interval | None) -> tuple[Cell, Cell]:
        return (None, None) if share is None else (share.estimate, interval(share))

    return Table(
        "ranks",
        "Precision and recall at each rank",
        ("rank", "said", "precision", "precision interval", "to be said", "recall", "recall interval"),
        tuple(
            (row.scores.rank, row.scores.said, *cells(row.precision), row.scores.due, *cells(row.recall))
            for row in found.ranks
        ),
        notes=(
            "Precision: how often what is said at a rank is right. Recall: how often what should be said at a rank is "
            "said. An answer says its node and all ancestors.",
        ),
    )


def _clades_table(found: Diagnosis, taxonomy: Taxonomy) -> Table:
    rows = tuple(
        (
            node_name(taxonomy, clade.node),
            rank_of(taxonomy, clade.node),
            clade.count,
            clade.hp,
            clade.hr,
            clade.hp_cost,
            "" if clade.worst is None else f"{clade.worst} ({clade.worst_count:,})",
        )
        for clade in found.clades
    )
    return Table(
        "clades",
        "The clades that cost most hP",
        ("clade", "rank", "answers", "hP", "hR", "cost in hP", "most often"),
        rows,
        notes=(
            "By target. A clade is listed unless a single clade below it explains 90 % of its loss."
            if rows
            else "None: no clade with at least --least answers lowers hP.",
        ),
    )


def _examples_table(found: Diagnosis, taxonomy: Taxonomy, most: int) -> Table:
    """Of each type, and of the wrong branches of each rank: the costliest first, each target once."""
    rows: list[tuple[Cell, ...]] = []
    ordered = sorted(found.answers, key=lambda one: float(one["hp"] + one["hr"]))
    for cost in found.costs:
        chosen: dict[int, dict[str, Any]] = {}
        for one in ordered:
            if one["type"] == cost.type and len(chosen) < most:
                chosen.setdefault(one["target"], one)
        for one in chosen.values():
            said = " ".join(one["answer"].split())
            said = said if len(said) <= _SHOWN else said[: _SHOWN - 1] + "…"
            nodes = (node_name(taxonomy, one["target"]), node_name(taxonomy, one["node"]))
            rows.append((one["type"], said, *nodes, one["hp"], one["hr"], one["id"]))
    columns = ("type", "answer", "truth", "placement", "hP", "hR", "id")
    return Table("examples", "Examples of each type", columns, tuple(rows))
