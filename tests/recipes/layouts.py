"""Made-up data sets, each laid out as its archives unpack, for the recipes that come with taxtune."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

__all__ = ["LAYOUTS", "Painter", "classes"]


def classes(tree):
    """Returns the classes of the data set for which a tree was made, as its files write them."""
    return (Path(__file__).parent / "classes" / f"{tree}.txt").read_text().splitlines()


class Painter:
    """Paints images of one colour, no two of one size, so that no two files are the same."""

    def __init__(self):
        self.count = 0

    def __call__(self, file):
        self.count += 1
        file.parent.mkdir(parents=True, exist_ok=True)
        colour = (90, 120, self.count % 256)
        Image.new("RGB", (8 + self.count, 8), colour).save(file)


def write_lines(file, lines):
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


# -- each writes a data set as its archives unpack, with an image a class, and returns what to export ------------------


def food101(root, paint):
    names = [f"{label}/{1_000_000 + i}" for i, label in enumerate(classes("dishes"))]
    for name in names:
        paint(root / "images" / f"{name}.jpg")
    paint(root / "images" / "waffles" / "1.jpg")  # of the training split
    write_lines(root / "meta" / "test.txt", names)
    return {"FOOD101": root}


def pets(root, paint):
    names = [f"{label}_{201 + i}" for i, label in enumerate(classes("pets"))]
    for name in names:
        paint(root / "images" / f"{name}.jpg")
    (root / "images" / "Abyssinian_100.mat").write_bytes(b"")
    lines = [f"{name} {i} 1 1" for i, name in enumerate(names, start=1)]
    write_lines(root / "annotations" / "test.txt", lines)
    return {"PETS": root}


def cars(root, paint):
    for i, label in enumerate(classes("cars")):
        paint(root / label.replace("/", "-") / f"{i:05}.jpg")
    return {"CARS": root}


def aircraft(root, paint):
    lines = []
    for number, label in enumerate(classes("aircraft"), start=62_765):
        paint(root / "images" / f"{number:07}.jpg")
        lines.append(f"{number:07} {label}")
    write_lines(root / "images_variant_test.txt", lines)
    return {"AIRCRAFT": root}


def office_home(root, paint):
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


def inat21(root, paint):
    ranks = ("kingdom", "phylum", "class", "order", "family", "genus", "name")
    categories = []
    images = []
    annotations = []
    for i, path in enumerate(SPECIES):
        folder = f"{i:05}_{path.replace('/', '_').replace(' ', '_')}"
        category = dict(zip(ranks, path.split("/"), strict=True))
        category["id"] = i
        category["common_name"] = ""
        category["specific_epithet"] = path.split(" ")[-1]
        category["image_dir_name"] = folder
        categories.append(category)
        for k in range(10):
            name = f"val/{folder}/{k}.jpg"
            paint(root / name)
            n = len(images)
            images.append({"id": n, "file_name": name, "license": 0})
            annotations.append({"id": n, "image_id": n, "category_id": i})
    data = {"info": {}, "licenses": []}
    data |= {"images": images, "categories": categories, "annotations": annotations}
    (root / "val.json").write_text(json.dumps(data))
    return {"INAT21": root}


LAYOUTS = {
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
