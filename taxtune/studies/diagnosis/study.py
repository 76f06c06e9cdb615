"""What goes wrong, where on the tree, and what it costs: one frame with a row per answer, and tables made from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import pandas as pd

from taxtune.answers import AnswerTable
from taxtune.answers.frequencies import make_information
from taxtune.answers.matching import excluded_records
from taxtune.answers.scores import as_child
from taxtune.errors import DataError
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
from taxtune.metrics.ranks import bootstrap_ranks, rank_of
from taxtune.metrics.registry import Measure, name_scores
from taxtune.metrics.statistics import (
    INFORMATION_METRICS,
    Interval,
    bootstrap,
    hierarchical_sample,
    information_sample,
)
from taxtune.report.output import StudyReport, Table, node_name
from taxtune.report.scores import interval
from taxtune.studies.diagnosis.figure import draw_costs, draw_ranks
from taxtune.studies.diagnosis.settings import DiagnosisSettings
from taxtune.studies.diagnosis.tags import read_tags, tagged, tags_table
from taxtune.studies.output import both_trees_table, frame_table
from taxtune.studies.scoring import measure_notes, place_texts, target_names
from taxtune.studies.settings import needs_of
from taxtune.taxonomy import Taxonomy

__all__ = ["DOUBTFUL_STAGES", "diagnosis"]

#: Stages of the mapper that guess where nothing on the tree is named in so many words.
DOUBTFUL_STAGES = ("ngram", "vote", "similarity")

_BITS = ("ihp", "ihr", "remaining_uncertainty", "misinformation")
_OUTPUT = ["id", "answer", "truth", "placement", "stage", "type", "hp", "hr", *_BITS, "measured", "tags", "named"]
_COSTS = {"type": "type", "count": "answers", "share": "%", "hp": "hP", "hr": "hR"}


def diagnosis(settings: DiagnosisSettings) -> StudyReport:
    """Places the answers, diagnoses them and returns the report; see `taxtune.studies.diagnosis.run`."""
    taxonomy, part = settings.read_tree()
    answers = settings.read_answers(settings.file, taxonomy, part)
    targets = [row.target for row in answers.rows]
    information = make_information(
        taxonomy, settings.frequencies, smoothing=settings.smoothing, targets=targets, part=part
    )
    for spec in settings.asked:  # what a measure lacks is said before a model is loaded
        _questions(answers, spec, settings)
    tags, notes = read_tags(settings.tags, answers, settings.id_column) if settings.tags else (None, [])
    mapper = settings.mapper(taxonomy)
    texts = [row.answer or "" for row in answers.rows]
    placed = place_texts(mapper, texts)
    placements = [placed[text] for text in texts]
    frame = pd.DataFrame(
        {
            "id": [row.id for row in answers.rows],
            "answer": [placement.answer for placement in placements],
            "target": targets,
            "node": [placement.node for placement in placements],
            "stage": [str(placement.stage) for placement in placements],
            "abstained": [placement.abstained for placement in placements],
            "off_tree": [placement.off_tree for placement in placements],
            "as_child": as_child(mapper, placements),
        }
    )
    types = _add_types(taxonomy, frame, information)
    # One by one, as both may be the same measure.
    specs = settings.asked or (("text-inclusion",) if settings.tags else ())
    roles = ("inclusion", "concept")[: len(specs)]
    measures = {role: settings.measures([spec])[0] for role, spec in zip(roles, specs, strict=True)}
    questions = {role: _questions(answers, measure, settings) for role, measure in measures.items()}
    scored = (taxonomy, frame["node"], frame["target"])
    draws: dict[str, Any] = {"off_tree": frame["as_child"], "resamples": settings.resamples, "seed": settings.seed}
    scores = score(*scored, off_tree=frame["as_child"])
    by_type = pd.DataFrame(map(asdict, costs(*scored, frame["type"].tolist(), order=_order(frame), **draws)))
    ranks = bootstrap_ranks(*scored, **draws)
    intervals = bootstrap(
        hierarchical_sample(*scored, off_tree=frame["as_child"]),
        information_sample(information, frame["node"], frame["target"], off_tree=frame["as_child"]),
        resamples=settings.resamples,
        seed=settings.seed,
    )
    by_rank = pd.DataFrame(
        [(one.scores.rank, one.scores.n_predicted, one.precision, one.scores.n_relevant, one.recall) for one in ranks],
        columns=["rank", "predicted", "precision", "relevant", "recall"],
        dtype=object,
    )
    tables = [_types_table(by_type, scores), _scores_table(taxonomy, frame, intervals, information)]
    tables.append(_ranks_table(by_rank))
    if settings.clades:
        tables.append(_clades_table(taxonomy, frame, settings))
    if settings.examples:
        tables.append(_examples_table(taxonomy, frame, by_type["type"].tolist(), settings.examples))
    figures = {"diagnosis": partial(draw_costs, by_type), "ranks": partial(draw_ranks, by_rank)}
    views: dict[str, Sequence[str]] = {"placement": types}
    data: dict[str, Any] = {}
    if settings.asked:
        names = [target_names(taxonomy, target, settings.reference) for target in targets]
        values = [name_scores(measure, texts, names, questions=questions[role]) for role, measure in measures.items()]
        views["measures"] = measured = classify_by_measures(values[0], values[1], high=settings.high)
        frame["measured"] = [str(kind) for kind in measured]
        by_measure = pd.DataFrame(map(asdict, costs(*scored, measured, order=list(MeasuredType), **draws)))
        tables += [_measured_table(by_measure, scores), _crossed_table(types, measured)]
        figures["measured"] = partial(draw_costs, by_measure)
        data["measured_costs"] = by_measure.to_dict("records")
    if tags is not None:
        found = tagged(measures["inclusion"], texts, tags, questions["inclusion"])
        for key in ("tags", "named"):
            frame[key] = pd.Series([None if one is None else list(getattr(one, key)) for one in found], dtype=object)
        tables.append(tags_table(found, views, resamples=settings.resamples, seed=settings.seed))
    if part is not None:
        nodes = {"all": (frame["node"], frame["target"])}
        tables.append(both_trees_table(part, nodes, "answers of", off_tree={"all": frame["as_child"]}))
    shares = {name: float(frame[name].mean()) for name in ("abstained", "off_tree")}
    weighted = {key: one.estimate for key, one in intervals.items() if key in INFORMATION_METRICS}
    return StudyReport(
        study="diagnose",
        title="What goes wrong, where, and what it costs",
        settings={
            **settings.record(),
            "mapper": dict(mapper.identity()),
            **{role: dict(measure.identity()) for role, measure in measures.items()},
        },
        tables=tuple(tables),
        figures=figures,
        notes=(*answers.notes, *notes, *measure_notes(measures.values())),
        data={
            "scores": {key: getattr(scores, key) for key in ("hp", "hr", "hf", "n")} | shares | weighted,
            "information": information.as_dict(),
            "costs": by_type.to_dict("records"),
            **data,
            "answers": frame[[column for column in _OUTPUT if column in frame]].to_dict("records"),
            "excluded": excluded_records([answers]),
        },
    )


def _add_types(taxonomy: Taxonomy, frame: pd.DataFrame, information: Information) -> list[ErrorType]:
    """Adds to each answer its paths, scores and type, a wrong branch with its rank; returns the types without ranks."""
    nodes, targets = frame["node"], frame["target"]
    types = classify(
        taxonomy,
        nodes,
        targets,
        abstained=frame["abstained"],
        off_tree=frame["off_tree"],
        doubtful=frame["stage"].isin(DOUBTFUL_STAGES),
    )
    paths = {node: "/".join(taxonomy.path(node)) for node in {*nodes, *targets}}
    frame["truth"], frame["placement"] = targets.map(paths), nodes.map(paths)
    frame["kind"], frame["shared"] = types, taxonomy.shared(nodes.to_numpy(), targets.to_numpy())
    frame["type"] = [
        f"{kind} at {rank}" if kind is ErrorType.WRONG_BRANCH else str(kind)
        for kind, rank in zip(types, wrong_from(taxonomy, nodes, targets), strict=True)
    ]
    frame["hp"], frame["hr"] = precision_recall(taxonomy, nodes, targets, off_tree=frame["as_child"])
    for name, values in zip(
        _BITS, information_values(information, nodes, targets, off_tree=frame["as_child"]), strict=True
    ):
        frame[name] = values
    return types


def _order(frame: pd.DataFrame) -> list[str]:
    """All types in the order of `ErrorType`, wrong branches from the root down."""
    wrong = frame[frame["kind"] == ErrorType.WRONG_BRANCH].groupby("type")["shared"].min()
    branches = sorted(wrong.index, key=lambda name: (wrong[name], name)) or [str(ErrorType.WRONG_BRANCH)]
    return [name for kind in ErrorType for name in (branches if kind is ErrorType.WRONG_BRANCH else [str(kind)])]


def _questions(answers: AnswerTable, measure: str | Measure, settings: DiagnosisSettings) -> list[str] | None:
    """The prompt of each answer where a measure is a judge, else None.

    Raises:
        DataError: If it is not given, or a row has none.
    """
    if "question" not in needs_of(measure):
        return None
    column = settings.question_column
    if column is None:
        if settings.question is None or not settings.question.strip():
            raise DataError(
                f"The measure {measure if isinstance(measure, str) else measure.name} judges answers to a question.",
                remedy="Give the prompt with --question, or the column with the prompts with --question-column.",
            )
        return [settings.question] * len(answers.rows)
    for row in answers.rows:
        value = row.fields.get(column)
        if not isinstance(value, str) or not value.strip():
            raise DataError(f"The row has no {column}.", file=answers.file, row=row.row, value=value)
    return [row.fields[column] for row in answers.rows]


# -- the tables -------------------------------------------------------------------------------------------------------


def _cost_cells(by_type: pd.DataFrame, scores: HierarchicalScores) -> pd.DataFrame:
    """How often each type occurs and what it costs, and all of them together."""
    cells = by_type.assign(share=100 * by_type["share"])[[*_COSTS]].rename(columns=_COSTS)
    total: dict[str, Any] = {"type": "all", "answers": scores.n, "%": 100.0, "hP": scores.hp, "hR": scores.hr}
    for metric, shown in (("hp", "hP"), ("hr", "hR")):
        ends = zip(by_type[f"{metric}_low"], by_type[f"{metric}_high"], strict=True)
        cells[f"cost in {shown}"] = by_type[f"{metric}_cost"]
        cells[f"{shown} interval"] = [f"{low:.3f} to {high:.3f}" for low, high in ends]
        total |= {f"cost in {shown}": 1 - getattr(scores, metric), f"{shown} interval": ""}
    return pd.concat([cells, pd.DataFrame([total])])


def _types_table(by_type: pd.DataFrame, scores: HierarchicalScores) -> Table:
    return frame_table(
        "types",
        "Error types and what they cost",
        _cost_cells(by_type, scores),
        "A type's cost is how much its answers lower the mean over all answers, with 95 % bootstrap intervals; the "
        "costs add up to 1 − hP and 1 − hR.",
        "Wrong branch at a rank: the rank of the target's highest ancestor that the placement does not share.",
        f"Mapper doubtful: not correct, and placed by a guess ({', '.join(DOUBTFUL_STAGES)}).",
        "Off the tree: asserts something that the tree lacks. Abstained: declines, denies or says nothing.",
        digits={"%": 1},
    )


def _measured_table(by_measure: pd.DataFrame, scores: HierarchicalScores) -> Table:
    return frame_table(
        "measured",
        "Paper 2's error types, from its measures, and what they cost",
        _cost_cells(by_measure, scores),
        "Correct: included in the answer, and similar. Granularity error: similar, not included (right but too "
        "generic). Annotation ambiguity or multi-label: included, not similar. Fine-grained discrimination "
        "failure: neither (wrong but specific). Unscored answers are counted.",
        digits={"%": 1},
    )


def _crossed_table(types: Sequence[ErrorType], measured: Sequence[MeasuredType]) -> Table:
    met = pd.crosstab(pd.Series(types, name="kind"), pd.Series(measured, name="measured"))
    met = met.reindex(index=list(ErrorType), columns=list(MeasuredType), fill_value=0)
    rows: list[tuple[Any, ...]] = []
    for kind, counts in zip(ErrorType, met.itertuples(index=False, name=None), strict=True):
        twin = COUNTERPARTS.get(kind)
        agreed = None if twin is None or not sum(counts) else 100 * counts[list(MeasuredType).index(twin)] / sum(counts)
        rows.append((kind, *counts, twin, agreed))
    return Table(
        "types-crossed",
        "What the tree says (rows) and what paper 2's two measures say (columns)",
        ("by placement", *MeasuredType, "counterpart", "in it, %"),
        tuple(rows),
        {"in it, %": 1},
        (
            "Counterpart: paper 2's type that means the same. Abstentions, and what is finer than the label, have "
            "none; nor does paper 2's ambiguity among ours, since a target is one node (see --tags).",
        ),
    )


def _scores_table(
    taxonomy: Taxonomy, frame: pd.DataFrame, intervals: dict[str, Interval], information: Information
) -> Table:
    targets = frame["target"].to_numpy()
    return Table(
        "scores",
        "All scores",
        ("score", "mean", "95 % interval"),
        tuple((metric_name(key), one.estimate, interval(one, key)) for key, one in intervals.items()),
        notes=(
            f"The targets are at depth {taxonomy.depth[targets].mean():.2f} and hold "
            f"{information.content[targets].mean():.2f} bits on average ({information.counted}).",
            "ihP and ihR: hP and hR with each node weighted by the information it adds. Remaining uncertainty: bits of "
            "the truth that are not said. Misinformation: wrong bits that are said.",
        ),
    )


def _ranks_table(by_rank: pd.DataFrame) -> Table:
    cells = by_rank[["rank"]].copy()
    for count, share in (("predicted", "precision"), ("relevant", "recall")):
        cells[count] = by_rank[count]
        cells[share] = pd.Series([one and one.estimate for one in by_rank[share]], dtype=object)
        cells[f"{share} interval"] = pd.Series([one and interval(one) for one in by_rank[share]], dtype=object)
    return frame_table(
        "ranks",
        "Precision and recall at each rank",
        cells,
        "Precision: how often what is said at a rank is right. Recall: how often what should be said at a rank is "
        "said. An answer says its node and all ancestors.",
    )


def _clades_table(taxonomy: Taxonomy, frame: pd.DataFrame, settings: DiagnosisSettings) -> Table:
    scored = (taxonomy, frame["node"], frame["target"], frame["type"].tolist())
    worst = worst_regions(*scored, off_tree=frame["as_child"], least=settings.least, most=settings.clades)
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
        for clade in worst
    )
    note = "By target. A clade is listed unless a single clade below it explains 90 % of its loss."
    columns = ("clade", "rank", "answers", "hP", "hR", "cost in hP", "most often")
    none = "None: no clade with at least --least answers lowers hP."
    return Table("clades", "The clades that cost most hP", columns, rows, notes=(note if rows else none,))


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
