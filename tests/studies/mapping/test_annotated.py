from __future__ import annotations

import json
from pathlib import Path

import pytest

from taxtune.errors import DataError
from taxtune.studies.mapping.annotated import read_annotated
from taxtune.studies.settings import TreeSettings
from taxtune.taxonomy import Taxonomy


def write(folder: Path, content: str | list[dict[str, object]]) -> Path:
    path = folder / ("placed.csv" if isinstance(content, str) else "placed.jsonl")
    text = content if isinstance(content, str) else "".join(json.dumps(record) + "\n" for record in content)
    path.write_text(text, encoding="utf-8")
    return path


def test_jsonl_with_everything(tmp_path: Path, birds: Taxonomy) -> None:
    records: list[dict[str, object]] = [
        {"answer": "a bird", "node": "blackbird", "also": ["life/Aves", "Turdidae"], "style": "bare"},
        {"answer": "", "node": None, "also": [], "style": "coarse"},
        {"answer": "عصفور 🐦", "node": ["Animals", "Aves"], "also": []},
    ]
    read = read_annotated(write(tmp_path, records), birds)
    assert read.frame["answer"].tolist() == ["a bird", "", "عصفور 🐦"]
    assert read.frame["target"].tolist() == [4, 0, 1]
    assert read.frame["acceptable"].tolist() == [{4, 1, 3}, {0}, {1}]
    assert read.frame["row"].tolist() == [1, 2, 3]
    assert read.frame["style"].tolist() == ["bare", "coarse", None]
    assert [note[:6] for note in read.notes] == ["1 of 3"] * 2
    assert "the root" in read.notes[0]
    assert "path of another tree" in read.notes[1]


def test_csv_whose_rows_lack_an_answer_or_a_node(tmp_path: Path, birds: Taxonomy) -> None:
    path = write(tmp_path, "answer,node,also\na thrush,thrush,Aves; Passeriformes\n,thrush,\nzebra,,\n")
    read = read_annotated(path, birds)
    assert read.frame["acceptable"].tolist() == [{3, 1, 2}, {0}]
    assert read.frame["style"].tolist() == [None, None]
    assert "1 of 3 rows are left out: no answer" in read.notes
    assert read.excluded == ({"file": str(path), "row": 3, "reason": "no answer"},)


def test_nodes_outside_a_part_are_left_out_and_counted(tmp_path: Path, birds: Taxonomy) -> None:
    _, part = TreeSettings(taxonomy=birds, root="thrush").read_tree()
    assert part is not None
    path = write(tmp_path, "answer,node,also\na duck,mallard,\na thrush,blackbird,mallard\nno idea,,\n")
    read = read_annotated(path, part.tree, part=part)
    assert read.frame["target"].map(part.tree.labels.__getitem__).tolist() == ["Turdus merula", "Turdidae"]
    assert read.excluded == ({"file": str(path), "row": 2, "reason": "node outside Turdidae"},)
    assert any("acceptable nodes outside Turdidae" in note for note in read.notes)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"answer": "x", "node": "dodo"}, "row 2: node: 'dodo' is not on the taxonomy"),
        ({"answer": "x", "node": 3}, "row 2: node is not a label or a path: 3"),
        ({"answer": ["x"], "node": "bird"}, "row 2: answer is not text"),
        ({"answer": "x", "node": "bird", "also": ["dodo"]}, "row 2: also: 'dodo'"),
        ({"answer": "x", "node": "bird", "also": 3}, "row 2: also is not a label"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, birds: Taxonomy, record: dict[str, object], said: str) -> None:
    path = write(tmp_path, [{"answer": "y", "node": "bird"}, record])
    with pytest.raises(DataError) as caught:
        read_annotated(path, birds)
    assert said in str(caught.value)
    assert "1 of 2 rows cannot be used" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("answer\nx\n", "no column 'node'"),
        ("answer,node\n,bird\n", "No usable rows are left"),
        ("answer,node\n" + "x,dodo\n" * 50, "and 45 more: node: 'dodo'"),
    ],
)
def test_bad_files(tmp_path: Path, birds: Taxonomy, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_annotated(write(tmp_path, text), birds)
