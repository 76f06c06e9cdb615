"""What is written is read as the same tree."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.errors import MissingExtraError
from taxtune.progress import showing
from taxtune.tables import clean, join_cell, split_cell
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.taxonomy.write import write_taxonomy
from tests.displays import Recorder
from tests.taxonomy.conftest import refused

ODD = [
    *(
        "AC/DC",
        "/",
        "//x/",
        "a;b",
        "a|b; c",
        "\\",
        "\\/",
        "x\\;",
        'the "odd" one',
        "l'eau",
        "a, b",
        "A > B",
        " > ",
    ),
    *(
        "12 - a > b",
        "# no comment",
        "=1+1",
        "-- dash",
        "[order]",
        "{x}",
        "@prefix",
        "<rdf:RDF",
        "Ärger",
        "🦆",
        "ابيض",
    ),
    *(
        "id",
        "path",
        "null",
        "true",
        "0",
        "Quercus alba L.",
        "/m/0bl9f",
        "urn:taxtune:node:1",
        "http://a.b/c",
        "[Term]",
    ),
]
# Readers trim names, compose accents and take any white space for one space; no file holds NUL or a
# lone surrogate.
characters = st.characters(exclude_categories=("Cs", "Cc"))
any_text = st.text(characters, min_size=1, max_size=12)
signs = st.text("ab/\\;|,\"'> -", min_size=1, max_size=8)
names = (st.sampled_from(ODD) | any_text | signs).map(clean).filter(bool)


@st.composite
def trees(draw):
    """Any tree as a file may state it: aliases and leads are no repeats of each other or of the label."""
    n = draw(st.integers(2, 9))
    # Depth first, as readers number nodes: a parent is above the node before.
    above = [-1]
    path = [0]
    for node in range(1, n):
        path = path[: draw(st.integers(1, len(path)))]
        above.append(path[-1])
        path.append(node)
    labels = []
    taken = set()
    for parent in above:
        label = draw(names.filter(lambda name, parent=parent: (parent, name) not in taken))
        taken.add((parent, label))
        labels.append(label)
    aliases = []
    leads = []
    for label in labels:
        drawn = draw(st.lists(names, max_size=3, unique=True))
        others = [name for name in drawn if name.casefold() != label.casefold()]
        cut = draw(st.integers(0, len(others)))
        aliases.append(others[:cut])
        leads.append(others[cut:])
    all_ids = draw(st.lists(names, min_size=n, max_size=n, unique=True))
    ids = [draw(st.sampled_from([key, None])) for key in all_ids]
    ids = draw(st.sampled_from([all_ids, ids, [None] * n]))
    return Taxonomy(
        labels,
        above,
        aliases=aliases,
        leads=leads,
        ranks=draw(st.lists(st.none() | names, min_size=n, max_size=n)),
        ids=ids,
    )


@settings(max_examples=150, deadline=None)
@given(tree=trees())
def test_what_is_written_is_read_as_the_same_tree(tree, tmp_path_factory):
    path = write_taxonomy(tree, tmp_path_factory.getbasetemp() / "tree.csv", force=True)
    with showing(Recorder()) as display:
        again = read_taxonomy(path, names=False)
    assert again.digest == tree.digest  # of names, parents and ranks
    assert again.ids == tree.ids
    assert display.notes == []


@given(st.lists(st.text("ab/\\;|", max_size=6), min_size=1, max_size=4))
def test_cells_are_split_as_they_were_joined(parts):
    for separators in ("/", ";|"):
        assert split_cell(join_cell(parts, separators), separators) == parts


def test_a_backslash_before_anything_else_is_one():
    assert split_cell(r"C:\dir;b\;c\\;d\|e" + "\\", ";|") == ["C:\\dir", "b;c\\", "d|e\\"]


def test_a_file_that_is_there_stays_unless_forced(birds, tmp_path):
    out = tmp_path / "tree.csv"
    out.write_text("mine")
    with refused(r"tree\.csv: The file already exists.*--force"):
        write_taxonomy(birds, out)
    assert out.read_text() == "mine"
    write_taxonomy(birds, out, force=True)
    assert out.read_text().splitlines()[:2] == ["path,rank,aliases", "life,,"]
    assert [path.name for path in tmp_path.iterdir()] == ["tree.csv"]
    with refused(r"A tree is written as CSV.*'\.json'.*Name the file \.csv"):
        write_taxonomy(birds, tmp_path / "tree.json")


def test_rdf_without_rdflib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rdflib", None)
    (tmp_path / "tree.ttl").write_text("@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n")
    with pytest.raises(MissingExtraError, match=re.escape("pip install '.[rdf]'")):
        read_taxonomy(tmp_path / "tree.ttl")
