"""The agent: a chat model that looks at failures and tries drafts before it submits a template."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from taxtune.errors import TaxtuneError, TemplateError
from taxtune.metrics.names import metric_name
from taxtune.metrics.statistics import Sample, paired_bootstrap
from taxtune.models.api import Completion, ToolCall
from taxtune.tuning.proposers.base import Check, Goal, Proposal
from taxtune.tuning.proposers.evidence import evidence, measures_of, row_values
from taxtune.tuning.proposers.llm import DEFAULT_MODEL, ChatProposer
from taxtune.tuning.proposers.messages import Messages, check_whole
from taxtune.tuning.records import IterationRecord, SampleResult

__all__ = ["TOOLS", "AgentProposer", "AgentTools", "ToolError"]

_CALLS = 8  # that one reply may make
_RESULT = 16_000  # characters of a tool's result that are sent
_RESAMPLES = 2_000
_NAME = re.compile(r"\s*(?:(?P<draft>draft)|iteration)?\s*(?P<number>\d+)\s*", re.IGNORECASE)


class AgentProposer(ChatProposer):
    """Lets a chat model work on the next template with tools.

    The model reads the history, looks at what went wrong with any template, tries drafts on some of the tuning images,
    and submits a template, which is checked and scored as every other. Labels of the images are hidden from it.

    A reply that calls no tool goes back with the reason. The iteration fails where no template was submitted within the
    turns, or after three such replies in a row. An interrupted iteration begins anew; answers about its drafts are in
    the answer store.

    Args:
        model: A chat model that litellm reaches, with its provider, and that can call tools.
        max_turns: Most replies of an iteration, at least 2.
        trial_images: Most images that drafts are tried on in an iteration, over all drafts; 0 for none.
        **settings: Those of `ChatProposer`.
    """

    name = "agent"
    _again = "agent_again.j2"

    def __init__(
        self, model: str = DEFAULT_MODEL, *, max_turns: int = 12, trial_images: int = 60, **settings: Any
    ) -> None:
        super().__init__(model, **{"max_history_tokens": 4_000, **settings})
        self._max_turns = max_turns
        self._trial_images = trial_images

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns the model, its settings and the hash of the messages; never the key."""
        return {**super().identity(), "max_turns": self._max_turns, "trial_images": self._trial_images}

    def propose(
        self, history: Sequence[IterationRecord], goal: Goal, *, iteration: int, seed: int, check: Check
    ) -> Proposal:
        """Returns a template that the model submitted and that passes `check`; see `Proposer.propose`.

        Raises:
            ProposalFailed: No acceptable template was submitted, or the model did not answer.
            ProposerError: The model cannot be asked (its key is refused, it does not exist).
            TaxtuneError: The model that drafts are tried on cannot be asked.
        """
        tools = AgentTools(history, goal, check, messages=self._messages, trial_images=self._trial_images)
        conversation = self._begin(
            history,
            goal,
            iteration,
            seed,
            system="agent.j2",
            max_turns=self._max_turns,
            trial_images=self._trial_images,
            can_try="try_draft" in tools.useful,
        )
        conversation.rejected = tools.rejected
        descriptions = yaml.safe_load(self._messages.text("agent_tools.j2"))

        def offered(turn: int) -> list[dict[str, Any]]:
            if turn < self._max_turns:
                return _offered(descriptions, tools.useful)
            # Not in a message of its own: some providers take no user's message right after a tool's.
            conversation.messages[-1]["content"] += f"\n\n{self._messages.text('agent_last.j2')}"
            return _offered(descriptions, ("submit",))

        def read(reply: Completion) -> str | None:
            check_whole(reply)
            if not reply.tool_calls:
                raise TemplateError("The reply calls no tool.")
            conversation.send_back(reply, [_as_sent(call) for call in reply.tool_calls])
            for number, call in enumerate(reply.tool_calls):
                text = tools.result(call) if number < _CALLS else _error(f"A reply may make at most {_CALLS} calls.")
                conversation.record(reply, text, call, first=number == 0)
                conversation.messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
            return tools.submitted

        return self._until_accepted(conversation, read, self._max_turns, offered)


