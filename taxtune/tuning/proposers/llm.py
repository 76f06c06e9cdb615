"""The chat-model proposer (paper 1, §7.2 and §15): a model reads the history of scores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from taxtune.errors import ModelError, ProposerError, TemplateError
from taxtune.images import load_image
from taxtune.models import Answer, ModelSettings, RetryPolicy
from taxtune.models.api import ApiModel, Completion, NoAnswerError, ToolCall
from taxtune.models.api_errors import MessageTooLongError, without_credentials
from taxtune.models.image_urls import data_url
from taxtune.models.names import api_name
from taxtune.tuning.proposers.base import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.messages import (
    Messages,
    UsedUpError,
    answer_of,
    check_whole,
    unwrap_reply,
)
from taxtune.tuning.proposers.pictures import SIDE, Picture, worst_failures
from taxtune.tuning.records import IterationRecord, Turn
from taxtune.tuning.selection import best

__all__ = ["DEFAULT_MODEL", "DEFAULT_RETRY", "Conversation", "LLMProposer", "spent_on"]

DEFAULT_MODEL = "openai/gpt-4o"
"""The paper used ChatGPT."""
DEFAULT_RETRY = RetryPolicy(timeout=120.0)
"""A reasoning model may think for longer than a vision-language model answers."""

_IDLE = 3  # replies in a row that may be of no use
_SHOWN = 4_000  # characters of a reply that are sent back
_KEPT = 2_000  # characters of a turn's arguments and result in the record


class Conversation:
    """The conversation with a chat model in one iteration.

    Attributes:
        messages: The messages in OpenAI's form.
        rejected: Refused templates, each with the reason.
        trace: The turns.
    """

    def __init__(
        self, chat: ApiModel, first: Sequence[Mapping[str, Any]], seed: int, iteration: int
    ) -> None:
        self.messages: list[dict[str, Any]] = [dict(message) for message in first]
        self.rejected: list[tuple[str, str]] = []
        self.trace: list[Turn] = []
        self._chat = chat
        self._seed = (seed, iteration)
        self._replies: list[Completion] = []

    def reply(self, tools: Sequence[Mapping[str, Any]] = ()) -> Completion:
        """Returns the model's next reply; it may call `tools`."""
        salt = repr((*self._seed, len(self._replies)))
        digest = hashlib.sha256(salt.encode()).digest()
        seed = int.from_bytes(digest[:4])
        with _as_proposer_errors():
            try:
                reply = self._chat.converse(self.messages, seed=seed, tools=tools)
            except NoAnswerError as error:
                self._replies.append(error.spent)
                raise ProposalFailed(error.message, out_of_reach=True, **self.account) from None
            except MessageTooLongError as error:
                if not self._replies:
                    raise
                raise ProposalFailed(error.message, **self.account) from None
        self._replies.append(reply)
        return reply

    def record(
        self, reply: Completion, result: str, call: ToolCall | None = None, *, first: bool = True
    ) -> None:
        """Records a turn: the reply or one of its calls, and the result.

        Args:
            reply: The reply.
            result: What came of it.
            call: One of its calls.
            first: Whether its tokens are counted here, as of several calls with the first.
        """
        tool = None
        arguments = _words(reply)
        if call is not None:
            tool = call.name[:100]
            arguments = call.arguments[:_KEPT]
        turn = Turn(
            tool=tool,
            arguments=arguments,
            result=result[:_KEPT],
            prompt_tokens=reply.prompt_tokens if first else 0,
            completion_tokens=reply.completion_tokens if first else 0,
        )
        self.trace.append(turn)

    def send_back(self, reply: Completion, calls: Sequence[Mapping[str, Any]] = ()) -> None:
        """Adds a reply to the messages; some providers refuse one without a text or a call."""
        message: dict[str, Any] = {"role": "assistant", "content": _words(reply) or None}
        if calls:
            message["tool_calls"] = calls
        elif message["content"] is None:
            message["content"] = "(an empty reply)"
        self.messages.append(message)

    def append_text(self, text: str) -> None:
        """Adds a text to the last message."""
        message = self.messages[-1]
        if isinstance(message["content"], str):
            message["content"] += text
        else:
            message["content"] += [{"type": "text", "text": text}]

    def show(self, before: Sequence[str], pictures: Sequence[Picture], messages: Messages) -> None:
        """Adds a user's message with texts, then pictures below captions, and records which."""
        content: list[dict[str, Any]] = [{"type": "text", "text": text} for text in before]
        for picture in pictures:
            caption = messages.text("pictures/caption.j2", picture=picture)
            url = data_url(load_image(picture.file), SIDE)
            content.append({"type": "text", "text": caption})
            content.append({"type": "image_url", "image_url": {"url": url}})
        self.messages.append({"role": "user", "content": content})
        shown = ", ".join(picture.example for picture in pictures)
        self.trace.append(Turn("pictures", "", shown))

    @property
    def account(self) -> dict[str, Any]:
        """Refusals, turns, tokens and cost, as `Proposal` takes them."""
        account = spent_on(self._replies)
        account["rejected"] = tuple(self.rejected)
        account["trace"] = tuple(self.trace)
        return account


