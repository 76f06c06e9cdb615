"""Finds ground-truth labels in a text: a template that names the answers would be tuned to cheat."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from taxtune.mapping.normalize import american

__all__ = ["find_labels"]

_WORD = re.compile(r"[^\W_]+")
_APOSTROPHES = re.compile("['\u2018\u2019\u02bc`]")
_IRREGULAR = {
    "calves": "calf",
    "children": "child",
    "feet": "foot",
    "geese": "goose",
    "halves": "half",
    "knives": "knife",
    "leaves": "leaf",
    "lice": "louse",
    "men": "man",
    "mice": "mouse",
    "mongeese": "mongoose",
    "oxen": "ox",
    "teeth": "tooth",
    "wolves": "wolf",
    "women": "woman",
}
_PIECES = re.compile(r"[^\W_]+(?:[-\u00ad\u2010\u2011][^\W_]+)+")
_SPACED = re.compile(r"(?<![^\W_])[^\W\d_](?:[ .\-_][^\W\d_]){3,}(?![^\W_])")
_SHORTEST_JOINED = 5  # letters of a label that is recognised across its own gaps
# Cyrillic and Greek letters that look like Latin ones, after case folding.
_LOOKALIKES = str.maketrans("аеорсухіјѕԁһոαεορτυνικ", "aeopcyxijsdhnaeoptuvik")
_SHORTEST_STEM = 3  # "this" and "gas" must not become "thi" and "ga"


def find_labels(text: str, labels: Iterable[str]) -> list[str]:
    """Returns the words of a text that name one of the labels, as they stand in the text, in order, each once.

    A label is found as a whole word or a run of whole words; case, punctuation, dashes, accents, plurals and British or
    American spelling make no difference ("Blue-Jays" names "blue jay", "plant" does not name "ant"). Nor do disguises:
    gaps closed ("bluejay"), hyphens inside ("mal-lard"), letters apart ("m a l l a r d"), letters of other scripts that
    look alike.

    Args:
        text: Any text.
        labels: Labels and aliases.
    """
    index: dict[str, list[tuple[frozenset[str], ...]]] = defaultdict(list)
    for label in labels:
        parts = _words(label)
        joined = "".join(parts)
        for names in [parts] if len(parts) < 2 or len(joined) < _SHORTEST_JOINED else [parts, [joined]]:
            forms = tuple(_forms(word) for word in names)
            if forms:
                for form in forms[0]:
                    index[form].append(forms)
    words = _words(text) + _joined_pieces(text)
    forms_of = [_forms(word) for word in words]
    found: dict[str, None] = {}
    for start, first in enumerate(forms_of):
        for label_forms in {forms for form in first for forms in index.get(form, ())}:
            end = start + len(label_forms)
            if end <= len(words) and all(a & b for a, b in zip(label_forms, forms_of[start:end], strict=True)):
                found[" ".join(words[start:end])] = None
    return list(found)


def _joined_pieces(text: str) -> list[str]:
    """Returns the words that hyphens or spelling out have taken apart, put together, a stop between any two."""
    found = [match.group() for pattern in (_PIECES, _SPACED) for match in pattern.finditer(text)]
    pieces = ["".join(_words(piece)) for piece in found]
    return [part for piece in pieces if len(piece) >= _SHORTEST_JOINED for part in ("", piece)]


def _words(text: str) -> list[str]:
    decomposed = unicodedata.normalize("NFKD", text)
    # Marks are accents; format characters (zero-width joiners and the like) would hide a word.
    plain = "".join(c for c in decomposed if unicodedata.category(c) not in ("Mn", "Cf"))
    return _WORD.findall(_APOSTROPHES.sub("", plain).casefold().translate(_LOOKALIKES))


@lru_cache(maxsize=16_384)
def _forms(word: str) -> frozenset[str]:
    """The word and what it may be the plural of; a set, as "-ves" and "-es" alone do not tell."""
    word = american(word)
    forms = {word}
    if word in _IRREGULAR:
        forms.add(_IRREGULAR[word])
    if word.endswith("s") and not word.endswith("ss"):
        forms.add(word[:-1])
    if word.endswith(("ses", "xes", "zes", "ches", "shes", "oes")):
        forms.add(word[:-2])
    if word.endswith("ies"):
        forms.add(word[:-3] + "y")
    if word.endswith("ves"):
        forms.update((word[:-3] + "f", word[:-3] + "fe"))
    return frozenset(form for form in forms if form == word or len(form) >= _SHORTEST_STEM)
