"""Made-up data sets, each laid out as its archives unpack, for the recipes that come with taxtune."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

__all__ = ["LAYOUTS", "Painter", "classes"]


def classes(tree: str) -> list[str]:
    """Returns the classes of the data set for which a tree was made, as its files write them."""
    return (Path(__file__).parent / "classes" / f"{tree}.txt").read_text().splitlines()


class Painter:
    """Paints images of one colour, no two of one size, so that no two files are the same."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, file: Path) -> None:
        self.count += 1
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8 + self.count, 8), (90, 120, self.count % 256)).save(file)


# -- each writes a data set as its archives unpack, with an image a class, and returns what to export ------------------


def food101(root: Path, paint: Painter) -> dict[str, Path]:
    names = [f"{label}/{1_000_000 + i}" for i, label in enumerate(classes("dishes"))]
    for name in names:
        paint(root / "images" / f"{name}.jpg")
    paint(root / "images" / "waffles" / "1.jpg")  # of the training split
    (root / "meta").mkdir()
    (root / "meta" / "test.txt").write_text("\n".join(names) + "\n")
    return {"FOOD101": root}


def pets(root: Path, paint: Painter) -> dict[str, Path]:
    names = [f"{label}_{201 + i}" for i, label in enumerate(classes("pets"))]
    for name in names:
        paint(root / "images" / f"{name}.jpg")
    (root / "images" / "Abyssinian_100.mat").write_bytes(b"")
    (root / "annotations").mkdir()
    (root / "annotations" / "test.txt").write_text(
        "".join(f"{name} {i + 1} 1 1\n" for i, name in enumerate(names))
    )
    return {"PETS": root}


def cars(root: Path, paint: Painter) -> dict[str, Path]:
    for i, label in enumerate(classes("cars")):
        paint(root / label.replace("/", "-") / f"{i:05}.jpg")
    return {"CARS": root}


def aircraft(root: Path, paint: Painter) -> dict[str, Path]:
    rows = [(f"{62765 + i:07}", label) for i, label in enumerate(classes("aircraft"))]
    for name, _ in rows:
        paint(root / "images" / f"{name}.jpg")
    (root / "images_variant_test.txt").write_text(
        "".join(f"{name} {label}\n" for name, label in rows)
    )
    return {"AIRCRAFT": root}


def office_home(root: Path, paint: Painter) -> dict[str, Path]:
    for label in classes("objects"):
        for part in ("Art", "Real World"):
            paint(root / part / label / "00001.jpg")
    (root / "ImageInfo.csv").write_text("")
    return {"OFFICEHOME": root}


SPECIES = [
    "Animalia/Chordata/Aves/Passeriformes/Turdidae/Turdus/Turdus merula",
    "Animalia/Chordata/Aves/Anseriformes/Anatidae/Anas/Anas acuta",
    "Animalia/Arthropoda/Insecta/Coleoptera/Coccinellidae/Coccinella/Coccinella septempunctata",
    "Animalia/Arthropoda/Insecta/Lepidoptera/Nymphalidae/Vanessa/Vanessa cardui",
    "Plantae/Tracheophyta/Magnoliopsida/Asterales/Asteraceae/Bellis/Bellis perennis",
    "Plantae/Bryophyta/Bryopsida/Hypnales/Hylocomiaceae/Pleurozium/Pleurozium schreberi",
    "Fungi/Basidiomycota/Agaricomycetes/Agaricales/Amanitaceae/Amanita/Amanita muscaria",
    "Fungi/Ascomycota/Pezizomycetes/Pezizales/Sarcoscyphaceae/Sarcoscypha/Sarcoscypha coccinea",
]


def inat21(root: Path, paint: Painter) -> dict[str, Path]:
    ranks = ("kingdom", "phylum", "class", "order", "family", "genus", "name")
    categories: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    for i, path in enumerate(SPECIES):
        folder = f"{i:05}_{path.replace('/', '_').replace(' ', '_')}"
        epithet = path.split(" ")[-1]
        categories.append(
            {"id": i, "common_name": "", "specific_epithet": epithet, "image_dir_name": folder}
            | dict(zip(ranks, path.split("/"), strict=True))
        )
        for k in range(10):
            images.append({"id": 10 * i + k, "file_name": f"val/{folder}/{k}.jpg", "license": 0})
            paint(root / images[-1]["file_name"])
    annotations = [{"id": n, "image_id": n, "category_id": n // 10} for n in range(len(images))]
    data = {
        "info": {},
        "images": images,
        "categories": categories,
        "annotations": annotations,
        "licenses": [],
    }
    (root / "val.json").write_text(json.dumps(data))
    return {"INAT21": root}


LAYOUTS: dict[str, tuple[Callable[[Path, Painter], dict[str, Path]], int]] = {
    "aircraft-fgvc": (aircraft, 100),
    "birds-inat21-taxtune": (inat21, 20),
    "birds-inat21": (inat21, 20),
    "cars-stanford": (cars, 196),
    "dishes-food101": (food101, 101),
    "fungi-inat21": (inat21, 20),
    "insects-inat21": (inat21, 20),
    "objects-officehome": (office_home, 65),
    "pets-oxford": (pets, 37),
    "plants-inat21": (inat21, 20),
}
