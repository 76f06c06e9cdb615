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
from taxtune.studies.embedding import plural
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
    of = (
        [f"depth {d}" for d in taxonomy.depth]
        if by == "depth"
        else [rank or _UNRANKED for rank in taxonomy.ranks]
    )
    levels = pd.Series(["root", *of[1:]])
    depths = pd.Series(taxonomy.depth).iloc[1:].groupby(levels).mean()
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
    names = _names(taxonomy)
    labels = names[names["label"]].set_index("node")["word"]
    free = names[names["own"] & ~names["label"] & (names["word"] != names["node"].map(labels))]
    choices = free.drop_duplicates(["node", "word"]).groupby("node")["name"].agg(list).to_dict()
    rows: list[tuple[str, str, int]] = []
    hidden: dict[int, set[str]] = {}
    few: list[str] = []
    for level in levels.names:
        nodes = levels.nodes(level)
        able = [v for v in nodes if v in choices]
        if len(able) < min(per_level, len(nodes)):
            few.append(f"{level} {len(able):,} of {len(nodes):,}")
        for v in _drawn(able, per_level, rng):
            alias = choices[v][int(rng.integers(len(choices[v])))]
            rows.append((HELD_OUT, alias, v))
            hidden[v] = {name for name in taxonomy.names(v)[1:] if _word(name) == _word(alias)}
    notes = (
        [f"{HELD_OUT}: nodes with an alias that can be held out: {', '.join(few)}"] if few else []
    )
    return pd.DataFrame(rows, columns=_COLUMNS), hidden, notes


def without_names(taxonomy: Taxonomy, hidden: Mapping[int, set[str]]) -> Taxonomy:
    """Returns the tree without some aliases and leads of some nodes."""

    def kept(names: Sequence[Sequence[str]]) -> list[list[str]]:
        return [
            [name for name in some if name not in hidden.get(v, ())] for v, some in enumerate(names)
        ]

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
        if set(re.findall(r"\{.*?\}|[{}]", template)) not in (
            {"{name}"},
            {"{plural}"},
            {"{name}", "{plural}"},
        ):
            raise DataError(
                "A template must contain {name} or {plural} and no other field.", value=template
            )
    names = _names(taxonomy)
    own = (
        names[names["own"]]
        .sort_values(["node", "label"], kind="stable")
        .drop_duplicates("node")
        .set_index("node")
    )
    named = {v: (name, label) for v, name, label in own[["name", "label"]].itertuples(name=None)}
    able = {level: [v for v in levels.nodes(level) if v in named] for level in levels.names}
    drawn = [v for nodes in able.values() for v in _drawn(nodes, per_level, rng)]
    shared = len(taxonomy) - 1 - sum(map(len, able.values()))
    rows: list[tuple[str, str, int]] = []
    notes = (
        [f"{shared:,} nodes are not drawn because they share all their names with others"]
        if shared
        else []
    )
    for template in templates:
        pluralised = "{plural}" in template and not names["label"].all()
        used = [v for v in drawn if not pluralised or not named[v][1]]
        rows += [
            (template, template.format(name=named[v][0], plural=plural(named[v][0])), v)
            for v in used
        ]
        if len(used) < len(drawn):
            notes.append(
                f"{template!r}: {len(drawn) - len(used):,} nodes have only a label, which is not pluralised"
            )
    return pd.DataFrame(rows, columns=_COLUMNS), notes


def _word(name: str) -> str:
    """A name as one word, but for case, plural and spelling: "sea stars" and "seastar" are one name."""
    return "".join(fold_words(name))


def _names(taxonomy: Taxonomy) -> pd.DataFrame:
    """A row per name: its node, the name as a word, whether it is the label, and whether no other node has the word."""
    rows = [
        (v, n, _word(n), i == 0)
        for v in range(len(taxonomy))
        for i, n in enumerate(taxonomy.names(v))
    ]
    names = pd.DataFrame(rows, columns=["node", "name", "word", "label"])
    return names.assign(
        own=(names.groupby("word")["node"].transform("nunique") == 1) & (names["word"] != "")
    )


def _drawn(items: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    if len(items) <= count:
        return list(items)
    return sorted(int(items[i]) for i in rng.choice(len(items), size=count, replace=False))
