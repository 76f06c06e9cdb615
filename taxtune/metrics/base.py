"""What a measure is: it compares answers with references, text with text.

Subclass `Measure` for a measure of one reference, `ManyReferencesMeasure` for one of all references
at once, and `PairsMeasure` where each different pair is to be computed once; a plain function
becomes a `FunctionMeasure`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, SupportsFloat, TypeAlias

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError, TaxtuneError
from taxtune.progress import track, track_each
from taxtune.untrusted import well_formed

__all__ = [
    "Advance",
    "FloatArray",
    "FunctionMeasure",
    "Identity",
    "ManyReferencesMeasure",
    "Measure",
    "MeasureKind",
    "MeasureSettings",
    "Notes",
    "Pair",
    "PairsMeasure",
    "Questions",
    "Texts",
    "check_texts",
    "name_scores",
    "version_of",
]

FloatArray = NDArray[np.float64]
Identity = dict[str, str | int | float | None]
Texts = Sequence[str]
Questions: TypeAlias = "Sequence[str] | None"
Pair = tuple[str, str]
Advance = Callable[[int], None]

EMPTY_ANSWER = "Pairs with an empty answer, which score 0: {n}."
EMPTY_REFERENCE = "Pairs left unscored because the reference is empty: {n}."
NO_NUMBER = "Pairs left unscored because the model returned no number: {n}."
_MAX_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class MeasureKind:
    """An entry of the registry.

    Attributes:
        kind: The name, or the part of the specification before the colon.
        label: As the papers print it.
        summary: Its definition in one line.
        source: Paper and section.
        factory: Called with the model's name (or None) and the settings; returns the measure.
        default_model: The model where the specification names none; None where the measure has no
            model.
        extra: The extra of taxtune that its packages come with, or None.
        needs_question: Whether it needs the questions besides the texts.
    """

    kind: str
    label: str
    summary: str
    source: str
    factory: Callable[[str | None, MeasureSettings], Measure]
    default_model: str | None = None
    extra: str | None = None
    needs_question: bool = False


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """Settings of all measures; each takes those that concern it.

    Attributes:
        device: Where a model runs: "auto", "cpu", "cuda", ...
        batch_size: Texts or pairs computed at once, at least 1.
        cache_dir: Folder of judges' replies and embeddings; None is the user's cache folder.
        api_base: Address of an OpenAI-compatible server, for judges behind an API; None is the
            provider's own.
        concurrency: Concurrent calls of a judge, at least 1.
        judge: Settings of a judge's model, a `taxtune.models.ModelSettings`; made from the settings
            above where left out.
    """

    device: str = "auto"
    batch_size: int = 64
    cache_dir: Path | None = None
    api_base: str | None = None
    concurrency: int = 8
    judge: object | None = None


class Notes:
    """Sentences with a number in them: how often something happened, or to how many texts."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self._texts: defaultdict[str, set[int]] = defaultdict(set)

    def count(self, sentence: str, times: int = 1) -> None:
        """Counts an event, under a sentence with {n} where the number goes."""
        self._times[sentence] += times

    def mark(self, sentence: str, text: str) -> None:
        """Counts a text once, however often it occurs."""
        self._texts[sentence].add(hash(text))

    def sentences(self) -> tuple[str, ...]:
        """Returns the sentences with their numbers, without those that are 0."""
        counts = dict(self._times)
        for sentence, texts in self._texts.items():
            counts[sentence] = len(texts)
        sentences = []
        for sentence, number in counts.items():
            if number:
                sentences.append(sentence.replace("{n}", f"{number:,}"))
        return tuple(sentences)


