"""Do models miss coarse names because captions seldom have them? Paper 3, §4.2, "Granularity Bias", Figure 4.

A caption names a node when one of the node's names, its label or an alias, stands in it as whole words, folded as in
the mapper's lexicon (plurals, spelling, accents, case, hyphens). No name reaches over a comma or the end of a sentence.
Of names one of which lies inside the other the longer is meant: a "tiger shark" is not a tiger. A name of several nodes
counts for each of them.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from taxtune.errors import DataError
from taxtune.mapping.normalize import fold_words
from taxtune.report.drawing import CYCLE
from taxtune.report.output import StudyReport, Table, node_name, numbered
from taxtune.studies.frames import records
from taxtune.studies.granularity.matrices import label_frame
from taxtune.studies.output import frame_table
from taxtune.tables import column_key, read_table, read_text
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from taxtune.studies.granularity.hierarchy import Granularity

__all__ = [
    "CaptionCounts",
    "correlate",
    "count_captions",
    "draw_frequency",
    "frequency_report",
    "read_captions",
]

# What parts one thing that is named from the next. The stop of "St. Bernard" does not.
_PARTS = re.compile(r"[,;:!?|()\[\]{}\"“”«»•\n]|(?<=\w\w\w)\.(?=\s|$)")
_COEFFICIENTS = ("Pearson r", "p of r", "Spearman ρ", "p of ρ")
_FEWEST = 3  # ancestors that a correlation takes
_SAME = 1e-9  # values that differ by less are equal: the same number summed in another order
_ENDS = 10  # rows at either end of the table of gaps
_MANY = 1000  # points of a vector graphic, beyond which they become one picture inside it

# -- captions ---------------------------------------------------------------------------------------------------------


class CaptionCounts(NamedTuple):
    """How often captions name the nodes of a taxonomy.

    Attributes:
        captions: Captions that hold a text; empty ones are left out.
        naming: Captions that name at least one node.
        labels: A row per node: path, level, kind, captions (that name it), inside_longer_names (captions in which its
            names stand only inside longer names, not among the former), mean_of_leaves (mean of captions over the
            leaves below it, itself for a leaf) and gap, log10(mean_of_leaves + 1) − log10(captions + 1), NaN for
            leaves. The paper plots such a gap and gives no formula; this one is ours.
        notes: Stated, counted exclusions.
    """

    captions: int
    naming: int
    labels: pd.DataFrame
    notes: list[str]


def read_captions(path: Path, *, column: str = "caption") -> list[str]:
    """Returns the captions of a file, empty ones included; a list in a cell of JSON lines holds several.

    Args:
        path: A `.txt` file with one caption per line, or a table that `taxtune.tables.read_table` reads.
        column: The column of the captions.

    Raises:
        DataError: If the file cannot be read, lacks the column, or a caption is not text; it names the row.
    """
    if path.suffix.lower() == ".txt":
        text = read_text(path, error=DataError, what="captions")
        return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    captions: list[str] = []
    for row, record in read_table(path, what="captions"):
        key = column if column in record else column_key(column)
        if key not in record:
            remedy = f"There are {', '.join(map(repr, record))}: choose one with --caption-column."
            raise DataError(f"There is no column {column!r}.", file=path, row=row, remedy=remedy)
        cell = record[key]
        texts = cell if isinstance(cell, list) else ["" if cell is None else cell]
        if not all(isinstance(text, str) for text in texts):
            raise DataError("The caption is not text.", file=path, row=row, value=cell)
        captions += texts
    return captions


def count_captions(
    captions: Iterable[str],
    tree: Taxonomy,
    part: Domain | None = None,
    *,
    source: str | None = None,
) -> CaptionCounts:
    """Counts the captions that name each node, however often each does.

    Args:
        captions: The captions; the same text twice is two captions.
        tree: The labels; all names of the nodes are looked for.
        part: What the tree is a part of. Longer names of the whole tree are longer names here too: a "hot dog" is no
            dog on the tree of dogs.
        source: Where the captions are from, for messages.

    Raises:
        DataError: If there is no caption with text, or none names a node.
    """
    by_name = _nodes_by_name(tree, part)
    automaton = _automaton(by_name)
    named, inside = Counter[int](), Counter[int]()
    naming = empty = total = 0
    for caption in captions:
        if not caption.strip():
            empty += 1
            continue
        total += 1
        text = f" {_folded(caption)} "
        spans = []
        for end, (length, nodes) in automaton.iter(text) if by_name else ():
            spans.append((end - length, end, nodes))
        here, nested = _sorted_out(spans)
        naming += bool(here)
        named.update(here)
        inside.update(nested - here)
    if not total:
        raise DataError("All captions are empty.", file=source, value=f"{empty:,} captions")
    if not naming:
        remedy = "Check that they are in the language of its names, separate words by spaces and are about them."
        message = f"None of {total:,} captions names a label of the taxonomy, so there is nothing to compare."
        raise DataError(message, file=source, remedy=remedy)
    labels = label_frame(tree)
    labels["captions"] = [named[node] for node in labels.index]
    labels["inside_longer_names"] = [inside[node] for node in labels.index]
    _add_gaps(labels, tree)
    never = int((labels["captions"] == 0).sum())
    naming_some = f"{naming:,} of {total:,} captions name a label"
    notes = [f"{naming_some}; {never:,} of {len(tree):,} labels are never named."]
    if empty:
        notes.append(f"Empty captions left out: {empty:,}.")
    shared = sum(len(nodes) > 1 for nodes in by_name.values())
    if shared:
        notes.append(f"Names of several labels, which count for each of them: {shared:,}.")
    return CaptionCounts(total, naming, labels, notes)


def _nodes_by_name(tree: Taxonomy, part: Domain | None) -> dict[str, set[int]]:
    """Returns the nodes of the tree by folded name; names of the whole that the part lacks have none."""
    whole = tree if part is None else part.full
    numbers = range(len(tree)) if part is None else part.numbers.tolist()
    own = {number: node for node, number in enumerate(numbers)}
    by_name: dict[str, set[int]] = defaultdict(set)
    for number in range(len(whole)):
        for name in map(_folded, whole.names(number)):
            if name:
                by_name[name] |= {own[number]} if number in own else set()
    return by_name


def _automaton(by_name: Mapping[str, set[int]]) -> Any:
    """Returns a finder of all names in a text at once (Aho and Corasick 1975)."""
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for name, nodes in by_name.items():
        # With a space at either end a name is found as whole words only; neighbours share the space between them.
        automaton.add_word(f" {name} ", (len(name) + 2, nodes))
    automaton.make_automaton()
    return automaton


def _add_gaps(labels: pd.DataFrame, tree: Taxonomy) -> None:
    """Adds the mean count of the leaves below each label, and the gap of each ancestor to it."""
    is_leaf = labels["kind"] == "leaf"
    # The nodes at and below one follow each other in a walk down the tree.
    of_leaves = labels["captions"].where(is_leaf, 0).iloc[tree.walk]
    running = np.cumsum([0, *of_leaves])
    below = running[tree.places + tree.sizes] - running[tree.places]
    labels["mean_of_leaves"] = below / tree.leaves_below(labels.index)
    gap = np.log10(labels["mean_of_leaves"] + 1) - np.log10(labels["captions"] + 1)
    labels["gap"] = gap.where(~is_leaf)


def _folded(text: str) -> str:
    """Returns the folded words of a text, with a bar where one thing is parted from the next."""
    parts = [" ".join(fold_words(part)) for part in _PARTS.split(text)]
    return " | ".join(filter(None, parts))


def _sorted_out(spans: list[tuple[int, int, set[int]]]) -> tuple[set[int], set[int]]:
    """Returns the nodes that a caption names, and those whose names stand inside longer names.

    Spans are start, last and nodes.
    """
    named: set[int] = set()
    nested: set[int] = set()
    reached = -1
    # From the left, of names that begin together the longest first: one that ends no later than another ended is
    # inside it.
    for _, last, nodes in sorted(spans, key=lambda span: (span[0], -span[1])):
        found = nested if last <= reached else named
        found |= nodes
        reached = max(reached, last)
    return named, nested


# -- the correlation and the report -----------------------------------------------------------------------------------


def correlate(result: Granularity, labels: pd.DataFrame) -> tuple[dict[str, Any], pd.DataFrame]:
    """Correlates the frequency gap of ancestors (`CaptionCounts.labels`) with what they gain by their leaves.

    Ancestors that every image shows, such as the root, are left out: they cannot gain anything.

    Returns:
        The row of the table, with NaN where there is no correlation, and the compared ancestors.
    """
    from scipy import stats

    ancestors = result.ancestors().join(labels["gap"])
    ancestors = ancestors[ancestors["images"] < result.images]
    row: dict[str, Any] = {"scores": result.name, "n anc": len(ancestors)}
    row |= dict.fromkeys(_COEFFICIENTS, math.nan)
    gap, gain = ancestors["gap"], ancestors["gain"]
    if len(ancestors) >= _FEWEST and min(np.ptp(gap), np.ptp(gain)) >= _SAME:
        pearson, spearman = stats.pearsonr(gap, gain), stats.spearmanr(gap, gain)
        row["Pearson r"] = float(pearson.statistic)
        row["p of r"] = float(pearson.pvalue)
        row["Spearman ρ"] = float(spearman.statistic)
        row["p of ρ"] = float(spearman.pvalue)
    return row, ancestors


def frequency_report(
    counts: CaptionCounts,
    tree: Taxonomy,
    settings: dict[str, Any],
    results: Sequence[Granularity] = (),
) -> StudyReport:
    """Returns the caption counts by level, and their correlation with the gain of ancestors by each score matrix."""
    notes = list(counts.notes)
    rows: list[dict[str, Any]] = []
    figures = {}
    for stem, result in zip(numbered("granularity-frequency", len(results)), results, strict=True):
        row, ancestors = correlate(result, counts.labels)
        rows.append(row)
        figures[stem] = partial(draw_frequency, counts, row, ancestors)
        left_out = len(result.ancestors()) - len(ancestors)
        if left_out:
            every = f"{left_out:,} ancestors that every image shows"
            notes.append(f"{result.name}: {every} are left out of the correlation.")
        if math.isnan(row["Pearson r"]):
            needed = f"it takes {_FEWEST} ancestors that differ in gap and in gain."
            notes.append(f"{result.name}: no correlation: {needed}")
    tables = [_levels_table(counts)]
    if rows:
        tables.append(_correlation_table(rows))
    tables.append(_gaps_table(counts.labels, tree, results))
    frequency = {"captions": counts.captions, "naming": counts.naming, "correlations": rows}
    frequency["labels"] = records(counts.labels)
    return StudyReport(
        study="granularity",
        title="How often do captions name coarse labels compared with the fine labels below them?",
        settings=settings,
        tables=tuple(tables),
        figures=figures or {"granularity-frequency": partial(draw_frequency, counts)},
        notes=tuple(notes),
        data={"frequency": frequency},
    )


def _levels_table(counts: CaptionCounts) -> Table:
    labels = counts.labels.copy()
    labels["leaves"] = labels["kind"] == "leaf"
    labels["never"] = labels["captions"] == 0
    by_level = labels.groupby("level")
    cells = pd.DataFrame({"labels": by_level.size()})
    cells["leaves"] = by_level["leaves"].sum()
    cells["mean"] = by_level["captions"].mean()
    cells["median"] = by_level["captions"].median()
    cells["most"] = by_level["captions"].max()
    cells["never named (%)"] = 100 * by_level["never"].mean()
    cells["inside longer names"] = by_level["inside_longer_names"].mean()
    return frame_table(
        "frequency-levels",
        f"How many of {counts.captions:,} captions name a label, by level, the root being level 0 "
        "(paper 3, Figure 4 left)",
        cells.reset_index(),
        "A caption counts once for a label if it contains one of the label's names as whole words, singular or "
        "plural; the senses of a name are not distinguished.",
        "Inside longer names: the mean number of captions in which a label's name occurs only inside a longer "
        "name on the tree (tiger in tiger shark); these do not count.",
        digits=1,
    )


def _correlation_table(rows: Sequence[dict[str, Any]]) -> Table:
    cells = pd.DataFrame(rows)
    for name in ("p of r", "p of ρ"):
        cells[name] = [None if math.isnan(p) else f"{p:.2g}" for p in cells[name]]
    return frame_table(
        "frequency-correlation",
        "Frequency gap and gain by leaves over the ancestors (paper 3, Figure 4 right: 0.43, p = 3.4e-39)",
        cells,
        "Frequency gap: log10(mean count of the leaves below + 1) − log10(own count + 1), our definition, since "
        "the paper gives no formula. Gain: Δ leaf.",
        "The p-values assume independent ancestors; nested ancestors share leaves, so the p-values are too small.",
    )


def _gaps_table(labels: pd.DataFrame, tree: Taxonomy, results: Sequence[Granularity]) -> Table:
    gaps = labels[labels["kind"] == "ancestor"]
    gaps = gaps.sort_values("gap", ascending=False, kind="stable")
    which = "All ancestors"
    if len(gaps) > 2 * _ENDS:
        which = f"The {_ENDS} ancestors at either end of {len(gaps):,}"
        gaps = pd.concat([gaps.head(_ENDS), gaps.tail(_ENDS)])
    cells = gaps[["level", "captions"]].copy()
    cells.insert(0, "ancestor", [node_name(tree, node) for node in gaps.index])
    cells["mean of its leaves"] = gaps["mean_of_leaves"]
    cells["gap"] = gaps["gap"]
    for result in results:
        cells[f"Δ leaf, {result.name}"] = 100 * result.ancestors()["gain"]
    return frame_table(
        "frequency-gaps",
        f"{which} by frequency gap, the largest first",
        cells,
        "Positive: captions name the leaves below more often than the ancestor itself.",
        digits=dict.fromkeys(cells.columns[4:], 2) | {"mean of its leaves": 1},
    )


def draw_frequency(
    counts: CaptionCounts,
    correlation: dict[str, Any] | None = None,
    ancestors: pd.DataFrame | None = None,
) -> Figure:
    """Draws the count of every label over its level and, of the results of `correlate`, the gain over the gap."""
    from matplotlib.figure import Figure

    panels = 1 if ancestors is None else 2
    figure = Figure(figsize=(5.3 * panels, 3.9), layout="constrained")
    grid = figure.subplots(1, panels, squeeze=False)[0]
    _draw_counts(grid[0], counts.labels)
    if correlation is not None and ancestors is not None:
        _draw_gains(grid[1], ancestors, correlation, is_dense=len(counts.labels) > _MANY)
    return figure


def _draw_counts(axes: Axes, labels: pd.DataFrame) -> None:
    # Points of one count would hide each other; the same tree is spread the same way each time.
    shift = np.random.default_rng(0).uniform(-0.26, 0.26, len(labels))
    x = labels["level"] + shift
    is_dense = len(labels) > _MANY
    for i, (kind, marker) in enumerate((("ancestor", "^"), ("leaf", "o"))):
        own = labels[labels["kind"] == kind]
        _scatter(axes, x[own.index], own["captions"], i, marker, kind, is_dense)
    axes.set_yscale("symlog", linthresh=1, linscale=0.45)
    axes.set(xlabel="level in the tree", ylabel="captions that name the label")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=8)


def _draw_gains(
    axes: Axes, ancestors: pd.DataFrame, correlation: dict[str, Any], *, is_dense: bool
) -> None:
    _scatter(axes, ancestors["gap"], 100 * ancestors["gain"], 2, "o", "", is_dense)
    axes.set_xlabel("frequency gap, leaves over ancestor (log10)")
    axes.set_ylabel("gain by leaves (points)")
    r, p_r, rho, p_rho = (correlation[name] for name in _COEFFICIENTS)
    title = f"r = {r:.2f} (p = {p_r:.2g}), ρ = {rho:.2f} (p = {p_rho:.2g})"
    if math.isnan(r):
        title = "no correlation"
    axes.set_title(f"{len(ancestors):,} ancestors: {title}", loc="left", fontsize=9)


def _scatter(
    axes: Axes, x: pd.Series, y: pd.Series, i: int, marker: str, label: str, is_dense: bool
) -> None:
    """Draws points in the i-th colour; many of them become one picture inside a vector graphic."""
    axes.scatter(
        x,
        y,
        s=12,
        alpha=0.6,
        linewidths=0,
        color=CYCLE[i],
        marker=marker,
        label=label,
        rasterized=is_dense,
    )
