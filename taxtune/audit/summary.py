"""What a judged sample says of all answers, and the aliases that would help."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from taxtune.audit.verdicts import VERDICTS, resolve_node
from taxtune.mapping.config import DOUBTFUL
from taxtune.report.output import Cell, StudyReport, Table

if TYPE_CHECKING:
    import pandas as pd

    from taxtune.mapping import Mapper
    from taxtune.taxonomy.tree import Taxonomy

__all__ = ["helpful_aliases", "summarise_audit"]

#: Longest alias, in words: what is longer is a sentence and not a name.
_LONGEST_ALIAS = 6
_Z = 1.959963984540054  # of a 95 % interval


def summarise_audit(sample: pd.DataFrame, *, judge: str, notes: Sequence[str] = ()) -> StudyReport:
    """Returns the share of all answers that have each verdict, with 95 % intervals.

    For the verdict "right" it is returned by stage and by doubt as well. The share of a verdict is
    the mean over the strata, weighted with the answers of each; a row without a verdict does not
    count. The interval is Wilson's for the effective number of draws that have a verdict, (Σ w)² /
    Σ w² with the weight w of each (Kish 1965, "Survey sampling"): it takes no credit for what the
    strata explain.

    Args:
        sample: The judged sample.
        judge: Who judged it.
        notes: Further notes.
    """
    sizes = sample.attrs["sizes"]
    judged = sample[sample["verdict"] != ""]
    is_doubtful = judged["doubtful"]
    parts = {str(stage): part for stage, part in judged.groupby("stage", sort=True)}
    parts[f"confidence from {DOUBTFUL:g} on"] = judged[is_doubtful.eq(False)]
    parts[f"confidence below {DOUBTFUL:g}"] = judged[is_doubtful.eq(True)]
    rows: list[tuple[Cell, ...]] = []
    for verdict in VERDICTS:
        rows.append(("all", verdict, *_share(judged, verdict, sizes)))
    for name, part in parts.items():
        if len(part):
            rows.append((name, "right", *_share(part, "right", sizes)))
    table = Table(
        name="audit",
        title="Placements",
        columns=("answers", "verdict", "judged", "share", "low", "high"),
        rows=tuple(rows),
        digits={"judged": 0},
    )
    answers = sum(sizes.values())
    counted = (
        f"{len(judged):,} of {len(sample):,} distinct answers judged, drawn from {answers:,}; judged "
        f"by {judge}."
    )
    settings = {"answers": answers, "drawn": len(sample), "judged": len(judged), "judge": judge}
    return StudyReport(
        study="audit",
        title="How many answers the mapper places right",
        settings=settings,
        tables=(table,),
        notes=(counted, *notes),
    )


def _share(judged: pd.DataFrame, verdict: str, sizes: Mapping[str, int]) -> tuple[Cell, ...]:
    """Returns the number of judged answers, the share that has a verdict, and its interval."""
    if judged.empty:
        return 0, np.nan, np.nan, np.nan
    strata = judged["stratum"]
    has_verdict = judged["verdict"] == verdict
    with_verdict = judged["draws"].where(has_verdict, 0)
    draws = judged["draws"].groupby(strata).sum()
    shares = with_verdict.groupby(strata).sum() / draws
    weights = draws.index.map(sizes).to_numpy(dtype=float)
    total = weights.sum()
    share = float(shares.to_numpy() @ weights / total)
    n = float(total**2 / (weights**2 / draws).sum())
    variance = share * (1 - share) / n
    squared = _Z**2
    middle = share + squared / (2 * n)
    half = _Z * math.sqrt(variance + squared / (4 * n**2))
    scale = 1 + squared / n
    low = max(0.0, (middle - half) / scale)
    high = min(1.0, (middle + half) / scale)
    return len(judged), share, low, high


def helpful_aliases(
    sample: pd.DataFrame, tree: Taxonomy, make_mapper: Callable[[Taxonomy], Mapper]
) -> list[tuple[int, str]]:
    """Returns aliases that bring answers to the nodes on which they belong, tried with the mapper.

    A candidate is the part of the answer that decided, or a short answer whole. It is taken if it
    brings its answer to its node and moves no answer that is right; those taken earlier stay.

    Args:
        sample: The judged sample.
        tree: The label tree.
        make_mapper: Returns the mapper on a tree.

    Returns:
        The node and the alias.
    """
    judged = sample[sample["verdict"] != ""].to_dict("records")
    answers = [row["answer"] for row in judged]
    placements = make_mapper(tree).place(answers)
    right: dict[str, int] = {}
    for row, placement in zip(judged, placements, strict=True):
        if row["verdict"] == "right":
            right[row["answer"]] = placement.node
    aliases = [list(names) for names in tree.aliases]
    taken: list[tuple[int, str]] = []
    for row, placement in zip(judged, placements, strict=True):
        node = resolve_node(tree, row["node"]) if row["node"] else tree.root
        if row["verdict"] == "right" or node == tree.root:
            continue
        wanted = [node, *right.values()]
        for text in dict.fromkeys((placement.evidence, row["answer"])):
            name = " ".join(text.split()).strip(" .,:;!?\"'")
            if not name or len(name.split()) > _LONGEST_ALIAS or tree.find(name):
                continue
            aliases[node].append(name)
            mapper = make_mapper(tree.with_names(aliases=aliases))
            placed = mapper.place([row["answer"], *right])
            if [placement.node for placement in placed] == wanted:
                taken.append((node, name))
                break
            aliases[node].pop()
    return taken
