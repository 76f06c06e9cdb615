"""What MLflow's pages say of an experiment and a run: what was asked, what came of it, what it cost, how to go on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from taxtune.report.account import account_lines
from taxtune.report.wording import SHARES, headline, interval, meaning, metric_name, number, template_name
from taxtune.shell import command
from taxtune.tracking.base import Group, Split
from taxtune.tracking.values import HEADLINE, TAG_LIMIT, cut, indented
from taxtune.tuning.account import Account
from taxtune.tuning.records import ComparisonResult, HeldoutResult, IterationRecord, Provenance, TuneResult

if TYPE_CHECKING:
    from taxtune.tuning.repeats import RepeatsResult

__all__ = ["about_experiment", "about_group", "about_iteration", "about_result", "about_start"]

_WIDTH = 96  # characters of a line of a template
EXPERIMENT = """Prompt templates for vision-language models, tuned by \
[taxtune](https://pypi.org/project/taxtune/) against a label taxonomy.

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
    winner = result.best.template or ""
    return _joined(
        headline(result),
        _scores(result.heldout),
        f"### The template\n\nIteration {result.winner} of {len(result.iterations) - 1} won:\n\n{_shown(winner)}",
        _asked(result.provenance, splits, [result.objective]),
        _cost(result.account),
        _go_on(Path(result.folder), result.provenance),
    )


def about_group(result: ComparisonResult | RepeatsResult, group: Group, splits: Sequence[Split]) -> str:
    """Returns what came of runs that belong together."""
    folder = Path(result.folder)
    if not isinstance(result, ComparisonResult):
        from taxtune.report.repeats import repeats_headline

        return _joined(
            repeats_headline(result),
            _asked(result.runs[0].provenance, splits, [result.objective]),
            _cost(result.account),
            _go_on(folder, result.runs[0].provenance),
        )
    templates = "\n\n".join(
        f"Tuned for {metric_name(held.name)}:\n\n{_shown(held.template)}" for held in result.heldout[1:]
    )
    return _joined(
        headline(result),
        _scores(result.heldout),
        f"### The templates\n\n{templates}",
        _asked(result.provenance, splits, [run.objective for run in result.runs]),
        _cost(result.account),
        _go_on(folder, result.provenance),
    )


def _shown(template: str) -> str:
    """Returns a template as a block of code whose lines fit the page."""
    return indented("\n".join(part for line in template.splitlines() for part in wrap(line, _WIDTH) or [""]))


def _joined(*parts: str) -> str:
    return cut("\n\n".join(part for part in parts if part), TAG_LIMIT)


def _scores(heldout: Sequence[HeldoutResult]) -> str:
    keys = [key for key in HEADLINE if key != "hf"]
    lines = [f"| template | {' | '.join(map(metric_name, keys))} |", f"| --- |{' ---: |' * len(keys)}"]
    for held in heldout:
        cells = []
        for key in keys:
            ends = None if key in SHARES else held.intervals.get(key)
            within = "" if ends is None else f" ({interval(ends, key)})"
            cells.append(f"{number(held.scores.get(key), key)}{within}")
        lines.append(f"| {template_name(held.name)} | {' | '.join(cells)} |")
    return "\n".join(lines)


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
