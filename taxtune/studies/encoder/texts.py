"""Texts that name nodes of a known level, made from the tree itself, for the study of encoders.

Three kinds: a name that is taken off the tree before the text is placed ("held-out"), so that where it lands shows what
a similarity knows beyond the names that it is given; names inside templates, as answers hold them; and answers that
people have placed. A level is a rank where the tree has ranks, else a depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter

import numpy as np

from taxtune.errors import DataError
from taxtune.mapping.normalize import fold_words
from taxtune.studies.mapping.annotated import AnnotatedAnswers
from taxtune.studies.plurals import plural
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Levels", "TextSet", "annotated_set", "held_out_set", "template_sets", "tree_levels"]

_ROOT, _UNRANKED = "root", "without a rank"
_FIELDS = {"name", "plural"}


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a tree.

    Attributes:
        by: "rank" or "depth".
        of: The level of each node.
        names: The levels from the root down, without the root's own.
    """

    by: str
    of: tuple[str, ...]
    names: tuple[str, ...]

    def nodes(self, level: str) -> list[int]:
        """Returns the nodes of a level."""
        return [v for v, own in enumerate(self.of) if own == level]


@dataclass(frozen=True, slots=True)
class TextSet:
    """Texts of one kind; the tuples are of one length.

    Attributes:
        kind: What they are: "held-out name", a template, "placed answers".
        texts: The texts.
        targets: The node that each names.
        levels: The target's level.
        hidden: The names taken off the tree before these texts are placed, by node.
        notes: What was left out, with counts.
    """

    kind: str
    texts: tuple[str, ...]
    targets: tuple[int, ...]
    levels: tuple[str, ...]
    hidden: Mapping[int, frozenset[str]]
    notes: tuple[str, ...] = ()


def tree_levels(taxonomy: Taxonomy, by: str = "auto") -> Levels:
    """Returns the levels of a tree.

    Args:
        taxonomy: The tree.
        by: "rank", "depth" or "auto", which takes ranks where at least half of the nodes have one.

    Raises:
        DataError: If ranks are asked for and no node has one.
    """
    ranked = sum(rank is not None for rank in taxonomy.ranks)
    if by == "rank" and not ranked:
        raise DataError("No node of the taxonomy has a rank.", file=taxonomy.source, remedy="Use depth.")
    if by == "auto":
        by = "rank" if 2 * ranked >= len(taxonomy) else "depth"
    if by == "depth":
        of = [f"depth {depth}" for depth in taxonomy.depth.tolist()]
    else:
        of = [rank or _UNRANKED for rank in taxonomy.ranks]
    of[0] = _ROOT
    depths: dict[str, list[int]] = {}
    for level, depth in zip(of[1:], taxonomy.depth[1:].tolist(), strict=True):
        depths.setdefault(level, []).append(depth)
    names = sorted(depths, key=lambda level: (float(np.mean(depths[level])), level))
    return Levels(by, tuple(of), tuple(names))


def held_out_set(taxonomy: Taxonomy, levels: Levels, per_level: int, rng: np.random.Generator) -> TextSet:
    """Draws nodes of each level and takes an alias of each off the tree.

    An alias can be held out if no other node has it and the node's label is not the same but for case, plural, spelling
    and the spaces in it; the node's other aliases that are so the same ("seastar" beside "sea stars") go with it.

    Args:
        taxonomy: The tree.
        levels: Its levels.
        per_level: Nodes to draw at each level, or all where there are fewer.
        rng: What draws.
    """
    owners = _owners(taxonomy)
    texts: list[str] = []
    targets: list[int] = []
    hidden: dict[int, frozenset[str]] = {}
    few: list[str] = []
    for level in levels.names:
        nodes = levels.nodes(level)
        choice = {v: _can_be_hidden(taxonomy, v, owners) for v in nodes}
        able = [v for v in nodes if choice[v]]
        if len(able) < min(per_level, len(nodes)):
            few.append(f"{level} {len(able):,} of {len(nodes):,}")
        for v in _drawn(able, per_level, rng):
            alias = choice[v][int(rng.integers(len(choice[v])))]
            word = _word(alias)
            texts.append(alias)
            targets.append(v)
            hidden[v] = frozenset(name for name in taxonomy.names(v)[1:] if _word(name) == word)
    notes = (f"held-out name: nodes with an alias that can be held out: {', '.join(few)}",) if few else ()
    return TextSet("held-out name", tuple(texts), tuple(targets), tuple(levels.of[v] for v in targets), hidden, notes)


