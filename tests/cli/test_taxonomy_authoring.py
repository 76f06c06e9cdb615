"""`taxtune taxonomy enrich` and `from-labels`."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from taxtune.taxonomy import read_taxonomy
from taxtune.wordnet import ENVIRONMENT
from tests.authoring.food_wordnet import food_wordnet
from tests.cli.commands import run_command

TREE = "path,rank,aliases\nfood,,\nfood/doughnut,dish,\nfood/cheesecake,dish,\n"
Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _small_wordnet(tmp_path_factory: pytest.TempPathFactory, monkeypatch: Patch) -> None:
    monkeypatch.setenv(ENVIRONMENT, food_wordnet(tmp_path_factory.mktemp("small")).place)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree.csv").write_text(TREE)
    return tmp_path / "tree.csv"


def test_proposals_are_written_reviewed_and_applied(
    tree: Path, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    proposals, better = tmp_path / "p.csv", tmp_path / "better.csv"
    assert run_command(monkeypatch, "taxonomy", "enrich", tree, "--out", proposals) == 0
    assert "proposals to review written to" in capsys.readouterr().err
    # Without --out the proposals are what is printed.
    assert run_command(monkeypatch, "taxonomy", "enrich", tree) == 0
    assert capsys.readouterr().out == proposals.read_text()
    rows = list(csv.DictReader(proposals.open()))
    assert "sinker" in {row["alias"] for row in rows}
    assert run_command(monkeypatch, "taxonomy", "enrich", tree, "--apply", proposals, "--out", better) == 0
    assert f"{len(rows)} names added" in capsys.readouterr().err
    taxonomy = read_taxonomy(better)
    assert "sinker" in taxonomy.aliases[taxonomy.resolve("doughnut")]
    assert taxonomy.ranks == read_taxonomy(tree).ranks


def test_a_tree_from_labels_and_its_synsets_edited(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    labels, out = tmp_path / "labels.txt", tmp_path / "tree.csv"
    labels.write_text("beagle\npug\nduck\ncrane\nlobster_bisque\nchowder\ntakoyaki\n")
    assert run_command(monkeypatch, "taxonomy", "from-labels", labels, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "5 labels are in WordNet, 1 of them with several senses; 1 are by their head noun" in printed
    assert "below the root: takoyaki" in printed
    assert run_command(monkeypatch, "taxonomy", "check", out) == 0
    assert read_taxonomy(out).path(read_taxonomy(out).resolve("crane"))[-3:] == ("animal", "bird", "crane")
    edited = tmp_path / "edited.csv"
    edited.write_text((tmp_path / "tree.synsets.csv").read_text().replace("crane,crane.n.02", "crane,crane.n.01"))
    again = ("taxonomy", "from-labels", labels, "--synsets", edited, "--root-label", "photo", "--out", out)
    assert run_command(monkeypatch, *again) == 0
    assert read_taxonomy(out).path(read_taxonomy(out).resolve("crane")) == ("photo", "crane")


def test_the_folder_of_photos_resolves(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    for name in ("apple_pie", "01.cheesecake", "beagle"):
        (tmp_path / "photos" / name).mkdir(parents=True)
    assert run_command(monkeypatch, "taxonomy", "from-labels", tmp_path / "photos") == 0
    assert capsys.readouterr().out.splitlines() == [
        "path",
        "entity",
        "entity/baked goods",
        "entity/baked goods/apple pie",
        "entity/baked goods/cheesecake",
        "entity/beagle",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("enrich", "tree.csv", "--apply", "nothing.csv"), "The proposals file does not exist"),
        (("enrich", "tree.csv", "--apply", "p.csv", "--out", "tree.xyz"), "No format that can be written"),
        (("enrich", "tree.csv", "--out", "tree.csv"), "is also an input file"),
        (("from-labels", "nothing.txt"), "The labels file does not exist"),
        (("from-labels", "labels.txt", "--out", "tree.txt"), "No format that can be written has this suffix"),
        (("from-labels", "labels.txt", "--synsets", "nothing.csv"), "The synsets file does not exist"),
    ],
)
def test_what_is_wrong_is_named(
    tree: Path, monkeypatch: Patch, capsys: Capture, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tree.parent)
    Path("labels.txt").write_text("dog\npug\n")
    assert run_command(monkeypatch, "taxonomy", *arguments) == 2
    assert message in capsys.readouterr().err
    assert tree.read_text() == TREE


def test_without_wordnet(tree: Path, tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv(ENVIRONMENT, "none")
    assert run_command(monkeypatch, "taxonomy", "enrich", tree) == 0
    assert "WordNet is not installed" in capsys.readouterr().err
    labels = tmp_path / "labels.txt"
    labels.write_text("dog\n")
    assert run_command(monkeypatch, "taxonomy", "from-labels", labels) == 2
    assert "WordNet, which is not installed." in capsys.readouterr().err
