"""Similarity of answers to the names of a taxonomy, by spelling or by an encoder's embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from taxtune.encoders.base import FloatMatrix
from taxtune.errors import MapperError
from taxtune.mapping.normalize import fold_words

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = [
    "EmbeddingSimilarity",
    "FloatMatrix",
    "LexicalSimilarity",
    "Similarity",
    "make_similarity",
]


@runtime_checkable
class Similarity(Protocol):
    """Scores answers against names; call `fit` before `scores`.

    Attributes:
        name: Its specification, as in "sentence:all-MiniLM-L6-v2".
        needs_images: Whether it scores the example's image instead of the answer.
    """

    name: str
    needs_images: bool

    @property
    def confident(self) -> float | None:
        """The score above which the most similar name is believed where nothing else decides; None for never."""
        ...

    def fit(self, names: Sequence[str]) -> None:
        """Learns the names that answers will be compared with."""

    def scores(
        self, answers: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatMatrix:
        """Returns cosine-like scores, at most 1, of shape (answers, names)."""
        ...


def make_similarity(
    spec: str, *, device: str = "auto", cache_dir: Path | None = None
) -> Similarity:
    """Returns the similarity that a specification names; encoders are imported only when chosen.

    Args:
        spec: "lexical"; "sentence:MODEL", a Sentence-BERT model by name or folder; "clip:MODEL", an open_clip model
            comparing text with text; or "clip-i2t:MODEL", comparing the example's image with text. The paper used
            "clip:hf-hub:apple/DFN5B-CLIP-ViT-H-14".
        device: Where the encoder runs: "auto", "cpu", "cuda", ...
        cache_dir: Where embeddings of names are kept; None is the user's cache folder.

    Raises:
        MapperError: If there is no such similarity.
        ModelError: If its model cannot be loaded.
        MissingExtraError: If its package is not installed (sentence-transformers is in the extra `measures`).
    """
    kind, _, model = spec.partition(":")
    if spec == "lexical":
        return LexicalSimilarity()
    if kind == "sentence" and model:
        from taxtune.encoders.sentence import SentenceEncoder

        sentence = SentenceEncoder(model, device=device, cache_dir=cache_dir)
        return EmbeddingSimilarity(sentence, sentence.name, confident=0.6)
    if kind in ("clip", "clip-i2t") and model:
        from taxtune.encoders.clip import ClipEncoder

        clip = ClipEncoder(model, device=device, cache_dir=cache_dir)
        # The cosine of an image and its caption stays far below that of two captions.
        image_to_text = kind == "clip-i2t"
        return EmbeddingSimilarity(
            clip, spec, confident=0.25 if image_to_text else 0.9, needs_images=image_to_text
        )
    raise MapperError(
        "There is no such similarity.",
        value=spec,
        remedy="Use lexical, sentence:MODEL, clip:MODEL or clip-i2t:MODEL.",
    )


class LexicalSimilarity:
    """Cosine of TF-IDF vectors over two to four characters inside folded words: the default, which needs no model."""

    name = "lexical"
    needs_images = False
    #: Anything spelt like a name has been read as that name before a similarity is computed.
    confident = None

    def __init__(self) -> None:
        self._vectorizer: Any = None
        self._names: Any = None

    def fit(self, names: Sequence[str]) -> None:
        """Learns the names; about two seconds for 30,000."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizer = TfidfVectorizer(
            analyzer="char_wb",
            ngram_range=(2, 4),
            lowercase=False,
            sublinear_tf=True,
            dtype=np.float32,
        )
        self._names = self._vectorizer.fit_transform([_folded(name) for name in names]).T.tocsr()

    def scores(
        self, answers: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatMatrix:
        """Returns cosines in [0, 1], shape (answers, names); images are ignored.

        Raises:
            MapperError: If `fit` has not been called.
        """
        if self._vectorizer is None:
            raise _not_fitted(self)
        product = self._vectorizer.transform([_folded(answer) for answer in answers]) @ self._names
        return np.asarray(product.toarray(), dtype=np.float32)


class EmbeddingSimilarity:
    """Cosine of embeddings: of answer and name, or of image and name (paper 1, §6 and §11).

    Args:
        encoder: A `SentenceEncoder` or `ClipEncoder`.
        name: The similarity's specification.
        confident: The cosine above which the most similar name is believed.
        needs_images: Whether the example's image is compared with the names instead of the answer.
    """

    def __init__(
        self, encoder: Any, name: str, *, confident: float, needs_images: bool = False
    ) -> None:
        self._encoder = encoder
        self.name, self.confident, self.needs_images = name, confident, needs_images
        self._names: FloatMatrix | None = None

    def fit(self, names: Sequence[str]) -> None:
        """Embeds the names, or reads their embeddings from disk."""
        self._names = self._encoder.stored(names)

    def scores(
        self, answers: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatMatrix:
        """Returns cosines, shape (answers, names).

        Raises:
            MapperError: If `fit` has not been called, or an image is needed and missing.
        """
        if self._names is None:
            raise _not_fitted(self)
        if not self.needs_images:
            return np.asarray(self._encoder.texts(answers) @ self._names.T, dtype=np.float32)
        given = [image for image in images or () if image is not None]
        if len(given) != len(answers):
            raise MapperError(
                "Image-to-text similarity needs the image of every answer.",
                value=f"{len(given)} images for {len(answers)} answers",
                remedy="Provide the images, or use the text-to-text similarity clip:MODEL.",
            )
        return np.asarray(self._encoder.images(given) @ self._names.T, dtype=np.float32)


def _not_fitted(similarity: Similarity) -> MapperError:
    return MapperError(
        "The similarity has no names to compare with.",
        value=similarity.name,
        remedy="Call fit first.",
    )


def _folded(text: str) -> str:
    # A name without Latin letters can fold to nothing, and a tree of such names would have an empty vocabulary.
    return " ".join(fold_words(text)) or "∅"