class LLMProposer(Proposer):
    """Asks a chat model for the next template.

    The messages are the Jinja files of `prompts/proposer/`. A reply that holds no acceptable
    template goes back with the reason; after three of them the iteration fails.

    Args:
        model: A chat model that litellm reaches, with its provider.
        evidence: Whether the best and the latest template come with what their answers show (kinds
            of mistakes, and examples in which names are hidden), or all with their scores alone, as
            in the paper.
        api_base: Address of the server; the provider's own where left out.
        api_key: The key; the provider's environment variable (OPENAI_API_KEY) where left out. Never
            logged or recorded.
        temperature: Sampling temperature; None for the provider's default.
        max_history_tokens: Most tokens of past templates in the first message.
        max_tokens: Most tokens of a reply, those of a reasoning model's thoughts included.
        retry: How often and for how long a call is tried.
        pictures: Most tuning images per iteration that the model is shown: the best template's
            worst failures.
    """

    name = "llm"
    _again = "again.j2"  # the prompt that sends a reply back

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        evidence: bool = True,
        api_base: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 1.0,
        max_history_tokens: int = 6_000,
        max_tokens: int = 4_000,
        retry: RetryPolicy = DEFAULT_RETRY,
        pictures: int = 0,
    ) -> None:
        self._messages = Messages(pictures=pictures > 0)
        self._pictures = pictures
        # Times that a picture goes out in an iteration: the first reply is accepted as a rule.
        self._sent = 1
        self._evidence = evidence
        self._max_history_tokens = max_history_tokens
        settings = ModelSettings(
            task="text-generation",
            api_base=api_base,
            api_key=api_key,
            temperature=temperature,
            max_tokens=max_tokens,
            retry=retry,
        )
        name = api_name(model, "The proposer")
        self._chat = ApiModel(name, settings, role="the proposer's model")

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns the model, its settings and the hash of the messages; never the key.

        Not `max_tokens`: a run that stops because it is too small can be resumed with more.
        """
        settings = self._chat.settings
        identity: dict[str, str | int | float | None] = {
            "kind": self.name,
            "model": self._chat.model,
            "api_base": without_credentials(settings.api_base),
            "temperature": settings.temperature,
            "max_history_tokens": self._max_history_tokens,
            "evidence": self._evidence,
            "prompts_digest": self._messages.digest,
        }
        if self._pictures:
            identity["pictures"] = self._pictures
        return identity

    def check(self) -> None:
        """Checks that the model's provider is known, its key is there and it takes pictures.

        Raises:
            ProposerError: What is missing, and what to do.
        """
        with _as_proposer_errors():
            self._chat.check()
        if self._pictures and not self._chat.takes_images:
            message = f"The proposer's model {self._chat.model} takes no images, by litellm's list."
            raise ProposerError(
                message, remedy="Set proposer.pictures: 0, or choose a model that takes them."
            )

    def picture_note(self, proposals: int) -> str:
        """Returns a note on the pictures that so many proposals send, with about what they cost."""
        tokens = self._pictures * self._chat.count_image_tokens(SIDE)
        cost = self._chat.price(tokens * proposals * self._sent, 0)
        price = "price unknown"
        if cost is not None:
            price = f"{'at most ' if self._sent > 1 else ''}${cost:.2f} in all"
        return (
            f"Up to {self._pictures} tuning images go to {self._chat.model} in each of {proposals} "
            f"proposals, about {tokens:,} tokens each time ({price})."
        )

    def propose(
        self,
        history: Sequence[IterationRecord],
        goal: Goal,
        *,
        iteration: int,
        seed: int,
        check: Check,
    ) -> Proposal:
        """Returns a template that the model wrote and that passes `check`; see `Proposer.propose`.

        Raises:
            ProposalFailed: Three replies held no acceptable template, or the model did not answer.
            ProposerError: The model cannot be asked (its key is refused, it does not exist).
        """
        conversation = self._begin(history, goal, iteration, seed)
        leader = best(history) if self._pictures else None
        if leader is not None:
            self._show_failures(conversation, leader, goal, salt=(seed, iteration))

        def read(reply: Completion) -> str:
            template = answer_of(reply.text)
            try:
                check_whole(reply)
                template = unwrap_reply(reply.text)
                check(template)
            except TemplateError as error:
                conversation.rejected.append((template, str(error)))
                raise
            conversation.record(reply, "accepted")
            return template

        return self._until_accepted(conversation, read)

    def _show_failures(
        self, conversation: Conversation, record: IterationRecord, goal: Goal, *, salt: object
    ) -> None:
        """Adds pictures of an iteration's worst failures to the last message."""
        pictures = worst_failures(record, goal, self._pictures, salt=salt)
        if pictures:
            history = conversation.messages.pop()["content"]
            first = self._messages.text("pictures/first.j2", iteration=record.iteration)
            conversation.show([history, first], pictures, self._messages)

    def _begin(
        self,
        history: Sequence[IterationRecord],
        goal: Goal,
        iteration: int,
        seed: int,
        **variables: Any,
    ) -> Conversation:
        """Returns a conversation that begins with the goal and the history."""
        first = self._messages.first(
            history,
            goal,
            budget=self._max_history_tokens,
            count=self._chat.count_tokens,
            explain=self._evidence,
            **variables,
        )
        return Conversation(self._chat, first, seed, iteration)

    def _until_accepted(
        self,
        conversation: Conversation,
        read: Callable[[Completion], str | None],
        turns: int = _IDLE,
        tools: Callable[[int], Sequence[Mapping[str, Any]]] = lambda turn: (),
    ) -> Proposal:
        """Returns the first template that `read` returns.

        Args:
            conversation: The conversation.
            read: From a reply to its template, or to None where the model is to go on. A reply that
                it refuses (`TemplateError`) goes back with the reason.
            turns: Most replies.
            tools: From a turn, counted from 1, to what the model may call in it.

        Raises:
            ProposalFailed: If there is no template after so many replies, or after three in a row
                that were of no use.
        """
        problems: list[str] = []  # of the latest replies, as many as were of no use in a row
        used_up = turn = 0
        while turn < turns and len(problems) < _IDLE:
            turn += 1
            reply = conversation.reply(tools(turn))
            try:
                template = read(reply)
            except TemplateError as error:
                problems.append(str(error))
                conversation.record(reply, problems[-1])
                if isinstance(error, UsedUpError):
                    # The same messages again, with another seed: there was nothing that could be
                    # shorter.
                    used_up += 1
                    continue
                conversation.send_back(reply)
                again = self._messages.text(self._again, reason=problems[-1])
                conversation.messages.append({"role": "user", "content": again})
                continue
            if template is not None:
                return Proposal(template, **conversation.account)
            problems = []
            used_up = 0
        reasons = problems or [reason for _, reason in conversation.rejected[-1:]]
        numbered = " ".join(f"({number}) {reason}" for number, reason in enumerate(reasons, 1))
        ending = f": {numbered}" if numbered else "."
        raise ProposalFailed(
            f"The model gave no acceptable template in {turn} replies{ending}",
            # It thinks for longer than it may, and will in the next iteration.
            out_of_reach=used_up == _IDLE,
            **conversation.account,
        )


def spent_on(replies: Sequence[Completion | Answer]) -> dict[str, Any]:
    """Returns the tokens and the cost of replies, as `Proposal` takes them.

    The cost is None if that of a reply is unknown.
    """
    cost: float | None = 0
    for reply in replies:
        if cost is not None:
            cost = None if reply.cost_usd is None else cost + reply.cost_usd
    return {
        "prompt_tokens": sum(reply.prompt_tokens for reply in replies),
        "completion_tokens": sum(reply.completion_tokens for reply in replies),
        "cost_usd": cost,
    }


def _words(reply: Completion) -> str:
    """Returns the words of a reply as they are sent back; they may be none."""
    return (reply.text or reply.refusal or "").strip()[:_SHOWN]


@contextmanager
def _as_proposer_errors() -> Iterator[None]:
    """Turns a model's errors into a proposer's, with a remedy for its user."""
    try:
        yield
    except MessageTooLongError as error:
        raise ProposerError(error.message, remedy="Lower 'max_history_tokens'.") from None
    except ModelError as error:
        remedy = f"{error.remedy or ''} Or use the proposer 'fragments', which needs no model."
        remedy = remedy.lstrip()
        raise ProposerError(error.message, value=error.value, remedy=remedy) from None
