"""What goes wrong, where on the tree, and what it costs: one frame with a row per answer, and tables made from it.

Whether a wrong answer names something else that its image shows is paper 2's check by a tagging model: the tags come
from a file, and an inclusion measure says which of them an answer names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from taxtune.answers import AnswerTable, read_records
from taxtune.answers.read import excluded_records
from taxtune.answers.scores import as_child, mean_interval
from taxtune.answers.targets import make_information
from taxtune.errors import DataError
from taxtune.mapping.config import GUESSED
from taxtune.metrics.diagnosis import (
    COUNTERPARTS,
    ErrorType,
    MeasuredType,
    classify,
    classify_by_measures,
    costs,
    worst_regions,
    wrong_from,
)
from taxtune.metrics.hierarchical import HierarchicalScores, precision_recall, score
from taxtune.metrics.information import Information, information_values
from taxtune.metrics.names import metric_name
from taxtune.metrics.ranks import RankIntervals, bootstrap_ranks, rank_of
from taxtune.metrics.registry import Measure
from taxtune.metrics.statistics import (
    INFORMATION_METRICS,
    Interval,
    bootstrap,
    hierarchical_sample,
    information_sample,
)
from taxtune.report.output import Cell, StudyReport, Table, node_name
from taxtune.report.scores import interval
from taxtune.studies.contestants import (
    check_measures,
    measure_notes,
    place_texts,
    question_of,
    text_scores,
)
from taxtune.studies.diagnosis.settings import DiagnosisSettings
from taxtune.studies.output import both_trees_table, draw_dots, frame_table
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.mapping import Mapper

__all__ = ["run"]

_BITS = ("ihp", "ihr", "remaining_uncertainty", "misinformation")
_OUTPUT = [
    "id",
    "answer",
    "truth",
    "placement",
    "stage",
    "type",
    "hp",
    "hr",
    *_BITS,
    "measured",
    "tags",
    "named",
]
_COSTS = {"type": "type", "count": "answers", "share": "%", "hp": "hP", "hr": "hR"}


def run(settings: DiagnosisSettings) -> StudyReport:
    """Print error types with counts and costs in hP and hR, all scores, also by rank, worst clades and examples.

    With --inclusion and --concept also paper 2's error types, and with --tags its check for images of several labels.

    Raises:
        TaxtuneError: If a file cannot be used, or a measure does not exist or lacks something.
    """
    taxonomy, part = settings.read_tree()
    answers = settings.read_answers(settings.file, taxonomy, part)
    rows, column = answers.rows, settings.question_column
    information = make_information(
        taxonomy,
        settings.frequencies,
        smoothing=settings.smoothing,
        targets=[row.target for row in rows],
        part=part,
    )
    check_measures(list(settings.roles.values()), column)
    questions = [question_of(answers.file, row, column) for row in rows]
    tags, notes = (
        _read_tags(settings.tags, answers, settings.id_column) if settings.tags else (None, [])
    )
    mapper = settings.mapper(taxonomy)
    frame = _placed(mapper, answers).assign(question=questions)
    types = _add_types(taxonomy, frame, information)
    # One by one, as both may be the same measure.
    measures = {role: settings.measures([spec])[0] for role, spec in settings.roles.items()}
    scored, off_tree = (taxonomy, frame["node"], frame["target"]), frame["as_child"]
    draws: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    scores = score(*scored, off_tree=off_tree)
    by_type = costs(
        *scored, frame["type"].tolist(), off_tree=off_tree, order=_order(frame), **draws
    )
    intervals = bootstrap(
        hierarchical_sample(*scored, off_tree=off_tree),
        information_sample(information, frame["node"], frame["target"], off_tree=off_tree),
        **draws,
    )
    tables = [
        _costs_table(
            "types",
            "Error types and what they cost",
            by_type,
            scores,
            "A type's cost is how much its answers lower the mean over all answers, with 95 % bootstrap intervals; the "
            "costs add up to 1 − hP and 1 − hR.",
            "Wrong branch at a rank: the rank of the target's highest ancestor that the placement does not share.",
            f"Mapper doubtful: not correct, and placed by a guess ({', '.join(GUESSED)}).",
            "Off the tree: asserts something that the tree lacks. Abstained: declines, denies or says nothing.",
        ),
        _scores_table(taxonomy, frame, intervals, information),
        _ranks_table(bootstrap_ranks(*scored, off_tree=off_tree, **draws)),
        _clades_table(taxonomy, frame, settings.least),
        _examples_table(taxonomy, frame, by_type["type"].tolist(), settings.examples),
    ]
    figures = {"diagnosis": partial(draw_costs, by_type)}
    views: dict[str, list[Any]] = {"placement": types}
    data: dict[str, Any] = {}
    if "concept" in measures:
        values = [
            text_scores(frame, measure, taxonomy, settings.reference)
            for measure in measures.values()
        ]
        views["measures"] = measured = classify_by_measures(
            values[0], values[1], high=settings.high
        )
        frame["measured"] = [str(kind) for kind in measured]
        by_measure = costs(*scored, measured, off_tree=off_tree, order=list(MeasuredType), **draws)
        tables.append(
            _costs_table(
                "measured",
                "Paper 2's error types, from its measures, and what they cost",
                by_measure,
                scores,
                "Correct: included in the answer, and similar. Granularity error: similar, not included (right but too "
                "generic). Annotation ambiguity or multi-label: included, not similar. Fine-grained discrimination "
                "failure: neither (wrong but specific). Unscored answers are counted.",
            )
        )
        tables.append(_crossed_table(types, measured))
        figures["measured"] = partial(draw_costs, by_measure)
        data["measured_costs"] = by_measure.to_dict("records")
    if tags is not None:
        frame[["tags", "named", "hit"]] = _name_tags(measures["inclusion"], frame, tags)
        tables.append(_tags_table(frame, views, **draws))
    if part is not None:
        nodes = {"all": (frame["node"], frame["target"])}
        tables.append(both_trees_table(part, nodes, "answers of", off_tree={"all": off_tree}))
    shares = {name: float(frame[name].mean()) for name in ("abstained", "off_tree")}
    weighted = {key: one.estimate for key, one in intervals.items() if key in INFORMATION_METRICS}
    identities = {role: dict(measure.identity()) for role, measure in measures.items()}
    return StudyReport(
        study="diagnose",
        title="What goes wrong, where, and what it costs",
        settings={**settings.record(), "mapper": dict(mapper.identity()), **identities},
        tables=tuple(tables),
        figures=figures,
        notes=(*answers.notes, *notes, *measure_notes(measures.values())),
        data={
            "scores": {key: getattr(scores, key) for key in ("hp", "hr", "hf", "n")}
            | shares
            | weighted,
            "information": information.as_dict(),
            "costs": by_type.to_dict("records"),
            **data,
            "answers": frame[[column for column in _OUTPUT if column in frame]].to_dict("records"),
            "excluded": excluded_records([answers]),
        },
    )


def _placed(mapper: Mapper, answers: AnswerTable) -> pd.DataFrame:
    """A row per answer: id, answer, target, node, stage, abstained, off_tree and as_child."""
    texts = [row.answer or "" for row in answers.rows]
    placed = place_texts(mapper, texts)
    placements = [placed[text] for text in texts]
    frame = pd.DataFrame(
        [(one.answer, one.node, str(one.stage), one.abstained, one.off_tree) for one in placements],
        columns=["answer", "node", "stage", "abstained", "off_tree"],
    )
    frame["id"], frame["target"] = (
        [row.id for row in answers.rows],
        [row.target for row in answers.rows],
    )
    return frame.assign(as_child=as_child(mapper, placements))


def _add_types(
    taxonomy: Taxonomy, frame: pd.DataFrame, information: Information
) -> list[ErrorType]:
    """Adds to each answer its paths, scores and type, a wrong branch with its rank; returns the types without ranks."""
    nodes, targets = frame["node"], frame["target"]
    types = classify(
        taxonomy,
        nodes,
        targets,
        abstained=frame["abstained"],
        off_tree=frame["off_tree"],
        doubtful=frame["stage"].isin(GUESSED),
    )
    paths = {node: "/".join(taxonomy.path(node)) for node in {*nodes, *targets}}
    frame["truth"], frame["placement"] = targets.map(paths), nodes.map(paths)
    frame["kind"], frame["shared"] = types, taxonomy.shared(nodes.to_numpy(), targets.to_numpy())
    frame["type"] = [
        f"{kind} at {rank}" if kind is ErrorType.WRONG_BRANCH else str(kind)
        for kind, rank in zip(types, wrong_from(taxonomy, nodes, targets), strict=True)
    ]
    frame["hp"], frame["hr"] = precision_recall(
        taxonomy, nodes, targets, off_tree=frame["as_child"]
    )
    for name, values in zip(
        _BITS,
        information_values(information, nodes, targets, off_tree=frame["as_child"]),
        strict=True,
    ):
        frame[name] = values
    return types


def _order(frame: pd.DataFrame) -> list[str]:
    """All types in the order of `ErrorType`, wrong branches from the root down."""
    wrong = frame[frame["kind"] == ErrorType.WRONG_BRANCH].groupby("type")["shared"].min()
    branches = sorted(wrong.index, key=lambda name: (wrong[name], name)) or [
        str(ErrorType.WRONG_BRANCH)
    ]
    return [
        name
        for kind in ErrorType
        for name in (branches if kind is ErrorType.WRONG_BRANCH else [str(kind)])
    ]


# -- the tables -------------------------------------------------------------------------------------------------------


def _costs_table(
    name: str, title: str, by_type: pd.DataFrame, scores: HierarchicalScores, *notes: str
) -> Table:
    """How often each type occurs and what it costs, and all of them together."""
    cells = by_type.assign(share=100 * by_type["share"])[[*_COSTS]].rename(columns=_COSTS)
    total: dict[str, Any] = {
        "type": "all",
        "answers": scores.n,
        "%": 100.0,
        "hP": scores.hp,
        "hR": scores.hr,
    }
    for metric, shown in (("hp", "hP"), ("hr", "hR")):
        ends = zip(by_type[f"{metric}_low"], by_type[f"{metric}_high"], strict=True)
        cells[f"cost in {shown}"] = by_type[f"{metric}_cost"]
        cells[f"{shown} interval"] = [f"{low:.3f} to {high:.3f}" for low, high in ends]
        total |= {f"cost in {shown}": 1 - getattr(scores, metric), f"{shown} interval": ""}
    return frame_table(
        name, title, pd.concat([cells, pd.DataFrame([total])]), *notes, digits={"%": 1}
    )


def _crossed_table(types: list[ErrorType], measured: list[MeasuredType]) -> Table:
    cells = pd.crosstab(pd.Series(types, name="by placement"), pd.Series(measured))
    cells = cells.reindex(index=list(ErrorType), columns=list(MeasuredType), fill_value=0)
    shares = 100 * cells.div(cells.sum(axis=1), axis=0)
    cells["counterpart"] = cells.index.map(COUNTERPARTS)
    cells["in it, %"] = pd.Series({kind: shares[twin][kind] for kind, twin in COUNTERPARTS.items()})
    return frame_table(
        "types-crossed",
        "What the tree says (rows) and what paper 2's two measures say (columns)",
        cells.reset_index(),
        "Counterpart: paper 2's type that means the same. Abstentions, and what is finer than the label, have none; "
        "nor does paper 2's ambiguity among ours, since a target is one node (see --tags).",
        digits={"in it, %": 1},
    )


def _scores_table(
    taxonomy: Taxonomy,
    frame: pd.DataFrame,
    intervals: dict[str, Interval],
    information: Information,
) -> Table:
    targets = frame["target"].to_numpy()
    return Table(
        "scores",
        "All scores",
        ("score", "mean", "95 % interval"),
        tuple(
            (metric_name(key), one.estimate, interval(one, key)) for key, one in intervals.items()
        ),
        notes=(
            f"The targets are at depth {taxonomy.depth[targets].mean():.2f} and hold "
            f"{information.content[targets].mean():.2f} bits on average ({information.counted}).",
            "ihP and ihR: hP and hR with each node weighted by the information it adds. Remaining uncertainty: bits of "
            "the truth that are not said. Misinformation: wrong bits that are said.",
        ),
    )


def _ranks_table(ranks: list[RankIntervals]) -> Table:
    def cells(n: int, share: Interval | None) -> tuple[Cell, ...]:
        return (n, None, None) if share is None else (n, share.estimate, interval(share))

    rows = tuple(
        (
            one.scores.rank,
            *cells(one.scores.n_predicted, one.precision),
            *cells(one.scores.n_relevant, one.recall),
        )
        for one in ranks
    )
    return Table(
        "ranks",
        "Precision and recall at each rank",
        (
            "rank",
            "predicted",
            "precision",
            "precision interval",
            "relevant",
            "recall",
            "recall interval",
        ),
        rows,
        notes=(
            "Precision: how often what is said at a rank is right. Recall: how often what should be said at a rank is "
            "said. An answer says its node and all ancestors.",
        ),
    )


def _clades_table(taxonomy: Taxonomy, frame: pd.DataFrame, least: int) -> Table:
    scored = (taxonomy, frame["node"], frame["target"], frame["type"].tolist())
    worst = worst_regions(*scored, off_tree=frame["as_child"], least=least)
    cells = pd.DataFrame({"clade": [node_name(taxonomy, node) for node in worst["node"]]})
    cells["rank"] = [rank_of(taxonomy, node) for node in worst["node"]]
    cells[["answers", "hP", "hR", "cost in hP"]] = worst[["count", "hp", "hr", "hp_cost"]]
    cells["most often"] = [
        f"{kind} ({n:,})" for kind, n in zip(worst["worst"], worst["worst_count"], strict=True)
    ]
    note = "By target. A clade is listed unless a single clade below it explains 90 % of its loss."
    none = "None: no clade with at least --least answers lowers hP."
    return frame_table(
        "clades", "The clades that cost most hP", cells, none if cells.empty else note
    )


def _examples_table(taxonomy: Taxonomy, frame: pd.DataFrame, order: list[str], most: int) -> Table:
    """Of each type, and of the wrong branches of each rank: the costliest first, each target once."""
    costly = frame.assign(sum=frame["hp"] + frame["hr"]).sort_values("sum", kind="stable")
    chosen = costly.drop_duplicates(["type", "target"]).groupby("type").head(most)
    chosen = chosen.sort_values("type", key=lambda types: types.map(order.index), kind="stable")
    cells = chosen[["type", "answer", "target", "node", "hp", "hr", "id"]].copy()
    answers = cells["answer"].map(lambda text: " ".join(text.split()))
    cells["answer"] = [text if len(text) <= 160 else text[:159] + "…" for text in answers]
    for column in ("target", "node"):
        cells[column] = [node_name(taxonomy, node) for node in cells[column]]
    shown = {"target": "truth", "node": "placement", "hp": "hP", "hr": "hR"}
    return frame_table("examples", "Examples of each type", cells.rename(columns=shown))


# -- tags --------------------------------------------------------------------------------------------------------------


def _read_tags(
    path: str, answers: AnswerTable, id_column: str
) -> tuple[list[list[str] | None], list[str]]:
    """The tags of each answer's image, None where it was not tagged, and notes on the file.

    Rows are found by the answers' column of ids, or else by "image". The column "tags" holds a list (in CSV a JSON
    list), or a text with commas, semicolons, bars or line breaks between tags; an empty cell is an image without tags.
    """
    numbers, records = zip(*read_records(path, what="tags"), strict=True)
    table = pd.DataFrame(records)
    key = id_column if id_column in table else "image"
    for column in (key, "tags"):
        if column not in table:
            remedy = "Give each row the id, or the image, of an answer, and its tags."
            raise DataError(
                f"The tags have no column {column!r}.", file=path, value=list(table), remedy=remedy
            )
    ids = table[key].map(lambda cell: "" if cell is None or cell != cell else str(cell))
    bad = (ids.eq("") | ids.duplicated()).to_numpy()
    if bad.any():
        i = int(bad.argmax())
        message = f"The row has no {key}, or that of an earlier row."
        raise DataError(message, file=path, row=numbers[i], value=ids.iloc[i])
    tags: dict[str, list[str] | None] = {}
    for row, name, cell in zip(numbers, ids, table["tags"], strict=True):
        try:
            tags[name] = _split(cell)
        except (ValueError, RecursionError):
            raise DataError(
                "The list of tags is not JSON.", file=path, row=row, value=cell
            ) from None
    wanted = [str(row.fields.get(key, row.id)) for row in answers.rows]
    if tags.keys().isdisjoint(wanted):
        value = f"{wanted[0]!r} among the answers, {next(iter(tags))!r} among the tags"
        remedy = "Give the tags of the same images."
        raise DataError(
            f"No answer has the {key} of a row of tags.", file=path, value=value, remedy=remedy
        )
    surplus = len(tags.keys() - set(wanted))
    notes = (
        [f"{path}: {surplus:,} of {len(tags):,} rows of tags belong to no answer"]
        if surplus
        else []
    )
    return [tags.get(name) for name in wanted], notes


def _split(cell: object) -> list[str] | None:
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = json.loads(cell)
    if isinstance(cell, str) and cell.strip():
        cell = re.split(r"[,;|\n]", cell)
    if not isinstance(cell, list):
        return None
    return list(dict.fromkeys(tag for tag in (str(part).strip() for part in cell) if tag))


def _name_tags(measure: Measure, frame: pd.DataFrame, tags: Sequence[Any]) -> pd.DataFrame:
    """The tags of each answer's image, those that it names, and whether it names any (hit).

    `hit` is NaN where the image was not tagged, or a verdict that might have found a tag is missing.
    """
    tagged = frame[["answer", "question"]].assign(tags=pd.Series(tags, dtype=object))
    pairs = tagged.explode("tags").dropna(subset="tags")
    verdicts = pd.Series(np.nan, pairs.index)
    if len(pairs):
        asked = pairs["question"].tolist() if measure.needs_questions else None
        verdicts[:] = measure.scores(
            pairs["answer"].tolist(), pairs["tags"].tolist(), questions=asked
        )
    named = pairs.loc[verdicts >= 0.5, "tags"].groupby(level=0).agg(list)
    names: list[Any] = [named.get(i, None if some is None else []) for i, some in enumerate(tags)]
    tagged["named"] = names
    unscored = tagged.index.isin(verdicts.index[verdicts.isna()]) & ~tagged.index.isin(named.index)
    tagged["hit"] = (
        tagged["named"]
        .map(lambda some: np.nan if some is None else float(bool(some)))
        .mask(unscored)
    )
    return tagged[["tags", "named", "hit"]]


def _tags_table(
    frame: pd.DataFrame, views: dict[str, list[Any]], *, resamples: int, seed: int
) -> Table:
    """The share of the answers of each type, by each source of types, that name a tag of their image."""
    rows: list[tuple[Any, ...]] = []
    for view, types in views.items():
        of_answer = np.array([str(kind) for kind in types])
        members = {str(kind): [str(kind)] for kind in type(types[0]) if kind != "unscored"}
        for name, kinds in {
            **members,
            "all wrong": [kind for kind in members if kind != "correct"],
        }.items():
            here = frame[np.isin(of_answer, kinds)]
            tagged = here.loc[here["tags"].notna(), "hit"]
            counts = (len(here), len(tagged), int(tagged.isna().sum()), int((tagged == 1).sum()))
            share = mean_interval(tagged, resamples=resamples, seed=seed)
            ends = share and (
                100 * share.estimate,
                f"{100 * share.low:.1f} to {100 * share.high:.1f}",
            )
            rows.append((view, name, *counts, *(ends or (None, None))))
    columns = ["by", "type", "answers", "tagged", "unscored", "name a tag", "%", "95 %"]
    return frame_table(
        "tags",
        "Answers that name something a tag says is in the image",
        pd.DataFrame(rows, columns=columns),
        "Of the tagged and scored answers, with a 95 % bootstrap interval. An answer names a tag where the inclusion "
        "measure says so. A wrong one that does may be right about an image with several labels, or merely too "
        "general. The share of correct answers shows how many of the labels are among the tags.",
        digits={"%": 1},
    )


# -- the figure --------------------------------------------------------------------------------------------------------


def draw_costs(costs: pd.DataFrame) -> Figure:
    """Draws the cost of each type in hP and hR with intervals, and how many answers are of the type.

    Args:
        costs: A row per type: type, count, and for hp and hr the cost and its low and high end.
    """
    names = [
        f"{kind} ({count:,})" for kind, count in zip(costs["type"], costs["count"], strict=True)
    ]
    parts = []
    for metric, shown in (("hp", "hP"), ("hr", "hR")):
        part = costs[[f"{metric}_cost", f"{metric}_low", f"{metric}_high"]].set_axis(
            ["estimate", "low", "high"], axis=1
        )
        parts.append(
            part.assign(
                panel="", name=names, series=f"cost in {shown} (sum {part['estimate'].sum():.3f})"
            )
        )
    return draw_dots(pd.concat(parts), "taken from the mean over all answers", zero=True)
