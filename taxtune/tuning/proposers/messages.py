"""The messages that the chat model gets: rendered from `prompts/proposer/`, the history cut to a budget of tokens."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from taxtune.errors import ProposerError
from taxtune.metrics.names import metric_name
from taxtune.resources import prompts_dir
from taxtune.tuning.proposers.base import Goal
from taxtune.tuning.proposers.evidence import evidence, measures_of
from taxtune.tuning.records import IterationRecord, SampleResult
from taxtune.tuning.template import FILTERS, MAX_SOURCE

__all__ = ["Messages", "shown_scores"]

_FILES = ("again.j2", "entry.j2", "evidence.j2", "history.j2", "objective.j2", "refused.j2", "system.j2")
_PLAIN = frozenset(("hp", "hr", "hf"))  # measures that are explained with an example
_BITS = frozenset(("ihp", "ihr", "ihf"))
_MOST_REFUSED = 5
_EXPLAINED = 2  # templates that are shown with evidence: the best and the latest
_MOST_MISTAKES = 4  # kinds of mistakes that are shown of a template
_REFUSED_LENGTH = 1_500  # characters of a refused template that are shown again


class Messages:
    """Renders what the chat model reads.

    Args:
        folder: Holds the prompts; `prompts/proposer/` where left out.
        more: Prompts that must be there besides those that every proposer with a chat model needs.

    Raises:
        ProposerError: A prompt is missing, cannot be read or has a syntax error.
    """

    def __init__(self, folder: str | Path | None = None, more: Sequence[str] = ()) -> None:
        self.folder = prompts_dir() / "proposer" if folder is None else Path(folder)
        self._environment = ImmutableSandboxedEnvironment(
            loader=jinja2.FileSystemLoader(self.folder),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
        )
        digest = hashlib.sha256()
        needed = (*_FILES, *more)
        # Those of the objectives, and what they include, lie beside them.
        for name in sorted({*needed, *(file.name for file in self.folder.glob("*.j2"))}):
            file = self.folder / name
            try:
                content = file.read_text(encoding="utf-8")
                self._environment.parse(content)
            except (OSError, UnicodeDecodeError) as error:
                raise ProposerError(
                    f"A prompt of the proposer cannot be read: {error}.",
                    file=file,
                    remedy=f"The folder must hold {', '.join(needed)}.",
                ) from None
            except jinja2.TemplateSyntaxError as error:
                raise ProposerError(f"Syntax error: {error.message}.", file=file, row=error.lineno) from None
            digest.update(content.encode())
        self.digest = digest.hexdigest()[:16]

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

        Of the scored templates, the best and the latest are kept alternately until the budget is used up, and shown
        from the worst to the best. The very best and the very latest come with the evidence of their answers, where
        that fits. A fifth of the budget is for templates that were refused lately.

        Args:
            history: Every iteration so far.
            goal: What is being tuned for.
            budget: Most tokens of the entries together.
            count: Returns the number of tokens of a text.
            explain: Whether templates come with the evidence of their answers, or with their scores alone.
            system: The prompt of the first message.
            variables: What that prompt needs besides.
        """
        refused = self._refused(history, budget // 5, count)
        budget -= sum(count(entry) for entry in refused)
        entries, left_out = self._entries(history, goal, budget, count, _EXPLAINED if explain else 0)
        return [
            {
                "role": "system",
                "content": self._render(
                    system,
                    goal=goal,
                    objective=self.objective(history, goal),
                    filters=FILTERS,
                    max_source=f"{MAX_SOURCE:,}",
                    explained=explain,
                    **variables,
                ),
            },
            {
                "role": "user",
                "content": self._render("history.j2", entries=entries, left_out=left_out, refused=refused, goal=goal),
            },
        ]

    def objective(self, history: Sequence[IterationRecord], goal: Goal) -> str:
        """Returns what counts, in words: the objective's own, or what follows from its scores and constraints.

        Args:
            history: Every iteration so far; a constraint that is a share of the baseline's score is told as a number.
            goal: What is being tuned for.

        Raises:
            ProposerError: What the objective tells cannot be rendered.
        """
        objective = goal.objective
        if objective.told is not None:
            try:
                return self._environment.from_string(objective.told).render(goal=goal).strip()
            except (jinja2.TemplateError, TypeError, ValueError) as error:
                raise ProposerError(
                    f"What the objective {objective.name!r} tells the proposer cannot be rendered: {error}.",
                    value=objective.told,
                ) from None
        baseline = history[0].scores if history else None
        about = measures_of(objective)
        return self._render(
            "objective.j2",
            goal=goal,
            measures=tuple(dict.fromkeys((*about, *objective.beside))),
            held=[(each, each.bound(baseline)) for each in objective.constraints],
            plain=not _PLAIN.isdisjoint(about),
            bits=not _BITS.isdisjoint(about),
            named=metric_name,
            summary=_summary,
        )

    def evidence(
        self, record: IterationRecord | Sequence[SampleResult], goal: Goal, *, template: str | None = None
    ) -> str:
        """Returns what the answers to a template say, in words; empty where there is nothing to say.

        Args:
            record: An iteration, or rows of answers.
            goal: What is being tuned for.
            template: The template that was asked; the record's where it is one.
        """
        found = evidence(record, goal, template=template)
        if found is None:
            return ""
        return self._render("evidence.j2", evidence=found, goal=goal, named=metric_name, most=_MOST_MISTAKES)

    def text(self, name: str, **variables: object) -> str:
        """Returns another prompt of the folder.

        Raises:
            ProposerError: If it cannot be rendered.
        """
        return self._render(name, **variables)

    def again(self, reason: str) -> dict[str, str]:
        """Returns the message after a reply that cannot be used."""
        return {"role": "user", "content": self._render("again.j2", reason=reason)}

    def _entries(
        self, history: Sequence[IterationRecord], goal: Goal, budget: int, count: Callable[[str], int], explained: int
    ) -> tuple[list[str], int]:
        scored = [t for t in history if t.state == "complete" and t.template is not None and t.value is not None]
        best = sorted(scored, key=lambda trial: (trial.value or 0.0, trial.iteration), reverse=True)
        latest = sorted(scored, key=lambda trial: trial.iteration, reverse=True)
        # Best and latest take turns, so that a tight budget still holds some of either.
        order = list(dict.fromkeys(t.iteration for pair in zip(best, latest, strict=True) for t in pair))
        by_iteration = {trial.iteration: trial for trial in scored}
        kept: dict[int, str] = {}
        for place, iteration in enumerate(order):
            trial = by_iteration[iteration]
            told = [self.evidence(trial, goal), ""] if place < explained else [""]
            for entry in dict.fromkeys(self._entry(trial, goal, each) for each in told):
                cost = count(entry)
                if cost <= budget:
                    kept[iteration] = entry
                    budget -= cost
                    break
        shown = [kept[trial.iteration] for trial in reversed(best) if trial.iteration in kept]
        return shown, len(scored) - len(shown)

    def _entry(self, trial: IterationRecord, goal: Goal, told: str) -> str:
        return self._render(
            "entry.j2",
            trial=trial,
            scores=shown_scores(trial, goal),
            fence=_fence(trial.template or ""),
            evidence=told,
        )

    def _refused(self, history: Sequence[IterationRecord], budget: int, count: Callable[[str], int]) -> list[str]:
        newest = [pair for trial in reversed(history) for pair in reversed(trial.rejected)]
        entries: list[str] = []
        for template, reason in list(dict.fromkeys(newest))[:_MOST_REFUSED]:
            if not template.strip():
                continue
            shown = template if len(template) <= _REFUSED_LENGTH else template[:_REFUSED_LENGTH] + " …"
            entry = self._render("refused.j2", template=shown, reason=reason, fence=_fence(shown))
            cost = count(entry)
            if cost > budget:
                break
            entries.append(entry)
            budget -= cost
        return entries[::-1]

    def _render(self, name: str, **variables: object) -> str:
        try:
            return self._environment.get_template(name).render(**variables).strip()
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise ProposerError(f"The prompt cannot be rendered: {error}.", file=self.folder / name) from None


def _summary(measure: str) -> str:
    """Returns what a registered measure is, in a phrase; empty of what is not registered."""
    from taxtune.metrics.registry import MEASURES

    return MEASURES[measure].summary if measure in MEASURES else ""


def shown_scores(record: IterationRecord, goal: Goal) -> str:
    """Returns an iteration's scores as the proposer reads them: "hP 0.912, hR 0.640"."""
    objective, scores = goal.objective, record.scores
    assert scores is not None  # only complete iterations are shown

    def told(keys: Sequence[str]) -> str:
        return ", ".join(f"{metric_name(key)} {scores.get(key):.3f}" for key in keys)

    if objective.shown:
        text = told(objective.shown)
    else:
        value = record.value or 0.0
        text = f"{objective.name} {value if objective.direction == 'maximize' else -value:.3f}"
    text += f" ({told(objective.beside)})" if objective.beside else ""
    if scores.n > goal.tuning_images:  # a finalist that was asked about more, before the run was continued
        text += f", on {scores.n} images"
    if not record.feasible:
        held = " and ".join(metric_name(each.measure) for each in objective.constraints)
        text += f" (does not count: {held} is too low)" if held else " (does not count)"
    return text


def _fence(text: str) -> str:
    """A fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)
