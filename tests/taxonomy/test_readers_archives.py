"""Checklists: Darwin Core archives and ColDP packages."""

from __future__ import annotations

import bz2
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import TaxonomyError
from taxtune.progress import showing
from taxtune.tables import MOST_UNPACKED
from taxtune.taxonomy import Taxonomy, check_taxonomy, read_taxonomy
from taxtune.taxonomy.graph import assemble
from taxtune.taxonomy.readers.usages import UsageCollector
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
        ('30,"unclosed', r"taxa.csv:8: The row cannot be read as CSV"),
        ("30,\0", r"taxa.csv:8: The line holds a NUL character"),
    ],
)
def test_bad_rows_are_refused_with_their_row(tmp_path: Path, change: str, message: str) -> None:
    files = {"taxa.csv": inat()["taxa.csv"] + change + "\n"}
    for path in (folder(tmp_path / "x", files), zipped(tmp_path / "x.zip", files)):
        with pytest.raises(TaxonomyError, match=message):
            read(path)


def test_rows_that_are_longer_by_empty_cells_are_used_and_told_of(tmp_path: Path) -> None:
    # The comma in the name moves "species" into the last column, which is empty otherwise.
    row = inat_row(30, 11, "Turdus major, L.", "species")
    tree, notes = read(folder(tmp_path / "x", {"taxa.csv": inat()["taxa.csv"] + row + "\n"}))
    assert tree.find("Turdus major")
    assert "Rows with extra empty cells: 1 row (first: row 8)" in notes[0]


def test_an_archive_that_unpacks_to_more_than_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taxtune.taxonomy.readers.archive.MOST_UNPACKED", 2**16)
    files = inat() | {"taxa.csv": inat()["taxa.csv"] + "\n" * 2**18}
    with pytest.raises(TaxonomyError, match=r"x\.zip: The archive unpacks to more than 0 MiB.*give the folder"):
        read(zipped(tmp_path / "x.zip", files))
    # The same in a folder has its size on the disk for all to see.
    assert nodes(read(folder(tmp_path / "y", files))[0]).keys() == INAT.keys()


def test_a_tar_file_is_not_unpacked_to_see_how_large_it_is(tmp_path: Path) -> None:
    header = tarfile.TarInfo("nodes.dmp")
    header.size = MOST_UNPACKED + 1
    (tmp_path / "x.tar.bz2").write_bytes(bz2.compress(header.tobuf()))
    with pytest.raises(TaxonomyError, match="unpacks to more than 256 MiB"):
        read(tmp_path / "x.tar.bz2")


def test_bad_bytes_and_broken_zips_are_refused(tmp_path: Path) -> None:
    latin = inat()["taxa.csv"].encode() + b"30,,,,,,,,,,,,,\xe9,species,\n"
    with pytest.raises(TaxonomyError, match=r"taxa.csv:8: The row is not UTF-8 text"):
        read(folder(tmp_path / "x", {"taxa.csv": latin}))
    whole = zipped(tmp_path / "whole.zip", {"taxa.csv": inat()["taxa.csv"] * 200}).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TaxonomyError, match=r"cut\.zip: The archive cannot be opened"):
        read(tmp_path / "cut.zip", format="darwin-core")
    damaged = bytearray(whole)
    damaged[200:260] = b"\0" * 60
    (tmp_path / "damaged.zip").write_bytes(damaged)
    with pytest.raises(TaxonomyError, match=r"damaged.zip/taxa.csv.*download it again"):
        read(tmp_path / "damaged.zip")


# -- Darwin Core at large ----------------------------------------------------------------------------------------------

