"""Trees of image classes: NABirds, CUB-200, flat groups, indented trees, ImageNet."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from taxtune.data.examples import _lookup
from taxtune.errors import TaxonomyError
from taxtune.taxonomy import FORMATS, Taxonomy, check_taxonomy, read_taxonomy


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def paths(tree: Taxonomy) -> set[str]:
    return {"/".join(tree.path(i)) for i in range(len(tree))}


# -- pairs of class ids ------------------------------------------------------------------------------------------------

CLASSES = "0 Birds\n1 Ducks, Geese, and Swans\n2 Gadwall\n3 Gadwall\n4 Gadwall (Female)\n"
BIRDS = {
    "Birds",
    "Birds/Ducks, Geese, and Swans",
    "Birds/Ducks, Geese, and Swans/Gadwall",
    "Birds/Ducks, Geese, and Swans/Gadwall/Gadwall",
    "Birds/Ducks, Geese, and Swans/Gadwall/Gadwall (Female)",
}


def test_nabirds_states_child_and_parent_and_a_child_may_have_its_parents_name(tmp_path: Path) -> None:
    write(tmp_path / "classes.txt", CLASSES)
    file = write(tmp_path / "hierarchy.txt", "1 0\n2 1\n3 2\n4 2\n")
    for given, format in ((file, "auto"), (tmp_path, "auto"), (tmp_path, "nabirds"), (file, "nabirds")):
        tree = read_taxonomy(given, format=format, names=False)
        assert paths(tree) == BIRDS
        assert tree.labels[0] == "Birds"
    # Two nodes, distinguished by path and id; a label of data is the class.
    with pytest.raises(TaxonomyError, match="2 nodes are called 'Gadwall'"):
        tree.resolve("Gadwall")
    assert tree.resolve("3") == tree.resolve("Birds/Ducks, Geese, and Swans/Gadwall/Gadwall")
    assert _lookup(("Gadwall",), tree) == tree.resolve("3")


def test_names_of_ids_that_are_in_no_pair_are_counted(tmp_path: Path, notes: list[str]) -> None:
    write(tmp_path / "classes.txt", CLASSES + "7 Wood Duck\n8 Smew\n")
    file = write(tmp_path / "hierarchy.txt", "1 0\n2 1\n3 2\n4 2\n")
    assert paths(read_taxonomy(file, names=False)) == BIRDS
    assert notes == [f"{file}: Left out: 2 names in classes.txt for ids that are not in any pair (first: 7)."]


def test_the_direction_is_found_from_the_pairs(tmp_path: Path) -> None:
    write(tmp_path / "classes_mine.txt", CLASSES)
    turned = write(tmp_path / "hierarchy.txt", "0 1\n1 2\n2 3\n2 4\n")  # parent and child, whatever the file is called
    assert paths(read_taxonomy(turned, names=False)) == BIRDS


def test_a_chain_reads_either_way_and_the_files_name_decides(tmp_path: Path) -> None:
    write(tmp_path / "classes.txt", "0 a\n1 b\n2 c\n")
    chain = "0 1\n1 2\n"
    assert paths(read_taxonomy(write(tmp_path / "x.parent-child.txt", chain))) == {"a", "a/b", "a/b/c"}
    assert paths(read_taxonomy(write(tmp_path / "x.child-parent.txt", chain))) == {"c", "c/b", "c/b/a"}
    with pytest.raises(TaxonomyError, match="cannot be told which column is the parent"):
        read_taxonomy(write(tmp_path / "x.txt", chain))


def test_a_graph_is_sent_to_the_builder(tmp_path: Path) -> None:
    write(tmp_path / "classes.txt", CLASSES)
    graph = write(tmp_path / "x.parent-child.txt", "0 1\n0 2\n1 3\n2 3\n1 4\n")
    with pytest.raises(TaxonomyError, match=r"x.parent-child.txt:4: 1 ids have several parents.*taxonomy build"):
        read_taxonomy(graph)
    with pytest.raises(TaxonomyError, match="some ids have several parents either way"):
        read_taxonomy(write(tmp_path / "x.txt", "0 1\n0 2\n1 3\n2 3\n1 4\n"))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (None, "no file with names for these ids"),
        ("0 Birds\n1 a\n2 b\n3 c\n", r"hierarchy.txt:4: The id has no name in classes.txt.*'4'"),
        (CLASSES + "3 Another\n", "classes.txt:6: The id is named twice"),
        (CLASSES + "9\n", "classes.txt:6: The line has an id but no name"),
        (
            CLASSES.replace("Gadwall (Female)", "Gadwall"),
            "Row 3 already gives a node with this label under the same parent",
        ),
    ],
)
def test_bad_names_are_refused_with_their_row(tmp_path: Path, classes: str | None, message: str) -> None:
    if classes is not None:
        write(tmp_path / "classes.txt", classes)
    with pytest.raises(TaxonomyError, match=message):
        read_taxonomy(write(tmp_path / "hierarchy.txt", "1 0\n2 1\n3 2\n4 2\n"))


def test_bad_pairs_are_refused_with_their_row(tmp_path: Path) -> None:
    write(tmp_path / "classes.txt", CLASSES)
    with pytest.raises(TaxonomyError, match=r"hierarchy.txt:2: The line is not a pair of ids"):
        read_taxonomy(write(tmp_path / "hierarchy.txt", "1 0\n2 1 0\n"), format="nabirds")
    report = check_taxonomy(write(tmp_path / "hierarchy.txt", "1 0\n2 1\n3 2\n4 2\n4 2\n\n"))
    assert [(d.kind, d.row, d.breaks) for d in report.defects if d.kind == "duplicate row"] == [
        ("duplicate row", 5, False)
    ]
    cycle = write(tmp_path / "hierarchy.txt", "1 0\n2 3\n3 4\n4 2\n")
    with pytest.raises(TaxonomyError, match="3 nodes are their own ancestors"):
        read_taxonomy(cycle)


@pytest.mark.parametrize(
    ("name", "nodes", "levels"),
    [
        ("flat", 368, (1, 13, 37, 121, 196)),
        ("wikispecies", 383, (1, 13, 17, 39, 72, 103, 138)),
        ("balanced", 421, (1, 5, 13, 16, 23, 46, 121, 196)),
    ],
)
def test_the_three_trees_of_cub(shared_data: Path, name: str, nodes: int, levels: tuple[int, ...]) -> None:
    folder = shared_data / "cub200"
    report = check_taxonomy(folder / f"cub_{name}.parent-child.txt")
    assert (report.format, report.nodes, report.leaves, report.levels) == ("nabirds", nodes, 200, levels)
    tree = report.taxonomy
    assert tree is not None
    assert tree.labels[0] == "Aves"
    # The first 200 classes are the species, and they are the leaves.
    species = dict(line.split(" ", 1) for line in (folder / "classes_wikispecies.txt").read_text().splitlines())
    assert {tree.ids[leaf]: tree.labels[leaf] for leaf in tree.leaves.tolist()} == species
    indented = folder / f"hierarchy_{name}.txt"
    if indented.exists():
        # The same tree is published indented: read by other code, it is the same.
        assert paths(read_taxonomy(indented, names=False)) == paths(tree)


# -- flat groups -------------------------------------------------------------------------------------------------------


def test_groups_have_a_root_named_after_the_file_and_names_without_underscores(tmp_path: Path) -> None:
    text = "apple_pie, dessert\npizza, pizza\ntiramisu, dessert\nramen, noodle_dish\n"
    file = write(tmp_path / "food_hierarchy.txt", text)
    tree = read_taxonomy(file)
    assert paths(tree) == {
        "food",
        "food/dessert",
        "food/dessert/apple_pie",
        "food/dessert/tiramisu",
        "food/pizza",
        "food/pizza/pizza",
        "food/noodle_dish",
        "food/noodle_dish/ramen",
    }
    assert tree.aliases[tree.resolve("apple_pie")] == ("apple pie",)
    assert tree.aliases[tree.resolve("noodle_dish")] == ("noodle dish",)
    assert tree.path(_lookup(("pizza",), tree)) == ("food", "pizza", "pizza")
    assert read_taxonomy(file, root_label="dish").labels[0] == "dish"


def test_groups_are_only_guessed_where_that_is_safe(tmp_path: Path) -> None:
    text = "apple_pie, dessert\npizza, pizza\ntiramisu, dessert\n"
    with pytest.raises(TaxonomyError, match="not the header of a known taxonomy format"):
        read_taxonomy(write(tmp_path / "food.csv", text))
    assert len(read_taxonomy(tmp_path / "food.csv", format="groups")) == 6
    with pytest.raises(TaxonomyError, match="not the header of a known taxonomy format"):
        read_taxonomy(write(tmp_path / "every group once.txt", "a, b\nc, d\n"))


def test_bad_groups_are_refused_with_their_row(tmp_path: Path) -> None:
    with pytest.raises(TaxonomyError, match=r"g.txt:2: The line is not a class and its group.*'pizza'"):
        read_taxonomy(write(tmp_path / "g.txt", "pie, dessert\npizza\n"), format="groups")
    report = check_taxonomy(write(tmp_path / "g.txt", "pie, dessert\ncake, dessert\npie, dessert\n"))
    assert [(d.kind, d.row) for d in report.defects] == [("duplicate row", 3)]


def test_food_and_pets(shared_data: Path) -> None:
    food = read_taxonomy(shared_data / "food101" / "food-101_hierarchy.txt")
    assert (len(food.leaves), len(food.children(0)), food.height) == (101, 18, 2)
    assert food.labels[food.resolve("spaghetti carbonara")] == "spaghetti_carbonara"
    pets = read_taxonomy(shared_data / "pets" / "pets-hierarchy.txt")
    assert (pets.labels[0], len(pets.leaves), len(pets.children(pets.resolve("Cat")))) == ("pets", 37, 12)


# -- indented ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["-- ", "\t", "  "])
def test_indented_by_dashes_tabs_or_spaces(tmp_path: Path, step: str) -> None:
    dashes = step == "-- "

    def at(level: int, label: str) -> str:
        return ("--" * level + " " if dashes and level else step * level) + label

    lines = [at(0, "Aves"), "", at(1, "Lari (subord)"), at(2, "Laridae"), at(3, "Larus"), at(1, "Aves"), at(2, "x - y")]
    tree = read_taxonomy(write(tmp_path / "t.txt", "\n".join(lines) + "\n"), names=False)
    assert paths(tree) == {
        "Aves",
        "Aves/Lari",
        "Aves/Lari/Laridae",
        "Aves/Lari/Laridae/Larus",
        "Aves/Aves",
        "Aves/Aves/x - y",
    }
    assert tree.ranks[tree.resolve("Lari")] == "suborder"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n    b\n  c\n", r"t.txt:3: The line's indentation is between two levels"),
        ("a\n  b\nc\n", r"t.txt:3: This is a second root beside"),
        ("a\n  b\n  b\n", r"t.txt:3: Row 2 already gives a node with this label under the same parent"),
    ],
)
def test_bad_indentation_is_refused_with_its_row(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TaxonomyError, match=message):
        read_taxonomy(write(tmp_path / "t.txt", text), format="indented")


# -- ImageNet ----------------------------------------------------------------------------------------------------------


def synsets() -> dict[str, dict[str, object]]:
    return {
        "n2": {"name": "cock", "parent_id": "n1", "lemmas": ["cock"], "labels": ["rooster"]},
        "n1": {"name": "bird", "parent_id": None, "lemmas": ["bird", "birdie"], "labels": []},
    }


def test_synsets_are_nodes_and_labels_come_before_lemmas(tmp_path: Path) -> None:
    file = write(tmp_path / "tree.json", json.dumps(synsets()))
    tree = read_taxonomy(file)
    assert paths(tree) == {"bird", "bird/cock"}
    assert tree.aliases == (("birdie",), ("rooster",))
    assert tree.resolve("n2") == 1
    with pytest.raises(TaxonomyError, match=r"tree.json:1: The synset has no name"):
        read_taxonomy(write(file, json.dumps({"n1": {"parent_id": None}})))
    with pytest.raises(TaxonomyError, match="not valid JSON"):
        read_taxonomy(write(file, json.dumps(synsets())[:-5]))


def test_imagenet_is_a_strict_tree(shared_data: Path) -> None:
    report = check_taxonomy(shared_data / "imagenet" / "simple_imagenet_hierarchy_with_labels.json")
    assert (report.format, report.nodes, report.leaves, report.ok) == ("imagenet-json", 1393, 1000, True)


# -- what is not one of them -------------------------------------------------------------------------------------------


def test_a_root_label_is_for_roots_that_are_added(tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", "child,parent\nb,a\n")
    with pytest.raises(TaxonomyError, match=r"own root.*'c'"):
        read_taxonomy(file, root_label="c")
    ranks = write(tmp_path / "r.csv", "order,name\nAnseriformes,Anas crecca\n")
    assert read_taxonomy(ranks, root_label="bird").labels[0] == "bird"


@pytest.mark.parametrize("format", FORMATS)
def test_empty_files_folders_and_archives_are_refused_in_every_format(tmp_path: Path, format: str) -> None:
    empty, folder, archive = tmp_path / "empty.txt", tmp_path / "folder", tmp_path / "empty.zip"
    empty.touch()
    folder.mkdir()
    zipfile.ZipFile(archive, "w").close()
    for path in (empty, folder, archive, tmp_path / "nothing here"):
        with pytest.raises(TaxonomyError, match=str(path)):
            read_taxonomy(path, format=format)


# -- TextTree ----------------------------------------------------------------------------------------------------------

TEXT_TREE = """# two orders
Pinales [order]
  Pinaceae Spreng. [family] {ID=fam VERN=de:Kieferngewächse,en:pine family}
    Abies [genus]
      Abies alba Mill. [species] {PUB=Miller2019}  # checked
        =Pinus picea L. [species]
        ≡$Pinus balsamea (L.) Mill.
      †Abies fossilis Smith, 1900 [species]
