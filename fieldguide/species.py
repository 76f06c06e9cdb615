"""The birds of the field guide: who they are and what they wear.

The table is `species.yaml`; names, orders and families are those of iNaturalist 2021.
`taxonomy_rows` turns it into the label tree Aves > order > family > species that
`taxtune/fieldguide/taxonomy.csv` holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

__all__ = ["Group", "Species", "all_species", "families", "orders", "root_names", "taxonomy_rows"]

_TABLE = Path(__file__).resolve().parent / "species.yaml"

RGB = tuple[int, int, int]

#: Which other part lends its colour to a part that the table leaves out.
_LENDER = {
    "face": "crown",
    "throat": "breast",
    "belly": "breast",
    "wingtip": "wing",
    "tail": "back",
    "legs": "beak",
}


@dataclass(frozen=True, slots=True)
class Group:
    """An order or a family.

    Attributes:
        label: Its Latin name.
        names: Its English names, the preferred one first; empty where no short word means the whole
            group.
        parent: The Latin name of the group above ("Aves" for an order).
        shape: The silhouette of a family, as `fieldguide.silhouettes.SHAPES` knows it; empty for an
            order.
    """

    label: str
    names: tuple[str, ...]
    parent: str
    shape: str = ""


@dataclass(frozen=True, slots=True)
class Species:
    """One species.

    Attributes:
        label: Its Latin binomial.
        names: Its English names, the preferred one first.
        family: The Latin name of its family.
        order: The Latin name of its order.
        shape: The silhouette of its family.
        paint: The colour of each part of its body, as red, green and blue in 0..255.
        marks: The colour of each marking that it has (wing bars, caps, bands, ...).
    """

    label: str
    names: tuple[str, ...]
    family: str
    order: str
    shape: str
    paint: dict[str, RGB]
    marks: dict[str, RGB]


def _rgb(text: str) -> RGB:
    value = int(text.removeprefix("#"), 16)
    return value >> 16, value >> 8 & 255, value & 255


@cache
def _table() -> dict[str, dict[str, dict[str, object]]]:
    table: dict[str, dict[str, dict[str, object]]] = yaml.safe_load(
        _TABLE.read_text(encoding="utf-8")
    )
    return table


def _names(value: object) -> tuple[str, ...]:
    return tuple(str(name) for name in value) if isinstance(value, list) else ()


@cache
def root_names() -> tuple[str, tuple[str, ...]]:
    """Returns the label of the root, "Aves", and its English names."""
    root = _table()["root"]
    return str(root["label"]), _names(root["names"])


@cache
def orders() -> dict[str, Group]:
    """Returns the orders by Latin name."""
    root, _ = root_names()
    return {label: Group(label, _names(names), root) for label, names in _table()["orders"].items()}


@cache
def families() -> dict[str, Group]:
    """Returns the families by Latin name."""
    return {
        label: Group(label, _names(row["names"]), str(row["order"]), str(row["shape"]))
        for label, row in _table()["families"].items()
    }


@cache
def all_species() -> tuple[Species, ...]:
    """Returns every species, in the order of the table."""
    birds = []
    for label, row in _table()["species"].items():
        family = families()[str(row["family"])]
        paint_row = row["paint"]
        marks_row = row["marks"]
        assert isinstance(paint_row, dict)
        assert isinstance(marks_row, dict)
        paint = {part: _rgb(colour) for part, colour in paint_row.items()}
        for part, lender in _LENDER.items():
            paint.setdefault(part, paint[lender])
        marks = {mark: _rgb(colour) for mark, colour in marks_row.items()}
        birds.append(
            Species(
                label, _names(row["names"]), family.label, family.parent, family.shape, paint, marks
            )
        )
    return tuple(birds)


def taxonomy_rows() -> list[dict[str, str]]:
    """Returns the label tree as rows with `path` (labels joined by "/"), `rank` and `aliases` (joined by ";")."""
    root, names = root_names()
    rows = [{"path": root, "rank": "class", "aliases": ";".join(names)}]
    for order in orders().values():
        above = f"{root}/{order.label}"
        rows.append({"path": above, "rank": "order", "aliases": ";".join(order.names)})
        for family in families().values():
            if family.parent != order.label:
                continue
            rows.append(
                {
                    "path": f"{above}/{family.label}",
                    "rank": "family",
                    "aliases": ";".join(family.names),
                }
            )
            for bird in all_species():
                if bird.family == family.label:
                    rows.append(
                        {
                            "path": f"{above}/{family.label}/{bird.label}",
                            "rank": "species",
                            "aliases": ";".join(bird.names),
                        }
                    )
    return rows
