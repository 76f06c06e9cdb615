"""Ranking models by a table of scores alone, such as the paper's own Tables 4 and 5: no uncertainty can be had."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from taxtune.errors import DataError
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.published import published
from taxtune.studies.ranking.bootstrap import ranks_from_values
from taxtune.studies.ranking.figure import draw_bump
from taxtune.studies.ranking.study import TITLE, ranks_table
from taxtune.tables import csv_delimiter, parse_table, read_text

__all__ = ["ranking_of_scores", "ranking_of_table", "read_scores"]


def ranking_of_scores(source: str) -> StudyReport:
    """Ranks the models of a CSV file, or of one of the paper's tables ("paper1-table4").

    Raises:
        DataError: If there is no such table, or it cannot be ranked.
    """
    if Path(source).exists() or "/" in source or "." in source:
        return ranking_of_table(read_scores(source), source=source)
    try:
        return ranking_of_table(published(source), source=source)
    except FileNotFoundError:
        raise DataError(
            "The table does not exist.", value=source, remedy="Give a CSV file, or paper1-table4 or paper1-table5."
        ) from None


def ranking_of_table(records: Sequence[Mapping[str, object]], *, source: str) -> StudyReport:
    """Ranks the models of a table of scores.

    Args:
        records: A row a model: the column "model", and a number, or None, for each measure; larger is better. The last
            column is the one that the others are compared with.
        source: Where the table is from.

    Raises:
        DataError: If there are fewer than two models, a model stands twice, there is no measure, or a value is no
            number.
    """
    if len(records) < 2 or "model" not in records[0]:
        raise DataError(
            "A table of scores needs the column model and at least two models.",
            file=source,
            value=f"{len(records)} row{'' if len(records) == 1 else 's'}",
            remedy="Give one row for each model.",
        )
    names = [str(row["model"]) for row in records]
    doubled = sorted({name for name in names if names.count(name) > 1})
    labels = tuple(column for column in records[0] if column != "model")
    if doubled or not labels:
        raise DataError(
            "A model is in the table twice." if doubled else "The table has no columns with scores.",
            file=source,
            value=doubled or list(records[0]),
            remedy="Keep one row for each model." if doubled else "Give one column for each measure.",
        )
    values = np.full((len(labels), len(names)), np.nan)
    for j, row in enumerate(records):
        for i, label in enumerate(labels):
            cell = row.get(label)
            if cell is None:
                continue
            if isinstance(cell, bool) or not isinstance(cell, int | float) or not np.isfinite(cell):
                raise DataError(f"{label} of {names[j]} is not a number.", file=source, value=cell)
            values[i, j] = float(cell)
    unscored = [name for name, known in zip(names, (~np.isnan(values)).any(axis=0), strict=True) if not known]
    if len(unscored) > len(names) - 2:
        raise DataError(
            f"{len(unscored)} of {len(names)} models have no score at all, so there is nothing to rank.",
            file=source,
            value=unscored,
            remedy="Give the scores of at least two models.",
        )
    from scipy.stats import kendalltau

    ranks = np.stack([ranks_from_values(row) for row in values])
    taus: list[tuple[Cell, ...]] = []
    for label, row in zip(labels[:-1], ranks[:-1], strict=True):
        both = ~np.isnan(row) & ~np.isnan(ranks[-1])
        if both.sum() < 2:
            taus.append((label, None, None))  # one model has no order
            continue
        found = kendalltau(row[both], ranks[-1][both])
        taus.append((label, float(found.statistic), float(found.pvalue)))
    digits = dict.fromkeys(labels, 3)
    against = Table(
        "tau",
        f"Kendall's τ of each ranking with that of {labels[-1]}",
        ("measure", "τ", "p"),
        tuple(taus),
        {"τ": 2, "p": 3},
        ("The p-value is for the null hypothesis of no association between the two rankings of these models.",),
    )
    return StudyReport(
        study="ranking",
        title=TITLE,
        settings={"scores": source, "models": names, "seed": None},
        tables=(
            Table(
                "scores",
                f"Scores in {source}",
                ("model", *labels),
                tuple((name, *values[:, j].tolist()) for j, name in enumerate(names)),
                digits,
            ),
            ranks_table(names, labels, ranks),
            *((against,) if taus else ()),  # a measure alone has none to be compared with
        ),
        figures={"ranks": partial(draw_bump, names, labels, ranks)},
    )


def read_scores(path: str | Path) -> list[dict[str, object]]:
    """Reads a CSV of scores: the column model, and a column of numbers for each measure; an empty cell is no score.

    Raises:
        DataError: If the file cannot be read as a table, has no column "model", two columns share a name, a row has no
            model or a score is not a finite number.
    """
    text = read_text(Path(path), error=DataError, what="scores")
    table = parse_table(text, str(path), error=DataError, tidy=False)
    # The reader takes headings in lower case; here they are shown.
    first = text.lstrip().splitlines()[0]
    header = [name.strip() for name in next(csv.reader([first], delimiter=csv_delimiter(first)))]
    if "" in header:
        raise DataError("A column has no name.", file=path, row=table.header_line, value=header, remedy="Name it.")
    if "model" not in header:
        raise DataError(
            "A table of scores needs the column model.",
            file=path,
            row=table.header_line,
            value=header,
            remedy="Put the models' names in a column called model, beside one column for each measure.",
        )
    rows: list[dict[str, object]] = []
    for row in table.rows:
        if len(row.cells) != len(header):
            raise DataError(
                "The row and the header have different numbers of cells.", file=path, row=row.line, value=row.cells
            )
        named = dict(zip(header, map(str.strip, row.cells), strict=True))
        model = named["model"]
        if not model:
            raise DataError("The row has no model.", file=path, row=row.line, value=row.cells)
        rows.append({n: c if n == "model" else _number(c, n, model, path, row.line) for n, c in named.items()})
    return rows


def _number(cell: str, measure: str, model: str, path: str | Path, row: int) -> float | None:
    if not cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"{measure} of {model} is not a number.",
            file=path,
            row=row,
            value=cell,
            remedy="Leave the cell empty if there is no score; use a decimal point.",
        )
    return value
