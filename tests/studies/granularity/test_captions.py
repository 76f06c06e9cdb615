from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.errors import DataError
from taxtune.mapping.normalize import fold_words
from taxtune.studies.granularity.captions import count_captions, read_captions
from taxtune.taxonomy import Taxonomy, restrict

TREE = Taxonomy(
    ["animal", "shark", "tiger shark", "tiger", "grey seal", "Larus", "crane", "St. Bernard", "ball (round)"],
    [-1, 0, 1, 0, 0, 0, 0, 0, 0],
    aliases=[(), (), ("Galeocerdo cuvier",), ("Panthera tigris",), (), ("gull", "sea gull"), ("whooping crane",)]
    + [()] * 2,
)


def counted(*captions: str, tree: Taxonomy = TREE) -> dict[str, int]:
    found = count_captions(captions, tree).counts
    return {tree.labels[i]: int(n) for i, n in enumerate(found) if n}


@pytest.mark.parametrize(
    ("caption", "named"),
    [
        ("A tiger and another TIGER", {"tiger": 1}),
        ("two tigers, sharks; animals!", {"tiger": 1, "shark": 1, "animal": 1}),
        ("a tigerish sharkskin coat with an animalistic look", {}),
        ("a tiger shark", {"tiger shark": 1}),
        ("a tiger-shark", {"tiger shark": 1}),
        ("a tiger shark and a tiger", {"tiger shark": 1, "tiger": 1}),
        ("tiger, shark", {"tiger": 1, "shark": 1}),
        ("I saw a tiger. Shark next", {"tiger": 1, "shark": 1}),
        ("tiger (shark)", {"tiger": 1, "shark": 1}),
        ("st bernards, a St. Bernard, a saint bernard", {"St. Bernard": 1}),
        ("ball (round) and ball round", {"ball (round)": 1}),
        ("ball round", {}),
        ("a shark tiger", {"shark": 1, "tiger": 1}),
        ("Gray Seals on ice", {"grey seal": 1}),
        ("Lârus: sea gulls", {"Larus": 1}),
        ("a whooping crane", {"crane": 1}),
    ],
)
def test_what_names_a_node(caption: str, named: dict[str, int]) -> None:
    assert counted(caption, "nothing", "an animal") == {
        **named,
        "animal": named.get("animal", 0) + 1,
    }


def test_names_inside_longer_ones_are_counted_apart() -> None:
    found = count_captions(["a tiger shark", "tiger shark, tiger", "a whooping crane"], TREE)
    by_label = dict(zip(TREE.labels, zip(found.counts.tolist(), found.inside.tolist(), strict=True), strict=True))
    assert by_label["tiger shark"] == (2, 0)
    assert by_label["tiger"] == (1, 1)
    assert by_label["shark"] == (0, 2)
    assert by_label["crane"] == (1, 0)  # the longer name is the node's own
    assert found.naming == found.captions == 3


def test_names_of_several_nodes_count_for_each() -> None:
    tree = Taxonomy(["thing", "bird", "machine", "crane", "crane", "¿"], [-1, 0, 0, 1, 2, 0], aliases=[()] * 6)
    found = count_captions(["a crane", "a bird", "", "  \t", "🦆", "cranes lifting a bird"], tree)
    assert found.counts.tolist() == [0, 2, 0, 2, 2, 0]
    assert (found.captions, found.empty, found.naming) == (4, 2, 3)
    assert (found.names, found.shared_names, found.shared_labels, found.captions_with_shared_names) == (4, 1, 2, 2)
    assert found.labels_without_words == 1


