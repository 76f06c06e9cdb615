"""Rows of answers, placed and scored as a run's are, for the tests of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taxtune.mapping import Mapper
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.information import information_values, leaf_information
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import SampleResult

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
    weights = leaf_information(taxonomy)
    found = []
    for i, (label, said) in enumerate(answers):
        target = taxonomy.resolve(label)
        truth = {
            "example": f"e{i}",
            "image": f"{i}.png",
            "target": target,
            "truth": "/".join(taxonomy.path(target)),
        }
        if said is None:
            found.append(SampleResult(**truth, failure="No answer."))
            continue
        placed = next(placements)
        mask = np.array([placed.off_tree]) if off_tree == "child" else None
        hp, hr = precision_recall(taxonomy, [placed.node], [target], off_tree=mask)
        ihp, ihr, *_ = information_values(weights, [placed.node], [target], off_tree=mask)
        found.append(
            SampleResult(
                **truth,
                answer=said,
                node=placed.node,
                placement="/".join(taxonomy.path(placed.node)),
                stage=str(placed.stage),
                confidence=placed.confidence,
                hp=float(hp[0]),
                hr=float(hr[0]),
                abstained=placed.abstained,
                off_tree=placed.off_tree,
                ihp=float(ihp[0]),
                ihr=float(ihr[0]),
            )
        )
    return found