TERMS = "http://rs.tdwg.org/dwc/terms/"
META = """<?xml version="1.0" encoding="UTF-8"?>
<archive xmlns="http://rs.tdwg.org/dwc/text/">
  <core encoding="{encoding}" fieldsTerminatedBy="\\t" linesTerminatedBy="\\n" fieldsEnclosedBy=""
        ignoreHeaderLines="1" rowType="http://rs.tdwg.org/dwc/terms/Taxon">
    <files><location>{file}</location></files>
    <id index="0"/>
    <field index="4" term="http://rs.tdwg.org/dwc/terms/scientificName"/>
    <field index="5" term="http://rs.tdwg.org/dwc/terms/scientificNameAuthorship"/>
    <field index="1" term="http://rs.tdwg.org/dwc/terms/parentNameUsageID"/>
    <field index="2" term="http://rs.tdwg.org/dwc/terms/acceptedNameUsageID"/>
    <field index="3" term="http://rs.tdwg.org/dwc/terms/taxonomicStatus"/>
    <field index="6" term="http://rs.tdwg.org/dwc/terms/taxonRank"/>
    <field term="http://rs.tdwg.org/dwc/terms/kingdom" default="Animalia"/>
  </core>
  <extension encoding="UTF-8" fieldsTerminatedBy="\\t" fieldsEnclosedBy="" ignoreHeaderLines="0"
             rowType="http://rs.gbif.org/terms/1.0/VernacularName">
    <files><location>names.txt</location></files>
    <coreid index="0"/>
    <field index="1" term="http://rs.tdwg.org/dwc/terms/vernacularName"/>
    <field index="2" term="http://purl.org/dc/terms/language"/>
    <field index="3" term="http://rs.gbif.org/terms/1.0/isPreferredName"/>
  </extension>
</archive>
"""
GBIF = [
    "no\tparent\taccepted\tstatus\tname\tauthor\trank",
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
COMMON = "3\tBus\teng\tfalse\n3\tgros bus\tfra\ttrue\n3\tOmnibus\ten-GB\ttrue\n4\tCoach\tEnglish\t\n3\tbus\ten\t\n"


def gbif(**changes: str | bytes) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {
        "meta.xml": META.format(encoding="UTF-8", file="taxa of mine.txt"),
        "taxa of mine.txt": "\n".join(GBIF) + "\n",
        "names.txt": COMMON,
    }
    return files | changes


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


def test_meta_xml_says_where_things_are_and_synonyms_become_aliases(tmp_path: Path) -> None:
    for path in (folder(tmp_path / "x", gbif()), zipped(tmp_path / "x.zip", gbif())):
        tree, notes = read(path)
        assert nodes(tree) == CHECKLIST
        report = check_taxonomy(path)
        told = {d.message for d in report.defects if d.kind != "shared alias"}
        assert told == {
            "Added as aliases of their accepted names: 2 synonyms.",
            "Provisionally accepted: 1 taxon.",
            "Left out: 1 misapplied names (first: row 8).",
            "Left out: 1 synonyms whose accepted name has no row (first: row 7).",
            "Named like a sibling, and distinguished by rank, authorship or id: 1 taxon.",
        }
        assert len(notes) == 3  # what became an alias or is provisional is no loss
    latin = gbif(
        **{"meta.xml": META.format(encoding="ISO-8859-1", file="t.txt"), "t.txt": "\n".join(GBIF).encode("latin-1")}
    )
    assert nodes(read(folder(tmp_path / "latin", latin))[0]) == CHECKLIST


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><archive>&x;</archive>', "document type"),
        ("<archive><core>", "not valid XML"),
        ("<archive/>", "describes no core file"),
        (META.format(encoding="UTF-8", file="gone.txt"), r"not in the archive.*'gone.txt'"),
        (META.format(encoding="klingon", file="taxa of mine.txt"), r"unknown encoding.*'klingon'"),
        (
            META.format(encoding="UTF-8", file="taxa of mine.txt").replace('id index="0"', 'id index="x"'),
            "not a number",
        ),
        (META.format(encoding="UTF-8", file="taxa of mine.txt").replace('"\\t"', '"||"'), "must be one character"),
        (META.format(encoding="UTF-8", file="taxa of mine.txt").replace("terms/Taxon", "terms/Occurrence"), "taxa"),
        (META.format(encoding="UTF-8", file="taxa of mine.txt").replace("scientificName", "x"), "scientificName"),
        ("<a>" + "x" * 2**20 + "</a>", "larger than 1 MiB"),
    ],
)
def test_a_meta_xml_that_is_wrong_or_hostile_is_refused(tmp_path: Path, meta: str, message: str) -> None:
    with pytest.raises(TaxonomyError, match=message):
        read(folder(tmp_path / "x", gbif(**{"meta.xml": meta})))