class Measure(ABC):
    """Compares answers with references: subclass it and write `scores`.

    Attributes:
        kind: Its entry of the registry.
        name: Its specification: "rouge-1", "sentence:all-mpnet-base-v2"; by default its kind.
        label: Its name as the papers print it: "ROUGE", "SentBERT".
        needs_questions: Whether `scores` needs the prompts.
        consensus: Whether references are answers of several people, to be counted, and no
            alternatives as names are.
    """

    kind: ClassVar[MeasureKind]
    needs_questions = False
    consensus: ClassVar[bool] = False

    def __init__(self, name: str | None = None, label: str | None = None) -> None:
        self.name = self.kind.kind if name is None else name
        self.label = self.kind.label if label is None else label
        self._notes = Notes()

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the scores computed so far, such as how many texts a model truncated."""
        return self._notes.sentences()

    @abstractmethod
    def scores(
        self, answers: Texts, references: Texts, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,).

        NaN is unscored, never 0. `questions` are the prompts of the answers, for measures that need
        them.
        """

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer with all its references, shape (n,).

        By default that of the best one; NaN where none gave a score.
        """
        rows: list[int] = []
        alternatives: list[str] = []
        for row, (_, given) in enumerate(zip(answers, references, strict=True)):
            rows += [row] * len(given)
            alternatives += given
        repeated = [answers[row] for row in rows]
        if questions is not None:
            questions = [questions[row] for row in rows]
        scores = self.scores(repeated, alternatives, questions=questions)
        best = np.full(len(answers), np.nan)
        # fmax takes the number where the other is NaN
        np.fmax.at(best, np.array(rows, dtype=np.int64), scores)
        return best

    def matrix(self, answers: Texts, references: Texts) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references)."""
        table = np.empty((len(answers), len(references)))
        for i, answer in enumerate(answers):
            table[i] = self.scores([answer] * len(references), references)
        return table

    def identity(self) -> Identity:
        """Returns everything that can change a score, for records and caches."""
        return {"measure": self.name}


