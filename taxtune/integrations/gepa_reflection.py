"""gepa's reflection model: its replies are checked as every proposal is, and kept in the answer store."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from taxtune.errors import ModelError, ProposerError, TemplateError
from taxtune.integrations.gepa_adapter import REMEDY, Adapter
from taxtune.models import Answer, AnswerStore, Model, Request, ask
from taxtune.resources import prompts_dir
from taxtune.tuning.proposers import Goal
from taxtune.tuning.proposers.messages import Messages
from taxtune.tuning.proposers.replies import unwrap_reply
from taxtune.tuning.records import IterationRecord

__all__ = ["Log", "Reflection", "reflection_prompt"]

_REPLIES = 3
_SHOWN = 4_000  # characters of a refused reply that are sent back


class Reflection:
    """Asks the reflection model; a reply without an acceptable template goes back with the reason.

    Replies are kept in the answer store, so that a search which is begun again is the same search.
    """

    def __init__(
        self, model: Model, adapter: Adapter, store: AnswerStore, history: Sequence[IterationRecord], goal: Goal
    ) -> None:
        self._model, self._adapter, self._store = model, adapter, store
        self._messages = Messages()
        self._system = self._messages.first(history, goal, budget=0, count=len)[0]["content"]
        self.error: ProposerError | None = None
        self._silent = 0
        self.prompt_tokens = self.completion_tokens = 0
        self.costs: list[float | None] = []

    def __call__(self, prompt: str) -> str:
        """Returns a fenced template that the run accepts, or nothing after three that it does not.

        Raises:
            ProposerError: If the model is out of reach; gepa passes over it, so it is kept in `error`, too.
        """
        if self.error is not None:
            raise self.error
        asked = f"{self._system}\n\n{prompt}"
        for _ in range(_REPLIES):
            said = self._ask(asked)
            try:
                if said.count("```") % 2:
                    raise TemplateError("The fenced block is not closed, as if the reply had been cut off; be shorter.")
                template = unwrap_reply(said)
                self._adapter.experiment.check(template, tuple(self._adapter.seen))
            except TemplateError as error:
                asked += f"\n\nYou replied:\n\n{said[:_SHOWN]}\n\n{self._messages.again(str(error))['content']}"
            else:
                return f"```\n{template}\n```"
        return ""  # refused as an empty template

    def _ask(self, prompt: str) -> str:
        try:
            (reply,) = ask(self._model, [Request(prompt)], self._store, what="reflection")
        except ModelError as error:
            self.error = ProposerError(error.message, value=error.value, remedy=error.remedy)
            raise self.error from None
        if not isinstance(reply, Answer):
            if not reply.retryable:
                return ""  # it will not say anything to this prompt; gepa goes on with another
            silence = ProposerError(f"The reflection model gave no answer: {reply.reason}", remedy=REMEDY)
            self._silent += 1
            if self._silent > 1:  # gepa asks once more by itself, and would then use up its budget without proposing
                self.error = silence
            raise silence
        self._silent = 0
        if not reply.cached:
            self.prompt_tokens += reply.prompt_tokens
            self.completion_tokens += reply.completion_tokens
            self.costs.append(reply.cost_usd)
        return reply.text


class Log:
    """gepa's log as Python's, since a run prints nothing of its own accord."""

    def log(self, message: str) -> None:
        """Logs a line of gepa's."""
        logging.getLogger("taxtune.gepa").info(message)


def reflection_prompt() -> str:
    """Returns what the reflection model is told of a template, in gepa's placeholders."""
    return (prompts_dir() / "gepa" / "reflection.txt").read_text(encoding="utf-8")
