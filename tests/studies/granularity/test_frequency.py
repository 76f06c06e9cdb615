"""Captions that name labels, and the correlation of their numbers with the gain by leaves."""

from __future__ import annotations

import csv
import json
import math
import re

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
from tests.studies.reports import cells, records
from tests.trees import outlined

NAMES = outlined(
    "animal: shark",
    "shark: tiger shark = Galeocerdo cuvier",
    "animal: tiger = Panthera tigris, grey seal, Larus = gull = sea gull",
    "animal: crane = whooping crane, St. Bernard, ball (round)",
)


@pytest.mark.parametrize(
    ("caption", "named"),
    [
        ("A tiger and another TIGER", "tiger"),
        ("two tigers, sharks; animals!", "tiger, shark, animal"),
        ("a tigerish sharkskin coat with an animalistic look", ""),
        ("a tiger-shark", "tiger shark"),
        ("a tiger shark and a tiger", "tiger shark, tiger"),
        ("I saw a tiger. Shark next", "tiger, shark"),
        ("st bernards, a St. Bernard, a saint bernard", "St. Bernard"),
        ("ball (round) and ball round", "ball (round)"),
        ("Gray Seals on ice", "grey seal"),
        ("Lârus: sea gulls", "Larus"),
    ],
)
def test_what_names_a_node(caption, named):
    captions = [caption, "nothing", "an animal"]
    counted = count_captions(captions, NAMES).labels["captions"].tolist()
    names = [*named.split(", "), "animal"]
    assert counted == [names.count(label) for label in NAMES.labels]


def test_names_of_several_nodes_count_for_each():
    tree = outlined("thing: bird, machine", "bird: crane", "machine: crane", "thing: ¿")
    counts = count_captions(["a crane", "a bird", "", "  \t", "🦆", "cranes lifting a bird"], tree)
    assert counts.labels["captions"].tolist() == [0, 2, 0, 2, 2, 0]
    assert (counts.captions, counts.naming) == (4, 3)
    _, empty, shared = counts.notes
    assert empty.endswith(": 2.")
    assert shared.endswith(": 1.")


def test_names_outside_a_part_stand_in_its_way():
    more = ("food: hot dog = frankfurter", "thing: crane")
    whole = outlined("thing: animal, food", "animal: dog, crane", *more)
    part = restrict(whole, "animal")
    captions = ["a hot dog", "a dog", "a crane", "a frankfurter"]
    counted = count_captions(captions, part.tree, part).labels
    assert counted["captions"].tolist() == [0, 1, 1]
    assert counted["inside_longer_names"].tolist() == [0, 1, 0]
    assert count_captions(captions, part.tree).labels["captions"].tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("captions", "message"),
    [
        (["", " ", "\n"], "All captions are empty.*3 captions"),
        (["a house", "東京のトラ"], "None of 2 captions names"),
    ],
)
def test_captions_that_say_nothing(captions, message):
    with pytest.raises(DataError, match=message):
        count_captions(captions, NAMES)


WORD = ["ant", "ants", "bear", "cat", "dog", "d'or", "eel"]
PHRASES = st.lists(st.sampled_from(WORD), min_size=1, max_size=3).map(" ".join)
TEXTS = st.lists(st.sampled_from([*WORD, "cat, dog"]), max_size=9).map(" ".join)


def spans_of(name, text):
    """Where a name stands in a folded text, also inside another."""
    folded = re.escape(" ".join(fold_words(name)))
    return {match.span(1) for match in re.finditer(rf"(?=\b({folded})\b)", text)}


def is_inside(span, others):
    start, end = span
    return any(s <= start and end <= e for s, e in others - {span})


