"""What a measure is: the protocol with its defaults, what measures are told, and the bases that they inherit.

The names of the measures, and where each is made, are in `taxtune.metrics.registry`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

    from taxtune.models import ModelSettings

__all__ = ["FloatArray", "Identity", "ManyReferencesMeasure", "Measure", "MeasureSettings", "PairwiseMeasure"]

FloatArray = NDArray[np.float64]
Identity = dict[str, str | int | float | None]

# Pairs that `Measure.matrix` scores at a time, to bound the memory.
_CHUNK = 200_000


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """What every measure may be told; each takes what concerns it.

    Attributes:
        device: Where a model runs: "auto", "cpu", "cuda", ...
        batch_size: Texts or pairs computed at once, at least 1.
        cache_dir: Where scores and embeddings are kept; None is the user's cache folder.
        api_base: Address of an OpenAI-compatible server, for judges behind an API; None is the provider's own.
        concurrency: Calls of a judge under way at a time, at least 1.
        chunker: How concept similarity finds the concepts of an answer: "spacy", "spacy:MODEL" or "rules".
        on_progress: Called with how many pairs are done and how many there are.
        judge: How a judge is run, in full; made from the settings above where left out.
        demonstrations: A YAML file of demonstrations for LAVE in place of ours.
        yes_no_demonstrations: The same for references that are yes or no.
    """

    device: str = "auto"
    batch_size: int = 64
    cache_dir: Path | None = None
    api_base: str | None = None
    concurrency: int = 8
    chunker: str = "spacy"
    on_progress: Callable[[int, int], None] | None = None
    judge: ModelSettings | None = None
    demonstrations: Path | None = None
    yes_no_demonstrations: Path | None = None


@runtime_checkable
class Measure(Protocol):
    """Compares answers with references.

    What is written here is the default that measures inherit; a measure says only what it does otherwise.

    Attributes:
        name: Its specification: "rouge-1", "sentence:all-mpnet-base-v2".
        label: Its name as the papers print it: "ROUGE", "SentBERT".
        needs_images: Whether `scores` needs images.
        needs_questions: Whether `scores` needs the questions that were asked.
    """

    name: str
    label: str
    needs_images: bool
    needs_questions: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the scores made so far, such as texts that a model cut short."""
        return ()

    @abstractmethod
    def scores(
        self,
        answers: Sequence[str],
        references: Sequence[str],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,); NaN is unscored, never 0.

        Args:
            answers: Texts, n of them.
            references: As many texts.
            images: An image of each *reference*, for measures that need them.
            questions: The prompt that was asked for each answer, for judges.
        """

    def matrix(
        self, answers: Sequence[str], references: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references); here pair by pair.

        Args:
            answers: Texts.
            references: Texts.
            images: An image of each *answer*, compared with the references in the answer's place by image measures.
        """
        table = np.empty((len(answers), len(references)))
        rows = max(1, _CHUNK // max(1, len(references)))
        for start in range(0, len(answers), rows):
            block = answers[start : start + rows]
            left = [answer for answer in block for _ in references]
            right = [reference for _ in block for reference in references]
            pictures = None if images is None else [image for image in images[start : start + rows] for _ in references]
            table[start : start + rows] = self.scores(left, right, pictures).reshape(len(block), len(references))
        return table

    def identity(self) -> Identity:
        """Returns everything that can change a score, for records and caches."""
        return {"measure": self.name}


class PairwiseMeasure(Measure):
    """A measure that scores pairs: subclass it and write `scores`.

    Args:
        name: The specification.
        label: As the papers print it.
    """

    needs_images = False
    needs_questions = False

    def __init__(self, name: str, label: str) -> None:
        self.name = name
        self.label = label


class ManyReferencesMeasure(PairwiseMeasure):
    """A measure that is defined for all references of an answer at once: subclass it and write `scores_many`.

    Of any other measure an answer with several references gets the score of the reference that it fits best.
    """

    @abstractmethod
    def scores_many(
        self,
        answers: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer with all its references, shape (n,); NaN is unscored, never 0.

        Args:
            answers: Texts, n of them.
            references: The references of each, duplicates included.
            questions: The prompt that was asked for each answer, for judges.
        """

    def scores(
        self,
        answers: Sequence[str],
        references: Sequence[str],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer with its one reference, shape (n,); see `scores_many`."""
        return self.scores_many(answers, [[reference] for reference in references], questions=questions)
