"""Finds ground-truth labels in a text: a template that names the answers would be tuned to cheat.

Where an objective gives credit for a group that the true label belongs to, naming groups cheats as
well: "answer finch or conifer" is right to the level of families without a look at an image. But
words high up in a tree ("animal", "object") are words that prompts need. `group_names` draws the
line between them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from taxtune.mapping import english
from taxtune.mapping.normalize import american, fold_words
from taxtune.taxonomy import Taxonomy

__all__ = ["find_labels", "group_names", "says"]

_Name = tuple[frozenset[str], ...]  # the forms of each word of a name

_WORD = re.compile(r"[^\W_]+")
_APOSTROPHES = re.compile("['\u2018\u2019\u02bc`]")
_IRREGULAR_PLURALS = (
    "calves:calf children:child feet:foot geese:goose halves:half knives:knife leaves:leaf lice:louse "
    "men:man mice:mouse mongeese:mongoose oxen:ox teeth:tooth wolves:wolf women:woman"
)
_IRREGULAR = dict(pair.split(":") for pair in _IRREGULAR_PLURALS.split())
_PIECES = re.compile(r"[^\W_]+(?:[-\u00ad\u2010\u2011][^\W_]+)+")
_SPACED = re.compile(r"(?<![^\W_])[^\W\d_](?:[ .\-_][^\W\d_]){3,}(?![^\W_])")
_SHORTEST_JOINED = 5  # letters of a label that is recognised across its own gaps
# Cyrillic and Greek letters that look like Latin ones, after case folding.
_LOOKALIKES = str.maketrans("аеорсухіјѕԁһոαεορτυνικ", "aeopcyxijsdhnaeoptuvik")
_GENERAL = (
    english.PICTURE | english.FILLER | english.TAIL
)  # what is said of pictures in every domain
_SHORTEST_STEM = 3  # "this" and "gas" must not become "thi" and "ga"


def find_labels(text: str, labels: Iterable[str]) -> list[str]:
    """Returns the words of a text that name one of the labels, as they stand in it, each once.

    A label is found as a whole word or a run of whole words; case, punctuation, dashes, accents,
    plurals and British or American spelling make no difference ("Blue-Jays" names "blue jay",
    "plant" does not name "ant"). Nor do disguises: gaps closed ("bluejay"), hyphens inside
    ("mal-lard"), letters apart ("m a l l a r d"), letters of other scripts that look alike.
    """
    index: dict[str, list[_Name]] = defaultdict(list)
    for label in labels:
        words = _words(label)
        joined = "".join(words)
        names = [tuple(_forms(word) for word in words)]
        if len(words) > 1 and len(joined) >= _SHORTEST_JOINED:
            names.append((_forms(joined),))
        for name in names:
            for form in name[0] if name else ():
                index[form].append(name)
    words = _words(text) + _joined_pieces(text)
    forms = [_forms(word) for word in words]
    found: dict[str, None] = {}
    for start in range(len(words)):
        beginning = {name for form in forms[start] for name in index.get(form, ())}
        for name in beginning:
            end = start + len(name)
            if end <= len(words) and all(map(_meet, name, forms[start:end])):
                found[" ".join(words[start:end])] = None
    return list(found)


def _meet(forms: frozenset[str], others: frozenset[str]) -> bool:
    """Tells whether two words have a form in common."""
    return not forms.isdisjoint(others)


def says(text: str, labels: Iterable[str]) -> bool:
    """Tells whether a text names one of the labels, or has all its words in any order."""
    labels = list(labels)
    said = {form for word in _words(text) for form in _forms(word)}
    for label in labels:
        words = _words(label)
        if words and not any(_forms(word).isdisjoint(said) for word in words):
            return True
    return bool(find_labels(text, labels))


def group_names(
    taxonomy: Taxonomy,
    domain: int,
    tuning: Iterable[int],
    heldout: Iterable[int] = (),
    *,
    own: Iterable[str] = (),
) -> tuple[str, ...]:
    """Returns the names of groups of the tuning images' labels that a template must not give.

    These are the names of all nodes between the domain and a tuning image's label, but for

    - groups that hold more than half of the domain's labels, or every label of the images that show
      something: to say them is to say what the images are of, as the domain's own word does, and is
      as right of new images as of these;
    - words of which every domain makes use ("object", "group", "pattern"), and names of ranks;
    - what the user's own prompt says, which no proposer has to find out.

    Args:
        taxonomy: The label tree.
        domain: The node of what all images show.
        tuning: Nodes of the tuning images' labels.
        heldout: Nodes of the held-out images' labels.
        own: The user's own texts: the baseline, the question, the examples.
    """
    tuning = set(tuning)
    labels = taxonomy.leaves[taxonomy.is_ancestor(domain, taxonomy.leaves)]
    shown = tuning.union(heldout) - {taxonomy.root}
    images = np.array(sorted(shown), dtype=np.int64)
    groups: set[int] = set()
    for target in tuning:
        groups.update(taxonomy.ancestors(target)[:-1].tolist())
    names: set[str] = set()
    for node in groups:
        is_below = taxonomy.is_ancestor(domain, node) and not taxonomy.is_ancestor(node, domain)
        is_large = taxonomy.is_ancestor(node, labels).mean() > 0.5
        if is_below and not is_large and not taxonomy.is_ancestor(node, images).all():
            names.update(taxonomy.names(node))
    free = {fold_words(rank) for rank in taxonomy.ranks if rank}
    for node in taxonomy.ancestors(domain).tolist():
        free.update(fold_words(name) for name in taxonomy.names(node))
    said = " | ".join(own)
    secret = []
    for name in sorted(names):
        words = fold_words(name)
        is_free = words in free or set(words) <= _GENERAL
        if not is_free and not find_labels(said, [name]):
            secret.append(name)
    return tuple(secret)


def _joined_pieces(text: str) -> list[str]:
    """Returns words that hyphens or gaps took apart, put together, with a stop before each."""
    pieces = []
    for pattern in (_PIECES, _SPACED):
        for match in pattern.finditer(text):
            piece = "".join(_words(match.group()))
            if len(piece) >= _SHORTEST_JOINED:
                pieces += ["", piece]
    return pieces


def _words(text: str) -> list[str]:
    """Returns the words of a text, in lower case and without accents."""
    decomposed = unicodedata.normalize("NFKD", text)
    # Marks are accents; format characters (zero-width joiners and the like) would hide a word.
    shown = [char for char in decomposed if unicodedata.category(char) not in ("Mn", "Cf")]
    plain = "".join(shown)
    return _WORD.findall(_APOSTROPHES.sub("", plain).casefold().translate(_LOOKALIKES))


@lru_cache(maxsize=16_384)
def _forms(word: str) -> frozenset[str]:
    """Returns a word and all that it may be the plural of, as "-ves" and "-es" do not tell."""
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