class ToolError(TaxtuneError):
    """A call of a tool that cannot be carried out; the reason goes back to the model."""


class _Template(BaseModel):
    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    template: str


class _Draft(_Template):
    images: int = Field(ge=1)


#: The tools by name, each with its arguments; `prompts/proposer/agent_tools.j2` describes them.
TOOLS: Mapping[str, type[_Template]] = {"failures": _Template, "try_draft": _Draft, "submit": _Template}


class AgentTools:
    """The tools of one iteration's agent; drafts may be tried on `trial_images` images, over all drafts.

    Attributes:
        submitted: The template that was submitted and accepted, or None.
        rejected: Drafts and submissions that were refused, each with the reason.
    """

    def __init__(
        self, history: Sequence[IterationRecord], goal: Goal, check: Check, *, messages: Messages, trial_images: int
    ) -> None:
        self.submitted: str | None = None
        self.rejected: list[tuple[str, str]] = []
        self._records = {record.iteration: record for record in history}
        self._goal = goal
        self._check = check
        self._messages = messages
        self._left = trial_images
        self._drafts: dict[str, tuple[SampleResult, ...]] = {}

    @property
    def useful(self) -> tuple[str, ...]:
        """The tools that can be of use: no draft can be tried where nothing can be asked or no image is left."""
        can_try = self._goal.ask is not None and self._left > 0
        return tuple(name for name in TOOLS if can_try or name != "try_draft")

    def result(self, call: ToolCall) -> str:
        """Returns the result of a call, or why it has none, as JSON; nothing is done after a submission."""
        if self.submitted is not None:
            return _error("A template has been submitted.")
        try:
            return json.dumps(self.call(call.name, call.arguments), ensure_ascii=False)[:_RESULT]
        except (ToolError, TemplateError) as error:
            return _error(str(error))

    def call(self, name: str, arguments: str) -> dict[str, Any]:
        """Returns the result of a tool, as plain values, for its arguments as JSON.

        Raises:
            ToolError: If there is no such tool, or the arguments are not what it takes.
            TemplateError: If a draft or a submission is not acceptable.
            TaxtuneError: If the model that drafts are tried on is out of reach.
        """
        if name not in TOOLS:
            raise ToolError(f"There is no tool {name!r}.", remedy=f"The tools are {', '.join(self.useful)}.")
        try:
            given = TOOLS[name].model_validate_json(arguments.strip() or "{}")
        except ValidationError as error:
            wrong = [": ".join((*map(str, problem["loc"]), problem["msg"])) for problem in error.errors()]
            raise ToolError(f"The arguments of {name} cannot be used: {'; '.join(wrong)}.") from None
        result: dict[str, Any] = getattr(self, f"_{name}")(**dict(given))
        return result

    def _failures(self, template: str) -> dict[str, Any]:
        source, rows = self._named(template)
        answers = self._messages.evidence(rows, self._goal, template=source)
        return {"images": len(rows), "answers": answers}

    def _try_draft(self, template: str, images: int) -> dict[str, Any]:
        if self._goal.ask is None:
            raise ToolError("Drafts cannot be tried here.")
        self._accept(template)
        asked = self._drafts.get(template, ())
        wanted = min(images, self._goal.tuning_images, len(asked) + self._left)
        if wanted == 0:
            raise ToolError("No trial images are left.", remedy="Submit a template.")
        if wanted > len(asked):
            rows = tuple(self._goal.ask(template, wanted))
            if not rows:
                raise ToolError("The run's budget leaves no images for drafts.", remedy="Submit a template.")
            self._left -= len(rows) - len(asked)
            self._drafts[template] = rows
        rows = self._drafts[template][:wanted]
        found = evidence(rows, self._goal, template=template)
        scores = {
            metric_name(score.measure): {"mean": round(score.mean, 3), "standard_error": round(score.standard_error, 3)}
            for score in (() if found is None else found.scores)
        }
        scored = [record for record in self._records.values() if record.value is not None and record.rows]
        best = max(scored, key=lambda record: (record.feasible, record.value, -record.iteration), default=None)
        return {
            "draft": f"draft {list(self._drafts).index(template) + 1}",
            "images": len(rows),
            "missing": sum(row.answer is None for row in rows),
            "scores": scores,
            **({} if best is None else {f"minus iteration {best.iteration}": self._differences(rows, best.rows)}),
            "trial_images_left": self._left,
        }

    def _submit(self, template: str) -> dict[str, Any]:
        name = _NAME.fullmatch(template)
        source = self._draft(int(name["number"])) if name is not None and name["draft"] else template
        self._accept(source)
        self.submitted = source
        return {"submitted": True}

    def _accept(self, template: str) -> None:
        try:
            self._check(template)
        except TemplateError as error:
            self.rejected.append((template, str(error)))
            raise

    def _draft(self, number: int) -> str:
        if not 1 <= number <= len(self._drafts):
            raise ToolError(f"There is no draft {number}.", remedy=f"Drafts that were tried: {len(self._drafts)}.")
        return list(self._drafts)[number - 1]

    def _named(self, name: str) -> tuple[str | None, tuple[SampleResult, ...]]:
        """Returns the source and the rows of an iteration or a draft."""
        found = _NAME.fullmatch(name)
        if found is None:
            raise ToolError(f"{name!r} is no past template.", remedy="Write '3' for iteration 3, or 'draft 1'.")
        number = int(found["number"])
        if found["draft"]:
            source = self._draft(number)
            return source, self._drafts[source]
        record = self._records.get(number)
        if record is None:
            raise ToolError(f"There is no iteration {number}.", remedy=f"The last is {max(self._records, default=0)}.")
        if not record.rows:
            raise ToolError(f"Iteration {number} asked about no image.")
        return record.template, record.rows

    def _differences(self, first: Sequence[SampleResult], second: Sequence[SampleResult]) -> dict[str, Any]:
        """Returns the paired differences first minus second on the images that both have answers for."""
        others = {row.example: row for row in second if _counts(row)}
        a = [row for row in first if _counts(row) and row.example in others]
        b = [others[row.example] for row in a]
        samples = []
        for name in measures_of(self._goal.objective):
            values, other = row_values(a, name), row_values(b, name)
            if values is not None and other is not None:
                samples.append((Sample.mean(name, values), Sample.mean(name, other)))
        found = paired_bootstrap(*samples, resamples=_RESAMPLES)
        return {"images": len(a)} | {
            metric_name(name): {key: round(getattr(each, key), 3) for key in ("difference", "low", "high", "p_value")}
            for name, each in found.items()
        }


def _offered(descriptions: Mapping[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns tools as a chat model is offered them, in OpenAI's form."""
    offered = []
    for name in names:
        schema = TOOLS[name].model_json_schema()
        schema.pop("title", None)
        for argument, kind in schema["properties"].items():
            kind.pop("title", None)
            kind["description"] = str(descriptions[name]["arguments"][argument])
        function = {"name": name, "description": str(descriptions[name]["description"]), "parameters": schema}
        offered.append({"type": "function", "function": function})
    return offered


def _as_sent(call: ToolCall) -> dict[str, Any]:
    """Returns a call as it goes back to the model; providers refuse arguments that are not an object."""
    try:
        is_object = isinstance(json.loads(call.arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    function = {"name": call.name, "arguments": call.arguments if is_object else "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _error(reason: str) -> str:
    return json.dumps({"error": reason}, ensure_ascii=False)[:_RESULT]


def _counts(row: SampleResult) -> bool:
    return row.node is not None and row.unrated is None
