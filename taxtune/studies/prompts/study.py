"""What a prompt does to hP and hR: arrows from a baseline prompt to others (paper 1, §7.1, Figure 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerRow
from taxtune.errors import DataError
from taxtune.metrics.hierarchical import flags
from taxtune.metrics.statistics import Interval, PairedDifference, bootstrap, hierarchical_sample, paired_bootstrap
from taxtune.studies.output import Cell, StudyReport, Table
from taxtune.studies.placing import as_child, place_texts, trivial_answer
from taxtune.studies.progress import progress
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.mapping import Mapper

__all__ = ["Arrow", "PlacedPrompt", "PromptedModel", "place_prompts", "prompts_study"]

IntArray = NDArray[np.int64]

#: The metrics of the tables, as the paper writes them.
_SHOWN = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy"}
_TITLE = "What the prompt does to hierarchical precision and recall"
_CONFIDENCE = 0.95
_LONG = {"hp": "precision", "hr": "recall"}


@dataclass(frozen=True, slots=True)
class PlacedPrompt:
    """One model's answers under one prompt, placed.

    Attributes:
        nodes: The node of each example's answer, shape (n,); -1 where there is no answer.
        abstained: How many of the answers decline or say nothing; they are on the root.
        text: The prompt's own wording, or None where it is not known.
        off_tree: How many assert something that the tree lacks.
        as_child: Which are scored as a child of the root that is never right, shape (n,); none where left out.
    """

    nodes: IntArray
    abstained: int
    text: str | None = None
    off_tree: int = 0
    as_child: NDArray[np.bool_] | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which examples have an answer."""
        return self.nodes >= 0

    def off(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns `as_child` of some examples."""
        return flags(self.as_child, len(self.nodes))[chosen]


@dataclass(frozen=True, slots=True)
class PromptedModel:
    """One model under several prompts on the same examples.

    Attributes:
        taxonomy: The tree that nodes and targets are on.
        targets: The target of each example, shape (n,).
        prompts: The placed answers by prompt.
    """

    taxonomy: Taxonomy
    targets: IntArray
    prompts: Mapping[str, PlacedPrompt]


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
        return moved[0] if moved else "no sure change"


def place_prompts(
    models: Mapping[str, Mapping[str, Sequence[AnswerRow]]], taxonomy: Taxonomy, mapper: Mapper
) -> dict[str, PromptedModel]:
    """Places the answers of every model under every prompt, each distinct text once.

    Args:
        models: Rows by model and prompt; row i of every prompt of a model is the same example.
        taxonomy: The tree.
        mapper: Places answers on it.
    """
    texts = {
        row.answer for prompts in models.values() for rows in prompts.values() for row in rows if row.answer is not None
    }
    with progress(len(texts), "answers placed") as advance:
        placed = place_texts(mapper, texts, advance)
    prompted = {}
    for name, prompts in models.items():
        answers = {}
        for prompt, rows in prompts.items():
            found = [None if row.answer is None else placed[row.answer] for row in rows]
            answers[prompt] = PlacedPrompt(
                np.array([-1 if placement is None else placement.node for placement in found], dtype=np.int64),
                sum(placement is not None and placement.abstained for placement in found),
                off_tree=sum(placement is not None and placement.off_tree for placement in found),
                as_child=as_child(mapper, found),
            )
        targets = np.array([row.target for row in next(iter(prompts.values()))], dtype=np.int64)
        prompted[name] = PromptedModel(taxonomy, targets, answers)
    return prompted


def prompts_study(
    models: Mapping[str, PromptedModel],
    *,
    baseline: str | None = None,
    resamples: int = 2000,
    seed: int = 0,
    notes: Sequence[str] = (),
    record: Mapping[str, Any] | None = None,
) -> StudyReport:
    """Scores every model under every prompt and compares each prompt with the baseline on the same examples.

    Args:
        models: The models with their prompts, at least one with two.
        baseline: Name of the prompt that arrows start at, for all models; None takes each model's first.
        resamples: Number of bootstrap resamples, at least 1.
        seed: Seed of the bootstrap.
        notes: What reading the files left out, for the report.
        record: What else is needed to run the study again.

    Raises:
        DataError: If a model has a single prompt or lacks the baseline, or no example was answered under both prompts.
    """
    starts = {name: _baseline(name, model, baseline) for name, model in models.items()}
    rows: list[tuple[Cell, ...]] = []
    arrows: list[Arrow] = []
    with progress(sum(len(model.prompts) for model in models.values()), "prompts scored") as advance:
        for name, model in models.items():
            for prompt, placed in model.prompts.items():
                rows.append(_row(name, prompt, model, placed, resamples, seed))
                if prompt != starts[name]:
                    arrows.append(_arrow(name, model, starts[name], prompt, resamples, seed))
                advance()
    missing = sum(int((~placed.known).sum()) for model in models.values() for placed in model.prompts.values())
    remarks: tuple[str, ...] = (f"Intervals are {100 * _CONFIDENCE:.0f} % bootstrap intervals over the examples.",)
    if missing:
        remarks += (
            f"{missing:,} answers are missing (failed calls, or no such guess). They are no zeros: a prompt's scores "
            "are over its own answers, a difference over the examples answered under both prompts.",
        )
    for name, model in models.items():
        remarks += (trivial_answer(model.taxonomy, model.targets, name if len(models) > 1 else None),)
    return StudyReport(
        study="prompts",
        title=_TITLE,
        settings={
            **(record or {}),
            "models": {name: list(model.prompts) for name, model in models.items()},
            "baseline": starts,
            "resamples": resamples,
            "confidence": _CONFIDENCE,
            "seed": seed,
        },
        tables=(
            Table("prompts", _TITLE, _PROMPT_COLUMNS, tuple(rows), notes=remarks),
            _arrows_table(arrows),
            _differences_table(arrows),
        ),
        figures={"arrows": _drawing(arrows)},
        notes=tuple(notes),
        data={
            "texts": {
                name: {prompt: placed.text for prompt, placed in model.prompts.items() if placed.text is not None}
                for name, model in models.items()
            }
        },
    )


_PROMPT_COLUMNS = (
    "model",
    "prompt",
    "answers",
    "missing",
    "abstained",
    "off the tree",
    "hP",
    "hP 95 %",
    "hR",
    "hR 95 %",
    "hF",
    "hF 95 %",
    "accuracy",
)


def _drawing(arrows: Sequence[Arrow]) -> Callable[[], Figure]:
    def draw() -> Figure:
        from taxtune.studies.prompts.figure import draw_arrows

        return draw_arrows(arrows)

    return draw


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


def _row(
    name: str, prompt: str, model: PromptedModel, placed: PlacedPrompt, resamples: int, seed: int
) -> tuple[Cell, ...]:
    known = placed.known
    if not known.any():
        raise DataError(
            f"{name} has no answer under the prompt {prompt!r}: every call failed, or there is no such guess.",
            remedy="Leave this prompt out.",
        )
    scores = bootstrap(
        hierarchical_sample(model.taxonomy, placed.nodes[known], model.targets[known], off_tree=placed.off(known)),
        resamples=resamples,
        confidence=_CONFIDENCE,
        seed=seed,
    )
    cells: list[Cell] = [name, prompt, int(known.sum()), int((~known).sum()), placed.abstained, placed.off_tree]
    for metric in ("hp", "hr", "hf"):
        interval = scores[metric]
        cells += [interval.estimate, f"{interval.low:.3f} – {interval.high:.3f}"]
    return (*cells, scores["accuracy"].estimate)


def _arrow(name: str, model: PromptedModel, start: str, end: str, resamples: int, seed: int) -> Arrow:
    first, second = model.prompts[start], model.prompts[end]
    both = first.known & second.known
    if not both.any():
        raise DataError(
            f"{name} has no example that was answered under both {start!r} and {end!r}.",
            remedy="Leave one of the prompts out.",
        )
    targets = model.targets[both]
    options: dict[str, Any] = {"resamples": resamples, "confidence": _CONFIDENCE, "seed": seed}
    here, there = (
        hierarchical_sample(model.taxonomy, placed.nodes[both], targets, off_tree=placed.off(both))
        for placed in (first, second)
    )
    return Arrow(
        model=name,
        start=start,
        end=end,
        n=int(both.sum()),
        at_start=bootstrap(here, **options),
        at_end=bootstrap(there, **options),
        differences=paired_bootstrap((there, here), **options),
    )


def _arrows_table(arrows: Sequence[Arrow]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for arrow in arrows:
        moved = [arrow.differences[metric] for metric in _SHOWN]
        rows.append(
            (
                arrow.model,
                arrow.start,
                arrow.end,
                arrow.n,
                *(difference.difference for difference in moved),
                arrow.reading,
            )
        )
    return Table(
        "arrows",
        "From the baseline prompt to the others",
        ("model", "from", "to", "examples", *(f"Δ{shown}" for shown in _SHOWN.values()), "reading"),
        tuple(rows),
        notes=(
            "The other prompt minus the baseline, on the examples answered under both. A metric has moved where the "
            "p value of its paired difference is below 0.05; “precision for recall”: hP up, hR down.",
        ),
    )


def _differences_table(arrows: Sequence[Arrow]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (arrow.model, arrow.end, shown, value.difference, value.low, value.high, value.p_value)
        for arrow in arrows
        for metric, shown in _SHOWN.items()
        for value in (arrow.differences[metric],)
    ]
    return Table(
        "differences",
        "Paired differences to the baseline prompt",
        ("model", "prompt", "metric", "difference", "2.5 %", "97.5 %", "p"),
        tuple(rows),
        {"p": 4},
        ("Two-sided p-value of the paired bootstrap.",),
    )
