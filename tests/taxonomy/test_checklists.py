"""Checklists: Darwin Core archives and NCBI's taxonomy."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import TaxonomyError
from taxtune.progress import showing
from taxtune.taxonomy import RawTaxonomy, Taxonomy, check_taxonomy, read_taxonomy
from taxtune.taxonomy.graph import assemble
from taxtune.taxonomy.readers.checklists import Checklist, Taxon
from tests.displays import Recorder

URL = "https://www.inaturalist.org/taxa/"
TAXA = (
    "id,taxonID,identifier,parentNameUsageID,kingdom,phylum,class,order,family,genus,specificEpithet,"
    "infraspecificEpithet,modified,scientificName,taxonRank,references"
)
NAMES = "id,vernacularName,language,locality,countryCode,source,lexicon,contributor,created"


def inat_row(key: int, parent: int | None, name: str, rank: str) -> str:
    above = "" if parent is None else f"{URL}{parent}"
    return f"{key},{URL}{key},{URL}{key},{above},Animalia,,,,,,,,2021-11-02T06:05:44Z,{name},{rank},"


def inat() -> dict[str, str]:
    """An archive in iNaturalist's layout; children before parents, as may be."""
    rows = [
        inat_row(12, 11, "Turdus merula", "species"),
        inat_row(11, 3, "Turdus", "genus"),
        inat_row(13, 11, "Turdus", "subgenus"),
        inat_row(48460, None, "Life", "stateofmatter"),
        inat_row(1, 48460, "Animalia", "kingdom"),
        inat_row(3, 1, "Aves", "class"),
    ]
    names = [
        '12,"Blackbird, Eurasian",en,,,,English,someone,2014-01-01',
        "12,Common Blackbird,en,,,,English,someone,2014-01-01",
        "3,Birds,en,,,,English,someone,2014-01-01",
        "99,Nobody,en,,,,English,someone,2014-01-01",
    ]
    return {
        "taxa.csv": "\n".join([TAXA, *rows]) + "\n",
        "VernacularNames-english.csv": "\n".join([NAMES, *names]) + "\n",
        "VernacularNames-german.csv": NAMES + "\n12,Amsel,de,,,,German,someone,2014-01-01\n",
    }


