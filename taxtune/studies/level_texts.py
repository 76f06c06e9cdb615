"""Texts that name nodes of a known level, made from the tree itself, for the study of encoders.

A name that is taken off the tree before the text is placed ("held-out") shows what a similarity knows beyond the names
that it is given; names inside templates are as answers hold them; and leaves are to be classified as their ancestors. A
level is a rank where the tree has ranks, else a depth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from taxtune.errors import DataError
from taxtune.mapping.normalize import fold_words
from taxtune.studies.frames import groups
from taxtune.studies.plurals import plural
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["HELD_OUT", "Levels", "held_out_texts", "template_texts", "tree_levels", "without_names"]

#: The kind of text whose name is taken off the tree.
HELD_OUT = "held-out name"

_UNRANKED = "without a rank"
_COLUMNS = ["kind", "text", "target"]


class Levels(NamedTuple):
    """What levels are ("rank" or "depth"), the level of each node, and the levels below the root from above."""

    by: str
    of: pd.Series
    names: list[str]

    def nodes(self, level: str) -> list[int]:
        """Returns the nodes of a level."""
        nodes: list[int] = self.of.index[self.of == level].tolist()
        return nodes


def tree_levels(taxonomy: Taxonomy, by: str = "auto") -> Levels:
    """Returns the levels of a tree by "rank", "depth", or "auto": ranks where at least half of the nodes have one.

    Raises a DataError if no node has a rank and `by` is "rank".
    """
    ranked = sum(rank is not None for rank in taxonomy.ranks)
    if by == "rank" and not ranked:
        raise DataError(
            "No node of the taxonomy has a rank.", file=taxonomy.source, remedy="Use depth."
        )
    if by == "auto":
        by = "rank" if 2 * ranked >= len(taxonomy) else "depth"
    if by == "depth":
        of = [f"depth {depth}" for depth in taxonomy.depth]
    else:
        of = [rank or _UNRANKED for rank in taxonomy.ranks]
    levels = pd.Series(["root", *of[1:]])
    depths = pd.Series(taxonomy.depth[1:]).groupby(of[1:]).mean()
    return Levels(by, levels, sorted(depths.index, key=lambda level: (depths[level], level)))


def held_out_texts(
    taxonomy: Taxonomy, levels: Levels, per_level: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, dict[int, set[str]], list[str]]:
    """Draws nodes of each level and takes an alias of each off the tree.

    An alias can be held out if no other node has it and the node's label is not the same but for case, plural, spelling
    and spaces; the node's other aliases that are the same in this way ("seastar" beside "sea stars") go with it.

    Returns:
        A row per text (kind, text, target), the names taken off the tree by node, and notes.
    """
    choices = _free_aliases(taxonomy)
    rows: list[tuple[str, str, int]] = []
    hidden: dict[int, set[str]] = {}
    few: list[str] = []
    for level in levels.names:
        nodes = levels.nodes(level)
        able = [node for node in nodes if node in choices]
        if len(able) < min(per_level, len(nodes)):
            few.append(f"{level} {len(able):,} of {len(nodes):,}")
        for node in _drawn(able, per_level, rng):
            aliases = choices[node]
            alias = aliases[int(rng.integers(len(aliases)))]
            rows.append((HELD_OUT, alias, node))
            others = taxonomy.names(node)[1:]
            hidden[node] = {name for name in others if _word(name) == _word(alias)}
    notes = []
    if few:
        notes.append(f"{HELD_OUT}: nodes with an alias that can be held out: {', '.join(few)}")
    return pd.DataFrame(rows, columns=_COLUMNS), hidden, notes


def _free_aliases(taxonomy: Taxonomy) -> dict[int, list[str]]:
    """Returns the aliases that can be held out of each node that has any."""
    names = _names(taxonomy)
    labels = names[names["label"]].set_index("node")["word"]
    is_other = names["word"] != names["node"].map(labels)
    free = names[names["own"] & ~names["label"] & is_other]
    distinct = free.drop_duplicates(["node", "word"])
    return {node: rows["name"].tolist() for node, rows in groups(distinct, "node").items()}


def without_names(taxonomy: Taxonomy, hidden: Mapping[int, set[str]]) -> Taxonomy:
    """Returns the tree without some aliases and leads of some nodes."""

    def kept(names: Sequence[Sequence[str]]) -> list[list[str]]:
        remaining = []
        for node, own in enumerate(names):
            gone = hidden.get(node, set())
            remaining.append([name for name in own if name not in gone])
        return remaining

    return taxonomy.with_names(aliases=kept(taxonomy.aliases), leads=kept(taxonomy.leads))


def template_texts(
    taxonomy: Taxonomy,
    levels: Levels,
    templates: Sequence[str],
    per_level: int,
    rng: np.random.Generator,
) -> tuple[pd.DataFrame, list[str]]:
    """Draws nodes of each level and puts a name of each into templates, the same nodes for every template.

    The name is the first of a node's common name, its other aliases and its label that no other node has. A plural is
    made of an alias where the tree has aliases at all, since its labels may be Latin then.

    Returns:
        A row per text (kind: the template, text, target), and notes.

    Raises:
        DataError: If a template contains neither {name} nor {plural}, or another field.
    """
    for template in templates:
        fields = set(re.findall(r"\{.*?\}|[{}]", template))
        if not fields or not fields <= {"{name}", "{plural}"}:
            message = "A template must contain {name} or {plural} and no other field."
            raise DataError(message, value=template)
    names = _names(taxonomy)
    # Aliases come before the label.
    own = names[names["own"]].sort_values(["node", "label"], kind="stable")
    chosen = own.drop_duplicates("node").set_index("node")
    drawn = []
    able = 0
    for level in levels.names:
        nodes = [node for node in levels.nodes(level) if node in chosen.index]
        able += len(nodes)
        drawn += _drawn(nodes, per_level, rng)
    notes = []
    shared = len(taxonomy) - 1 - able
    if shared:
        all_names = "because they share all their names with others"
        notes.append(f"{shared:,} nodes are not drawn {all_names}")
    rows: list[tuple[str, str, int]] = []
    for template in templates:
        used = chosen.loc[drawn].reset_index()
        if "{plural}" in template and not names["label"].all():
            used = used[~used["label"]]
        for node, name in zip(used["node"], used["name"], strict=True):
            rows.append((template, template.format(name=name, plural=plural(name)), node))
        if len(used) < len(drawn):
            nodes_left = f"{len(drawn) - len(used):,} nodes"
            notes.append(f"{template!r}: {nodes_left} have only a label, which is not pluralised")
    return pd.DataFrame(rows, columns=_COLUMNS), notes


def _word(name: str) -> str:
    """A name as one word, but for case, plural and spelling: "sea stars" and "seastar" are one name."""
    return "".join(fold_words(name))


def _names(taxonomy: Taxonomy) -> pd.DataFrame:
    """A row per name: its node, the name as a word, whether it is the label, and whether no other node has the word."""
    rows = []
    for node in range(len(taxonomy)):
        for i, name in enumerate(taxonomy.names(node)):
            rows.append((node, name, _word(name), i == 0))
    names = pd.DataFrame(rows, columns=["node", "name", "word", "label"])
    holders = names.groupby("word")["node"].transform("nunique")
    names["own"] = (holders == 1) & (names["word"] != "")
    return names


def _drawn(items: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    if len(items) <= count:
        return list(items)
    return sorted(int(items[i]) for i in rng.choice(len(items), size=count, replace=False))