def test_names_outside_a_part_stand_in_its_way() -> None:
    whole = Taxonomy(
        ["thing", "animal", "food", "dog", "crane", "hot dog", "crane"],
        [-1, 0, 0, 1, 1, 2, 0],
        aliases=[(), (), (), (), (), ("frankfurter",), ()],
    )
    part = restrict(whole, "animal")
    captions = ["a hot dog", "a dog", "a crane", "a frankfurter"]
    found = count_captions(captions, part.tree, part)
    assert dict(zip(part.tree.labels, found.counts.tolist(), strict=True)) == {"animal": 0, "dog": 1, "crane": 1}
    assert dict(zip(part.tree.labels, found.inside.tolist(), strict=True)) == {"animal": 0, "dog": 1, "crane": 0}
    assert (found.naming, found.names, found.shared_names, found.shared_labels, found.captions_with_shared_names) == (
        2,
        3,
        1,
        1,
        1,
    )
    assert count_captions(captions, part.tree).counts.tolist() == [0, 2, 1]
    with pytest.raises(DataError, match="None of 1 captions"):
        count_captions(["a frankfurter"], part.tree, part)


def test_captions_that_say_nothing() -> None:
    with pytest.raises(DataError, match=r"All captions are empty.*3 captions"):
        count_captions(["", " ", "\n"], TREE)
    with pytest.raises(DataError, match="None of 2 captions names a label"):
        count_captions(["a house", "東京のトラ"], TREE)
    with pytest.raises(DataError, match="None of 1 captions"):
        count_captions(["¿"], Taxonomy(["¿", "¡"], [-1, 0]))


def test_ten_thousand_times_the_same_and_a_megabyte() -> None:
    found = count_captions(["a tiger"] * 10_000 + ["tiger shark " * 100_000], TREE)
    assert found.counts.tolist() == [0, 0, 1, 10_000, 0, 0, 0, 0, 0]


WORD = ["ant", "ants", "bear", "cat", "dog", "d'or", "eel"]
WORDS = st.sampled_from(WORD)


@settings(deadline=None, max_examples=150)
@given(
    names=st.lists(st.lists(WORDS, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=8),
    captions=st.lists(st.lists(st.sampled_from([*WORD, "cat, dog"]), max_size=9).map(" ".join), min_size=1, max_size=6),
)
def test_it_is_what_regular_expressions_find(names: list[str], captions: list[str]) -> None:
    """Every span of every name is found by itself; those inside another span are dropped one by one."""
    tree = Taxonomy([f"n{i}" for i in range(len(names))], [-1] + [0] * (len(names) - 1), aliases=[[n] for n in names])
    expected = np.zeros(len(names), dtype=int)
    inside = np.zeros(len(names), dtype=int)
    for caption in captions:
        text = " | ".join(" ".join(fold_words(part)) for part in caption.split(","))
        spans = [
            (match.start(1), match.end(1), node)
            for node, name in enumerate(names)
            for match in re.finditer(rf"(?=\b({re.escape(' '.join(fold_words(name)))})\b)", text)
        ]
        kept = {
            node
            for start, end, node in spans
            if not any(s <= start and end <= e and (s, e) != (start, end) for s, e, _ in spans)
        }
        expected[list(kept)] += 1
        inside[list({node for _, _, node in spans} - kept)] += 1
    if not expected.any():
        with pytest.raises(DataError):
            count_captions(captions, tree)
        return
    found = count_captions(captions, tree)
    assert found.counts.tolist() == expected.tolist()
    assert found.inside.tolist() == inside.tolist()


# -- files ------------------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_a_caption_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "c.txt", "\ufeffa dog\r\n\n  two cats \nلقطة 🐈\u2028in one line\nlast")
    assert list(read_captions(path)) == ["a dog", "", "  two cats ", "لقطة 🐈\u2028in one line", "last"]


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)])
def test_packed(tmp_path: Path, ending: str, pack: object) -> None:
    data = "a dog\na cat\n" * 40_000
    path = tmp_path / f"c.txt{ending}"
    path.write_bytes(pack(data.encode()))  # type: ignore[operator]
    assert sum(1 for _ in read_captions(path)) == 80_000
    cut = tmp_path / f"cut.txt{ending}"
    cut.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="damaged or incomplete"):
        list(read_captions(cut))


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_tables_are_read_as_the_csv_module_writes_them(tmp_path: Path, delimiter: str) -> None:
    captions = ['a "big" dog, and a cat; both', "two\nlines", "tab\there", "", "plain"]
    path = tmp_path / "c.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["url", "Text Of It", "n"])
        writer.writerows([f"u{i}", caption, i] for i, caption in enumerate(captions))
    assert list(read_captions(path, column="text_of_it")) == captions


