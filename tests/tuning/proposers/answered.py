"""Rows of answers, placed and scored as a run's are, for the tests of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taxtune.mapping import Mapper
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import SampleResult
from tests.rows import placed_row, sample_row

__all__ = ["BIRDS", "rows"]

_NODES = (  # label, parent, rank, aliases
    ("animal", -1, "kingdom", ()),
    ("Aves", 0, "class", ("bird",)),
    ("Passeriformes", 1, "order", ("perching bird", "songbird")),
    ("Fringillidae", 2, "family", ("finch",)),
    ("Carduelis carduelis", 3, "species", ("goldfinch", "European goldfinch")),
    ("Fringilla coelebs", 3, "species", ("chaffinch",)),
    ("Corvidae", 2, "family", ("crow", "corvid")),
    ("Cyanocitta cristata", 6, "species", ("blue jay",)),
    ("Strigiformes", 1, "order", ("owl",)),
    ("Strigidae", 8, "family", ("typical owl",)),
    ("Bubo scandiacus", 9, "species", ("snowy owl",)),
    ("Mammalia", 0, "class", ("mammal",)),
    ("Panthera tigris", 11, "species", ("tiger",)),
)
#: Birds among the animals.
BIRDS = Taxonomy(
    [label for label, *_ in _NODES],
    [parent for _, parent, *_ in _NODES],
    ranks=[rank for _, _, rank, _ in _NODES],
    aliases=[aliases for *_, aliases in _NODES],
)


def rows(
    taxonomy: Taxonomy, answers: Sequence[tuple[str, str | None]], off_tree: str = "child"
) -> list[SampleResult]:
    """Returns the rows of (true label, answer), where None is a call that failed."""
    placements = iter(
        Mapper(taxonomy, "lexical").place([said for _, said in answers if said is not None])
    )
    found = []
    for i, (label, said) in enumerate(answers):
        target = taxonomy.resolve(label)
        about: dict[str, Any] = {"example": f"e{i}", "image": f"{i}.png"}
        if said is None:
            truth = "/".join(taxonomy.path(target))
            found.append(sample_row(**about, target=target, truth=truth, failure="No answer."))
            continue
        placed = next(placements)
        row = placed_row(
            taxonomy,
            placed.node,
            target,
            as_child=placed.off_tree and off_tree == "child",
            answer=said,
            stage=str(placed.stage),
            confidence=placed.confidence,
            abstained=placed.abstained,
            off_tree=placed.off_tree,
            **about,
        )
        found.append(row)
    return found
