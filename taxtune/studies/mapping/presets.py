"""Where Algorithm 1 as paper 1 lists it (§11) and as it describes it (§6) part: where nodes vote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.mapping import Stage
from taxtune.metrics.hierarchical import score
from taxtune.report.output import Cell, Table
from taxtune.studies.mapping.nearest import UNPLACED
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from taxtune.studies.mapping.study import Placed

__all__ = ["presets_table"]

#: The stages of Algorithm 1, as columns.
_STAGES = {Stage.VERBATIM: "by name", Stage.NGRAM: "by n-gram", Stage.VOTE: "by vote", Stage.SIMILARITY: "nearest"}


def presets_table(taxonomy: Taxonomy, placed: Sequence[Placed], target: NDArray[np.int64]) -> Table:
    """Returns which stage decides how many answers, and how listing and prose score; no row without Algorithm 1.

    Args:
        taxonomy: The tree.
        placed: The placements, of which those with Algorithm 1 count.
        target: The node of each answer.
    """
    rows: list[tuple[Cell, ...]] = []
    for p in placed:
        there = p.nodes != UNPLACED
        if p.prose is None or not there.any():
            continue
        decided = Counter(str(stage) for stage in np.asarray(p.prose.stages)[there])
        listing, prose = (score(taxonomy, one.nodes[there], target[there]) for one in (p, p.prose))
        rows.append(
            (
                p.base,
                int(there.sum()),
                *(decided[stage] for stage in _STAGES),
                int((np.asarray(p.stages)[there] == Stage.VOTE).sum()),
                int((p.nodes != p.prose.nodes)[there].sum()),
                *(value for one in (listing, prose) for value in (one.hp, one.hr, one.hf)),
            )
        )
    scores = tuple(f"{metric}, {form}" for form in ("listing", "prose") for metric in ("hP", "hR", "hF"))
    return Table(
        "mapping-presets",
        "Algorithm 1 as the paper lists it (§11: paper-listing) and as it describes it (§6: paper-prose)",
        ("measure", "n", *_STAGES.values(), "by vote, listing", "differ", *scores),
        tuple(rows),
        notes=(
            "by name to nearest: answers that each stage of the prose decides. Where it votes, the listing elects the "
            "root or, without the votes, takes the nearest node; in all else the two are the same. differ: answers "
            "that they place on different nodes.",
        ),
    )
