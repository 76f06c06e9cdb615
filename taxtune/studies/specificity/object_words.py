"""Finding objects that a caption mentions, and putting another object's name in their place (paper 3, §5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

from taxtune.errors import DataError
from taxtune.studies.plurals import plural as plural_form
from taxtune.tables import parse_table, read_text

__all__ = ["Mention", "ObjectWords", "Word", "chunk_mentions", "read_object_words", "swapped"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A mention counts where the noun phrase ends with it: "dog" in "a dog on a bed", not in "a dog house". It does where
# one of these words follows, or a form in -ing or -ed.
_AFTER = _words(
    """
    a about above across after against all along alongside also among an and are around as at atop away back be before
    behind being below beside besides between by can covered crossing down driving during each eat eats eating every fly
    flies for from full go goes going had hang hangs has have he her his hold holds in inside into is it its laid lay
    lays lie lies like look looks made near next not of off on onto or our out outside over parked past perch perched
    play plays pose poses pull pulls ran rest rests ride rides run runs she sit sits some stand stands swim swims than
    that the their them there these they this those through to together toward towards two under underneath up upon
    very walk walks was wear wears were where which while who with within without
    """
)
# Words that begin with another sound than their first letter tells.
_CONSONANT_SOUND = re.compile(r"(?:uni|use|usu|eu|ewe|one\b|once\b)", re.IGNORECASE)
_VOWEL_SOUND = re.compile(r"(?:hour|honest|heir|honou?r)", re.IGNORECASE)
_NEXT_WORD = re.compile(r"\s+([^\W\d_]+)")
# Chunks that name no object.
_PRONOUNS = _words("i you he she it we they this that these those there what who which him her them one some")


@dataclass(frozen=True, slots=True)
class Word:
    """How a category is named in running text.

    Attributes:
        singular: One of it, without an article ("pair of skis").
        plural: Several of it.
        mentions: Other words for it, and whether each is a plural.
    """

    singular: str
    plural: str
    mentions: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Mention:
    """A noun in a caption that stands for an object.

    Attributes:
        start: Position of its first character.
        end: Position after its last character.
        category: What it stands for, or None where that is not known.
        plural: Whether it stands for several.
    """

    start: int
    end: int
    category: str | None
    plural: bool


class ObjectWords:
    """The words for a set of object categories.

    Args:
        words: By category.
    """

    def __init__(self, words: Mapping[str, Word]) -> None:
        self.words = dict(words)

    @cached_property
    def _forms(self) -> dict[str, tuple[str, bool]]:
        forms: dict[str, tuple[str, bool]] = {}
        for category, word in self.words.items():
            for form, plural in word.mentions.items():
                forms.setdefault(form.casefold(), (category, plural))
        return forms

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # The longest first: "hot dog" is not a dog, "teddy bear" no bear.
        forms = sorted(self._forms, key=len, reverse=True)
        return re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, forms)) + r")(?![\w-])", re.IGNORECASE)

    def mentions(self, caption: str) -> list[Mention]:
        """Returns every mention of a category in a caption, from left to right, on word boundaries."""
        return [
            Mention(*match.span(), *self._forms[match.group().casefold()]) for match in self._pattern.finditer(caption)
        ]

    def swappable(self, caption: str) -> list[Mention]:
        """Returns the mentions that are a noun phrase's head, so that another object can stand in their place."""
        return [mention for mention in self.mentions(caption) if _is_head(caption, mention.end)]


