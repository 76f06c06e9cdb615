"""The agent: a chat model that looks at failures and tries drafts before it submits a template."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from taxtune.errors import TaxtuneError, TemplateError
from taxtune.metrics.names import metric_name
from taxtune.metrics.statistics import Sample, paired_bootstrap
from taxtune.models.api import Completion, ToolCall
from taxtune.tuning.proposers.base import Check, Goal, Proposal
from taxtune.tuning.proposers.evidence import evidence, measures_of, score_columns
from taxtune.tuning.proposers.llm import DEFAULT_MODEL, Conversation, LLMProposer
from taxtune.tuning.proposers.messages import Messages, check_whole
from taxtune.tuning.proposers.pictures import Picture, worst_failures
from taxtune.tuning.records import IterationRecord, SampleResult, groups_of
from taxtune.tuning.selection import best

__all__ = ["TOOLS", "AgentProposer", "AgentTools", "ToolError"]

_CALLS = 8  # that one reply may make
_RESULT = 16_000  # characters of a tool's result that are sent
_RESAMPLES = 2_000


class AgentProposer(LLMProposer):
    """Lets a chat model work on the next template with tools.

    The model reads the history, looks at what went wrong with any template, tries drafts on some of
    the tuning images, and submits a template, which is checked and scored as every other. Labels of
    the images are hidden from it.

    A reply that calls no tool goes back with the reason. The iteration fails where no template was
    submitted within the turns, or after three such replies in a row. An interrupted iteration
    begins anew; answers about its drafts are in the answer store.

    Args:
        model: A chat model that litellm reaches, with its provider, and that can call tools.
        max_turns: Most replies of an iteration, at least 2.
        trial_images: Most images that drafts are tried on in an iteration, over all drafts; 0 for
            none.
        **settings: Those of `LLMProposer`.
    """

    name = "agent"
    _again = "agent_again.j2"

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        max_turns: int = 12,
        trial_images: int = 60,
        **settings: Any,
    ) -> None:
        super().__init__(model, **{"max_history_tokens": 4_000, **settings})
        self._max_turns = max_turns
        self._sent = max_turns - 1  # every reply after a look reads the picture again
        self._trial_images = trial_images

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns the model, its settings and the hash of the messages; never the key."""
        identity = super().identity()
        identity["max_turns"] = self._max_turns
        identity["trial_images"] = self._trial_images
        return identity

    def propose(
        self,
        history: Sequence[IterationRecord],
        goal: Goal,
        *,
        iteration: int,
        seed: int,
        check: Check,
    ) -> Proposal:
        """Returns a template that the model submitted and that passes; see `Proposer.propose`.

        Raises:
            ProposalFailed: No acceptable template was submitted, or the model did not answer.
            ProposerError: The model cannot be asked (its key is refused, it does not exist).
            TaxtuneError: The model that drafts are tried on cannot be asked.
        """
        tools = AgentTools(
            history, goal, check, messages=self._messages, trial_images=self._trial_images
        )
        tools.looks = self._pictures if goal.images else 0
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
        look = self._messages.text("pictures/look.j2", pictures=self._pictures)
        descriptions |= yaml.safe_load(look)

        def offered(turn: int) -> list[dict[str, Any]]:
            if turn < self._max_turns:
                return _offered(descriptions, tools.useful)
            # Not in a message of its own: some providers take no user's message right after a
            # tool's.
            conversation.append_text("\n\n" + self._messages.text("agent_last.j2"))
            return _offered(descriptions, ("submit",))

        def read(reply: Completion) -> str | None:
            check_whole(reply)
            if not reply.tool_calls:
                raise TemplateError("The reply calls no tool.")
            self._answer_calls(conversation, tools, reply)
            return tools.submitted

        return self._until_accepted(conversation, read, self._max_turns, offered)

    def _answer_calls(
        self, conversation: Conversation, tools: AgentTools, reply: Completion
    ) -> None:
        """Adds the results of a reply's calls, and the pictures that it asks for."""
        conversation.send_back(reply, [_as_sent(call) for call in reply.tool_calls])
        for number, call in enumerate(reply.tool_calls):
            text = _error(f"A reply may make at most {_CALLS} calls.")
            if number < _CALLS:
                text = tools.result(call)
            conversation.record(reply, text, call, first=number == 0)
            message = {"role": "tool", "tool_call_id": call.id, "content": text}
            conversation.messages.append(message)
        if tools.submitted is None and tools.looked_at:
            # Images are refused in a tool's message by OpenAI, and by Mistral in a user's right after
            # a tool's.
            between = self._messages.text("pictures/looking.j2")
            conversation.messages.append({"role": "assistant", "content": between})
            conversation.show([], tools.looked_at, self._messages)
            tools.looked_at = []


