"""What goes wrong, where on the tree, and what it costs: one frame with a row per answer, and tables made from it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from taxtune.answers import AnswerTable
from taxtune.answers.frequencies import make_information
from taxtune.answers.matching import excluded_records
from taxtune.answers.scores import as_child
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
from taxtune.metrics.statistics import (
    INFORMATION_METRICS,
    Interval,
    bootstrap,
    hierarchical_sample,
    information_sample,
)
from taxtune.report.output import Cell, StudyReport, Table, node_name
from taxtune.report.scores import interval
from taxtune.studies.contestants import check_measures, measure_notes, place_texts, question_of, text_scores
from taxtune.studies.diagnosis.settings import DiagnosisSettings
from taxtune.studies.diagnosis.tags import name_tags, read_tags, tags_table
from taxtune.studies.output import both_trees_table, draw_intervals, frame_table
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.mapping import Mapper

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
    tags, notes = read_tags(settings.tags, answers, settings.id_column) if settings.tags else (None, [])
    mapper = settings.mapper(taxonomy)
    frame = _placed(mapper, answers).assign(question=questions)
    types = _add_types(taxonomy, frame, information)
    # One by one, as both may be the same measure.
    measures = {role: settings.measures([spec])[0] for role, spec in settings.roles.items()}
    scored, off_tree = (taxonomy, frame["node"], frame["target"]), frame["as_child"]
    draws: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    scores = score(*scored, off_tree=off_tree)
    by_type = costs(*scored, frame["type"].tolist(), off_tree=off_tree, order=_order(frame), **draws)
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
            f"Mapper doubtful: not correct, and placed by a guess ({', '.join(DOUBTFUL_STAGES)}).",
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
        values = [text_scores(frame, measure, taxonomy, settings.reference) for measure in measures.values()]
        views["measures"] = measured = classify_by_measures(values[0], values[1], high=settings.high)
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
        inclusion = measures["inclusion"]
        asked = questions if inclusion.needs_questions else None
        verdicts = name_tags(inclusion, [row.answer or "" for row in rows], tags, asked)
        frame[["tags", "named"]] = verdicts[["tags", "named"]]
        tables.append(tags_table(verdicts, views, **draws))
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
            "scores": {key: getattr(scores, key) for key in ("hp", "hr", "hf", "n")} | shares | weighted,
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
    frame["id"], frame["target"] = [row.id for row in answers.rows], [row.target for row in answers.rows]
    return frame.assign(as_child=as_child(mapper, placements))


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


# -- the tables -------------------------------------------------------------------------------------------------------


def _costs_table(name: str, title: str, by_type: pd.DataFrame, scores: HierarchicalScores, *notes: str) -> Table:
    """How often each type occurs and what it costs, and all of them together."""
    cells = by_type.assign(share=100 * by_type["share"])[[*_COSTS]].rename(columns=_COSTS)
    total: dict[str, Any] = {"type": "all", "answers": scores.n, "%": 100.0, "hP": scores.hp, "hR": scores.hr}
    for metric, shown in (("hp", "hP"), ("hr", "hR")):
        ends = zip(by_type[f"{metric}_low"], by_type[f"{metric}_high"], strict=True)
        cells[f"cost in {shown}"] = by_type[f"{metric}_cost"]
        cells[f"{shown} interval"] = [f"{low:.3f} to {high:.3f}" for low, high in ends]
        total |= {f"cost in {shown}": 1 - getattr(scores, metric), f"{shown} interval": ""}
    return frame_table(name, title, pd.concat([cells, pd.DataFrame([total])]), *notes, digits={"%": 1})


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


def _ranks_table(ranks: list[RankIntervals]) -> Table:
    def cells(n: int, share: Interval | None) -> tuple[Cell, ...]:
        return (n, None, None) if share is None else (n, share.estimate, interval(share))

    rows = tuple(
        (one.scores.rank, *cells(one.scores.n_predicted, one.precision), *cells(one.scores.n_relevant, one.recall))
        for one in ranks
    )
    return Table(
        "ranks",
        "Precision and recall at each rank",
        ("rank", "predicted", "precision", "precision interval", "relevant", "recall", "recall interval"),
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
    cells["most often"] = [f"{kind} ({n:,})" for kind, n in zip(worst["worst"], worst["worst_count"], strict=True)]
    note = "By target. A clade is listed unless a single clade below it explains 90 % of its loss."
    none = "None: no clade with at least --least answers lowers hP."
    return frame_table("clades", "The clades that cost most hP", cells, none if cells.empty else note)


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


# -- the figure --------------------------------------------------------------------------------------------------------


def draw_costs(costs: pd.DataFrame) -> Figure:
    """Draws two panels that share their rows: the share of each type, and its cost in hP and hR with intervals.

    Args:
        costs: A row per type: type, count, share, and for hp and hr the cost and its low and high end.
    """
    from matplotlib.figure import Figure

    from taxtune.report.drawing import COLOURS, GREY

    rows = np.arange(len(costs))
    figure = Figure(figsize=(8.4, 0.46 * len(costs) + 1.3), layout="constrained")
    shares, losses = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.5))
    bars = shares.barh(rows, 100 * costs["share"], height=0.62, color=GREY)
    shares.bar_label(bars, [f" {count:,}" for count in costs["count"]], fontsize=9)
    shares.margins(x=0.18)
    shares.set_xlabel("share of answers, %")
    shares.set_yticks(rows, costs["type"].tolist())
    shares.invert_yaxis()
    for offset, metric, name, marker in ((-0.17, "hp", "hP", "o"), (0.17, "hr", "hR", "v")):
        ends = costs[[f"{metric}_cost", f"{metric}_low", f"{metric}_high"]].itertuples(index=False)
        label = f"cost in {name} (1 − {name} = {costs[f'{metric}_cost'].sum():.3f})"
        look: dict[str, Any] = {"fmt": marker, "color": COLOURS[metric], "elinewidth": 1.4, "markersize": 5}
        draw_intervals(losses, rows + offset, [Interval(*row) for row in ends], label=label, **look)
    losses.hlines(rows[:-1] + 0.5, *losses.get_xlim(), color="#e4e4e4", linewidth=0.7, zorder=0)
    losses.axvline(0, color=GREY, lw=0.8)
    losses.set_xlabel("taken from the mean over all answers")
    losses.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure
