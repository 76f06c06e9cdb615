from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from taxtune.errors import DataError
from taxtune.mapping.normalize import fold_words
from taxtune.studies.granularity.frequency import (
    correlate,
    count_captions,
    draw_frequency,
    frequency_report,
    read_captions,
)
from taxtune.studies.granularity.hierarchy import Granularity
from taxtune.studies.granularity.matrices import label_frame
from taxtune.taxonomy import Taxonomy, restrict

NAMES = Taxonomy(
    [
        "animal",
        "shark",
        "tiger shark",
        "tiger",
        "grey seal",
        "Larus",
        "crane",
        "St. Bernard",
        "ball (round)",
    ],
    [-1, 0, 1, 0, 0, 0, 0, 0, 0],
    aliases=[
        (),
        (),
        ("Galeocerdo cuvier",),
        ("Panthera tigris",),
        (),
        ("gull", "sea gull"),
        ("whooping crane",),
    ]
    + [()] * 2,
)


@pytest.mark.parametrize(
    ("caption", "named"),
    [
        ("A tiger and another TIGER", {"tiger": 1}),
        ("two tigers, sharks; animals!", {"tiger": 1, "shark": 1, "animal": 1}),
        ("a tigerish sharkskin coat with an animalistic look", {}),
        ("a tiger-shark", {"tiger shark": 1}),
        ("a tiger shark and a tiger", {"tiger shark": 1, "tiger": 1}),
        ("I saw a tiger. Shark next", {"tiger": 1, "shark": 1}),
        ("st bernards, a St. Bernard, a saint bernard", {"St. Bernard": 1}),
        ("ball (round) and ball round", {"ball (round)": 1}),
        ("Gray Seals on ice", {"grey seal": 1}),
        ("Lârus: sea gulls", {"Larus": 1}),
    ],
)
def test_what_names_a_node(caption: str, named: dict[str, int]) -> None:
    counts = count_captions([caption, "nothing", "an animal"], NAMES).labels["captions"]
    counted = {label: n for label, n in zip(NAMES.labels, counts.tolist(), strict=True) if n}
    assert counted == {**named, "animal": named.get("animal", 0) + 1}


def test_names_of_several_nodes_count_for_each() -> None:
    tree = Taxonomy(
        ["thing", "bird", "machine", "crane", "crane", "¿"], [-1, 0, 0, 1, 2, 0], aliases=[()] * 6
    )
    counts = count_captions(["a crane", "a bird", "", "  \t", "🦆", "cranes lifting a bird"], tree)
    assert counts.labels["captions"].tolist() == [0, 2, 0, 2, 2, 0]
    assert (counts.captions, counts.naming) == (4, 3)
    assert [note.rpartition(": ")[2] for note in counts.notes[1:]] == ["2.", "1."]


def test_names_outside_a_part_stand_in_its_way() -> None:
    labels = ["thing", "animal", "food", "dog", "crane", "hot dog", "crane"]
    whole = Taxonomy(labels, [-1, 0, 0, 1, 1, 2, 0], aliases=[*[()] * 5, ("frankfurter",), ()])
    part = restrict(whole, "animal")
    captions, tree = ["a hot dog", "a dog", "a crane", "a frankfurter"], part.tree
    counted = count_captions(captions, tree, part).labels
    assert counted[["captions", "inside_longer_names"]].to_numpy().tolist() == [
        [0, 0],
        [1, 1],
        [1, 0],
    ]
    assert count_captions(captions, tree).labels["captions"].tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("captions", "said"),
    [
        (["", " ", "\n"], "All captions are empty.*3 captions"),
        (["a house", "東京のトラ"], "None of 2 captions names"),
    ],
)
def test_captions_that_say_nothing(captions: list[str], said: str) -> None:
    with pytest.raises(DataError, match=said):
        count_captions(captions, NAMES)


WORD = ["ant", "ants", "bear", "cat", "dog", "d'or", "eel"]
WORDS = st.sampled_from(WORD)


