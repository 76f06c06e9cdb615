"""Text to comparable form: the paper's plain text, and words folded over plural, spelling, accents and case."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

__all__ = ["american", "fold_word", "fold_words", "plain", "plain_or_raw", "strip_accents"]

_DASHES = re.compile(r"[-‐-―−_/]+")
_NOT_WORD = re.compile(r"[^\w\s]+")
_APOSTROPHES = re.compile(r"(?<=\w)['’ʼ‘`´](?=\w)")
_WORD = re.compile(r"[^\W_]+")
# Of grasses, foxes, mosquitoes and walruses; not of shoes, houses and tortoises.
_PLURAL_IN_ES = re.compile(r"(?:ss|sh|ch|x|zz|(?<=...)o|(?<!o)us|(?<!o)is)es$")

_IRREGULAR = {
    "geese": "goose", "mongeese": "mongoose", "mice": "mouse", "dormice": "dormouse", "lice": "louse",
    "woodlice": "woodlouse", "feet": "foot", "teeth": "tooth", "oxen": "ox", "children": "child", "men": "man",
    "people": "person", "wolves": "wolf", "calves": "calf", "leaves": "leaf", "hooves": "hoof", "elves": "elf",
    "wives": "wife", "cacti": "cactus", "fungi": "fungus", "octopi": "octopus", "hippopotami": "hippopotamus",
    "larvae": "larva", "pupae": "pupa", "algae": "alga", "antennae": "antenna", "gladioli": "gladiolus",
    "croci": "crocus", "hibisci": "hibiscus", "narcissi": "narcissus", "nuclei": "nucleus", "bacteria": "bacterium",
    "magpies": "magpie", "cookies": "cookie", "brownies": "brownie", "smoothies": "smoothie", "collies": "collie",
    "hoodies": "hoodie", "beanies": "beanie", "prairies": "prairie", "movies": "movie",
    "mantids": "mantis", "species": "species", "series": "series", "lens": "lens", "st": "saint", "mt": "mount",
}  # fmt: skip

_SPELLINGS = (
    ("grey", "gray"), ("colour", "color"), ("sulphur", "sulfur"), ("moustach", "mustach"), ("centre", "center"),
    ("fibre", "fiber"), ("sabre", "saber"), ("armour", "armor"), ("harbour", "harbor"), ("favour", "favor"),
    ("mould", "mold"), ("plough", "plow"), ("ochre", "ocher"), ("jewell", "jewel"), ("leafed", "leaved"),
    ("spectre", "specter"),
)  # fmt: skip


def plain(text: str) -> str:
    """Returns text in the paper's basic form: lower case, dashes to spaces, other punctuation out, single spaces.

    The paper normalises answers and labels so before it compares them (§6, §11).
    """
    text = _DASHES.sub(" ", text.lower())
    return " ".join(_NOT_WORD.sub("", text).split())


def plain_or_raw(text: str) -> str:
    """Returns the plain text, or the text as it is where nothing but punctuation is in it, for models to compare."""
    return plain(text) or text


def strip_accents(text: str) -> str:
    """Returns text without combining marks: "Schäferhund" becomes "Schaferhund"."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def fold_words(text: str) -> tuple[str, ...]:
    """Returns the folded words of a name; hyphens, underscores and slashes part words, apostrophes do not."""
    return tuple(
        fold_word(word)
        for word in _WORD.findall(_APOSTROPHES.sub("", strip_accents(text).replace("&", " and ")))
    )


def american(word: str) -> str:
    """Returns a word in lower case in American spelling: "grey" becomes "gray"."""
    word = word.lower()
    for british, spelling in _SPELLINGS:
        if british in word:
            word = word.replace(british, spelling)
    return word


@lru_cache(maxsize=200_000)
def fold_word(word: str) -> str:
    """Returns one word in lower case, singular and American spelling, as a key: names and answers fold alike.

    Latin words fold too ("Anas" to "ana"); that is harmless, because both sides of a comparison do.
    """
    return _singular(american(word))


def _singular(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for plural in (
        "mice",
        "geese",
        "feet",
        "teeth",
        "men",
        "wolves",
        "leaves",
    ):  # titmice, buttercup-leaves, ...
        if word.endswith(plural) and len(word) > len(plural) + 2:
            return word[: -len(plural)] + _IRREGULAR[plural]
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if _PLURAL_IN_ES.search(word) else word[:-1]
