"""The agent: a chat model that looks at failures, tries drafts and compares them before it submits a template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from taxtune.errors import ProposerError, TemplateError
from taxtune.models import ModelSettings, RetryPolicy
from taxtune.models.api import ApiModel, Completion, NoAnswerError, ToolCall
from taxtune.models.api_errors import without_credentials
from taxtune.tuning.proposers.agent_tools import ToolError, Workbench, tool_definitions
from taxtune.tuning.proposers.base import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.llm import DEFAULT_MODEL, _check_whole, _explained, _seed, _sum
from taxtune.tuning.proposers.messages import Messages
from taxtune.tuning.proposers.replies import unwrap_reply
from taxtune.tuning.records import IterationRecord, Turn

__all__ = ["AgentProposer"]

_PROMPTS = ("agent.j2", "agent_again.j2", "agent_last.j2", "agent_tools.j2")
_CALLS = 8  # that one reply may make
_WASTED = 3  # replies in a row that may do nothing
_LONGEST = 2_000  # characters of a turn's arguments and result in the record
_SHOWN = 4_000  # characters of a text that is sent back
_RESULT = 16_000  # characters of a tool's result that are sent


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
        max_tokens: Most tokens of a reply.
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
        max_tokens: int = 2_000,
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
        self._chat = ApiModel(model, settings, role="the proposer's model")

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns the model, its settings and the hash of the messages; never the key."""
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
            "max_tokens": settings.max_tokens,
            "prompts_digest": self._messages.digest,
        }

    def check(self) -> None:
        """Checks that the model's provider is known and its key is there; asks the model nothing.

        Raises:
            ProposerError: What is missing, and what to do.
        """
        with _explained():
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
        talk: list[dict[str, Any]] = [
            *self._messages.first(
                history,
                goal,
                budget=self._max_history_tokens,
                count=self._chat.count_tokens,
                system="agent.j2",
                max_turns=self._max_turns,
                trial_images=self._trial_images,
                can_try="try_draft" in bench.tools,
            )
        ]
        done = _Account()
        wasted = 0
        for turn in range(self._max_turns):
            last = (
                turn == self._max_turns - 1 or done.next_total(self._chat.settings.max_tokens) > self._max_total_tokens
            )
            if last:
                # Not a message of its own: some providers take no user's message right after a tool's.
                talk[-1] = {**talk[-1], "content": f"{talk[-1]['content']}\n\n{self._messages.text('agent_last.j2')}"}
            tools = tool_definitions(self._told, ("submit",) if last else bench.tools)
            silent: NoAnswerError | None = None
            with _explained():
                try:
                    reply = self._chat.converse(talk, seed=_seed(seed, iteration, turn), tools=tools)
                except NoAnswerError as error:
                    reply, silent = error.spent, error
            done.add(reply)
            if silent is not None:
                raise ProposalFailed(
                    silent.message, rejected=tuple(bench.rejected), out_of_reach=True, **done.as_arguments()
                )
            useful = self._take(reply, bench, talk, done)
            if bench.submitted is not None:
                return Proposal(bench.submitted, rejected=tuple(bench.rejected), **done.as_arguments())
            wasted = 0 if useful else wasted + 1
            if last or wasted == _WASTED:
                break
        why = f" The last reason: {bench.rejected[-1][1]}" if bench.rejected else ""
        raise ProposalFailed(
            f"The model submitted no acceptable template in {turn + 1} replies.{why}"
            if wasted < _WASTED
            else f"The model did nothing useful in {_WASTED} replies in a row: {done.trace[-1].result}",
            rejected=tuple(bench.rejected),
            **done.as_arguments(),
        )

    def _take(self, reply: Completion, bench: Workbench, talk: list[dict[str, Any]], done: _Account) -> bool:
        """Does what a reply asks for, adds reply and results to the conversation, and tells whether it was of use."""
        shown = (reply.text or reply.refusal or "").strip()[:_SHOWN]
        if not reply.tool_calls or not _is_whole(reply):
            reason = self._take_text(reply, bench)
            done.trace_turn(reply, None, shown, reason)
            # Some providers refuse a message without text.
            talk.append({"role": "assistant", "content": shown or "(an empty reply)"})
            talk.append({"role": "user", "content": self._messages.text("agent_again.j2", reason=reason)})
            return False
        talk.append({"role": "assistant", "content": shown or None, "tool_calls": [_sent(c) for c in reply.tool_calls]})
        useful = False
        for number, call in enumerate(reply.tool_calls):
            result: Mapping[str, Any]
            try:
                if bench.submitted is not None:
                    raise ToolError("A template has been submitted.")
                if number >= _CALLS:
                    raise ToolError(f"A reply may make at most {_CALLS} calls.")
                result = bench.call(call.name, call.arguments)
                useful = True
            except (ToolError, TemplateError) as error:
                result = {"error": str(error)}
                useful |= isinstance(error, TemplateError)  # a template was written, though not an acceptable one
            text = _cut(json.dumps(result, ensure_ascii=False), _RESULT)
            done.trace_turn(reply if number == 0 else None, call.name, call.arguments, text)
            talk.append({"role": "tool", "tool_call_id": call.id, "content": text})
        return useful

    def _take_text(self, reply: Completion, bench: Workbench) -> str:
        """Submits the template in a text, if there is one; returns what to say of it."""
        try:
            _check_whole(reply)
            template = unwrap_reply(reply.text)
            if template == reply.text.strip():
                raise TemplateError("The reply calls no tool, and holds no template in a fenced block.")
            bench.submit(template)
        except TemplateError as error:
            return str(error)
        return "submitted"


@dataclass
class _Account:
    """What an iteration's conversation has consumed, and its trace."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    costs: list[float | None] = field(default_factory=list)
    trace: list[Turn] = field(default_factory=list)
    latest: int = 0

    def add(self, reply: Completion) -> None:
        """Counts a reply."""
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        self.costs.append(reply.cost_usd)
        self.latest = reply.prompt_tokens + reply.completion_tokens

    def next_total(self, reply: int) -> int:
        """Returns the tokens in all after two more replies of so many tokens: the next one, and one to submit."""
        return self.prompt_tokens + self.completion_tokens + 2 * (self.latest + reply)

    def trace_turn(self, reply: Completion | None, tool: str | None, arguments: str, result: str) -> None:
        """Records what the model did; the tokens belong to the first call of a reply."""
        tokens = (0, 0) if reply is None else (reply.prompt_tokens, reply.completion_tokens)
        self.trace.append(Turn(tool, _cut(arguments), _cut(result), *tokens))

    def as_arguments(self) -> dict[str, Any]:
        """Returns it as a proposal takes it."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost_usd": _sum(self.costs),
            "trace": tuple(self.trace),
        }


def _is_whole(reply: Completion) -> bool:
    try:
        _check_whole(reply)
    except TemplateError:
        return False
    return True


def _sent(call: ToolCall) -> dict[str, Any]:
    """Returns a call as it goes back to the model; providers refuse arguments that are not an object."""
    try:
        proper = isinstance(json.loads(call.arguments), dict)
    except ValueError:
        proper = False
    function = {"name": call.name, "arguments": call.arguments if proper else "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
