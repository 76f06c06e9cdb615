"""Right and subtly wrong texts of images with captions and object labels (paper 3, §5).

Right: the captions, a prompt with all labels, a prompt with one label, a long narrative. Wrong: captions of random
images, of images that share a label, and the image's own captions with one object replaced by an absent one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import pandas as pd

from taxtune.studies.specificity.coco import Image
from taxtune.studies.specificity.mentions import (
    Mention,
    Words,
    is_head,
    mention_finder,
    swapped,
)

__all__ = ["altered_captions", "make_texts"]


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
    captions = pd.Series([image.captions for image in images]).explode()
    owners = captions.index.to_numpy()
    pool = captions.to_numpy(dtype=object)
    labels = pd.Series([image.labels for image in images]).explode()
    images_with = labels.groupby(labels).groups
    rows: list[dict[str, str]] = []
    for i, image in enumerate(images):
        own_seed = zlib.crc32(image.id.encode())
        rng = np.random.default_rng([seed, own_seed])
        # The generator is used in the order of the kinds.
        label = image.labels[rng.integers(len(image.labels))]
        every_label = ", ".join(image.labels)
        is_other = owners != i
        related = np.concatenate([images_with[name] for name in image.labels])
        is_related = np.isin(owners, related) & is_other
        texts: dict[str, Iterable[str]] = {}
        texts["caption"] = image.captions
        texts["multi"] = [template.replace("{label}", every_label)]
        texts["single"] = [template.replace("{label}", label)]
        texts["narrative"] = image.narratives
        texts["random"] = _drawn(pool[is_other], image.captions, negatives, rng)
        texts["related"] = _drawn(pool[is_related], image.captions, negatives, rng)
        altered = altered_captions(image, words, find, rng)
        texts["altered"] = islice(altered, negatives)
        for kind, some in texts.items():
            row = {"image": image.id, "file": image.file, "kind": kind}
            rows += [row | {"text": text} for text in some]
    return pd.DataFrame(rows)


def _drawn(pool: Sequence[str], own: Sequence[str], n: int, rng: np.random.Generator) -> list[str]:
    """Returns up to `n` different texts of a pool that are none of an image's own."""
    own_texts = {text.casefold() for text in own}
    others: list[str] = []
    # Twice as many as needed first, in case some are repeated.
    for size in (2 * n, len(pool)):
        size = min(size, len(pool))
        drawn = rng.choice(pool, size, replace=False)
        distinct = dict.fromkeys(drawn)
        others = [text for text in distinct if text.casefold() not in own_texts]
        if len(others) >= n:
            break
    return others[:n]


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
    named = set(image.labels)
    for text in (*image.captions, *image.narratives):
        named |= {mention.category for mention in find(text)}
    absent = [category for category in words if category not in named]
    slots = []
    for caption in image.captions:
        heads = [mention for mention in find(caption) if is_head(caption, mention)]
        slots += [(caption, mention) for mention in heads]
    seen = {caption.casefold() for caption in image.captions}
    for number in rng.permutation(len(slots) * len(absent)):
        slot, other = divmod(int(number), len(absent))
        caption, mention = slots[slot]
        category = absent[other]
        text = swapped(caption, mention, words[category])
        if text not in seen and text.casefold() not in seen:
            seen.add(text)
            yield text
