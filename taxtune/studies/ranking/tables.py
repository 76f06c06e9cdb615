"""The tables of the ranking study, and a ranking of models by a table of scores alone."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.studies.output import Cell, StudyReport, Table
from taxtune.studies.ranking.bootstrap import RankStatistics, ranks_from_values
from taxtune.tables import csv_delimiter, read_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "TITLE",
    "bump_figure",
    "ranking_of_table",
    "ranks_table",
    "read_scores",
    "scores_table",
    "tau_table",
    "uncertainty_table",
]

FloatArray = NDArray[np.float64]

TITLE = "Ranking of models under text measures and taxonomy-aware metrics"


def ranking_of_table(
    records: Sequence[Mapping[str, object]], *, source: str, record: Mapping[str, Any] | None = None
) -> StudyReport:
    """Ranks models by a table of scores alone, such as the paper's own Tables 4 and 5: no uncertainty can be had.

    Args:
        records: A row a model: the column "model", and a number, or None, for each measure; larger is better. The last
            column is the one that the others are compared with.
        source: Where the table is from.
        record: What else to keep with the settings.

    Raises:
        DataError: If there are fewer than two models, a model stands twice, there is no measure, or a value is no
            number.
    """
    if len(records) < 2 or "model" not in records[0]:
        raise DataError(
            "A table of scores needs the column model, and two models or more.",
            file=source,
            value=f"{len(records)} row{'' if len(records) == 1 else 's'}",
            remedy="Give a row a model.",
        )
    names = [str(row["model"]) for row in records]
    doubled = sorted({name for name in names if names.count(name) > 1})
    labels = tuple(column for column in records[0] if column != "model")
    if doubled or not labels:
        raise DataError(
            "A model stands twice in the table." if doubled else "The table has no column of scores.",
            file=source,
            value=doubled or list(records[0]),
            remedy="Keep one row a model." if doubled else "Give a column a measure.",
        )
    values = np.full((len(labels), len(names)), np.nan)
    for j, row in enumerate(records):
        for i, label in enumerate(labels):
            cell = row.get(label)
            if cell is None:
                continue
            if isinstance(cell, bool) or not isinstance(cell, int | float) or not np.isfinite(cell):
                raise DataError(f"{label} of {names[j]} is no number.", file=source, value=cell)
            values[i, j] = float(cell)
    unscored = [name for name, known in zip(names, (~np.isnan(values)).any(axis=0), strict=True) if not known]
    if len(unscored) > len(names) - 2:
        raise DataError(
            f"{len(unscored)} of {len(names)} models have no score at all, so there is nothing to rank.",
            file=source,
            value=unscored,
            remedy="Give the scores of two models or more.",
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
        ("The p-value is that of no association between the two rankings of these models.",),
    )
    return StudyReport(
        study="ranking",
        title=TITLE,
        settings={**(record or {}), "scores": source, "models": names, "seed": None},
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
        figures={"ranks": lambda: bump_figure(names, labels, ranks, None, None)},
    )


def bump_figure(
    names: Sequence[str],
    labels: Sequence[str],
    ranks: FloatArray,
    statistics: RankStatistics | None,
    over: str | None,
) -> Figure:
    """Returns the rank-shift chart of ranks of shape (measures, models), with intervals where there are statistics."""
    from taxtune.studies.ranking.figure import draw_bump

    low, high = (None, None) if statistics is None else (statistics.low, statistics.high)
    return draw_bump(names, labels, ranks, low=low, high=high, over=over)


def scores_table(
    names: Sequence[str],
    labels: Sequence[str],
    values: FloatArray,
    counts: Mapping[str, tuple[int, int, int, int]],
    notes: Sequence[str],
) -> Table:
    """Returns the values of the models as paper 1 prints them (Tables 4 and 5).

    Args:
        names: The models.
        labels: The measures.
        values: Values between 0 and 1, shape (measures, models); NaN where a model has none.
        counts: By model: answers, missing answers, abstentions, answers off the tree.
        notes: What stands below the table.
    """
    share = [1.0 if label in ("hR", "hP", "hF") else 100.0 for label in labels]
    rows: list[tuple[Cell, ...]] = [
        (name, *counts[name], *(float(v) * s for v, s in zip(values[:, j], share, strict=True)))
        for j, name in enumerate(names)
    ]
    digits = {label: 3 if s == 1 else 1 for label, s in zip(labels, share, strict=True)}
    columns = ("model", "answers", "missing", "abstained", "off the tree", *labels)
    return Table("scores", TITLE, columns, tuple(rows), digits, tuple(notes))


def ranks_table(names: Sequence[str], labels: Sequence[str], ranks: FloatArray) -> Table:
    """Returns ranks of shape (measures, models) with a row a model."""
    rows = tuple((name, *(_rank(value) for value in ranks[:, j])) for j, name in enumerate(names))
    return Table(
        "ranks",
        "Rank of each model under each measure",
        ("model", *labels),
        rows,
        dict.fromkeys(labels, 1),
        ("1 is the best. Tied models share the average of the ranks that they take up.",),
    )


def _rank(value: float) -> Cell:
    return None if np.isnan(value) else int(value) if float(value).is_integer() else float(value)


def uncertainty_table(names: Sequence[str], labels: Sequence[str], statistics: RankStatistics, drawn: str) -> Table:
    """Returns rank, interval and probability of being first of each model under each measure, over what was `drawn`."""
    rows: list[tuple[Cell, ...]] = [
        (
            label,
            name,
            _rank(statistics.ranks[i, j]),
            _rank(statistics.low[i, j]),
            _rank(statistics.high[i, j]),
            float(statistics.first[i, j]),
        )
        for i, label in enumerate(labels)
        for j, name in enumerate(names)
    ]
    return Table(
        "uncertainty",
        "How sure the ranks are",
        ("measure", "model", "rank", "2.5 %", "97.5 %", "P(first)"),
        tuple(rows),
        {"rank": 1, "2.5 %": 1, "97.5 %": 1, "P(first)": 2},
        (
            f"Percentiles of the rank, and the share of being first, over {drawn}, the same for all models and "
            "measures; k models tied for the first place get 1/k each.",
        ),
    )


def tau_table(labels: Sequence[str], statistics: RankStatistics) -> Table:
    """Returns Kendall's τ of each measure's ranking with the last one's, with intervals."""
    rows = tuple(
        (label, float(statistics.tau[i]), float(statistics.tau_low[i]), float(statistics.tau_high[i]))
        for i, label in enumerate(labels[:-1])
    )
    return Table(
        "tau",
        f"Kendall's τ of each measure's ranking with that of {labels[-1]}",
        ("measure", "τ", "2.5 %", "97.5 %"),
        rows,
        dict.fromkeys(("τ", "2.5 %", "97.5 %"), 2),
        ("τ-b; the interval is that of the resamples in which neither ranking ties all models.",),
    )


