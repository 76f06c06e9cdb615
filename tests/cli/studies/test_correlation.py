from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from taxtune.cli.app import app
from taxtune.errors import DataError, TaxonomyError

run = CliRunner()
LEAVES = ("Carduelis carduelis", "Fringilla coelebs", "Pyrrhula pyrrhula", "Spinus tristis")
FIELDGUIDE = ["study", "correlation", "-t", "builtin:fieldguide", "--pairs", "300"]


def test_pairs_are_drawn_below_the_root_alone_and_counted_from_it(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    done = run.invoke(
        app, [*FIELDGUIDE, "--root", "Fringillidae", "-m", "exact-match", "--save-pairs", str(file), "--json"]
    )
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout)["settings"]["root"] == "Aves/Passeriformes/Fringillidae"
    with file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 600
    leaves = {row["leaf"] for row in rows}
    assert leaves == {f"Fringillidae/{name}" for name in LEAVES}
    assert {row["node"] for row in rows} == {"Fringillidae", *leaves}
    for row in rows:
        # Two of a family's species share the family of their two nodes; the family is right about its species.
        other = row["node"] != "Fringillidae"
        assert int(row["distance"]) == 1 + other
        assert float(row["value"]) == (0.5 if other or row["metric"] == "hr" else 1.0)
    assert not any(row["node"] != "Fringillidae" for row in rows if row["metric"] == "hr")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (["-m", "lave:no/such"], DataError, "labels do not answer one"),
        (["--nearest", "3", "--farthest", "2"], DataError, "distance must be"),
        (["--nearest", "30", "--farthest", "40"], TaxonomyError, "no node at a distance"),
    ],
)
def test_what_is_wrong_is_said(options: list[str], error: type[Exception], text: str) -> None:
    done = run.invoke(app, [*FIELDGUIDE, *options])
    assert isinstance(done.exception, error)
    assert text in str(done.exception)
