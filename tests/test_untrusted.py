from __future__ import annotations

import csv
import io

import pandas as pd
import pytest

from taxtune.classifier.labels import csv_of
from taxtune.report.output import Table
from taxtune.untrusted import spreadsheet_cell

HOSTILE = (
    '=HYPERLINK("http://x")',
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\n=1",
    "＝1+1",
)
KEPT = (
    "",
    "a mallard",
    "a = b",
    "-0.5",
    "+12",
    "-1e-06",
    "1,234.5",
    "-3 %",
    "'quoted'",
    0.5,
    -2,
    None,
    True,
)


@pytest.mark.parametrize("text", HOSTILE)
def test_formulas_become_texts(text):
    assert spreadsheet_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", KEPT)
def test_numbers_and_plain_texts_are_left_alone(value):
    assert spreadsheet_cell(value) is value or spreadsheet_cell(value) == value


def test_control_characters_are_spelled_out():
    assert spreadsheet_cell("a\x1b[2Jb\r") == "a\\x1b[2Jb\\r"


def test_every_table_for_people_is_written_so():
    labels = pd.DataFrame(
        [{"image": "a.jpg", "answer": HOSTILE[0], "confidence": -0.5, "nodes": []}]
    )
    (row,) = csv.DictReader(io.StringIO(csv_of(labels)))
    assert (row["answer"], row["confidence"]) == (f"'{HOSTILE[0]}", "-0.5")
    table = Table("t", "T", ("answer", "score"), ((HOSTILE[1], -0.25),))
    assert list(csv.reader(io.StringIO(table.csv())))[1] == [f"'{HOSTILE[1]}", "-0.25"]
