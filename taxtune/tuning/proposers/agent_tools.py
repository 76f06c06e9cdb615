"""What the agent's model can do: read the history, look at failures, try drafts, compare templates, submit one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from taxtune.errors import TaxtuneError, TemplateError
from taxtune.metrics.names import metric_name
from taxtune.metrics.statistics import Sample, paired_bootstrap
from taxtune.tuning.proposers.base import Check, Goal
from taxtune.tuning.proposers.clades import Clades
from taxtune.tuning.proposers.evidence import evidence, row_values
from taxtune.tuning.proposers.messages import Messages, shown_scores
from taxtune.tuning.records import IterationRecord, SampleResult

__all__ = ["TOOLS", "ToolError", "Workbench", "tool_definitions"]

_ROWS, _TEMPLATES = 40, 5  # of a reply of `history`
_RESAMPLES = 2000
_NAME = re.compile(r"\s*(?:(?P<draft>draft)|iteration)?\s*(?P<number>\d+)\s*", re.IGNORECASE)


class ToolError(TaxtuneError):
    """A call of a tool that cannot be carried out; the reason goes back to the model."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)


class _History(_Arguments):
    iterations: list[int] = Field([], max_length=_TEMPLATES)


class _Failures(_Arguments):
    template: str
    inside: str = ""


class _TryDraft(_Arguments):
    template: str
    images: int = Field(ge=1)


class _Compare(_Arguments):
    first: str
    second: str


class _Submit(_Arguments):
    template: str


#: The tools by name, each with its arguments; what they are for is told in `prompts/proposer/agent_tools.j2`.
TOOLS: Mapping[str, type[_Arguments]] = {
    "history": _History,
    "failures": _Failures,
    "try_draft": _TryDraft,
    "compare": _Compare,
    "submit": _Submit,
}


