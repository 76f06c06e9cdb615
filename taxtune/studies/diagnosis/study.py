"""What goes wrong, where on the tree, and what it costs: one frame with a row per answer, and tables made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from taxtune.answers import AnswerTable
from taxtune.answers.matching import excluded_records
from taxtune.answers.targets import make_information
from taxtune.mapping.config import GUESSED
from taxtune.metrics.diagnosis import (
    ErrorType,
    MeasuredType,
    classify,
    classify_by_measures,
    costs,
    wrong_from,
)
from taxtune.metrics.hierarchical import HierarchicalScores, precision_recall, score
from taxtune.metrics.information import Information, information_values
from taxtune.metrics.ranks import RankIntervals, bootstrap_ranks
from taxtune.metrics.registry import Measure
from taxtune.metrics.statistics import INFORMATION_METRICS, Interval
from taxtune.metrics.table import Predictions
from taxtune.report.output import StudyReport
from taxtune.scoring.nodes import as_child
from taxtune.studies.contestants import (
    check_measures,
    measure_notes,
    place_distinct,
    question_of,
    text_scores,
)
from taxtune.studies.diagnosis.settings import DiagnosisSettings
from taxtune.studies.diagnosis.tables import (
    costs_table,
    crossed_table,
    draw_costs,
    examples_table,
    ranks_table,
    regions_table,
    scores_table,
)
from taxtune.studies.diagnosis.tags import name_tags, read_tags, tags_table
from taxtune.studies.output import both_trees_table, node_paths
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from taxtune.mapping import Mapper

__all__ = ["run"]

_BITS = ["ihp", "ihr", "remaining_uncertainty", "misinformation"]
# The columns of an answer in the report's JSON, of those that the frame has.
_OUTPUT = ["id", "answer", "truth", "placement", "stage", "type", "hp", "hr", *_BITS]
_OUTPUT += ["measured", "tags", "named"]
_TYPE_NOTES = (
    "A type's cost is how much its answers lower the mean over all answers, with 95 % bootstrap intervals; the costs "
    "add up to 1 − hP and 1 − hR.",
    "Wrong branch at a rank: the rank of the target's highest ancestor that the placement does not share.",
    f"Mapper doubtful: not correct, and placed by a guess ({', '.join(GUESSED)}).",
    "Off the tree: asserts something that the tree lacks. Abstained: declines, denies or says nothing.",
)
_MEASURED_NOTE = (
    "Correct: included in the answer, and similar. Granularity error: similar, not included (right but too generic). "
    "Annotation ambiguity or multi-label: included, not similar. Fine-grained discrimination failure: neither (wrong "
    "but specific). Unscored answers are counted."
)


def run(settings: DiagnosisSettings) -> StudyReport:
    """Print error types with counts and costs in hP and hR, all scores, also by rank, worst clades and examples.

    With --inclusion and --concept also paper 2's error types, and with --tags its check for images of several labels.

    Raises:
        TaxtuneError: If a file cannot be used, or a measure does not exist or lacks something.
    """
    taxonomy, part = settings.read_tree()
    answers = settings.read_answers(settings.file, taxonomy, part)
    column = settings.question_column
    targets = [row.target for row in answers.rows]
    information = make_information(
        taxonomy,
        settings.frequencies,
        smoothing=settings.smoothing,
        targets=targets,
        part=part,
    )
    check_measures(list(settings.roles.values()), column)
    questions = [question_of(answers.file, row, column) for row in answers.rows]
    notes: list[str] = []
    if settings.tags:
        tags, notes = read_tags(settings.tags, answers, settings.id_column)
    mapper = settings.mapper(taxonomy)
    frame = _placed(mapper, answers).assign(question=questions)
    diagnosis = _Diagnosis(taxonomy, frame, information, settings)
    types = diagnosis.add_types()
    # One by one, as both may be the same measure.
    measures = {role: settings.measures([spec])[0] for role, spec in settings.roles.items()}
    by_type = diagnosis.costs(frame["type"].tolist(), _order(frame))
    intervals = diagnosis.intervals()
    scores = score(taxonomy, frame["node"], frame["target"], off_tree=frame["as_child"])
    title = "Error types and what they cost"
    tables = [costs_table("types", title, by_type, scores, *_TYPE_NOTES)]
    tables.append(scores_table(taxonomy, frame["target"], intervals, information))
    tables.append(ranks_table(diagnosis.ranks()))
    tables.append(regions_table(taxonomy, frame, settings.least))
    tables.append(examples_table(taxonomy, frame, by_type["type"], settings.examples))
    figures = {"diagnosis": partial(draw_costs, by_type)}
    sources: dict[str, Sequence[Any]] = {"placement": types}
    data: dict[str, Any] = {"scores": diagnosis.means(scores, intervals)}
    data["information"] = information.as_dict()
    data["costs"] = by_type.to_dict("records")
    if "concept" in measures:
        measured = diagnosis.add_measured_types(measures["inclusion"], measures["concept"])
        sources["measures"] = measured
        by_measure = diagnosis.costs(measured, list(MeasuredType))
        title = "Paper 2's error types, from its measures, and what they cost"
        tables.append(costs_table("measured", title, by_measure, scores, _MEASURED_NOTE))
        tables.append(crossed_table(types, measured))
        figures["measured"] = partial(draw_costs, by_measure)
        data["measured_costs"] = by_measure.to_dict("records")
    if settings.tags:
        named = name_tags(measures["inclusion"], frame, tags)
        frame[named.columns] = named
        resamples, seed = settings.resamples, settings.seed
        tables.append(tags_table(frame, sources, resamples=resamples, seed=seed))
    if part is not None:
        every = frame.assign(**{"answers of": "all"})
        tables.append(both_trees_table(part, every, "answers of"))
    shown = [column for column in _OUTPUT if column in frame]
    data["answers"] = frame[shown].to_dict("records")
    data["excluded"] = excluded_records([answers])
    record = settings.record()
    record["mapper"] = dict(mapper.identity())
    for role, measure in measures.items():
        record[role] = dict(measure.identity())
    return StudyReport(
        study="diagnose",
        title="What goes wrong, where, and what it costs",
        settings=record,
        tables=tuple(tables),
        figures=figures,
        notes=(*answers.notes, *notes, *measure_notes(measures.values())),
        data=data,
    )


def _placed(mapper: Mapper, answers: AnswerTable) -> pd.DataFrame:
    """Returns a row per answer: id, answer, target, node, stage, abstained, off_tree and as_child."""
    texts = [row.answer or "" for row in answers.rows]
    by_text = place_distinct(mapper, texts)
    placements = [by_text[text] for text in texts]
    frame = pd.DataFrame({"id": [row.id for row in answers.rows]})
    frame["target"] = [row.target for row in answers.rows]
    for name in ("answer", "node", "abstained", "off_tree"):
        frame[name] = [getattr(placement, name) for placement in placements]
    frame["stage"] = [str(placement.stage) for placement in placements]
    frame["as_child"] = as_child(mapper, placements)
    return frame


@dataclass(frozen=True)
class _Diagnosis:
    """The placed answers and what is computed from them.

    Attributes:
        taxonomy: The tree.
        frame: A row per answer, as `_placed` returns it; the methods that add something add columns to it.
        information: The information of the nodes.
        settings: How often to resample, and the reference of the measures.
    """

    taxonomy: Taxonomy
    frame: pd.DataFrame
    information: Information
    settings: DiagnosisSettings

    @property
    def nodes(self) -> pd.Series[int]:
        """The node of each answer."""
        return self.frame["node"]

    @property
    def targets(self) -> pd.Series[int]:
        """The target of each answer."""
        return self.frame["target"]

    @property
    def off_tree(self) -> pd.Series[bool]:
        """Whether each answer is scored as a child of the root that is never right."""
        return self.frame["as_child"]

    def add_types(self) -> list[ErrorType]:
        """Adds to each answer its paths, scores and type, a wrong branch with its rank; returns types without ranks."""
        frame, taxonomy = self.frame, self.taxonomy
        nodes, targets, off_tree = self.nodes, self.targets, self.off_tree
        is_guess = frame["stage"].isin(GUESSED)
        types = classify(
            taxonomy,
            nodes,
            targets,
            abstained=frame["abstained"],
            off_tree=frame["off_tree"],
            doubtful=is_guess,
        )
        frame["kind"] = types
        frame["truth"] = node_paths(taxonomy, targets)
        frame["placement"] = node_paths(taxonomy, nodes)
        frame["shared"] = taxonomy.shared(nodes.to_numpy(), targets.to_numpy())
        names = []
        for kind, rank in zip(types, wrong_from(taxonomy, nodes, targets), strict=True):
            names.append(f"{kind} at {rank}" if kind is ErrorType.WRONG_BRANCH else str(kind))
        frame["type"] = names
        frame["hp"], frame["hr"] = precision_recall(taxonomy, nodes, targets, off_tree=off_tree)
        bits = information_values(self.information, nodes, targets, off_tree=off_tree)
        frame[_BITS] = np.column_stack(bits)
        return types

    def add_measured_types(self, inclusion: Measure, concept: Measure) -> list[MeasuredType]:
        """Adds to each answer its type by paper 2's measures, and returns these types."""
        reference = self.settings.reference
        included = text_scores(self.frame, inclusion, self.taxonomy, reference)
        similar = text_scores(self.frame, concept, self.taxonomy, reference)
        types = classify_by_measures(included, similar, high=self.settings.high)
        self.frame["measured"] = [str(kind) for kind in types]
        return types

    def costs(self, types: Sequence[str], order: Sequence[str]) -> pd.DataFrame:
        """Returns the frequency and the cost of each type, with intervals."""
        return costs(
            self.taxonomy,
            self.nodes,
            self.targets,
            types,
            off_tree=self.off_tree,
            order=order,
            resamples=self.settings.resamples,
            seed=self.settings.seed,
        )

    def intervals(self) -> dict[str, Interval]:
        """Returns all scores with their intervals."""
        predictions = Predictions(
            information=self.information,
            nodes=np.asarray(self.nodes, dtype=np.int64),
            target=np.asarray(self.targets, dtype=np.int64),
            off_tree=np.asarray(self.off_tree, dtype=bool),
        )
        return predictions.table().intervals(self.settings.seed, self.settings.resamples)

    def ranks(self) -> list[RankIntervals]:
        """Returns precision and recall at each rank, with intervals."""
        return bootstrap_ranks(
            self.taxonomy,
            self.nodes,
            self.targets,
            off_tree=self.off_tree,
            resamples=self.settings.resamples,
            seed=self.settings.seed,
        )

    def means(
        self, scores: HierarchicalScores, intervals: Mapping[str, Interval]
    ) -> dict[str, float]:
        """Returns the mean scores for `--json`, and the shares of abstentions and of answers off the tree."""
        numbers: dict[str, float] = {"hp": scores.hp, "hr": scores.hr}
        numbers |= {"hf": scores.hf, "n": scores.n}
        numbers["abstained"] = float(self.frame["abstained"].mean())
        numbers["off_tree"] = float(self.frame["off_tree"].mean())
        for key in INFORMATION_METRICS:
            numbers[key] = intervals[key].estimate
        return numbers


def _order(frame: pd.DataFrame) -> list[str]:
    """Returns all types in the order of `ErrorType`, wrong branches from the root down."""
    wrong = frame[frame["kind"] == ErrorType.WRONG_BRANCH]
    depths = wrong.groupby("type")["shared"].min()
    branches = depths.sort_values(kind="stable").index.tolist()
    order: list[str] = []
    for kind in ErrorType:
        is_branch = kind is ErrorType.WRONG_BRANCH and branches
        order += branches if is_branch else [str(kind)]
    return order