def folder(path: Path, files: Mapping[str, str | bytes]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def zipped(path: Path, files: Mapping[str, str | bytes], inside: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(inside + name, text)
    return path


def nodes(tree: Taxonomy) -> dict[str, tuple[str | None, tuple[str, ...]]]:
    return {"/".join(tree.path(i)): (tree.ranks[i], tree.aliases[i]) for i in range(len(tree))}


def read(path: Path, **settings: object) -> tuple[Taxonomy, list[str]]:
    with showing(Recorder()) as display:
        return read_taxonomy(path, names=False, **settings), display.notes  # type: ignore[arg-type]


# -- iNaturalist -------------------------------------------------------------------------------------------------------

INAT = {
    "Life": ("stateofmatter", ()),
    "Life/Animalia": ("kingdom", ()),
    "Life/Animalia/Aves": ("class", ("Birds",)),
    "Life/Animalia/Aves/Turdus": ("genus", ()),
    "Life/Animalia/Aves/Turdus/Turdus merula": ("species", ("Blackbird, Eurasian", "Common Blackbird")),
    "Life/Animalia/Aves/Turdus/Turdus": ("subgenus", ()),
}


def test_inaturalists_archive_is_read_as_folder_zip_or_core_file(tmp_path: Path) -> None:
    at = folder(tmp_path / "inat", inat())
    bom = folder(tmp_path / "bom", {"taxa.csv": "\ufeff" + inat()["taxa.csv"].replace("\n", "\r\n")})
    for path in (at, at / "taxa.csv", zipped(tmp_path / "a.zip", inat()), zipped(tmp_path / "b.zip", inat(), "dwca/")):
        tree, notes = read(path)
        assert nodes(tree) == INAT
        assert tree.ids[tree.resolve("Turdus merula")] == "12"
        assert len(notes) == 1
        assert "Left out: 1 common names of taxa without a row." in notes[0]
    tree, notes = read(bom)
    assert set(nodes(tree)) == set(INAT)
    assert not notes
    assert check_taxonomy(at).format == "darwin-core"


def test_kingdoms_without_the_row_of_life_stand_under_a_root_of_that_name(tmp_path: Path) -> None:
    text = "\n".join([TAXA, inat_row(1, 48460, "Animalia", "kingdom"), inat_row(47126, 48460, "Plantae", "kingdom")])
    tree, notes = read(folder(tmp_path / "x", {"taxa.csv": text}))
    assert set(nodes(tree)) == {"life", "life/Animalia", "life/Plantae"}
    assert "now under an added root 'life': 2 taxa" in notes[0]
    assert read(tmp_path / "x", root_label="Biota")[0].labels[0] == "Biota"
    # One taxon at the top is the root itself.
    text = "\n".join([TAXA, inat_row(3, 1, "Aves", "class"), inat_row(4, 3, "Passeriformes", "order")])
    tree, notes = read(folder(tmp_path / "y", {"taxa.csv": text}))
    assert (set(nodes(tree)), notes) == ({"Aves", "Aves/Passeriformes"}, [])


def test_taxa_whose_parent_is_in_no_row_are_left_out_with_what_is_below_and_counted(tmp_path: Path) -> None:
    extra = [inat_row(20, 999, "Orphanus", "genus"), inat_row(21, 20, "Orphanus parvus", "species")]
    files = inat() | {"taxa.csv": inat()["taxa.csv"] + "\n".join(extra)}
    tree, notes = read(folder(tmp_path / "x", files))
    assert nodes(tree) == INAT
    assert "Left out: 2 taxa, 1 whose parent has no row (first: 'Orphanus', row 8" in notes[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (inat_row(12, 3, "Another", "species"), r"taxa.csv:8: Row 2 already gives this id, with other values"),
        (inat_row(30, 11, "", "species"), r"taxa.csv:8: The taxon has no name.*'30'"),
        (inat_row(30, 11, "Turdus, alone", "species") + "x", r"taxa.csv:8: The row has 17 cells, the header 16"),
        (inat_row(30, 31, "A", "genus") + "\n" + inat_row(31, 30, "B", "genus"), "2 nodes are their own ancestors"),
        ('30,"unclosed', r"taxa.csv:8: The row cannot be read"),
    ],
)
def test_bad_rows_are_refused_with_their_row(tmp_path: Path, change: str, message: str) -> None:
    files = {"taxa.csv": inat()["taxa.csv"] + change + "\n"}
    for path in (folder(tmp_path / "x", files), zipped(tmp_path / "x.zip", files)):
        with pytest.raises(TaxonomyError, match=message):
            read(path)


def test_an_archive_that_unpacks_to_more_than_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taxtune.taxonomy.readers.checklists.MOST_UNPACKED", 2**16)
    files = inat() | {"taxa.csv": inat()["taxa.csv"] + "\n" * 2**18}
    with pytest.raises(TaxonomyError, match=r"x\.zip: The archive unpacks to more than 0 MiB.*give the folder"):
        read(zipped(tmp_path / "x.zip", files))
    # The same in a folder has its size on the disk for all to see.
    assert nodes(read(folder(tmp_path / "y", files))[0]).keys() == INAT.keys()


def test_bad_bytes_and_broken_zips_are_refused(tmp_path: Path) -> None:
    latin = inat()["taxa.csv"].encode() + b"30,,,,,,,,,,,,,\xe9,species,\n"
    with pytest.raises(TaxonomyError, match=r"taxa.csv:8: The row is not UTF-8 text"):
        read(folder(tmp_path / "x", {"taxa.csv": latin}))
    whole = zipped(tmp_path / "whole.zip", {"taxa.csv": inat()["taxa.csv"] * 200}).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TaxonomyError, match=r"cut\.zip: The archive cannot be opened"):
        read(tmp_path / "cut.zip")
    with pytest.raises(TaxonomyError, match=r"no core file of taxa.*'other.txt'.*taxa\.csv or Taxon\.tsv"):
        read(folder(tmp_path / "y", {"other.txt": "x"}))


# -- Darwin Core at large ----------------------------------------------------------------------------------------------

