"""From the rows of a checklist, accepted names and synonyms with ids, to the nodes of a tree.

Darwin Core archives and ColDP packages both state *name usages*: a name that is accepted as a taxon's, with its parent,
or a synonym, with the taxon that it stands for. Checklists are published with taxa without a parent, parents that are
in no row, and siblings that share a name; what that means for the tree is decided here, once, and every decision is a
counted note.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from taxtune.taxonomy.raw import RawNode, RawTaxonomy
from taxtune.taxonomy.readers.archive import tidy
from taxtune.taxonomy.readers.authorship import split_authorship

__all__ = ["GROUP_RANKS", "ROOT", "UsageCollector"]

#: The label of a root that is added where a checklist has several or none.
ROOT = "life"
#: Columns of a checklist that names the groups of each taxon instead of its parent.
GROUP_RANKS = ("kingdom", "phylum", "class", "order", "superfamily", "family", "subfamily", "tribe", "genus")

_SYNONYMS = ("synonym", "misapplied", "unaccepted", "not accepted", "invalid")
_NO_RANK = frozenset({"", "unranked", "no rank", "unknown", "not available"})


@dataclass(frozen=True, slots=True)
class _Taxon:
    row: int
    parent: Hashable
    name: str
    rank: str | None
    author: str


class UsageCollector:
    """Gathers taxa, synonyms and common names in any order, and makes nodes of them.

    Args:
        file: The file that the rows are in, for messages.
        format: The format that it is read as.
        root: The label of a root that has to be added.
    """

    def __init__(self, file: str, format: str, root: str | None = None) -> None:
        self.raw = RawTaxonomy(file, format)
        self._root = root or ROOT
        self._taxa: dict[Hashable, _Taxon] = {}
        self._other_ids: dict[Hashable, Hashable] = {}
        self._synonyms: dict[Hashable, tuple[int, Hashable, str]] = {}
        self._groups: dict[Hashable, list[tuple[str, str]]] = {}
        self._cited: list[int] = []
        self._common: dict[Hashable, list[tuple[bool, str]]] = {}
        self._counts: dict[str, tuple[int, int | None]] = {}
        self._provisional = 0
        self._long: tuple[int, int] | None = None

    # -- what the rows say ---------------------------------------------------------------------------------------------

    def taxon(
        self,
        row: int,
        identity: Hashable,
        parent: Hashable,
        name: str,
        rank: str = "",
        author: str = "",
        *,
        groups: Sequence[tuple[str, str]] = (),
        provisional: bool = False,
    ) -> None:
        """Adds an accepted name.

        Args:
            row: Its row.
            identity: Its id.
            parent: The parent's id; "" where it has none or only its groups are known.
            name: The name, perhaps with its authorship behind it.
            rank: Its rank.
            author: Its authorship, which tells siblings of one name apart.
            groups: Pairs of rank and name from the top down, which say where a taxon without a parent's id belongs.
            provisional: Whether it is accepted provisionally.
        """
        name, author = self._without_author(row, name, author)
        if not name:
            self.raw.flaw("empty name", "The taxon has no name.", row, tidy(str(identity)), "Fill in the name.")
            name = str(identity)
        folded = rank.lower()
        taxon = _Taxon(row, parent, name, None if folded in _NO_RANK else folded, author)
        first = self._taxa.setdefault(identity, taxon)
        if first is not taxon:
            same = (first.parent, first.name, first.rank) == (taxon.parent, taxon.name, taxon.rank)
            self.raw.repeated("id", first.row, row, tidy(str(identity)), same=same)
            return
        self._provisional += provisional
        levels = [level for level, _ in groups]
        above = groups[: levels.index(folded)] if folded in levels else groups
        named = [(level, group) for level, group in above if group]
        if named and not parent:
            self._groups[identity] = named

    def usage(
        self,
        row: int,
        identity: str,
        name: str,
        *,
        parent: str,
        accepted: str,
        status: str,
        rank: str,
        author: str,
        groups: Sequence[tuple[str, str]],
    ) -> None:
        """Adds what a row of a checklist says: a taxon, a synonym, or nothing that counts.

        Args:
            row: The row.
            identity: Its id.
            name: The name.
            parent: The parent's id.
            accepted: The id of the name that this one is a synonym of; "" where none is stated.
            status: What the checklist says of the name.
            rank: Its rank.
            author: Its authorship.
            groups: Pairs of rank and name from the top down, for a taxon without a parent's id.
        """
        state = status.lower()
        is_synonym = bool(accepted) or any(word in state for word in _SYNONYMS)
        if state == "bare name":
            self.leave_out("bare names, neither accepted nor synonyms,", row)
        elif "misapplied" in state:
            self.leave_out("misapplied names", row)
        elif is_synonym:
            self.synonym(row, identity, accepted, name, author)
        elif not identity:
            self.leave_out("rows without an id", row)
        else:
            doubtful = "doubtful" in state or "provisional" in state
            self.taxon(row, identity, parent, name, rank, author, groups=() if parent else groups, provisional=doubtful)

    def known_as(self, other: Hashable, identity: Hashable) -> None:
        """Makes another id, which other rows may use, stand for a taxon."""
        if other and other != identity:
            self._other_ids[other] = identity

    def synonym(self, row: int, identity: Hashable, accepted: Hashable, name: str, author: str = "") -> None:
        """Adds a synonym: another name of the taxon with the id `accepted`."""
        if not accepted:
            self.leave_out("synonyms without an accepted name", row)
        elif name:
            self._synonyms[identity or ("synonym", row)] = (row, accepted, self._without_author(row, name, author)[0])
        else:
            self.leave_out("synonyms without a name", row)

    def common_name(self, taxon: Hashable, name: str, *, preferred: bool = False) -> None:
        """Adds a common name of a taxon."""
        if name:
            self._common.setdefault(taxon, []).append((not preferred, name))

    def leave_out(self, what: str, row: int | None) -> None:
        """Counts something that is left out, by what it is."""
        count, first = self._counts.get(what, (0, row))
        self._counts[what] = (count + 1, first)

    def ragged(self, row: int, cells: Sequence[str], columns: int) -> bool:
        """Tells whether a row has cells beyond the columns, and notes it as a defect.

        Where these are empty the row is used: something may have put delimiters at its end, or one may stand in a name.
        """
        if len(cells) <= columns:
            return False
        if not any(cells[columns:]):
            count, first = self._long or (0, row)
            self._long = (count + 1, first)
            return False
        message = f"The row has {len(cells)} cells, the header {columns}."
        remedy = "Put a name that contains the delimiter in quotes."
        self.raw.flaw("ragged row", message, row, tidy(cells[columns]), remedy)
        return True

    # -- what they make ------------------------------------------------------------------------------------------------

    def finish(self) -> RawTaxonomy:
        """Returns the nodes and notes."""
        self._hang_in_groups()
        aliases = self._aliases()
        parents = self._parents()
        siblings: dict[tuple[Hashable, str], str | None] = {}
        renamed = 0
        for key, taxon in self._taxa.items():
            if key not in parents:
                continue
            parent, label, names = parents[key], taxon.name, aliases.get(key, ())
            if (parent, label) in siblings:
                label = self._told_apart(key, taxon, siblings[parent, label], siblings, parent)
                names = (*names, taxon.name)
                renamed += 1
            siblings[parent, label] = taxon.rank
            self.raw.nodes.append(RawNode(key, parent, label, tuple(names), taxon.rank, taxon.row))
        if renamed:
            self.raw.note(
                "renamed", f"Named like a sibling, and distinguished by rank, authorship or id: {_taxa(renamed)}."
            )
        if self._cited:
            self.raw.note(
                "authorship",
                f"Removed authorship from names: {len(self._cited):,} (first: row {self._cited[0]}).",
                self._cited[0],
            )
        if self._provisional:
            self.raw.note("provisional", f"Provisionally accepted: {_taxa(self._provisional)}.")
        if self._long is not None:
            self.raw.note(
                "ragged row",
                f"Rows with extra empty cells: {self._long[0]:,} row{'' if self._long[0] == 1 else 's'} "
                f"(first: row {self._long[1]}). This can come from an unquoted name that contains the delimiter.",
                self._long[1],
            )
        for what, (count, row) in self._counts.items():
            self.raw.note(
                "left out", f"Left out: {count:,} {what}" + ("." if row is None else f" (first: row {row})."), row
            )
        return self.raw

    def _without_author(self, row: int, name: str, author: str) -> tuple[str, str]:
        short, by = split_authorship(name, author, cited=True)
        if short != name and not author:
            self._cited.append(row)
        return short, by

    def _hang_in_groups(self) -> None:
        """Gives each taxon without a parent's id the lowest of its groups as parent, and makes those in no row.

        A file that gives ids has one taxon without a parent at its top: that is the root, whatever its groups.
        """
        tops = [key for key, taxon in self._taxa.items() if taxon.parent == ""]
        if len(tops) == 1 < len(self._taxa):
            return
        known: dict[tuple[str | None, str], list[Hashable]] = {}
        for key, taxon in self._taxa.items():
            known.setdefault((taxon.rank, taxon.name), []).append(key)
        for start in tops:
            groups = dict(self._groups.get(start, ()))
            above: Hashable = ""
            path: tuple[str, ...] = ()
            stated: list[tuple[str, str]] = []
            for level, group in groups.items():
                path = (*path, group)
                # Two families may have a genus of one name: the groups that both state must be the same.
                same = (
                    key
                    for key in known.get((level, group), ())
                    if key != start and all(groups.get(r, g) == g for r, g in self._groups.get(key, ()))
                )
                key = next(same, None)
                if key is None:
                    key = path
                    self._taxa[key] = _Taxon(self._taxa[start].row, above, group, level, "")
                    self._groups[key] = list(stated)
                    known.setdefault((level, group), []).append(key)
                stated.append((level, group))
                above = key
            if not self._is_above(start, above):
                self._taxa[start] = replace(self._taxa[start], parent=above)

    def _is_above(self, key: Hashable, other: Hashable) -> bool:
        """Tells whether a taxon is above another, or the same."""
        seen: set[Hashable] = set()
        while other in self._taxa and other not in seen:
            if other == key:
                return True
            seen.add(other)
            other = self._taxa[other].parent
        return False

    def _told_apart(
        self,
        key: Hashable,
        taxon: _Taxon,
        rank: str | None,
        siblings: dict[tuple[Hashable, str], str | None],
        parent: Hashable,
    ) -> str:
        options = [f"{taxon.name} [{key}]"]
        if taxon.author:
            options.insert(0, f"{taxon.name} {taxon.author}")
        if taxon.rank is not None and taxon.rank != rank:
            options.insert(0, f"{taxon.name} ({taxon.rank})")
        return next((label for label in options if (parent, label) not in siblings), options[-1])

    def _accepted(self, identity: Hashable) -> Hashable | None:
        """Returns the taxon that an id stands for, through synonyms of synonyms, or None."""
        seen: set[Hashable] = set()
        while identity not in seen:
            seen.add(identity)
            identity = self._other_ids.get(identity, identity)
            if identity in self._taxa:
                return identity
            if identity in self._synonyms:
                identity = self._synonyms[identity][1]
            elif isinstance(identity, str) and "/" in identity:
                identity = identity.rsplit("/", 1)[-1]  # ids that are given as addresses in one column only
        return None

    def _parents(self) -> dict[Hashable, Hashable | None]:
        """Returns the parent of each taxon that is on the tree; adds a root where one is needed."""
        found: dict[Hashable, Hashable | None] = {}
        tops: list[Hashable] = []
        orphans: list[Hashable] = []
        unknown: dict[Hashable, None] = {}
        for key, taxon in self._taxa.items():
            if taxon.parent == "":
                tops.append(key)
                continue
            found[key] = taxon.parent if taxon.parent in self._taxa else self._accepted(taxon.parent)
            if found[key] is None:
                orphans.append(key)
                unknown[taxon.parent] = None
        if not tops:
            # An excerpt of a checklist: what hangs on missing rows is at the top.
            tops, orphans = orphans, []
        for key in tops:
            found[key] = None
        if len(tops) > 1:
            found |= dict.fromkeys(tops, self._add_root(len(tops), list(unknown)))
        if orphans:
            self._leave_out_below(orphans, found)
        return found

    def _add_root(self, tops: int, unknown: list[Hashable]) -> Hashable:
        key: Hashable = unknown[0] if len(unknown) == 1 and unknown[0] not in self._taxa else ("root", self._root)
        self.raw.nodes.append(RawNode(key, None, self._root))
        self.raw.note(
            "added root", f"Nodes without a parent in the file, now under an added root {self._root!r}: {_taxa(tops)}."
        )
        return key

    def _leave_out_below(self, orphans: list[Hashable], found: dict[Hashable, Hashable | None]) -> None:
        """Takes the orphans and everything below them out of `found`."""
        lost: dict[Hashable, bool] = dict.fromkeys(orphans, True)
        for start in list(found):
            walk: list[Hashable] = []
            key: Hashable | None = start
            on_walk: set[Hashable] = set()
            while key is not None and key not in lost and key not in on_walk:  # a cycle is the graph's to report
                walk.append(key)
                on_walk.add(key)
                key = found.get(key)
            fate = lost.get(key, False) if key is not None else False
            lost.update(dict.fromkeys(walk, fate))
        gone = [key for key in found if lost[key]]
        for key in gone:
            del found[key]
        first = self._taxa[orphans[0]]
        self.raw.note(
            "left out",
            f"Left out: {_taxa(len(gone))}, {len(orphans):,} whose parent has no row (first: {first.name!r}, "
            f"row {first.row}, parent {first.parent!r}) and what is below them.",
            first.row,
        )

    def _aliases(self) -> dict[Hashable, tuple[str, ...]]:
        """Returns the other names of each taxon: common names, the preferred ones first, then synonyms."""
        names: dict[Hashable, dict[str, str]] = {}
        for identity, given in self._common.items():
            key = identity if identity in self._taxa else self._accepted(identity)
            if key is None:
                for _ in given:
                    self.leave_out("common names of taxa without a row", None)
                continue
            table = names.setdefault(key, {})
            for _, name in sorted(given, key=lambda pair: pair[0]):
                table.setdefault(name.casefold(), name)
        used = 0
        for row, accepted, name in self._synonyms.values():
            key = self._accepted(accepted)
            if key is None:
                self.leave_out("synonyms whose accepted name has no row", row)
                continue
            used += 1
            names.setdefault(key, {}).setdefault(name.casefold(), name)
        if used:
            self.raw.note("synonyms", f"Added as aliases of their accepted names: {used:,} synonyms.")
        for key, table in names.items():
            table.pop(self._taxa[key].name.casefold(), None)
        return {key: tuple(table.values()) for key, table in names.items()}


def _taxa(count: int) -> str:
    return f"{count:,} tax{'on' if count == 1 else 'a'}"
