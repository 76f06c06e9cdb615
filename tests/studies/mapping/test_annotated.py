from __future__ import annotations

import json
from pathlib import Path

import pytest

from taxtune.errors import DataError
from taxtune.studies.mapping.annotated import AnnotatedColumns, read_annotated
from taxtune.taxonomy import Taxonomy


def write(folder: Path, text: str, name: str = "placed.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def lines(*records: dict[str, object]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def test_jsonl_with_everything(tmp_path: Path, birds: Taxonomy) -> None:
    text = lines(
        {"answer": "a bird", "node": "blackbird", "also": ["life/Aves", "Turdidae"], "style": "bare", "image": "a.png"},
        {"answer": "", "node": None, "also": [], "style": "coarse", "image": "b.png"},
        {"answer": "عصفور 🐦", "node": ["life", "Aves"], "also": [], "style": "coarse", "image": "c.png"},
    )  # fmt: skip
    found = read_annotated(write(tmp_path, text, "p.jsonl"), birds, columns=AnnotatedColumns(image="image"))
    assert found.answers == ("a bird", "", "عصفور 🐦")
    assert found.targets == (4, 0, 1)
    assert found.acceptable == ({4, 1, 3}, {0}, {1})
    assert found.rows == (1, 2, 3)
    assert found.images == (tmp_path / "a.png", tmp_path / "b.png", tmp_path / "c.png")
    assert list(found.groups()) == ["coarse", "bare"]
    assert found.groups()["coarse"] == [1, 2]
    assert found.notes == ("1 of 3 answers name no node, so their target is the root",)


def test_csv_with_other_columns(tmp_path: Path, birds: Taxonomy) -> None:
    path = write(tmp_path, "said,where,or\na thrush,thrush,Aves; Passeriformes\n,thrush,\nzebra,,\n")
    columns = AnnotatedColumns("said", "where", "or", "kind")
    found = read_annotated(path, birds, columns=columns, missing="leave-out")
    assert found.acceptable == ({3, 1, 2}, {0})
    assert found.styles == (None, None)
    assert list(found.groups()) == ["–"]
    assert len(found.notes) == 2
    assert found.notes[1] == "1 of 3 rows are left out: no answer"
    left = read_annotated(path, birds, columns=columns, missing="leave-out", no_node="leave-out")
    assert left.answers == ("a thrush",)
    assert left.notes == ("1 of 3 rows are left out: no answer", "1 of 3 rows are left out: no node")
    assert left.excluded == ((3, "no answer"), (4, "no node"))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"answer": "x", "node": "dodo"}, "row 2: node: 'dodo' is not on the taxonomy"),
        ({"answer": "x", "node": 3}, "row 2: node is not a label or a path: 3"),
        ({"answer": "x"}, "row 2: node is absent"),
        ({"answer": None, "node": "bird"}, "row 2: answer is missing"),
        ({"answer": ["x"], "node": "bird"}, "row 2: answer is not text"),
        ({"answer": "x", "node": "bird", "also": ["dodo"]}, "row 2: also: 'dodo'"),
        ({"answer": "x", "node": "bird", "also": 3}, "row 2: also is not a list"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, birds: Taxonomy, record: dict[str, object], said: str) -> None:
    path = write(tmp_path, lines({"answer": "y", "node": "bird"}, record), "p.jsonl")
    with pytest.raises(DataError) as caught:
        read_annotated(path, birds)
    assert said in str(caught.value)
    assert "1 of 2 rows cannot be used" in str(caught.value)


def test_paths_of_another_tree_are_found_by_their_last_name_and_counted(tmp_path: Path, birds: Taxonomy) -> None:
    path = write(
        tmp_path, lines({"answer": "a", "node": ["Animals", "mallard"]}, {"answer": "b", "node": "mallard"}), "p.jsonl"
    )
    found = read_annotated(path, birds)
    assert found.targets[0] == found.targets[1]
    assert found.notes == ("1 of 2 nodes are paths of another tree; they were found by their last name",)


def test_bad_files(tmp_path: Path, birds: Taxonomy) -> None:
    with pytest.raises(DataError, match="empty"):
        read_annotated(write(tmp_path, ""), birds)
    with pytest.raises(DataError, match="no column 'node'"):
        read_annotated(write(tmp_path, "answer\nx\n"), birds)
    with pytest.raises(DataError, match="no column 'picture'"):
        read_annotated(write(tmp_path, "answer,node\nx,bird\n"), birds, columns=AnnotatedColumns(image="picture"))
    with pytest.raises(DataError, match="No usable rows are left"):
        read_annotated(write(tmp_path, "answer,node\n,bird\n"), birds, missing="leave-out")
    with pytest.raises(DataError, match="value for no node"):
        read_annotated(write(tmp_path, "answer,node\nx,bird\n"), birds, no_node="zero")
    with pytest.raises(DataError, match=r"node is missing; --no-node sets what that means *\nCorrect these rows\.$"):
        read_annotated(write(tmp_path, "answer,node\nx,\n"), birds, no_node="error")
    with pytest.raises(DataError, match="and 45 more: node: 'dodo'"):
        read_annotated(write(tmp_path, "answer,node\n" + "x,dodo\n" * 50), birds)
