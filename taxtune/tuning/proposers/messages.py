"""The messages that the chat model gets: rendered from `prompts/proposer/`, the history cut to a budget of tokens."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from taxtune.errors import ProposerError
from taxtune.report.wording import metric_name
from taxtune.resources import prompts_dir
from taxtune.tuning.objective import Objective
from taxtune.tuning.proposers.base import Goal
from taxtune.tuning.records import IterationRecord
from taxtune.tuning.template import FILTERS, MAX_SOURCE

__all__ = ["Messages"]

_FILES = ("again.j2", "entry.j2", "history.j2", "objective.j2", "refused.j2", "system.j2")
_MOST_REFUSED = 5
_REFUSED_LENGTH = 1_500  # characters of a refused template that are shown again


class Messages:
    """Renders what the chat model reads.

    Args:
        folder: Holds the prompts; `prompts/proposer/` where left out.

    Raises:
        ProposerError: A prompt is missing, cannot be read or has a syntax error.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = prompts_dir() / "proposer" if folder is None else Path(folder)
        self._environment = ImmutableSandboxedEnvironment(
            loader=jinja2.FileSystemLoader(self.folder),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
        )
        digest = hashlib.sha256()
        # Those of the objectives, and what they include, lie beside them.
        for name in sorted({*_FILES, *(file.name for file in self.folder.glob("*.j2"))}):
            file = self.folder / name
            try:
                content = file.read_text(encoding="utf-8")
                self._environment.parse(content)
            except (OSError, UnicodeDecodeError) as error:
                raise ProposerError(
                    f"A prompt of the proposer cannot be read: {error}.",
                    file=file,
                    remedy=f"The folder must hold {', '.join(_FILES)}.",
                ) from None
            except jinja2.TemplateSyntaxError as error:
                raise ProposerError(f"Syntax error: {error.message}.", file=file, row=error.lineno) from None
            digest.update(content.encode())
        self.digest = digest.hexdigest()[:16]

    def first(
        self, history: Sequence[IterationRecord], goal: Goal, *, budget: int, count: Callable[[str], int]
    ) -> list[dict[str, str]]:
        """Returns the messages that open the conversation.

        Of the scored templates, the best and the latest are kept alternately until the budget is used up, and shown
        from the worst to the best. A fifth of the budget is for templates that were refused lately.

        Args:
            history: Every iteration so far.
            goal: What is being tuned for.
            budget: Most tokens of the entries together.
            count: Returns the number of tokens of a text.
        """
        refused = self._refused(history, budget // 5, count)
        entries, left_out = self._entries(history, goal, budget - sum(count(entry) for entry in refused), count)
        return [
            {
                "role": "system",
                "content": self._render(
                    "system.j2",
                    goal=goal,
                    objective=self._objective(goal),
                    filters=FILTERS,
                    max_source=f"{MAX_SOURCE:,}",
                ),
            },
            {
                "role": "user",
                "content": self._render("history.j2", entries=entries, left_out=left_out, refused=refused, goal=goal),
            },
        ]

    def _objective(self, goal: Goal) -> str:
        """Returns what counts, in words: the objective's own, its file's, or a sentence with its name."""
        objective = goal.objective
        file = f"objective_{objective.name}.j2"
        if objective.told is None:
            return self._render(file if (self.folder / file).is_file() else "objective.j2", goal=goal)
        try:
            return self._environment.from_string(objective.told).render(goal=goal).strip()
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise ProposerError(
                f"What the objective {objective.name!r} tells the proposer cannot be rendered: {error}.",
                value=objective.told,
            ) from None

    def again(self, reason: str) -> dict[str, str]:
        """Returns the message after a reply that cannot be used."""
        return {"role": "user", "content": self._render("again.j2", reason=reason)}

    def _entries(
        self, history: Sequence[IterationRecord], goal: Goal, budget: int, count: Callable[[str], int]
    ) -> tuple[list[str], int]:
        scored = [t for t in history if t.state == "complete" and t.template is not None and t.value is not None]
        best = sorted(scored, key=lambda trial: (trial.value or 0.0, trial.iteration), reverse=True)
        latest = sorted(scored, key=lambda trial: trial.iteration, reverse=True)
        # Best and latest take turns, so that a tight budget still holds some of either.
        order = list(dict.fromkeys(t.iteration for pair in zip(best, latest, strict=True) for t in pair))
        by_iteration = {trial.iteration: trial for trial in scored}
        kept: dict[int, str] = {}
        for iteration in order:
            trial = by_iteration[iteration]
            entry = self._render(
                "entry.j2", trial=trial, scores=_shown(trial, goal.objective), fence=_fence(trial.template or "")
            )
            cost = count(entry)
            if cost <= budget:
                kept[iteration] = entry
                budget -= cost
        shown = [kept[trial.iteration] for trial in reversed(best) if trial.iteration in kept]
        return shown, len(scored) - len(shown)

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


def _shown(record: IterationRecord, objective: Objective) -> str:
    """Returns an iteration's scores as the proposer reads them: "hP 0.912, hR 0.640"."""
    scores = record.scores
    assert scores is not None  # only complete iterations are shown

    def told(keys: Sequence[str]) -> str:
        return ", ".join(f"{metric_name(key)} {scores.get(key):.3f}" for key in keys)

    if objective.shown:
        text = told(objective.shown)
    else:
        value = record.value or 0.0
        text = f"{objective.name} {value if objective.direction == 'maximize' else -value:.3f}"
    text += f" ({told(objective.beside)})" if objective.beside else ""
    if not record.feasible:
        held = " and ".join(metric_name(each.measure) for each in objective.constraints)
        text += f" (does not count: {held} is too low)" if held else " (does not count)"
    return text


def _fence(text: str) -> str:
    """A fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)
