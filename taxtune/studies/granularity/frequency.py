"""Do models miss coarse names because captions seldom have them? Paper 3, §4.2, "Granularity Bias", Figure 4.

The paper counts how often captions have each class name, and compares, ancestor by ancestor, how far the leaves below
it are named more often than itself with what it gains when it is scored by them.

A caption names a node when one of the node's names, its label or an alias, stands in it as whole words. Words are
compared as the mapper's lexicon folds them: plural, American and British spelling, accents, case and hyphens do not
matter. No name reaches over a comma or the end of a sentence. Of names one of which lies inside the other the longer is
meant: a "tiger shark" is not a tiger, nor a mention of "shark". A name of several nodes counts for each of them.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from taxtune.errors import DataError
from taxtune.mapping.normalize import fold_words
from taxtune.report.output import StudyReport, node_name, numbered
from taxtune.studies.coco import CaptionTexts, parse_json
from taxtune.studies.granularity.scores import label_frame
from taxtune.studies.output import frame_table
from taxtune.tables import column_key, read_table, read_text
from taxtune.taxonomy import Domain
from taxtune.taxonomy.label_graph import LabelGraph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from taxtune.studies.granularity.study import Granularity

__all__ = ["CaptionCounts", "correlate", "count_captions", "draw_frequency", "frequency_report", "read_captions"]

# What parts one thing that is named from the next. The stop of "St. Bernard" does not.
_PARTS = re.compile(r"[,;:!?|()\[\]{}\"“”«»•\n]|(?<=\w\w\w)\.(?=\s|$)")
_COEFFICIENTS = {"Pearson": "r", "Spearman": "ρ"}
_FEWEST = 3  # ancestors that a correlation takes
_SAME = 1e-9  # values that differ by less are equal: the same number summed in another order
_ENDS = 10  # rows at either end of the table of gaps
_MANY = 1000  # points of a vector graphic, beyond which they become one picture inside it

# -- captions ---------------------------------------------------------------------------------------------------------


class CaptionCounts(NamedTuple):
    """How often captions name the nodes of a taxonomy.

    Attributes:
        captions: Captions that hold a text.
        empty: Captions that hold none; they are left out.
        naming: Captions that name at least one node.
        labels: A row per node: path, level, kind, captions (that name it), inside_longer_names (captions in which its
            names stand only inside longer names, not among the former), mean_of_leaves (mean of captions over the
            leaves below it, itself for a leaf) and gap, log10(mean_of_leaves + 1) − log10(captions + 1), NaN for
            leaves. The paper plots such a gap and gives no formula; this one is ours.
        notes: Stated, counted exclusions.
    """

    captions: int
    empty: int
    naming: int
    labels: pd.DataFrame
    notes: list[str]


def read_captions(path: Path, *, column: str = "caption") -> list[str]:
    """Returns the captions of a file, empty ones included; a list in a cell of JSON lines holds several.

    Args:
        path: A `.txt` file with one caption per line, a table that `taxtune.tables.read_table` reads, or a captions
            file in COCO's format that ends in `.json`.
        column: The column of the captions.

    Raises:
        DataError: If the file cannot be read, lacks the column, or a caption is not text; it names the row.
    """
    if path.suffix.lower() == ".json":
        return [entry.caption for entry in parse_json(path, CaptionTexts).annotations]
    if ".txt" in map(str.lower, path.suffixes):
        text = read_text(path, error=DataError, what="captions")
        return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    captions: list[str] = []
    for row, record in read_table(path, what="captions"):
        key = column if column in record else column_key(column)
        if key not in record:
            remedy = f"There are {', '.join(map(repr, record))}: choose one with --caption-column."
            raise DataError(f"There is no column {column!r}.", file=path, row=row, remedy=remedy)
        for cell in record[key] or [None] if isinstance(record[key], list) else [record[key]]:
            if cell is not None and not isinstance(cell, str):
                raise DataError("The caption is not text.", file=path, row=row, value=cell)
            captions.append(cell or "")
    return captions


def count_captions(
    captions: Iterable[str], graph: LabelGraph, part: Domain | None = None, *, source: str | None = None
) -> CaptionCounts:
    """Counts the captions that name each node, however often each does.

    Args:
        captions: The captions; the same text twice is two captions.
        graph: The labels; all names of the nodes are looked for.
        part: What the labels are a part of. Longer names of the whole tree are longer names here too: a "hot dog" is no
            dog on the tree of dogs.
        source: Where the captions are from, for messages.

    Raises:
        DataError: If there is no caption with text, or none names a node.
    """
    import ahocorasick

    whole = graph.tree if part is None else part.full
    number = np.full(len(whole), -1)
    number[slice(None) if part is None else part.numbers] = np.arange(len(graph))
    by_name: dict[str, set[int]] = defaultdict(set)
    for node, own in enumerate(number.tolist()):
        for name in filter(None, map(_folded, whole.names(node))):
            by_name[name] |= {own} if own >= 0 else set()
    automaton: Any = ahocorasick.Automaton()
    for name, nodes in by_name.items():
        # With a space at either end a name is found as whole words only; neighbours share the space between them.
        automaton.add_word(f" {name} ", (len(name) + 2, nodes))
    automaton.make_automaton()
    named, inside, naming = Counter[int](), Counter[int](), 0
    captions = pd.Series(list(captions), dtype=object)
    empty = int((captions.str.strip() == "").sum())
    for text in captions.map(_folded):
        spans = [(end - length, end, nodes) for end, (length, nodes) in automaton.iter(f" {text} ")] if by_name else []
        here, nested = _sorted_out(spans)
        naming += bool(here)
        named.update(here)
        inside.update(nested - here)
    total = len(captions) - empty
    if not total:
        raise DataError("All captions are empty.", file=source, value=f"{empty:,} captions")
    if not naming:
        remedy = "Check that they are in the language of its names, separate words by spaces and are about them."
        message = f"None of {total:,} captions names a label of the taxonomy, so there is nothing to compare."
        raise DataError(message, file=source, remedy=remedy)
    labels = label_frame(graph)
    labels["captions"] = [named[node] for node in labels.index]
    labels["inside_longer_names"] = [inside[node] for node in labels.index]
    # A leaf counts once for a node, however many paths lead to it.
    above = graph.above[graph.leaves].T
    of_leaves = labels.loc[graph.leaves, "captions"].to_numpy(dtype=float)
    labels["mean_of_leaves"] = (above @ of_leaves) / (above @ np.ones(len(graph.leaves)))
    gap = np.log10(labels["mean_of_leaves"] + 1) - np.log10(labels["captions"] + 1)
    labels["gap"] = gap.where(~graph.is_leaf)
    never, shared = int((labels["captions"] == 0).sum()), sum(len(nodes) > 1 for nodes in by_name.values())
    wordless = len(graph) - len(set().union(*by_name.values()))
    notes = [
        f"{naming:,} of {total:,} captions name a label; {never:,} of {len(graph):,} labels are never named.",
        *([f"Empty captions left out: {empty:,}."] if empty else []),
        *([f"Names of several labels, which count for each of them: {shared:,}."] if shared else []),
        *([f"Labels that no caption can name, without a letter or digit: {wordless:,}."] if wordless else []),
    ]
    return CaptionCounts(total, empty, naming, labels, notes)


def _folded(text: str) -> str:
    """Returns the folded words of a text, with a bar where one thing is parted from the next."""
    parts = (" ".join(fold_words(part)) for part in _PARTS.split(text))
    return " | ".join(part for part in parts if part)


def _sorted_out(spans: list[tuple[int, int, set[int]]]) -> tuple[set[int], set[int]]:
    """Returns the nodes that a caption names, and those whose names stand inside longer names.

    Args:
        spans: The place before each name in the caption, that of its last character, and its nodes.
    """
    named: set[int] = set()
    nested: set[int] = set()
    reached = -1
    # From the left, of names that begin together the longest first: one that ends no later than another ended is
    # inside it.
    for _, last, nodes in sorted(spans, key=lambda span: (span[0], -span[1])):
        (nested if last <= reached else named).update(nodes)
        reached = max(reached, last)
    return named, nested


# -- the correlation and the report -----------------------------------------------------------------------------------


def correlate(result: Granularity, labels: pd.DataFrame) -> tuple[dict[str, Any], pd.DataFrame]:
    """Correlates the frequency gap of ancestors with what they gain by their leaves.

    Ancestors that every image shows, such as the root, are left out: they cannot gain anything.

    Args:
        result: Average precisions.
        labels: The labels with their gaps, see `CaptionCounts`.

    Returns:
        The row of the table, with NaN where there is no correlation, and the compared ancestors.
    """
    from scipy import stats

    ancestors = result.averaged("ancestor").join(labels["gap"])
    ancestors = ancestors[ancestors["images"] < result.images]
    row: dict[str, Any] = {"scores": result.name, "n anc": len(ancestors)}
    varied = len(ancestors) >= _FEWEST and min(np.ptp(ancestors["gap"]), np.ptp(ancestors["gain"])) >= _SAME
    for name, sign in _COEFFICIENTS.items():
        statistic = p_value = math.nan
        if varied:
            statistic, p_value = getattr(stats, f"{name.lower()}r")(ancestors["gap"], ancestors["gain"])
        row |= {f"{name} {sign}": float(statistic), f"p of {sign}": float(p_value)}
    return row, ancestors


def frequency_report(
    counts: CaptionCounts, graph: LabelGraph, settings: dict[str, Any], results: Sequence[Granularity] = ()
) -> StudyReport:
    """Returns the caption counts of the labels of each level, and their correlation with the gain of ancestors.

    Args:
        counts: The counted captions.
        graph: The labels.
        settings: What is needed to run the study again.
        results: One per score matrix, if there are any.
    """
    labels, notes = counts.labels, list(counts.notes)
    levels = pd.DataFrame(
        {
            "level": level,
            "labels": len(some),
            "leaves": int((some["kind"] == "leaf").sum()),
            "mean": some["captions"].mean(),
            "median": some["captions"].median(),
            "most": int(some["captions"].max()),
            "never named (%)": 100 * (some["captions"] == 0).mean(),
            "inside longer names": some["inside_longer_names"].mean(),
        }
        for level, some in labels.groupby("level")
    )
    gaps = labels[labels["kind"] == "ancestor"].sort_values("gap", ascending=False, kind="stable")
    which = "All ancestors"
    if len(gaps) > 2 * _ENDS:
        which = f"The {_ENDS} ancestors at either end of {len(gaps):,}"
        gaps = pd.concat([gaps.head(_ENDS), gaps.tail(_ENDS)])
    cells = pd.DataFrame({"ancestor": [node_name(graph.tree, node) for node in gaps.index]}, index=gaps.index)
    cells = cells.join(gaps[["level", "captions", "mean_of_leaves", "gap"]])
    cells = cells.rename(columns={"mean_of_leaves": "mean of its leaves"})
    digits = {"mean of its leaves": 1, "gap": 2}
    correlations = [(result, *correlate(result, labels)) for result in results]
    for result, row, ancestors in correlations:
        name = "Δ leaf" if len(results) == 1 else f"Δ leaf, {result.name}"
        cells[name] = 100 * result.averaged("ancestor")["gain"]
        digits[name] = 2
        prefix = "" if len(results) == 1 else f"{result.name}: "
        if left_out := len(result.averaged("ancestor")) - len(ancestors):
            notes.append(f"{prefix}Ancestors left out of the correlation since every image shows them: {left_out:,}.")
        if math.isnan(row["Pearson r"]):
            notes.append(f"{prefix}No correlation: it takes {_FEWEST} ancestors that differ in gap and in gain.")
    rows = pd.DataFrame([row for _, row, _ in correlations])
    shown = rows.copy()
    for name in [f"p of {sign}" for sign in _COEFFICIENTS.values() if correlations]:
        shown[name] = [None if math.isnan(p) else f"{p:.2g}" for p in rows[name]]
    drawn: list[Any] = [(row, ancestors) for _, row, ancestors in correlations] or [(None, None)]
    stems = numbered("granularity-frequency", len(drawn))
    tables = [
        frame_table(
            "frequency-levels",
            f"How many of {counts.captions:,} captions name a label, by level, the root being level 0 "
            "(paper 3, Figure 4 left)",
            levels,
            "A caption counts once for a label if it contains one of the label's names as whole words, singular or "
            "plural; the senses of a name are not distinguished.",
            "Inside longer names: the mean number of captions in which a label's name occurs only inside a longer "
            "name on the tree (tiger in tiger shark); these do not count.",
            digits=dict.fromkeys(levels.columns[3:], 1),
        ),
        frame_table(
            "frequency-correlation",
            "Frequency gap and gain by leaves over the ancestors (paper 3, Figure 4 right: 0.43, p = 3.4e-39)",
            shown,
            "Frequency gap: log10(mean count of the leaves below + 1) − log10(own count + 1), our definition, since "
            "the paper gives no formula. Gain: Δ leaf.",
            "The p-values assume independent ancestors; nested ancestors share leaves, so the p-values are too small.",
        ),
        frame_table(
            "frequency-gaps",
            f"{which} by frequency gap, the largest first",
            cells,
            "Positive: captions name the leaves below more often than the ancestor itself.",
            digits=digits,
        ),
    ]
    if not results:
        del tables[1]
    return StudyReport(
        study="granularity",
        title="How often do captions name coarse labels compared with the fine labels below them?",
        settings=settings,
        tables=tuple(tables),
        figures={stem: partial(draw_frequency, counts, *one) for stem, one in zip(stems, drawn, strict=True)},
        notes=tuple(notes),
        data={
            "frequency": {
                "captions": counts.captions,
                "empty": counts.empty,
                "naming": counts.naming,
                "correlations": rows.to_dict("records"),
                "labels": labels.to_dict("records"),
            }
        },
    )


# -- the figure -------------------------------------------------------------------------------------------------------


def draw_frequency(counts: CaptionCounts, correlation: dict[str, Any] | None, ancestors: pd.DataFrame | None) -> Figure:
    """Draws the count of every label over its level, and the gain by leaves over the frequency gap.

    Args:
        counts: The counted captions.
        correlation: The row of the table of correlations, or None: only the left panel is drawn.
        ancestors: The compared ancestors with gap and gain, or None.
    """
    from matplotlib.figure import Figure

    from taxtune.report.drawing import CYCLE, FAINT, GREY

    if correlation is None or ancestors is None:
        figure = Figure(figsize=(5.6, 3.8), layout="constrained")
        _draw_levels(figure.subplots(), counts)
        return figure
    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    left, axes = figure.subplots(1, 2)
    _draw_levels(left, counts)
    axes.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    axes.axvline(0, color=GREY, linewidth=0.8, zorder=0)
    many = len(ancestors) > _MANY
    axes.scatter(ancestors["gap"], 100 * ancestors["gain"], s=16, c=CYCLE[2], alpha=0.65, linewidths=0, rasterized=many)
    axes.set_xlabel("frequency gap, leaves over ancestor (log10)")
    axes.set_ylabel("gain by leaves (points of average precision)")
    told = "no correlation"
    if not math.isnan(correlation["Pearson r"]):
        told = ", ".join(
            f"{sign} = {correlation[f'{name} {sign}']:.2f} (p = {correlation[f'p of {sign}']:.2g})"
            for name, sign in _COEFFICIENTS.items()
        ).replace("= -", "= −")
    axes.set_title(f"{len(ancestors):,} ancestors: {told}", loc="left", fontsize=10)
    axes.grid(color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    return figure


def _draw_levels(axes: Axes, counts: CaptionCounts) -> None:
    from taxtune.report.drawing import CYCLE, FAINT, INK

    labels, many = counts.labels, len(counts.labels) > _MANY
    # Points of one count would hide each other; the same tree is spread the same way each time.
    spread = np.random.default_rng(0).uniform(-0.26, 0.26, len(labels))
    look: dict[str, Any] = {"s": 8 if many else 14, "alpha": 0.45 if many else 0.65, "linewidths": 0}
    for kind, colour, marker, name in (("leaf", CYCLE[0], "o", "leaves"), ("ancestor", CYCLE[1], "^", "ancestors")):
        some = labels["kind"] == kind
        x, y = (labels["level"] + spread)[some], labels.loc[some, "captions"]
        axes.scatter(x, y, c=colour, marker=marker, rasterized=many, label=name, **look)
    medians = labels.groupby("level")["captions"].median()
    order = 3 if many else 0.9  # few points are not to be hidden, a line among many is
    for level, median in enumerate(medians):
        label = "" if level else "median"
        axes.hlines(median, level - 0.36, level + 0.36, color=INK, linewidth=1.8, zorder=order, label=label)
    axes.set_yscale("symlog", linthresh=1, linscale=0.45)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylim(-0.25, max(2.0, 2 * float(labels["captions"].max())))
    axes.set_xticks(list(medians.index))
    axes.tick_params(axis="x", labelsize=8)
    axes.set(xlabel="level in the tree", ylabel="captions that name the label")
    axes.set_title(f"Labels in {counts.captions:,} captions", loc="left", fontsize=10)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    # Above the panel, where no label can be.
    spacing = {"markerscale": 1.6, "handlelength": 1.4, "columnspacing": 1.2, "borderaxespad": 0.2}
    legend = axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, fontsize=8, **spacing)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1)