Passeriformes [order]
  Passer domesticus (Linnaeus, 1758) [SPECIES]
"""


def test_a_text_tree_has_ranks_synonyms_ids_and_perhaps_several_roots(tmp_path: Path, notes: list[str]) -> None:
    file = write(tmp_path / "tree.txtree", TEXT_TREE)
    tree = read_taxonomy(file, names=False)
    shown = {"/".join(tree.path(v)): (tree.ranks[v], tree.aliases[v]) for v in range(len(tree))}
    assert shown == {
        "life": (None, ()),
        "life/Pinales": ("order", ()),
        "life/Pinales/Pinaceae": ("family", ("pine family",)),
        "life/Pinales/Pinaceae/Abies": ("genus", ()),
        "life/Pinales/Pinaceae/Abies/Abies alba": ("species", ("Pinus picea", "Pinus balsamea")),
        "life/Pinales/Pinaceae/Abies/Abies fossilis": ("species", ()),
        "life/Passeriformes": ("order", ()),
        "life/Passeriformes/Passer domesticus": ("species", ()),
    }
    assert tree.ids[tree.resolve("Pinaceae")] == "fam"
    assert len(notes) == 1
    assert "now under an added root 'life': 2 nodes" in notes[0]
    assert check_taxonomy(file).format == "indented"
    assert read_taxonomy(file, root_label="Biota", names=False).labels[0] == "Biota"
    one = write(tmp_path / "one.txt", TEXT_TREE.split("Passeriformes")[0])
    assert read_taxonomy(one, names=False).labels[0] == "Pinales"
    with pytest.raises(TaxonomyError, match=r":2: The synonym is not below a name.*'=B'"):
        read_taxonomy(write(tmp_path / "bad.txt", "A [order]\n=B\n  C [family]\n"))


def test_several_roots_without_ranks_are_an_error_unless_one_above_them_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "x.txt", "food\n  soup\ndrink\n  tea\n")
    with pytest.raises(TaxonomyError, match=r"x\.txt:3: This is a second root beside .*Give it a parent"):
        read_taxonomy(file, format="indented")
    tree = read_taxonomy(file, format="indented", root_label="menu")
    assert tree.path(tree.resolve("tea")) == ("menu", "drink", "tea")