@settings(deadline=None, max_examples=150)
@given(st.lists(PHRASES, min_size=1, max_size=8), st.lists(TEXTS, min_size=1, max_size=6))
def test_it_is_what_regular_expressions_find(names, captions):
    """Every span of every name is found by itself; those inside another span are dropped one by one."""
    labels = [f"n{i}" for i in range(len(names))]
    parents = [-1, *[0] * len(names[1:])]
    tree = Taxonomy(labels, parents, aliases=[[name] for name in names])
    expected = np.zeros(len(names), dtype=int)
    inside = np.zeros(len(names), dtype=int)
    for caption in captions:
        text = " | ".join(" ".join(fold_words(part)) for part in caption.split(","))
        spans = [spans_of(name, text) for name in names]
        everywhere = set().union(*spans)
        for node, own in enumerate(spans):
            outermost = [span for span in own if not is_inside(span, everywhere)]
            expected[node] += bool(outermost)
            inside[node] += bool(own) and not outermost
    if not expected.any():
        return
    counted = count_captions(captions, tree).labels
    assert counted["captions"].tolist() == expected.tolist()
    assert counted["inside_longer_names"].tolist() == inside.tolist()


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_caption_a_line(tmp_path):
    path = tmp_path / "c.txt"
    text = "\ufeffa dog\r\n\n  two cats \nلقطة 🐈\u2028in one line\nlast"
    path.write_text(text, encoding="utf-8", newline="")
    captions = ["a dog", "", "  two cats ", "لقطة 🐈\u2028in one line", "last"]
    assert read_captions(path) == captions


def test_captions_in_a_table(tmp_path):
    captions = ['a "big" dog, and a cat; both', "two\nlines", "tab\there", "", "plain"]
    path = tmp_path / "c.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["url", "Text Of It"])
        writer.writerows(["u", caption] for caption in captions)
    assert read_captions(path, column="Text Of It") == captions


def test_captions_in_json_lines(tmp_path):
    path = tmp_path / "c.jsonl"
    cells_of = ["a dog", None, ["x", "y"], "ends\u2028here"]
    lines = [json.dumps({"t": cell}, ensure_ascii=False) for cell in cells_of]
    path.write_text("\n\n".join(lines))
    assert read_captions(path, column="t") == ["a dog", "", "x", "y", "ends\u2028here"]


