from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.building import BuildOptions, Graph, build_tree
from taxtune.taxonomy.sources import read_graph
from taxtune.taxonomy.sources.kgtk import read_text, split_list
from tests.displays import Recorder


def edges(graph: Graph) -> set[tuple[str, str]]:
    pairs = zip(graph.edges.child.tolist(), graph.edges.parent.tolist(), strict=True)
    return {(graph.ids[child], graph.ids[parent]) for child, parent in pairs}


def names(graph: Graph) -> dict[str, tuple[str, ...]]:
    return {key: (graph.label(i), *graph.aliases.get(i, ())) for i, key in enumerate(graph.ids)}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("'duck'@en", ("duck", "en")),
        ("'pato'@pt-br", ("pato", "pt-br")),
        (r"'it\'s a \"duck\"'@en", ('it\'s a "duck"', "en")),
        (r"'a\|b\tc\nd\\e'@en", ("a|b\tc\nd\\e", "en")),
        ("'it's'@en", ("it's", "en")),
        ("'a'@b'@en", ("a'@b", "en")),
        (r"'\u00e9\x41\101\U0001F986'@fr", ("éAA🦆", "fr")),
        (r"'\U00110000'@fr", ("\ufffd", "fr")),
        (r"'100\% \q'@en", ("100% q", "en")),
        ('"duck"', ("duck", None)),
        ("duck", ("duck", None)),
        ("''@en", ("", "en")),
        ("'duck'", None),
        ("'duck'@", None),
        ("'duck'@en fr", None),
        ('"duck', None),
        ("^2020-01-01T00:00:00Z/11", None),
        ("@043.26193/010.92708", None),
        ("", None),
    ],
)
def test_values_are_read_as_kgtk_writes_them(value: str, expected: tuple[str, str | None] | None) -> None:
    assert read_text(value) == expected


def test_lists_are_split_at_bars_that_are_not_escaped() -> None:
    assert split_list(r"'a\|b'@en|'c'@en") == [r"'a\|b'@en", "'c'@en"]


EDGES = """\
# a comment
id\tnode1\tlabel\tnode2\trank
e1\tQ2\tP279\tQ1\tnormal
e2\tQ3\tP279\tQ2\tpreferred
e3\tQ3\tP279\tQ1\tdeprecated
e4\tQ3\tP31\tQ9\tnormal

e5\tQ4\tP279\tsomevalue\tnormal
e6\tQ4\tP279\tnovalue\tnormal
e7\tQ4\tP279\t'text'@en\tnormal
e8\tQ4\tP279\tQ2\t
e9\t\tP279\tQ2\tnormal
"""
LABELS = """\
node1\tlabel\tnode2
Q1\tlabel\t'entity'@en
Q1\tlabel\t'Entität'@de
Q2\tlabel\t'the \\"bird\\"\\tgroup'@en
Q3\tlabel\t'Anas'@mul
Q2\tlabel\t'Aves'@mul
Q2\talias\t'fowl'@en
Q3\talias\t'canard'@fr
Q99\tlabel\t'elsewhere'@en
Q2\tdescription\t'a group'@en
Q1\tlabel\t^2020
"""


def test_edges_and_names_in_kgtk_form(tmp_path: Path) -> None:
    (tmp_path / "edges.tsv").write_text(EDGES, encoding="utf-8")
    (tmp_path / "labels.tsv.gz").write_bytes(gzip.compress(LABELS.encode()))
    graph = read_graph([tmp_path / "edges.tsv"], names=[tmp_path / "labels.tsv.gz"])
    assert edges(graph) == {("Q2", "Q1"), ("Q3", "Q2"), ("Q4", "Q2")}
    assert names(graph) == {
        "Q1": ("entity",),
        "Q2": ('the "bird" group', "fowl"),
        "Q3": ("Anas",),
        "Q4": ("Q4",),
    }
    assert graph.notes == {
        "deprecated edges": 1,
        "edges of other properties": 1,
        "edges with somevalue": 1,
        "edges with novalue": 1,
        "edges to a value that is not an entity": 1,
        "edges without a child or a parent": 1,
        "names in other languages": 2,
        "names of ids that are in no edge": 1,
        "names that are not text": 1,
        "rows that are not names": 1,
    }
    assert graph.edges.row.tolist() == [3, 4, 11]


