"""English plurals, for texts that the studies make."""

from __future__ import annotations

__all__ = ["plural"]

# Nouns whose plural no rule gives; the last word of a name is looked up.
_PLURALS = {
    "goose": "geese", "mongoose": "mongooses", "mouse": "mice", "dormouse": "dormice", "louse": "lice", "foot": "feet",
    "tooth": "teeth", "ox": "oxen", "child": "children", "man": "men", "woman": "women", "person": "people",
    "wolf": "wolves", "calf": "calves", "leaf": "leaves", "loaf": "loaves", "knife": "knives", "half": "halves",
    "cactus": "cacti", "fungus": "fungi", "larva": "larvae", "alga": "algae",
}  # fmt: skip
_NO_MEN = ("human", "caiman", "cayman", "roman", "german", "ottoman", "talisman")
_SAME = ("fish", "deer", "sheep", "moose", "species", "series", "grouse", "bison", "aircraft", "lens")


def plural(name: str) -> str:
    """Returns an English name in the plural, by rule; what seems to be a plural or no English stays as it is."""
    head, space, last = name.rpartition(" ")
    return head + space + _plural_word(last)


def _plural_word(word: str) -> str:
    lower = word.lower()
    if not lower[-1:].isascii() or not lower[-1:].isalpha():
        return word
    if lower.endswith("man") and len(word) > 5 and not lower.endswith(_NO_MEN):
        return word[:-2] + "en"
    for singular, several in _PLURALS.items():
        if lower == singular or (len(singular) > 3 and lower.endswith(singular)):
            return word[: len(word) - len(singular)] + (several.title() if word == singular.title() else several)
    if lower.endswith(_SAME) or (lower.endswith("s") and not lower.endswith(("ss", "us", "is"))):
        return word
    if lower.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if lower.endswith("y") and len(word) > 1 and lower[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"
