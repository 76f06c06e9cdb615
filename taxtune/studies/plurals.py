"""English plurals, by rule."""

from __future__ import annotations

__all__ = ["plural"]

# Nouns whose plural no rule gives; the last word of a name is looked up.
_PLURALS = {
    "mongoose": "mongooses", "goose": "geese", "mouse": "mice", "dormouse": "dormice", "louse": "lice", "foot": "feet",
    "tooth": "teeth", "ox": "oxen", "child": "children", "man": "men", "woman": "women", "person": "people",
    "wolf": "wolves", "calf": "calves", "leaf": "leaves", "loaf": "loaves", "knife": "knives", "half": "halves",
    "cactus": "cacti", "fungus": "fungi", "larva": "larvae", "alga": "algae",
}  # fmt: skip
_NO_MEN = ("human", "caiman", "cayman", "roman", "german", "ottoman", "talisman")
_SAME = (
    "fish",
    "deer",
    "sheep",
    "moose",
    "species",
    "series",
    "grouse",
    "bison",
    "aircraft",
    "lens",
)


def plural(name: str) -> str:
    """Returns an English name in the plural, by rule; a name that seems to be a plural or no English stays as it is."""
    head, space, word = name.rpartition(" ")
    lower = word.lower()
    if not lower[-1:].isascii() or not lower[-1:].isalpha():
        return name
    before = head + space
    if lower.endswith("man") and len(word) > 5 and not lower.endswith(_NO_MEN):
        return f"{before}{word[:-2]}en"
    for singular, several in _PLURALS.items():
        if lower == singular or (len(singular) > 3 and lower.endswith(singular)):
            ending = several.title() if word == singular.title() else several
            return before + word[: -len(singular)] + ending
    if lower.endswith(_SAME) or (lower.endswith("s") and not lower.endswith(("ss", "us", "is"))):
        return name
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return name + ("es" if lower.endswith(("s", "x", "z", "ch", "sh")) else "s")
