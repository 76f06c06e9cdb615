"""What differs between two templates, word by word, and how alike they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

__all__ = ["Piece", "most_alike", "word_differences", "words"]

# A tag of the template language is one word; punctuation is a word of its own.
_WORD = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|\w+(?:['’-]\w+)*|[^\w\s]", re.S)
# Of a long passage that is the same the ends are shown.
_LONGEST, _ENDS = 24, 8


class Piece(NamedTuple):
    """A passage of a comparison.

    Attributes:
        kind: "same", "del" (only in the earlier text), "ins" (only in the later one), or "gap": the same, left out.
        text: The passage; of a gap, how many words it has.
    """

    kind: Literal["same", "del", "ins", "gap"]
    text: str


def words(text: str) -> list[str]:
    """Returns the words of a template: tags are single words, and so are punctuation marks."""
    return _WORD.findall(text)


def word_differences(before: str, after: str) -> list[Piece]:
    """Returns the later of two texts with what was taken out of the earlier and put in, in the order of reading."""
    old, new = _spaced(before), _spaced(after)
    matcher = SequenceMatcher(None, [word for word, _ in old], [word for word, _ in new], autojunk=False)
    pieces: list[Piece] = []
    for kind, start, stop, begin, end in matcher.get_opcodes():
        if kind == "equal":
            pieces += _shortened(new[begin:end])
            continue
        # White space is not marked: a line below it would look like one more word.
        if stop > start:
            taken = _joined(old[start:stop])
            apart = start > 0 and old[start - 1][1] and not pieces[-1].text[-1:].isspace()
            pieces += [Piece("same", " ")] if apart else []
            pieces.append(Piece("del", taken.rstrip()))
            pieces += [Piece("same", " ")] if taken != taken.rstrip() or end > begin else []
        if end > begin:
            added = _joined(new[begin:end])
            pieces.append(Piece("ins", added.rstrip()))
            pieces += [Piece("same", added[len(added.rstrip()) :])] if added != added.rstrip() else []
    return pieces


def most_alike(text: str, others: Sequence[str]) -> tuple[int, float]:
    """Returns which of some texts has most words in common with a text, and how alike the two are, in [0, 1].

    Alike: the share of the words of both that stay where one is made into the other by taking out and putting in words
    (the normalised Indel similarity). Of several that are equally alike it is the first.

    Args:
        text: The text.
        others: The texts to choose among, at least one.
    """
    from rapidfuzz.distance import Indel

    wanted = words(text)
    found = [Indel.normalized_similarity(wanted, words(other)) for other in others]
    best = max(range(len(found)), key=found.__getitem__)
    return best, found[best]


def _spaced(text: str) -> list[tuple[str, str]]:
    """Returns the words of a text, each with the white space behind it."""
    found = list(_WORD.finditer(text))
    ends = [*(each.start() for each in found[1:]), len(text)]
    return [(each.group(), text[each.end() : ends[place]]) for place, each in enumerate(found)]


def _joined(spaced: Sequence[tuple[str, str]]) -> str:
    return "".join(word + space for word, space in spaced)


def _shortened(spaced: Sequence[tuple[str, str]]) -> list[Piece]:
    if len(spaced) <= _LONGEST:
        return [Piece("same", _joined(spaced))]
    left_out = len(spaced) - 2 * _ENDS
    return [
        Piece("same", _joined(spaced[:_ENDS])),
        Piece("gap", f"{left_out:,}"),
        Piece("same", _joined(spaced[-_ENDS:])),
    ]