def read_scores(path: str | Path) -> list[dict[str, object]]:
    """Reads a CSV of scores: the column model, and a column of numbers for each measure; an empty cell is no score.

    Raises:
        DataError: If the file cannot be read as a table, has no column "model", two columns share a name, a row has no
            model or a score is no finite number.
    """
    text = read_text(Path(path), error=DataError, what="scores")
    # Not the reader of answers and taxonomies, which takes headings in lower case: these are shown.
    delimiter = csv_delimiter(text.lstrip().splitlines()[0])
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines: list[tuple[int, list[str]]] = []
    start = 1
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                lines.append((start, cells))
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"The file cannot be read as CSV: {error}.", file=path, row=start, remedy="Close its quotes."
        ) from None
    header = [name.strip() for name in lines[0][1]]
    repeated = next((name for name in header if header.count(name) > 1 or not name), None)
    if repeated is not None:
        raise DataError(
            "Two columns have the same name." if repeated else "A column has no name.",
            file=path,
            row=lines[0][0],
            value=header,
            remedy="Rename one." if repeated else "Name it.",
        )
    if "model" not in header:
        raise DataError(
            "A table of scores needs the column model.",
            file=path,
            row=lines[0][0],
            value=header,
            remedy="Name the models in a column of that name, beside a column a measure.",
        )
    rows: list[dict[str, object]] = []
    for row, cells in lines[1:]:
        if len(cells) != len(header):
            raise DataError("The row has not as many cells as the header.", file=path, row=row, value=cells)
        named = dict(zip(header, map(str.strip, cells), strict=True))
        if not named["model"]:
            raise DataError("The row has no model.", file=path, row=row, value=cells)
        model = named["model"]
        rows.append(
            {name: cell if name == "model" else _number(cell, name, model, path, row) for name, cell in named.items()}
        )
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
            f"{measure} of {model} is no number.",
            file=path,
            row=row,
            value=cell,
            remedy="Leave the cell empty where there is no score; write a decimal point.",
        )
    return value
