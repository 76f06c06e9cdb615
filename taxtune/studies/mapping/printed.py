"""The answers that paper 1 prints (§16, Table 9), placed by each preset beside the nodes that it prints.

The table was typed in from a copy whose columns ran together; the column `note` says what is uncertain. Printed nodes
are iNaturalist's English names, and the column `node` the Latin names that we take them for.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from taxtune.answers.targets import target_finder
from taxtune.errors import DataError
from taxtune.mapping import Mapper, MapperConfig, make_similarity
from taxtune.mapping.config import PAPER_PRESETS
from taxtune.metrics.hierarchical import score
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.mapping import PRINTED, MappingSettings
from taxtune.studies.mapping.nearest import UNPLACED
from taxtune.studies.mapping.scorers import split_name
from taxtune.studies.published import published

__all__ = ["printed_report"]

_PRESETS = (*PAPER_PRESETS, "default")


def printed_report(settings: MappingSettings) -> StudyReport:
    """Places the printed answers by each preset and returns the report.

    Args:
        settings: The tree and the mapper's similarity.

    Raises:
        DataError: If the tree has none of the printed references.
        ModelError: If the similarity's model cannot be loaded.
    """
    taxonomy, part = settings.read_tree()
    find = target_finder(taxonomy, part, suggest=0)

    def node_of(cell: object) -> int:
        node = find(cell).node
        return UNPLACED if node is None else node

    table = published(PRINTED)
    rows = [row for row in table if row["answer"] and node_of(row["reference"]) != UNPLACED]
    if not rows:
        raise DataError(
            "The tree has none of the species of the paper's Table 9.",
            file=taxonomy.source,
            remedy="Give iNaturalist 2021's tree.",
        )
    answers = [str(row["answer"]) for row in rows]
    target, printed = (np.array([node_of(row[column]) for row in rows]) for column in ("reference", "node"))
    known = printed != UNPLACED
    placed = {"printed": printed}
    spec = split_name(settings.similarity)[1]
    similarity = make_similarity(spec, device=settings.device, cache_dir=settings.cache_dir)
    for preset in _PRESETS:
        mapper = Mapper(taxonomy, similarity, MapperConfig(preset=preset))
        placed[preset] = np.array([placement.node for placement in mapper.place(answers)], dtype=np.int64)

    often = Counter(taxonomy.labels)

    def label(node: int) -> str | None:
        # A label that several nodes have is shown with its parent's: Iris is a genus of plants and one of mantises.
        if node == UNPLACED:
            return None
        return "/".join(taxonomy.path(node)[-2 if often[taxonomy.labels[node]] > 1 else -1 :])

    def cells(i: int) -> tuple[Cell, ...]:
        labels = [label(int(nodes[i])) for nodes in placed.values()]
        return (*(rows[i][column] for column in ("model", "reference", "answer", "printed")), *labels, rows[i]["note"])

    scores: list[tuple[Cell, ...]] = []
    for name, nodes in placed.items() if known.any() else ():
        one = score(taxonomy, nodes[known], target[known])
        scores.append((name, int(known.sum()), int((nodes == printed)[known].sum()), one.hp, one.hr, one.hf))
    unanswered = sum(not row["answer"] for row in table)
    counts = {
        "Left out, no answer in our copy": unanswered,
        "Left out, reference not on the tree": len(table) - unanswered - len(rows),
        "Printed node lost in our copy, or not on the tree": int((~known).sum()),
    }
    tables = (
        Table(
            "mapping-printed",
            "The nodes that the paper prints (§16, Table 9), and those of each preset",
            ("model", "reference", "answer", "printed", "printed node", *_PRESETS, "note"),
            tuple(cells(i) for i in range(len(rows))),
            notes=("printed node: what we take the printed English name for. In brackets: lost in our copy.",),
        ),
        Table(
            "mapping-printed-scores",
            "The same against the references, where the printed node is known",
            ("placed by", "n", "as printed", "hP", "hR", "hF"),
            tuple(scores),
            notes=("A reference is the photo's species: hR also says how specific the answers are.",),
        ),
    )
    return StudyReport(
        study="mapping",
        title="The answers that paper 1 prints in its Table 9, placed",
        settings={
            **settings.record(),
            "taxonomy": taxonomy.source,
            "root": None if part is None else "/".join(part.full.path(part.root)),
            "n": len(rows),
        },
        tables=tuple(table for table in tables if table.rows),
        notes=tuple(f"{what}: {count} of {len(table)} printed rows" for what, count in counts.items() if count),
    )
