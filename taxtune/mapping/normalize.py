"""Text in comparable form: the paper's plain text, and words without plural, accents and case."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import groupby

__all__ = [
    "american",
    "fold_word",
    "fold_words",
    "plain",
    "plain_or_raw",
    "strip_accents",
    "undoubled",
]

_DASHES = re.compile(r"[-‐-―−_/]+")
_NOT_WORD = re.compile(r"[^\w\s]+")
_APOSTROPHES = re.compile(r"(?<=\w)['’ʼ‘`´](?=\w)")
_WORD = re.compile(r"[^\W_]+")
# Of grasses, foxes, mosquitoes and walruses; not of shoes, houses and tortoises.
_PLURAL_IN_ES = re.compile(r"(?:ss|sh|ch|x|zz|(?<=...)o|(?<!o)us|(?<!o)is)es$")


def _pairs(text: str) -> dict[str, str]:
    """Returns the words of a text in pairs: the first leads to the second."""
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_IRREGULAR = _pairs("""
    geese goose  mongeese mongoose  mice mouse  dormice dormouse  lice louse  woodlice woodlouse
    feet foot  teeth tooth  oxen ox  children child  men man  people person  wolves wolf
    calves calf  leaves leaf  hooves hoof  elves elf  wives wife  cacti cactus  fungi fungus
    octopi octopus  hippopotami hippopotamus  larvae larva  pupae pupa  algae alga
    antennae antenna  gladioli gladiolus  croci crocus  hibisci hibiscus  narcissi narcissus
    nuclei nucleus  bacteria bacterium  magpies magpie  cookies cookie  brownies brownie
    smoothies smoothie  collies collie  hoodies hoodie  beanies beanie  prairies prairie
    movies movie  mantids mantis  species species  series series  lens lens  st saint  mt mount
""")

#: Irregular plurals that also end other words: titmice, buttercup-leaves.
_ENDINGS = ("mice", "geese", "feet", "teeth", "men", "wolves", "leaves")

#: What stands in British words, and what in American ones.
_SPELLINGS = _pairs("""
    grey gray  colour color  sulphur sulfur  moustach mustach  centre center  fibre fiber
    sabre saber  armour armor  harbour harbor  favour favor  mould mold  plough plow  ochre ocher
    jewell jewel  leafed leaved  spectre specter
""")


def plain(text: str) -> str:
    """Returns a text in the paper's basic form, in which it compares answers and labels (§6, §11).

    That is lower case with single spaces; dashes become spaces, other punctuation goes.
    """
    text = _DASHES.sub(" ", text.lower())
    return " ".join(_NOT_WORD.sub("", text).split())


def plain_or_raw(text: str) -> str:
    """Returns the plain text, or the text itself if it holds nothing but punctuation."""
    return plain(text) or text


def strip_accents(text: str) -> str:
    """Returns text without combining marks: "Schäferhund" becomes "Schaferhund"."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c))


@lru_cache(maxsize=1000)
def fold_words(text: str) -> tuple[str, ...]:
    """Returns the folded words of a name.

    Hyphens, underscores and slashes separate words, apostrophes do not.
    """
    text = strip_accents(text).replace("&", " and ")
    words = _WORD.findall(_APOSTROPHES.sub("", text))
    return tuple(fold_word(word) for word in words)


def american(word: str) -> str:
    """Returns a word in lower case in American spelling: "grey" becomes "gray"."""
    word = word.lower()
    for british, spelling in _SPELLINGS.items():
        if british in word:
            word = word.replace(british, spelling)
    return word


@lru_cache(maxsize=200_000)
def fold_word(word: str) -> str:
    """Returns a word as a key: in lower case, in the singular and in American spelling.

    Latin words are folded too ("Anas" to "ana"), which is harmless, because names and answers are
    folded alike.
    """
    return _singular(american(word))


def undoubled(word: str) -> str:
    """Returns a word with each run of one letter as one letter."""
    return "".join(letter for letter, _ in groupby(word))


def _singular(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for plural in _ENDINGS:
        if word.endswith(plural) and len(word) > len(plural) + 2:
            return word[: -len(plural)] + _IRREGULAR[plural]
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if _PLURAL_IN_ES.search(word):
        return word[:-2]
    return word[:-1]
