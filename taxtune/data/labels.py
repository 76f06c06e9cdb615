"""The node that a label in a file means, however the file spells it."""

from __future__ import annotations

import datetime
import numbers
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from taxtune.errors import TaxonomyError
from taxtune.mapping.normalize import fold_words
from taxtune.settings import LabelWords
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "OUTSIDE",
    "UNNAMED",
    "LabelFinder",
    "Reference",
    "label_references",
    "label_text",
    "leaves_meant",
]

#: What may name a node: a label, alias or id, or a path of labels.
Reference = str | tuple[str, ...]
#: Instead of a node: it is on the whole tree, and not on the part of it that counts.
OUTSIDE = -1
#: What to do with photos whose label no tree has, for messages.
UNNAMED = (
    "A photo that shows nothing of the tree may have its root as its label, one of an unnamed kind the group above; "
    "leave out rows that nobody can label."
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
# "Blank image" says no more than "blank".
_PICTURES = frozenset({"frame", "image", "photo", "photograph", "picture"})
_NUMBER = re.compile(r"^\d+[.\s-]+(?=.*[^\W\d])")
# A possessive that lost its apostrophe: "Wilson_s_Warbler".
_LOST_APOSTROPHE = re.compile(r"(?<=[^\W\d_])[ _-]+s(?=[ _-]|$)")


def label_text(value: object) -> str:
    """Returns the text of a cell with a label, trimmed; "" where it is none.

    A number is a legitimate label, and a whole one has no decimals: pandas and spreadsheets make 12
    a float. Of a day they make a date, which is written as in ISO 8601. A list, an object, true and
    null are no labels.
    """
    if isinstance(value, datetime.date):
        is_missing = value != value  # pandas' NaT
        return "" if is_missing else value.isoformat().removesuffix("T00:00:00")
    if isinstance(value, bool) or not isinstance(value, str | numbers.Real) or value != value:
        return ""
    text = str(value).strip()
    return text if isinstance(value, str) else text.removesuffix(".0")


def label_references(label: str) -> tuple[str, ...]:
    """Returns the names on a taxonomy that a label may refer to, the most literal first.

    Underscores may stand for spaces, a number before a name ("012.Black_footed_Albatross") is
    passed over, and an id may be filled up with zeros ("0817" for "817", as NABirds has it) or
    written as a float ("817.0").
    """
    spaced = label.replace("_", " ").strip()
    bare = "/".join(_NUMBER.sub("", part) for part in spaced.split("/"))
    whole = label.removesuffix(".0")
    unfilled = (whole.lstrip("0") or "0",) if whole.isdecimal() else ()
    return tuple(dict.fromkeys((label, spaced, bare, *unfilled)))


def leaves_meant(labels: Iterable[str]) -> str:
    """Returns a note on labels of a leaf and groups above it, see `LabelFinder.leaves`."""
    names = ", ".join(map(repr, sorted(labels)))
    return f"as a label {names} is the leaf, not the group of that name above it"


class LabelFinder:
    """Finds the nodes that labels mean.

    Args:
        taxonomy: The tree that labels are on.
        part: What it is a part of; None for the whole.
        words: What labels say that no tree has; None for the words that are usual.

    Attributes:
        leaves: The labels that several nodes have, of which the leaf is meant: all others are above
            it.
    """

    def __init__(
        self, taxonomy: Taxonomy, part: Domain | None = None, words: LabelWords | None = None
    ) -> None:
        self.leaves: set[str] = set()
        words = words or LabelWords()
        self._kinds: dict[str, str] = {}
        for phrase in words.left_out:
            self._kinds[_phrase(phrase)] = "left_out"
        for phrase in words.nothing:
            self._kinds[_phrase(phrase)] = "nothing"
        names = [*taxonomy.names(taxonomy.root)]
        if part is not None:
            for above in part.full.ancestors(part.root).tolist():
                names += part.full.names(above)
        for name in names:
            self._kinds[_phrase(f"no {name}")] = "nothing"
        around = map(_words, words.unnamed)
        self._around = list(filter(None, around))
        self._part = part
        self._names = [_Names(taxonomy)]
        if part is not None:
            self._names.append(_Names(part.full))

    def node(self, references: Iterable[Reference]) -> int | None:
        """Returns the node of the first reference that names one.

        It is `OUTSIDE` of the part, or None for none.

        A name that the part has is looked for nowhere else. Where no reference is on the tree,
        case, hyphens, apostrophes, accents and plurals make no difference, as in answers.

        Raises:
            TaxonomyError: If several nodes have the name; it lists their paths.
        """
        references = tuple(references)
        for names in self._names:
            nodes, name = names.of(references)
            if len(nodes) > 1 and (leaf := names.leaf_below(nodes)) is not None:
                self.leaves.add(name)
                nodes = [leaf]
            if nodes and self._part is not None and names is self._names[1]:
                inside = self._part.inside(nodes[0])
                return OUTSIDE if inside is None or len(nodes) > 1 else inside
            if len(nodes) > 1:
                options = ", ".join("/".join(names.tree.path(node)) for node in nodes[:5])
                message = f"{len(nodes)} nodes are called {name!r}."
                raise TaxonomyError(
                    message, file=names.tree.source, remedy=f"Give the path: {options}."
                )
            if nodes:
                return nodes[0]
        return None

    def unnamed(self, label: str) -> tuple[str, int, str] | None:
        """Returns of a label that the tree lacks its `kind`, its node, and a phrase for a note.

        It is None where the label is a name. Where nothing is there ("blank") the node is the root,
        of an unnamed kind ("unidentified bird") the group. One that is not known at all ("unknown")
        is `OUTSIDE`.

        Raises:
            TaxonomyError: If several nodes have the group's name.
        """
        tree = self._names[0].tree
        kind, groups = self.kind(label)
        if kind == "nothing":
            return kind, 0, f"{label!r} is nothing of the tree: its root, {tree.labels[0]!r}"
        references: list[str] = []
        for name in groups:
            references += label_references(name)
        group = self.node(references)
        if group is not None:
            where = "what is outside" if group == OUTSIDE else f"the group {tree.labels[group]!r}"
            return "unnamed", group, f"{label!r} is of an unnamed kind: {where}"
        return (kind, OUTSIDE, f"{label!r} is not known") if kind == "left_out" else None

    def kind(self, label: str) -> tuple[str, tuple[str, ...]]:
        """Returns the field of `LabelWords` that a label is of, "" for a name, and its groups.

        Of "fauna/unidentified bird" these are "bird" and "fauna".
        """
        *above, last = label.split("/")
        kind = self._kinds.get(_phrase(last), "")
        kind = self._kinds.get(_phrase(label), kind)
        words = _WORD.findall(last)
        rest = self._stripped(words)
        if len(rest) == len(words):
            return kind, ()
        kind = kind or ("unnamed" if rest else "left_out")
        groups = (" ".join(rest), "/".join(above))
        return kind, tuple(filter(None, groups))

    def empty(self, labels: Iterable[str]) -> set[str]:
        """Returns those of labels that say that nothing is there, and name no node."""
        found = set()
        for label in labels:
            kind, _ = self.kind(label)
            if kind == "nothing" and self.node(label_references(label)) is None:
                found.add(label)
        return found

    def _stripped(self, words: list[str]) -> list[str]:
        folded = list(map(_fold, words))
        for phrase in self._around:
            n = len(phrase)
            if folded[:n] == phrase:
                return self._stripped(words[n:])
            if folded[-n:] == phrase:
                return self._stripped(words[:-n])
        return words


class _Names:
    """The names of one tree."""

    def __init__(self, tree: Taxonomy) -> None:
        self.tree = tree

    def of(self, references: Sequence[Reference]) -> tuple[list[int], str]:
        """Returns the nodes of the first reference that is on the tree, and their name.

        A reference that one node alone has comes first. For none there are no nodes, and the name
        "".
        """
        found = [(self._written(reference), str(reference)) for reference in references]
        if not any(nodes for nodes, _ in found):
            texts = [reference for reference in references if isinstance(reference, str)]
            found = [(self._folded.get(_fold(text), []), text) for text in texts]
        named = [(nodes, name) for nodes, name in found if nodes]
        unique = [(nodes, name) for nodes, name in named if len(nodes) == 1]
        return [*unique, *named, ([], "")][0]

    def _written(self, reference: Reference) -> list[int]:
        """Returns the nodes of a reference as it is written."""
        tree = self.tree
        path = reference
        if isinstance(reference, str):
            nodes = tree.find(reference)
            if nodes:
                return self._labelled(nodes, reference.strip())
            if reference in tree.by_id:
                return [tree.by_id[reference]]
            path = tuple(part.strip() for part in reference.split("/") if part.strip())
            if len(path) < 2:
                return []
        try:
            return [tree.resolve(path)]
        except TaxonomyError:
            return []

    def _labelled(self, nodes: list[int], name: str) -> list[int]:
        """Returns the nodes that have a name as their label, or all if none has."""
        labels = self.tree.labels
        alike = [node for node in nodes if labels[node].casefold() == name.casefold()]
        exact = [node for node in alike if labels[node] == name]
        return exact or alike or nodes

    def leaf_below(self, nodes: list[int]) -> int | None:
        """Returns the leaf of some nodes if all others are above it.

        Such is the class "pizza" in a group "pizza".
        """
        lowest = max(nodes, key=lambda node: int(self.tree.depth[node]))
        is_leaf = not len(self.tree.children(lowest)) and self.tree.is_ancestor(nodes, lowest).all()
        return lowest if is_leaf else None

    @cached_property
    def _folded(self) -> dict[str, list[int]]:
        nodes: dict[str, dict[int, None]] = defaultdict(dict)
        labelled = zip(self.tree.labels, self.tree.aliases, strict=True)
        for node, (label, aliases) in enumerate(labelled):
            for name in (label, *aliases):  # a name that only leads to a node is no reference to it
                nodes[_fold(name)][node] = None
        nodes.pop("", None)
        return {key: [*own] for key, own in nodes.items()}


def _fold(name: str) -> str:
    return "".join(fold_words(_LOST_APOSTROPHE.sub("'s", name)))


def _phrase(text: str) -> str:
    """Returns a phrase in comparable form, without words for pictures; of signs the different ones."""
    words = _words(text)
    said = [word for word in words if word not in _PICTURES]
    signs = set(text.strip())
    return "".join(said or words or sorted(signs))


def _words(text: str) -> list[str]:
    return list(map(_fold, _WORD.findall(text)))