GBIF = [
    "taxonID\tparentNameUsageID\tacceptedNameUsageID\ttaxonomicStatus\tscientificName\tscientificNameAuthorship\t"
    "taxonRank",
    "1\t\t\taccepted\tAnimalia\t\tKINGDOM",
    '2\t1\t\taccepted\tAus "quoted L., 1758\tL., 1758\tGENUS',
    "3\t2\t3\taccepted\tAus bus (L., 1758)\t(L., 1758)\tSPECIES",
    "4\t2\t3\thomotypic synonym\tCus bus L., 1758\tL., 1758\tSPECIES",
    "5\t2\t4\tsynonym\tDus bus\t\tSPECIES",
    "6\t2\t404\tsynonym\tLost\t\tSPECIES",
    "7\t2\t3\tmisapplied\tEus bus\t\tSPECIES",
    "8\t2\t\tdoubtful\tAus dubius Éluard\tÉluard\tSPECIES",
    "9\t1\t\taccepted\tHomonymus Smith\tSmith\tGENUS",
    "10\t1\t\taccepted\tHomonymus Jones\tJones\tGENUS",
    "11\t4\t\taccepted\tAus bus minor\t\tSUBSPECIES",
]
COMMON = "taxonID\tvernacularName\tlanguage\tisPreferredName\n3\tBus\teng\tfalse\n3\tgros bus\tfra\ttrue\n"
COMMON += "3\tOmnibus\ten-GB\ttrue\n4\tCoach\tEnglish\t\n3\tbus\ten\t\n"
CHECKLIST = {
    "Animalia": ("kingdom", ()),
    'Animalia/Aus "quoted': ("genus", ()),
    # Preferred common names first, then the others, then synonyms and synonyms of synonyms.
    'Animalia/Aus "quoted/Aus bus': ("species", ("Omnibus", "Bus", "Coach", "Cus bus", "Dus bus")),
    'Animalia/Aus "quoted/Aus bus/Aus bus minor': ("subspecies", ()),  # its parent is a synonym of Aus bus
    'Animalia/Aus "quoted/Aus dubius': ("species", ()),
    "Animalia/Homonymus": ("genus", ()),
    "Animalia/Homonymus Jones": ("genus", ("Homonymus",)),
}


def test_synonyms_become_aliases_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    files = {"Taxon.tsv": "\n".join(GBIF) + "\n", "VernacularName.tsv": COMMON}
    for path in (folder(tmp_path / "x", files), zipped(tmp_path / "x.zip", files), tmp_path / "x" / "Taxon.tsv"):
        tree, notes = read(path)
        assert nodes(tree) == CHECKLIST
        told = {d.message for d in check_taxonomy(path).defects if d.kind != "shared alias"}
        assert told == {
            "Added as aliases of their accepted names: 2 synonyms.",
            "Left out: 1 bare and misapplied names.",
            "Left out: 1 synonyms whose accepted name has no row.",
            "Named like a sibling, and distinguished by rank, authorship or id: 1 taxon.",
        }
        assert len(notes) == 3  # what became an alias is no loss
    with pytest.raises(TaxonomyError, match=r"Taxon\.tsv:1: The core file has no column parentNameUsageID.*inat21-csv"):
        read(folder(tmp_path / "y", {"Taxon.tsv": "taxonID\tscientificName\na\tA\n"}))
    with pytest.raises(TaxonomyError, match="no rows"):
        read(folder(tmp_path / "z", {"Taxon.tsv": GBIF[0] + "\n"}))


# -- NCBI --------------------------------------------------------------------------------------------------------------


def dmp(*rows: str) -> str:
    return "".join("\t|\t".join(row.split("|")) + "\t|\n" for row in rows)


DUMP = dmp("1|1|no rank|", "131567|1|cellular root|", "8782|131567|class|", "9126|8782|order|", "562|131567|species|")
TERMS = dmp(
    *("1|all||synonym", "1|root||scientific name", "131567|cellular organisms||scientific name"),
    *("8782|Aves||scientific name", "8782|birds||genbank common name", "8782|avian||equivalent name"),
    *("9126|Passeriformes||scientific name", "9126|perching birds||common name", "8782|Aves Linnaeus||authority"),
    *("562|Escherichia coli||scientific name", "562|Bacillus coli||synonym", "562|E. coli||acronym"),
)