def test_files_of_other_languages_need_not_be_there(tmp_path: Path) -> None:
    """`meta.xml` of iNaturalist names some fifty of them; who unpacks only what is read has one."""
    name = "http://rs.gbif.org/terms/1.0/VernacularName"
    fields = '<coreid index="0"/><field index="1" term="vernacularName"/><field index="2" term="language"/>'
    layout = 'fieldsEnclosedBy="&quot;" ignoreHeaderLines="1"'
    extensions = "".join(
        f'<extension rowType="{name}" {layout}><files><location>VernacularNames-{language}.csv</location></files>'
        f"{fields}</extension>"
        for language in ("english", "german", "maori")
    )
    terms = {1: "taxonID", 3: "parentNameUsageID", 13: "scientificName", 14: "taxonRank"}
    columns = "".join(f'<field index="{i}" term="http://rs.tdwg.org/dwc/terms/{term}"/>' for i, term in terms.items())
    core = f'<core {layout}><files><location>taxa.csv</location></files><id index="0"/>{columns}</core>'
    files = inat() | {"meta.xml": f"<archive>{core}{extensions}</archive>"}
    del files["VernacularNames-german.csv"]
    assert nodes(read(folder(tmp_path / "x", files))[0]) == INAT
    del files["VernacularNames-english.csv"]
    with pytest.raises(TaxonomyError, match=r"meta\.xml names a file that is not in the archive.*english"):
        read(folder(tmp_path / "y", files))


