"""Ranking models by a table of scores alone, such as the paper's own Tables 4 and 5, without uncertainty."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from taxtune.errors import DataError
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.published import published
from taxtune.studies.ranking.figure import draw_bump
from taxtune.studies.ranking.ranks import Measured
from taxtune.studies.ranking.study import TITLE, ranks_table
from taxtune.tables import csv_delimiter, read_text

__all__ = ["ranking_of_scores", "ranking_of_table"]

# After the name of a table: read with hP and hR exchanged.
_EXCHANGED = "-exchanged"


def ranking_of_scores(source: str) -> StudyReport:
    """Ranks the models of a table file, or of a table of the papers such as "paper1-table5".

    With "-exchanged" after its name, a table is read with hP and hR exchanged.

    Raises:
        DataError: If there is no such table, or it cannot be ranked.
    """
    name = source if Path(source).exists() else source.removesuffix(_EXCHANGED)
    rows: Sequence[tuple[int | None, Mapping[str, object]]]
    if Path(name).exists() or "/" in name or "." in name:
        rows = _read_rows(name)
    else:
        try:
            rows = [(None, record) for record in published(name)]
        except FileNotFoundError:
            remedy = "Give a CSV file, or paper1-table4, paper1-table5 or paper2-main."
            raise DataError("The table does not exist.", value=name, remedy=remedy) from None
    scores = _table(rows, name)
    remarks = []
    if name != source:
        if not {"hP", "hR"} <= {*scores}:
            raise DataError("The table has no hP and hR to exchange.", value=name, remedy=f"Leave out {_EXCHANGED}.")
        scores[["hP", "hR"]] = scores[["hR", "hP"]].to_numpy()
        remarks.append("hP and hR are read exchanged: what the table calls hP stands here as hR, and hR as hP.")
    return ranking_of_table(scores, source=source, remarks=remarks)


def _read_rows(path: str) -> list[tuple[int | None, dict[str, object]]]:
    """Returns the rows of a CSV with their lines; headings keep their case, since they are shown."""
    text = read_text(Path(path), error=DataError, what="scores")
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=csv_delimiter(text.splitlines()[0]), strict=True)
    rows: list[tuple[int | None, dict[str, object]]] = []
    names = [name.strip() for name in reader.fieldnames or ()]
    if len(set(names)) < len(names):
        raise DataError("Two columns have the same name.", file=path, row=1, value=names, remedy="Rename one.")
    try:
        for record in reader:
            if None in record or None in record.values():
                message = "The row and the header have different numbers of cells."
                raise DataError(message, file=path, row=reader.line_num, value=[*record.values()])
            rows.append((reader.line_num, {name.strip(): cell.strip() for name, cell in record.items()}))
    except csv.Error as error:
        message = f"The row cannot be read as CSV: {error}."
        raise DataError(message, file=path, row=reader.line_num + 1, remedy="Close its quotes.") from None
    return rows


def _table(rows: Sequence[tuple[int | None, Mapping[str, object]]], source: str) -> pd.DataFrame:
    """Returns the scores as numbers, NaN where a cell is empty, with the models as the index.

    Raises:
        DataError: If there are fewer than two models, one is there twice, or a score is not a finite number.
    """
    columns = list(rows[0][1]) if rows else []
    if len(rows) < 2 or "model" not in columns or "" in columns:
        count = f"{len(rows)} row{'' if len(rows) == 1 else 's'} with the columns {', '.join(columns) or 'none'}"
        raise DataError(
            "A table of scores needs the column model, named measures and at least two models.",
            file=source,
            value=count,
            remedy="Give one row for each model and one column for each measure.",
        )
    scores: dict[str, dict[str, float]] = {}
    for line, record in rows:
        model = str(record["model"] or "")
        if not model or model in scores:
            message = "A model is in the table twice." if model else "The row has no model."
            remedy = "Keep one row for each model."
            raise DataError(message, file=source, row=line, value=dict(record), remedy=remedy)
        scores[model] = {}
        for measure in columns:
            cell = record[measure]
            number = (
                pd.to_numeric(str(cell), errors="coerce") if measure != "model" and cell not in (None, "") else None
            )
            if number is not None and not math.isfinite(number):
                remedy = "Leave the cell empty if there is no score; use a decimal point."
                message = f"{measure} of {model} is not a number."
                raise DataError(message, file=source, row=line, value=cell, remedy=remedy)
            scores[model][measure] = math.nan if number is None else float(number)
    return pd.DataFrame.from_dict(scores, orient="index").drop(columns="model")


def ranking_of_table(scores: pd.DataFrame, *, source: str, remarks: Sequence[str] = ()) -> StudyReport:
    """Ranks the models of a table of scores, and says where its hP and hR cannot both be right.

    Args:
        scores: Models by measures, larger is better, NaN without a score; the last measure is the one that the others
            are compared with.
        source: The name of the table.
        remarks: Notes on the table, for the report and the figure.

    Raises:
        DataError: If there is no measure, or fewer than two models have a score.
    """
    names, labels = list(scores.index), list(scores.columns)
    if not labels:
        remedy = "Give one column for each measure."
        raise DataError("The table has no columns with scores.", file=source, remedy=remedy)
    unscored = [str(name) for name in scores.index[scores.isna().all(axis=1)]]
    if len(unscored) > len(names) - 2:
        raise DataError(
            f"{len(unscored)} of {len(names)} models have no score at all, so there is nothing to rank.",
            file=source,
            value=unscored,
            remedy="Give the scores of at least two models.",
        )
    from scipy.stats import kendalltau

    ranks = np.stack([Measured(label, scores[[label]].to_numpy(dtype=np.float64)).ranks()[0] for label in labels])
    taus: list[tuple[Cell, ...]] = []
    for label, row in zip(labels[:-1], ranks[:-1], strict=True):
        both = ~np.isnan(row + ranks[-1])
        tau = kendalltau(row[both], ranks[-1][both]) if both.sum() > 1 else None  # one model has no order
        taus.append((label, *((None, None) if tau is None else (float(tau.statistic), float(tau.pvalue)))))
    notes = (*remarks, *_doubts(scores, source))
    against = Table(
        "tau",
        f"Kendall's τ of each ranking with that of {labels[-1]}",
        ("measure", "τ", "p"),
        tuple(taus),
        {"τ": 2, "p": 3},
        ("The p-value is for the null hypothesis of no association between the two rankings of these models.",),
    )
    rows = tuple((name, *row) for name, row in zip(names, scores.to_numpy(dtype=np.float64).tolist(), strict=True))
    return StudyReport(
        study="ranking",
        title=TITLE,
        settings={"scores": source, "models": names, "seed": None},
        tables=(
            Table("scores", f"Scores in {source}", ("model", *labels), rows, notes=notes),
            ranks_table(names, labels, ranks),
            *((against,) if taus else ()),  # a measure alone has none to be compared with
        ),
        figures={"ranks": partial(draw_bump, names, labels, ranks, notes=notes)},
    )


def _doubts(scores: pd.DataFrame, source: str) -> list[str]:
    """Returns the reasons why hP and hR of a table cannot both be right, by the equations of paper 1, §3.

    hP / hR of an example is the length of the target's path over that of the prediction's, so hP is below hR only where
    the prediction is deeper. Both are 1 where the target itself is predicted, so neither is below the share of these.
    """
    doubts = _impossible(scores)
    if doubts:
        explained = not _impossible(scores.rename(columns={"hP": "hR", "hR": "hP"}))
        how = "" if source.endswith(_EXCHANGED) else f" (--scores {source}{_EXCHANGED})"
        likely, unlikely = f"Most likely hP and hR are exchanged{how}.", f"Exchanging hP and hR{how} does not explain"
        doubts.append(likely if explained else f"{unlikely} all of it.")
    return doubts


def _impossible(scores: pd.DataFrame) -> list[str]:
    notes = []
    for low, high, scale, why in (
        ("hP", "hR", 1, "which takes predictions deeper than their targets: it cannot be where all targets are at the "
         "deepest level, as on iNaturalist's tree"),
        ("hP", "EM", 100, "although hP and hR of an exact match are 1 if it is placed on its target"),
        ("hR", "EM", 100, "although hP and hR of an exact match are 1 if it is placed on its target"),
    ):  # fmt: skip
        if {low, high} <= {*scores}:
            both = scores[[low, high]].dropna()
            n = int((both[low] < both[high] / scale).sum())
            notes += [f"{low} is below {high} in {n} of {len(both)} rows, {why}."] if n else []
    return notes
