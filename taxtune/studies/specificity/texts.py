"""Right and subtly wrong texts of images with captions and object labels (paper 3, §5).

Right: the captions, a prompt with all labels, a prompt with one label, a long narrative. Wrong: captions of random
images, of images that share a label, and the image's own captions with one object replaced by an absent one.
"""

from __future__ import annotations

import csv
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field, ValidationError

from taxtune.errors import DataError
from taxtune.studies.embedding import plural
from taxtune.tables import read_text

__all__ = [
    "Image",
    "Mention",
    "Words",
    "altered_captions",
    "is_head",
    "make_texts",
    "mention_finder",
    "read_images",
]
__all__ += ["read_words", "swapped"]

T = TypeVar("T", bound=BaseModel)


class Image(NamedTuple):
    """An image with its distinct captions, object labels and long narratives."""

    id: str
    file: str
    captions: tuple[str, ...]
    labels: tuple[str, ...]
    narratives: tuple[str, ...] = ()


# -- reading COCO -----------------------------------------------------------------------------------------------------


class _Entry(BaseModel, coerce_numbers_to_str=True, str_strip_whitespace=True):
    """An entry of a file; ids may be numbers or texts."""


class _File(_Entry):
    id: str
    file_name: str = Field(min_length=1)


class _Category(_Entry):
    id: str
    name: str = Field(min_length=1)


class _Caption(_Entry):
    image_id: str
    caption: str


class _Object(_Entry):
    image_id: str
    category_id: str


class _Captions(BaseModel):
    images: list[_File]
    annotations: list[_Caption]


class _Instances(BaseModel):
    categories: list[_Category] = Field(min_length=2)
    annotations: list[_Object]


def read_images(
    captions: Path, instances: Path, narratives: Path | None = None
) -> tuple[list[Image], list[str], list[str]]:
    """Joins COCO captions, COCO objects and Localized Narratives by image.

    Returns:
        The images that have captions and labels, the names of all categories, and notes on what was left out.

    Raises:
        DataError: If a file is not of its format, an id is unknown or repeated, or fewer than two images have both.
    """
    text_file, object_file = _parse(captions, _Captions), _parse(instances, _Instances)
    ids = [image.id for image in text_file.images]
    listed = set(ids)
    names = {category.id: category.name for category in object_file.categories}
    for path, entries in (
        (captions, ids),
        (instances, [category.id for category in object_file.categories]),
        (instances, [category.name for category in object_file.categories]),
    ):
        if repeated := [entry for entry, count in Counter(entries).items() if count > 1]:
            raise DataError(
                "The file repeats an id or a category's name.", file=path, value=repeated[0]
            )
    for path, key, keys, known in (
        (captions, "image_id", [entry.image_id for entry in text_file.annotations], listed),
        (
            instances,
            "category_id",
            [entry.category_id for entry in object_file.annotations],
            names.keys(),
        ),
    ):
        wrong = next((i for i, value in enumerate(keys) if value not in known), None)
        if wrong is not None:
            raise DataError(
                f"annotations[{wrong}]: its {key} is not in the file.", file=path, value=keys[wrong]
            )
    texts = _by_image((entry.image_id, entry.caption) for entry in text_file.annotations)
    labels = _by_image(
        (entry.image_id, names[entry.category_id]) for entry in object_file.annotations
    )
    long: dict[str, tuple[str, ...]] = {}
    if narratives is not None:
        lines = enumerate(
            read_text(narratives, error=DataError, what="narratives").split("\n"), start=1
        )
        stories = [_parse(narratives, _Caption, line, row) for row, line in lines if line.strip()]
        # Localized Narratives write some ids with leading zeros.
        long = _by_image(
            (e.image_id if e.image_id in listed else e.image_id.lstrip("0"), e.caption)
            for e in stories
        )
        if long.keys().isdisjoint(ids):
            raise DataError(
                "No narrative describes an image in the captions file.", file=narratives
            )
    images = [
        Image(image.id, image.file_name, texts[image.id], labels[image.id], long.get(image.id, ()))
        for image in text_file.images
        if image.id in texts and image.id in labels
    ]
    if len(images) < 2:
        remedy = f"Check that {instances} is from the same split."
        raise DataError(
            "At least two images need both captions and object labels.",
            file=captions,
            remedy=remedy,
        )
    dropped, strangers = len(ids) - len(images), len((labels.keys() | long.keys()) - listed)
    notes = (
        [f"Left out: {dropped:,} of {len(ids):,} images, without caption or object label."]
        if dropped
        else []
    )
    if strangers:
        notes.append(
            f"Left out: objects or narratives of {strangers:,} images that are not in the captions file."
        )
    return images, list(names.values()), notes


def _parse(path: Path, kind: type[T], line: str | None = None, row: int | None = None) -> T:
    """The content of a JSON file, or of one line of a file of JSON lines."""
    try:
        return kind.model_validate_json(
            read_text(path, error=DataError, what="JSON") if line is None else line
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]
        ).lstrip(".")
        remedy = "Check that it is the right one of COCO's files: captions, or instances."
        value = first["input"] if where else None
        raise DataError(
            f"{where or 'JSON'}: {first['msg']}.", file=path, row=row, value=value, remedy=remedy
        ) from None