def test_other_names_of_columns_lifted_labels_and_files_of_nodes(tmp_path: Path) -> None:
    (tmp_path / "edges.tsv").write_text(
        "subject\tpredicate\tobject\tnode1;label\tnode2;label\nQ2\tP279\tQ1\t'bird'@en\t'entity'@en\n", encoding="utf-8"
    )
    (tmp_path / "nodes.tsv").write_text(
        "id\tlabel\talias\nQ2\t'Aves'@en\t'fowl'@en|'a\\|b'@en|'x'@de\n", encoding="utf-8"
    )
    graph = read_graph([tmp_path / "edges.tsv"], names=[tmp_path / "nodes.tsv"])
    assert names(graph) == {"Q1": ("entity",), "Q2": ("bird", "Aves", "fowl", "a|b")}


def test_other_properties_are_read_for_wanted_children_only(tmp_path: Path) -> None:
    path = tmp_path / "edges.tsv"
    path.write_text("node1\tlabel\tnode2\nQ2\tP279\tQ1\nQ7\tP31\tQ2\nQ8\tP31\tQ2\n", encoding="utf-8")
    both = read_graph([path], properties=("P279", "P31"))
    assert edges(both) == {("Q2", "Q1"), ("Q7", "Q2"), ("Q8", "Q2")}
    some = read_graph([path], properties=("P279", "P31"), only={"P31": {"Q7"}})
    assert edges(some) == {("Q2", "Q1"), ("Q7", "Q2")}
    assert some.notes == {"P31 edges of entities that are not wanted": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node1\tlabel\tnode2\nQ1\tP279\n", r"x\.tsv:2: The row has 2 cells, the header 3"),
        ("node1\tlabel\tnode2\tto\n", r"x\.tsv:1: Two columns have the same meaning.*node2"),
        ("node1\tnode2\nQ1\tQ2\n", r"x\.tsv:1: The KGTK file has no column label"),
        ("node1\tlabel\tnode2\nQ1\tP31\tQ2\n", r"x\.tsv: There is no edge"),
        ("# nothing\n", "not have the columns child and parent"),
        ("", r"x\.tsv: The file is empty"),
        ("\n \n", r"x\.tsv: The file is empty"),
    ],
)
def test_malformed_kgtk_files_are_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TaxonomyError, match=message):
        read_graph([path])


@pytest.mark.parametrize("line", ["Q1\tP279\tQ2\n", "Q1-P279-Q2-0\tQ1\tP279\tQ2\tnormal\n"])
def test_triples_without_a_header_are_not_taken_for_pairs(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(TaxonomyError, match=r"x\.tsv:1: The KGTK file has no column node1.*header needs node1"):
        read_graph([path], direction="child-parent")


def claim(value: str | int | None, rank: str = "normal", kind: str = "value", **more: object) -> dict[str, Any]:
    """A claim as Wikidata's dumps write it."""
    snak: dict[str, Any] = {"snaktype": kind, "property": "P279", "datatype": "wikibase-item"}
    if kind == "value":
        number = int(str(value).removeprefix("Q"))
        entity = {"entity-type": "item", "numeric-id": number} | ({} if isinstance(value, int) else {"id": value})
        snak["datavalue"] = {"value": entity, "type": "wikibase-entityid"}
    return {"mainsnak": snak, "type": "statement", "rank": rank} | more


def entity(key: str, labels: dict[str, str] | None, *claims: dict[str, Any], **aliases: list[str]) -> dict[str, Any]:
    """An entity as Wikidata's dumps write it: without labels as an empty list."""
    return {
        "type": "item",
        "id": key,
        "labels": [] if not labels else {code: {"language": code, "value": text} for code, text in labels.items()},
        "aliases": {code: [{"language": code, "value": text} for text in texts] for code, texts in aliases.items()}
        or [],
        "claims": {"P279": list(claims)} if claims else [],
    }


ENTITIES = [
    entity("Q1", {"en": "entity", "de": "Entität"}),
    entity("Q3", {"en": "duck"}, claim("Q2"), claim("Q2", "preferred"), claim("Q1", "deprecated"), en=["wild duck"]),
    entity("Q4", {"mul": "Anser"}, claim(2), claim(None, kind="somevalue"), claim(None, kind="novalue")),
    entity("Q50", {"en": "unrelated"}),
    entity("Q2", {"en": "bird \ud83e\udd86"}, claim("Q1"), mul=["Aves"]),
    entity("Q5", None, claim("Q2")),
]


@pytest.mark.parametrize("form", ["array", "lines", "gzip", "bzip2", "xz"])
def test_dumps_in_every_form(tmp_path: Path, form: str, recorder: Recorder) -> None:
    lines = [json.dumps(value) for value in ENTITIES]
    text = "[\n" + ",\n".join(lines) + "\n]\n" if form != "lines" else "\n".join(lines) + "\n"
    pack = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}.get(form, bytes)
    path = tmp_path / "dump.json"  # packed or not, the name says nothing
    path.write_bytes(pack(text.encode()))
    graph = read_graph([path])
    assert edges(graph) == {("Q2", "Q1"), ("Q3", "Q2"), ("Q4", "Q2"), ("Q5", "Q2")}
    assert names(graph) == {
        "Q1": ("entity",),  # it is only ever a parent: found by the second reading
        "Q2": ("bird 🦆", "Aves"),
        "Q3": ("duck", "wild duck"),
        "Q4": ("Anser",),
        "Q5": ("Q5",),
    }
    assert len(graph.duplicates) == 1
    assert graph.notes == {"deprecated edges": 1, "edges with somevalue": 1, "edges with novalue": 1, "entities": 6}
    size = path.stat().st_size
    assert (size, size) in recorder.of(f"reading {path.name}")
    tree = build_tree(graph, BuildOptions())
    assert (tree.ids[tree.root], len(tree.order)) == ("Q1", 5)


