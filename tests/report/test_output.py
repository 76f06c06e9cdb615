from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from taxtune.studies import StudyReport, Table, publish

TABLE = Table(
    name="main",
    title="A title",
    columns=("name", "n", "hP"),
    rows=(("a|b [red]", 1234, 0.98765), ("c", None, math.nan), ("d", 0, -0.0001)),
    digits={"hP": 2},
    notes=("3 left out",),
)


def draw():
    figure = Figure(figsize=(2, 2))
    figure.add_subplot().plot([0, 1])
    return figure


REPORT = StudyReport(
    study="example",
    title="Which model <is> better?",
    settings={"seed": 3, "file": Path("x.csv"), "rows": ()},
    tables=(TABLE,),
    figures={"plot": draw},
    notes=("2 rows left out",),
    data={"tau": np.float64("nan"), "ranks": np.array([1, 2])},
)


def test_no_value_is_a_dash_and_never_zero():
    assert TABLE.shown() == [["a|b [red]", "1,234", "0.99"], ["c", "–", "–"], ["d", "0", "0.00"]]
    assert TABLE.records()[1] == {"name": "c", "n": None, "hP": None}


def test_a_table_is_a_data_frame_and_is_found_by_name():
    frame = REPORT.table("main").to_frame()
    assert list(frame.columns) == ["name", "n", "hP"]
    assert frame["hP"].tolist()[0] == 0.98765
    assert frame["n"].isna().tolist() == [False, True, False]
    with pytest.raises(KeyError, match="other"):
        REPORT.table("other")


def test_what_answers_hold_is_neither_obeyed_nor_rendered(
    capsys,
):
    cell = "\x1b[31mred\x07 \u202ewonk\nnow <b>"
    shown = Table("main", "", ("name",), ((cell,),))
    publish(replace(REPORT, tables=(shown,)), out=None, as_json=False)
    assert r"\x1b[31mred\x07 \u202ewonk" in capsys.readouterr().out
    assert r"| \x1b[31mred\x07 \u202ewonk now \<b> |" in shown.markdown()
    assert shown.records() == [{"name": cell}]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_column_is_lost_where_the_terminal_is_narrow(width):
    row = {"a node needs": "always the root"}
    row |= {f"share of number {i}, %": 1000 + 111.25 * i for i in range(7)}
    row["verdict"] = "chosen"
    lines = Table.from_records("narrow", "", [row]).lines(width)
    words = " ".join(lines).split()
    for word in ("node", "always", "root", "verdict", "chosen", "1000.000", "1667.500"):
        assert word in words
    if width >= 80:
        assert max(map(len, lines)) <= width + 15


def test_a_ragged_table_is_refused():
    with pytest.raises(ValueError, match="2 cells for 3 columns"):
        replace(TABLE, rows=(("a", 1),))


def test_json_has_no_nan_and_is_the_same_on_the_terminal_and_in_the_file(tmp_path, capsys):
    publish(REPORT, out=tmp_path / "out", as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert printed["tau"] is None
    assert printed["ranks"] == [1, 2]
    assert printed["settings"] == {"seed": 3, "file": "x.csv", "rows": []}
    assert printed["tables"]["main"][0]["hP"] == 0.98765
    assert json.loads((tmp_path / "out" / "study.json").read_text()) == printed
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"study.json", "report.html", "main.csv", "main.md", "plot.png", "plot.svg"}


def test_tables_go_to_standard_output_and_notes_to_the_display(capsys, notes):
    publish(REPORT, out=None, as_json=False)
    said = capsys.readouterr()
    assert "a|b [red]" in said.out  # square brackets are no markup
    assert "3 left out" in said.out
    assert any("2 rows left out" in note for note in notes)
    assert any("--out" in note for note in notes)


def test_the_report_of_a_study_holds_tables_figures_notes_and_settings(tmp_path):
    page = (REPORT.write(tmp_path / "out") / "report.html").read_text("utf-8")
    title = "Which model &lt;is&gt; better?"
    for said in (title, "a|b [red]", "0.99", "3 left out", "2 rows left out", ">3<"):
        assert said in page
    assert page.count("<svg") == 1
    assert "<dt>rows</dt>" not in page
    assert "http" not in page.split("</style>")[1].replace("http://www.w3.org", "")