def tool_definitions(told: Mapping[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns tools as a chat model is offered them, in OpenAI's form.

    Args:
        told: By tool, its `description`, and by argument, what is to be given, as `arguments`.
        names: The tools that are offered.

    Raises:
        KeyError: If a tool or an argument is not described.
    """
    found = []
    for name in names:
        schema = TOOLS[name].model_json_schema()
        for argument, kind in schema["properties"].items():
            kind.pop("title", None)
            kind["description"] = str(told[name]["arguments"][argument])
        parameters = {
            "type": "object",
            "properties": schema["properties"],
            "required": schema.get("required", []),
            "additionalProperties": False,
        }
        function = {"name": name, "description": str(told[name]["description"]), "parameters": parameters}
        found.append({"type": "function", "function": function})
    return found


class Workbench:
    """What one iteration's agent works with.

    Args:
        history: Every iteration so far.
        goal: What is being tuned for.
        check: Raises `TemplateError` where a template is not acceptable.
        messages: Puts what answers say into words.
        trial_images: How many images drafts may be tried on, over all drafts.

    Attributes:
        submitted: The template that was submitted and accepted, or None.
        rejected: Drafts and submissions that were refused, each with the reason.
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
        self._drafts: dict[str, tuple[SampleResult, ...]] = {}
        rows = [row for record in history for row in record.rows]
        self._clades = None if goal.taxonomy is None else Clades(goal.taxonomy, goal, rows)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that can be of use: no draft can be tried where nothing can be asked or no image is left."""
        useless = set() if self._goal.ask is not None and self._left > 0 else {"try_draft"}
        useless |= set() if self._clades is not None else {"failures"}
        return tuple(name for name in TOOLS if name not in useless)

    def call(self, name: str, arguments: str) -> dict[str, Any]:
        """Returns what a tool has to say, as plain values.

        Args:
            name: The tool.
            arguments: Its arguments as JSON.

        Raises:
            ToolError: If there is no such tool, or the arguments are not what it takes.
            TemplateError: If a draft or a submission is not acceptable.
            TaxtuneError: If the model that drafts are tried on is out of reach.
        """
        if name not in TOOLS:
            raise ToolError(f"There is no tool {name!r}.", remedy=f"The tools are {', '.join(self.tools)}.")
        try:
            given = TOOLS[name].model_validate_json(arguments.strip() or "{}")
        except ValidationError as error:
            wrong = [": ".join((*map(str, each["loc"]), each["msg"])) for each in error.errors()]
            raise ToolError(f"The arguments of {name} cannot be used: {'; '.join(wrong)}.") from None
        result: dict[str, Any] = getattr(self, f"_{name}")(**dict(given))
        return result

    # -- the tools -----------------------------------------------------------------------------------------------------

    def _history(self, iterations: Sequence[int]) -> dict[str, Any]:
        chosen = [self._record(number) for number in iterations] or list(self._records.values())
        rows = []
        for record in chosen[-_ROWS:]:
            row: dict[str, Any] = {"iteration": record.iteration, "state": record.state}
            if record.scores is not None:
                row |= {"images": len(record.rows), "scores": shown_scores(record, self._goal)}
            if record.reason is not None:
                row["reason"] = record.reason
            if iterations:
                row |= {"template": record.template, "refused": [reason for _, reason in record.rejected]}
            rows.append(row)
        return {"iterations": rows, "left_out": len(chosen) - len(rows)}

    def _failures(self, template: str, inside: str) -> dict[str, Any]:
        source, rows = self._named(template)
        if self._clades is None:
            raise ToolError("The taxonomy is not known here.")
        group = self._clades.find(inside)
        if group is None:
            raise ToolError(f"There is no group {inside!r}.", remedy="Write it as a result of failures has it.")
        within = self._clades.within(rows, group)
        return {
            "images": sum(map(_counts, within)),
            "groups": self._clades.below(within, group),
            "answers": self._messages.evidence(within, self._goal, template=source),
        }

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
            if self._clades is not None:
                self._clades.learn(rows)
        rows = self._drafts[template][:wanted]
        said = evidence(rows, self._goal, template=template)
        scored = [record for record in self._records.values() if record.value is not None and record.rows]
        best = max(scored, key=lambda record: (record.feasible, record.value, -record.iteration), default=None)
        return {
            "draft": f"draft {list(self._drafts).index(template) + 1}",
            "images": len(rows),
            "missing": sum(row.answer is None for row in rows),
            "scores": {}
            if said is None
            else {
                metric_name(each.measure): {
                    "mean": round(each.mean, 3),
                    "standard_error": round(each.standard_error, 3),
                }
                for each in said.scores
            },
            **({} if best is None else {f"minus iteration {best.iteration}": self._differences(rows, best.rows)}),
            "trial_images_left": self._left,
        }

    def _compare(self, first: str, second: str) -> dict[str, Any]:
        return self._differences(self._named(first)[1], self._named(second)[1])

    def _submit(self, template: str) -> dict[str, Any]:
        found = _NAME.fullmatch(template)
        if found is not None and found["draft"]:
            template = self._draft(int(found["number"]))
        self.submit(template)
        return {"submitted": True}

    def submit(self, template: str) -> None:
        """Submits a template.

        Raises:
            TemplateError: If it is not acceptable.
        """
        self._accept(template)
        self.submitted = template

    # -- what they need ------------------------------------------------------------------------------------------------

    def _accept(self, template: str) -> None:
        try:
            self._check(template)
        except TemplateError as error:
            self.rejected.append((template, str(error)))
            raise

    def _record(self, number: int) -> IterationRecord:
        if number not in self._records:
            raise ToolError(f"There is no iteration {number}.", remedy=f"The last is {max(self._records, default=0)}.")
        return self._records[number]

    def _draft(self, number: int) -> str:
        if not 1 <= number <= len(self._drafts):
            raise ToolError(f"There is no draft {number}.", remedy=f"Drafts that were tried: {len(self._drafts)}.")
        return list(self._drafts)[number - 1]

    def _named(self, name: str) -> tuple[str | None, tuple[SampleResult, ...]]:
        """Returns the source and the rows of an iteration or a draft."""
        found = _NAME.fullmatch(name)
        if found is None:
            raise ToolError(f"{name!r} is no past template.", remedy="Write '3' for iteration 3, or 'draft 1'.")
        if found["draft"]:
            source = self._draft(int(found["number"]))
            return source, self._drafts[source]
        record = self._record(int(found["number"]))
        if not record.rows:
            raise ToolError(f"Iteration {record.iteration} asked about no image.")
        return record.template, record.rows

    def _differences(self, first: Sequence[SampleResult], second: Sequence[SampleResult]) -> dict[str, Any]:
        """Returns the paired differences first minus second on the images that both have answers for."""
        others = {row.example: row for row in second if _counts(row)}
        a = [row for row in first if _counts(row) and row.example in others]
        b = [others[row.example] for row in a]
        said = evidence(a, self._goal)
        samples = []
        for name in () if said is None else (score.measure for score in said.scores):
            values, other = row_values(a, name), row_values(b, name)
            if values is not None and other is not None:
                samples.append((Sample.mean(name, values), Sample.mean(name, other)))
        return {"images": len(a)} | {
            metric_name(name): {
                "difference": round(each.difference, 3),
                "low": round(each.low, 3),
                "high": round(each.high, 3),
                "p": round(each.p_value, 3),
            }
            for name, each in paired_bootstrap(*samples, resamples=_RESAMPLES).items()
        }


def _counts(row: SampleResult) -> bool:
    return row.node is not None and row.unrated is None
