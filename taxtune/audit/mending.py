"""Aliases that would mend placements: each is tried with the mapper before it is proposed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from taxtune import atomic
from taxtune.audit.population import Item
from taxtune.audit.result import Audited
from taxtune.audit.verdicts import Finding, Verdict
from taxtune.authoring.proposals import node_path, proposal_rows
from taxtune.progress import track_each
from taxtune.tables import clean, csv_text
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from taxtune.audit.subject import MakeMapper
    from taxtune.mapping import Mapper

__all__ = ["Alias", "Mender", "mend", "with_aliases", "write_proposals"]

#: Longest alias, in words: what is longer is an answer and no name.
_LONGEST = 6
_EDGES = re.compile(r"^\W+|\W+$")
# As `taxtune taxonomy enrich` writes and takes them.
_COLUMNS = ("node", "alias", "source")


@dataclass(frozen=True, slots=True)
class Alias:
    """A name that a node might get.

    Attributes:
        text: The name.
        node: The node's number.
        answer: The answer that asks for it.
        why: Why it does not help; "" where it does.
    """

    text: str
    node: int
    answer: str
    why: str = ""

    @property
    def helps(self) -> bool:
        """Whether it places the answer on the node, and moves no other drawn answer from where it is right."""
        return not self.why


class Mender:
    """Finds aliases that mend, and tries them.

    A name is tried on top of those that were found to help before it, so that together they help as well.

    Args:
        tree: The tree.
        make: Makes the mapper for a tree.
        judged: The drawn answers with what was found of each.
    """

    def __init__(
        self, tree: Taxonomy, make: Callable[[Taxonomy], Mapper], judged: Sequence[tuple[Item, Finding]]
    ) -> None:
        self._tree = tree
        self._make = make
        self._judged = judged
        self._kept: dict[int, tuple[str, ...]] = {}

    def proposals(self) -> list[Alias]:
        """Returns a proposal for each answer for which another node was chosen, in order."""
        wanted = [
            (item, finding)
            for item, finding in self._judged
            if finding.verdict is not Verdict.RIGHT and finding.node not in (None, self._tree.root, item.node)
        ]
        found = []
        for item, finding in track_each(wanted, "trying names"):
            assert finding.node is not None
            tried = [self.check(Alias(text, finding.node, item.answer)) for text in _wordings(item, finding)]
            best = next((alias for alias in tried if alias.helps), tried[0] if tried else None)
            if best is not None:
                found.append(best)
                if best.helps:
                    self.keep(best)
        return found

    def retry(self, alias: Alias, text: str) -> Alias:
        """Returns a proposal in another wording, tried without the former."""
        self._kept[alias.node] = tuple(name for name in self._kept.get(alias.node, ()) if name != alias.text)
        return self.check(replace(alias, text=clean(text), why=""))

    def keep(self, alias: Alias) -> None:
        """Takes an alias as given for those that are tried after it."""
        self._kept[alias.node] = (*self._kept.get(alias.node, ()), alias.text)

    def check(self, alias: Alias) -> Alias:
        """Returns a proposal with why it does not help, if it does not."""
        owners = [node for node in self._tree.find(alias.text) if node != alias.node]
        if owners:
            return replace(alias, why=f"it is already a name of {'/'.join(self._tree.path(owners[0]))}")
        if alias.text in self._kept.get(alias.node, ()):
            return replace(alias, why="")
        if alias.text.casefold() in {name.casefold() for name in self._tree.names(alias.node)}:
            return replace(alias, why="the node already has this name, but the answer is placed elsewhere")
        more = {**self._kept, alias.node: (*self._kept.get(alias.node, ()), alias.text)}
        mapper = self._make(with_aliases(self._tree, more))
        answers = [item.answer for item, _ in self._judged]
        placed = dict(zip(answers, (p.node for p in mapper.place(answers)), strict=True))
        if placed[alias.answer] != alias.node:
            return replace(
                alias, why=f"with it, the answer is placed on {'/'.join(self._tree.path(placed[alias.answer]))}"
            )
        broken = [
            item.answer
            for item, finding in self._judged
            if finding.verdict is Verdict.RIGHT and placed[item.answer] not in (item.node, finding.node)
        ]
        if broken:
            return replace(
                alias, why=f"it changes {len(broken)} correct placements, such as {' '.join(broken[0].split())!r}"
            )
        return alias


def _wordings(item: Item, finding: Finding) -> list[str]:
    """Returns the names that an answer suggests: the words pointed out, those that decided, a short answer whole."""
    texts = (finding.phrase, item.evidence, item.answer)
    tidy = [_EDGES.sub("", clean(text or "")) for text in texts]
    return list(dict.fromkeys(text for text in tidy if text and len(text.split()) <= _LONGEST))


def with_aliases(tree: Taxonomy, more: Mapping[int, Sequence[str]]) -> Taxonomy:
    """Returns a tree whose nodes have further aliases.

    Args:
        tree: The tree; it stays as it is.
        more: Further aliases by node.
    """
    return tree.with_names(aliases=[(*names, *more.get(node, ())) for node, names in enumerate(tree.aliases)])


def mend(
    make: MakeMapper,
    audited: Audited,
    file: Path,
    *,
    choose: Callable[[Sequence[Alias], Mender], Sequence[Alias]] | None = None,
) -> int:
    """Finds the aliases that would mend what is not right, and adds those that are taken to a file of proposals.

    Args:
        make: Makes the mapper for a tree.
        audited: What was judged.
        file: The file, see `write_proposals`.
        choose: Returns which of some aliases to take; None takes those that help.

    Returns:
        How many were added.

    Raises:
        TaxtuneError: If the file that is there is no such file, or it cannot be written.
    """
    tree = audited.population.tree
    # What a mapper keeps of a tree is of no use for one that is only tried.
    with TemporaryDirectory(prefix="taxtune-") as folder:
        mender = Mender(tree, lambda changed: make(changed, Path(folder)), audited.judged)
        known = {(cells["node"], cells["alias"]) for _, cells in _proposed(file)}
        found = [alias for alias in mender.proposals() if (node_path(tree, alias.node), alias.text) not in known]
        if choose is None:
            return write_proposals(file, tree, [alias for alias in found if alias.helps], f"audit, {audited.judge}")
        return write_proposals(file, tree, choose(found, mender) if found else [], "audit")


def write_proposals(path: Path, tree: Taxonomy, taken: Sequence[Alias], source: str) -> int:
    """Adds aliases to a file of proposals, as `taxtune taxonomy enrich TREE --apply` takes them.

    Args:
        path: A CSV file with the columns node (a path), alias and source; made where it is not there.
        tree: The tree.
        taken: The aliases.
        source: Where they are from.

    Returns:
        How many are new.

    Raises:
        TaxtuneError: If the file that is there is no such file, or it cannot be written.
    """
    if not taken:
        return 0
    rows = {(cells["node"], cells["alias"]): cells["source"] for _, cells in _proposed(path)}
    new = {(node_path(tree, alias.node), alias.text): source for alias in taken}
    added = {key: source for key, source in new.items() if key not in rows}
    atomic.write_text(path, csv_text(_COLUMNS, [(*key, where) for key, where in {**rows, **added}.items()]))
    return len(added)


def _proposed(path: Path) -> list[tuple[int, dict[str, str]]]:
    return proposal_rows(path) if path.exists() else []
