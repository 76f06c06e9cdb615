"""The tables and the figure of a diagnosis, each made from a frame with a row per answer or per type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from taxtune.metrics.diagnosis import COUNTERPARTS, ErrorType, MeasuredType, worst_regions
from taxtune.metrics.hierarchical import HierarchicalScores
from taxtune.metrics.information import Information
from taxtune.metrics.names import metric_name
from taxtune.metrics.ranks import RankIntervals, rank_of
from taxtune.metrics.statistics import Interval
from taxtune.report.formatting import interval
from taxtune.report.output import Table, node_name
from taxtune.studies.frames import sorted_by
from taxtune.studies.output import draw_dots, frame_table
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "costs_table",
    "crossed_table",
    "draw_costs",
    "examples_table",
    "ranks_table",
    "regions_table",
    "scores_table",
]

_METRICS = {"hp": "hP", "hr": "hR"}
_LONGEST = 160  # characters of an answer


def costs_table(
    name: str, title: str, costs: pd.DataFrame, scores: HierarchicalScores, *notes: str
) -> Table:
    """Returns the frequency and the cost of each type, and of all of them together."""
    names = {"count": "answers", "share": "%", "hp": "hP", "hr": "hR"}
    cells = costs[["type", *names]].rename(columns=names)
    cells["%"] *= 100
    total: dict[str, Any] = {"type": "all", "answers": scores.n, "%": 100.0}
    total |= {"hP": scores.hp, "hR": scores.hr}
    for metric, shown in _METRICS.items():
        low = costs[f"{metric}_low"].map("{:.3f}".format)
        high = costs[f"{metric}_high"].map("{:.3f}".format)
        cells[f"cost in {shown}"] = costs[f"{metric}_cost"]
        cells[f"{shown} interval"] = low + " to " + high
        total[f"cost in {shown}"] = 1 - total[shown]
        total[f"{shown} interval"] = ""
    cells.loc[len(cells)] = total
    return frame_table(name, title, cells, *notes, digits={"%": 1})


def crossed_table(types: Sequence[ErrorType], measured: Sequence[MeasuredType]) -> Table:
    """Returns the number of answers of each type by placement and each type by paper 2's measures."""
    by_placement = pd.Series(types, name="by placement")
    cells = pd.crosstab(by_placement, pd.Series(measured))
    cells = cells.reindex(index=list(ErrorType), columns=list(MeasuredType), fill_value=0)
    shares = 100 * cells.div(cells.sum(axis=1), axis=0)
    cells["counterpart"] = cells.index.map(COUNTERPARTS)
    for kind, twin in COUNTERPARTS.items():
        cells.loc[kind, "in it, %"] = shares[twin][kind]
    return frame_table(
        "types-crossed",
        "What the tree says (rows) and what paper 2's two measures say (columns)",
        cells.reset_index(),
        "Counterpart: paper 2's type that means the same. Abstentions, and what is finer than the label, have none; "
        "nor does paper 2's ambiguity among ours, since a target is one node (see --tags).",
        digits={"in it, %": 1},
    )


def scores_table(
    taxonomy: Taxonomy,
    targets: pd.Series[int],
    intervals: Mapping[str, Interval],
    information: Information,
) -> Table:
    """Returns all scores with their intervals."""
    rows = []
    for key, score in intervals.items():
        ends = interval(score, key)
        rows.append({"score": metric_name(key), "mean": score.estimate, "95 % interval": ends})
    depth = taxonomy.depth[targets].mean()
    bits = information.content[targets].mean()
    return frame_table(
        "scores",
        "All scores",
        pd.DataFrame(rows),
        f"The targets are at depth {depth:.2f} and hold {bits:.2f} bits on average ({information.counted}).",
        "ihP and ihR: hP and hR with each node weighted by the information it adds. Remaining uncertainty: bits of the "
        "truth that are not said. Misinformation: wrong bits that are said.",
    )


def ranks_table(ranks: Sequence[RankIntervals]) -> Table:
    """Returns precision and recall at each rank."""
    rows = []
    for rank in ranks:
        row: dict[str, Any] = {"rank": rank.scores.rank, "predicted": rank.scores.n_predicted}
        row |= _share("precision", rank.precision)
        row["relevant"] = rank.scores.n_relevant
        row |= _share("recall", rank.recall)
        rows.append(row)
    return frame_table(
        "ranks",
        "Precision and recall at each rank",
        pd.DataFrame(rows),
        "Precision: how often what is said at a rank is right. Recall: how often what should be said at a rank is "
        "said. An answer says its node and all ancestors.",
    )


def _share(name: str, share: Interval | None) -> dict[str, Any]:
    if share is None:
        return {name: None, f"{name} interval": None}
    return {name: share.estimate, f"{name} interval": interval(share)}


def regions_table(taxonomy: Taxonomy, frame: pd.DataFrame, least: int) -> Table:
    """Returns the clades with at least `least` answers that cost most hP."""
    types = frame["type"].tolist()
    worst = worst_regions(
        taxonomy,
        frame["node"],
        frame["target"],
        types,
        off_tree=frame["as_child"],
        least=least,
    )
    cells = pd.DataFrame({"clade": worst["node"].map(partial(node_name, taxonomy))})
    cells["rank"] = worst["node"].map(partial(rank_of, taxonomy))
    cells[["answers", "hP", "hR", "cost in hP"]] = worst[["count", "hp", "hr", "hp_cost"]]
    kinds = zip(worst["worst"], worst["worst_count"], strict=True)
    cells["most often"] = [f"{kind} ({count:,})" for kind, count in kinds]
    note = "By target. A clade is listed unless a single clade below it explains 90 % of its loss."
    if cells.empty:
        note = "None: no clade with at least --least answers lowers hP."
    return frame_table("clades", "The clades that cost most hP", cells, note)


def examples_table(
    taxonomy: Taxonomy, frame: pd.DataFrame, order: Iterable[str], most: int
) -> Table:
    """Returns the costliest answers of each type and of the wrong branches of each rank, each target once."""
    sums = frame["hp"] + frame["hr"]
    costly = frame.loc[sums.sort_values(kind="stable").index]
    chosen = costly.drop_duplicates(["type", "target"]).groupby("type").head(most)
    chosen = sorted_by(chosen, "type", order)
    name_of = partial(node_name, taxonomy)
    cells = chosen[["type"]].copy()
    cells["answer"] = chosen["answer"].map(_shortened)
    cells["truth"] = chosen["target"].map(name_of)
    cells["placement"] = chosen["node"].map(name_of)
    cells[["hP", "hR", "id"]] = chosen[["hp", "hr", "id"]]
    return frame_table("examples", "Examples of each type", cells)


def _shortened(answer: str) -> str:
    text = " ".join(answer.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def draw_costs(costs: pd.DataFrame) -> Figure:
    """Draws the cost of each type in hP and hR with intervals, and how many answers are of the type.

    Args:
        costs: A row per type: type, count, and for hp and hr the cost and its low and high end.
    """
    names = costs["type"] + costs["count"].map(" ({:,})".format)
    parts = []
    for metric, shown in _METRICS.items():
        part = costs[[f"{metric}_cost", f"{metric}_low", f"{metric}_high"]]
        part = part.set_axis(["estimate", "low", "high"], axis=1)
        total = part["estimate"].sum()
        part["series"] = f"cost in {shown} (sum {total:.3f})"
        part["name"] = names
        parts.append(part)
    drawn = pd.concat(parts).assign(panel="")
    return draw_dots(drawn, "taken from the mean over all answers", zero=True)