def template_sets(
    taxonomy: Taxonomy, levels: Levels, templates: Sequence[str], per_level: int, rng: np.random.Generator
) -> list[TextSet]:
    """Draws nodes of each level and puts a name of each into templates, the same nodes for every template.

    The name is the first of a node's common name, its other aliases and its label that no other node has. A plural is
    made of an alias where the tree has aliases at all, since its labels may be Latin then.

    Args:
        taxonomy: The tree.
        levels: Its levels.
        templates: Texts with `{name}` or `{plural}`.
        per_level: Nodes to draw at each level, or all where there are fewer.
        rng: What draws.

    Raises:
        DataError: If a template has neither field, or another one.
    """
    for template in templates:
        _check_template(template)
    owners = _owners(taxonomy)
    aliased = any(len(taxonomy.names(v)) > 1 for v in range(len(taxonomy)))
    drawn: list[tuple[int, str]] = []
    shared = 0
    for level in levels.names:
        named: list[tuple[int, str]] = []
        for v in levels.nodes(level):
            own = [n for n in (*taxonomy.names(v)[1:], taxonomy.labels[v]) if _word(n) and len(owners[_word(n)]) == 1]
            shared += not own
            named += [(v, own[0])] if own else []
        drawn += [named[i] for i in _drawn(range(len(named)), per_level, rng)]
    sets: list[TextSet] = []
    for template in templates:
        wants_plural = "{plural}" in template
        used = [(v, n) for v, n in drawn if not wants_plural or not aliased or n in taxonomy.names(v)[1:]]
        notes = (
            [f"{template!r}: {shared:,} nodes are not drawn because they share all their names with others"]
            if shared
            else []
        )
        if len(used) < len(drawn):
            notes.append(f"{template!r}: {len(drawn) - len(used):,} nodes have only a label, which is not pluralised")
        sets.append(
            TextSet(
                template,
                tuple(template.format(name=n, plural=plural(n)) for _, n in used),
                tuple(v for v, _ in used),
                tuple(levels.of[v] for v, _ in used),
                {},
                tuple(notes),
            )
        )
    return sets


def annotated_set(answers: AnnotatedAnswers, levels: Levels) -> TextSet:
    """Returns answers that people have placed, by the level of their node."""
    of = tuple(levels.of[v] for v in answers.targets)
    return TextSet("placed answers", answers.answers, answers.targets, of, {}, answers.notes)


def _word(name: str) -> str:
    """Returns a name as one word, but for case, plural and spelling: "sea stars" and "seastar" are one name."""
    return "".join(fold_words(name))


def _owners(taxonomy: Taxonomy) -> dict[str, set[int]]:
    """Returns the nodes that have each name, as `_word` writes it."""
    owners: dict[str, set[int]] = {}
    for v in range(len(taxonomy)):
        for name in taxonomy.names(v):
            owners.setdefault(_word(name), set()).add(v)
    return owners


def _can_be_hidden(taxonomy: Taxonomy, node: int, owners: Mapping[str, set[int]]) -> list[str]:
    label = _word(taxonomy.labels[node])
    found: dict[str, str] = {}
    for alias in taxonomy.names(node)[1:]:
        word = _word(alias)
        if word and word != label and len(owners[word]) == 1:
            found.setdefault(word, alias)
    return list(found.values())


def _drawn(items: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    if len(items) <= count:
        return list(items)
    return sorted(int(items[i]) for i in rng.choice(len(items), size=count, replace=False))


def _check_template(template: str) -> None:
    try:
        fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
    except ValueError as error:
        raise DataError(f"The template cannot be read: {error}.", value=template) from None
    if not fields or not _FIELDS.issuperset(fields):
        raise DataError(
            "A template must contain {name} or {plural} and no other field.",
            value=template,
            remedy="Write 'A: {name}.'",
        )
