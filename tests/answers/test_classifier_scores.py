"""A classifier's scores, in every form that they come in."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from taxtune.answers.classifier_scores import array_scores, read_scores, read_truth
from taxtune.errors import DataError
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
DIRTY = WIDE.replace("background\n", "background,note\n").replace("0.1\n", "0.1,blurred\n")
LONG = """image,label,score
a.jpg,mallard,0.7
b.jpg,Larus canus,0.5
a.jpg,Anas crecca,0.1
a.jpg,Animalia/Aves/Anatidae/Anas,0.05
b.jpg,background,0.3
"""
BIOCLIP = """file_name,kingdom,phylum,class,order,family,genus,species_epithet,species,common_name,score
a.jpg,Animalia,Chordata,Aves,Anseriformes,Anatidae,Anas,platyrhynchos domesticus,Anas platyrhynchos domesticus,,0.7
a.jpg,Animalia,Chordata,Aves,Anseriformes,Anatidae,Anas,crecca,Anas crecca,Kodiak teal,0.1
a.jpg,Animalia,Chordata,Aves,Anseriformes,Anatidae,Anas,strepera,Anas strepera,,0.05
b.jpg,Animalia,Chordata,Aves,Charadriiformes,Laridae,Larus,canus,Larus canus,,0.5
b.jpg,Fungi,Basidiomycota,Agaricomycetes,Agaricales,Amanitaceae,Amanita,muscaria,Amanita muscaria,fly agaric,0.3
"""


FRAME = pd.read_csv(io.StringIO(LONG))
PIVOT = FRAME.pivot(index="image", columns="label", values="score")
RENAMED = FRAME.set_axis(["Filename", "Classification", "Probability"], axis=1)
DUCK = "Anas platyrhynchos"


def scored(scores):
    return {"classes": list(scores), "scores": list(scores.values())}


def speciesnet(predictions):
    failed = {"filepath": "c.jpg", "failures": ["CLASSIFIER"]}
    return json.dumps({"info": {}, "predictions": [failed, *predictions]}, indent=1)


BOX = {"category": "1", "conf": 0.9, "bbox": [0, 0, 1, 1]}
DUCKS = {
    "u1;aves;anseriformes;anatidae;anas;platyrhynchos;a duck": 0.7,
    "u2;aves;anseriformes;anatidae;anas;;anas species": 0.05,
    "u3;aves;anseriformes;anatidae;anas;acuta;green-winged teal": 0.1,
}
GULL = {"u4;aves;charadriiformes;laridae;larus;canus;mew gull": 0.5, "f1;;;;;;blank": 0.3}


def speciesnet4():
    """Returns the file of SpeciesNet 4: one classification for each image."""
    predictions = []
    for name, classes in zip(WANTED, (DUCKS, GULL), strict=True):
        prediction = {"filepath": name, "detections": [BOX], "prediction": "x"}
        predictions.append(prediction | {"classifications": scored(classes)})
    return speciesnet(predictions)


def speciesnet5():
    """Returns the file of SpeciesNet 5: one classification for each box, of which the first counts."""
    predictions = []
    for name, classes in zip(WANTED, (DUCKS, GULL), strict=True):
        boxes = [BOX | {"raw_classifications": scored(each)} for each in (classes, DUCKS)]
        predictions.append({"filepath": name, "detections": [*boxes, BOX]})
    return speciesnet(predictions)


def shares(scores):
    """Returns the weight of each image at each node; what is unsaid is at the root."""
    by_image = {}
    for image, nodes, weights in zip(scores.images, scores.nodes, scores.weights, strict=True):
        own = Counter()
        for node, weight in zip(nodes, weights, strict=True):
            own[TREE.labels[max(node, 0)]] += weight
        by_image[image] = pytest.approx(+own, abs=1e-9)
    return by_image


def best_labels(scores):
    return [TREE.labels[node] for node in scores.best()]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("wide.csv", WIDE, ["1 of 5 labels are not on the tree", "20.00% of all scores, for the"]),
        ("more.tsv", WIDE.replace(",", "\t").replace("a.jpg", " a.jpg "), ["'background'"]),
        ("dirty.csv", DIRTY, ["columns that are neither labels nor numbers are left out: 'note'"]),
        ("long.csv", LONG, ["1 of 5 labels"]),
        ("semicolons.csv", RENAMED.to_csv(index=False, sep=";"), []),
        ("long.csv.gz", LONG, []),
        ("bioclip.csv", BIOCLIP, ["'Amanita muscaria'"]),
        ("speciesnet4.json", speciesnet4(), ["1 images have no scores: 'c.jpg'", "'blank'"]),
        ("speciesnet5.json", speciesnet5(), ["2 images have several", "no scores: 'c.jpg'"]),
    ],
)
def test_every_form_says_the_same(name, text, said, tmp_path, notes):
    data = text.encode()
    file = tmp_path / name
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)
    scores = read_scores(file, TREE)
    # A fungus is an animal to a tree without fungi: its scores are at the root.
    assert shares(scores) == WANTED
    assert scores.missing == (("c.jpg",) if "speciesnet" in name else ())
    assert best_labels(scores) == [DUCK, "Larus canus"]
    for part in said:
        assert part in "\n".join(notes)


@pytest.mark.parametrize(
    "kind", ["jsonl", "json", "parquet", "wide.parquet", "xlsx", "frame", "pivot", "records"]
)
def test_every_container_says_the_same(kind, tmp_path):
    file = tmp_path / f"scores.{kind}"
    source = file
    match kind:
        case "xlsx":
            pytest.importorskip("openpyxl")
            FRAME.to_excel(file, index=False)
        case "parquet":
            FRAME.to_parquet(file)
        case "wide.parquet":
            PIVOT.reset_index().to_parquet(file)
        case "frame":
            source = FRAME
        case "pivot":
            source = PIVOT
        case "records":
            source = FRAME.to_dict("records")
        case _:
            FRAME.to_json(file, orient="records", lines=kind == "jsonl")
    assert shares(read_scores(source, TREE)) == WANTED


def test_an_array_with_the_names_of_its_columns():
    table = PIVOT.fillna(0.0)
    scores = array_scores(table.to_numpy(), table.columns, TREE)
    assert shares(scores) == {"0": WANTED["a.jpg"], "1": WANTED["b.jpg"]}
    with pytest.raises(DataError, match="has no probability: nan"):
        array_scores([[np.nan, 0.2]], ["Anas", "Larus"], TREE)


def test_columns_can_be_named():
    records = [{"photo": 7, "shot": 8, "x": "mallard", "y": "gull", "z": 0.5}]
    named = {"image": "photo", "label": "x", "score": "z"}
    scores = read_scores(records, TREE, named)
    assert shares(scores) == {"7": {DUCK: 0.5, "Animalia": 0.5}}
    with pytest.raises(DataError, match="Name it with --image-column"):
        read_scores(records, TREE)


def test_homonyms_are_told_apart_by_the_ranks_above():
    paths = ["life/Aves/Muscicapidae/Oenanthe", "life/Magnoliopsida/Apiaceae/Oenanthe"]
    tree = Taxonomy.from_paths(paths)
    ranks = {"kingdom": "", "class": "Magnoliopsida", "family": "Apiaceae", "genus": "Oenanthe"}
    scores = read_scores([{"image": "a", **ranks, "score": 1.0}], tree)
    (node,) = scores.best()
    assert "Magnoliopsida" in tree.path(node)


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
def test_what_is_no_probability_is_refused(rows, said, tmp_path):
    file = tmp_path / "scores.csv"
    file.write_text(f"image,label,score\n{rows}\n")
    with pytest.raises(DataError) as error:
        read_scores(file, TREE)
    message = str(error.value)
    assert said in message
    assert "scores.csv" in message
    assert "softmax" in message or "aliases" in message


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,0.2,0.3\nb,,", "row 3: image 'b' has no scores"),
        ("a,3.1,-2.3", "row 2: 'mallard' of image 'a' has no probability: '3.1'"),
        ("a,0.2,\na,0.3,", "row 3: its image already has a row"),
        ("a,0.9,high", "'larus' of image 'a' has no probability: 'high'"),
    ],
)
def test_wrong_rows_of_a_wide_file_are_named(rows, message, tmp_path):
    file = tmp_path / "wide.csv"
    file.write_text(f"image,mallard,Larus\n{rows}\n")
    with pytest.raises(DataError, match=message):
        read_scores(file, TREE)


@pytest.mark.parametrize(
    ("facts", "message"),
    [({"classifications": {"classes": ["x"]}}, "as SpeciesNet"), ({}, "The file has no scores.")],
)
def test_a_json_file_without_scores_is_refused(facts, message, tmp_path):
    file = tmp_path / "net.json"
    file.write_text(json.dumps({"predictions": [{"filepath": "a"} | facts]}))
    with pytest.raises(DataError, match=message):
        read_scores(file, TREE)


@pytest.mark.parametrize(
    "rows",
    [
        "a,mallard,0.2\na,Larus canus,0.3\na,mallard,0.25",
        "a,mallard,0.2\na,Larus canus,0.3\na,Anas platyrhynchos,0.25",
    ],
)
def test_scores_of_one_taxon_are_added_up_and_win_together(rows, tmp_path, notes):
    file = tmp_path / "scores.csv"
    file.write_text(f"image,label,score\n{rows}\nb,Larus canus,1\n")
    scores = read_scores(file, TREE)
    assert shares(scores)["a"] == {DUCK: 0.45, "Larus canus": 0.3, "Animalia": 0.25}
    assert best_labels(scores)[0] == DUCK
    (note,) = notes
    assert "1 images have several scores of one taxon" in note
    assert "'a'" in note


def test_labels_that_the_tree_lacks_stay_apart(notes):
    scores = array_scores([[0.4, 0.35, 0.25]], ["mallard", "cat", "dog"], TREE)
    assert best_labels(scores)[0] == DUCK
    assert "added up" not in "\n".join(notes)


def test_the_truth_is_in_the_column_that_tells_every_node(tmp_path):
    file = tmp_path / "truth.csv"
    file.write_text(
        "file,label,full\n"
        "a,mallard,Animalia/Aves/Anatidae/Anas/Anas platyrhynchos\n"
        "b,Oenanthe,Animalia/Mammalia/Oenanthe\n"
    )
    truth = read_truth(file, TREE)
    labels = {image: TREE.labels[node] for image, node in truth.items()}
    assert labels == {"a": DUCK, "b": "Oenanthe"}
    file.write_text("file,label\na,mallard\na,dog\n")
    problems = r"(?s)row 3: .*'a' is already in row 2.*'dog' is not on the taxonomy"
    with pytest.raises(DataError, match=problems):
        read_truth(file, TREE)
