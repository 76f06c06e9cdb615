"""What goes wrong, where on the tree, and what it costs: the report of `taxtune diagnose`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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
from taxtune.metrics.hierarchical import precision_recall, score
from taxtune.metrics.information import Information, information_values, leaf_information
from taxtune.metrics.ranks import RankIntervals, bootstrap_ranks, rank_of
from taxtune.metrics.statistics import (
    INFORMATION_METRICS,
    Interval,
    bootstrap,
    hierarchical_sample,
    information_sample,
)
from taxtune.studies.output import Cell, StudyReport, Table

if TYPE_CHECKING:
    from taxtune.mapping import Placement
    from taxtune.taxonomy import Taxonomy

__all__ = ["DOUBTFUL_STAGES", "Diagnosis", "diagnose", "report_of"]

#: Stages of the mapper that guess where nothing on the tree is named in so many words.
DOUBTFUL_STAGES = ("ngram", "vote", "similarity")

_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The types of a set of answers, and what they cost.

    Attributes:
        types: The type of each answer.
        kinds: The same as text, wrong branches with the rank where they leave the right path.
        costs: The kinds with counts and costs; wrong branches from the root down.
        clades: The clades that cost most.
        hp: Mean hP.
        hr: Mean hR.
        hf: hF.
        n: Number of answers.
        abstained: Share of the answers that decline or say nothing.
        off_tree: Share of the answers that assert something that the tree lacks.
        as_child: Which answers are scored as a child of the root that is never right.
        intervals: Every score with its 95 % bootstrap interval.
        ranks: Precision and recall at each rank, the broadest first.
        information: What the nodes weigh.
    """

    types: tuple[ErrorType, ...]
    kinds: tuple[str, ...]
    costs: tuple[TypeCost, ...]
    clades: tuple[Clade, ...]
    hp: float
    hr: float
    hf: float
    n: int
    abstained: float
    off_tree: float
    as_child: tuple[bool, ...]
    intervals: dict[str, Interval]
    ranks: tuple[RankIntervals, ...]
    information: Information


def diagnose(
    taxonomy: Taxonomy,
    placements: Sequence[Placement],
    target: Sequence[int],
    *,
    as_child: Sequence[bool] | NDArray[np.bool_] | None = None,
    information: Information | None = None,
    least: int = 5,
    clades: int = 10,
    resamples: int = 2000,
    seed: int = 0,
) -> Diagnosis:
    """Returns what goes wrong in a set of placed answers.

    Args:
        taxonomy: The tree.
        placements: Where each answer was placed; n of them, n ≥ 1.
        target: Their target nodes.
        as_child: Which are scored as a child of the root that is never right; left out, those that are off the tree.
        information: What the nodes weigh; by their share of leaves where left out.
        least: Fewest answers of a clade that is listed.
        clades: How many clades to list at most.
        resamples: Bootstrap resamples for the intervals.
        seed: Their seed.

    Raises:
        ValueError: If there is no answer, or lengths differ.
    """
    nodes = [placement.node for placement in placements]
    silent, off = [p.abstained for p in placements], [p.off_tree for p in placements]
    scored = [bool(flag) for flag in (off if as_child is None else as_child)]
    types = classify(
        taxonomy,
        nodes,
        list(target),
        abstained=silent,
        off_tree=off,
        doubtful=[str(placement.stage) in DOUBTFUL_STAGES for placement in placements],
    )
    kinds, order = _refined(taxonomy, nodes, list(target), types)
    scores = score(taxonomy, nodes, list(target), off_tree=scored)
    weights = information or leaf_information(taxonomy)
    drawn: dict[str, Any] = {"resamples": resamples, "seed": seed}
    return Diagnosis(
        types=tuple(types),
        kinds=tuple(kinds),
        costs=tuple(costs(taxonomy, nodes, list(target), kinds, off_tree=scored, order=order, **drawn)),
        clades=tuple(worst_clades(taxonomy, nodes, list(target), kinds, off_tree=scored, least=least, most=clades)),
        hp=scores.hp,
        hr=scores.hr,
        hf=scores.hf,
        n=scores.n,
        abstained=float(np.mean(silent)),
        off_tree=float(np.mean(off)),
        as_child=tuple(scored),
        intervals=bootstrap(
            hierarchical_sample(taxonomy, nodes, list(target), off_tree=scored),
            information_sample(weights, nodes, list(target), off_tree=scored),
            **drawn,
        ),
        ranks=tuple(bootstrap_ranks(taxonomy, nodes, list(target), off_tree=scored, **drawn)),
        information=weights,
    )


