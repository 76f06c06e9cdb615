"""Llama inclusion: a language model says whether an answer agrees with the label (paper 2, "Llama inclusion").

The judge is shown the real prompt: to "What is behind the dog?" the answer "dog" is wrong, and a judge that is shown
"What type of object is in this image?" would not know.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taxtune.metrics.base import FloatArray, Identity, Images, ManyReferencesMeasure, MeasureSettings, Questions, Texts
from taxtune.metrics.judge_replies import read_yes_no
from taxtune.metrics.judging import MAX_TEXT, Judge, JudgePrompt, Verdicts, check_questions, judge_of

__all__ = ["LlamaInclusion", "make_llama_inclusion"]

_MAX_TOKENS = 64


class LlamaInclusion(ManyReferencesMeasure):
    """1 where the judge says yes, 0 where it says no, NaN where it says neither or could not be asked.

    Args:
        name: The specification.
        judge: The judge.
    """

    needs_questions = True

    def __init__(self, name: str, judge: Judge) -> None:
        super().__init__(name, "LI")
        self._judge = judge
        self._prompt = JudgePrompt("inclusion.j2")

    @property
    def notes(self) -> tuple[str, ...]:
        """The numbers of unscored answers, with the reasons."""
        return self._judge.notes("is neither yes nor no")

    def identity(self) -> Identity:
        """Returns the judge's model and decoding, and the prompt's content."""
        return {"measure": "llama-inclusion", "prompt": self._prompt.digest, **self._judge.llm.identity}

    def verdicts(
        self, answers: Sequence[str], labels: Sequence[str], questions: Sequence[str] | None = None
    ) -> Verdicts:
        """Asks the judge about each answer.

        Args:
            answers: Texts, n of them.
            labels: The true labels, n.
            questions: The prompt of each answer.

        Returns:
            Scores in {0, 1} or NaN. An answer without a label, or with a text of more than 20,000 characters, is not
            asked about.

        Raises:
            DataError: If the questions are missing.
            ModelError: If the judge cannot be asked at all.
        """
        shown = check_questions(questions, len(answers), "Llama inclusion")
        prompts = [
            self._prompt.render(question=question, label=label, answer=answer)
            if label.strip() and max(map(len, (answer, label, question))) <= MAX_TEXT
            else None
            for answer, label, question in zip(answers, labels, shown, strict=True)
        ]
        return self._judge.judge(prompts, read_yes_no, f"no label, or a text longer than {MAX_TEXT:,} characters")

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer with any of its labels, shape (n,).

        1 where the judge says yes to one of them, else NaN where one is unscored, since it might be the right one, and
        0 where the judge says no to all; NaN without labels. Errors as for `verdicts`.
        """
        owner = [i for i, (_, given) in enumerate(zip(answers, references, strict=True)) for _ in given]
        questions = check_questions(questions, len(answers), "Llama inclusion")
        values = self.verdicts(
            [answers[i] for i in owner],
            [label for given in references for label in given],
            [questions[i] for i in owner],
        ).values
        scores = np.full(len(answers), np.nan)
        for i, given in enumerate(references):
            if given:
                own, values = values[: len(given)], values[len(given) :]
                scores[i] = 1.0 if (own == 1).any() else own.sum()  # the sum with a NaN is NaN
        return scores


def make_llama_inclusion(model: str | None, settings: MeasureSettings) -> LlamaInclusion:
    """Returns the measure with a judge: "local:MODEL" or a model that litellm reaches."""
    assert model is not None  # the registry has a default
    return LlamaInclusion(f"llama-inclusion:{model}", judge_of(model, settings, max_tokens=_MAX_TOKENS))