def _by_image(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """The distinct texts of each image, with single spaces; images without any are not in it."""
    by_image: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for image, text in pairs:
        if text.strip():
            by_image[image][" ".join(text.split())] = None
    return {image: tuple(texts) for image, texts in by_image.items()}


# -- objects in captions ----------------------------------------------------------------------------------------------

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
    listed = {
        row["category"]: row for row in csv.DictReader(_COCO_WORDS.read_text("utf-8").splitlines())
    }
    words = {}
    for category in categories:
        row = listed.get(category.casefold(), {})
        one = row.get("singular") or category.replace("_", " ")
        many = row.get("plural") or plural(one)
        mentions = {category.replace("_", " "): category == many != one, many: True, one: False}
        for more in filter(None, map(str.strip, row.get("mentions", "").split(";"))):
            if more.startswith("-"):
                mentions.pop(more[1:], None)
            else:
                single, _, several = more.partition("/")
                mentions |= {
                    form: number for form, number in ((single, False), (several, True)) if form
                }
        words[category] = Words(one, many, mentions)
    return words


def mention_finder(words: dict[str, Words]) -> Callable[[str], list[Mention]]:
    """Returns a function that lists the mentions of categories in a caption, on word boundaries."""
    forms: dict[str, tuple[str, bool]] = {}
    for category, word in words.items():
        for form, several in word.mentions.items():
            forms.setdefault(form.casefold(), (category, several))
    longest_first = "|".join(
        map(re.escape, sorted(forms, key=len, reverse=True))
    )  # a "hot dog" is not a dog
    pattern = re.compile(rf"(?<![\w-])(?:{longest_first})(?![\w-])", re.IGNORECASE)
    return lambda caption: [
        Mention(*m.span(), *forms[m.group().casefold()]) for m in pattern.finditer(caption)
    ]


def is_head(caption: str, mention: Mention) -> bool:
    """Whether a mention is the head of its noun phrase, so that another noun can replace it."""
    follows = re.compile(r"\s+([^\W\d_]+)").match(caption, mention.end)
    word = follows[1].casefold() if follows else "a"
    return word in _AFTER or word.endswith(("ing", "ed"))


def swapped(caption: str, mention: Mention, word: Words) -> str:
    """Returns the caption with a mention replaced by another object, in the same number and with the right article."""
    before, after = caption[: mention.start], caption[mention.end :]
    name = word.plural if mention.plural else word.singular
    if article := re.search(r"\b(an?)(\s+)$", before, re.IGNORECASE):
        right = "an" if _VOWEL.match(name) else "a"
        before = (
            before[: article.start()]
            + (right.title() if article[1][0] == "A" else right)
            + article[2]
        )
    elif not before.strip() and caption[mention.start].isupper():
        name = name[0].upper() + name[1:]
    return before + name + after


# -- the texts --------------------------------------------------------------------------------------------------------


def make_texts(
    images: Sequence[Image],
    words: dict[str, Words],
    template: str,
    *,
    negatives: int = 100,
    seed: int = 0,
) -> pd.DataFrame:
    """Returns the right and wrong texts of every image, a frame with the columns image, file, kind and text.

    Args:
        images: The images, at least two.
        words: The words for the categories.
        template: The prompt for labels, with `{label}`.
        negatives: Wrong texts of each kind per image; fewer where there are not as many.
        seed: Seed of all draws; those of an image depend on the seed and its id alone.
    """
    find = mention_finder(words)
    owner = np.array([i for i, image in enumerate(images) for _ in image.captions])
    every = np.array([caption for image in images for caption in image.captions], dtype=object)
    by_label: defaultdict[str, list[int]] = defaultdict(list)
    for i, image in enumerate(images):
        for label in image.labels:
            by_label[label].append(i)
    rows: list[tuple[str, str, str, str]] = []
    for i, image in enumerate(images):
        rng = np.random.default_rng([seed, zlib.crc32(image.id.encode())])
        label = image.labels[int(rng.integers(len(image.labels)))]
        related = np.unique(np.concatenate([by_label[name] for name in image.labels]))
        texts = {
            "caption": image.captions,
            "multi": [template.replace("{label}", ", ".join(image.labels))],
            "single": [template.replace("{label}", label)],
            "narrative": image.narratives,
            "random": _drawn(every[owner != i], image.captions, negatives, rng),
            "related": _drawn(
                every[np.isin(owner, related) & (owner != i)], image.captions, negatives, rng
            ),
            "altered": islice(altered_captions(image, words, find, rng), negatives),
        }
        rows += [
            (image.id, image.file, kind, text) for kind, some in texts.items() for text in some
        ]
    return pd.DataFrame(rows, columns=["image", "file", "kind", "text"])


def _drawn(pool: Sequence[str], own: Sequence[str], n: int, rng: np.random.Generator) -> list[str]:
    """Returns up to `n` different texts of a pool that are none of an image's own."""
    mine = {text.casefold() for text in own}
    for tried in (2 * n, len(pool)):  # twice as many as needed, in case some are repeated
        texts = dict.fromkeys(rng.choice(pool, size=min(tried, len(pool)), replace=False))
        chosen = [text for text in texts if text.casefold() not in mine][:n]
        if len(chosen) == n:
            break
    return chosen


def altered_captions(
    image: Image,
    words: dict[str, Words],
    find: Callable[[str], list[Mention]],
    rng: np.random.Generator,
) -> Iterator[str]:
    """Yields distinct captions with one object replaced by one that neither labels nor captions of the image name.

    Args:
        image: The image.
        words: The words for all categories.
        find: Finds mentions of categories, see `mention_finder`.
        rng: Draws their order.
    """
    shown = {
        *image.labels,
        *(m.category for text in (*image.captions, *image.narratives) for m in find(text)),
    }
    absent = [category for category in words if category not in shown]
    slots = [
        (caption, mention)
        for caption in image.captions
        for mention in find(caption)
        if is_head(caption, mention)
    ]
    seen = {caption.casefold() for caption in image.captions}
    for number in rng.permutation(len(slots) * len(absent)):
        (caption, mention), category = slots[number // len(absent)], absent[number % len(absent)]
        text = swapped(caption, mention, words[category])
        if text not in seen and text.casefold() not in seen:
            seen.add(text)
            yield text
