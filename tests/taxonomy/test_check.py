from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import TaxonomyError
from taxtune.taxonomy import check_taxonomy, read_taxonomy


def check(folder, text, format="auto"):
    path = folder / "t.csv"
    path.write_text(text, encoding="utf-8")
    return check_taxonomy(path, format)


#: The kinds of defects that do not keep a file from being a tree.
NOTES = {"shared label", "duplicate row", "added root"}


@pytest.mark.parametrize(
    ("rows", "kinds", "lines"),
    [
        ("b,a,x\nc,a,x", ["duplicate sibling"], [4]),
        ("b,a,x\nc,a,X", ["shared label"], [4]),
        ("b,a,x\nb,a,x", ["duplicate row"], [4]),
        ("b,a,x\nb,a,y", ["conflicting rows"], [4]),
        ("b,a,", ["empty name"], [3]),
        ("b,,b", ["added root"], [None]),
        ("b,z,b", ["dangling parent"], [3]),
        ("b,a,b\nc,b,c\nb,c,b", ["cycle", "several parents"], [3, 5]),
        ("b,c,b\nc,b,c", ["cycle"], [3]),
        ("b,c,b\nc,b,c\nd,e,d\ne,d,e", ["cycle", "cycle"], [3, 5]),
        ("b,a,a", ["shared label"], [3]),
        ("b,a,b,extra", ["ragged row"], [3]),
    ],
)
def test_every_defect_is_found_with_its_row(tmp_path, rows, kinds, lines):
    report = check(tmp_path, f"child,parent,label\na,,a\n{rows}\n")
    assert [defect.kind for defect in report.defects] == kinds
    assert [defect.row for defect in report.defects] == lines
    for defect in report.defects:
        assert defect.breaks == (defect.kind not in NOTES)
        assert defect.file == str(tmp_path / "t.csv")
    is_tree = NOTES.issuperset(kinds)
    assert report.ok == is_tree
    with nullcontext() if is_tree else pytest.raises(TaxonomyError):
        read_taxonomy(tmp_path / "t.csv")


def test_parents_without_a_row_of_their_own_are_roots(tmp_path):
    report = check(tmp_path, "child,parent,label\nb,a,b\nc,z,c\n")
    assert report.ok
    assert [defect.kind for defect in report.defects] == ["added root"]
    assert len(read_taxonomy(tmp_path / "t.csv")) == 5


def test_defects_of_one_file_come_in_the_order_of_its_rows(tmp_path):
    report = check(tmp_path, "child,parent,label\na,,a\nb,c,b\nc,b,c\ny,,y\nz,q,\n")
    kinds = [defect.kind for defect in report.defects]
    assert kinds == ["cycle", "empty name", "dangling parent", "added root"]
    assert [defect.row for defect in report.defects] == [3, 6, 6, None]


def test_a_cycle_names_its_members_and_rows(tmp_path):
    report = check(tmp_path, "child,parent\nroot,\nbelow,x\nx,y\ny,z\nz,x\n")
    (cycle,) = report.defects
    assert "x → y → z → x; rows 4, 5, 6" in cycle.message
    assert "3 nodes" in cycle.message


def test_shared_names_are_notes_with_the_paths(tmp_path):
    text = "path,aliases\nlife,\nlife/bird/robin,redbreast\nlife/plant/Robin,\nlife/fish/wrasse,redbreast\n"
    label, alias = check(tmp_path, text).defects
    assert label.kind == "shared label"
    assert label.row == 4
    assert label.value == "robin"
    assert "life/bird/robin, life/plant/Robin" in label.message
    assert alias.kind == "shared alias"
    assert alias.row == 5
    assert alias.value == "redbreast"


def test_a_leaf_file_with_repeated_rows(tmp_path):
    text = "id,family,name,common_name\n0,Anatidae,Anas crecca,Teal\n0,Anatidae,Anas crecca,Teal\n"
    text += (
        "1,Anatidae,Anas acuta,Pintail\n1,Anatidae,Anas acuta,Northern Pintail\n2,,Anas x,\n2,,,\n"
    )
    text += "3,Anatidae,,Wigeon\n"
    defects = check(tmp_path, text).defects
    kinds = ["duplicate row", "conflicting rows", "left out", "empty name", "empty name"]
    assert [defect.kind for defect in defects] == kinds
    assert [defect.row for defect in defects] == [3, 5, 6, 7, 8]
    assert [defect.breaks for defect in defects] == [False, True, False, True, True]


def test_inat21_has_the_shared_names_that_are_known(shared_data):
    report = check_taxonomy(shared_data / "inat21" / "inat2021-categories.csv")
    assert report.ok
    assert report.counts["nodes"] == 16_344
    assert report.counts["levels"] == [1, 3, 13, 51, 273, 1103, 4900, 10_000]
    # 16 genus names under two families each, and Proboscidea, an order and a genus.
    shared = [d.value for d in report.defects if d.kind == "shared label"]
    assert len(shared) == 17
    assert "Proboscidea" in shared


NAMES = st.sampled_from(["a", "b", "c", "d", "e", ""])


@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=8))
def test_a_file_of_edges_is_read_exactly_where_it_is_a_forest(edges):
    networkx = pytest.importorskip("networkx")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.csv"
        # Quotes keep a row of two empty cells from being a blank line.
        rows = "".join(f'"{child}","{parent}"\n' for child, parent in edges)
        path.write_text(f"child,parent\n{rows}", encoding="utf-8")
        named = [(c, p) for c, p in edges if c or p]
        if not named:
            with pytest.raises(TaxonomyError):
                check_taxonomy(path)
            return
        graph = networkx.DiGraph()
        graph.add_nodes_from(c for c, _ in named if c)
        graph.add_edges_from((p, c) for c, p in named if c and p)
        roots = {c for c, p in named if c and not p}
        tops = {n for n in graph if graph.in_degree(n) == 0}
        # Where rows state roots, these are all that there are; else the roots are in no row of their own.
        is_named = all(child for child, _ in named)
        is_tree = is_named and networkx.is_branching(graph) and roots in (set(), tops)
        report = check_taxonomy(path)
        assert report.ok == is_tree, [d.message for d in report.defects]
        if not is_tree:
            with pytest.raises(TaxonomyError):
                read_taxonomy(path)
            return
        if len(tops) > 1:
            graph.add_edges_from(("everything", top) for top in tops)
        tree = read_taxonomy(path)
        assert {tree.path(node)[-2:] for node in range(1, len(tree))} == set(graph.edges)
        assert len(tree) == len(graph)


@pytest.mark.parametrize(
    "header", ["child,parent,label", "path,aliases", "level1,level2", "order,family,name", "", "["]
)
@given(body=st.text('ab,";|/\n\r\t \x00é{}[]:0', max_size=40))
def test_no_text_makes_the_readers_fall_over(header, body):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes(f"{header}\n{body}".encode())
        try:
            report = check_taxonomy(path)
        except TaxonomyError:
            with pytest.raises(TaxonomyError):
                read_taxonomy(path)
            return
        if report.ok:
            assert len(read_taxonomy(path, names=False)) == report.counts["nodes"]
        else:
            with pytest.raises(TaxonomyError):
                read_taxonomy(path)
