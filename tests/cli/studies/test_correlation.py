from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from taxtune.cli.app import app
from taxtune.errors import DataError, TaxonomyError
from taxtune.taxonomy import read_taxonomy
from tests.tiny_text_models import make_clip

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


def test_images_are_compared_and_leaves_without_any_are_counted(tmp_path: Path) -> None:
    pytest.importorskip("open_clip")
    (tmp_path / "clip").mkdir()
    model = make_clip(tmp_path / "clip")
    rows = ["image,label"]
    for i, leaf in enumerate(read_taxonomy("builtin:fieldguide").leaves.tolist()[:6]):
        Image.new("RGB", (16, 16), (40 * i, 90, 255 - 40 * i)).save(tmp_path / f"{i}.png")
        rows.append(f"{i}.png,{read_taxonomy('builtin:fieldguide').labels[leaf]}")
    (tmp_path / "images.csv").write_text("\n".join(rows), encoding="utf-8")
    options = ["-m", f"clip-i2t:{model}", "--device", "cpu", "--cache-dir", str(tmp_path / "cache"), "--json"]
    refused = run.invoke(app, [*FIELDGUIDE, *options])
    assert isinstance(refused.exception, DataError)
    assert "--images" in str(refused.exception)
    done = run.invoke(app, [*FIELDGUIDE, *options, "--images", str(tmp_path / "images.csv")])
    assert done.exit_code == 0, done.exception
    for one in json.loads(done.stdout)["correlations"]:
        assert one["n"] > 1
        assert one["n"] + one["unscored"] == 300
        assert -1 <= one["low"] <= one["tau"] <= one["high"] <= 1


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (["-m", "rouge"], DataError, "Did you mean 'rouge-1'"),
        (["-m", "clip-i2t:no/such"], DataError, "--images"),
        (["--nearest", "3", "--farthest", "2"], DataError, "distance must be"),
        (["--nearest", "30", "--farthest", "40"], TaxonomyError, "no node at a distance"),
    ],
)
def test_what_is_wrong_is_said(options: list[str], error: type[Exception], text: str) -> None:
    done = run.invoke(app, [*FIELDGUIDE, *options])
    assert isinstance(done.exception, error)
    assert text in str(done.exception)
