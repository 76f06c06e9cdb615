"""Names as people shorten and join them: what goes without saying is left out, a parent's name put in front.

"Ford F-150 Regular Cab 2012" under "Ford" is a "Ford F-150" where no other is, and a "rice dish" among noodle and meat
dishes is "rice". What goes without saying is read off the tree: words that many names end in, words that siblings end
in, and the names of the nodes above.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from taxtune.mapping.normalize import fold_words
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Shortener"]

# Names end in words that tell little if so many do: of all names, or of siblings.
_MANY, _SIBLINGS = 3, 2
_LONGEST_END = 3
_LISTING = re.compile(r"[,()]")
_YEAR = re.compile(r"(?:1[89]|20)\d\d")


class Shortener:
    """Shortens and joins the names of a tree.

    Args:
        taxonomy: The tree.
        parts_of_speech: Tells what an English word or phrase can be: "noun", "adjective", both, or nothing if it is not
            known. Of a leaf's name no noun with a meaning of its own may be all that is left: a "carrot cake" is no
            "carrot". An adjective is never enough: a "viral pneumonia" is not just "viral".
    """

    def __init__(self, taxonomy: Taxonomy, parts_of_speech: Callable[[str], set[str]]) -> None:
        self._taxonomy = taxonomy
        self._parts_of_speech = parts_of_speech
        self._leaves = set(taxonomy.leaves.tolist())
        before: dict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
        for node in range(len(taxonomy)):
            for name in (taxonomy.labels[node], *taxonomy.aliases[node]):
                words = tuple(word for word in fold_words(name) if not _YEAR.fullmatch(word))
                for length in range(1, min(_LONGEST_END, len(words) - 1) + 1):
                    before[words[-length:]].add(words[:-length])
        # All of one maker's models, say, may end alike and yet not like any other's.
        self._ends = {
            end
            for end, starts in before.items()
            if len(starts) >= _MANY and len({start[0] for start in starts}) >= _SIBLINGS
        }

    def names(self, node: int) -> Iterator[tuple[str, str]]:
        """Yields shortened and joined names of a node, each with how it was made."""
        if node == 0:
            return
        own = (self._taxonomy.labels[node], *self._taxonomy.aliases[node])
        made = dict.fromkeys(own, "")
        for step in (self._without_year, self._without_end, self._without_front, self._with_parent):
            for name, how in list(made.items()):
                # A label that lists or explains is not a name: "transportation (roads, bridges, etc.)".
                for other, what in step(node, name) if not _LISTING.search(name) else ():
                    if sum(map(str.isalpha, other)) and len(other) > 1 and fold_words(other) not in self._ends:
                        made.setdefault(other, f"{how}, {what}" if how else what)
                if step == self._without_year and any(_YEAR.fullmatch(word) for word in name.split()):
                    made.pop(name)  # what a year is kept with is not made any shorter
        yield from ((name, how) for name, how in made.items() if how)

    def _without_year(self, node: int, name: str) -> Iterator[tuple[str, str]]:
        words = name.split()
        for kept, year in ((words[:-1], words[-1:]), (words[1:], words[:1])):
            if kept and _YEAR.fullmatch(year[0]):
                yield " ".join(kept), "without the year"

    def _without_end(self, node: int, name: str) -> Iterator[tuple[str, str]]:
        parts = name.split()
        for length in range(1, min(_LONGEST_END, len(parts) - 1) + 1):
            kept, end = " ".join(parts[:-length]), " ".join(parts[-length:])
            folded = fold_words(end)
            generic = folded in self._ends or self._shared_by_siblings(node, folded)
            if generic and not self._adjective(kept) and (node not in self._leaves or not self._noun(kept)):
                yield kept, f"without {end!r}"

    def _shared_by_siblings(self, node: int, end: tuple[str, ...]) -> bool:
        siblings = self._taxonomy.children(int(self._taxonomy.parents[node])).tolist()
        ending = sum(fold_words(self._taxonomy.labels[v])[-len(end) :] == end for v in siblings)
        return node not in self._leaves and ending >= _SIBLINGS

    def _without_front(self, node: int, name: str) -> Iterator[tuple[str, str]]:
        parts = name.split()
        for front in self._names_above(node):
            kept = _after(parts, front)
            if kept:
                yield kept, f"without {front!r}"

    def _with_parent(self, node: int, name: str) -> Iterator[tuple[str, str]]:
        parent = int(self._taxonomy.parents[node])
        if not parent:
            return
        above = (self._taxonomy.labels[parent], *self._taxonomy.aliases[parent])
        names = [one for one in above if not _LISTING.search(one)]
        parts = name.split()
        for front in names:
            kept = _after(parts, front)
            if kept:  # "Chevy Corvette" for "Chevrolet Corvette", where the parent is called both
                for other in names:
                    yield f"{other} {kept}", f"{other!r} for {front!r}"
                return
        # What is not a word may need the parent's name: "Boeing 747" for "747" under "Boeing".
        if node in self._leaves and not any(
            self._parts_of_speech(word) for some in (name, *names) for word in some.split()
        ):
            for front in names:
                yield f"{front} {name}", f"with {front!r}"

    def _noun(self, phrase: str) -> bool:
        return "noun" in self._parts_of_speech(phrase)

    def _adjective(self, phrase: str) -> bool:
        return self._parts_of_speech(phrase.split()[-1]) == {"adjective"}

    def _names_above(self, node: int) -> list[str]:
        above = self._taxonomy.ancestors(node).tolist()[1:-1]
        names = [name for u in above for name in (self._taxonomy.labels[u], *self._taxonomy.aliases[u])]
        # A label such as "outdoor, man-made" says two things, each of which goes without saying below it.
        return list(dict.fromkeys(part for name in names for part in (name, *map(str.strip, name.split(","))) if part))


def _after(parts: Sequence[str], front: str) -> str:
    """Returns what stands behind a name at the front of another, or "" if it does not stand there."""
    count = len(front.split())
    starts = len(parts) > count and fold_words(" ".join(parts[:count])) == fold_words(front)
    return " ".join(parts[count:]) if starts else ""
