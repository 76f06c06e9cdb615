"""Drafts that a proposer tries on tuning images before it proposes a template: asked as templates are, and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from taxtune.data import Example
from taxtune.errors import ModelError
from taxtune.tuning.evaluation import Evaluator
from taxtune.tuning.records import Judged, SampleResult, Usage, sum_judged

__all__ = ["Trials"]


class Trials:
    """Asks about the drafts of one iteration; the `ask` of a proposer's `Goal`.

    Args:
        evaluator: Asks and scores.
        examples: The tuning images that an iteration asks about first.
        most: Most images to ask about, over all drafts; None for no bound but the caller's.
        max_missing: Largest share of images without an answer before going on is senseless.
        on_answers: Called with (answers so far, of them from the store) after every batch.

    Attributes:
        judged: What measures asked a language model about the drafts' answers; None where none did.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        examples: Sequence[Example],
        *,
        most: int | None = None,
        max_missing: float = 0.1,
        on_answers: Callable[[int, int], None] | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._examples = examples
        self._most = most
        self._max_missing = max_missing
        self._on_answers = on_answers
        self._images: dict[str, int] = {}
        self._usage = Usage()
        self.judged: Judged | None = None

    def __call__(self, template: str, images: int) -> tuple[SampleResult, ...]:
        """Returns what is answered to a template that was checked, about the first images: fewer where the budget ends.

        Raises:
            ModelError: If the model is out of reach; answers so far are in the store.
        """
        known = self._images.get(template, 0)
        if self.left is not None:
            images = min(images, known + self.left)
        if images == 0:
            return ()
        evaluation = self._evaluator.evaluate(template, self._examples[:images], self._on_answers)
        failures = evaluation.failures
        if evaluation.retryable and len(failures) > self._max_missing * len(evaluation.rows):
            raise ModelError(
                f"A draft could not be tried: {len(failures)} of {len(evaluation.rows)} images have no answer; the "
                f"first: {failures[0].rstrip('.')}.",
                remedy="Continue with --resume when the model answers again; answers so far are saved.",
            )
        self._images[template] = max(known, len(evaluation.rows))
        self._usage += evaluation.usage
        self.judged = sum_judged([*filter(None, (self.judged, evaluation.judged))])
        return evaluation.rows

    @property
    def left(self) -> int | None:
        """Images that may still be asked about; None where there is no bound."""
        return None if self._most is None else max(0, self._most - sum(self._images.values()))

    def usage(self, submitted: str | None = None) -> Usage:
        """Returns what the drafts consumed.

        Args:
            submitted: The draft that became the iteration's template, whose images the iteration counts itself.
        """
        tried = sum(images for template, images in self._images.items() if template != submitted)
        return replace(self._usage, tried=tried)
