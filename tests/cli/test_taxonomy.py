"""`taxtune taxonomy`: check, show, convert, build, enrich and from-labels."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from taxtune.taxonomy import read_taxonomy
from taxtune.wordnet import ENVIRONMENT
from tests.authoring.food_wordnet import food_wordnet
from tests.cli.commands import run_captured, run_refused, run_well

GOOD = """path,rank,aliases
bird,class,birds
bird/duck,family,
bird/duck/mallard,species,wild duck [male]
bird/gull,family,
"""
BAD = "child,parent,label\na,,life\nb,c,bird\nc,b,duck\nd,,second\ne,a,\nf,a,gull\ng,a,gull\nh,a,gull [sea]\n"
EDGES = """child,parent,label
a,root,animal
b,a,bird
a,b,animal
d,b,"duck ""the"" bird"
d,a,
d,a,
x,x,odd
y,other,elsewhere
e,b,"duck ""the"" bird"
"""
FOOD = "path,rank,aliases\nfood,,\nfood/doughnut,dish,\nfood/cheesecake,dish,\n"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch, small_wordnet):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ENVIRONMENT, small_wordnet)
    for name, text in (("good", GOOD), ("bad", BAD), ("edges", EDGES), ("food", FOOD)):
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def small_wordnet(tmp_path_factory):
    return food_wordnet(tmp_path_factory.mktemp("small")).place


def taxonomy(*arguments):
    return run_well("taxonomy", *arguments)


def test_check_prints_size_depth_ranks_and_every_defect_with_its_row():
    out = taxonomy("check", "good.csv").out
    assert out.splitlines() == [
        "good.csv: paths, a tree",
        "nodes    4",
        "aliases  2",
        "ranks    class 1, family 2, species 1",
        "leaves   2",
        "height   2",
        "levels   [1, 2, 1]",
        "defects  0 that break the tree, 0 notes",
    ]
    out = run_captured("taxonomy", "check", "bad.csv").out
    cycle = "2 nodes are their own ancestors (child → parent): b → c → b; rows 3, 4."
    for line in (
        "not a tree",
        "bad.csv: note: added root:",
        "bad.csv:6: error: empty name:",
        f"bad.csv:3: error: cycle: {cycle}",
        "bad.csv:8: error: duplicate sibling:",
    ):
        assert line in out
    done = run_captured("taxonomy", "check", "bad.csv", "--json")
    data = json.loads(done.out)
    assert (done.code, data["ok"], data["nodes"]) == (2, False, 9)
    defects = [(defect["kind"], defect["row"]) for defect in data["defects"] if defect["breaks"]]
    assert defects == [("cycle", 3), ("empty name", 6), ("duplicate sibling", 8)]


def test_show_a_node_and_what_is_below_it():
    assert taxonomy("show", "good.csv", "--depth", 2, "--no-names").out.splitlines() == [
        "bird",
        "rank class, depth 0, 3 nodes below",
        "also called birds",
        "  duck",
        "    mallard (wild duck [male])",
        "  gull",
    ]
    shown = taxonomy("show", "good.csv", "DUCK", "--no-names").out
    assert shown.splitlines()[::2] == ["bird / duck", "  mallard (wild duck [male])"]


def test_convert_writes_paths_and_over_nothing(tmp_path):
    Path("tree.json").write_text('{"animal": {"bird": ["duck"], "fish": null}}')
    assert "wrote 4 nodes to" in taxonomy("convert", "tree.json", "tree.csv").err
    paths = "path\nanimal\nanimal/bird\nanimal/bird/duck\nanimal/fish\n"
    assert Path("tree.csv").read_text() == paths
    before = sorted(tmp_path.iterdir())
    for arguments, message in (
        (["good.csv", "tree.csv"], "already exists; nothing was written. Add --force."),
        (["good.csv", "tree.xml"], "A tree is written as CSV. (got '.xml')"),
        (["tree.csv", "tree.csv", "--force"], "is also an input file"),
    ):
        assert message in run_refused("taxonomy", "convert", *arguments)
    assert sorted(tmp_path.iterdir()) == before
    taxonomy("convert", "good.csv", "tree.csv", "--force")
    assert read_taxonomy("tree.csv").labels[0] == "bird"


def test_build_prints_what_was_dropped_and_takes_options():
    printed = taxonomy("build", "edges.csv", "--out", "tree.csv")
    dropped = (
        "duplicate edge 1, self loop 1, unreachable node 3, edge of a dropped node 1, "
        "cycle edge 1, extra parent 1"
    )
    for line in (
        "graph    nodes 8, edges 7, ",
        f"dropped  {dropped}",
        "with the id added 2",
        "tree     nodes 5, edges 4, leaves 2, height 3, per level [1, 1, 1, 2]",
    ):
        assert line in printed.out
    tree = read_taxonomy("tree.csv")
    assert [tree.ids[i] for i in range(len(tree))] == ["root", "a", "b", "d", "e"]
    assert tree.labels[3] == 'duck "the" bird (d)'
    Path("leaves.txt").write_text("d\nnowhere\ny\n", encoding="utf-8")
    build = ("build", "edges.csv", "--out", "tree.csv", "--leaves", "leaves.txt")
    counts = json.loads(taxonomy(*build, "--join-roots", "all", "--seed", 4, "--json").out)
    assert counts["root"] == {"id": "all", "label": "all", "joins": 2}
    assert counts["lost"] == {"nowhere": "unknown"}
    assert (counts["tree"]["nodes"], counts["tree"]["edges"]) == (7, 6)
    out = taxonomy(*build, "--root", "root").out
    assert "lost     nowhere unknown, y not below the root" in out
    assert list(read_taxonomy("tree.csv").ids) == ["root", "a", "b", "d"]
    Path("escaped.csv").write_text("child,parent,label\nb,a,duck\na,,\x1b[31mbird\n")
    assert "label \\x1b[31mbird" in taxonomy("build", "escaped.csv", "--out", "tree.csv").out


def test_proposals_are_written_reviewed_and_applied():
    proposed = taxonomy("enrich", "food.csv", "--out", "p.csv")
    assert "proposals to review written to" in proposed.err
    # Without --out the proposals are what is printed.
    assert taxonomy("enrich", "food.csv").out == Path("p.csv").read_text()
    rows = list(csv.DictReader(Path("p.csv").read_text().splitlines()))
    assert "sinker" in {row["alias"] for row in rows}
    applied = taxonomy("enrich", "food.csv", "--apply", "p.csv", "--out", "better.csv")
    assert f"{len(rows)} names added" in applied.err
    better = read_taxonomy("better.csv")
    assert "sinker" in better.aliases[better.resolve("doughnut")]
    assert better.ranks == read_taxonomy("food.csv").ranks


def test_a_tree_from_labels_with_their_synsets():
    Path("labels.txt").write_text("beagle\npug\nduck\ncrane\nlobster_bisque\nchowder\ntakoyaki\n")
    printed = taxonomy("from-labels", "labels.txt", "--out", "tree.csv").out
    assert "labels   7: 5 in WordNet, 1 by one of their words" in printed
    assert "since WordNet lacks them: takoyaki" in printed
    taxonomy("check", "tree.csv")
    tree = read_taxonomy("tree.csv")
    assert tree.path(tree.resolve("crane"))[-3:] == ("animal", "bird", "crane")
    assert "crane,crane.n.02,is" in Path("tree.synsets.csv").read_text()


def test_the_folder_of_photos_resolves():
    for name in ("apple_pie", "01.cheesecake", "beagle"):
        Path("photos", name).mkdir(parents=True)
    assert taxonomy("from-labels", "photos").out.splitlines() == [
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
        (("enrich", "food.csv", "--apply", "nothing.csv"), "The proposals file does not exist"),
        (("enrich", "food.csv", "--out", "food.csv"), "is also an input file"),
        (("from-labels", "nothing.txt"), "The labels file does not exist"),
        (("from-labels", "labels.txt", "--out", "tree.txt"), "A tree is written as CSV"),
    ],
)
def test_what_is_wrong_is_named(arguments, message):
    Path("labels.txt").write_text("dog\npug\n")
    assert message in run_refused("taxonomy", *arguments)
    assert Path("food.csv").read_text() == FOOD


def test_without_wordnet(monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, "none")
    assert "WordNet is not installed" in taxonomy("enrich", "food.csv").err
    Path("labels.txt").write_text("dog\n")
    error = run_refused("taxonomy", "from-labels", "labels.txt")
    assert "WordNet, which is not installed." in error
