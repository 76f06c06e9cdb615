from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from taxtune.errors import DataError
from taxtune.studies.granularity.matrices import at_leaves, read_scores
from taxtune.taxonomy import Taxonomy, restrict

TREE = Taxonomy(
    ["life", "bird", "robin", "duck", "tree", "oak"],
    [-1, 0, 1, 1, 0, 4],
    aliases=[(), ("Aves",), (), (), (), ("Quercus",)],
)
#: The columns in another order than the tree's, by label, alias and path; the root has none.
CSV = """image,label,oak,duck,Aves,life/bird/robin,tree
a.jpg,robin,0.1,0.2,0.3,0.9,0.0
b.jpg,Quercus,0.8,0.1,0.2,0.3,0.4
"""


def write(folder: Path, text: str, name: str = "scores.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def npz(folder: Path, **changed: object) -> Path:
    arrays: dict[str, object] = {
        "scores": np.zeros((2, 5)),
        "labels": np.array(["bird", "robin", "duck", "tree", "oak"]),
        "targets": np.array(["oak", "duck"]),
    }
    arrays |= changed
    path = folder / "s.npz"
    np.savez(
        path, **{name: np.asarray(value) for name, value in arrays.items() if value is not None}
    )
    return path


def test_csv_columns_find_their_nodes(tmp_path: Path) -> None:
    for text in (CSV, CSV.replace(",", ";"), CSV.replace("\n", "\r\n").replace("image", " image")):
        matrix = read_scores(write(tmp_path, text), TREE)
        assert matrix.targets.tolist() == [2, 5]
        assert matrix.scores[0, 1:] == pytest.approx([0.3, 0.9, 0.2, 0.0, 0.1])
        assert matrix.image_embeddings is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            CSV.replace("0.9", ""),
            r"csv: The score of 'a.jpg' under 'life/bird/robin' is not a finite",
        ),
        (CSV.replace("0.8", "high"), "'b.jpg' under 'oak' is not a finite.*score it again"),
        (CSV.replace(",0.0\n", ",0.0,7\n"), "cannot be read as CSV"),
        (CSV.replace("Quercus,0.8", "elm,0.8"), "elm"),
        (CSV.replace(",tree", ",shrub"), "shrub"),
        (CSV.replace(",tree", ",Quercus"), "'oak' and 'Quercus' are the same node"),
        (
            "image,label,oak,duck,robin,tree\na,oak,1,2,3,4\n",
            "1 of 6 nodes .*have no column.*'life/bird'",
        ),
        (CSV.replace("b.jpg", "a.jpg"), "An image is in the score file twice.*a.jpg"),
        (CSV.replace("image,", "picture,"), "columns `image` and `label`"),
        ("image,label,oak\n", "table of numbers"),
        ("", "empty"),
        (CSV.replace("Quercus,0", "robin,0"), "do not show two leaves"),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=f"(?s){said}"):
        at_leaves(read_scores(write(tmp_path, text), TREE), TREE)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"targets": None}, "no array 'targets'"),
        ({"targets": ["oak"]}, "`targets` must have 2 entries"),
        ({"scores": np.zeros(5)}, "table of numbers"),
        ({"scores": np.full((2, 5), math.nan)}, "'image 1' under 'bird'"),
        ({"scores": np.zeros((0, 5)), "targets": np.array([], dtype=str)}, "table of numbers"),
        ({"image_embeddings": np.ones((2, 3))}, "a finite vector for each"),
        (
            {"image_embeddings": np.ones((2, 3)), "label_embeddings": np.ones((5, 4))},
            "a finite vector for each",
        ),
        (
            {"image_embeddings": np.zeros((2, 3)), "label_embeddings": np.ones((5, 3))},
            "none all zeros",
        ),
        ({"targets": ["bird", "tree"]}, "do not show two leaves"),
    ],
)
def test_bad_npz(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match=f"(?s){said}"):
        at_leaves(read_scores(npz(tmp_path, **changed), TREE), TREE)


@pytest.mark.parametrize("kind", ["npz", "csv"])
def test_no_digit_is_lost_that_tells_two_images_apart(tmp_path: Path, kind: str) -> None:
    near = 1 - np.array([3e-12, 2e-12, 1e-12])[:, np.newaxis] * np.ones((1, 5))
    if kind == "npz":
        path = npz(tmp_path, scores=near, targets=["oak", "duck", "robin"])
    else:
        rows = "".join(
            f"{i},oak,{','.join(map(repr, row))}\n" for i, row in enumerate(near.tolist())
        )
        path = write(tmp_path, f"image,label,bird,robin,duck,tree,oak\n{rows}")
    read = read_scores(path, TREE).scores[:, 1]
    assert read[0] < read[1] < read[2]
    halves = np.array([[0.5, 0.25, 1, 2, 3]] * 2, dtype=np.float16)
    assert read_scores(npz(tmp_path, scores=halves), TREE).scores.dtype == np.float32


def test_a_part_of_the_tree_takes_its_columns_and_images(tmp_path: Path) -> None:
    part = restrict(TREE, "bird")
    vectors = np.arange(1, 16, dtype=float).reshape(5, 3)
    path = npz(
        tmp_path,
        scores=np.arange(15, dtype=float).reshape(3, 5),
        targets=np.array([b"oak", b"robin", b"life/bird/duck"]),
        image_embeddings=np.eye(3),
        label_embeddings=vectors,
    )
    read = read_scores(path, part.tree, part)
    columns = {part.tree.labels[i]: read.scores[:, i].tolist() for i in range(len(part.tree))}
    assert columns == {"bird": [5, 10], "robin": [6, 11], "duck": [7, 12]}
    assert [part.tree.labels[i] for i in read.targets.tolist()] == ["robin", "duck"]
    assert read.image_embeddings is not None
    assert read.image_embeddings.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert read.label_embeddings is not None
    duck = part.tree.labels.index("duck")
    assert read.label_embeddings[duck] == pytest.approx(vectors[2] / np.linalg.norm(vectors[2]))
    assert read.notes == (
        f"{path}: 1 of 3 images are left out: label outside bird",
        f"{path}: 2 of 5 columns are left out: node outside bird",
    )
    with pytest.raises(DataError, match="No image shows a node of the selected part"):
        read_scores(npz(tmp_path, targets=["oak", "oak"]), part.tree, part)


def test_files_that_are_none_and_images_of_inner_nodes(tmp_path: Path) -> None:
    for name in ("none.npz", "none.csv"):
        with pytest.raises(DataError, match="The score file does not exist"):
            read_scores(tmp_path / name, TREE)
    with pytest.raises(DataError, match="cannot be read"):
        read_scores(write(tmp_path, "no zip", "s.npz"), TREE)
    text = CSV + "c.jpg,bird,0.1,0.2,0.3,0.4,0.5\n"
    kept = at_leaves(read_scores(write(tmp_path, text), TREE), TREE)
    assert kept.scores.shape == (2, 6)
    assert kept.notes == ("1 of 3 images left out: their label is not a leaf of the taxonomy.",)
