"""What MLflow's pages say of an experiment and a run: what was asked, what came of it, what it cost, how to go on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

from taxtune.report.account import account_lines
from taxtune.report.changes import state_of
from taxtune.report.outcome import EXPLAINED, answers_to, backed_off, change_in_words, heading
from taxtune.report.summary import COUNTS, Summary, summarise
from taxtune.report.wording import Result, meaning, number
from taxtune.shell import command
from taxtune.tracking.base import Group, Split
from taxtune.tracking.values import TAG_LIMIT, cut, indented
from taxtune.tuning.account import Account
from taxtune.tuning.records import ComparisonResult, IterationRecord, Provenance, TuneResult

__all__ = ["about_experiment", "about_group", "about_iteration", "about_result", "about_start"]

_WIDTH = 96  # characters of a line of a template
EXPERIMENT = """Prompt templates for vision-language models, tuned by taxtune against a label taxonomy.

- A **comparison** is a run with its tuning runs below it, and an **iteration** is a run below a tuning run: \
one template, asked about the tuning images.
- `hp`, `hr` and `hf` are hierarchical precision, recall and F on the tuning images, `heldout/hp` and so on those on \
images that no template was chosen by: first the baseline, at the last step the winner.
- Intervals, paired differences and scores by rank are tables among the artifacts, with pictures of the images.
- Templates are versions of a **prompt**: `baseline`, and one alias for each objective.
"""


def about_experiment() -> str:
    """Returns what is in an experiment."""
    return EXPERIMENT


def about_start(objective: str | None, splits: Sequence[Split]) -> str:
    """Returns what a run that has just begun was asked for."""
    goal = "" if objective is None else f"Looks for the template with the best {meaning(objective)}."
    return _joined(goal, _images(splits), "*The run is not finished.*")


def about_iteration(record: IterationRecord) -> str:
    """Returns an iteration's template, and why it has no scores where it has none."""
    why = "" if record.reason is None else f"**{record.state}**: {record.reason}"
    return _joined(why, _shown(record.template or ""))


def about_result(result: TuneResult, splits: Sequence[Split]) -> str:
    """Returns what came of a tuning run."""
    return _joined(
        _summary(result),
        _asked(result.provenance, splits, [result.objective]),
        _cost(result.account),
        _go_on(Path(result.folder), result.provenance),
    )


def about_group(result: ComparisonResult, group: Group, splits: Sequence[Split]) -> str:
    """Returns what came of runs that belong together."""
    folder = Path(result.folder)
    return _joined(
        _summary(result),
        _asked(result.provenance, splits, [run.objective for run in result.runs]),
        _cost(result.account),
        _go_on(folder, result.provenance),
    )


def _shown(template: str) -> str:
    """Returns a template as a block of code whose lines fit the page."""
    return indented("\n".join(part for line in template.splitlines() for part in wrap(line, _WIDTH) or [""]))


def _joined(*parts: str) -> str:
    return cut("\n\n".join(part for part in parts if part), TAG_LIMIT)


def _summary(result: Result) -> str:
    """Returns what the report's first screen says, as Markdown."""
    summary = summarise(result)
    parts = []
    for each in summary.winners:
        where = f"iteration {each.run.winner} of {len(each.run.iterations) - 1}"
        title = f"### {heading(result, each.name, each.run)} ({where})"
        parts += [title, _shown(each.prompt), f"**{each.verdict}**" if each.verdict else ""]
    if summary.columns:
        parts.append(_table(summary))
    if found := backed_off(result):
        titles = {column.name: column.title for column in summary.columns}
        answers = (
            f"{titles[name]}: {cut(' '.join((row.answer or 'no answer').split()), _WIDTH)} [{COUNTS[state_of(row)]}]"
            for name, row in answers_to(result, found[0])
        )
        label = found[0].truth.replace("/", " › ")
        parts += ["One image that is now named in general, and rightly:", indented("\n".join([label, *answers]))]
    return "\n\n".join(part for part in parts if part)


def _table(summary: Summary) -> str:
    head = [f"{summary.images:,} {summary.split} images", *(column.title for column in summary.columns)]
    rows = [[words, *(f"{column.counts[words]:,}" for column in summary.columns)] for words in summary.counts]
    for key, name in summary.scores.items():
        cells = []
        for column in summary.columns:
            change = change_in_words(column, key)
            after = "" if change is None else f", {change[0]} ({change[1]})"
            cells.append(f"{number(column.scores[key], key)}{after}")
        rows.append([f"{name}: {EXPLAINED[key]}" if key in EXPLAINED else name, *cells])
    lines = [head, ["---", *["---:"] * len(summary.columns)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _asked(provenance: Provenance, splits: Sequence[Split], objectives: Sequence[str]) -> str:
    model = provenance.facts.get("Model", {}).get("model", "")
    proposer = provenance.facts.get("Proposer", {}).get("kind", "")
    lines = [
        f"- goal: {', '.join(meaning(each) for each in objectives)}",
        f"- model: {model}" if model else "",
        f"- proposer: {proposer}" if proposer else "",
        f"- images: {_images(splits)}" if splits else "",
    ]
    return "### What was asked\n\n" + "\n".join(line for line in lines if line)


def _images(splits: Sequence[Split]) -> str:
    counts = {"tuning": "to tune on", "heldout": "held out"}
    return ", ".join(f"{len(split.labels):,} {counts[split.context]}" for split in splits)


def _cost(account: Account) -> str:
    return "### What it cost\n\n" + "\n".join(f"- {name}: {text}" for name, text in account_lines(account))


def _go_on(folder: Path, provenance: Provenance) -> str:
    lines = [command("classify", folder, "IMAGES"), command("report", folder)]
    if provenance.command:
        lines.append(f"{provenance.command}   # runs it again")
    return "### How to go on\n\n" + indented("\n".join(lines))
