"""`taxtune taxonomy enrich` and `from-labels`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from taxtune.authoring.enrich import SOURCES
from taxtune.cli import taxonomy_enrich
from taxtune.taxonomy import read_taxonomy
from taxtune.wordnet import ENVIRONMENT
from tests.authoring.food_wordnet import food_wordnet
from tests.cli.commands import run_command
from tests.servers import OpenAIServer

TREE = "path,rank,aliases\nfood,,\nfood/rice dish,group,\nfood/rice dish/risotto,dish,\nfood/noodle dish,group,\n"
TREE += "food/noodle dish/pho,dish,\nfood/doughnut,dish,\nfood/cheesecake,dish,\n"


@pytest.fixture(autouse=True)
def _small_wordnet(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, food_wordnet(tmp_path_factory.mktemp("small")).place)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    file = tmp_path / "tree.csv"
    file.write_text(TREE)
    return file


def test_proposals_are_written_reviewed_and_applied(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proposals, better = tmp_path / "p.csv", tmp_path / "better.csv"
    command = ("taxonomy", "enrich", tree, "--source", "short", "--source", "wordnet")
    assert run_command(monkeypatch, *command, "--out", proposals) == 0
    said = capsys.readouterr()
    assert "proposals to review written to" in said.err
    assert said.out.splitlines()[0].split() == ["source", "new", "names", "found", "already", "proposed", "ambiguous"]
    rows = list(csv.DictReader(proposals.open()))
    assert "sinker" in {row["alias"] for row in rows}
    # Without --out the proposals are what is printed.
    assert run_command(monkeypatch, *command) == 0
    assert capsys.readouterr().out == proposals.read_text()

    rows[0]["mark"] = "no"
    with proposals.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert run_command(monkeypatch, "taxonomy", "enrich", tree, "--apply", proposals, "--out", better, "--json") == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["added"], counts["marked"]) == (len(rows) - 1, 1)
    taxonomy = read_taxonomy(better)
    assert "sinker" in taxonomy.aliases[taxonomy.resolve("doughnut")]
    assert taxonomy.ranks == read_taxonomy(tree).ranks
    assert run_command(monkeypatch, "taxonomy", "enrich", tree, "--apply", proposals, "--marked") == 0
    said = capsys.readouterr()
    assert said.out.startswith("path,rank,aliases,leads\n")
    assert "0 marked" in said.err


def test_json_has_the_proposals(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, "taxonomy", "enrich", tree, "--source", "kinds", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert set(record["sources"]) == {"kinds"}
    assert all(row["kind"] == "lead" and row["node"][0] == "food" for row in record["proposals"])


def test_a_model_is_asked_and_what_cannot_be_read_is_kept(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    out = tmp_path / "p.csv"
    good, bad = json.dumps({"1": ["noodle bowl"]}), "I cannot."
    with OpenAIServer(json.dumps({"1": [], "2": [], "3": ["krapfen"], "4": []}), bad, good) as server:
        command = ("taxonomy", "enrich", tree, "--source", "short", "--llm", "openai/gpt-4o-mini", "--api-base")
        options = (server.api_base, "--concurrency", "1", "--cache-dir", tmp_path / "cache", "--out", out)
        assert run_command(monkeypatch, *command, *options) == 0
        said = capsys.readouterr()
        assert (
            "1 replies are not in the requested form: nothing is proposed for 1 nodes. The first: It is not JSON"
            in said.err
        )
        # Replies are kept: asked again, the model is not.
        assert run_command(monkeypatch, *command, *options) == 0
    aliases = {row["alias"]: row for row in csv.DictReader(out.open())}
    assert (aliases["krapfen"]["node"], aliases["krapfen"]["kind"]) == ("food/doughnut", "lead")
    assert aliases["noodle bowl"]["source"] == "llm"
    (unread,) = [json.loads(line) for line in (tmp_path / "p.unread.jsonl").read_text().splitlines()]
    assert (unread["labels"], unread["reply"]) == (["risotto"], bad)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--source", "synonyms"),
            "--source has no such value. (got 'synonyms') Use inflection, short, wordnet, kinds, llm.",
        ),
        (("--source", "llm"), "The source 'llm' needs a model. Name it with --llm."),
        (("--marked",), "--marked can be used only with --apply."),
        (("--apply", "p.csv", "--source", "short"), "--source and --llm are for making proposals"),
        (("--apply", "nothing.csv"), "The proposals file does not exist"),
        (("--apply", "p.csv", "--out", "tree.xyz"), "No format that can be written has this suffix"),
        (("--out", "tree.csv"), "is also an input file"),
        (("--llm", "openai/"), "openai"),
    ],
)
def test_enrich_says_what_is_wrong(
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tree.parent)
    before = tree.read_text()
    assert run_command(monkeypatch, "taxonomy", "enrich", "tree.csv", *arguments) == 2
    assert message in capsys.readouterr().err
    assert tree.read_text() == before


def test_the_help_names_all_sources() -> None:
    assert taxonomy_enrich._SOURCES == SOURCES


def test_without_wordnet(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ENVIRONMENT, "none")
    assert run_command(monkeypatch, "taxonomy", "enrich", tree, "--json") == 0
    said = capsys.readouterr()
    assert set(json.loads(said.out)["sources"]) == {"inflection", "short"}
    assert "WordNet is not installed" in said.err
    assert run_command(monkeypatch, "taxonomy", "enrich", tree, "--source", "wordnet") == 2
    assert "needs WordNet, which is not installed. Run: " in capsys.readouterr().err
    labels = tmp_path / "labels.txt"
    labels.write_text("dog\n")
    assert run_command(monkeypatch, "taxonomy", "from-labels", labels) == 2
    said = capsys.readouterr()
    assert "WordNet, which is not installed." in said.err
    assert "from-labels --llm" in said.err


def test_a_tree_from_labels_and_its_synsets_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, out = tmp_path / "labels.txt", tmp_path / "tree.csv"
    labels.write_text("beagle\npug\nduck\ncrane\nlobster_bisque\nchowder\ntakoyaki\n")
    assert run_command(monkeypatch, "taxonomy", "from-labels", labels, "--out", out) == 0
    said = capsys.readouterr()
    assert "labels   7\n" in said.out
    assert "5 labels are in WordNet, 1 of them with several senses; 1 are by their head noun" in said.out
    assert "below the root: takoyaki" in said.out
    assert "  crane: crane.n.02 (a bird with long legs); not crane.n.01\n" in said.out
    assert "  lobster bisque, a kind of 'bisque': bisque.n.01" in said.out
    assert run_command(monkeypatch, "taxonomy", "check", out) == 0
    assert run_command(monkeypatch, "taxonomy", "show", out, "--depth", 3) == 0
    assert (
        "  animal (beast)\n    bird\n      crane\n      duck\n    dog (domestic dog)\n      beagle\n"
        in capsys.readouterr().out
    )

    synsets = tmp_path / "tree.synsets.csv"
    edited = tmp_path / "edited.csv"
    edited.write_text(synsets.read_text().replace("crane,crane.n.02", "crane,crane.n.01"))
    again = ("taxonomy", "from-labels", labels, "--synsets", edited, "--root-label", "photo", "--json")
    assert run_command(monkeypatch, *again) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["paths"]["crane"] == ["photo", "crane"]
    assert (record["synsets"][3]["synset"], record["synsets"][3]["given"]) == ("crane.n.01", True)


def test_the_folder_of_photos_resolves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("apple_pie", "01.cheesecake", "beagle"):
        (tmp_path / "photos" / name).mkdir(parents=True)
    assert run_command(monkeypatch, "taxonomy", "from-labels", tmp_path / "photos") == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "path",
        "entity",
        "entity/baked goods",
        "entity/baked goods/apple pie",
        "entity/baked goods/cheesecake",
        "entity/beagle",
    ]
    assert "labels   3" in said.err


def test_a_model_sorts_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    labels, out = tmp_path / "labels.csv", tmp_path / "tree.csv"
    labels.write_text("image,label\n1,pug\n2,gecko\n3,beagle\n4,pug\n")
    with OpenAIServer("No.", json.dumps({"pug": ["dog"], "beagle": ["dog"], "gecko": []})) as server:
        command = ("taxonomy", "from-labels", labels, "--llm", "openai/gpt-4o-mini", "--api-base", server.api_base)
        assert run_command(monkeypatch, *command, "--cache-dir", tmp_path / "cache", "--out", out) == 0
    assert "1 replies could not be used and were requested again" in capsys.readouterr().err
    taxonomy = read_taxonomy(out)
    assert taxonomy.path(taxonomy.resolve("pug")) == ("thing", "dog", "pug")
    assert not (tmp_path / "tree.synsets.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing.txt",), "The labels file does not exist"),
        (("labels.csv", "--out", "labels.csv"), "is also an input file"),
        (("labels.txt", "--out", "tree.txt"), "No format that can be written has this suffix"),
        (("labels.txt", "--synsets", "nothing.csv"), "The synsets file does not exist"),
        (("labels.txt", "--llm", "openai/x", "--synsets", "s.csv"), "need WordNet"),
        (("labels.txt", "--min-children", "1"), "--min-children"),
    ],
)
def test_from_labels_says_what_is_wrong(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.txt").write_text("dog\npug\n")
    assert run_command(monkeypatch, "taxonomy", "from-labels", *arguments) == 2
    assert message in capsys.readouterr().err
