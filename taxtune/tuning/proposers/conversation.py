"""A proposer's conversation with its chat model: a seed for each reply, tokens counted, errors explained."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from taxtune.errors import ModelError, ProposerError, TemplateError
from taxtune.models.api import ApiModel, Completion, NoAnswerError
from taxtune.models.api_errors import MessageTooLongError
from taxtune.tuning.proposers.base import ProposalFailed
from taxtune.tuning.proposers.replies import without_thoughts

__all__ = ["Conversation", "UsedUpError", "check_whole", "explained", "said"]

_SHOWN = 4_000  # characters of a reply that are sent back


class UsedUpError(TemplateError):
    """The reply was cut off while the model was still thinking."""


class Conversation:
    """Asks a chat model for its replies in one iteration.

    Args:
        chat: The model.
        seed: The run's seed.
        iteration: The iteration.

    Attributes:
        latest: Tokens of the latest reply and of what was read for it.
    """

    def __init__(self, chat: ApiModel, seed: int, iteration: int) -> None:
        self._chat = chat
        self._seed = (seed, iteration)
        self._costs: list[float | None] = []
        self._read = self._written = 0
        self.latest = 0

    def reply(
        self,
        talk: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        rejected: Sequence[tuple[str, str]] = (),
        **kept: Any,
    ) -> Completion:
        """Returns what the model says next.

        Args:
            talk: The messages so far.
            tools: The tools that it may call.
            rejected: Templates that were refused so far, for the record should the model not answer.
            kept: What else is kept then.

        Raises:
            ProposalFailed: If it does not answer, or what has been said is more than it reads.
            ProposerError: If it cannot be asked, or the first message alone is more than it reads.
        """
        seed = hashlib.sha256(repr((*self._seed, len(self._costs))).encode()).digest()[:4]
        silent: ModelError | None = None
        with explained():
            try:
                reply = self._chat.converse(talk, seed=int.from_bytes(seed), tools=tools)
            except NoAnswerError as error:
                reply, silent = error.spent, error
            except MessageTooLongError as error:
                if not self._costs:
                    raise
                reply, silent = Completion("", cost_usd=0.0), error
        self._read += reply.prompt_tokens
        self._written += reply.completion_tokens
        self._costs.append(reply.cost_usd)
        self.latest = reply.prompt_tokens + reply.completion_tokens
        if silent is not None:
            away = isinstance(silent, NoAnswerError)
            raise ProposalFailed(
                silent.message, rejected=tuple(rejected), out_of_reach=away, **self.consumed, **kept
            ) from None
        return reply

    @property
    def tokens(self) -> int:
        """Tokens that were read and written."""
        return self._read + self._written

    @property
    def consumed(self) -> dict[str, Any]:
        """What it consumed, as a `Proposal` takes it; a cost that is partly unknown is unknown."""
        known = [cost for cost in self._costs if cost is not None]
        return {
            "prompt_tokens": self._read,
            "completion_tokens": self._written,
            "cost_usd": sum(known) if len(known) == len(self._costs) else None,
        }


@contextmanager
def explained() -> Iterator[None]:
    """Tells what keeps the model from replying as the proposer's error, with what a proposer's user can do."""
    try:
        yield
    except MessageTooLongError as error:
        raise ProposerError(error.message, remedy="Lower 'max_history_tokens'.") from None
    except ModelError as error:
        remedy = f"{error.remedy or ''} Or use the proposer 'fragments', which needs no model.".lstrip()
        raise ProposerError(error.message, value=error.value, remedy=remedy) from None


def said(reply: Completion) -> str:
    """Returns the words of a reply as they are sent back; they may be none."""
    return (reply.text or reply.refusal or "").strip()[:_SHOWN]


def check_whole(reply: Completion) -> None:
    """Checks that a reply is all that the model had to say.

    Raises:
        UsedUpError: If it was cut off before it began.
        TemplateError: If it is a refusal, was stopped by a content filter or cut off.
    """
    if reply.refusal is not None:
        raise TemplateError("The reply is a refusal, not what was asked for.")
    if reply.finish_reason == "content_filter":
        raise TemplateError("The provider's content filter stopped the reply.")
    if reply.finish_reason == "length" and not reply.tool_calls and not without_thoughts(reply.text):
        raise UsedUpError(
            f"All {reply.completion_tokens} tokens were used up before the reply began, as reasoning models do.",
            remedy="Raise proposer.max_tokens.",
        )
    if reply.finish_reason == "length":
        raise TemplateError(f"The reply was cut off after {reply.completion_tokens} tokens; be shorter.")
