"""Objects in captions: the words that name a category, where a caption has them, and another object in their place."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from importlib import resources
from typing import NamedTuple

from taxtune.studies.plurals import plural

__all__ = ["Mention", "Words", "is_head", "mention_finder", "read_words", "swapped"]

# A mention is a noun phrase's head where it ends the caption, punctuation or one of these words follows, or a form in
# -ing or -ed: "dog" in "a dog on a bed", not in "a dog house".
_FOLLOWERS = """
    a about above across after against all along alongside also among an and are around as at atop away back be before
    behind being below beside besides between beyond by can covered crossing down driving during each eat eats eating
    every fly flies for from full go goes going had hang hangs has have he her his hold holds in inside into is it its
    laid lay lays lie lies like look looks made near next not of off on onto or our out outside over parked past perch
    perched play plays pose poses pull pulls ran rest rests ride rides run runs she sit sits some stand stands swim
    swims than that the their them there these they this those through to together toward towards two under underneath
    up upon very walk walks was wear wears were where which while who with within without
"""
_AFTER = frozenset(_FOLLOWERS.split())
_COCO_WORDS = resources.files(__package__) / "words" / "coco.csv"
_VOWEL = re.compile(
    r"(?!uni|use|usu|eu|ewe|one\b|once\b)[aeiou]|hour|honest|heir|honou?r", re.IGNORECASE
)


class Words(NamedTuple):
    """How a category is named in running text; `mentions` has every word for it, and whether it is a plural."""

    singular: str
    plural: str
    mentions: dict[str, bool]


class Mention(NamedTuple):
    """A noun in a caption: its span, its category, and whether it is a plural."""

    start: int
    end: int
    category: str
    plural: bool


def read_words(categories: Sequence[str]) -> dict[str, Words]:
    """Returns the words for each category; one that is not COCO's goes by its name.

    The list of COCO's has further words for a category, separated by ";": "salmon/salmons" for singular and plural,
    "/shoal" for a plural alone, "-ox" for none.
    """
    rows = csv.DictReader(_COCO_WORDS.read_text("utf-8").splitlines())
    listed = {row["category"]: row for row in rows}
    words = {}
    for category in categories:
        row = listed.get(category.casefold(), {})
        name = category.replace("_", " ")
        one = row.get("singular") or name
        many = row.get("plural") or plural(one)
        mentions = {name: name == many != one, many: True, one: False}
        for form in row.get("mentions", "").split(";"):
            _add_mention(mentions, form.strip())
        words[category] = Words(one, many, mentions)
    return words


def _add_mention(mentions: dict[str, bool], form: str) -> None:
    """Adds "singular/plural", or takes "-form" away."""
    if form.startswith("-"):
        mentions.pop(form[1:], None)
        return
    single, _, several = form.partition("/")
    if single:
        mentions[single] = False
    if several:
        mentions[several] = True


def mention_finder(words: dict[str, Words]) -> Callable[[str], list[Mention]]:
    """Returns a function that lists the mentions of categories in a caption, on word boundaries."""
    forms: dict[str, tuple[str, bool]] = {}
    for category, word in words.items():
        for form, several in word.mentions.items():
            forms.setdefault(form.casefold(), (category, several))
    # Longest first: a "hot dog" is not a dog.
    names = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w-])(?:{names})(?![\w-])", re.IGNORECASE)

    def find(caption: str) -> list[Mention]:
        mentions = []
        for match in pattern.finditer(caption):
            category, several = forms[match.group().casefold()]
            mentions.append(Mention(match.start(), match.end(), category, several))
        return mentions

    return find


def is_head(caption: str, mention: Mention) -> bool:
    """Whether a mention is the head of its noun phrase, so that another noun can replace it."""
    follows = re.compile(r"\s+([^\W\d_]+)").match(caption, mention.end)
    word = follows[1].casefold() if follows else "a"
    return word in _AFTER or word.endswith(("ing", "ed"))


def swapped(caption: str, mention: Mention, word: Words) -> str:
    """Returns the caption with a mention replaced by another object, in the same number and with the right article."""
    before, after = caption[: mention.start], caption[mention.end :]
    name = word.plural if mention.plural else word.singular
    article = re.search(r"\b(an?)(\s+)$", before, re.IGNORECASE)
    if article is not None:
        right = "an" if _VOWEL.match(name) else "a"
        if article[1][0] == "A":
            right = right.title()
        before = before[: article.start()] + right + article[2]
    elif not before.strip() and caption[mention.start].isupper():
        name = name[0].upper() + name[1:]
    return before + name + after
