"""The answers that a ranking is of, by data set: one on one tree, or several, each with its tree or without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from taxtune.answers import AnswerTable, read_records
from taxtune.answers.read import rows_error
from taxtune.errors import DataError
from taxtune.studies.contestants import named_paths, read_models
from taxtune.studies.ranking import RankingSettings
from taxtune.taxonomy import Domain, Taxonomy
from taxtune.taxonomy.domain import read_part

__all__ = ["DataSet", "read_data_sets"]


@dataclass(frozen=True, slots=True)
class DataSet:
    """One data set.

    Attributes:
        name: Its name; "" where there is but one.
        taxonomy: The tree of its targets; None where they are texts alone.
        part: What the tree is a part of; None where it is the whole.
        files: The answers of each model that has some.
    """

    name: str
    taxonomy: Taxonomy | None
    part: Domain | None
    files: Mapping[str, AnswerTable]


def read_data_sets(settings: RankingSettings) -> tuple[list[DataSet], list[str]]:
    """Reads the trees and the answers, and says which data sets are left out.

    Raises:
        TaxtuneError: If a tree or a file cannot be used, or a data set of a group is in no file.
    """
    if not settings.group:
        whole, part = settings.read_tree()
        return [DataSet("", whole, part, read_models(settings, whole, part))], []
    files = _files(settings)
    wanted = list(dict.fromkeys(name for names in settings.groups.values() for name in names))
    absent = [name for name in wanted if name not in files]
    stray = [name for name in settings.tree if name not in wanted]
    if absent or stray:
        raise DataError(
            f"{'--group' if absent else '--tree'} names a data set that {'no file has' if absent else 'no group has'}.",
            value=absent or stray,
            remedy=f"There are {', '.join(files if absent else wanted)}.",
        )
    found = []
    for name in wanted:
        path = settings.tree.get(name, settings.taxonomy)
        taxonomy = None if path is None else read_part(path, settings.format, None)[0]
        where = settings.where if settings.dataset_column is None else {**settings.where, settings.dataset_column: name}
        one = replace(settings, files=files[name], where=where)
        found.append(DataSet(name, taxonomy, None, read_models(one, taxonomy, named=True)))
    unused = [name for name in files if name not in wanted]
    return found, [f"Data sets that no group has are left out: {', '.join(unused)}"] if unused else []


def _files(settings: RankingSettings) -> dict[str, tuple[str, ...]]:
    """Returns the files of each data set as MODEL=FILE."""
    found: dict[str, tuple[str, ...]] = {}
    column = settings.dataset_column
    for name, path in named_paths(settings.files).items():
        model, _, held = name.rpartition(":")
        if column is None and not (model.strip() and held.strip()):
            raise DataError(
                "The argument does not say which model and data set the file is for.",
                value=f"{name}={path}",
                remedy="Give MODEL:DATASET=FILE, or MODEL=FILE with --dataset-column.",
            )
        if column is None:
            found[held] = (*found.get(held, ()), f"{model}={path}")
            continue
        records = read_records(path)
        if not any(column in record for _, record in records):
            raise DataError(f"The file has no column {column!r}.", file=path, remedy="Check --dataset-column.")
        lacking = [(row, f"{column} is missing") for row, record in records if record.get(column) in (None, "")]
        if lacking:
            raise rows_error(lacking, path, len(records), remedy="Every row needs the data set that it belongs to.")
        for value in dict.fromkeys(str(record[column]) for _, record in records):
            found[value] = (*found.get(value, ()), f"{name}={path}")
    return found