@settings(deadline=None, max_examples=150)
@given(
    names=st.lists(st.lists(WORDS, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=8),
    captions=st.lists(
        st.lists(st.sampled_from([*WORD, "cat, dog"]), max_size=9).map(" ".join),
        min_size=1,
        max_size=6,
    ),
)
def test_it_is_what_regular_expressions_find(names: list[str], captions: list[str]) -> None:
    """Every span of every name is found by itself; those inside another span are dropped one by one."""
    tree = Taxonomy(
        [f"n{i}" for i in range(len(names))],
        [-1] + [0] * (len(names) - 1),
        aliases=[[n] for n in names],
    )
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
        return
    counted = count_captions(captions, tree).labels
    assert counted["captions"].tolist() == expected.tolist()
    assert counted["inside_longer_names"].tolist() == inside.tolist()


# -- files ------------------------------------------------------------------------------------------------------------


def test_files_of_captions(tmp_path: Path) -> None:
    lines = tmp_path / "c.txt"
    lines.write_text(
        "\ufeffa dog\r\n\n  two cats \nلقطة 🐈\u2028in one line\nlast", encoding="utf-8", newline=""
    )
    assert read_captions(lines) == ["a dog", "", "  two cats ", "لقطة 🐈\u2028in one line", "last"]
    captions = ['a "big" dog, and a cat; both', "two\nlines", "tab\there", "", "plain"]
    table = tmp_path / "c.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows(
            [["url", "Text Of It"], *(["u", caption] for caption in captions)]
        )
    assert read_captions(table, column="Text Of It") == captions
    rows = [{"t": "a dog"}, {"t": None}, {"t": ["x", "y"]}, {"t": "ends\u2028here"}]
    (tmp_path / "c.jsonl").write_text(
        "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    )
    assert read_captions(tmp_path / "c.jsonl", column="t") == [
        "a dog",
        "",
        "x",
        "y",
        "ends\u2028here",
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("c.txt", b"", "is empty"),
        ("c.txt", b"a dog\n\xff\xfecat\n", r"c\.txt:2: The captions file is not UTF-8"),
        (
            "c.csv",
            b"url,text\nu,a dog\n",
            r"c\.csv:2: There is no column 'caption'.*'url', 'text': .*--caption-column",
        ),
        (
            "c.csv",
            b"caption\na dog\na cat, a dog\n",
            r"c\.csv:3: The row has 2 cells, the header 1.*double quotes",
        ),
        ("c.jsonl", b'{"caption": "a"}\n{"captions": "b"}\n', r"c\.jsonl:2: There is no column"),
        ("c.jsonl", b'{"caption": ["a", null, 1.5]}\n', r"c\.jsonl:1: The caption is not text"),
        ("none.txt", None, "The captions file does not exist"),
    ],
)
def test_what_is_no_file_of_captions(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_captions(tmp_path / name)


# -- gaps and correlations --------------------------------------------------------------------------------------------

#: thing / animal (cat / (lion, tiger), dog), food (apple, bread); "dog" and the foods are leaves.
TREE = Taxonomy(
    ["thing", "animal", "food", "cat", "dog", "apple", "bread", "lion", "tiger"],
    [-1, 0, 0, 1, 1, 2, 2, 3, 3],
)
CAPTIONS = [
    "a lion",
    "lions",
    "a lion and a tiger",
    "a cat",
    "a dog",
    "bread",
    "food: bread",
    "some bread",
    "nothing",
]
RAW = {"thing": 1.0, "animal": 0.2, "food": 0.5, "cat": 0.4}
BY_LEAF = {"thing": 1.0, "animal": 0.7, "food": 0.4, "cat": 0.5}


def result(raw: dict[str, float], leaf: dict[str, float]) -> Granularity:
    """Average precisions as they might be: of 10 images all show "thing"."""
    labels = label_frame(TREE).assign(images=[10, *[3] * 8])
    labels["in_mean"] = [label in raw for label in TREE.labels]
    for column, values in (("raw", raw), ("child", leaf), ("leaf", leaf)):
        labels[column] = pd.Series(TREE.labels).map(values).to_numpy(dtype=float)
    return Granularity("made", 10, labels, {}, [])


def test_gaps_by_hand() -> None:
    labels = count_captions(CAPTIONS, TREE).labels
    assert labels["captions"].tolist() == [0, 0, 1, 1, 1, 0, 3, 3, 1]
    assert labels["mean_of_leaves"].tolist() == pytest.approx([8 / 5, 5 / 3, 1.5, 2, 1, 0, 3, 3, 1])
    gaps = [math.log10(2.6), math.log10(5 / 3 + 1), math.log10(2.5 / 2), math.log10(3 / 2)]
    assert labels["gap"].tolist()[:4] == pytest.approx(gaps)
    assert labels["gap"][4:].isna().all()


def test_the_correlation_is_that_of_the_ancestors() -> None:
    row, ancestors = correlate(result(RAW, BY_LEAF), count_captions(CAPTIONS, TREE).labels)
    assert ancestors.index.tolist() == [1, 2, 3]
    gaps, gains = [math.log10(8 / 3), math.log10(1.25), math.log10(1.5)], [0.5, -0.1, 0.1]
    # The covariance over the deviations, from the definition, and Student's t on n − 2 degrees of freedom.
    x, y = np.array(gaps) - np.mean(gaps), np.array(gains) - np.mean(gains)
    assert row["Pearson r"] == pytest.approx(
        float((x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum()))
    )
    t = row["Pearson r"] * math.sqrt(1 / (1 - row["Pearson r"] ** 2))
    assert row["p of r"] == pytest.approx(2 * stats.t.sf(abs(t), 1))
    assert row["Spearman ρ"] == pytest.approx(1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("raw", "leaf", "captions"),
    [
        ({"animal": 0.2, "food": 0.1}, {"animal": 0.3, "food": 0.1}, CAPTIONS),
        ({}, {}, CAPTIONS),
        (RAW, BY_LEAF, ["animal and food and cat and dog and apple and bread and lion and tiger"]),
        (RAW, {name: value + 0.1 for name, value in RAW.items()}, CAPTIONS),
    ],
)
def test_where_there_is_none_it_is_said(
    raw: dict[str, float], leaf: dict[str, float], captions: list[str]
) -> None:
    report = frequency_report(count_captions(captions, TREE), TREE, {}, [result(raw, leaf)])
    row = report.table("frequency-correlation").records()[0]
    assert [row[name] for name in ("Pearson r", "p of r", "Spearman ρ", "p of ρ")] == [None] * 4
    assert any("no correlation" in note for note in report.notes)
    assert "no correlation" in report.figures["granularity-frequency"]().axes[1].get_title(
        loc="left"
    )


def test_the_reports() -> None:
    counts = count_captions([*CAPTIONS, "", "a breadcrumb"], TREE)
    levels, gaps = frequency_report(counts, TREE, {"seed": 0}).tables
    rows = [
        (row["level"], row["labels"], row["leaves"], row["mean"], row["median"])
        for row in levels.records()
    ]
    assert rows == [(0, 1, 0, 0, 0), (1, 2, 0, 0.5, 0.5), (2, 4, 3, 1.25, 1), (3, 2, 2, 2, 2)]
    assert [row["never named (%)"] for row in levels.records()] == [100, 50, 25, 0]
    assert [row["ancestor"] for row in gaps.records()] == ["animal", "thing", "cat", "food"]
    other = result(RAW, BY_LEAF)._replace(name="other")
    report = frequency_report(counts, TREE, {}, [result(RAW, BY_LEAF), other])
    assert len(report.table("frequency-correlation").rows) == 2
    assert set(report.figures) == {"granularity-frequency-1", "granularity-frequency-2"}


def test_a_tree_of_many_ancestors_shows_both_ends() -> None:
    n = 40
    labels = ["root", *(f"group{i}" for i in range(n)), *(f"fine{i}" for i in range(n))]
    tree = Taxonomy(labels, [-1, *[0] * n, *range(1, n + 1)])
    captions = [f"group{i}" for i in range(n) for _ in range(i)] + [
        f"fine{i}" for i in range(n)
    ] * 20
    rows = frequency_report(count_captions(captions, tree), tree, {}).tables[1].records()
    assert [row["ancestor"] for row in (*rows[:3], rows[-1])] == [
        "root",
        "group0",
        "group1",
        "group39",
    ]
    assert (len(rows), rows[-1]["gap"]) == (20, pytest.approx(math.log10(21) - math.log10(n)))


def test_the_figure_shows_every_label_and_every_ancestor() -> None:
    counts = count_captions(CAPTIONS, TREE)
    left, right = draw_frequency(counts, *correlate(result(RAW, BY_LEAF), counts.labels)).axes
    heights = np.concatenate(
        [np.asarray(points.get_offsets())[:, 1] for points in left.collections[:2]]
    )
    assert sorted(heights.tolist()) == sorted(counts.labels["captions"].tolist())
    points = np.asarray(right.collections[0].get_offsets())
    assert sorted(points[:, 1].tolist()) == pytest.approx([-10, 10, 50])
    assert "3 ancestors: r = " in right.get_title(loc="left")
