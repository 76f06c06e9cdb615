"""Answers rated by a judge for the objective "lave" (paper 4); the references are the label and its common name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.judging import Verdicts
from taxtune.metrics.lave import Lave
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import Judged

__all__ = ["AnswerJudge", "Rated"]


@dataclass(frozen=True, slots=True)
class Rated:
    """Ratings of a template's answers.

    Attributes:
        scores: In {0, 0.5, 1}, NaN where there is no rating; shape (n,).
        rationales: What the judge wrote; None where there is no reply.
        unrated: Why there is no rating, or None.
        account: What the judge was asked, in numbers.
        retryable: Calls that failed and may succeed later.
    """

    scores: NDArray[np.float64]
    rationales: tuple[str | None, ...]
    unrated: tuple[str | None, ...]
    account: Judged
    retryable: int


class AnswerJudge:
    """Rates answers against the label and the preferred common name of their targets.

    The judge is shown the recipe's own question, not the template: a template must not be able to talk to the judge of
    its answers, and the same answer has the same rating whatever template brought it about.

    Args:
        lave: The measure.
        taxonomy: The label tree.
        question: The recipe's question.
        on_note: Told what the judge's calls come to where some fail.
    """

    def __init__(
        self, lave: Lave, taxonomy: Taxonomy, question: str, on_note: Callable[[str], None] = lambda text: None
    ) -> None:
        self.lave = lave
        self._taxonomy = taxonomy
        self._question = question
        self._on_note = on_note

    def prompt(self, answer: str, target: int) -> str:
        """Returns what the judge is asked about an answer."""
        return self.lave.prompt(self._question, self._references(target), answer)

    def rate(self, answers: Sequence[str], targets: Sequence[int]) -> Rated:
        """Returns the ratings of answers.

        Args:
            answers: What the model said.
            targets: The target nodes' numbers.

        Raises:
            ModelError: If the judge cannot be asked at all.
        """
        references = [self._references(target) for target in targets]
        verdicts = self.lave.rate(answers, references, [self._question] * len(answers))
        missing = np.isnan(verdicts.values)
        unrated = [_reason(verdicts, i) if missing[i] else None for i in range(len(answers))]
        if missing.any():
            first = next(reason for reason in unrated if reason is not None)
            self._on_note(f"{int(missing.sum())} of {len(answers)} answers have no rating; the first: {first}")
        replies = sum(reply is not None for reply in verdicts.replies)
        return Rated(
            scores=verdicts.values,
            rationales=verdicts.replies,
            unrated=tuple(unrated),
            account=Judged(
                rated=int((~missing).sum()),
                unread=verdicts.unread,
                failed=verdicts.unscored - verdicts.unread,
                asked=replies - verdicts.from_store,
                from_store=verdicts.from_store,
                prompt_tokens=verdicts.prompt_tokens,
                completion_tokens=verdicts.completion_tokens,
                cost_usd=verdicts.cost_usd,
            ),
            retryable=verdicts.retryable,
        )

    def _references(self, target: int) -> list[str]:
        # Further aliases are there to be found in answers, and may mean less or more than the label.
        return list(dict.fromkeys([self._taxonomy.labels[target], self._taxonomy.common_name(target)]))


def _reason(verdicts: Verdicts, place: int) -> str:
    if verdicts.replies[place] is not None:
        return "the judge's reply holds no rating from 1 to 3"
    return verdicts.problems[place] or "the judge was not asked"
