"""Comparing prompts: every model's answers under every prompt, scored, and the way from a baseline to the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerRow
from taxtune.answers.matching import align, excluded_records
from taxtune.errors import DataError
from taxtune.metrics.statistics import Interval, PairedDifference, bootstrap, hierarchical_sample, paired_bootstrap
from taxtune.progress import track_each
from taxtune.report.output import StudyReport, Table
from taxtune.studies.both_trees import both_trees_table
from taxtune.studies.contestants import named_paths, read_prompts
from taxtune.studies.placing import COUNTS, PlacedAnswers, missing_note, place_rows, trivial_answer
from taxtune.studies.prompts import PromptsSettings
from taxtune.studies.prompts.figure import draw_arrows, draw_gains
from taxtune.studies.prompts.gains import gains_table, measured_gains, placed_gains
from taxtune.studies.settings import needs_of
from taxtune.studies.text_scores import check_headings, check_measures, check_questions, measure_notes
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Arrow", "PromptedModel", "compare_prompts", "prompts"]

#: The metrics of the tables, as the paper writes them.
_SHOWN = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy"}
_TITLE = "How the prompt affects hierarchical precision and recall"
_CONFIDENCE = 0.95
_LONG = {"hp": "precision", "hr": "recall"}
# What the record of runs has: all else is about files of answers.
_OF_RUNS = ("files", "taxonomy", "format", "root", "resamples", "seed", "reference", "reply")


@dataclass(frozen=True, slots=True)
class PromptedModel:
    """One model under several prompts on the same examples.

    Attributes:
        taxonomy: The tree that nodes and targets are on.
        targets: The target of each example, shape (n,).
        prompts: The placed answers by prompt.
        rows: What was said, by prompt: a row an example; needed for measures of text.
        texts: The prompts' own wording, where it is known.
    """

    taxonomy: Taxonomy
    targets: NDArray[np.int64]
    prompts: Mapping[str, PlacedAnswers]
    rows: Mapping[str, Sequence[AnswerRow]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrow:
    """The way from the baseline prompt to another, on the examples that have an answer under both.

    Attributes:
        model: The model.
        start: Name of the baseline prompt.
        end: Name of the other prompt.
        n: Number of examples with an answer under both.
        at_start: The baseline's scores on these, by metric.
        at_end: The other prompt's scores on these, by metric.
        differences: The other prompt minus the baseline, by metric.
    """

    model: str
    start: str
    end: str
    n: int
    at_start: Mapping[str, Interval]
    at_end: Mapping[str, Interval]
    differences: Mapping[str, PairedDifference]

    @property
    def reading(self) -> str:
        """What the arrow says: a metric has moved where its difference is significant."""
        sure = {name: self.differences[name] for name in ("hp", "hr") if self.differences[name].significant}
        up = {name for name, found in sure.items() if found.difference > 0}
        down = {name for name, found in sure.items() if found.difference < 0}
        if up == {"hp", "hr"}:
            return "better in both"
        if down == {"hp", "hr"}:
            return "worse in both"
        if up and down:
            return "precision for recall" if "hp" in up else "recall for precision"
        moved = [f"more {_LONG[n]}" for n in sorted(up)] + [f"less {_LONG[n]}" for n in sorted(down)]
        return moved[0] if moved else "no clear change"


def prompts(settings: PromptsSettings) -> StudyReport:
    """Reads and compares the prompts and returns the report; see `taxtune.studies.prompts.run`."""
    from taxtune.studies.prompts.run_folders import read_run

    notes: list[str] = []
    excluded: list[dict[str, Any]] = []
    record = settings.record()
    runs = _runs(settings.files)
    tree, part = (None, None) if settings.taxonomy is None else settings.read_tree()
    if runs:
        if settings.root is not None and tree is None:
            raise DataError(
                "--root is a node of a taxonomy.",
                value=settings.root,
                remedy="Give the runs' own taxonomy with --taxonomy.",
            )
        if any("question" in needs_of(measure) for measure in settings.measure):
            raise DataError("A judge needs the prompt that was asked, which runs do not record.", remedy="Remove it.")
        models = {name: read_run(path, tree) for name, path in runs.items()}
        if settings.prompt_column or settings.model_column or settings.guess or settings.where:
            raise DataError("Runs have no columns or guesses to choose from.", remedy="Remove these options.")
        record = {key: record[key] for key in _OF_RUNS if key in record}
    else:
        if tree is None:
            raise DataError("No taxonomy was given.", remedy="Give one with --taxonomy.")
        judges = check_measures(settings.measure, settings.question_column)
        mapper = settings.mapper(tree)
        read = read_prompts(settings, tree, part)
        aligned = {name: align(parts, settings.rows) for name, parts in read.items()}
        files = [file for parts in read.values() for file in parts.values()]
        notes += [note for file in files for note in file.notes]
        notes += [f"{name}: {note}" for name, match in aligned.items() for note in match.notes]
        excluded = excluded_records(files, aligned.values())
        rows = {(name, prompt): some for name, match in aligned.items() for prompt, some in match.rows.items()}
        if judges:
            for (name, prompt), some in rows.items():
                check_questions(f"{name}:{prompt}", some, settings.question_column)
        placed = place_rows(mapper, rows)
        models = {
            name: PromptedModel(
                tree,
                np.array([row.target for row in next(iter(match.rows.values()))], dtype=np.int64),
                {prompt: placed[name, prompt] for prompt in match.rows},
                match.rows,
            )
            for name, match in aligned.items()
        }
        record["mapper"] = mapper.identity()
    return compare_prompts(models, settings, part, record=record, notes=notes, excluded=excluded)


def compare_prompts(
    models: Mapping[str, PromptedModel],
    settings: PromptsSettings,
    part: Domain | None = None,
    *,
    record: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    excluded: Sequence[Mapping[str, Any]] = (),
) -> StudyReport:
    """Scores every model under every prompt and compares each prompt with the baseline on the same examples.

    Args:
        models: The models with their prompts, at least one with two.
        settings: The baseline, and how often to resample.
        part: What the tree is a part of, for scores on the whole of it too; None where it is the whole.
        record: What the report records, beside what is found here.
        notes: What reading the files left out.
        excluded: The rows that are left out.

    Raises:
        DataError: If a model has a single prompt or lacks the baseline, or no example was answered under both prompts.
    """
    starts = {name: _baseline(name, model, settings.baseline) for name, model in models.items()}
    told = {"resamples": settings.resamples, "seed": settings.seed, "confidence": _CONFIDENCE}
    every = [(name, prompt) for name, model in models.items() for prompt in model.prompts]
    scores: dict[tuple[str, str], Mapping[str, Interval]] = {}
    arrows: list[Arrow] = []
    for name, prompt in track_each(every, "prompts scored"):
        scores[name, prompt] = _scores(name, prompt, models[name], told)
        if prompt != starts[name]:
            arrows.append(_arrow(name, models[name], starts[name], prompt, told))
    placed = {(name, prompt): models[name].prompts[prompt] for name, prompt in every}
    remarks = [
        f"Intervals are {100 * _CONFIDENCE:.0f} % bootstrap intervals over the examples.",
        *missing_note(
            sum(int((~some.known).sum()) for some in placed.values()),
            "a prompt's scores are over its own answers, a difference over the examples answered under both prompts",
        ),
        *(trivial_answer(m.taxonomy, m.targets, name if len(models) > 1 else None) for name, m in models.items()),
    ]
    tables = [_prompts_table(placed, scores, remarks), _arrows_table(arrows), _differences_table(arrows)]
    figures: dict[str, Callable[[], Figure]] = {"arrows": partial(draw_arrows, arrows)}
    measures = settings.measures(settings.measure)
    check_headings(measures)
    if measures:
        gains = placed_gains(models, scores, arrows)
        for measure in measures:
            gains += measured_gains(models, starts, measure, settings, told)
        tables.append(gains_table(gains, settings.reply))
        figures["gains"] = partial(draw_gains, gains)
    if part is not None:
        said = {f"{name}: {prompt}": (models[name].targets, some) for (name, prompt), some in placed.items()}
        tables.append(
            both_trees_table(
                part,
                {title: (some.nodes, targets) for title, (targets, some) in said.items()},
                "model and prompt",
                off_tree={title: some.as_child for title, (_, some) in said.items()},
            )
        )
    return StudyReport(
        study="prompts",
        title=_TITLE,
        settings={
            **(record or {}),
            "models": {name: list(model.prompts) for name, model in models.items()},
            "baseline": starts,
            "confidence_level": _CONFIDENCE,
            **({"measures": [measure.identity() for measure in measures]} if measures else {}),
        },
        tables=tuple(tables),
        figures=figures,
        notes=tuple(dict.fromkeys((*notes, *measure_notes(measures)))),
        data={"texts": {name: dict(model.texts) for name, model in models.items()}, "excluded": list(excluded)},
    )


def _runs(arguments: Sequence[str]) -> dict[str, str]:
    """Returns the folders of runs by name, where the arguments are such."""
    found = {name: path for name, path in named_paths(arguments).items() if Path(path).is_dir()}
    if found and len(found) != len(arguments):
        raise DataError(
            "Some arguments are folders of runs and some are files.",
            value=list(arguments),
            remedy="Study runs and files separately.",
        )
    return found


def _baseline(name: str, model: PromptedModel, wanted: str | None) -> str:
    if len(model.prompts) < 2:
        raise DataError(
            f"{name} has a single prompt, so there is nothing to compare.",
            value=list(model.prompts),
            remedy="Give its answers under another prompt too.",
        )
    start = next(iter(model.prompts)) if wanted is None else wanted
    if start not in model.prompts:
        raise DataError(
            f"{name} has no prompt of the baseline's name.",
            value=wanted,
            remedy=f"It has {', '.join(map(repr, model.prompts))}.",
        )
    return start


def _scores(name: str, prompt: str, model: PromptedModel, told: Mapping[str, Any]) -> Mapping[str, Interval]:
    placed = model.prompts[prompt]
    known = placed.known
    if not known.any():
        raise DataError(
            f"{name} has no answer under the prompt {prompt!r}: every call failed, or there is no such guess.",
            remedy="Remove this prompt.",
        )
    off = placed.as_child[known]
    return bootstrap(
        hierarchical_sample(model.taxonomy, placed.nodes[known], model.targets[known], off_tree=off), **told
    )


def _arrow(name: str, model: PromptedModel, start: str, end: str, told: Mapping[str, Any]) -> Arrow:
    first, second = model.prompts[start], model.prompts[end]
    both = first.known & second.known
    if not both.any():
        raise DataError(
            f"{name} has no example that was answered under both {start!r} and {end!r}.",
            remedy="Remove one of the prompts.",
        )
    targets = model.targets[both]
    here, there = (
        hierarchical_sample(model.taxonomy, placed.nodes[both], targets, off_tree=placed.as_child[both])
        for placed in (first, second)
    )
    return Arrow(
        model=name,
        start=start,
        end=end,
        n=int(both.sum()),
        at_start=bootstrap(here, **told),
        at_end=bootstrap(there, **told),
        differences=paired_bootstrap((there, here), **told),
    )


def _prompts_table(
    placed: Mapping[tuple[str, str], PlacedAnswers],
    scores: Mapping[tuple[str, str], Mapping[str, Interval]],
    notes: Sequence[str],
) -> Table:
    shown = [_SHOWN[metric] for metric in ("hp", "hr", "hf")]
    return Table(
        "prompts",
        _TITLE,
        ("model", "prompt", *COUNTS, *(column for name in shown for column in (name, f"{name} 95 %")), "accuracy"),
        tuple(
            (
                *key,
                *placed[key].counts,
                *(
                    cell
                    for metric in ("hp", "hr", "hf")
                    for cell in (found[metric].estimate, f"{found[metric].low:.3f} – {found[metric].high:.3f}")
                ),
                found["accuracy"].estimate,
            )
            for key, found in scores.items()
        ),
        notes=tuple(notes),
    )


def _arrows_table(arrows: Sequence[Arrow]) -> Table:
    return Table(
        "arrows",
        "From the baseline prompt to the others",
        ("model", "from", "to", "examples", *(f"Δ{shown}" for shown in _SHOWN.values()), "reading"),
        tuple(
            (a.model, a.start, a.end, a.n, *(a.differences[metric].difference for metric in _SHOWN), a.reading)
            for a in arrows
        ),
        notes=(
            "The other prompt minus the baseline, on the examples answered under both. A metric has changed if the "
            "p value of its paired difference is below 0.05; “precision for recall”: hP up, hR down.",
        ),
    )


def _differences_table(arrows: Sequence[Arrow]) -> Table:
    return Table(
        "differences",
        "Paired differences to the baseline prompt",
        ("model", "prompt", "metric", "difference", "2.5 %", "97.5 %", "p"),
        tuple(
            (arrow.model, arrow.end, shown, value.difference, value.low, value.high, value.p_value)
            for arrow in arrows
            for metric, shown in _SHOWN.items()
            for value in (arrow.differences[metric],)
        ),
        {"p": 4},
        ("Two-sided p-value of the paired bootstrap.",),
    )
