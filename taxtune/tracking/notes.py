"""The descriptions of runs on MLflow's pages, as Markdown: the report's first screen, the cost, the next steps."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

from taxtune.report.account import account_lines
from taxtune.report.changes import state_of
from taxtune.report.outcome import EXPLAINED, answers_to, backed_off, change_in_words
from taxtune.report.scores import Result, number
from taxtune.report.summary import COUNTS, Summary, summarise
from taxtune.report.table import Table
from taxtune.shell import command
from taxtune.tracking.values import TAG_LIMIT, cut
from taxtune.tuning.records import ComparisonResult, IterationRecord, TuneResult

__all__ = ["UNFINISHED", "about_iteration", "about_result"]

UNFINISHED = "*The run is not finished.*"
_WIDTH = 96  # characters of a line of a template


def about_iteration(record: IterationRecord) -> str:
    """Returns an iteration's template, and why it has no scores where it has none."""
    why = "" if record.reason is None else f"**{record.state}**: {record.reason}"
    return _joined(why, _code(record.template or ""))


def about_result(result: TuneResult | ComparisonResult) -> str:
    """Returns the report's first screen, the cost, and the commands to continue with."""
    cost = "### Cost\n\n" + "\n".join(f"- {name}: {text}" for name, text in account_lines(result.account))
    folder, again = Path(result.folder), result.provenance.command
    commands = [command("classify", folder, "IMAGES"), command("report", folder)]
    commands += [f"{again}   # runs it again"] if again else []
    return _joined(_summary(result), cost, "### Next steps\n\n" + _code("\n".join(commands)))


def _summary(result: Result) -> str:
    summary = summarise(result)
    parts = []
    for winner in summary.winners:
        parts += [f"### {winner.heading} ({winner.where})", _code(winner.prompt)]
        parts += [f"**{winner.verdict}**" if winner.verdict else ""]
    if summary.columns:
        parts.append(_table(summary))
    if rows := backed_off(result):
        titles = {column.name: column.title for column in summary.columns}
        answers = (
            f"{titles[name]}: {cut(' '.join((row.answer or 'no answer').split()), _WIDTH)} [{COUNTS[state_of(row)]}]"
            for name, row in answers_to(result, rows[0])
        )
        label = rows[0].truth.replace("/", " › ")
        parts += ["One image that is now named in general, and rightly:", _code("\n".join([label, *answers]))]
    return _joined(*parts)


def _table(summary: Summary) -> str:
    rows = [(words, *(f"{column.counts[words]:,}" for column in summary.columns)) for words in summary.counts]
    for key, name in summary.scores.items():
        cells = []
        for column in summary.columns:
            change = change_in_words(column, key)
            cells.append(number(column.scores[key], key) + (f", {change[0]} ({change[1]})" if change else ""))
        rows.append((f"{name}: {EXPLAINED[key]}" if key in EXPLAINED else name, *cells))
    head = (f"{summary.images:,} {summary.split} images", *(column.title for column in summary.columns))
    return Table("summary", "Counts of answers and scores", head, tuple(rows)).markdown().strip()


def _code(text: str) -> str:
    """Returns a text as a Markdown code block, which shows it as it is, in lines that fit the page."""
    lines = (part for line in text.splitlines() for part in wrap(line, _WIDTH) or [""])
    return "\n".join(f"    {line}" for line in lines)


def _joined(*parts: str) -> str:
    return cut("\n\n".join(part for part in parts if part), TAG_LIMIT)
