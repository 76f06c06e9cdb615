from __future__ import annotations

import csv
from pathlib import Path

import pytest
from PIL import Image

from fieldguide.draw import main, make_dataset
from fieldguide.species import all_species
from taxtune.data import load_examples
from taxtune.errors import DataError
from taxtune.fieldguide import IMAGES, MANIFEST_FILE, TAXONOMY_FILE, export
from taxtune.taxonomy import read_taxonomy


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("guide") / "birds", n=40, seed=9, size=48)


def _rows(folder):
    with (folder / "manifest.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_it_reads_like_any_other_data_set(folder):
    taxonomy = read_taxonomy(folder / "taxonomy.csv")
    examples = load_examples(folder / "manifest.csv", taxonomy)
    assert len(examples) == 40
    assert all(taxonomy.labels[example.target] == example.label for example in examples)
    assert all(taxonomy.ranks[example.target] == "species" for example in examples)


def test_the_manifest_says_what_is_on_the_images(folder):
    by_label = {bird.label: bird for bird in all_species()}
    for row in _rows(folder):
        bird = by_label[row["label"]]
        assert (row["family"], row["order"]) == (bird.family, bird.order)
        assert row["common_name"] == bird.names[0]
        is_degraded = row["degraded"] == "yes"
        assert is_degraded == (float(row["severity"]) > 0)
        assert is_degraded == (row["condition"] != "clear")
        assert (folder / row["image"]).is_file()


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_images(folder, tmp_path):
    def contents(where):
        return {file.read_bytes() for file in (where / "images").iterdir()}

    again = make_dataset(tmp_path / "again", n=40, seed=9, size=48)
    assert contents(again) == contents(folder)
    assert (again / "manifest.csv").read_bytes() == (folder / "manifest.csv").read_bytes()
    assert not contents(make_dataset(tmp_path / "other", n=40, seed=10, size=48)) & contents(folder)


def test_the_package_holds_what_the_command_draws(tmp_path):
    assert main(["--out", str(tmp_path / "birds"), "--images", "12"]) == 0
    package = MANIFEST_FILE.parent
    drawn = (tmp_path / "birds" / "manifest.csv").read_text().splitlines()
    assert MANIFEST_FILE.read_text().splitlines()[:13] == drawn
    assert (tmp_path / "birds" / "taxonomy.csv").read_bytes() == TAXONOMY_FILE.read_bytes()
    for row in _rows(tmp_path / "birds"):
        drawn_image = Image.open(tmp_path / "birds" / row["image"])
        assert drawn_image.tobytes() == Image.open(package / row["image"]).tobytes(), row
    assert len(_rows(package)) == IMAGES.n
    assert len(list((package / "images").iterdir())) == IMAGES.n


def test_a_folder_that_is_not_empty_is_refused_and_untouched(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(DataError, match="not empty"):
        make_dataset(tmp_path, n=5, seed=9)
    assert main(["--out", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_package_is_exported_as_somebodys_photos(tmp_path):
    export(tmp_path, labelled=100)
    rows = _rows(MANIFEST_FILE.parent)
    examples = load_examples(tmp_path / "photos", read_taxonomy(tmp_path / "tree.csv"))
    assert len(examples) == 100
    labelled = {(Path(row["image"]).name, row["label"]) for row in rows[:100]}
    assert {(e.image.name, e.image.parent.name) for e in examples} == labelled
    new = sorted((tmp_path / "new-photos").iterdir())
    assert [file.name for file in new] == [Path(row["image"]).name for row in rows[100:]]
    assert new[0].read_bytes() == (MANIFEST_FILE.parent / rows[100]["image"]).read_bytes()
