"""Rows of answers, placed and scored as a run's are, for the tests of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence

from taxtune.mapping import Mapper
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import SampleResult
from tests.rows import placed_row, sample_row

__all__ = ["BIRDS", "bird_rows"]

#: Birds among the animals: label, parent, rank and aliases of each node.
_NODES = [
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
]
_LABELS, _PARENTS, _RANKS, _ALIASES = zip(*_NODES, strict=True)
BIRDS = Taxonomy(_LABELS, _PARENTS, ranks=_RANKS, aliases=_ALIASES)
_MAPPER = Mapper(BIRDS, "lexical")


def bird_rows(answers: Sequence[tuple[str, str | None]]) -> tuple[SampleResult, ...]:
    """Returns the rows of (true label, answer), where None is a call that failed."""
    return tuple(_row(i, label, answer) for i, (label, answer) in enumerate(answers))


def _row(number: int, label: str, answer: str | None) -> SampleResult:
    target = BIRDS.resolve(label)
    example = f"e{number}"
    image = f"{number}.png"
    if answer is None:
        truth = "/".join(BIRDS.path(target))
        return sample_row(
            example=example, image=image, target=target, truth=truth, failure="No answer."
        )
    (placed,) = _MAPPER.place([answer])
    return placed_row(
        BIRDS,
        placed.node,
        target,
        example=example,
        image=image,
        answer=answer,
        stage=str(placed.stage),
        confidence=placed.confidence,
        abstained=placed.abstained,
        off_tree=placed.off_tree,
    )