def read_object_words(categories: Sequence[str], path: Path | None = None) -> tuple[ObjectWords, tuple[str, ...]]:
    """Returns the words for categories, and the notes on those that are not in the list of words.

    Args:
        categories: The categories' names.
        path: A CSV file (category, singular, plural, mentions), or None for the list of COCO's 80 categories that comes
            with taxtune. `mentions` holds further words, split by semicolons: "singular/plural", "singular" or
            "/plural"; one after a minus sign is taken away.

    Raises:
        DataError: If the file lacks a column, or a row a singular.
    """
    if path is None:
        text = (resources.files("taxtune.studies.specificity") / "words" / "coco.csv").read_text("utf-8")
        name = "coco.csv"
    else:
        text, name = read_text(path, error=DataError, what="words"), str(path)
    table = parse_table(text, name, error=DataError)
    columns = [table.column(column) for column in ("category", "singular", "plural", "mentions")]
    if None in columns[:2]:
        raise DataError("The file of words needs the columns category and singular.", file=name)
    listed: dict[str, Word] = {}
    for row in table.rows:
        category, singular, plural, mentions = (row.cell(column) for column in columns)
        if not category or not singular:
            raise DataError("The row needs a category and a singular.", file=name, row=row.line)
        plural = plural or plural_form(singular)
        listed[category.casefold()] = Word(singular, plural, _mentions(category, singular, plural, mentions))
    words: dict[str, Word] = {}
    unknown = []
    for category in categories:
        word = listed.get(category.casefold())
        if word is None:
            unknown.append(category)
            plain = category.replace("_", " ")
            word = Word(plain, plural_form(plain), _mentions(plain, plain, plural_form(plain), ""))
        words[category] = word
    notes: tuple[str, ...] = ()
    if unknown:
        shown = ", ".join(unknown[:5]) + (" …" if len(unknown) > 5 else "")
        several = "category uses its own name" if len(unknown) == 1 else "categories use their own names"
        notes = (f"{len(unknown):,} {several} because they are not in the list of words: {shown}.",)
    return ObjectWords(words), notes


def swapped(caption: str, mention: Mention, word: Word) -> str:
    """Returns the caption with another object in the place of a mention: number kept, a and an put right."""
    before, after = caption[: mention.start], caption[mention.end :]
    name = word.plural if mention.plural else word.singular
    article = re.search(r"\b(an?)(\s+)$", before, re.IGNORECASE)
    if article:
        right = "an" if _begins_with_vowel(name) else "a"
        right = right.capitalize() if article.group(1)[0].isupper() else right
        before = before[: article.start()] + right + article.group(2)
    elif not before.strip():
        name = name[0].upper() + name[1:] if caption[mention.start].isupper() else name
    return before + name + after


def chunk_mentions(caption: str, chunks: Sequence[str]) -> list[Mention]:
    """Returns the heads of noun phrases as mentions: the last word of each chunk, where it stands in the caption.

    Args:
        caption: The caption.
        chunks: Its noun phrases.
    """
    found: dict[tuple[int, int], Mention] = {}
    for chunk in dict.fromkeys(chunks):
        head = chunk.split()[-1] if chunk.split() else ""
        if not head or head.casefold() in _PRONOUNS or not head[-1].isalpha():
            continue
        plural = head.casefold().endswith("s") and not head.casefold().endswith("ss")
        for place in re.finditer(rf"(?<!\w){re.escape(chunk)}(?!\w)", caption, re.IGNORECASE):
            end = place.start() + len(chunk)
            found[end - len(head), end] = Mention(end - len(head), end, None, plural)
    return [found[key] for key in sorted(found)]


def _mentions(category: str, singular: str, plural: str, others: str) -> dict[str, bool]:
    forms = {category: category == plural and category != singular, plural: True, singular: False}
    for entry in filter(None, (part.strip() for part in others.split(";"))):
        if entry.startswith("-"):
            forms.pop(entry[1:], None)
            continue
        one, _, several = (part.strip() for part in entry.partition("/"))
        forms |= ({one: False} if one else {}) | ({several: True} if several else {})
    return forms


def _is_head(caption: str, end: int) -> bool:
    follows = _NEXT_WORD.match(caption, end)
    if follows is None:
        return True  # the end, a number or punctuation, the possessive included
    word = follows.group(1).casefold()
    return word in _AFTER or word.endswith(("ing", "ed"))


def _begins_with_vowel(name: str) -> bool:
    if _VOWEL_SOUND.match(name):
        return True
    return name[:1].casefold() in "aeiou" and not _CONSONANT_SOUND.match(name)
