from __future__ import annotations

import csv

from fieldguide.species import all_species, taxonomy_rows
from taxtune.fieldguide import TAXONOMY_FILE
from taxtune.taxonomy import check_taxonomy, read_taxonomy


def test_the_taxonomy_file_is_the_table():
    with TAXONOMY_FILE.open(newline="", encoding="utf-8") as stream:
        assert list(csv.DictReader(stream)) == taxonomy_rows()


def test_the_taxonomy_is_sound():
    assert not check_taxonomy("builtin:fieldguide").defects
    taxonomy = read_taxonomy("builtin:fieldguide", names=False)
    assert taxonomy.labels[0] == "Aves"
    assert "bird" in taxonomy.aliases[0]
    assert {taxonomy.labels[leaf] for leaf in taxonomy.leaves} == {
        bird.label for bird in all_species()
    }
    for bird in all_species():
        node = taxonomy.resolve(bird.label)
        assert taxonomy.path(node) == ("Aves", bird.order, bird.family, bird.label)
        assert taxonomy.ranks[node] == "species"
        assert taxonomy.aliases[node] == bird.names
