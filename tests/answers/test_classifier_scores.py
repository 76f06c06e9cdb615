"""A classifier's scores, in every form that they come in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from taxtune.answers.classifier_scores import Scores, array_scores, read_scores, read_truth
from taxtune.errors import DataError
from taxtune.progress import Display, showing
from taxtune.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(
    [
        "Animalia/Aves/Anatidae/Anas/Anas crecca",
        "Animalia/Aves/Anatidae/Anas/Anas platyrhynchos",
        "Animalia/Aves/Laridae/Larus/Larus canus",
        "Animalia/Mammalia/Ursidae/Ursus/Ursus arctos",
        "Animalia/Mammalia/Oenanthe/Oenanthe",
    ],
    aliases={"Anas platyrhynchos": ["mallard"], "Anas crecca": ["green-winged teal"]},
)
#: What all files below say: the same two images.
WANTED = {
    "a.jpg": {"Anas platyrhynchos": 0.7, "Anas crecca": 0.1, "Anas": 0.05, "Animalia": 0.15},
    "b.jpg": {"Larus canus": 0.5, "Animalia": 0.5},
}
WIDE = "image,Mallard,anas_crecca,Anas,Larus canus,background\na.jpg,0.7,0.1,0.05,,0.1\nb.jpg,0,,,0.5,0.3\n"
LONG = [
    ("a.jpg", "mallard", 0.7),
    ("b.jpg", "Larus canus", 0.5),
    ("a.jpg", "Anas crecca", 0.1),
    ("a.jpg", "Animalia/Aves/Anatidae/Anas", 0.05),
    ("b.jpg", "background", 0.3),
]
BIOCLIP = """file_name,kingdom,phylum,class,order,family,genus,species_epithet,species,common_name,score
a.jpg,Animalia,Chordata,Aves,Anseriformes,Anatidae,Anas,platyrhynchos domesticus,Anas platyrhynchos domesticus,,0.7
a.jpg,Animalia,Chordata,Aves,Anseriformes,Anatidae,Anas,crecca,Anas crecca,Kodiak teal,0.1
a.jpg,Animalia,Chordata,Aves,Anseriformes,Anatidae,Anas,strepera,Anas strepera,,0.05
b.jpg,Animalia,Chordata,Aves,Charadriiformes,Laridae,Larus,canus,Larus canus,,0.5
b.jpg,Fungi,Basidiomycota,Agaricomycetes,Agaricales,Amanitaceae,Amanita,muscaria,Amanita muscaria,fly agaric,0.3
"""


def long(columns: tuple[str, str, str] = ("image", "label", "score"), **dump: Any) -> str:
    return str(pd.DataFrame(LONG, columns=columns).to_csv(index=False, **dump))


def wide() -> pd.DataFrame:
    return pd.DataFrame(LONG, columns=["image", "label", "score"]).pivot(
        index="image", columns="label", values="score"
    )


def speciesnet(version: int) -> str:
    classes = {
        "u1;aves;anseriformes;anatidae;anas;platyrhynchos;a duck": 0.7,
        "u2;aves;anseriformes;anatidae;anas;;anas species": 0.05,
        "u3;aves;anseriformes;anatidae;anas;acuta;green-winged teal": 0.1,
    }
    other = {"u4;aves;charadriiformes;laridae;larus;canus;mew gull": 0.5, "f1;;;;;;blank": 0.3}
    said = [{"classes": list(each), "scores": list(each.values())} for each in (classes, other)]
    predictions: list[Any] = [{"filepath": "c.jpg", "failures": ["CLASSIFIER"]}]
    for name, each in zip(WANTED, said, strict=True):
        box = {"category": "1", "conf": 0.9, "bbox": [0, 0, 1, 1]}
        detections = [
            {**box, "raw_classifications": each},
            {**box, "raw_classifications": said[0]},
            box,
        ]
        predictions.append(
            {"filepath": name, "classifications": each, "prediction": "x", "detections": [box]}
            if version < 5
            else {"filepath": name, "detections": detections}
        )
    return json.dumps({"info": {}, "predictions": predictions}, indent=1)


def shares(scores: Scores) -> dict[str, dict[str, float]]:
    """What each image has at each node; what is unsaid is at the root."""
    found: dict[str, dict[str, float]] = {}
    for image, nodes, weights in zip(scores.images, scores.nodes, scores.weights, strict=True):
        sums = np.bincount(np.maximum(nodes, 0), weights, len(TREE))
        found[image] = {
            TREE.labels[i]: pytest.approx(sums[i], abs=1e-9) for i in np.flatnonzero(sums > 0)
        }
    return found


class Notes(Display):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "wide.csv",
            WIDE,
            [
                "1 of 5 labels are not on the tree",
                "20.00% of all scores, for the root: 'background'",
            ],
        ),
        ("more.tsv", WIDE.replace(",", "\t").replace("a.jpg", " a.jpg "), ["'background'"]),
        (
            "dirty.csv",
            WIDE.replace("background\n", "background,note\n").replace("0.1\n", "0.1,blurred\n"),
            ["columns that are neither labels nor numbers are left out: 'note'"],
        ),
        ("long.csv", long(), ["1 of 5 labels"]),
        ("semicolons.csv", long(("Filename", "Classification", "Probability"), sep=";"), []),
        ("long.csv.gz", long(), []),
        ("bioclip.csv", BIOCLIP, ["'Amanita muscaria'"]),
        ("speciesnet4.json", speciesnet(4), ["1 images have no scores: 'c.jpg'", "'blank'"]),
        (
            "speciesnet5.json",
            speciesnet(5),
            ["2 images have several classified detections", "no scores: 'c.jpg'"],
        ),
    ],
)
def test_every_form_says_the_same(name: str, text: str, said: list[str], tmp_path: Path) -> None:
    import gzip

    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with showing(notes := Notes()):
        scores = read_scores(tmp_path / name, TREE)
    if (
        name == "bioclip.csv"
    ):  # a fungus is an animal to a tree without fungi: its scores are at the root
        assert scores.missing == ()
    assert shares(scores) == WANTED
    assert scores.missing == (("c.jpg",) if "speciesnet" in name else ())
    assert [TREE.labels[node] for node in scores.best()] == ["Anas platyrhynchos", "Larus canus"]
    for part in said:
        assert part in "\n".join(notes.said)


@pytest.mark.parametrize(
    "kind", ["jsonl", "json", "parquet", "wide.parquet", "xlsx", "frame", "pivot", "records"]
)
def test_every_container_says_the_same(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(LONG, columns=["image", "label", "score"])
    file = tmp_path / f"scores.{kind}"
    if kind == "xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(file, index=False)
    elif "parquet" in kind:
        (wide().reset_index() if kind == "wide.parquet" else frame).to_parquet(file)
    elif "json" in kind:
        frame.to_json(file, orient="records", lines=kind == "jsonl")
    given: Any = {"frame": frame, "pivot": wide(), "records": frame.to_dict("records")}.get(
        kind, file
    )
    assert shares(read_scores(given, TREE)) == WANTED


def test_an_array_with_the_names_of_its_columns() -> None:
    table = wide().fillna(0.0)
    assert list(shares(array_scores(table.to_numpy(), table.columns, TREE)).values()) == list(
        WANTED.values()
    )
    with pytest.raises(DataError, match="has no probability: nan"):
        array_scores([[np.nan, 0.2]], ["Anas", "Larus"], TREE)


def test_columns_can_be_named() -> None:
    records = [{"photo": 7, "shot": 8, "x": "mallard", "y": "gull", "z": 0.5}]
    named = {"image": "photo", "label": "x", "score": "z"}
    assert shares(read_scores(records, TREE, named)) == {
        "7": {"Anas platyrhynchos": 0.5, "Animalia": 0.5}
    }
    with pytest.raises(DataError, match="Name it with --image-column"):
        read_scores(records, TREE)


def test_homonyms_are_told_apart_by_the_ranks_above() -> None:
    tree = Taxonomy.from_paths(
        ["life/Aves/Muscicapidae/Oenanthe", "life/Magnoliopsida/Apiaceae/Oenanthe"]
    )
    record = {
        "image": "a",
        "kingdom": "",
        "class": "Magnoliopsida",
        "family": "Apiaceae",
        "genus": "Oenanthe",
    }
    scores = read_scores([{**record, "score": 1.0}], tree)
    assert tree.path(int(scores.best()[0]))[1] == "Magnoliopsida"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("a,mallard,-0.1", "row 2: 'mallard' of image 'a' has no probability: '-0.1'"),
        ("a,mallard,0.2\nb,mallard,7.3", "row 3: 'mallard' of image 'b' has no probability: '7.3'"),
        ("a,mallard,nan", "has no probability: 'nan'"),
        ("a,mallard,", "has no probability: None"),
        ("a,mallard,high", "has no probability: 'high'"),
        ("a,mallard,0.9\na,Larus canus,0.8", "row 2: the scores of image 'a' add up to 1.7"),
        (",mallard,0.2", "row 2: image '' has no scores"),
        ("a,dog,0.2\na,cat,0.3", "None of the labels is on the tree. (got \"'dog', 'cat'\")"),
    ],
)
def test_what_is_no_probability_is_refused(rows: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text(f"image,label,score\n{rows}\n")
    with pytest.raises(DataError) as error:
        read_scores(tmp_path / "scores.csv", TREE)
    assert said in str(error.value)
    assert "scores.csv" in str(error.value)
    assert "softmax" in str(error.value) or "aliases" in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("wide.csv", "image,mallard,Larus\na,0.2,0.3\nb,,\n", "row 3: image 'b' has no scores"),
        (
            "wide.csv",
            "image,mallard,Larus\na,3.1,-2.3\n",
            "row 2: 'mallard' of image 'a' has no probability: '3.1'",
        ),
        ("wide.csv", "image,mallard,Larus\na,0.2,\na,0.3,\n", "row 3: its image already has a row"),
        (
            "wide.csv",
            "image,mallard,Larus\na,0.9,high\n",
            "'larus' of image 'a' has no probability: 'high'",
        ),
        (
            "net.json",
            '{"predictions": [{"filepath": "a", "classifications": {"classes": ["x"]}}]}',
            "as SpeciesNet",
        ),
        ("net.json", '{"predictions": [{"filepath": "a"}]}', "The file has no scores."),
    ],
)
def test_broken_files_are_refused(name: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as error:
        read_scores(tmp_path / name, TREE)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "rows",
    [
        "a,mallard,0.2\na,Larus canus,0.3\na,mallard,0.25",
        "a,mallard,0.2\na,Larus canus,0.3\na,Anas platyrhynchos,0.25",
    ],
)
def test_scores_of_one_taxon_are_added_up_and_win_together(rows: str, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text(f"image,label,score\n{rows}\nb,Larus canus,1\n")
    with showing(said := Notes()):
        scores = read_scores(tmp_path / "scores.csv", TREE)
    assert shares(scores)["a"] == {"Anas platyrhynchos": 0.45, "Larus canus": 0.3, "Animalia": 0.25}
    assert TREE.labels[scores.best()[0]] == "Anas platyrhynchos"
    assert [
        text
        for text in said.said
        if "1 images have several scores of one taxon" in text and "'a'" in text
    ]


def test_labels_that_the_tree_lacks_stay_apart() -> None:
    with showing(said := Notes()):
        scores = array_scores([[0.4, 0.35, 0.25]], ["mallard", "cat", "dog"], TREE)
    assert TREE.labels[scores.best()[0]] == "Anas platyrhynchos"
    assert not [text for text in said.said if "added up" in text]


def test_the_truth_is_in_the_column_that_tells_every_node(tmp_path: Path) -> None:
    (tmp_path / "truth.csv").write_text(
        "file,label,full\na,mallard,Animalia/Aves/Anatidae/Anas/Anas platyrhynchos\n"
        "b,Oenanthe,Animalia/Mammalia/Oenanthe\n"
    )
    truth = read_truth(tmp_path / "truth.csv", TREE)
    assert {image: TREE.path(node)[-1] for image, node in truth.items()} == {
        "a": "Anas platyrhynchos",
        "b": "Oenanthe",
    }
    (tmp_path / "truth.csv").write_text("file,label\na,mallard\na,dog\n")
    with pytest.raises(
        DataError, match=r"(?s)row 3: .*'a' is already in row 2.*'dog' is not on the taxonomy"
    ):
        read_truth(tmp_path / "truth.csv", TREE)