def test_an_archive_cannot_name_a_file_outside_of_it(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("\n".join(GBIF))
    meta = META.format(encoding="UTF-8", file="../secret.txt")
    with pytest.raises(TaxonomyError, match="not in the archive"):
        read(folder(tmp_path / "x", {"meta.xml": meta, "names.txt": COMMON}))


def test_groups_by_name_make_a_tree_where_no_parents_are_given(tmp_path: Path) -> None:
    text = (
        "taxonID,scientificName,taxonRank,kingdom,class,family,genus\n"
        "a,Turdus merula,species,Animalia,Aves,Turdidae,Turdus\n"
        "b,Turdidae,family,Animalia,Aves,Turdidae,\n"
        "c,Gulo gulo,species,Animalia,Mammalia,,Gulo\n"
        "d,Bacterium,species,,,,\n"
    )
    names = "taxonID,vernacularName,language\nb,thrushes,en\n"
    tree, notes = read(folder(tmp_path / "x", {"taxon.csv": text, "vernacularname.csv": names}))
    assert nodes(tree) == {
        "life": (None, ()),
        "life/Animalia": ("kingdom", ()),
        "life/Animalia/Aves": ("class", ()),
        "life/Animalia/Aves/Turdidae": ("family", ("thrushes",)),
        "life/Animalia/Aves/Turdidae/Turdus": ("genus", ()),
        "life/Animalia/Aves/Turdidae/Turdus/Turdus merula": ("species", ()),
        "life/Animalia/Mammalia": ("class", ()),
        "life/Animalia/Mammalia/Gulo": ("genus", ()),
        "life/Animalia/Mammalia/Gulo/Gulo gulo": ("species", ()),
        "life/Bacterium": ("species", ()),
    }
    assert "added root" in notes[0]
    with pytest.raises(TaxonomyError, match="does not say where taxa belong"):
        read(folder(tmp_path / "y", {"taxon.csv": "taxonID,scientificName\na,A\n"}))
    with pytest.raises(TaxonomyError, match="no rows"):
        read(folder(tmp_path / "z", {"taxon.csv": "taxonID,scientificName,order\n"}))


# -- ColDP -------------------------------------------------------------------------------------------------------------

USAGES = [
    "col:ID\tcol:parentID\tcol:status\tcol:scientificName\tcol:authorship\tcol:rank\tcol:remarks",
    'T1\tG\taccepted\tAus bus\tL., 1758\tspecies\t"a quote that is never closed',
    "G\tR\taccepted\tAus\tL.\tgenus\t",
    "R\t\taccepted\tAnimalia\t\tkingdom\t",
    "S1\tT1\tsynonym\tCus bus\tL.\tspecies\t",
    "S2\tT1\tmisapplied\tDus bus\t\tspecies\t",
    "S3\tT1\tambiguous synonym\tEus bus\t\tspecies\t",
    "P\tG\tprovisionally accepted\tAus dubius\t\tspecies\t",
    "B\t\tbare name\tNudum\t\tspecies\t",
]
VERNACULAR = 'col:taxonID\tcol:name\tcol:language\nT1\tthe "bus"\teng\nT1\tder Bus\tdeu\nG\tbuses\\tcoaches\teng\n'
COLDP = {
    "Animalia": ("kingdom", ()),
    "Animalia/Aus": ("genus", ("buses coaches",)),
    "Animalia/Aus/Aus bus": ("species", ('the "bus"', "Cus bus", "Eus bus")),
    "Animalia/Aus/Aus dubius": ("species", ()),
}


def test_coldp_name_usages(tmp_path: Path) -> None:
    files = {"NameUsage.tsv": "\n".join(USAGES) + "\n", "VernacularName.tsv": VERNACULAR, "metadata.yaml": "title: x\n"}
    at = folder(tmp_path / "x", files)
    renamed = {"name-usage.txt": files["NameUsage.tsv"].replace("col:", ""), "vernacular_name.txt": VERNACULAR}
    for path in (at, at / "NameUsage.tsv", zipped(tmp_path / "x.zip", files), folder(tmp_path / "y", renamed)):
        tree, notes = read(path)
        assert nodes(tree) == COLDP
        assert tree.ids[tree.resolve("Aus bus")] == "T1"
        assert [note.split(": ", 1)[1] for note in notes] == [
            "Left out: 1 misapplied names (first: row 6).",
            "Left out: 1 bare names, neither accepted nor synonyms, (first: row 9).",
        ]
    report = check_taxonomy(at)
    assert report.format == "coldp"
    assert {"Provisionally accepted: 1 taxon.", "Added as aliases of their accepted names: 2 synonyms."} <= {
        d.message for d in report.defects
    }


def test_coldp_taxa_names_and_synonyms(tmp_path: Path) -> None:
    files = {
        "Name.csv": "ID,scientificName,authorship,rank\n"
        'n1,Aus bus,"L., 1758",species\nn2,Aus,L.,genus\nn3,Animalia,,kingdom\nn4,Cus bus,,species\n'
        "n5,Eus bus,,species\n"
        "n6,Aus dubius,,species\nn7,Dus bus,,species\n",
        "Taxon.csv": "ID,parentID,nameID,provisional\nT1,G,n1,false\nG,R,n2,\nR,,n3,\nP,G,n6,true\n",
        "Synonym.csv": "ID,taxonID,nameID,status\n,T1,n4,synonym\n,T1,n5,\n,T1,n7,misapplied\n,T9,n7,synonym\n",
        "VernacularName.tsv": VERNACULAR,
    }
    for path in (folder(tmp_path / "x", files), tmp_path / "x" / "Taxon.csv", zipped(tmp_path / "x.zip", files)):
        tree, notes = read(path)
        assert nodes(tree) == COLDP
        assert len(notes) == 2
        assert "1 synonyms whose accepted name has no row" in notes[1]
    del files["Name.csv"]
    with pytest.raises(TaxonomyError, match="no Name file"):
        read(folder(tmp_path / "y", files), format="coldp")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"NameUsage.tsv": "col:ID\tcol:parentID\tcol:status\nA\t\taccepted\n"}, "lacks the column 'scientificname'"),
        ({"NameUsage.tsv": "ID\tscientificName\nA\tA\n"}, "does not say where taxa belong"),
        ({"NameUsage.tsv": "ID\tparentID\tscientificName\n"}, "a header but no rows"),
        (
            {"NameUsage.tsv": "ID\tparentID\tscientificName\nA\t\tA\nB\tA\tB\textra\n"},
            r"NameUsage.tsv:3: The row has 4",
        ),
        ({"other.tsv": "x\n"}, "no file of name usages or taxa"),
    ],
)
def test_bad_packages_are_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(TaxonomyError, match=message):
        read(folder(tmp_path / "x", files), format="coldp")


