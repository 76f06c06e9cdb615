"""A sample of placements, kept in one CSV file, in which a person writes the verdicts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from taxtune import atomic
from taxtune.audit.verdicts import read_verdict, resolve_node, verdict_of
from taxtune.errors import DataError, TaxonomyError
from taxtune.tables import csv_text, join_cell, read_rows
from taxtune.untrusted import spreadsheet_cell

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from taxtune.mapping import Mapper, Placement
    from taxtune.taxonomy.tree import Taxonomy

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

__all__ = ["answer_id", "draw_sample", "merge_verdicts", "write_sample"]

_COLUMNS = ("id", "answer", "times", "draws", "stage", "placement", "verdict", "node")
#: The draw takes no placement for less sure, or surer, than this: the mapper may be wrong about
#: itself.
_LEAST_SURE = 0.05
_SUREST = 0.95


def draw_sample(answers: Sequence[str], mapper: Mapper, n: int, seed: int = 0) -> pd.DataFrame:
    """Draws a sample of answers, stratified by stage and by whether the placement is doubtful.

    A stratum gets draws in proportion to its answers times the standard deviation √(c (1 - c)) that
    its mean confidence c says of a verdict (Neyman 1934), and at least one; under the paper's
    presets, which have no probability, in proportion to its answers. Within a stratum, answers are
    drawn at random without replacement; an answer that was given several times can be drawn several
    times and is judged once.

    Args:
        answers: All answers, repeated ones included.
        mapper: Places them.
        n: Number of answers to draw. All of them are drawn where there are fewer.
        seed: Seed of the draw.

    Returns:
        One row per distinct answer that was drawn: id, answer, times (how often it was given),
        draws, stage, placement (the path of its node), the empty columns verdict and node, doubtful
        (None where it is not known) and stratum. `attrs` holds the number of answers of each
        stratum.
    """
    import pandas as pd

    counts = Counter(answers)
    placements = mapper.place(list(counts))
    sample = pd.DataFrame({"id": [answer_id(text) for text in counts]})
    sample["answer"] = list(counts)
    sample["times"] = list(counts.values())
    sample["draws"] = 0
    sample["stage"] = [str(placement.stage) for placement in placements]
    sample["placement"] = [join_cell(placement.path, "/") for placement in placements]
    sample["verdict"] = ""
    sample["node"] = ""
    sample["doubtful"] = [placement.doubtful for placement in placements]
    sample["stratum"] = [_stratum(placement) for placement in placements]
    strata = sample.groupby("stratum")
    sizes = strata["times"].sum()
    spread = np.ones(len(sizes))
    if not sample["doubtful"].isna().any():
        confidences = pd.Series([placement.confidence for placement in placements], dtype=float)
        weighted = sample["times"] * confidences.fillna(1.0)
        sums = weighted.groupby(sample["stratum"]).sum()
        mean = np.clip(sums / sizes, _LEAST_SURE, _SUREST)
        spread = np.sqrt(mean * (1 - mean)).to_numpy()
    draws = _allocated(sizes.to_numpy(), spread, n)
    generator = np.random.default_rng(seed)
    for (_, members), own in zip(strata, draws, strict=True):
        times = members["times"].to_numpy()
        drawn = generator.multivariate_hypergeometric(times, int(own))
        sample.loc[members.index, "draws"] = drawn
    sample = sample[sample["draws"] > 0].reset_index(drop=True)
    sample.attrs["sizes"] = sizes.to_dict()
    return sample


def answer_id(text: str) -> str:
    """Returns the id of an answer.

    It is a digest, since a spreadsheet may change the text; with a letter, so that it is no number.
    """
    content = text.encode("utf-8", "surrogatepass")
    return f"a{hashlib.sha256(content).hexdigest()[:10]}"


def _stratum(placement: Placement) -> str:
    return f"{placement.stage}, doubtful" if placement.doubtful else str(placement.stage)


def _allocated(sizes: IntArray, spread: FloatArray, n: int) -> IntArray:
    """Returns the draws of each stratum that make the variance of the stratified mean least.

    Each gets at least one. One by one, each goes where it lowers the variance most (Wright 2012,
    "The equivalence of Neyman optimum allocation for sampling and equal proportions for
    apportioning the U.S. House of Representatives", Am. Stat. 66).
    """
    draws = np.ones_like(sizes)
    while draws.sum() < min(n, sizes.sum()):
        gains = sizes * spread / np.sqrt(draws * (draws + 1))
        gains[draws == sizes] = -1.0
        draws[np.argmax(gains)] += 1
    return draws


def merge_verdicts(
    sample: pd.DataFrame, path: Path, tree: Taxonomy, given: Sequence[dict[str, str]]
) -> tuple[pd.DataFrame, int]:
    """Fills a sample with the verdicts of a file, where the file exists.

    A verdict counts for the placement that it was given on. Where the answer is placed elsewhere by
    now, the verdict follows from the node that the file names, and is open again where it names
    none.

    Args:
        sample: The sample.
        path: The file.
        tree: The label tree.
        given: Further rows, which replace those of the file on the same answer.

    Returns:
        The sample, and the number of verdicts that are open again. Its `attrs` hold as `others` the
        rows that are judged and not in the sample, which `write_sample` keeps.

    Raises:
        DataError: If the file cannot be read, lacks a column, judges an answer twice, or a verdict
            or a node is unknown; names the row.
    """
    earlier = _read_verdicts(path, tree) if path.exists() else {}
    earlier |= {row["id"]: row for row in given}
    filled = sample.copy()
    reopened = 0
    for index, row in enumerate(sample.to_dict("records")):
        known = earlier.pop(row["id"], None)
        if known is None:
            continue
        verdict = known["verdict"]
        node = known["node"]
        is_same = known["placement"] == spreadsheet_cell(row["placement"])
        is_same &= known["stage"] == row["stage"]
        if node:
            belongs_to = resolve_node(tree, node)
            verdict = verdict_of(tree, row["placement"], row["stage"], belongs_to)
        elif verdict and not is_same:
            verdict = ""
            reopened += 1
        filled.loc[index, ["verdict", "node"]] = [verdict, node]
    judged = [row for row in earlier.values() if row["verdict"] or row["node"]]
    filled.attrs["others"] = [row | {"draws": "0"} for row in judged]
    return filled, reopened


def _read_verdicts(path: Path, tree: Taxonomy) -> dict[str, dict[str, str]]:
    """Returns the rows of a file of verdicts by the id of the answer."""
    remedy = (
        "Write the column's name into the header again, or move the file away to draw a new sample."
    )
    rows: dict[str, dict[str, str]] = {}
    for line, row in read_rows(path, _COLUMNS, what="verdicts", remedy=remedy, none=True):
        row["verdict"] = read_verdict(row["verdict"], path, line)
        node = row["node"].removeprefix("'")
        if spreadsheet_cell(node) == row["node"]:
            row["node"] = node
        if row["node"]:
            try:
                resolve_node(tree, row["node"])
            except TaxonomyError as error:
                raise DataError(
                    f"The node is not on the tree: {error.message}",
                    file=path,
                    row=line,
                    value=row["node"],
                    remedy=error.remedy or "Write its label or its path, or none.",
                ) from None
        if row["id"] in rows:
            raise DataError(
                "Another row judges this answer.",
                file=path,
                row=line,
                value=row["answer"],
                remedy="Remove one of the two rows.",
            )
        rows[row["id"]] = row
    return rows


def write_sample(path: Path, sample: pd.DataFrame) -> None:
    """Writes a sample as CSV, to be filled in with a spreadsheet.

    Below it are verdicts on answers that are not in it.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    rows = [*sample.to_dict("records"), *sample.attrs.get("others", ())]
    cells = []
    for row in rows:
        cells.append([spreadsheet_cell(row[column]) for column in _COLUMNS])
    atomic.write_text(path, csv_text(_COLUMNS, cells))