def _refined(
    taxonomy: Taxonomy, nodes: list[int], target: list[int], types: Sequence[ErrorType]
) -> tuple[list[str], list[str]]:
    """Returns the types with the rank of each wrong branch, and the order in which to list them."""
    shared = taxonomy.shared(nodes, target).tolist()
    kinds: list[str] = []
    level: dict[str, int] = {}
    for kind, rank, common in zip(types, wrong_from(taxonomy, nodes, target), shared, strict=True):
        name = f"{kind} at {rank}" if kind is ErrorType.WRONG_BRANCH else str(kind)
        kinds.append(name)
        if kind is ErrorType.WRONG_BRANCH:
            level[name] = min(common, level.get(name, common))
    branches = sorted(level, key=lambda name: (level[name], name)) or [str(ErrorType.WRONG_BRANCH)]
    order = [name for kind in ErrorType for name in (branches if kind is ErrorType.WRONG_BRANCH else [str(kind)])]
    return kinds, order


# -- the report --------------------------------------------------------------------------------------------------------


def report_of(
    diagnosis: Diagnosis,
    taxonomy: Taxonomy,
    placements: Sequence[Placement],
    target: Sequence[int],
    ids: Sequence[str],
    *,
    settings: Mapping[str, Any],
    notes: Sequence[str] = (),
    examples: int = 3,
    clades: bool = True,
    measured: Sequence[MeasuredType] | None = None,
) -> StudyReport:
    """Returns tables, figure and records of a diagnosis.

    Args:
        diagnosis: The diagnosis.
        taxonomy: The tree.
        placements: The placements that it is of.
        target: Their targets.
        ids: What identifies each answer.
        settings: What is needed to run it again.
        notes: Exclusions with their counts.
        examples: Answers to show of each type, and of the wrong branches of each rank, the costliest first and each
            target once.
        clades: Whether to show the clades.
        measured: What two measures say of each answer, where they were asked.
    """
    from taxtune.studies.diagnosis.figure import draw_diagnosis, draw_ranks

    tables = [_types_table(diagnosis), _scores_table(diagnosis, taxonomy, target), _ranks_table(diagnosis)]
    if clades:
        tables.append(_clades_table(diagnosis, taxonomy))
    if examples:
        tables.append(_examples_table(diagnosis, taxonomy, placements, target, ids, examples))
    if measured is not None:
        tables.append(_measured_table(diagnosis, measured))
    return StudyReport(
        study="diagnose",
        title="What goes wrong, where, and what it costs",
        settings=settings,
        tables=tuple(tables),
        figures={"diagnosis": lambda: draw_diagnosis(diagnosis), "ranks": lambda: draw_ranks(diagnosis)},
        notes=tuple(notes),
        data={
            "scores": {"hp": diagnosis.hp, "hr": diagnosis.hr, "hf": diagnosis.hf, "n": diagnosis.n}
            | {"abstained": diagnosis.abstained, "off_tree": diagnosis.off_tree}
            | {key: found.estimate for key, found in diagnosis.intervals.items() if key in INFORMATION_METRICS},
            "information": diagnosis.information.as_dict(),
            "costs": [asdict(cost) for cost in diagnosis.costs],
            "answers": _records(diagnosis, taxonomy, placements, target, ids, measured),
        },
    )


def _types_table(diagnosis: Diagnosis) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            cost.type,
            cost.count,
            100 * cost.share,
            cost.hp,
            cost.hr,
            cost.hp_cost,
            f"{cost.hp_low:.3f} to {cost.hp_high:.3f}",
            cost.hr_cost,
            f"{cost.hr_low:.3f} to {cost.hr_high:.3f}",
        )
        for cost in diagnosis.costs
    ]
    rows.append(("all", diagnosis.n, 100.0, diagnosis.hp, diagnosis.hr, 1 - diagnosis.hp, "", 1 - diagnosis.hr, ""))
    return Table(
        "types",
        "Error types and what they cost",
        ("type", "answers", "%", "hP", "hR", "cost in hP", "hP interval", "cost in hR", "hR interval"),
        tuple(rows),
        digits={"%": 1},
        notes=(
            "A type's cost is what its answers take from the mean over all answers, with 95 % bootstrap intervals; the "
            "costs add up to 1 − hP and 1 − hR.",
            "Wrong branch at a rank: that of the target's first ancestor that the placement does not share.",
            f"Mapper doubtful: not correct, and placed by a guess ({', '.join(DOUBTFUL_STAGES)}).",
            "Off the tree: asserts something that the tree lacks; abstained: declines, denies or says nothing.",
        ),
    )


def _scores_table(diagnosis: Diagnosis, taxonomy: Taxonomy, target: Sequence[int]) -> Table:
    from taxtune.report.wording import interval, metric_name

    weights = diagnosis.information
    return Table(
        "scores",
        "All scores",
        ("score", "mean", "95 % interval"),
        tuple((metric_name(key), found.estimate, interval(found, key)) for key, found in diagnosis.intervals.items()),
        notes=(
            f"The targets are at depth {taxonomy.depth[list(target)].mean():.2f} and hold "
            f"{weights.content[list(target)].mean():.2f} bits on average ({weights.counted}).",
            "ihP and ihR: hP and hR with nodes that weigh what they add in information. Remaining uncertainty: bits of "
            "the truth that are not said; misinformation: bits said that are wrong.",
        ),
    )