# -- what usages make --------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-2, 14), min_size=1, max_size=14), st.data())
def test_a_checklist_keeps_exactly_the_taxa_that_lead_to_a_top(parents: list[int], data: st.DataObject) -> None:
    """Parents are other taxa, -1 (none) or -2 and 14 (in no row); checked against a walk up from each taxon."""
    n = len(parents)
    collector = UsageCollector("x", "test")
    order = data.draw(st.permutations(range(n)))
    for i in order:
        collector.taxon(i + 2, f"t{i}", "" if parents[i] == -1 else f"t{parents[i]}", data.draw(st.sampled_from("ab")))
    tree, defects = assemble(collector.finish())

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
    assert tree is not None
    # A top of several has the id of the one missing parent, if it is one.
    added = set() if sum(parents[int(k[1:])] not in range(n) for k in kept) == 1 else {tree.ids[0]}
    assert set(tree.by_id) - added == kept
    for key in kept:
        above = f"t{parents[int(key[1:])]}"
        if above in kept:
            assert tree.parents[tree.by_id[key]] == tree.by_id[above]
    if len(kept) < n:
        assert any(d.kind == "left out" and f"Left out: {n - len(kept)} tax" in d.message for d in defects)


# -- places by groups, and authorship ----------------------------------------------------------------------------------

RANKED = "taxonID,parentNameUsageID,scientificName,scientificNameAuthorship,taxonRank,kingdom,class,family,genus\n"


def test_rank_columns_say_where_a_taxon_with_an_empty_parent_belongs(tmp_path: Path) -> None:
    rows = [
        "k,,Animalia,,kingdom,Animalia,,,",
        "c,k,Aves,,class,Animalia,Aves,,",
        "g,,Turdus,,genus,Animalia,Aves,Turdidae,Turdus",
        "s,g,Turdus merula,,species,Animalia,Aves,Turdidae,Turdus",
        "m1,,Morus,,genus,Animalia,Aves,Sulidae,Morus",
        "m2,,Morus,,genus,Plantae,,Moraceae,Morus",
        "x,,Morus bassanus,,species,Animalia,Aves,Sulidae,Morus",
        "y,,Morus alba,,species,Plantae,,Moraceae,Morus",
    ]
    tree, notes = read(folder(tmp_path / "x", {"taxa.csv": RANKED + "\n".join(rows)}))
    assert {path for path in nodes(tree) if "bassanus" in path or "merula" in path or "alba" in path} == {
        "life/Animalia/Aves/Turdidae/Turdus/Turdus merula",
        "life/Animalia/Aves/Sulidae/Morus/Morus bassanus",
        "life/Plantae/Moraceae/Morus/Morus alba",
    }
    assert tree.ids[tree.resolve("Turdus")] == "g"
    assert tree.ranks[tree.resolve("Turdidae")] == "family"
    assert "now under an added root 'life': 2 taxa" in notes[0]


def test_hundreds_of_genera_with_empty_parents_do_not_stand_under_the_root(tmp_path: Path) -> None:
    rows = [f"{i},,Genus{chr(97 + i % 26)}{chr(97 + i // 26)},,genus,Plantae,,Fam{i % 7},Genus" for i in range(600)]
    tree, _ = read(folder(tmp_path / "x", {"taxa.csv": RANKED + "\n".join(rows)}))
    assert (tree.labels[0], len(tree.children(0)), len(tree)) == ("Plantae", 7, 608)
    usages = "ID\tparentID\tscientificName\trank\tfamily\nA\t\tAus\tgenus\tAidae\nB\t\tBus\tgenus\tBidae\n"
    tree, _ = read(folder(tmp_path / "y", {"NameUsage.tsv": usages}))
    assert set(nodes(tree)) == {"life", "life/Aidae", "life/Aidae/Aus", "life/Bidae", "life/Bidae/Bus"}


def test_authorship_is_no_part_of_a_label_whether_stated_or_not(tmp_path: Path) -> None:
    rows = [
        "1,,Plantae Haeckel,Haeckel,kingdom,,,,",
        "2,1,Quercus L.,,genus,,,,",
        "3,2,Quercus alba L.,,species,,,,",
        '4,2,"Quercus robur L., 1753","L., 1753",species,,,,',
        "5,1,Passer domesticus (Linnaeus),Linnaeus,species,,,,",
        '6,1,"Pica pica Sharpe",,species,,,,',
    ]
    at = folder(tmp_path / "x", {"taxa.csv": RANKED + "\n".join(rows)})
    tree, _ = read(at)
    assert set(tree.labels) == {"Plantae", "Quercus", "Quercus alba", "Quercus robur", "Passer domesticus", "Pica pica"}
    notes = [d.message for d in check_taxonomy(at).defects if d.kind == "authorship"]
    assert notes == ["Removed authorship from names: 3 (first: row 3)."]
