"""WordNet's own database files, `data.noun` and `data.verb`: synsets, their words and what they are kinds of.

A synset's id is its part of speech and its offset in the file, as ImageNet writes them: "n02084071" in WordNet 3.0. The
format is described in WordNet's manual page wndb(5WN).
"""

from __future__ import annotations

import re
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.building.edges import EdgeCollector
from taxtune.taxonomy.sources.lines import lines

__all__ = ["is_wordnet_data", "read_wordnet_data"]

# Offset, lexicographer's file, part of speech, number of words: what a line of any of the files begins with.
_SYNSET = re.compile(r"\d{8} \d\d [nv] [0-9a-f]{2} ")
_ABOVE = ("@", "@i")  # a kind of, an instance of


def is_wordnet_data(line: str) -> bool:
    """Tells whether a line is a synset of WordNet's database files."""
    return _SYNSET.match(line) is not None


def read_wordnet_data(path: Path, into: EdgeCollector) -> None:
    """Reads the hypernyms and instance hypernyms of every synset; its first word is its label, the others are aliases.

    Args:
        path: `data.noun` or `data.verb`, packed or not. The licence at its head is passed over.
        into: Where edges and names go.

    Raises:
        TaxonomyError: If a line is no synset.
    """
    into.start(str(path))
    for row, text in lines(path):
        if not text.strip() or text.startswith("  "):
            continue
        try:
            key, words, above = _synset(text)
        except (ValueError, IndexError):
            raise TaxonomyError(
                "The line is not a synset of WordNet's database.",
                file=path,
                row=row,
                value=text[:80],
                remedy="Give data.noun or data.verb of WordNet as it is published.",
            ) from None
        into.node(key)
        for other in above:
            into.edge(key, other, row)
        into.name(key, words[0])
        for word in words[1:]:
            into.alias(key, word)


def _synset(text: str) -> tuple[str, list[str], list[str]]:
    """Returns the id, the words and the ids of the hypernyms of a line."""
    if not is_wordnet_data(text):
        raise ValueError(text)
    fields = text.split(" | ")[0].split()
    count = int(fields[3], 16)  # two hexadecimal digits
    words = [word.replace("_", " ") for word in fields[4 : 4 + 2 * count : 2]]
    start = 5 + 2 * count
    pointers = [fields[i : i + 4] for i in range(start, start + 4 * int(fields[start - 1]), 4)]
    above = [f"{pos}{offset}" for symbol, offset, pos, _ in pointers if symbol in _ABOVE]
    return fields[2] + fields[0], words, list(dict.fromkeys(above))
