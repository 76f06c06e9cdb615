"""Other forms of a name: its plurals and singulars, other spellings of its words, and what a participle is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from taxtune.wordnet import WordNet

__all__ = ["forms"]

# A noun phrase's head stands before the first of these: "chest of drawers".
_AFTER_HEAD = frozenset({"of", "with", "in", "on", "for", "from", "at", "to", "without"})


def forms(name: str, wordnet: WordNet | None) -> Iterator[tuple[str, str]]:
    """Yields other forms of an English name, each with what it is.

    Args:
        name: The name.
        wordnet: Where spellings are from, or None to do without.
    """
    words = name.split()
    if name.isupper() or any(word[:1].isupper() for word in words[1:]):
        return  # "Ford Focus" is a proper name, which has no plural that people write
    place = next((i for i, word in enumerate(words) if i and word.lower() in _AFTER_HEAD), len(words)) - 1
    head = words[place].lower()
    others = [(form, "inflection") for form in _nouns(head)]
    if len(words) == 1:
        others += [(form, "from the verb") for form in _of_verb(head)]
    for form, what in others:
        yield " ".join((*words[:place], form, *words[place + 1 :])), what
    if wordnet is not None:
        for i, word in enumerate(words):
            for spelling in _spellings(wordnet, word.lower()):
                yield " ".join((*words[:i], spelling, *words[i + 1 :])), f"spelling of {word!r}"


@cache
def _nouns(word: str) -> tuple[str, ...]:
    """Returns the singulars and plurals of a word that can be a noun; the word itself is left out."""
    import lemminflect

    lemmas = lemminflect.getAllLemmas(word).get("NOUN", ())
    found = [*lemmas]
    for lemma in lemmas:
        found += [form for tag in ("NN", "NNS") for form in lemminflect.getInflection(lemma, tag, inflect_oov=False)]
    return tuple(form for form in dict.fromkeys(found) if form != word)


@cache
def _of_verb(word: str) -> tuple[str, ...]:
    """Returns the verb that a participle is of, and its other forms: "wrinkle" and "wrinkles" of "wrinkled"."""
    import lemminflect

    lemmas = lemminflect.getAllLemmas(word)
    if lemmas.get("NOUN"):
        return ()
    verbs = [verb for verb in lemmas.get("VERB", ()) if verb != word]
    found = []
    for verb in verbs:
        found += [verb, *_nouns(verb)]
        found += [form for tag in ("VBG", "VBN") for form in lemminflect.getInflection(verb, tag, inflect_oov=False)]
    return tuple(form for form in dict.fromkeys(found) if form != word)


def _spellings(wordnet: WordNet, word: str) -> list[str]:
    """Returns other spellings of a word: synonyms in its first sense with the same consonants ("colour", "waggon")."""
    return [
        lemma
        for synset in wordnet.synsets(word)[:1]
        if word in (lemma.lower() for lemma in synset.lemmas)
        for lemma in synset.lemmas
        if lemma.isalpha() and lemma.lower() != word and _alike(lemma.lower(), word)
    ]


def _alike(a: str, b: str) -> bool:
    return min(len(a), len(b)) >= 4 and a[0] == b[0] and abs(len(a) - len(b)) <= 1 and _consonants(a) == _consonants(b)


def _consonants(word: str) -> str:
    """Returns a word's consonants as they sound: doubled ones once, "c" as "k", "z" as "s", "ph" as "f", no "h"."""
    sounds = word.replace("ph", "f").translate(str.maketrans("cqz", "kks", "aeiouh"))
    return re.sub(r"(.)\1", r"\1", sounds)
