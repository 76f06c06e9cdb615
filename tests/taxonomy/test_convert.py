"""What is written is read as the same tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.errors import MissingExtraError, TaxonomyError
from taxtune.progress import showing
from taxtune.tables import clean, join_cell, split_cell
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.taxonomy.write import write_taxonomy
from tests.displays import Recorder

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
# Readers trim names, compose accents and take any white space for one space; no file holds NUL or a lone surrogate.
names = (
    st.one_of(
        st.sampled_from(ODD),
        st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12),
        st.text("ab/\\;|,\"'> -", min_size=1, max_size=8),
    )
    .map(clean)
    .filter(bool)
)


@st.composite
def trees(draw: st.DrawFn) -> Taxonomy:
    """Any tree as a file may state it: aliases and leads are no repeats of each other or of the label."""
    n = draw(st.integers(2, 9))
    parents = [-1, *(draw(st.integers(0, i - 1)) for i in range(1, n))]
    # Depth first, as readers number nodes.
    order: list[int] = []
    stack = [0]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(reversed([i for i, parent in enumerate(parents) if parent == node]))
    number = {node: i for i, node in enumerate(order)}
    above = [-1 if parents[node] < 0 else number[parents[node]] for node in order]
    labels: list[str] = []
    taken: set[tuple[int, str]] = set()
    for parent in above:
        label = draw(names.filter(lambda name, parent=parent: (parent, name) not in taken))
        taken.add((parent, label))
        labels.append(label)
    others = [
        [
            name
            for name in draw(st.lists(names, max_size=3, unique=True))
            if name.casefold() != label.casefold()
        ]
        for label in labels
    ]
    cut = [draw(st.integers(0, len(some))) for some in others]
    with_ids = draw(st.sampled_from(["all", "some", "none"]))
    ids: list[str | None] = list(draw(st.lists(names, min_size=n, max_size=n, unique=True)))
    if with_ids != "all":
        ids = [key if with_ids == "some" and draw(st.booleans()) else None for key in ids]
    return Taxonomy(
        labels,
        above,
        aliases=[some[:i] for some, i in zip(others, cut, strict=True)],
        leads=[some[i:] for some, i in zip(others, cut, strict=True)],
        ranks=draw(st.lists(st.none() | names, min_size=n, max_size=n)),
        ids=ids,
    )


def facts(tree: Taxonomy) -> dict[str, object]:
    return {
        "labels": tree.labels,
        "parents": tree.parents.tolist(),
        "ranks": tree.ranks,
        "aliases": tree.aliases,
        "leads": tree.leads,
        "ids": tree.ids,
    }


@settings(max_examples=150, deadline=None)
@given(tree=trees())
def test_what_is_written_is_read_as_the_same_tree(
    tree: Taxonomy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write_taxonomy(tree, tmp_path_factory.getbasetemp() / "tree.csv", force=True)
    with showing(Recorder()) as display:
        assert facts(read_taxonomy(path, names=False)) == facts(tree)
    assert display.notes == []


@given(st.lists(st.text("ab/\\;|", max_size=6), min_size=1, max_size=4))
def test_cells_are_split_as_they_were_joined(parts: list[str]) -> None:
    for separators in ("/", ";|"):
        assert split_cell(join_cell(parts, separators), separators) == parts


def test_a_backslash_before_anything_else_is_one() -> None:
    assert split_cell(r"C:\dir;b\;c\\;d\|e" + "\\", ";|") == ["C:\\dir", "b;c\\", "d|e\\"]


def test_a_file_that_is_there_stays_unless_forced(birds: Taxonomy, tmp_path: Path) -> None:
    out = tmp_path / "tree.csv"
    out.write_text("mine")
    with pytest.raises(TaxonomyError, match=r"tree\.csv: The file already exists.*--force"):
        write_taxonomy(birds, out)
    assert out.read_text() == "mine"
    write_taxonomy(birds, out, force=True)
    assert out.read_text().splitlines()[:2] == ["path,rank,aliases", "life,,"]
    assert [path.name for path in tmp_path.iterdir()] == ["tree.csv"]
    with pytest.raises(
        TaxonomyError, match=r"A tree is written as CSV.*'\.json'.*Name the file \.csv"
    ):
        write_taxonomy(birds, tmp_path / "tree.json")


def test_rdf_without_rdflib_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rdflib", None)
    (tmp_path / "tree.ttl").write_text("@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n")
    with pytest.raises(MissingExtraError, match=re.escape("pip install '.[rdf]'")):
        read_taxonomy(tmp_path / "tree.ttl")
