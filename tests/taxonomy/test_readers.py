from __future__ import annotations

import csv
import json

import pytest

from taxtune.progress import showing
from taxtune.taxonomy import Taxonomy, check_taxonomy, read_taxonomy
from tests.displays import Recorder
from tests.taxonomy.conftest import paths, refused, write

RANKS = """\
kingdom,phylum,class,order,family,genus,name,common_name
Animalia,Chordata,Aves,Passeriformes,Turdidae,Turdus,Turdus merula,Eurasian Blackbird
Animalia,Chordata,Aves,Passeriformes,Turdidae,Turdus,Turdus iliacus,Turdus iliacus
Animalia,Chordata,Mammalia,Carnivora,Mustelidae,Gulo,Gulo gulo,Wolverine; Glutton
"""


def assert_is_inat_sample(tree):
    assert len(tree) == 1 + 1 + 1 + 2 + 2 + 2 + 2 + 3
    path = "life/Animalia/Chordata/Aves/Passeriformes/Turdidae/Turdus/Turdus merula"
    merula = tree.resolve("Turdus merula")
    assert paths(tree)[merula] == path
    assert tree.depth[merula] == 7
    assert tree.ranks[merula] == "species"
    assert tree.aliases[merula] == ("Eurasian Blackbird",)
    assert tree.ranks[tree.resolve("Aves")] == "class"
    assert tree.ranks[0] is None
    # A common name that merely repeats the Latin name is none.
    assert tree.aliases[tree.resolve("Turdus iliacus")] == ()
    assert tree.aliases[tree.resolve("Gulo gulo")] == ("Wolverine", "Glutton")


def leaves(tree):
    """The labels of the leaves."""
    return [tree.labels[leaf] for leaf in tree.leaves]


# -- iNaturalist 2021 ------------------------------------------------------------------------------


def test_inat21_json_and_csv_give_the_same_tree(read):
    categories = []
    for i, row in enumerate(csv.DictReader(RANKS.splitlines())):
        others = {"id": i, "supercategory": "Birds", "specific_epithet": row["name"].split()[1]}
        categories.append(row | others)
    as_json = read(json.dumps({"info": {}, "images": [], "categories": categories}), "val.json")
    as_csv = read(RANKS)
    assert_is_inat_sample(as_json)
    assert_is_inat_sample(as_csv)
    assert paths(as_json) == paths(as_csv)


def test_some_of_the_rank_columns_are_enough(read):
    tree = read("name,order,family\nAnas crecca,Anseriformes,Anatidae\n")
    assert paths(tree)[-1] == "life/Anseriformes/Anatidae/Anas crecca"


def test_genus_and_epithet_make_the_species(read):
    tree = read("genus,specific_epithet,family\nAnas,crecca,Anatidae\n")
    assert paths(tree)[-1] == "life/Anatidae/Anas/Anas crecca"
    assert tree.ranks[-1] == "species"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"categories": [', r"val\.json:1: The file is not valid JSON"),
        ('{"images": []}', "not in a known taxonomy layout.*keys 'images'"),
        ('{"categories": []}', "no list `categories`"),
        ('{"categories": [3]}', r"val\.json:1: A category is not an object. \(got 3\)"),
        ('{"categories": [{"id": 0, "name": "cat"}]}', "have no ranks"),
        (
            '{"categories": [{"family": "a", "name": ["b"]}]}',
            r"val\.json:1: A value of a category is not text",
        ),
        ('{"categories": [{"family": "a", "name": "\\ud800"}]}', "value of a category is not text"),
        (
            '{"categories": [{"family": "a", "name": "b"}, {"family": "a", "name": ""}]}',
            r"val\.json:2: The row has no",
        ),
    ],
)
def test_bad_json_says_where_and_what(read, text, message):
    with refused(message):
        read(text, "val.json")


# -- edges -----------------------------------------------------------------------------------------


def test_edges_with_labels_aliases_and_ranks(read):
    text = "child,parent,label,aliases,rank\nQ1,,bird,birds|Aves,\nQ3,Q2,mallard,wild duck; mallard,species\n"
    text += "Q2,Q1,duck,,family\n"
    tree = read(text)
    assert paths(tree) == ["bird", "bird/duck", "bird/duck/mallard"]
    assert tree.aliases == (("birds", "Aves"), (), ("wild duck",))
    assert tree.ranks == (None, "family", "species")


def test_the_root_may_be_the_parent_that_is_no_child(read):
    tree = read("parent,child\nduck,mallard\nbird,duck\nbird,gull\n")
    assert paths(tree) == ["bird", "bird/duck", "bird/duck/mallard", "bird/gull"]


