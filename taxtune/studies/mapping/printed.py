"""The answers that paper 1 prints (§16, Table 9), placed by each preset beside the nodes that it prints.

The table was typed in from a copy whose columns ran together; the column `note` says what is uncertain. Printed nodes
are iNaturalist's English names, and the column `node` the Latin names that we take them for.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from taxtune.answers.targets import target_finder
from taxtune.errors import DataError
from taxtune.mapping import Mapper, MapperConfig, make_similarity
from taxtune.mapping.config import PAPER_PRESETS
from taxtune.metrics.hierarchical import score
from taxtune.report.output import StudyReport, Table
from taxtune.studies.frames import frame_table
from taxtune.studies.mapping import PRINTED, MappingSettings
from taxtune.studies.mapping.scorers import UNPLACED, split_name
from taxtune.studies.published import published

__all__ = ["printed_report"]


def printed_report(settings: MappingSettings) -> StudyReport:
    """Places the printed answers by each preset and returns the report.

    Raises:
        DataError: If the tree has none of the printed references.
        ModelError: If the similarity's model cannot be loaded.
    """
    taxonomy, part = settings.read_tree()
    find = target_finder(taxonomy, part, suggest=0)

    def node_of(cell: object) -> int:
        node = find(cell).node
        return UNPLACED if node is None else node

    table = pd.DataFrame(published(PRINTED), dtype=object)
    table["target"] = table["reference"].map(node_of)
    answered = table["answer"].map(bool)
    frame = table[answered & (table["target"] != UNPLACED)].reset_index(drop=True)
    if frame.empty:
        raise DataError(
            "The tree has none of the species of the paper's Table 9.",
            file=taxonomy.source,
            remedy="Give iNaturalist 2021's tree.",
        )
    frame["printed node"] = frame["node"].map(node_of)
    similarity = make_similarity(
        split_name(settings.similarity)[1], device=settings.device, cache_dir=settings.cache_dir
    )
    ways = {"printed": "printed node"}
    for preset in (*PAPER_PRESETS, "default"):
        mapper = Mapper(taxonomy, similarity, MapperConfig(preset=preset))
        frame[preset] = [placement.node for placement in mapper.place(frame["answer"].map(str).tolist())]
        ways[preset] = preset
    shared = pd.Series(taxonomy.labels).duplicated(keep=False)

    def label(node: int) -> str | None:
        # A label that several nodes have is shown with its parent's: Iris is a genus of plants and one of mantises.
        return None if node == UNPLACED else "/".join(taxonomy.path(node)[-2 if shared[node] else -1 :])

    columns = ["model", "reference", "answer", "printed", *ways.values(), "note"]
    cells = frame.assign(**{column: frame[column].map(label) for column in ways.values()})[columns]
    known = frame[frame["printed node"] != UNPLACED]
    rows: list[tuple[Any, ...]] = []
    for name, column in ways.items() if len(known) else ():
        one = score(taxonomy, known[column], known["target"])
        as_printed = int((known[column] == known["printed node"]).sum())
        rows.append((name, len(known), as_printed, one.hp, one.hr, one.hf))
    counts = {
        "Left out, no answer in our copy": int((~answered).sum()),
        "Left out, reference not on the tree": int(answered.sum()) - len(frame),
        "Printed node lost in our copy, or not on the tree": len(frame) - len(known),
    }
    tables = (
        frame_table(
            "mapping-printed",
            "The nodes that the paper prints (§16, Table 9), and those of each preset",
            cells,
            "printed node: what we take the printed English name for. In brackets: lost in our copy.",
        ),
        Table(
            "mapping-printed-scores",
            "The same against the references, where the printed node is known",
            ("placed by", "n", "as printed", "hP", "hR", "hF"),
            tuple(rows),
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
            "n": len(frame),
        },
        tables=tuple(table for table in tables if table.rows),
        notes=tuple(f"{what}: {count} of {len(table)} printed rows" for what, count in counts.items() if count),
    )
