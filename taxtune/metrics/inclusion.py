"""Llama inclusion: a language model says whether an answer agrees with the label (paper 2, "Llama inclusion").

The judge is shown the prompt that was really asked: to "What is behind the dog?" the answer "dog" is wrong, and a judge
that is told of "What type of object is in this image?" would not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from taxtune.metrics.base import FloatArray, Identity, ManyReferencesMeasure, MeasureSettings
from taxtune.metrics.judge_replies import read_yes_no
from taxtune.metrics.judging import LLAMA, MAX_TEXT, Judge, JudgePrompt, Verdicts, check_questions, judge_of
from taxtune.metrics.registry import measure

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["LlamaInclusion", "make_llama_inclusion"]

_MAX_TOKENS = 64


class LlamaInclusion(ManyReferencesMeasure):
    """1 where the judge says yes, 0 where it says no, NaN where it says neither or could not be asked.

    Args:
        name: The specification.
        judge: The judge.
        without_question: Judge by label and answer alone, and leave the question out of the prompt.
    """

    needs_questions = True

    def __init__(self, name: str, judge: Judge, *, without_question: bool = False) -> None:
        super().__init__(name, "LI")
        self._judge = judge
        self._without_question = without_question
        self.needs_questions = not without_question
        self._prompt = JudgePrompt("inclusion.j2")

    @property
    def notes(self) -> tuple[str, ...]:
        """How many have no score, and why."""
        return self._judge.notes("is neither yes nor no")

    def identity(self) -> Identity:
        """Returns the judge's model and decoding, and the prompt's content."""
        asked: Identity = {"without_question": int(self._without_question), "prompt": self._prompt.digest}
        return {"measure": "llama-inclusion", **asked, **self._judge.llm.identity}

    def verdicts(
        self, answers: Sequence[str], labels: Sequence[str], questions: Sequence[str] | None = None
    ) -> Verdicts:
        """Asks the judge about each answer.

        Args:
            answers: Texts, n of them.
            labels: The true labels, n.
            questions: The prompt that was asked for each.

        Returns:
            Scores in {0, 1} or NaN. An answer without a label, or with a text of more than 20,000 characters, is not
            asked about.

        Raises:
            DataError: If the questions are missing and the measure was not told to do without.
            ModelError: If the judge cannot be asked at all.
        """
        questions = self._shown(questions, len(answers))
        prompts = []
        for i, (answer, label) in enumerate(zip(answers, labels, strict=True)):
            question = None if questions is None else questions[i]
            can_be_judged = label.strip() and max(map(len, (answer, label, question or ""))) <= MAX_TEXT
            prompts.append(
                self._prompt.render(question=question, label=label, answer=answer) if can_be_judged else None
            )
        return self._judge.judge(prompts, _read, f"no label, or a text longer than {MAX_TEXT:,} characters")

    def scores_many(
        self,
        answers: Sequence[str],
        references: Sequence[Sequence[str]],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer with any of its labels, shape (n,).

        1 where the judge says yes to one of them, else NaN where one is unscored, since it might be the right one, and
        0 where the judge says no to all.

        Args:
            answers: Texts, n of them.
            references: The labels of each; NaN where there is none.
            images: Not looked at.
            questions: The prompt that was asked for each.

        Raises:
            DataError: If the questions are missing and the measure was not told to do without.
            ModelError: If the judge cannot be asked at all.
        """
        questions = self._shown(questions, len(answers))
        owner = [i for i, (_, given) in enumerate(zip(answers, references, strict=True)) for _ in given]
        said = self.verdicts(
            [answers[i] for i in owner],
            [label for given in references for label in given],
            None if questions is None else [questions[i] for i in owner],
        ).values
        scores = np.full(len(answers), np.nan)
        for i, given in enumerate(references):
            if given:
                own, said = said[: len(given)], said[len(given) :]
                scores[i] = 1.0 if (own == 1).any() else own.sum()  # the sum with a NaN is NaN
        return scores

    def _shown(self, questions: Sequence[str] | None, count: int) -> Sequence[str] | None:
        """Returns the questions as the judge is shown them, one an answer; None where it does without."""
        if self._without_question:
            return None
        return check_questions(
            questions, count, "Llama inclusion", "Give the column with the questions, or one question for all rows."
        )


def _read(reply: str) -> float | None:
    said = read_yes_no(reply)
    return None if said is None else float(said)


@measure(
    "llama-inclusion",
    label="LI",
    summary="a language model decides whether the answer agrees with the reference",
    source="paper 2",
    default_model=LLAMA,
    needs=("question",),
    factory=True,
)
def make_llama_inclusion(model: str | None, settings: MeasureSettings) -> LlamaInclusion:
    """Returns the measure with a judge: "local:MODEL" or a model that litellm reaches."""
    assert model is not None  # the registry has a default
    return LlamaInclusion(f"llama-inclusion:{model}", judge_of(model, settings, max_tokens=_MAX_TOKENS))