def test_two_columns_without_a_header_are_child_and_parent(read, recorder):
    text = "Birman, cat\nBengal, cat\npug, dog\nbeagle, dog\n"
    tree = read(text, "pets.txt")
    made = Taxonomy.from_dict(
        {"everything": {"cat": ["Birman", "Bengal"], "dog": ["pug", "beagle"]}}
    )
    assert paths(tree) == paths(made)
    assert "now under an added root 'everything': 2 nodes" in recorder.notes[0]
    assert read(text, root_label="pet").labels[0] == "pet"
    with refused(r"pets\.txt:3: A node is its own"):
        read("Birman, cat\nBengal, cat\npug, pug\n", "pets.txt")
    # A header, parents first, and a child with two parents: each might mean something else.
    header = "class,group\nBirman,cat\nBengal,cat\n"
    for text in (header, "cat,Birman\ncat,Bengal\n", "a,b\nc,b\na,d\n"):
        with refused("not the header of a known taxonomy format"):
            read(text)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            "a,\nb,a\nb,c\nc,a",
            r"csv:4: The node is under 'c' here and under 'a' in row 3\. \(got 'b'\) Keep one parent",
        ),
        (
            "a,\nb,d\nc,b\nd,c",
            r"csv:3: 3 nodes are their own ancestors .*: b → d → c → b; rows 3, 5, 4\.",
        ),
        ("a,\nb,b", r"csv:3: A node is its own ancestor .*: b → b"),
        ("b,c\nc,b", "2 nodes are their own ancestors"),
        ("a,\nb,x", r"csv:3: No row defines the parent 'x'\. \(got 'b'\) Add a row for 'x'"),
        ("a,\n,a", r"csv:3: The row has no child"),
        ("a,\nb", r"csv:3: The row has 1 cells, the header 2"),
        ("a,\nb,a,c", r"csv:3: The row has 3 cells, the header 2"),
    ],
)
def test_edges_that_are_no_tree_are_refused(read, rows, message):
    with refused(message):
        read(f"child,parent\n{rows}\n")


def test_a_repeated_edge_is_harmless_and_a_conflicting_one_is_not(read):
    assert paths(read("child,parent\na,\nb,a\nb,a\n")) == ["a", "a/b"]
    with refused("Row 3 already gives this edge, with other values"):
        read("child,parent,label\na,,a\nb,a,duck\nb,a,goose\n")


def test_a_deep_chain_is_no_recursion(read):
    rows = "\n".join(f"n{i},n{i - 1}" for i in range(1, 3000))
    assert read(f"child,parent\n{rows}\n").height == 2999
    with refused("2999 nodes are their own ancestors"):
        read(f"child,parent\nn0,n2998\n{rows.rsplit(chr(10), 1)[0]}\n")


# -- paths -----------------------------------------------------------------------------------------


def test_a_column_of_paths(read):
    text = (
        "path,rank,aliases\nbird,class,birds\nbird/Anatidae/mallard,species,wild duck;greenhead\n"
    )
    text += "/bird/Laridae/,family,\n"
    tree = read(text)
    assert paths(tree) == ["bird", "bird/Anatidae", "bird/Anatidae/mallard", "bird/Laridae"]
    assert tree.aliases[2] == ("wild duck", "greenhead")
    assert tree.ranks == ("class", None, "species", "family")


def test_one_column_a_level(read):
    text = "level1,level2,Level 3\nbird,duck,mallard\nbird,gull\nbird,duck,teal\n"
    tree = read(text)
    assert paths(tree) == ["bird", "bird/duck", "bird/duck/mallard", "bird/duck/teal", "bird/gull"]
    assert set(tree.ranks) == {None}


def test_named_levels_are_ranks_when_asked_for(tmp_path):
    path = write(tmp_path, "all,make,model\nvehicle,Audi,A4\n")
    with refused(
        r"csv:1: This is not the header of a known taxonomy format\. \(got 'all,make,model'\)"
    ):
        read_taxonomy(path)
    tree = read_taxonomy(path, format="paths")
    assert paths(tree) == ["vehicle", "vehicle/Audi", "vehicle/Audi/A4"]
    assert tree.ranks == ("all", "make", "model")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("bird\n/", r"csv:3: The row names nothing"),
        ("bird,duck", r"csv:2: The row has 2 cells, the header 1"),
    ],
)
def test_bad_paths_are_refused(read, rows, message):
    with refused(message):
        read(f"path\n{rows}\n")


# -- files as people have them ---------------------------------------------------------------------

EDGES = 'child,parent,aliases\nbird,,\nduck,bird,"quacker; Ente"\n'


