"""Paper 2's error types: what an inclusion verdict and a concept similarity say of each answer, beside the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from taxtune.answers import AnswerTable
from taxtune.errors import DataError
from taxtune.metrics.base import name_scores
from taxtune.metrics.diagnosis import COUNTERPARTS, ErrorType, MeasuredType, TypeCost, classify_by_measures
from taxtune.metrics.hierarchical import HierarchicalScores
from taxtune.metrics.registry import Measure
from taxtune.report.output import Cell, Table
from taxtune.studies.diagnosis import DiagnosisSettings
from taxtune.studies.settings import needs_of
from taxtune.studies.text_scores import measure_notes, target_names
from taxtune.taxonomy import Taxonomy

__all__ = ["Measured", "costs_table", "crossed_table", "judge_questions", "measure_types", "measured_table"]

_COLUMNS = ("type", "answers", "%", "hP", "hR", "cost in hP", "hP interval", "cost in hR", "hR interval")


@dataclass(frozen=True, slots=True)
class Measured:
    """What measures say of each answer.

    Attributes:
        types: The type of each answer under paper 2's names; None where no measures were asked.
        measures: The measures by role; of tags without measures text inclusion.
        questions: The prompt that was asked for each answer, where the inclusion measure is a judge.
    """

    types: list[MeasuredType] | None
    measures: dict[str, Measure]
    questions: list[str] | None

    @property
    def notes(self) -> list[str]:
        """What the measures have to tell."""
        return measure_notes(self.measures.values())


def measure_types(taxonomy: Taxonomy, answers: AnswerTable, settings: DiagnosisSettings) -> Measured:
    """Measures the answers against the names of their targets.

    Raises:
        TaxtuneError: If a measure is not there or lacks something.
    """
    specs = settings.asked or (("text-inclusion",) if settings.tags else ())
    # One by one, as both may be the same measure.
    measures = {role: settings.measures([spec])[0] for role, spec in zip(("inclusion", "concept"), specs, strict=False)}
    asked = {role: judge_questions(answers, measure, settings) for role, measure in measures.items()}
    types = None
    if settings.asked:
        said = [row.answer or "" for row in answers.rows]
        names = [target_names(taxonomy, row.target, settings.reference) for row in answers.rows]
        scores = [name_scores(measure, said, names, questions=asked[role]) for role, measure in measures.items()]
        types = classify_by_measures(*scores, high=settings.high)
    return Measured(types, measures, asked.get("inclusion"))


def judge_questions(answers: AnswerTable, measure: str | Measure, settings: DiagnosisSettings) -> list[str] | None:
    """Returns the prompt that was asked for each answer where a measure is a judge, else None.

    Raises:
        DataError: If it is not given, or a row has none.
    """
    if "question" not in needs_of(measure):
        return None
    column = settings.question_column
    if column is None:
        if settings.question is None or not settings.question.strip():
            raise DataError(
                f"The measure {measure if isinstance(measure, str) else measure.name} judges answers to a question.",
                remedy="Give the prompt with --question, or the column with the prompts with --question-column.",
            )
        return [settings.question] * len(answers.rows)
    for row in answers.rows:
        value = row.fields.get(column)
        if not isinstance(value, str) or not value.strip():
            raise DataError(f"The row has no {column}.", file=answers.file, row=row.row, value=value)
    return [row.fields[column] for row in answers.rows]


def costs_table(
    name: str, title: str, costs: Sequence[TypeCost], scores: HierarchicalScores, notes: Sequence[str]
) -> Table:
    """Returns the table of some types: how often each occurs and what it costs, and all of them together.

    Args:
        name: The table's name.
        title: Its title.
        costs: The types.
        scores: The scores of all answers.
        notes: What a reader must know.
    """
    rows: list[tuple[Cell, ...]] = [
        (
            cost.type,
            cost.count,
            100 * cost.share,
            cost.hp,
            cost.hr,
            cost.hp_cost,
            f"{cost.hp_low:.3f} to {cost.hp_high:.3f}",
            cost.hr_cost,
            f"{cost.hr_low:.3f} to {cost.hr_high:.3f}",
        )
        for cost in costs
    ]
    rows.append(("all", scores.n, 100.0, scores.hp, scores.hr, 1 - scores.hp, "", 1 - scores.hr, ""))
    return Table(name, title, _COLUMNS, tuple(rows), {"%": 1}, tuple(notes))


def measured_table(costs: Sequence[TypeCost], scores: HierarchicalScores) -> Table:
    """Returns the table of paper 2's types, with what they cost on the tree."""
    return costs_table(
        "measured",
        "Paper 2's error types, from its measures, and what they cost",
        costs,
        scores,
        (
            "Correct: included in the answer, and similar. Granularity error: similar, not included (right but too "
            "generic). Annotation ambiguity or multi-label: included, not similar. Fine-grained discrimination "
            "failure: neither (wrong but specific). Unscored answers are counted.",
        ),
    )


def crossed_table(types: Sequence[ErrorType], measured: Sequence[MeasuredType]) -> Table:
    """Returns how often each type of the placements meets each of the measures, and which of these mean the same."""
    met = Counter(zip(types, measured, strict=True))
    told = Counter(types)
    rows: list[tuple[Cell, ...]] = []
    for kind in ErrorType:
        twin = COUNTERPARTS.get(kind)
        agreed = None if twin is None or not told[kind] else 100 * met[kind, twin] / told[kind]
        rows.append((kind, *(met[kind, column] for column in MeasuredType), twin, agreed))
    return Table(
        "types-crossed",
        "What the tree says (rows) and what paper 2's two measures say (columns)",
        ("by placement", *MeasuredType, "counterpart", "in it, %"),
        tuple(rows),
        {"in it, %": 1},
        (
            "Counterpart: paper 2's type that means the same. Abstentions, and what is finer than the label, have "
            "none; nor does paper 2's ambiguity among ours, since a target is one node (see --tags).",
        ),
    )
