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

# Behind the name of a table: read with hP and hR exchanged.
_EXCHANGED = "-exchanged"


def ranking_of_scores(source: str) -> StudyReport:
    """Ranks the models of a CSV file, or of a table of the papers such as "paper1-table5".

    With "-exchanged" behind its name, a table is read with hP and hR exchanged.

    Raises:
        DataError: If there is no such table, or it cannot be ranked.
    """
    name = source if Path(source).exists() else source.removesuffix(_EXCHANGED)
    records: Sequence[Mapping[str, object]]
    if Path(name).exists() or "/" in name or "." in name:
        records = read_scores(name)
    else:
        try:
            records = published(name)
        except FileNotFoundError:
            raise DataError(
                "The table does not exist.",
                value=name,
                remedy="Give a CSV file, or paper1-table4, paper1-table5 or paper2-main.",
            ) from None
    if name == source:
        return ranking_of_table(records, source=source)
    if not {"hP", "hR"} <= records[0].keys():
        raise DataError("The table has no hP and hR to exchange.", value=name, remedy=f"Leave out {_EXCHANGED}.")
    said = "hP and hR are read exchanged: what the table calls hP stands here as hR, and hR as hP."
    return ranking_of_table(_exchanged(records), source=source, remarks=[said])


def _exchanged(records: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    return [{**row, "hP": row.get("hR"), "hR": row.get("hP")} for row in records]


def ranking_of_table(
    records: Sequence[Mapping[str, object]], *, source: str, remarks: Sequence[str] = ()
) -> StudyReport:
    """Ranks the models of a table of scores, and says where its hP and hR cannot both be right.

    Args:
        records: A row a model: the column "model", and a number, or None, for each measure; larger is better. The last
            column is the one that the others are compared with.
        source: Where the table is from.
        remarks: What is to be said of the table, here and in the figure.

    Raises:
        DataError: If there are fewer than two models, a model stands twice, there is no measure, or a value is no
            number.
    """
    if len(records) < 2 or "model" not in records[0]:
        raise DataError(
            "A table of scores needs the column model and at least two models.",
            file=source,
            value=f"{len(records)} row{'' if len(records) == 1 else 's'}"
            + (f" with the columns {', '.join(records[0])}" if records else ""),
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
    said = (*remarks, *_doubts(records, source))
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
                said,
            ),
            ranks_table(names, labels, ranks),
            *((against,) if taus else ()),  # a measure alone has none to be compared with
        ),
        figures={"ranks": partial(draw_bump, names, labels, ranks, notes=said)},
    )


def _doubts(records: Sequence[Mapping[str, object]], source: str) -> list[str]:
    """Returns what hP and hR of a table cannot both be, by the equations of paper 1, §3.

    hP / hR of an example is the length of the target's path over that of the prediction's, so hP is below hR only where
    the prediction is deeper. Both are 1 where the target itself is predicted, so neither is below the share of these.
    """
    doubts = _impossible(records)
    if doubts:
        explained = not _impossible(_exchanged(records))
        how = "" if source.endswith(_EXCHANGED) else f" (--scores {source}{_EXCHANGED})"
        doubts.append(
            f"Most likely hP and hR are exchanged{how}."
            if explained
            else f"Exchanging hP and hR{how} does not explain all of it."
        )
    return doubts


def _impossible(records: Sequence[Mapping[str, object]]) -> list[str]:
    found = []
    n, of = _below(records, "hP", "hR")
    if n:
        found.append(
            f"hP is below hR in {n} of {of} rows, which takes predictions deeper than their targets: it cannot be "
            "where all targets are at the deepest level, as on iNaturalist's tree."
        )
    for metric in ("hP", "hR"):
        n, of = _below(records, metric, "EM", 100)
        if n:
            found.append(
                f"{metric} is below EM in {n} of {of} rows, although hP and hR of an exact match are 1 if it is placed "
                "on its target."
            )
    return found


def _below(records: Sequence[Mapping[str, object]], low: str, high: str, scale: float = 1.0) -> tuple[int, int]:
    """Returns in how many rows a column is below another one, divided by the scale, and how many rows have both."""
    pairs = [(row.get(low), row.get(high)) for row in records]
    known = [(a, b) for a, b in pairs if isinstance(a, int | float) and isinstance(b, int | float)]
    return sum(a < b / scale for a, b in known), len(known)


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
