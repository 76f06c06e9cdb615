"""The candidates of a run, as people choose among them: counts, what is proven, and the prompt."""

from __future__ import annotations

from taxtune.errors import command
from taxtune.metrics.names import metric_name
from taxtune.report.formatting import number, role_of, shortened
from taxtune.report.output import Cell, Table
from taxtune.tuning.records import Candidate, TuneResult
from taxtune.untrusted import visible

__all__ = ["candidate_lines", "candidate_table", "choose_command"]

_TITLE = "Candidates, by their tuning images (* what the objective takes)"
_INDENT = 8


def candidate_table(run: TuneResult) -> Table:
    """Returns the candidates, the most careful first, with role and prompt in the last two columns."""
    found = () if run.selection is None else run.selection.candidates
    records = {record.iteration: record for record in run.iterations}
    rows: list[dict[str, Cell]] = []
    for each in found:
        record = records[each.iteration]
        rows.append(
            {
                "": "*" if each.taken else "",
                "no.": each.iteration,
                "wrong": each.outcomes.wrong,
                "general": each.outcomes.general,
                "exact": each.outcomes.exact,
                "of": each.outcomes.images,
                f"hP ({100 * each.confidence:g} % bound)": f"{number(each.hp)} (≥ {number(each.low)})",
                "proven": _standing(each),
                "it is": role_of(run, each.iteration),
                "prompt": record.prompt or record.template or "",
            }
        )
    return Table.from_records("candidates", _TITLE, rows)


def _standing(candidate: Candidate) -> str:
    """Returns "certified", or the parts that are missing, as "proves 0.962 of 0.980"."""
    if candidate.certified:
        return "certified"
    missing = []
    for held in candidate.held:
        is_proven = held.confidence > 0.5
        name = "" if held.measure == "hp" and is_proven else f"{metric_name(held.measure)} "
        text = f"{name}{number(held.low, held.measure)} of {number(held.goal, held.measure)}"
        if held.missed:
            missing.append(f"proves {text}" if is_proven else text)
    if candidate.certified is False and not missing:
        missing.append("not certified")
    return ", ".join(missing)


def choose_command(run: TuneResult) -> str:
    """Returns the command that takes another candidate; empty where there is no other."""
    numbers = [int(row["no."] or 0) for row in candidate_table(run).records()]
    others = [number for number in numbers if number != run.winner]
    # The boldest of them is at the end, but for the baseline, which the run was to improve on.
    others.sort(key=bool)
    return command("choose", run.folder, str(others[-1])) if others else ""


def candidate_lines(run: TuneResult, width: int) -> list[str]:
    """Returns the candidates as lines of at most `width` characters, two for each; empty for none."""
    table = candidate_table(run)
    if not table.rows:
        return []
    numbers = Table(
        name="", title="", columns=table.columns[:-2], rows=tuple(row[:-2] for row in table.rows)
    )
    head, *lines = numbers.lines(width, right=True)
    shown = [f"{_TITLE}:", head]
    for line, row in zip(lines, table.rows, strict=True):
        role, prompt = row[-2:]
        text = shortened(visible(f"{role}: {prompt}"), width - _INDENT)
        shown += [line, " " * _INDENT + text]
    other = choose_command(run)
    return [*shown, f"Another one: {other}"] if other else shown
