"""What a measure is: the protocol with its defaults, the settings of measures, and the base classes that they inherit.

The names of the measures, and the module that defines each, are in `taxtune.metrics.registry`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, SupportsFloat, TypeAlias, runtime_checkable

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
    "Images",
    "ManyReferencesMeasure",
    "Measure",
    "MeasureSettings",
    "PairwiseMeasure",
    "Questions",
    "Texts",
    "check_texts",
    "name_scores",
]

FloatArray = NDArray[np.float64]
Identity = dict[str, str | int | float | None]
Texts = Sequence[str]
Questions: TypeAlias = "Sequence[str] | None"
Images: TypeAlias = "Sequence[Image | None] | None"

_CHUNK = 200_000  # pairs that `Measure.matrix` scores at a time, to bound the memory


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """Settings of all measures; each takes those that concern it.

    Attributes:
        device: Where a model runs: "auto", "cpu", "cuda", ...
        batch_size: Texts or pairs computed at once, at least 1.
        cache_dir: Folder of scores, judges' replies and embeddings; None is the user's cache folder.
        api_base: Address of an OpenAI-compatible server, for judges behind an API; None is the provider's own.
        concurrency: Concurrent calls of a judge, at least 1.
        chunker: How concept similarity finds the concepts of an answer: "spacy", "spacy:MODEL" or "rules".
        judge: Settings of a judge's model; made from the settings above where left out.
        demonstrations: A YAML file of demonstrations for LAVE that replaces the package's own.
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
    """Compares answers with references. Its methods are the defaults that measures inherit.

    Attributes:
        name: Its specification: "rouge-1", "sentence:all-mpnet-base-v2".
        label: Its name as the papers print it: "ROUGE", "SentBERT".
        needs_images: Whether `scores` needs images.
        needs_questions: Whether `scores` needs the prompts.
    """

    name: str
    label: str
    needs_images: bool
    needs_questions: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the scores computed so far, such as the number of texts that a model truncated."""
        return ()

    @abstractmethod
    def scores(
        self, answers: Texts, references: Texts, images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,); NaN is unscored, never 0.

        Args:
            answers: Texts, n of them.
            references: As many texts.
            images: An image of each *reference*, for measures that need them.
            questions: The prompt of each answer, for judges.
        """

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer with all its references, shape (n,); by default that of the best reference.

        NaN is an answer without references, or none of whose references gave a score. `images` and `questions` are
        those of the answers.
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

    def matrix(self, answers: Texts, references: Texts, images: Images = None) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references); by default pair by pair.

        `images` are those of the answers, which image measures compare with the references instead of the answer.
        """
        table = np.empty((len(answers), len(references)))
        rows = max(1, _CHUNK // max(1, len(references)))
        for start in range(0, len(answers), rows):
            block = answers[start : start + rows]
            left = [answer for answer in block for _ in references]
            pictures = None if images is None else [image for image in images[start : start + rows] for _ in references]
            scores = self.scores(left, list(references) * len(block), pictures)
            table[start : start + rows] = scores.reshape(len(block), len(references))
        return table

    def identity(self) -> Identity:
        """Returns everything that can change a score, for records and caches."""
        return {"measure": self.name}


class PairwiseMeasure(Measure):
    """A measure that scores pairs: subclass it and write `scores`. Name and label are by default those of its kind."""

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
        function: Called with answer, reference and what it needs, or with lists of them. It returns a finite number for
            each pair; None or NaN leaves the pair unscored.
        batched: Whether it takes lists.
        needs: Its further arguments, in this order: "question", "image".
    """

    def __init__(
        self, name: str, label: str, function: Callable[..., Any], *, batched: bool = False, needs: Sequence[str] = ()
    ) -> None:
        super().__init__(name, label)
        self._function, self._batched, self._needs = function, batched, needs
        self.needs_images, self.needs_questions = "image" in needs, "question" in needs

    def identity(self) -> Identity:
        """Returns the name and where the function is defined."""
        where = [getattr(self._function, key, "") for key in ("__module__", "__qualname__")]
        return {"measure": self.name, "function": ".".join(filter(None, where)) or repr(self._function)}

    def scores(
        self, answers: Texts, references: Texts, images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,); NaN is unscored.

        Raises:
            DataError: If numbers of answers and references differ, or an argument of the function is missing.
            TaxtuneError: If the function returns something other than a number for each pair.
        """
        check_texts(answers, references)
        columns: list[Sequence[Any]] = [answers, references]
        for need in self._needs:
            column = questions if need == "question" else images
            if column is None or len(column) != len(answers):
                raise DataError(f"{self.name} needs the {need} of every answer.")
            columns.append(column)
        # Images cannot be looked up by their content, but one object is one image.
        rows = list(zip(*columns, strict=True))
        keys = [tuple(cell if isinstance(cell, str) else id(cell) for cell in row) for row in rows]
        distinct = dict(zip(keys, rows, strict=True))
        if self._batched:
            values = list(self._function(*map(list, zip(*distinct.values(), strict=True)))) if distinct else []
            if len(values) != len(distinct):
                raise TaxtuneError(f"The measure {self.name} returned {len(values)} scores for {len(distinct)} pairs.")
        else:
            values = [self._function(*row) for row in track_each(list(distinct.values()), self.label)]
        known = {key: self._number(value, distinct[key]) for key, value in zip(distinct, values, strict=True)}
        return np.array([known[key] for key in keys], dtype=np.float64)

    def _number(self, score: object, row: Sequence[Any]) -> float:
        if score is None:
            return float("nan")
        number = float(score) if isinstance(score, SupportsFloat) and not isinstance(score, str) else float("inf")
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
    #: alternatives, as the names of one target are, of which a right answer need give only one.
    consensus: ClassVar[bool] = False

    @abstractmethod
    def scores_many(
        self, answers: Texts, references: Sequence[Texts], images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer with all its references; see `Measure.scores_many`."""

    def scores(
        self, answers: Texts, references: Texts, images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer with its one reference, shape (n,); see `scores_many`."""
        return self.scores_many(answers, [[reference] for reference in references], images, questions=questions)


def name_scores(
    measure: Measure,
    answers: Sequence[str],
    names: Sequence[Sequence[str]],
    images: Images = None,
    *,
    questions: Sequence[str] | None = None,
) -> FloatArray:
    """Returns the score of each answer with the names of its target, any of which is right, shape (n,).

    As `Measure.scores_many`, but measures of consensus take each name as a reference of its own, and the best one
    counts. Under VQA accuracy an answer that gives one of a target's two names would otherwise score 1/6.
    """
    if isinstance(measure, ManyReferencesMeasure) and measure.consensus:
        return Measure.scores_many(measure, answers, names, images, questions=questions)
    return measure.scores_many(answers, names, images, questions=questions)


def check_texts(answers: Sequence[str], references: Sequence[Any], *, paired: bool = True) -> None:
    """Checks that answers and references are lists of texts and, if `paired`, that there are as many of each.

    Raises:
        DataError: If there are more or fewer references than answers.
        TypeError: If one of them is not text.
    """
    for texts in (answers, references):
        if isinstance(texts, str):
            raise TypeError("answers and references are lists of texts, not one text")
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"answers and references are texts, not {text!r}; remove missing ones")
    if paired and len(answers) != len(references):
        raise DataError(
            "The number of references must equal the number of answers.",
            value=f"{len(answers)} answers, {len(references)} references",
            remedy="Give one reference for each answer.",
        )