class FunctionMeasure(Measure):
    """A measure that is a function of a pair. Equal pairs are scored once.

    Args:
        name: Its name.
        label: As tables print it.
        function: Called with answer, reference and, if `needs_question`, the question. It returns a
            finite number, or None or NaN to leave the pair unscored.
        needs_question: Whether the function takes the question.
    """

    def __init__(
        self, name: str, label: str, function: Callable[..., Any], *, needs_question: bool = False
    ) -> None:
        super().__init__(name, label)
        self._function = function
        self.needs_questions = needs_question

    def identity(self) -> Identity:
        """Returns the name, and where the function is defined."""
        names = [getattr(self._function, key, "") for key in ("__module__", "__qualname__")]
        function = ".".join(filter(None, names)) or repr(self._function)
        return {"measure": self.name, "function": function}

    def scores(
        self, answers: Texts, references: Texts, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,); NaN is unscored.

        Raises:
            DataError: If numbers of answers, references and needed questions differ.
            TaxtuneError: If the function returns no finite number for a pair.
        """
        check_texts(answers, references)
        columns = [answers, references]
        if self.needs_questions:
            if questions is None or len(questions) != len(answers):
                raise DataError(f"{self.name} needs the question of every answer.")
            columns.append(questions)
        rows = list(zip(*columns, strict=True))
        distinct = list(dict.fromkeys(rows))
        scores = {row: self._score(*row) for row in track_each(distinct, self.label)}
        return np.array([scores[row] for row in rows], dtype=np.float64)

    def _score(self, answer: str, reference: str, *question: str) -> float:
        value = self._function(answer, reference, *question)
        if value is None:
            return float("nan")
        if isinstance(value, SupportsFloat) and not isinstance(value, str):
            score = float(value)
            if not math.isinf(score):
                return score
        raise TaxtuneError(
            f"The measure {self.name} did not return a finite number for the answer "
            f"{answer!r:.120} and the reference {reference!r:.120}.",
            value=value,
            remedy="Return None for a pair that cannot be scored.",
        )


class ManyReferencesMeasure(Measure):
    """A measure of all references of an answer at once: subclass it and write `scores_many`."""

    @abstractmethod
    def scores_many(
        self, answers: Texts, references: Sequence[Texts], *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer with all its references, shape (n,)."""

    def scores(
        self, answers: Texts, references: Texts, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer with its one reference, shape (n,)."""
        singles = [[reference] for reference in references]
        return self.scores_many(answers, singles, questions=questions)


def name_scores(
    measure: Measure, answers: Texts, names: Sequence[Texts], *, questions: Questions = None
) -> FloatArray:
    """Returns the score of each answer with the names of its target, any of which is right.

    Measures of consensus take each name as a reference of its own, and the best one counts: under
    VQA accuracy an answer that gives one of a target's two names would otherwise score 1/6.
    """
    if measure.consensus:
        return Measure.scores_many(measure, answers, names, questions=questions)
    return measure.scores_many(answers, names, questions=questions)


def check_texts(answers: Sequence[str], references: Sequence[Any], *, paired: bool = True) -> None:
    """Checks that answers and references are lists of texts and, if `paired`, as many of each.

    Raises:
        DataError: If there are more or fewer references than answers.
        TypeError: If one of them is not text.
    """
    for texts in (answers, references):
        if isinstance(texts, str):
            raise TypeError("answers and references are lists of texts, not one text")
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(
                    f"answers and references are texts, not {text!r}; remove missing ones"
                )
    if paired and len(answers) != len(references):
        raise DataError(
            "The number of references must equal the number of answers.",
            value=f"{len(answers)} answers, {len(references)} references",
            remedy="Give one reference for each answer.",
        )


class PairsMeasure(Measure):
    """A measure that computes the scores of different pairs: write `compute`.

    An answer that is empty scores 0, the score of unrelated texts; a pair with an empty reference
    is unscored (NaN), and so is one for which the model gives no number. All are counted in
    `notes`.

    Args:
        model: The model's name or folder; None for a measure without one.
        settings: Device, batches, caches.
    """

    def __init__(self, model: str | None, settings: MeasureSettings) -> None:
        super().__init__(None if model is None else f"{self.kind.kind}:{model}")
        self.settings = settings

    @abstractmethod
    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Returns the scores of different pairs of prepared texts, NaN where there is no number.

        `advance` counts pairs.
        """

    def prepared(self, text: str) -> str:
        """Returns a text as it is compared: stripped, well formed, at most 100,000 characters."""
        return well_formed(text.strip()[:_MAX_CHARACTERS])

    def is_empty(self, text: str) -> bool:
        """Tells whether a text has nothing to compare."""
        return not text.strip()

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts in the notes the texts that are cut."""

    def scores(
        self, answers: Texts, references: Texts, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,).

        Raises:
            ModelError: If the model cannot be loaded or run.
        """
        check_texts(answers, references)
        scores = np.full(len(answers), np.nan)
        rows: defaultdict[Pair, list[int]] = defaultdict(list)
        for row, (answer, reference) in enumerate(zip(answers, references, strict=True)):
            if self.is_empty(reference):
                self._notes.count(EMPTY_REFERENCE)
            elif self.is_empty(answer):
                self._notes.count(EMPTY_ANSWER)
                scores[row] = 0.0
            else:
                rows[self.prepared(answer), self.prepared(reference)].append(row)
        pairs = list(rows)
        self.note_pairs(pairs)
        with track(self.label, len(pairs)) as task:
            if pairs:
                computed = self.compute(pairs, task.advance)
                for pair, score in zip(pairs, computed.tolist(), strict=True):
                    scores[rows[pair]] = score
                    if math.isnan(score):
                        self._notes.count(NO_NUMBER, len(rows[pair]))
        return scores

    def matrix(self, answers: Texts, references: Texts) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references).

        Each different text is computed once.

        Raises:
            ModelError: If the model cannot be loaded or run.
        """
        check_texts(answers, references, paired=False)
        table = np.full((len(answers), len(references)), np.nan)
        columns = []
        prepared = []
        for column, reference in enumerate(references):
            if not self.is_empty(reference):
                columns.append(column)
                prepared.append(self.prepared(reference))
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for row, answer in enumerate(answers):
            if self.is_empty(answer):
                table[row, columns] = 0.0
                self._notes.count(EMPTY_ANSWER, len(columns))
            else:
                rows[self.prepared(answer)].append(row)
        n_empty = len(references) - len(columns)
        self._notes.count(EMPTY_REFERENCE, len(answers) * n_empty)
        if rows and columns:
            computed = self.table(list(rows), prepared)
            for same, values in zip(rows.values(), computed, strict=True):
                table[np.ix_(same, columns)] = values
        is_unscored = np.isnan(table[:, columns])
        self._notes.count(NO_NUMBER, int(is_unscored.sum()))
        return table

    def table(self, answers: Sequence[str], references: Sequence[str]) -> FloatArray:
        """Returns the scores of different prepared answers against prepared references.

        The shape is (answers, references).
        """
        table = np.empty((len(answers), len(references)))
        for row, answer in enumerate(answers):
            pairs = [(answer, reference) for reference in references]
            self.note_pairs(pairs)
            table[row] = self.compute(pairs, lambda done: None)
        return table


def version_of(module: Any) -> str:
    """Returns a library with its major and minor version."""
    return f"{module.__name__} {'.'.join(str(module.__version__).split('.')[:2])}"