def test_names_of_another_language(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text("\n".join(map(json.dumps, ENTITIES)), encoding="utf-8")
    assert names(read_graph([path], language="de"))["Q1"] == ("Entität",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"id": "Q1", "claims": {"P279": []}}\n{"id": "Q2", "claims": {"P279"\n',
            r"d\.json:2: The line is not a JSON",
        ),
        ('{"id": "Q1", "claims": {"P279": []}}\nnot JSON\n', r"d\.json:2: The line is not a JSON"),
        ('{"id": "Q1", "claims": {}}\n{"id": "Q2", "cla', r"d\.json:2: The line is not a JSON"),
        ('{"label": "no id"}\n', r"d\.json:1: The line is not a Wikidata entity: it has no id"),
        ("[\n]\n", "The dump contains no entities"),
        ('{"id": "Q1", "claims": {"P279": [{"rank": "normal"}]}}\n', r"d\.json:1: A claim of P279 is not in Wikidata"),
        ('{"id": "Q1", "claims": {"P279": [1]}}\n', r"d\.json:1: A claim of P279 is not in Wikidata"),
        ('{"id": "Q1", "claims": []}\n', "There is no edge"),
    ],
)
def test_malformed_dumps_are_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "d.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TaxonomyError, match=message):
        read_graph([path])


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_file_that_was_cut_off_is_an_error_with_its_line(tmp_path: Path, pack: Any) -> None:
    lines = "".join(f"Q{i}\tP279\tQ{i * 7919 % 5000}\n" for i in range(5000))
    path = tmp_path / "edges.tsv.gz"
    path.write_bytes(pack(("node1\tlabel\tnode2\n" + lines).encode())[:-200])
    with pytest.raises(
        TaxonomyError,
        match=r"edges\.tsv\.gz.*The compressed data are damaged or incomplete.*Download the file "
        r"again",
    ):
        read_graph([path])


def test_bytes_that_are_no_text_are_an_error_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "edges.tsv"
    path.write_bytes(b"\xef\xbb\xbfnode1\tlabel\tnode2\nQ1\tP279\t\xff\n")
    with pytest.raises(TaxonomyError, match=r"edges\.tsv:2: The file is not UTF-8 text"):
        read_graph([path])
    path.write_bytes(b"\xef\xbb\xbfnode1\tlabel\tnode2\r\nQ2\tP279\tQ1\r\n")
    assert edges(read_graph([path])) == {("Q2", "Q1")}
    with pytest.raises(TaxonomyError, match="The file does not exist"):
        read_graph([tmp_path / "nowhere.tsv"])
    with pytest.raises(TaxonomyError, match="This is a folder"):
        read_graph([tmp_path])