def test_short_rows_and_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", "\nurl,caption\nu1,a dog\n\nu2\n")
    assert list(read_captions(path)) == ["a dog", ""]


def test_json_lines(tmp_path: Path) -> None:
    rows = [{"t": "a dog"}, {"t": None}, {"t": ["x", "y"]}, {"t": []}, {"t": "ends\u2028here"}]
    path = write(tmp_path / "c.ndjson", "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    assert list(read_captions(path, column="t")) == ["a dog", "", "x", "y", "", "ends\u2028here"]


def test_coco(tmp_path: Path) -> None:
    data = {"images": [], "annotations": [{"image_id": 1, "caption": "a dog\n"}, {"image_id": 1, "caption": ""}]}
    assert list(read_captions(write(tmp_path / "c.json", json.dumps(data)))) == ["a dog", ""]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("c.parquet", b"PAR1", r"c\.parquet: .*unknown suffix.*\.jsonl"),
        ("captions", b"a dog", "unknown suffix"),
        ("c.json.gz", b"", "unknown suffix"),
        ("c.txt", b"", "is empty"),
        ("c.csv", b"\n \n", "is empty"),
        ("c.csv", b"caption\n", "is empty"),
        ("c.jsonl", b"\n", "is empty"),
        ("c.txt", b"a dog\n\xff\xfecat\n", r"c\.txt:2: The captions file is not UTF-8"),
        ("c.txt", b"a dog\nca\0t\n", r"c\.txt:2: .*NUL"),
        ("c.csv", b"url,text\nu,a dog\n", r"c\.csv:1: There is no column 'caption'.*'url', 'text'; .*--caption-column"),
        ("c.csv", b"caption,Caption\na,b\n", "same name"),
        ("c.csv", b"caption\na dog\na cat, a dog\n", r"c\.csv:3: The row has 2 cells, the header 1.*double quotes"),
        ("c.csv", b'caption\n"a dog\nx"\n"a cat\nmore\n', r"c\.csv:4: The row cannot be read as CSV"),
        ("c.csv", b'caption\na dog\n"a" cat\n', r"c\.csv:3: The row cannot be read as CSV"),
        ("c.jsonl", b'{"caption": "a"}\n{"caption": \n', r"c\.jsonl:2: Invalid JSON"),
        ("c.jsonl", b'{"caption": "a"}\n["b"]\n', r"c\.jsonl:2: Input should be an object"),
        ("c.jsonl", b'{"caption": "a"}\n{"captions": "b"}\n', r"c\.jsonl:2: .*Did you mean 'captions'"),
        ("c.jsonl", b'{"caption": 7}\n', r"c\.jsonl:1: The caption is not text. \(got 7\)"),
        ("c.jsonl", b'{"caption": ["a", null, 1.5]}\n', r"c\.jsonl:1: The caption is not text. \(got 1\.5\)"),
        ("c.json", b'{"caption": "a"}\n{"caption": "b"}\n', r"Invalid JSON.*\.jsonl"),
        ("c.json", b"[1]", "Input should be an object"),
        ("c.json", b'{"annotations": [{"category_id": 1}]}', r"annotations\[0\].caption: .*instances"),
        ("c.json", b'{"annotations": []}', "is empty"),
    ],
)
def test_what_is_no_file_of_captions(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        list(read_captions(path))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="The captions file does not exist"):
        list(read_captions(tmp_path / "c.txt"))
    (tmp_path / "d.txt").mkdir()
    with pytest.raises(DataError, match="folder"):
        list(read_captions(tmp_path / "d.txt"))


def test_a_caption_of_a_megabyte(tmp_path: Path) -> None:
    long = "a very long story " * 60_000
    before = csv.field_size_limit()
    assert list(read_captions(write(tmp_path / "c.csv", f'caption\n"{long}"\nshort\n'))) == [long, "short"]
    assert csv.field_size_limit() == before