def test_ncbis_taxonomy_as_folder_zip_or_nodes_dmp(tmp_path: Path) -> None:
    files = {"nodes.dmp": DUMP, "names.dmp": TERMS, "merged.dmp": dmp("12|562")}
    at = folder(tmp_path / "dump", files)
    for path in (at, at / "nodes.dmp", zipped(tmp_path / "taxdmp.zip", files)):
        tree, notes = read(path)
        top = "root/cellular organisms"
        assert [*nodes(tree)] == ["root", top, f"{top}/Aves", f"{top}/Aves/Passeriformes", f"{top}/Escherichia coli"]
        assert tree.ids == ("1", "131567", "8782", "9126", "562")
        assert tree.aliases == (("all",), (), ("birds", "avian"), ("perching birds",), ("Bacillus coli", "E. coli"))
        assert (tree.ranks[0], tree.ranks[2]) == (None, "class")
        assert [note.split("dmp: ")[1] for note in notes] == ["Left out: 1 names of the class 'authority'."]
    assert check_taxonomy(at).format == "taxdump"


@pytest.mark.parametrize(
    ("nodes", "names", "message"),
    [
        (DUMP, None, r"no names\.dmp in it.*names\.dmp in the same folder"),
        (DUMP + "7\n", TERMS, r"nodes\.dmp:6: The row does not have 3 fields"),
        (DUMP + dmp("7|562|genus|"), TERMS, r"nodes\.dmp:6: The taxon has no name.*'7'"),
        (DUMP + dmp("562|8782|genus|"), TERMS, r"nodes\.dmp:6: Row 5 already gives this id, with other values"),
        (DUMP, TERMS + "8782\t|\tAves\n", r"names\.dmp:13: The row does not have 4 fields"),
        (
            dmp("1|1|no rank|", "2|3|x|", "3|2|x|"),
            dmp(*(f"{key}|{key * 2}||scientific name" for key in "123")),
            "2 nodes are their own ancestors",
        ),
    ],
)
def test_bad_dumps_are_refused_with_file_and_row(nodes: str, names: str | None, message: str, tmp_path: Path) -> None:
    file = folder(tmp_path, {"nodes.dmp": nodes} | ({} if names is None else {"names.dmp": names})) / "nodes.dmp"
    with pytest.raises(TaxonomyError, match=message):
        read(file)


# -- what checklists make ----------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-2, 14), min_size=1, max_size=14), st.data())
def test_a_checklist_keeps_exactly_the_taxa_that_lead_to_a_top(parents: list[int], data: st.DataObject) -> None:
    """Parents are other taxa, -1 (none) or -2 and 14 (in no row); checked against a walk up from each taxon."""
    n = len(parents)
    checklist = Checklist(RawTaxonomy("x", "test"))
    order = data.draw(st.permutations(range(n)))
    for i in order:
        above = "" if parents[i] == -1 else f"t{parents[i]}"
        checklist.add(f"t{i}", Taxon(i + 2, above, data.draw(st.sampled_from("ab"))))
    raw = checklist.finish(None)
    order, defects = assemble(raw)

    def top(i: int) -> str:
        seen: set[int] = set()
        while True:
            if i in seen:
                return "cycle"
            seen.add(i)
            if parents[i] == -1:
                return "root"
            if not 0 <= parents[i] < n:
                return "missing"
            i = parents[i]

    ends = [top(i) for i in range(n)]
    if "cycle" in ends or not {"root", "missing"} & set(ends):
        assert any(d.kind == "cycle" for d in defects)
        return
    kept = {f"t{i}" for i in range(n) if ends[i] == ("root" if "root" in ends else "missing")}
    tree = Taxonomy.from_nodes(order)
    # A top of several has the id of the one missing parent, if it is one.
    added = set() if sum(parents[int(k[1:])] not in range(n) for k in kept) == 1 else {tree.ids[0]}
    assert set(tree.by_id) - added == kept
    for key in kept:
        above = f"t{parents[int(key[1:])]}"
        if above in kept:
            assert tree.parents[tree.by_id[key]] == tree.by_id[above]
    if len(kept) < n:
        assert any(d.kind == "left out" and f"Left out: {n - len(kept)} tax" in d.message for d in defects)
