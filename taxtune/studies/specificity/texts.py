"""Texts that an image is to be distinguished by: right ones of several specificities, wrong ones of several kinds.

The kinds are those of paper 3, §5. Right: the captions, a prompt with all labels, a prompt with one label, a long
narrative. Wrong: captions of random images, captions of images that share a label, and the image's own captions with
one object swapped for one that is not there.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taxtune.errors import DataError
from taxtune.metrics.chunks import Chunker
from taxtune.studies.specificity.captions import CaptionData, CaptionedImage
from taxtune.studies.specificity.object_words import Mention, ObjectWords, chunk_mentions, swapped

__all__ = ["KINDS", "NEGATIVES", "POSITIVES", "ImageTexts", "altered_captions", "make_texts", "sampled"]

#: Kinds of right texts, with the names that the tables show.
POSITIVES = {"caption": "captions", "multi": "all labels", "single": "one label", "narrative": "narrative"}
#: Kinds of wrong texts.
NEGATIVES = {"random": "random images'", "related": "related images'", "altered": "altered captions"}
#: All kinds; the last is made of each image's own captions.
KINDS = (*POSITIVES, *NEGATIVES)


@dataclass(frozen=True, slots=True)
class ImageTexts:
    """The texts of one image.

    Attributes:
        image: The image's id.
        file_name: Its file.
        texts: By kind, right and wrong; a kind may be empty.
    """

    image: str
    file_name: str
    texts: dict[str, tuple[str, ...]]


def sampled(data: CaptionData, n: int | None, seed: int) -> CaptionData:
    """Returns the data with `n` of its images drawn at random, in their order; all where `n` is None or too large.

    Raises:
        DataError: If `n` is not at least 2: captions of another image are needed.
    """
    if n is not None and n < 2:
        raise DataError("At least two images are needed.", value=n)
    if n is None or n >= len(data.images):
        return data
    drawn = np.sort(np.random.default_rng(seed).choice(len(data.images), size=n, replace=False))
    note = f"{n:,} of {len(data.images):,} images drawn at random."
    return CaptionData(tuple(data.images[i] for i in drawn.tolist()), data.categories, (*data.notes, note))


def make_texts(
    data: CaptionData,
    words: ObjectWords,
    template: str,
    *,
    negatives: int = 100,
    seed: int = 0,
    chunker: Chunker | None = None,
) -> list[ImageTexts]:
    """Returns the right and the wrong texts of every image.

    The draws of an image depend on the seed and its id, not on which images come before it.

    Args:
        data: The images.
        words: The words for the categories.
        template: The prompt of labels, with `{label}`.
        negatives: Wrong texts of each kind for an image; fewer where there are not as many.
        seed: Seed of all draws.
        chunker: Swap any noun phrase's head that it finds, as the paper does; None swaps mentions of categories only.

    Raises:
        DataError: If there are fewer than two images.
    """
    if len(data.images) < 2:
        raise DataError("At least two images are needed: wrong captions come from other images.")
    pool = _Pool(data.images)
    chunks: dict[str, tuple[str, ...]] | None = None
    if chunker is not None:
        captions = list(dict.fromkeys(caption for image in data.images for caption in image.captions))
        chunks = dict(zip(captions, chunker.chunks(captions), strict=True))
    made = []
    for i, image in enumerate(data.images):
        rng = np.random.default_rng([seed, zlib.crc32(image.id.encode())])
        label = image.labels[int(rng.integers(len(image.labels)))]
        texts = {
            "caption": image.captions,
            "multi": (template.replace("{label}", ", ".join(image.labels)),),
            "single": (template.replace("{label}", label),),
            "narrative": image.narratives,
            "random": pool.others(i, negatives, rng, related=False),
            "related": pool.others(i, negatives, rng, related=True),
            "altered": tuple(altered_captions(image, data.categories, words, chunks, wanted=negatives, rng=rng)),
        }
        made.append(ImageTexts(image.id, image.file_name, texts))
    return made


def altered_captions(
    image: CaptionedImage,
    categories: Sequence[str],
    words: ObjectWords,
    chunks: dict[str, tuple[str, ...]] | None = None,
    *,
    wanted: int | None = None,
    rng: np.random.Generator | None = None,
) -> list[str]:
    """Returns captions of an image with one object swapped for one that is not in the image.

    An object counts as in the image where it is among its labels or any of its captions mentions it: labels are not
    always complete.

    Args:
        image: The image.
        categories: All categories.
        words: The words for them.
        chunks: The noun phrases of the captions, whose heads are swapped; None swaps mentions of categories.
        wanted: At most so many of them, drawn at random; None is all, in a fixed order. Only these are made: a caption
            of a megabyte has millions.
        rng: Draws them.

    Returns:
        The altered captions, each once; none where no caption mentions an object.
    """
    told = (*image.captions, *image.narratives)
    there = {*image.labels, *(mention.category for text in told for mention in words.mentions(text))}
    absent = [category for category in categories if category not in there]
    true = {caption.casefold() for caption in image.captions}
    slots: list[tuple[str, Mention]] = []
    for caption in image.captions:
        found = words.swappable(caption) if chunks is None else chunk_mentions(caption, chunks.get(caption, ()))
        slots += [(caption, mention) for mention in found]
    total = len(slots) * len(absent)
    altered: dict[str, None] = {}
    for number in range(total) if rng is None else rng.permutation(total):
        if wanted is not None and len(altered) == wanted:
            break
        (caption, mention), category = slots[number // len(absent)], absent[number % len(absent)]
        text = swapped(caption, mention, words.words[category])
        if text.casefold() not in true:
            altered[text] = None
    return list(altered)


class _Pool:
    """The captions of all images, to draw those of others from."""

    def __init__(self, images: Sequence[CaptionedImage]) -> None:
        self._images = images
        self._texts = [caption for image in images for caption in image.captions]
        owner = [i for i, image in enumerate(images) for _ in image.captions]
        self._start = np.searchsorted(np.array(owner), np.arange(len(images) + 1))
        self._of_label: dict[str, list[int]] = {}
        for i, image in enumerate(images):
            for label in image.labels:
                self._of_label.setdefault(label, []).append(i)

    def others(self, image: int, n: int, rng: np.random.Generator, *, related: bool) -> tuple[str, ...]:
        """Returns up to `n` captions of other images, or of those that share a label; none equal to one of its own."""
        if related:
            near = np.unique(np.concatenate([self._of_label[label] for label in self._images[image].labels]))
        else:
            near = np.arange(len(self._images))
        near = near[near != image]
        own = {caption.casefold() for caption in self._images[image].captions}
        places = np.concatenate([np.arange(self._start[i], self._start[i + 1]) for i in near] or [np.zeros(0, int)])
        # Twice as many as are needed, in case some are the image's own or stand twice; all where that is not enough.
        for tried in (2 * n, len(places)):
            drawn = places[rng.choice(len(places), size=min(tried, len(places)), replace=False)]
            texts = dict.fromkeys(self._texts[place] for place in drawn.tolist())
            chosen = [text for text in texts if text.casefold() not in own][:n]
            if len(chosen) == n:
                break
        return tuple(chosen)
