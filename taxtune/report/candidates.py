"""The candidates of a run, as people choose among them: counts, what is proven, and the prompt."""

from __future__ import annotations

from dataclasses import dataclass

from taxtune.errors import command
from taxtune.metrics.names import metric_name
from taxtune.report.formatting import number, shortened
from taxtune.report.output import Table
from taxtune.tuning.records import Candidate, Held, TuneResult
from taxtune.untrusted import visible

__all__ = ["Choice", "candidate_lines", "candidate_table", "choices", "choose_command"]

_TITLE = "Candidates, by their tuning images (* what the objective takes):"
_PROMPT_INDENT = 8


@dataclass(frozen=True, slots=True)
class Choice:
    """A candidate in words.

    Attributes:
        candidate: The candidate.
        prompt: Its prompt; the template where its variables are not known.
        is_chosen: Whether a person has chosen it.
    """

    candidate: Candidate
    prompt: str
    is_chosen: bool

    @property
    def mark(self) -> str:
        """A star for the one that the objective takes."""
        return "*" if self.candidate.taken else ""

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """How many labels are wrong, right but general, and exact, and of how many images."""
        outcomes = self.candidate.outcomes
        return outcomes.wrong, outcomes.general, outcomes.exact, outcomes.images

    @property
    def hp(self) -> str:
        """Its hP with the bound, as "0.986 (≥ 0.962)"."""
        return f"{number(self.candidate.hp)} (≥ {number(self.candidate.low)})"

    @property
    def standing(self) -> str:
        """What is proven: "certified", or what is missing, as "proves 0.962 of 0.980"."""
        if self.candidate.certified:
            return "certified"
        missing = [_missing(held) for held in self.candidate.held if held.missed]
        if missing:
            return ", ".join(missing)
        return "" if self.candidate.certified is None else "not certified"

    @property
    def role(self) -> str:
        """What it is among the candidates: "most careful", "boldest, baseline"."""
        roles: list[str] = [*self.candidate.roles]
        if self.candidate.taken and not roles:
            roles.append("the objective's choice")
        if self.is_chosen:
            roles.append("chosen by a person")
        return ", ".join(roles)


def _missing(held: Held) -> str:
    goal = number(held.goal, held.measure)
    if held.confidence > 0.5:
        name = "" if held.measure == "hp" else f"{metric_name(held.measure)} "
        return f"proves {name}{number(held.low, held.measure)} of {goal}"
    return f"{metric_name(held.measure)} {number(held.mean, held.measure)} of {goal}"


def choices(run: TuneResult) -> list[Choice]:
    """Returns the candidates of a run, the most careful first; empty where none are known."""
    if run.selection is None:
        return []
    records = {record.iteration: record for record in run.iterations}
    found = []
    for candidate in run.selection.candidates:
        record = records[candidate.iteration]
        choice = Choice(
            candidate=candidate,
            prompt=record.prompt or record.template or "",
            is_chosen=run.is_chosen and record.iteration == run.winner,
        )
        found.append(choice)
    return found


def choose_command(run: TuneResult) -> str:
    """Returns the command that takes another candidate; empty where there is no other."""
    numbers = [each.candidate.iteration for each in choices(run)]
    others = [number for number in numbers if number != run.winner]
    # The boldest of them is at the end, but for the baseline, which the run was to improve on.
    others.sort(key=bool)
    return command("choose", run.folder, str(others[-1])) if others else ""


def candidate_table(run: TuneResult) -> Table:
    """Returns the candidates as a table, with their whole prompts."""
    counts = ("wrong", "right, but general", "exact", "of")
    columns = ("", "iteration", *counts, "hP", "proven", "it is", "prompt")
    rows = []
    for each in choices(run):
        numbers = (each.candidate.iteration, *each.counts)
        rows.append((each.mark, *numbers, each.hp, each.standing, each.role, each.prompt))
    return Table(name="candidates", title=_TITLE, columns=columns, rows=tuple(rows))


def candidate_lines(run: TuneResult, width: int) -> list[str]:
    """Returns the candidates as lines of text, two for each; empty where none are known.

    Args:
        run: The run.
        width: The most characters of a line.
    """
    found = choices(run)
    if not found:
        return []
    confidence = 100 * found[0].candidate.confidence
    heads = ["", "no.", "wrong", "general", "exact", "of", f"hP ({confidence:g} % bound)"]
    cells = []
    for each in found:
        counts = [f"{count:,}" for count in each.counts]
        cells.append([each.mark, str(each.candidate.iteration), *counts, each.hp])
    columns = zip(heads, *cells, strict=True)
    widths = [max(map(len, column)) for column in columns]
    lines = [_TITLE, _row(heads, widths)]
    for each, row in zip(found, cells, strict=True):
        lines.append(shortened(f"{_row(row, widths)}  {each.standing}".rstrip(), width))
        role = f"{each.role}: " if each.role else ""
        prompt = shortened(f"{role}{visible(each.prompt)}", width - _PROMPT_INDENT)
        lines.append(" " * _PROMPT_INDENT + prompt)
    other = choose_command(run)
    return [*lines, f"Another one: {other}"] if other else lines


def _row(cells: list[str], widths: list[int]) -> str:
    aligned = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join(aligned)