class ToolError(TaxtuneError):
    """A call of a tool that cannot be carried out; the reason goes back to the model."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Iteration(_Arguments):
    iteration: int


class _Look(_Arguments):
    image: int


class _Template(_Arguments):
    template: str


class _Draft(_Template):
    images: int = Field(ge=1)


#: The tools by name, each with its arguments; `prompts/proposer/agent_tools.j2` and
#: `pictures/look.j2` describe them.
TOOLS: Mapping[str, type[BaseModel]] = {
    "failures": _Iteration,
    "look": _Look,
    "try_draft": _Draft,
    "submit": _Template,
}


class AgentTools:
    """The tools of one iteration's agent; `trial_images` is the most images over all drafts.

    Attributes:
        submitted: The template that was submitted and accepted, or None.
        rejected: Drafts and submissions that were refused, each with the reason.
        looks: Images that may still be looked at; 0 until it is set.
        looked_at: Pictures that were asked for and not yet shown.
    """

    def __init__(
        self,
        history: Sequence[IterationRecord],
        goal: Goal,
        check: Check,
        *,
        messages: Messages,
        trial_images: int,
    ) -> None:
        self.submitted: str | None = None
        self.rejected: list[tuple[str, str]] = []
        self._records = {record.iteration: record for record in history}
        self._goal = goal
        self._check = check
        self._messages = messages
        self._left = trial_images
        self.looks = 0
        self.looked_at: list[Picture] = []
        self._listed: dict[int, Picture] = {}
        self._drafts: dict[str, tuple[SampleResult, ...]] = {}

    @property
    def useful(self) -> tuple[str, ...]:
        """The tools that can be of use in the next turn."""
        names = list(TOOLS)
        if self._goal.ask is None or self._left <= 0:
            names.remove("try_draft")
        if self.looks <= 0:
            names.remove("look")
        return tuple(names)

    def result(self, call: ToolCall) -> str:
        """Returns the result of a call, or the error, as JSON; nothing is done after a submission.

        Raises:
            TaxtuneError: If the model that drafts are tried on is out of reach.
        """
        if self.submitted is not None:
            return _error("A template has been submitted.")
        if call.name not in TOOLS:
            return _error(
                f"There is no tool {call.name!r}. The tools are {', '.join(self.useful)}."
            )
        try:
            given = TOOLS[call.name].model_validate_json(call.arguments.strip() or "{}")
            tool = getattr(self, f"_{call.name}")
            result = tool(**dict(given))
        except ValidationError as error:
            wrong = []
            for problem in error.errors():
                parts = (*map(str, problem["loc"]), problem["msg"])
                wrong.append(": ".join(parts))
            return _error(f"The arguments of {call.name} cannot be used: {'; '.join(wrong)}.")
        except (ToolError, TemplateError) as error:
            return _error(str(error))
        return json.dumps(result, ensure_ascii=False)[:_RESULT]

    def _failures(self, iteration: int) -> dict[str, Any]:
        record = self._records.get(iteration)
        if record is None:
            last = max(self._records, default=0)
            raise ToolError(f"There is no iteration {iteration}.", remedy=f"The last is {last}.")
        if not record.rows:
            raise ToolError(f"Iteration {iteration} asked about no image.")
        answers = self._messages.evidence(record, self._goal)
        result: dict[str, Any] = {"images": len(record.rows), "answers": answers}
        if self.looks:
            captions = []
            most = 2 * self.looks
            for picture in worst_failures(record, self._goal, most, salt=len(self._records)):
                self._listed[picture.number] = picture
                captions.append(self._messages.text("pictures/caption.j2", picture=picture))
            result["worst"] = captions
        return result

    def _look(self, image: int) -> dict[str, Any]:
        if self.looks == 0:
            raise ToolError("No look is left.")
        if image not in self._listed:
            raise ToolError(f"failures has not listed an image {image}.")
        self.looks -= 1
        self.looked_at.append(self._listed[image])
        return {"image": image, "shown": "below", "looks_left": self.looks}

    def _try_draft(self, template: str, images: int) -> dict[str, Any]:
        if self._goal.ask is None:
            raise ToolError("Drafts cannot be tried here.")
        self._accept(template)
        rows = self._rows(self._goal.ask, template, images)
        leader = best([*self._records.values()])
        missing = sum(row.answer is None for row in rows)
        result: dict[str, Any] = {"images": len(rows), "missing": missing}
        result["scores"] = self._scores(rows, template)
        if leader is not None:
            differences = self._differences(rows, leader.rows)
            result[f"minus iteration {leader.iteration}"] = differences
        result["answers"] = self._messages.evidence(rows, self._goal, template=template)
        result["trial_images_left"] = self._left
        return result

    def _rows(
        self,
        ask: Callable[[str, int], Sequence[SampleResult]],
        template: str,
        images: int,
    ) -> tuple[SampleResult, ...]:
        """Returns the rows of a draft, of which only new images are asked about."""
        asked = self._drafts.get(template, ())
        wanted = min(images, self._goal.tuning_images, len(asked) + self._left)
        if wanted == 0:
            raise ToolError("No trial images are left.", remedy="Submit a template.")
        if wanted > len(asked):
            rows = tuple(ask(template, wanted))
            if not rows:
                raise ToolError(
                    "The run's budget leaves no images for drafts.", remedy="Submit a template."
                )
            self._left -= len(rows) - len(asked)
            self._drafts[template] = rows
        return self._drafts[template][:wanted]

    def _scores(self, rows: Sequence[SampleResult], template: str) -> dict[str, dict[str, float]]:
        found = evidence(rows, self._goal, template=template)
        scores = {}
        for score in () if found is None else found.scores:
            scores[metric_name(score.measure)] = {
                "mean": round(score.mean, 3),
                "standard_error": round(score.standard_error, 3),
            }
        return scores

    def _submit(self, template: str) -> dict[str, Any]:
        self._accept(template)
        self.submitted = template
        return {"submitted": True}

    def _accept(self, template: str) -> None:
        try:
            self._check(template)
        except TemplateError as error:
            self.rejected.append((template, str(error)))
            raise

    def _differences(
        self, first: Sequence[SampleResult], second: Sequence[SampleResult]
    ) -> dict[str, Any]:
        """Returns the paired differences first minus second on the images that both answer."""
        others = {row.example: row for row in second if row.counts}
        own = [row for row in first if row.counts and row.example in others]
        paired = [others[row.example] for row in own]
        measures = measures_of(self._goal.objective)
        other_columns = score_columns(paired, measures)
        groups = groups_of(own)
        samples = []
        for name, values in score_columns(own, measures).items():
            if name in other_columns:
                first_sample = Sample.mean(name, groups.mean(values))
                second_sample = Sample.mean(name, groups.mean(other_columns[name]))
                samples.append((first_sample, second_sample))
        differences: dict[str, Any] = {"images": len(own)}
        for name, found in paired_bootstrap(*samples, resamples=_RESAMPLES).items():
            differences[metric_name(name)] = {
                "difference": round(found.difference, 3),
                "low": round(found.low, 3),
                "high": round(found.high, 3),
                "p_value": round(found.p_value, 3),
            }
        return differences


def _offered(descriptions: Mapping[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns tools as a chat model is offered them, in OpenAI's form."""
    offered = []
    for name in names:
        schema = TOOLS[name].model_json_schema()
        schema.pop("title", None)
        for argument, kind in schema["properties"].items():
            kind.pop("title", None)
            kind["description"] = str(descriptions[name]["arguments"][argument])
        function = {
            "name": name,
            "description": str(descriptions[name]["description"]),
            "parameters": schema,
        }
        offered.append({"type": "function", "function": function})
    return offered


def _as_sent(call: ToolCall) -> dict[str, Any]:
    """Returns a call as it goes back; providers refuse arguments that are no object."""
    try:
        is_object = isinstance(json.loads(call.arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    function = {"name": call.name, "arguments": call.arguments if is_object else "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _error(reason: str) -> str:
    return json.dumps({"error": reason}, ensure_ascii=False)[:_RESULT]
