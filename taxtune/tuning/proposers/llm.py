"""The chat-model proposer: the loop of paper 1, §7.2 and §15, in which a chat model reads the history of scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from taxtune.errors import TemplateError
from taxtune.models import ModelSettings, RetryPolicy
from taxtune.models.api import ApiModel, Completion
from taxtune.models.api_errors import without_credentials
from taxtune.models.names import api_name
from taxtune.tuning.proposers.base import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.conversation import Conversation, UsedUpError, check_whole, explained, said
from taxtune.tuning.proposers.messages import Messages
from taxtune.tuning.proposers.replies import unwrap_reply
from taxtune.tuning.records import IterationRecord, Turn

__all__ = ["DEFAULT_MODEL", "LLMProposer"]

DEFAULT_MODEL = "openai/gpt-4o"
"""The paper used ChatGPT."""

_REPLIES = 3


class LLMProposer(Proposer):
    """Asks a chat model for the next template.

    The messages are the Jinja files of `prompts/proposer/`. A reply that holds no acceptable template goes back with
    the reason; after three of them the iteration fails.

    Args:
        model: A chat model that litellm reaches, with its provider.
        api_base: Address of the server; the provider's own where left out.
        api_key: The key; the provider's environment variable (OPENAI_API_KEY) where left out. Never logged or recorded.
        temperature: Sampling temperature; None for the provider's default.
        max_history_tokens: Most tokens of past templates in the message.
        evidence: Whether the best and the latest template come with what their answers show (kinds of mistakes, and
            examples in which names are hidden), or all with their scores alone, as in the paper.
        max_tokens: Most tokens of a reply, those of a reasoning model's thoughts included.
        timeout: Seconds that one call may take.
        max_retries: Further attempts after rate limits, time-outs, 5xx and lost connections.
        first_wait: Seconds before the second attempt; doubles each time, and a server's Retry-After is respected.
        longest_wait: Most seconds between two attempts.
        prompts: Folder of the messages' Jinja files; `prompts/proposer/` where left out.

    Raises:
        ProposerError: The prompts cannot be read.
    """

    name = "llm"

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 1.0,
        max_history_tokens: int = 6_000,
        evidence: bool = True,
        max_tokens: int = 4_000,
        timeout: float = 120.0,
        max_retries: int = 5,
        first_wait: float = 1.0,
        longest_wait: float = 60.0,
        prompts: str | Path | None = None,
    ) -> None:
        self._messages = Messages(prompts)
        self._max_history_tokens = max_history_tokens
        self._evidence = evidence
        settings = ModelSettings(
            task="text-generation",
            api_base=api_base,
            api_key=api_key,
            temperature=temperature,
            max_tokens=max_tokens,
            retry=RetryPolicy(max_retries, first_wait, longest_wait, timeout),
        )
        self._chat = ApiModel(api_name(model, "The proposer"), settings, role="the proposer's model")

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns the model, its settings and the hash of the messages; never the key.

        Not `max_tokens`: a run that stops because it is too small can be resumed with more.
        """
        settings = self._chat.settings
        return {
            "kind": self.name,
            "model": self._chat.model,
            "api_base": without_credentials(settings.api_base),
            "temperature": settings.temperature,
            "max_history_tokens": self._max_history_tokens,
            "evidence": self._evidence,
            "prompts_digest": self._messages.digest,
        }

    def check(self) -> None:
        """Checks that the model's provider is known and its key is there; asks the model nothing.

        Raises:
            ProposerError: What is missing, and what to do.
        """
        with explained():
            self._chat.check()

    def propose(
        self, history: Sequence[IterationRecord], goal: Goal, *, iteration: int, seed: int, check: Check
    ) -> Proposal:
        """Returns a template that the model wrote and that passes `check`; see `Proposer.propose`.

        Raises:
            ProposalFailed: Three replies held no acceptable template, or the model did not answer.
            ProposerError: The model cannot be asked (its key is refused, it does not exist).
        """
        talk = self._messages.first(
            history, goal, budget=self._max_history_tokens, count=self._chat.count_tokens, explain=self._evidence
        )
        rejected: list[tuple[str, str]] = []
        trace: list[Turn] = []
        used_up = 0
        conversation = Conversation(self._chat, seed, iteration)
        for _ in range(_REPLIES):
            reply = conversation.reply(talk, rejected=rejected, trace=tuple(trace))
            template = reply.text
            try:
                check_whole(reply)
                template = unwrap_reply(reply.text)
                check(template)
            except UsedUpError as error:
                # Nothing was said that could be shorter: the same message again, with another seed.
                rejected.append(("", str(error)))
                trace.append(_turn(reply, str(error)))
                used_up += 1
                continue
            except TemplateError as error:
                reason = str(error)
                rejected.append((template, reason))
                trace.append(_turn(reply, reason))
                # Some providers refuse a message without text.
                shown = said(reply) or "(an empty reply)"
                talk = [*talk, {"role": "assistant", "content": shown}, self._messages.again(reason)]
                continue
            trace.append(_turn(reply, "accepted"))
            return Proposal(template, rejected=tuple(rejected), trace=tuple(trace), **conversation.consumed)
        reasons = " ".join(f"({number}) {reason}" for number, (_, reason) in enumerate(rejected, 1))
        raise ProposalFailed(
            f"The model did not give an acceptable template in {_REPLIES} replies: {reasons}",
            rejected=tuple(rejected),
            trace=tuple(trace),
            # It thinks for longer than it may, and will in the next iteration.
            out_of_reach=used_up == _REPLIES,
            **conversation.consumed,
        )


def _turn(reply: Completion, result: str) -> Turn:
    return Turn(None, said(reply), result, reply.prompt_tokens, reply.completion_tokens)
