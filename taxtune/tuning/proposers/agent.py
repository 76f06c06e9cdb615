"""The agent: a chat model that looks at failures, tries drafts and compares them before it submits a template."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from taxtune.errors import ProposerError, TemplateError
from taxtune.models import ModelSettings, RetryPolicy
from taxtune.models.api import ApiModel, Completion, ToolCall
from taxtune.models.api_errors import without_credentials
from taxtune.models.names import api_name
from taxtune.tuning.proposers.agent_tools import ToolError, Workbench, tool_definitions
from taxtune.tuning.proposers.base import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.conversation import Conversation, UsedUpError, check_whole, explained, said
from taxtune.tuning.proposers.llm import DEFAULT_MODEL
from taxtune.tuning.proposers.messages import Messages
from taxtune.tuning.proposers.replies import unwrap_reply, without_thoughts
from taxtune.tuning.records import IterationRecord, Turn

__all__ = ["AgentProposer"]

_PROMPTS = ("agent.j2", "agent_again.j2", "agent_last.j2", "agent_tools.j2")
_CALLS = 8  # that one reply may make
_IDLE = 3  # replies in a row that may do nothing
_NAME, _KEPT = 100, 2_000  # characters of a turn's tool, arguments and result in the record
_RESULT = 16_000  # characters of a tool's result that are sent
_WRAPPED = re.compile(r"```|~~~|<(?:template|prompt)>", re.IGNORECASE)


class AgentProposer(Proposer):
    """Lets a chat model work on the next template with tools.

    The model reads the history, looks at where on the taxonomy answers went wrong, tries drafts on some of the tuning
    images, compares templates pairwise, and submits one. What it saw decides nothing: the template that it submits is
    checked and scored as every other. Labels of the images are hidden from it.

    A text in place of a call counts as a submission where it holds a template in a fenced block. What cannot be used
    goes back with the reason. The iteration fails where no template was submitted within the turns or the tokens, or
    after three replies in a row that did nothing.

    An iteration that is interrupted begins anew; answers about drafts that were tried are in the answer store by then,
    so that none is paid for twice.

    Args:
        model: A chat model that litellm reaches, with its provider, and that can call tools.
        api_base: Address of the server; the provider's own where left out.
        api_key: The key; the provider's environment variable (OPENAI_API_KEY) where left out. Never logged or recorded.
        temperature: Sampling temperature; None for the provider's default.
        max_turns: Most replies of an iteration, at least 2.
        trial_images: Most images that drafts are tried on in an iteration, over all drafts; 0 for none.
        max_history_tokens: Most tokens of past templates in the first message.
        max_total_tokens: Most tokens of an iteration's conversation, read and written; when they run short, the model
            may only submit.
        max_tokens: Most tokens of a reply, those of a reasoning model's thoughts included.
        timeout: Seconds that one call may take.
        max_retries: Further attempts after rate limits, time-outs, 5xx and lost connections.
        first_wait: Seconds before the second attempt; doubles each time, and a server's Retry-After is respected.
        longest_wait: Most seconds between two attempts.
        prompts: Folder of the messages' Jinja files; `prompts/proposer/` where left out.

    Raises:
        ProposerError: The prompts cannot be read, or a bound is out of range.
    """

    name = "agent"

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 1.0,
        max_turns: int = 12,
        trial_images: int = 60,
        max_history_tokens: int = 4_000,
        max_total_tokens: int = 150_000,
        max_tokens: int = 4_000,
        timeout: float = 120.0,
        max_retries: int = 5,
        first_wait: float = 1.0,
        longest_wait: float = 60.0,
        prompts: str | Path | None = None,
    ) -> None:
        for what, value, least in (("max_turns", max_turns, 2), ("trial_images", trial_images, 0)):
            if value < least:
                raise ProposerError(f"{what} must be at least {least}.", value=value)
        self._messages = Messages(prompts, _PROMPTS)
        self._max_turns = max_turns
        self._trial_images = trial_images
        self._max_history_tokens = max_history_tokens
        self._max_total_tokens = max_total_tokens
        settings = ModelSettings(
            task="text-generation",
            api_base=api_base,
            api_key=api_key,
            temperature=temperature,
            max_tokens=max_tokens,
            retry=RetryPolicy(max_retries, first_wait, longest_wait, timeout),
        )
        self._chat = ApiModel(api_name(model, "The agent"), settings, role="the proposer's model")

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
            "max_turns": self._max_turns,
            "trial_images": self._trial_images,
            "max_history_tokens": self._max_history_tokens,
            "max_total_tokens": self._max_total_tokens,
            "prompts_digest": self._messages.digest,
        }

    def check(self) -> None:
        """Checks that the model's provider is known and its key is there; asks the model nothing.

        Raises:
            ProposerError: What is missing, and what to do.
        """
        with explained():
            self._chat.check()

    @cached_property
    def _told(self) -> dict[str, Any]:
        """What the model is told about its tools."""
        told: dict[str, Any] = yaml.safe_load(self._messages.text("agent_tools.j2"))
        return told

    def propose(
        self, history: Sequence[IterationRecord], goal: Goal, *, iteration: int, seed: int, check: Check
    ) -> Proposal:
        """Returns a template that the model submitted and that passes `check`; see `Proposer.propose`.

        Raises:
            ProposalFailed: No acceptable template was submitted, or the model did not answer.
            ProposerError: The model cannot be asked (its key is refused, it does not exist).
            TaxtuneError: The model that drafts are tried on cannot be asked.
        """
        bench = Workbench(history, goal, check, messages=self._messages, trial_images=self._trial_images)
        first = self._messages.first(
            history,
            goal,
            budget=self._max_history_tokens,
            count=self._chat.count_tokens,
            system="agent.j2",
            max_turns=self._max_turns,
            trial_images=self._trial_images,
            can_try="try_draft" in bench.tools,
        )
        session = _Session(bench, self._messages, first)
        conversation = Conversation(self._chat, seed, iteration)
        for turn in range(1, self._max_turns + 1):
            # As much as the latest reply took, and a full one, must remain for this reply and for one that submits.
            needed = 2 * (conversation.latest + self._chat.settings.max_tokens)
            last = turn == self._max_turns or conversation.tokens + needed > self._max_total_tokens
            if last:
                session.announce_last()
            tools = tool_definitions(self._told, ("submit",) if last else bench.tools)
            reply = conversation.reply(session.talk, tools, rejected=bench.rejected, trace=tuple(session.trace))
            session.take(reply)
            kept = {"rejected": tuple(bench.rejected), "trace": tuple(session.trace), **conversation.consumed}
            if bench.submitted is not None:
                return Proposal(bench.submitted, **kept)
            if last or session.idle == _IDLE:
                break
        if session.idle == _IDLE:
            reason = f"The model did nothing useful in {_IDLE} replies in a row: {session.trace[-1].result}"
        else:
            reason = f"The model submitted no acceptable template in {turn} replies."
            reason += f" The last reason: {bench.rejected[-1][1]}" if bench.rejected else ""
        # One that thinks for longer than it may will do so in the next iteration.
        raise ProposalFailed(reason, out_of_reach=session.used_up == _IDLE, **kept)


class _Session:
    """The conversation of an iteration, from the model's replies to what it is told.

    Args:
        bench: Does what the model asks for.
        messages: Renders what it is told.
        first: The messages that open the conversation.

    Attributes:
        talk: The messages so far.
        trace: What the model did, turn by turn.
        idle: Replies without use since the last useful one.
        used_up: Those of them that ended before they began.
    """

    def __init__(self, bench: Workbench, messages: Messages, first: Sequence[Mapping[str, Any]]) -> None:
        self._bench = bench
        self._messages = messages
        self.talk: list[dict[str, Any]] = [dict(message) for message in first]
        self.trace: list[Turn] = []
        self.idle = self.used_up = 0

    def announce_last(self) -> None:
        """Tells the model that the next reply is its last."""
        # Not in a message of its own: some providers take no user's message right after a tool's.
        self.talk[-1]["content"] += f"\n\n{self._messages.text('agent_last.j2')}"

    def take(self, reply: Completion) -> None:
        """Does what a reply asks for, and adds the reply and the results to the conversation."""
        try:
            check_whole(reply)
            useful = self._call(reply) if reply.tool_calls else self._read(reply)
        except UsedUpError as error:
            # Nothing was said that could be answered: the same messages again, with another seed.
            self._trace(None, "", str(error), reply)
            self.used_up += 1
            useful = False
        except TemplateError as error:
            self._trace(None, said(reply), str(error), reply)
            # Some providers refuse a message without text.
            self.talk.append({"role": "assistant", "content": said(reply) or "(an empty reply)"})
            self.talk.append({"role": "user", "content": self._messages.text("agent_again.j2", reason=str(error))})
            useful = False
        self.idle = 0 if useful else self.idle + 1
        self.used_up = 0 if useful else self.used_up

    def _read(self, reply: Completion) -> bool:
        """Submits the template in a text.

        Raises:
            TemplateError: If there is none, or it is not acceptable.
        """
        if not _WRAPPED.search(without_thoughts(reply.text)):
            raise TemplateError("The reply calls no tool, and holds no template in a fenced block.")
        self._bench.submit(unwrap_reply(reply.text))
        self._trace(None, said(reply), "submitted", reply)
        return True

    def _call(self, reply: Completion) -> bool:
        """Calls the tools that a reply asks for, and tells whether any call was of use."""
        calls = [_sent(call) for call in reply.tool_calls]
        self.talk.append({"role": "assistant", "content": said(reply) or None, "tool_calls": calls})
        useful = False
        for number, call in enumerate(reply.tool_calls):
            result: Mapping[str, Any]
            try:
                if self._bench.submitted is not None:
                    raise ToolError("A template has been submitted.")
                if number >= _CALLS:
                    raise ToolError(f"A reply may make at most {_CALLS} calls.")
                result = self._bench.call(call.name, call.arguments)
                useful = True
            except ToolError as error:
                result = {"error": str(error)}
            except TemplateError as error:  # a template was written, though not an acceptable one
                result = {"error": str(error)}
                useful = True
            text = _cut(json.dumps(result, ensure_ascii=False), _RESULT)
            self._trace(call.name, call.arguments, text, reply if number == 0 else None)
            self.talk.append({"role": "tool", "tool_call_id": call.id, "content": text})
        return useful

    def _trace(self, tool: str | None, arguments: str, result: str, reply: Completion | None) -> None:
        """Records what the model did; the tokens of a reply stand with its first call."""
        tokens = (0, 0) if reply is None else (reply.prompt_tokens, reply.completion_tokens)
        name = None if tool is None else _cut(tool, _NAME)
        self.trace.append(Turn(name, _cut(arguments, _KEPT), _cut(result, _KEPT), *tokens))


def _sent(call: ToolCall) -> dict[str, Any]:
    """Returns a call as it goes back to the model; providers refuse arguments that are not an object."""
    try:
        proper = isinstance(json.loads(call.arguments), dict)
    except (ValueError, RecursionError):
        proper = False
    function = {"name": call.name, "arguments": call.arguments if proper else "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
