"""One frame of all answers of all models about all data sets, scored under text measures, accuracy, hR and hP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.answers import AnswerTable, read_records, rows_error
from taxtune.answers.matching import align, excluded_records
from taxtune.errors import DataError
from taxtune.mapping import Mapper
from taxtune.mapping.normalize import fold_words
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import Measure
from taxtune.studies.contestants import named_paths, read_models
from taxtune.studies.placing import PlacedAnswers, place_rows
from taxtune.studies.ranking.ranks import Measured
from taxtune.studies.ranking.settings import RankingSettings
from taxtune.studies.text_scores import text_scores
from taxtune.taxonomy import Domain, Taxonomy
from taxtune.taxonomy.domain import read_part

__all__ = ["METRICS", "DataSet", "measured", "read_data_sets", "score_models"]

FloatArray = NDArray[np.float64]

#: The metrics, after the text measures and in the order of the paper's Tables 4 and 5.
METRICS = ("accuracy", "hR", "hP", "hF")


class DataSet(NamedTuple):
    """The answers of several models about one data set.

    Attributes:
        name: Its name; "" where there is but one.
        taxonomy: The tree of its targets; None where they are texts.
        part: The domain that the tree is a part of; None where it is the whole.
        rows: The rows of each model; where examples are compared, those of the same examples in the same order.
        notes: What was left out, with counts.
        excluded: Every row that was left out.
    """

    name: str
    taxonomy: Taxonomy | None
    part: Domain | None
    rows: Mapping[str, Sequence[Any]]
    notes: Sequence[str]
    excluded: Sequence[dict[str, Any]]


def read_data_sets(settings: RankingSettings) -> tuple[list[DataSet], list[str]]:
    """Reads the trees and the answers, and says which data sets are left out.

    Raises:
        TaxtuneError: If a tree or a file cannot be used, rows do not match, or a data set of a group is in no file.
    """
    if not settings.group:
        taxonomy, part = settings.read_tree()
        return [_data_set("", taxonomy, part, read_models(settings, taxonomy, part), settings)], []
    files = _files(settings)
    wanted = list(dict.fromkeys(name for names in settings.groups.values() for name in names))
    for option, lacking, whose, known in (
        ("--group", [name for name in wanted if name not in files], "no file has", files),
        ("--tree", [name for name in settings.tree if name not in wanted], "no group has", wanted),
    ):
        if lacking:
            remedy = f"There are {', '.join(known)}."
            raise DataError(f"{option} names a data set that {whose}.", value=lacking, remedy=remedy)
    data_sets = []
    for name in wanted:
        path = settings.tree.get(name, settings.taxonomy)
        tree = None if path is None else read_part(path, settings.format, None)[0]
        where = settings.where if settings.dataset_column is None else {**settings.where, settings.dataset_column: name}
        models = read_models(replace(settings, files=files[name], where=where), tree, named=True)
        data_sets.append(_data_set(name, tree, None, models, settings))
    unused = [name for name in files if name not in wanted]
    return data_sets, [f"Data sets that no group has are left out: {', '.join(unused)}"] if unused else []


def _data_set(
    name: str,
    taxonomy: Taxonomy | None,
    part: Domain | None,
    files: Mapping[str, AnswerTable],
    settings: RankingSettings,
) -> DataSet:
    notes = [note for file in files.values() for note in file.notes]
    if settings.unit == "target":
        rows = {model: file.rows for model, file in files.items()}
        return DataSet(name, taxonomy, part, rows, notes, excluded_records(files.values()))
    aligned = align(files, settings.rows)
    excluded = excluded_records(files.values(), [aligned])
    return DataSet(name, taxonomy, part, aligned.rows, [*notes, *aligned.notes], excluded)


def _files(settings: RankingSettings) -> dict[str, tuple[str, ...]]:
    """Returns the MODEL=FILE arguments of each data set."""
    files: dict[str, tuple[str, ...]] = {}
    column = settings.dataset_column
    for name, path in named_paths(settings.files).items():
        if column is None:
            model, _, data_set = name.rpartition(":")
            if not model.strip() or not data_set.strip():
                raise DataError(
                    "The argument does not say which model and data set the file is for.",
                    value=f"{name}={path}",
                    remedy="Give MODEL:DATASET=FILE, or MODEL=FILE with --dataset-column.",
                )
            files[data_set] = (*files.get(data_set, ()), f"{model}={path}")
            continue
        records = read_records(path)
        if not any(column in record for _, record in records):
            raise DataError(f"The file has no column {column!r}.", file=path, remedy="Check --dataset-column.")
        lacking = [(row, f"{column} is missing") for row, record in records if record.get(column) in (None, "")]
        if lacking:
            raise rows_error(lacking, path, len(records), remedy="Every row needs the data set that it belongs to.")
        for value in dict.fromkeys(str(record[column]) for _, record in records):
            files[value] = (*files.get(value, ()), f"{name}={path}")
    return files


def score_models(
    data_set: DataSet, measures: Sequence[Measure], settings: RankingSettings, mapper: Mapper | None
) -> tuple[pd.DataFrame, dict[str, PlacedAnswers]]:
    """Scores the answers of several models about one data set.

    Args:
        data_set: The data set.
        measures: The text measures.
        settings: The names that answers are compared with, and whether examples or targets are the units.
        mapper: Places answers on the tree; None without one: answers are compared with the texts of their rows.

    Returns:
        A row per answer (data set, model, unit, target, answered, accuracy, hR, hP, and a column per text measure; NaN
        is unscored), and the placed answers by model, none without a tree.
    """
    rows = data_set.rows
    frame = pd.DataFrame(
        [
            (data_set.name, name, i, row.target if mapper else _texts(row.references), row.answer is not None)
            for name, some in rows.items()
            for i, row in enumerate(some)
        ],
        columns=["data set", "model", "unit", "target", "answered"],
    )
    if mapper is None:
        frame["target"] = pd.factorize(frame["target"])[0]
    if settings.unit == "target":
        frame["unit"] = frame["target"]
    for measure in measures:
        scores = text_scores(
            rows, measure, data_set.taxonomy, reference=settings.reference, question_column=settings.question_column
        )
        frame[measure.label] = np.concatenate([scores[name] for name in rows])
    placed = {} if mapper is None else place_rows(mapper, rows)
    frame[["accuracy", "hR", "hP"]] = np.nan
    if data_set.taxonomy is not None:
        nodes, off = (np.concatenate([getattr(placed[name], key) for name in rows]) for key in ("nodes", "as_child"))
        known = nodes >= 0
        targets = frame["target"].to_numpy()
        hp, hr = precision_recall(data_set.taxonomy, nodes[known], targets[known], off_tree=off[known])
        exact = ((nodes == targets) & ~off)[known]
        frame.loc[known, ["accuracy", "hR", "hP"]] = np.column_stack([exact, hr, hp])
    return frame, placed


def _texts(references: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    # Files of the same data set write its classes differently: "Basset Hound", "basset_hound".
    return tuple(fold_words(text) or (text,) for text in references)


def measured(
    answers: pd.DataFrame, labels: Sequence[str], groups: Mapping[str, Sequence[str]], with_tree: set[str]
) -> list[tuple[str, Measured]]:
    """Returns each group with each measure that all of its data sets have, over the units of all data sets.

    Args:
        answers: The scored answers of all data sets, see `score_models`.
        labels: The text measures.
        groups: The data sets of each group; a model that lacks one of them has no value.
        with_tree: The data sets that have a tree, and so metrics.
    """
    model, data_set = (pd.factorize(answers[key]) for key in ("model", "data set"))
    tables: dict[str, FloatArray] = {}
    for label in (*labels, "accuracy", "hR", "hP"):
        # The score of a target is the mean over its examples.
        means = answers.groupby([model[0], data_set[0], answers["unit"].to_numpy()])[label].mean()
        table = means.unstack([1, 2]).sort_index(axis=1)
        tables[label] = table.to_numpy()
    ends = np.searchsorted(table.columns.get_level_values(0), np.arange(len(data_set[1])), side="right").tolist()
    parts = dict(zip(data_set[1], map(slice, [0, *ends], ends), strict=False))
    columns = []
    for group, members in groups.items():
        own = [parts[member] for member in members]
        columns += [(group, Measured(label, tables[label], None, own)) for label in labels]
        if with_tree.issuperset(members):
            columns += [(group, Measured(metric, tables[metric], None, own)) for metric in METRICS[:-1]]
            columns.append((group, Measured("hF", tables["hP"], tables["hR"], own)))
    return columns
