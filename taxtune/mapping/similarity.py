"""Similarity of answers to the names of a taxonomy, by spelling or by an encoder's embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

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

FloatMatrix = NDArray[np.float32]


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
        """The score from which on the most similar name is believed; None for never."""
        ...

    def fit(self, names: Sequence[str]) -> None:
        """Learns the names that answers will be compared with."""

    def scores(
        self,
        answers: Sequence[str],
        images: Sequence[Image | None] | None = None,
    ) -> FloatMatrix:
        """Returns cosine-like scores, at most 1, of shape (answers, names)."""
        ...


def make_similarity(
    spec: str,
    *,
    device: str = "auto",
    cache_dir: Path | None = None,
) -> Similarity:
    """Returns the similarity that a specification names; encoders are imported only when chosen.

    Args:
        spec: "lexical"; "sentence:MODEL", a Sentence-BERT model by name or folder; "clip:MODEL", an
            open_clip model comparing text with text; or "clip-i2t:MODEL", comparing the example's
            image with text. The paper used "clip:hf-hub:apple/DFN5B-CLIP-ViT-H-14".
        device: Where the encoder runs: "auto", "cpu", "cuda", ...
        cache_dir: Where embeddings of names are kept; None is the user's cache folder.

    Raises:
        MapperError: If there is no such similarity.
        ModelError: If its model cannot be loaded.
        MissingExtraError: If its package is not installed (sentence-transformers is in the extra
            `measures`).
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
        if kind == "clip":
            return EmbeddingSimilarity(clip, spec, confident=0.9)
        # The cosine of an image and its caption stays far below that of two captions.
        return EmbeddingSimilarity(clip, spec, confident=0.25, needs_images=True)
    raise MapperError(
        "There is no such similarity.",
        value=spec,
        remedy="Use lexical, sentence:MODEL, clip:MODEL or clip-i2t:MODEL.",
    )


class LexicalSimilarity:
    """Cosine of TF-IDF vectors over two to four characters inside folded words.

    It is the default and needs no model.
    """

    name = "lexical"
    needs_images = False
    #: Of 43 answers that name nothing and are as like a name, 27 mean its node (benchmarks/domains).
    confident = 0.6

    def __init__(self) -> None:
        self._vectorizer: Any = None
        self._names: Any = None

    def fit(self, names: Sequence[str]) -> None:
        """Learns the names; about two seconds for 30,000."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizer = TfidfVectorizer(
            preprocessor=_folded,
            analyzer="char_wb",
            ngram_range=(2, 4),
            sublinear_tf=True,
            dtype=np.float32,
        )
        self._names = self._vectorizer.fit_transform(names).T.tocsr()

    def scores(
        self,
        answers: Sequence[str],
        images: Sequence[Image | None] | None = None,
    ) -> FloatMatrix:
        """Returns cosines in [0, 1], shape (answers, names); images are ignored.

        Raises:
            MapperError: If `fit` has not been called.
        """
        if self._vectorizer is None:
            raise _not_fitted(self)
        cosines = self._vectorizer.transform(answers) @ self._names
        return np.asarray(cosines.toarray(), dtype=np.float32)


class EmbeddingSimilarity:
    """Cosine of embeddings: of answer and name, or of image and name (paper 1, §6 and §11).

    Args:
        encoder: A `SentenceEncoder` or `ClipEncoder`.
        name: The similarity's specification.
        confident: The cosine from which on the most similar name is believed.
        needs_images: Whether the example's image is compared with the names instead of the answer.
    """

    def __init__(
        self,
        encoder: Any,
        name: str,
        *,
        confident: float,
        needs_images: bool = False,
    ) -> None:
        self._encoder = encoder
        self.name = name
        self.confident = confident
        self.needs_images = needs_images
        self._names: FloatMatrix | None = None

    def fit(self, names: Sequence[str]) -> None:
        """Embeds the names, or reads their embeddings from disk."""
        self._names = self._encoder.stored(names)

    def scores(
        self,
        answers: Sequence[str],
        images: Sequence[Image | None] | None = None,
    ) -> FloatMatrix:
        """Returns cosines, shape (answers, names).

        Raises:
            MapperError: If `fit` has not been called, or an image is needed and missing.
        """
        if self._names is None:
            raise _not_fitted(self)
        if self.needs_images:
            vectors = self._encoder.images(_all_given(images, len(answers)))
        else:
            vectors = self._encoder.texts(answers)
        return np.asarray(vectors @ self._names.T, dtype=np.float32)


def _all_given(images: Sequence[Image | None] | None, count: int) -> list[Image]:
    given = [image for image in images or () if image is not None]
    if len(given) == count:
        return given
    raise MapperError(
        "Image-to-text similarity needs the image of every answer.",
        value=f"{len(given)} images for {count} answers",
        remedy="Provide the images, or use the text-to-text similarity clip:MODEL.",
    )


def _not_fitted(similarity: Similarity) -> MapperError:
    return MapperError(
        "The similarity has no names to compare with.",
        value=similarity.name,
        remedy="Call fit first.",
    )


def _folded(text: str) -> str:
    # A name without Latin letters can fold to nothing, and a tree of such names would have an
    # empty vocabulary.
    return " ".join(fold_words(text)) or "∅"
