"""Messages to the chat model, rendered from `prompts/proposer/`, and the template in its reply."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from taxtune.errors import TemplateError
from taxtune.metrics.names import metric_name
from taxtune.models.api import Completion
from taxtune.resources import prompts_dir
from taxtune.thoughts import fenced_blocks, without_thoughts
from taxtune.tuning.proposers.base import Goal
from taxtune.tuning.proposers.evidence import evidence, measures_of
from taxtune.tuning.records import IterationRecord, SampleResult
from taxtune.tuning.selection import by_means
from taxtune.tuning.template import FILTERS, MAX_SOURCE

__all__ = ["Messages", "UsedUpError", "answer_of", "check_whole", "unwrap_reply"]

_PLAIN = frozenset(("hp", "hr", "hf"))  # measures that are explained with an example
_BITS = frozenset(("ihp", "ihr", "ihf"))
_MOST_REFUSED = 5
_EXPLAINED = 2  # templates that are shown with evidence: the best and the latest
_MOST_MISTAKES = 4  # kinds of mistakes that are shown of a template
_REFUSED_LENGTH = 1_500  # characters of a refused template that are shown again

_JSON = re.compile(r"""[\[{]\s*["']""")


class Messages:
    """Renders the messages to the chat model.

    Args:
        pictures: Whether it is shown pictures; the digest then covers those messages, too.
    """

    def __init__(self, *, pictures: bool = False) -> None:
        folder = prompts_dir() / "proposer"
        self._environment = ImmutableSandboxedEnvironment(
            loader=jinja2.FileSystemLoader(folder),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
        )
        files = sorted(folder.glob("**/*.j2" if pictures else "*.j2"))
        contents = [file.read_bytes() for file in files]
        self.digest = hashlib.sha256(b"".join(contents)).hexdigest()[:16]

    def first(
        self,
        history: Sequence[IterationRecord],
        goal: Goal,
        *,
        budget: int,
        count: Callable[[str], int],
        explain: bool = True,
        system: str = "system.j2",
        **variables: object,
    ) -> list[dict[str, str]]:
        """Returns the messages that open the conversation.

        Of the scored templates, the best and the latest are kept alternately until the budget is
        used up, and shown from the worst to the best. The very best and the very latest come with
        the evidence of their answers, where that fits. A fifth of the budget is for templates that
        were refused lately.

        Args:
            history: Every iteration so far.
            goal: What is being tuned for.
            budget: Most tokens of the entries together.
            count: Returns the number of tokens of a text.
            explain: Whether templates come with the evidence of their answers, or with their scores
                alone.
            system: The prompt of the first message.
            variables: Further variables of that prompt.
        """
        refused = self._refused(history, budget // 5, count)
        budget -= sum(count(entry) for entry in refused)
        explained = _EXPLAINED if explain else 0
        entries, left_out = self._entries(history, goal, budget, count, explained)
        instructions = self.text(
            system,
            goal=goal,
            objective=self.objective(history, goal),
            filters=FILTERS,
            max_source=f"{MAX_SOURCE:,}",
            explained=explain,
            **variables,
        )
        past = self.text(
            "history.j2", entries=entries, left_out=left_out, refused=refused, goal=goal
        )
        return [{"role": "system", "content": instructions}, {"role": "user", "content": past}]

    def objective(self, history: Sequence[IterationRecord], goal: Goal) -> str:
        """Returns the goal's objective in words, which follow from its scores and constraints."""
        objective = goal.objective
        baseline = history[0].scores if history else None
        about = measures_of(objective)
        measures = dict.fromkeys((*about, *objective.beside))
        held = [(constraint, constraint.bound(baseline)) for constraint in objective.constraints]
        return self.text(
            "objective.j2",
            goal=goal,
            measures=tuple(measures),
            held=held,
            plain=not _PLAIN.isdisjoint(about),
            bits=not _BITS.isdisjoint(about),
            named=metric_name,
            summary=_summary,
        )

    def evidence(
        self,
        record: IterationRecord | Sequence[SampleResult],
        goal: Goal,
        *,
        template: str | None = None,
    ) -> str:
        """Returns the evidence of `record` in words; empty where there is none."""
        found = evidence(record, goal, template=template)
        if found is None:
            return ""
        return self.text(
            "evidence.j2", evidence=found, goal=goal, named=metric_name, most=_MOST_MISTAKES
        )

    def text(self, name: str, /, **variables: object) -> str:
        """Returns a prompt of the folder, rendered."""
        return self._environment.get_template(name).render(**variables).strip()

    def _entries(
        self,
        history: Sequence[IterationRecord],
        goal: Goal,
        budget: int,
        count: Callable[[str], int],
        explained: int,
    ) -> tuple[list[str], int]:
        """Returns the entries of scored templates, the worst first, and how many are left out."""
        scored = []
        for record in history:
            if record.state == "complete" and None not in (record.template, record.value):
                scored.append(record)
        best = sorted(scored, key=by_means, reverse=True)
        latest = sorted(scored, key=lambda record: record.iteration, reverse=True)
        # Best and latest take turns, so that a tight budget still holds some of either.
        order: dict[int, IterationRecord] = {}
        for pair in zip(best, latest, strict=True):
            order |= {record.iteration: record for record in pair}
        kept: dict[int, str] = {}
        for number, record in enumerate(order.values()):
            explanation = self.evidence(record, goal) if number < explained else ""
            for shown in dict.fromkeys((explanation, "")):
                entry = self.text(
                    "entry.j2",
                    trial=record,
                    scores=_scores(record, goal),
                    fence=_fence(record.template or ""),
                    evidence=shown,
                )
                cost = count(entry)
                if cost <= budget:
                    kept[record.iteration] = entry
                    budget -= cost
                    break
        entries = []
        for record in reversed(best):
            if record.iteration in kept:
                entries.append(kept[record.iteration])
        return entries, len(scored) - len(entries)

    def _refused(
        self, history: Sequence[IterationRecord], budget: int, count: Callable[[str], int]
    ) -> list[str]:
        """Returns the entries of templates that were refused lately, the latest last."""
        refused: dict[tuple[str, str], None] = {}
        for record in reversed(history):
            refused |= dict.fromkeys(reversed(record.rejected))
        entries: list[str] = []
        for template, reason in list(refused)[:_MOST_REFUSED]:
            if not template.strip():
                continue
            shown = template
            if len(template) > _REFUSED_LENGTH:
                shown = template[:_REFUSED_LENGTH] + " …"
            entry = self.text("refused.j2", template=shown, reason=reason, fence=_fence(shown))
            budget -= count(entry)
            if budget < 0:
                break
            entries.append(entry)
        return entries[::-1]


def _summary(measure: str) -> str:
    """Returns a registered measure in a phrase; empty where it is not registered."""
    from taxtune.metrics.registry import MEASURES

    return MEASURES[measure].summary if measure in MEASURES else ""


def _scores(record: IterationRecord, goal: Goal) -> str:
    """Returns an iteration's scores as the proposer reads them: "hP 0.912, hR 0.640"."""
    objective = goal.objective
    scores = record.scores
    assert scores is not None  # only complete iterations are shown

    def listed(measures: Sequence[str]) -> str:
        texts = [f"{metric_name(measure)} {scores.get(measure):.3f}" for measure in measures]
        return ", ".join(texts)

    text = listed(objective.shown) or f"{objective.name} {record.value or 0.0:.3f}"
    if objective.beside:
        text += f" ({listed(objective.beside)})"
    # A finalist may have been asked about more images before the run was continued.
    if scores.n > goal.tuning_images:
        text += f", on {scores.n} images"
    if record.cut_short:
        return (
            f"{text} (does not count: more than half of the answers were cut off, as they were too "
            "long)"
        )
    if record.feasible:
        return text
    held = " and ".join(metric_name(constraint.measure) for constraint in objective.constraints)
    return f"{text} (does not count: {held} is too low)" if held else f"{text} (does not count)"


def _fence(text: str) -> str:
    """Returns a fence that is longer than any in the text."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)


class UsedUpError(TemplateError):
    """The reply was cut off while the model was still thinking."""


def check_whole(reply: Completion) -> None:
    """Checks that a reply is complete.

    Raises:
        UsedUpError: If it was cut off before it began.
        TemplateError: If it is a refusal, was stopped by a content filter or cut off.
    """
    if reply.refusal is not None:
        raise TemplateError("The reply is a refusal, not a template.")
    if reply.finish_reason == "content_filter":
        raise TemplateError("The provider's content filter stopped the reply.")
    if reply.cut and not reply.tool_calls and not answer_of(reply.text):
        raise UsedUpError(
            f"All {reply.completion_tokens} tokens were used up before the reply began, as reasoning "
            "models do.",
            remedy="Raise proposer.max_tokens, or choose a model that reasons less.",
        )
    if reply.cut:
        raise TemplateError(
            f"The reply was cut off after {reply.completion_tokens} tokens; be shorter."
        )


def unwrap_reply(reply: str) -> str:
    """Returns the template in a reply, the text of its one fenced block.

    Words outside of a fence, in whatever language, cannot be told from a template without one.

    Raises:
        TemplateError: The reply holds none, or several; the reason is fit to go back to the model.
    """
    bodies = {body.strip() for body in fenced_blocks(answer_of(reply))} - {""}
    if len(bodies) != 1 or any(map(_JSON.match, bodies)):
        what = "JSON"
        if not bodies:
            what = "no template in a fence"
        elif len(bodies) > 1:
            what = f"{len(bodies)} different blocks"
        raise TemplateError(
            f"The reply holds {what}.",
            remedy="Give exactly one template, between two lines of ```.",
        )
    return bodies.pop()


def answer_of(reply: str) -> str:
    """Returns a reply without a reasoning model's thoughts, empty if it ends within them."""
    text = reply.replace("\r\n", "\n").lstrip("\ufeff")
    return without_thoughts(text.strip()) or ""