COLUMN = r"c\.csv:2: There is no column 'caption'.*'url', 'text': .*--caption-column"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.txt", b"", "is empty"),
        ("c.txt", b"a dog\n\xff\xfecat\n", r"c\.txt:2: The captions file is not UTF-8"),
        ("c.csv", b"url,text\nu,a dog\n", COLUMN),
        ("c.csv", b"caption\na dog\na cat, a dog\n", "3: The row has 2 cells.*double quotes"),
        ("c.jsonl", b'{"caption": "a"}\n{"captions": "b"}\n', r"c\.jsonl:2: There is no column"),
        ("c.jsonl", b'{"caption": ["a", null, 1.5]}\n', r"c\.jsonl:1: The caption is not text"),
        ("none.txt", None, "The captions file does not exist"),
    ],
)
def test_what_is_no_file_of_captions(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_captions(tmp_path / name)


# -- gaps and correlations --------------------------------------------------------------------------------------------

PARENTS = ("thing: animal, food", "animal: cat, dog", "food: apple, bread", "cat: lion, tiger")
TREE = outlined(*PARENTS)
LABELS = TREE.labels
CAPTIONS = "a lion|lions|a lion and a tiger|a cat|a dog|bread|food: bread|some bread|nothing"
COUNTS = count_captions(CAPTIONS.split("|"), TREE)
RAW = {"thing": 1.0, "animal": 0.2, "food": 0.5, "cat": 0.4}
BY_LEAF = {"thing": 1.0, "animal": 0.7, "food": 0.4, "cat": 0.5}


def result(raw, leaf, name="made"):
    """Average precisions as they might be: of 10 images all show "thing"."""
    labels = label_frame(TREE)
    labels["images"] = [10, *[3] * 8]
    labels["in_mean"] = [label in raw for label in LABELS]
    for column, values in (("raw", raw), ("child", leaf), ("leaf", leaf)):
        labels[column] = [values.get(label, np.nan) for label in LABELS]
    return Granularity(name, 10, labels, {}, [])


def test_gaps_by_hand():
    labels = COUNTS.labels
    assert labels["captions"].tolist() == [0, 0, 1, 1, 1, 0, 3, 3, 1]
    means = labels["mean_of_leaves"].tolist()
    assert means == pytest.approx([8 / 5, 5 / 3, 1.5, 2, 1, 0, 3, 3, 1])
    gaps = np.log10([2.6, 5 / 3 + 1, 2.5 / 2, 3 / 2])
    assert labels["gap"].tolist()[:4] == pytest.approx(gaps)
    assert labels["gap"][4:].isna().all()


def test_the_correlation_is_that_of_the_ancestors():
    row, ancestors = correlate(result(RAW, BY_LEAF), COUNTS.labels)
    assert ancestors.index.tolist() == [1, 2, 3]
    # The covariance over the deviations, from the definition, and Student's t on n − 2 degrees of freedom.
    gaps = np.log10([8 / 3, 1.25, 1.5])
    gains = np.array([0.5, -0.1, 0.1])
    x = gaps - gaps.mean()
    y = gains - gains.mean()
    r = x @ y / math.sqrt((x @ x) * (y @ y))
    assert row["Pearson r"] == pytest.approx(r)
    t = r * math.sqrt(1 / (1 - r**2))
    assert row["p of r"] == pytest.approx(2 * stats.t.sf(abs(t), 1))
    assert row["Spearman ρ"] == pytest.approx(1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("raw", "leaf", "captions"),
    [
        ({"animal": 0.2, "food": 0.1}, {"animal": 0.3, "food": 0.1}, CAPTIONS),
        ({}, {}, CAPTIONS),
        (RAW, BY_LEAF, " and ".join(LABELS[1:])),
        (RAW, {name: value + 0.1 for name, value in RAW.items()}, CAPTIONS),
    ],
)
def test_where_there_is_none_it_is_said(raw, leaf, captions):
    counts = count_captions(captions.split("|"), TREE)
    report = frequency_report(counts, TREE, {}, [result(raw, leaf)])
    (row,) = records(report, "frequency-correlation")
    assert set(cells(row, "Pearson r", "p of r", "Spearman ρ", "p of ρ")) == {None}
    assert any("no correlation" in note for note in report.notes)
    _, axes = report.figures["granularity-frequency"]().axes
    assert "no correlation" in axes.get_title(loc="left")


def test_the_reports():
    counts = count_captions([*CAPTIONS.split("|"), "", "a breadcrumb"], TREE)
    report = frequency_report(counts, TREE, {"seed": 0})
    shown = report.table("frequency-levels").to_frame().set_index("level")
    assert shown["labels"].tolist() == [1, 2, 4, 2]
    assert shown["leaves"].tolist() == [0, 0, 3, 2]
    assert shown["mean"].tolist() == [0, 0.5, 1.25, 2]
    assert shown["median"].tolist() == [0, 0.5, 1, 2]
    assert shown["never named (%)"].tolist() == [100, 50, 25, 0]
    ancestors = [row["ancestor"] for row in records(report, "frequency-gaps")]
    assert ancestors == ["animal", "thing", "cat", "food"]
    two = [result(RAW, BY_LEAF), result(RAW, BY_LEAF, "other")]
    report = frequency_report(counts, TREE, {}, two)
    assert len(records(report, "frequency-correlation")) == 2
    assert set(report.figures) == {"granularity-frequency-1", "granularity-frequency-2"}


def test_a_tree_of_many_ancestors_shows_both_ends():
    n = 40
    tree = Taxonomy.from_paths([f"root/group{i}/fine{i}".split("/") for i in range(n)])
    captions = [f"fine{i}" for i in range(n)] * 20
    for i in range(n):
        captions += [f"group{i}"] * i
    report = frequency_report(count_captions(captions, tree), tree, {})
    rows = pd.DataFrame(records(report, "frequency-gaps"))
    assert rows["ancestor"].iloc[[0, 1, 2, -1]].tolist() == ["root", "group0", "group1", "group39"]
    assert len(rows) == 20
    assert rows["gap"].iloc[-1] == pytest.approx(math.log10(21) - math.log10(n))


def test_the_figure_shows_every_label_and_every_ancestor():
    def heights(*collections):
        points = [np.asarray(points.get_offsets())[:, 1] for points in collections]
        return np.sort(np.concatenate(points))

    row, ancestors = correlate(result(RAW, BY_LEAF), COUNTS.labels)
    left, right = draw_frequency(COUNTS, row, ancestors).axes
    assert heights(*left.collections[:2]).tolist() == sorted(COUNTS.labels["captions"])
    assert heights(right.collections[0]).tolist() == pytest.approx([-10, 10, 50])
    assert "3 ancestors: r = " in right.get_title(loc="left")