def assert_is_duck(tree):
    assert paths(tree) == ["bird", "bird/duck"]
    assert tree.aliases[1] == ("quacker", "Ente")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(read, encoding):
    assert_is_duck(read(EDGES.encode(encoding)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n", "\r\n"),
        ("\n", "\r"),
        ("\n", "\n\n"),
        ("\n", "\n,,\n"),
        ("bird", "  bird "),
        (",", "\t"),
        (",", ";"),
        ("child,parent", "\n\nChild, PARENT"),
    ],
)
def test_line_ends_and_delimiters(read, old, new):
    assert_is_duck(read(EDGES.replace(old, new)))


def test_quoted_commas_and_line_breaks_keep_the_row_numbers_right(read):
    text = 'child,parent\n"bird, any",\n"duck\nfamily","bird, any"\nx,y\n'
    with refused(r"csv:5: No row defines the parent 'y'"):
        read(text)
    assert paths(read(text[:-4])) == [
        "bird, any",
        "bird, any/duck family",
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "file is empty"),
        (b" \n\n", "file is empty"),
        (b"child,parent\n", "a header but no rows"),
        (
            b"child,parent\nb\xe4r,\n",
            r"csv:2: The taxonomy file is not UTF-8 text\. .*Save it as UTF-8",
        ),
        (
            b'child,parent\na,\n"b,a\n',
            r"csv:3: The row cannot be read as CSV: unexpected end of data",
        ),
        (b"child,parent,child\na,,\n", r"Two columns have the same name\. .*Rename one"),
        (b"path\na/b\na/\x00c\n", r"csv:3: The taxonomy file contains a NUL character"),
        (b"this is no taxonomy\nat all\n", "This is not the header of a known taxonomy format"),
    ],
)
def test_files_that_are_no_taxonomy(read, data, message):
    with refused(message):
        read(data)


def test_missing_files_and_folders(tmp_path):
    with refused("The taxonomy file does not exist"):
        read_taxonomy(tmp_path / "missing.csv")
    with refused("This is a folder and no taxonomy file"):
        read_taxonomy(tmp_path)
    with refused("Unknown built-in taxonomy.*fieldguide, aircraft, "):
        read_taxonomy("builtin:atlantis")


@pytest.mark.parametrize(
    ("text", "format", "message"),
    [
        ("path\na\n", "edge", "Unknown taxonomy format.*inat21-json"),
        ("path\na\n", "edges", "An edge list needs a header"),
        ("path\na\n", "inat21-csv", "needs at least one of the columns kingdom"),
        ("{}", "paths", "The file is JSON"),
    ],
)
def test_the_wrong_format_is_refused(text, format, message, read):
    with refused(message):
        read(text, format=format)


def test_the_built_in_field_guide_is_a_clean_tree():
    report = check_taxonomy("builtin:fieldguide")
    assert report.defects == []
    assert report.counts["nodes"] == len(read_taxonomy("builtin:fieldguide"))
    assert report.counts["ranks"]["species"] >= 24


@pytest.mark.parametrize(
    "text",
    [
        "path,aliases,leads\nbird/duck,ente,teal; wild duck\n",
        "child,parent,aliases,leads\nbird,,,\nduck,bird,ente,teal|wild duck\n",
    ],
)
def test_leads_have_a_column_of_their_own(text, read):
    tree = read(text)
    assert tree.aliases[1] == ("ente",)
    assert tree.leads[1] == ("teal", "wild duck")
    assert tree.find("teal") == []


def test_an_epithet_alone_is_joined_to_its_genus(read):
    rows = "Fagaceae,Quercus,alba\nFagaceae,Quercus,Quercus robur\nRosaceae,Malus,×domestica\nRosaceae,Malus,\n"
    rows += "Rosaceae,Pyrus,7\n"
    tree = read(f"family,genus,species\n{rows}")
    assert leaves(tree) == ["Quercus alba", "Quercus robur", "Malus ×domestica", "7"]


def test_a_column_cls_is_the_class(read):
    assert read("cls,order,name\nAves,Passeriformes,Turdus merula\n").ranks[1] == "class"


# -- what files leave out or say twice -------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found", "note"),
    [
        (
            "class,order,genus,species\n,Squamata,Boa,imperator\n",
            "life/Squamata/Boa/Boa imperator",
            "class",
        ),
        ("family,genus,name\nBoidae,,Boa imperator\n", "life/Boidae/Boa imperator", "genus"),
        ("class,order,name\nNA,Squamata,Boa imperator\n", "life/Squamata/Boa imperator", "class"),
        ("class,order,name\nReptilia,-,Boa imperator\n", "life/Reptilia/Boa imperator", "order"),
        ("path\nanimal///duck\n", "animal/duck", "step"),
        ("path,rank\nanimal//duck,species\n", "animal/duck", "step"),
        ("level1,level2,level3\nanimal,,duck\n", "animal/duck", "step"),
    ],
)
def test_an_empty_step_is_left_out_with_a_note(text, found, note, tmp_path):
    file = write(tmp_path, text)
    with showing(display := Recorder()):
        tree = read_taxonomy(file, names=False)
    assert paths(tree)[-1] == found
    assert [
        line
        for line in display.notes
        if f"1 row has an empty {note}, which" in line and "row 2" in line
    ]


