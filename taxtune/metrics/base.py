"""What a measure is: the protocol with its defaults, what measures are told, and the bases that they inherit.

The names of the measures, and where each is made, are in `taxtune.metrics.registry`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, SupportsFloat, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError, TaxtuneError
from taxtune.progress import track_each

if TYPE_CHECKING:
    from PIL.Image import Image

    from taxtune.metrics.registry import MeasureKind
    from taxtune.models import ModelSettings

__all__ = [
    "FloatArray",
    "FunctionMeasure",
    "Identity",
    "ManyReferencesMeasure",
    "Measure",
    "MeasureSettings",
    "PairwiseMeasure",
    "check_lengths",
    "check_texts",
    "name_scores",
]

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
        cache_dir: Where scores, a judge's replies and embeddings are kept; None is the user's cache folder.
        api_base: Address of an OpenAI-compatible server, for judges behind an API; None is the provider's own.
        concurrency: Calls of a judge under way at a time, at least 1.
        chunker: How concept similarity finds the concepts of an answer: "spacy", "spacy:MODEL" or "rules".
        judge: How a judge is run, in full; made from the settings above where left out.
        demonstrations: A YAML file of demonstrations for LAVE in place of ours.
        yes_no_demonstrations: The same for yes/no questions.
    """

    device: str = "auto"
    batch_size: int = 64
    cache_dir: Path | None = None
    api_base: str | None = None
    concurrency: int = 8
    chunker: str = "spacy"
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

    def scores_many(
        self,
        answers: Sequence[str],
        references: Sequence[Sequence[str]],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer with all its references, shape (n,); here that of the one it fits best.

        NaN is unscored, never 0: an answer without references, or none of whose references gave a score.

        Args:
            answers: Texts, n of them.
            references: The references of each, duplicates included.
            images: An image of each answer, for measures that need them.
            questions: The prompt that was asked for each answer, for judges.
        """
        owner = [i for i, (_, given) in enumerate(zip(answers, references, strict=True)) for _ in given]
        scores = self.scores(
            [answers[i] for i in owner],
            [reference for given in references for reference in given],
            None if images is None else [images[i] for i in owner],
            questions=None if questions is None else [questions[i] for i in owner],
        )
        best = np.full(len(answers), np.nan)
        np.fmax.at(best, np.array(owner, dtype=np.int64), scores)  # fmax takes the number where the other is NaN
        return best

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
        name: The specification; the kind that it is registered as where left out.
        label: As the papers print it; that of its kind where left out.
    """

    kind: ClassVar[MeasureKind]  # set by the decorator `measure`, as are these two
    needs_images = False
    needs_questions = False

    def __init__(self, name: str | None = None, label: str | None = None) -> None:
        self.name = self.kind.kind if name is None else name
        self.label = self.kind.label if label is None else label


class FunctionMeasure(PairwiseMeasure):
    """A measure that is a function of a pair, or of all pairs at once. Equal pairs are scored once.

    Args:
        name: Its name.
        label: As tables print it.
        function: Called with answer and reference and what it needs, or with lists of them. What it returns for a pair
            is a finite number; None or NaN leaves the pair unscored.
        settings: Who is told of progress.
        batched: Whether it takes lists.
        needs: What it is given besides, in this order: "question", "image".
    """

    def __init__(
        self,
        name: str,
        label: str,
        function: Callable[..., Any],
        settings: MeasureSettings,
        *,
        batched: bool = False,
        needs: Sequence[str] = (),
    ) -> None:
        super().__init__(name, label)
        self._function, self._batched, self._needs = function, batched, needs
        self.needs_images, self.needs_questions = "image" in needs, "question" in needs

    def identity(self) -> Identity:
        """Returns the name and where the function is defined."""
        where = [getattr(self._function, key, "") for key in ("__module__", "__qualname__")]
        return {"measure": self.name, "function": ".".join(filter(None, where)) or repr(self._function)}

    def scores(
        self,
        answers: Sequence[str],
        references: Sequence[str],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,); NaN is unscored.

        Raises:
            DataError: If there are not as many answers as references, or what the function needs is not given.
            TaxtuneError: If the function returns something other than numbers, or not as many as there are pairs.
        """
        check_texts(answers, references)
        check_lengths(answers, references)
        columns: list[Sequence[Any]] = [answers, references]
        for need in self._needs:
            column = questions if need == "question" else images
            if column is None or len(column) != len(answers):
                raise DataError(f"{self.name} needs the {need} of every answer.")
            columns.append(column)
        # Images cannot be looked up by their content, but one object is one image.
        given_rows = list(zip(*columns, strict=True))
        keys = [tuple(cell if isinstance(cell, str) else id(cell) for cell in row) for row in given_rows]
        distinct = dict(zip(keys, given_rows, strict=True))
        rows = list(distinct.values())
        if self._batched:
            given = list(self._function(*map(list, zip(*rows, strict=True)))) if rows else []
            if len(given) != len(rows):
                raise TaxtuneError(f"The measure {self.name} returned {len(given)} scores for {len(rows)} pairs.")
        else:
            given = [self._function(*row) for row in track_each(rows, self.label)]
        known = {key: self._number(score, row) for key, score, row in zip(distinct, given, rows, strict=True)}
        return np.array([known[key] for key in keys], dtype=np.float64)

    def _number(self, score: object, row: Sequence[Any]) -> float:
        """Returns a score as a number.

        Raises:
            TaxtuneError: If it is none, naming the pair.
        """
        number = float("inf")
        if score is None:
            return float("nan")
        if isinstance(score, SupportsFloat) and not isinstance(score, str):
            number = float(score)
        if np.isinf(number):
            raise TaxtuneError(
                f"The measure {self.name} did not return a finite number for the answer "
                f"{row[0]!r:.120} and the reference {row[1]!r:.120}.",
                value=score,
                remedy="Return None for a pair that cannot be scored.",
            )
        return number


class ManyReferencesMeasure(PairwiseMeasure):
    """A measure that is defined for all references of an answer at once: subclass it and write `scores_many`."""

    #: Whether references are the answers of several people, which are counted or averaged. They then are no
    #: alternatives, such as the names of one target are, of which a right answer need give only one.
    consensus: ClassVar[bool] = False

    @abstractmethod
    def scores_many(
        self,
        answers: Sequence[str],
        references: Sequence[Sequence[str]],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer with all its references; see `Measure.scores_many`."""

    def scores(
        self,
        answers: Sequence[str],
        references: Sequence[str],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer with its one reference, shape (n,); see `scores_many`."""
        return self.scores_many(answers, [[reference] for reference in references], images, questions=questions)


def name_scores(
    measure: Measure,
    answers: Sequence[str],
    names: Sequence[Sequence[str]],
    images: Sequence[Image | None] | None = None,
    *,
    questions: Sequence[str] | None = None,
) -> FloatArray:
    """Returns the score of each answer with the names of its target, any of which is right, shape (n,).

    As `Measure.scores_many`, but for measures that count or average what several people said: there a name is a
    reference of its own, and the one that the answer fits best counts. Under VQA accuracy an answer that gives one of a
    target's two names would else score 1/6.

    Args:
        measure: The measure.
        answers: Texts, n of them.
        names: The names of each one's target.
        images: An image of each answer, for measures that need them.
        questions: The prompt that was asked for each answer, for judges.
    """
    one_by_one = isinstance(measure, ManyReferencesMeasure) and measure.consensus
    if one_by_one:
        return Measure.scores_many(measure, answers, names, images, questions=questions)
    return measure.scores_many(answers, names, images, questions=questions)


def check_texts(*lists: Sequence[str]) -> None:
    """Raises TypeError unless each is a list of texts."""
    for texts in lists:
        if isinstance(texts, str):
            raise TypeError("answers and references are lists of texts, not one text")
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"answers and references are texts, not {text!r}; remove missing ones")


def check_lengths(answers: Sequence[object], references: Sequence[object]) -> None:
    """Raises DataError unless there are as many answers as references."""
    if len(answers) != len(references):
        raise DataError(
            "The number of references must equal the number of answers.",
            value=f"{len(answers)} answers, {len(references)} references",
            remedy="Give one reference for each answer.",
        )
