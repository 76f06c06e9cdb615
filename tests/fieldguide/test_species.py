from __future__ import annotations

import csv

from fieldguide.silhouettes import SHAPES
from fieldguide.species import all_species, families, orders, taxonomy_rows
from taxtune.fieldguide import TAXONOMY_FILE
from taxtune.taxonomy import check_taxonomy, read_taxonomy


def test_names_are_unique() -> None:
    names = [name for bird in all_species() for name in (bird.label, *bird.names)]
    names += [name for group in (*orders().values(), *families().values()) for name in (group.label, *group.names)]
    assert len({name.casefold() for name in names}) == len(names)


def test_every_species_is_complete_and_no_two_of_a_family_look_alike() -> None:
    parts = {"crown", "back", "breast", "wing", "beak", "face", "throat", "belly", "tail", "legs"}
    looks = set()
    for bird in all_species():
        assert len(bird.label.split()) == 2, bird.label
        assert bird.shape in SHAPES
        assert parts <= bird.paint.keys()
        looks.add((bird.family, tuple(sorted(bird.paint.items())), tuple(sorted(bird.marks.items()))))
    assert len(looks) == len(all_species())


def test_the_taxonomy_file_is_the_table() -> None:
    with TAXONOMY_FILE.open(newline="", encoding="utf-8") as stream:
        assert list(csv.DictReader(stream)) == taxonomy_rows()


def test_the_taxonomy_is_sound() -> None:
    assert not check_taxonomy("builtin:fieldguide").defects
    taxonomy = read_taxonomy("builtin:fieldguide", names=False)
    assert taxonomy.labels[0] == "Aves"
    assert "bird" in taxonomy.aliases[0]
    assert {taxonomy.labels[leaf] for leaf in taxonomy.leaves} == {bird.label for bird in all_species()}
    for bird in all_species():
        node = taxonomy.resolve(bird.label)
        assert taxonomy.path(node) == ("Aves", bird.order, bird.family, bird.label)
        assert taxonomy.ranks[node] == "species"
        assert taxonomy.aliases[node] == bird.names