def test_empty_steps_of_many_rows_are_one_note_a_rank(read):
    rows = "".join(f"Animalia,,Boidae,Boa b{i}\n" for i in range(9))
    with showing(display := Recorder()):
        read(f"kingdom,class,family,name\n{rows}")
    assert len(display.notes) == 1
    assert (
        "9 rows have an empty class, which is left out of the path: row 2, 3, 4, 5, 6, …"
        in display.notes[0]
    )


def test_from_paths_leaves_out_empty_steps_too():
    assert paths(Taxonomy.from_paths([("a", " ", "b"), "a//c"])) == ["a", "a/b", "a/c"]


@pytest.mark.parametrize(
    ("species", "label"),
    [
        ("lupus dingo", "Canis lupus dingo"),
        ("× hispanica", "Canis × hispanica"),
        ("×hispanica", "Canis ×hispanica"),
        ("x hispanica", "Canis x hispanica"),
        ("cf. canina", "Canis cf. canina"),
        ("sp. 2", "Canis sp. 2"),
        ("canis", "Canis canis"),
        ("canis rufus", "Canis canis rufus"),
        ("C. lupus", "Canis lupus"),
        ("c. lupus dingo", "Canis lupus dingo"),
        ("Canis lupus", "Canis lupus"),
        ("Maned wolf", "Maned wolf"),
    ],
)
def test_an_epithet_of_several_words_keeps_its_genus(species, label, read):
    rows = f"Canidae,Canis,{species}\nCanidae,Vulpes,vulpes\nCanidae,Lycaon,pictus\n"
    tree = read(f"family,genus,species\n{rows}")
    assert leaves(tree)[:2] == [label, "Vulpes vulpes"]


def test_full_names_in_small_letters_are_whole(read):
    rows = "canidae,canis,canis lupus\ncanidae,vulpes,vulpes fulva\ncanidae,canis,lupus dingo\n"
    tree = read(f"family,genus,species\n{rows}")
    assert leaves(tree) == ["canis lupus", "canis lupus dingo", "vulpes fulva"]


def test_a_subspecies_is_led_to_by_its_name_as_a_species_unless_that_is_one(read):
    rows = "Canidae,Canis,lupus dingo\nCanidae,Vulpes,vulpes fulva\nCanidae,Vulpes,fulva\nCanidae,Canis,sp. 2\n"
    tree = read(f"family,genus,species\n{rows}")
    assert leaves(tree) == [
        "Canis lupus dingo",
        "Canis sp. 2",
        "Vulpes vulpes fulva",
        "Vulpes fulva",
    ]
    dingo = tree.resolve("Canis lupus dingo")
    assert tree.led("Canis dingo") == [dingo]
    assert sum(map(len, tree.leads)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "path,rank,aliases\nbird/duck,,\nbird/duck,species,quacker\n",
        "path,rank,aliases\nbird/duck,species,quacker\nbird/duck,,\n",
        "child,parent,rank,aliases\nbird,,,\nduck,bird,,quacker\nduck,bird,species,\n",
        "class,name,common_name\nbird,duck,\nbird,duck,quacker\n",
    ],
)
def test_a_row_that_says_less_than_another_is_completed(text, tmp_path):
    file = write(tmp_path, text)
    tree = read_taxonomy(file, names=False)
    duck = tree.resolve("duck")
    assert tree.aliases[duck] == ("quacker",)
    assert tree.ranks[duck] == (None if text.startswith("class") else "species")
    assert [defect.kind for defect in check_taxonomy(file).defects] == ["duplicate row"]


@pytest.mark.parametrize(
    "text",
    [
        "path\nbird/duck\nfish/cod\n",
        "level1,level2\nbird,duck\nfish,cod\n",
        "child,parent\nbird,\nduck,bird\nfish,\ncod,fish\n",
        "child,parent\nduck,bird\ncod,fish\n",
    ],
)
def test_several_roots_get_one_above_them_whatever_the_format(text, read, recorder):
    tree = read(text)
    made = Taxonomy.from_dict({"everything": {"bird": ["duck"], "fish": ["cod"]}})
    assert sorted(paths(tree)) == sorted(paths(made))
    assert "added root 'everything': 2 nodes (bird, fish)" in recorder.notes[0]
    assert read(text, root_label="animal").labels[0] == "animal"
