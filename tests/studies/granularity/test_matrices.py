"""Reading score matrices from CSV and .npz files."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from taxtune.errors import DataError
from taxtune.studies.granularity.matrices import at_leaves, read_scores
from taxtune.taxonomy import Taxonomy, restrict

ALIASES = {"bird": ["Aves"], "oak": ["Quercus"]}
PATHS = ["life/bird/robin", "life/bird/duck", "life/tree/oak"]
TREE = Taxonomy.from_paths(PATHS, aliases=ALIASES)
#: The columns in another order than the tree's, by label, alias and path; the root has none.
CSV = """image,label,oak,duck,Aves,life/bird/robin,tree
a.jpg,robin,0.1,0.2,0.3,0.9,0.0
b.jpg,Quercus,0.8,0.1,0.2,0.3,0.4
"""


LABELS = ["bird", "robin", "duck", "tree", "oak"]


def write(folder, text, name="scores.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def npz(folder, **changed):
    """Writes scores of two images of an oak and a duck, with some arrays changed, or left out where they are None."""
    arrays = {"scores": np.zeros((2, 5)), "labels": LABELS, "targets": ["oak", "duck"]}
    arrays |= changed
    path = folder / "s.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def read(path):
    """Reads the images whose label is a leaf."""
    return at_leaves(read_scores(path, TREE), TREE)


@pytest.mark.parametrize(
    ("old", "new"), [(",", ","), (",", ";"), ("\n", "\r\n"), ("image", " image")]
)
def test_csv_columns_find_their_nodes(tmp_path, old, new):
    matrix = read_scores(write(tmp_path, CSV.replace(old, new)), TREE)
    assert matrix.targets.tolist() == [2, 5]
    assert matrix.scores[0, 1:] == pytest.approx([0.3, 0.9, 0.2, 0.0, 0.1])
    assert matrix.image_embeddings is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.9", "", r"csv: The score of 'a.jpg' under 'life/bird/robin' is not a finite"),
        ("0.8", "high", "'b.jpg' under 'oak' is not a finite.*score it again"),
        (",0.0\n", ",0.0,7\n", "cannot be read as CSV"),
        ("Quercus,0.8", "elm,0.8", "elm"),
        (",tree", ",shrub", "shrub"),
        (",tree", ",Quercus", "'oak' and 'Quercus' are the same node"),
        ("b.jpg", "a.jpg", "An image is in the score file twice.*a.jpg"),
        ("image,", "picture,", "columns `image` and `label`"),
        ("Quercus,0", "robin,0", "do not show two leaves"),
        (CSV, "image,label,oak,duck,robin,tree\na,oak,1,2,3,4\n", "1 of 6 nodes .*'life/bird'"),
        (CSV, "image,label,oak\n", "table of numbers"),
        (CSV, "", "empty"),
    ],
)
def test_bad_csv(tmp_path, old, new, message):
    with pytest.raises(DataError, match=f"(?s){message}"):
        read(write(tmp_path, CSV.replace(old, new)))


IMAGES, OF_LABELS = "image_embeddings", "label_embeddings"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"targets": None}, "no array 'targets'"),
        ({"targets": ["oak"]}, "`targets` must have 2 entries"),
        ({"scores": np.zeros(5)}, "table of numbers"),
        ({"scores": np.full((2, 5), math.nan)}, "'image 1' under 'bird'"),
        ({"scores": np.zeros((0, 5)), "targets": np.array([], dtype=str)}, "table of numbers"),
        ({IMAGES: np.ones((2, 3))}, "a finite vector for each"),
        ({IMAGES: np.ones((2, 3)), OF_LABELS: np.ones((5, 4))}, "a finite vector for each"),
        ({IMAGES: np.zeros((2, 3)), OF_LABELS: np.ones((5, 3))}, "none all zeros"),
        ({"targets": ["bird", "tree"]}, "do not show two leaves"),
    ],
)
def test_bad_npz(tmp_path, changed, message):
    with pytest.raises(DataError, match=f"(?s){message}"):
        read(npz(tmp_path, **changed))


@pytest.mark.parametrize("kind", ["npz", "csv"])
def test_no_digit_is_lost_that_tells_two_images_apart(tmp_path, kind):
    near = np.ones((3, 5)) - [[3e-12], [2e-12], [1e-12]]
    if kind == "npz":
        path = npz(tmp_path, scores=near, targets=["oak", "duck", "robin"])
    else:
        table = pd.DataFrame(near, columns=LABELS).assign(label="oak")
        path = write(tmp_path, table.to_csv(index_label="image"))
    first, second, third = read_scores(path, TREE).scores[:, 1]
    assert first < second < third


def test_half_precision_is_widened(tmp_path):
    path = npz(tmp_path, scores=np.zeros((2, 5), dtype=np.float16))
    assert read_scores(path, TREE).scores.dtype == np.float32


def test_a_part_of_the_tree_takes_its_columns_and_images(tmp_path):
    part = restrict(TREE, "bird")
    scores = np.arange(15, dtype=float).reshape(3, 5)
    vectors = np.arange(1, 16, dtype=float).reshape(5, 3)
    arrays = {"scores": scores, "image_embeddings": np.eye(3), "label_embeddings": vectors}
    path = npz(tmp_path, targets=[b"oak", b"robin", b"life/bird/duck"], **arrays)
    matrix = read_scores(path, part.tree, part)
    labels = part.tree.labels
    columns = dict(zip(labels, matrix.scores.T.tolist(), strict=True))
    assert columns == {"bird": [5, 10], "robin": [6, 11], "duck": [7, 12]}
    assert [labels[node] for node in matrix.targets] == ["robin", "duck"]
    assert matrix.image_embeddings.tolist() == [[0, 1, 0], [0, 0, 1]]
    duck = matrix.label_embeddings[labels.index("duck")]
    assert duck == pytest.approx(vectors[2] / np.linalg.norm(vectors[2]))
    images, nodes = matrix.notes
    assert images == f"{path}: 1 of 3 images are left out: label outside bird"
    assert nodes == f"{path}: 2 of 5 columns are left out: node outside bird"
    with pytest.raises(DataError, match="No image shows a node of the selected part"):
        read_scores(npz(tmp_path, targets=["oak", "oak"]), part.tree, part)


@pytest.mark.parametrize("name", ["none.npz", "none.csv"])
def test_there_is_no_such_file(tmp_path, name):
    with pytest.raises(DataError, match="The score file does not exist"):
        read_scores(tmp_path / name, TREE)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_scores(write(tmp_path, "no zip", "s.npz"), TREE)


def test_images_of_inner_nodes_are_left_out(tmp_path):
    kept = read(write(tmp_path, CSV + "c.jpg,bird,0.1,0.2,0.3,0.4,0.5\n"))
    assert kept.scores.shape == (2, 6)
    assert kept.notes == ("1 of 3 images left out: their label is not a leaf of the taxonomy.",)