def _ranks_table(diagnosis: Diagnosis) -> Table:
    from taxtune.report.wording import interval

    def cells(found: Interval | None) -> tuple[Cell, Cell]:
        return (None, None) if found is None else (found.estimate, interval(found))

    return Table(
        "ranks",
        "Precision and recall at each rank",
        ("rank", "said", "precision", "precision interval", "to be said", "recall", "recall interval"),
        tuple(
            (row.scores.rank, row.scores.said, *cells(row.precision), row.scores.due, *cells(row.recall))
            for row in diagnosis.ranks
        ),
        notes=(
            "Precision: how often what is said at a rank is right. Recall: how often what should be said there is. An "
            "answer says its node and all above it.",
        ),
    )


def _clades_table(diagnosis: Diagnosis, taxonomy: Taxonomy) -> Table:
    rows = tuple(
        (
            _named(taxonomy, clade.node),
            rank_of(taxonomy, clade.node),
            clade.count,
            clade.hp,
            clade.hr,
            clade.hp_cost,
            "" if clade.worst is None else f"{clade.worst} ({clade.worst_count:,})",
        )
        for clade in diagnosis.clades
    )
    return Table(
        "clades",
        "The clades that cost most hP",
        ("clade", "rank", "answers", "hP", "hR", "cost in hP", "most often"),
        rows,
        notes=(
            "By target. A clade is listed unless one clade below it explains 90 % of its loss."
            if rows
            else "None: no clade with as many answers as --least asks for takes anything from hP.",
        ),
    )


def _examples_table(
    diagnosis: Diagnosis,
    taxonomy: Taxonomy,
    placements: Sequence[Placement],
    target: Sequence[int],
    ids: Sequence[str],
    most: int,
) -> Table:
    nodes = [placement.node for placement in placements]
    hp, hr = precision_recall(taxonomy, nodes, list(target), off_tree=diagnosis.as_child)
    rows: list[tuple[Cell, ...]] = []
    # The costliest first; ties in file order.
    ordered = np.argsort(hp + hr, kind="stable").tolist()
    for cost in diagnosis.costs:
        chosen: dict[int, int] = {}
        for i in ordered:
            if diagnosis.kinds[i] == cost.type and target[i] not in chosen and len(chosen) < most:
                chosen[target[i]] = i
        for i in chosen.values():
            said = " ".join(placements[i].answer.split())
            rows.append(
                (
                    diagnosis.kinds[i],
                    said if len(said) <= _SHOWN else said[: _SHOWN - 1] + "…",
                    _named(taxonomy, target[i]),
                    _named(taxonomy, placements[i].node),
                    float(hp[i]),
                    float(hr[i]),
                    ids[i],
                )
            )
    return Table(
        "examples", "Examples of each type", ("type", "answer", "target", "placed on", "hP", "hR", "id"), tuple(rows)
    )


def _measured_table(diagnosis: Diagnosis, measured: Sequence[MeasuredType]) -> Table:
    columns = list(MeasuredType)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            str(kind),
            *(
                sum(a is kind and b is column for a, b in zip(diagnosis.types, measured, strict=True))
                for column in columns
            ),
        )
        for kind in ErrorType
    )
    return Table(
        "measured",
        "What the tree says (rows) and what two measures say (columns)",
        ("by placement", *map(str, columns)),
        rows,
        notes=("An inclusion verdict with a concept similarity, as paper 2 reads them; unscored answers are counted.",),
    )


def _records(
    diagnosis: Diagnosis,
    taxonomy: Taxonomy,
    placements: Sequence[Placement],
    target: Sequence[int],
    ids: Sequence[str],
    measured: Sequence[MeasuredType] | None,
) -> list[dict[str, Any]]:
    nodes = [placement.node for placement in placements]
    hp, hr = precision_recall(taxonomy, nodes, list(target), off_tree=diagnosis.as_child)
    bits = information_values(diagnosis.information, nodes, list(target), off_tree=diagnosis.as_child)
    named = dict(zip(("ihp", "ihr", "remaining_uncertainty", "misinformation"), bits, strict=True))
    return [
        {
            "id": ids[i],
            "answer": placement.answer,
            "target": "/".join(taxonomy.path(target[i])),
            "placed": "/".join(taxonomy.path(placement.node)),
            "stage": str(placement.stage),
            "type": diagnosis.kinds[i],
            "hp": float(hp[i]),
            "hr": float(hr[i]),
            **{key: float(values[i]) for key, values in named.items()},
            **({} if measured is None else {"measured": str(measured[i])}),
        }
        for i, placement in enumerate(placements)
    ]


def _named(taxonomy: Taxonomy, node: int) -> str:
    """Returns a node's label, with its common name where it has another."""
    label, common = taxonomy.labels[node], taxonomy.common_name(node)
    return label if common == label else f"{label} ({common})"
