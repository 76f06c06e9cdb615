"""From one phrase to the nodes that it names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.mapping.lexicon import Lexicon
from taxtune.mapping.naming import Strength, name_phrase
from taxtune.mapping.reading import read_line
from taxtune.taxonomy import Taxonomy, read_taxonomy
from tests.cases import cases

DEVICES = Lexicon(
    Taxonomy.from_dict(
        {
            "device": {
                "printer": ["laser printer", "inkjet printer", "label printer"],
                "computer": ["laptop computer", "tablet computer", "apple"],
                "vehicle": {"Ford": ["Ford F-150", "Ford Focus"], "truck": ["fire truck"]},
                "furniture": ["dining chair", "rocking chair", "trash can"],
            }
        }
    )
)
LIFE = """\
kingdom,class,order,family,genus,species,common_name
Animalia,Aves,Passeriformes,Turdidae,Turdus,Turdus migratorius,American robin
Animalia,Aves,Passeriformes,Turdidae,Turdus,Turdus merula,common blackbird
Animalia,Aves,Passeriformes,Paridae,Parus,Parus major,great tit
Animalia,Aves,Anseriformes,Anatidae,Anas,Anas platyrhynchos,mallard
Animalia,Aves,Anseriformes,Anatidae,Anas,Anas acuta,northern pintail
Animalia,Aves,Charadriiformes,Laridae,Larus,Larus argentatus,herring gull
Animalia,Aves,Charadriiformes,Laridae,Larus,Larus canus,mew gull
Animalia,Insecta,Diptera,Muscidae,Musca,Musca domestica,house fly
Animalia,Insecta,Diptera,Calliphoridae,Calliphora,Calliphora vicina,blow fly
Plantae,Magnoliopsida,Lamiales,Plantaginaceae,Plantago,Plantago major,greater plantain
Plantae,Magnoliopsida,Ericales,Ericaceae,Pyrola,Pyrola major,large wintergreen
Plantae,Liliopsida,Poales,Poaceae,Phalaris,Phalaris major,large canary grass
Animalia,Actinopterygii,Perciformes,Pomacentridae,Abudefduf,Abudefduf saxatilis,sergeant major
Plantae,Magnoliopsida,Lamiales,Plantaginaceae,Digitalis,Digitalis purpurea,foxglove
Plantae,Magnoliopsida,Asterales,Asteraceae,Helianthus,Helianthus annuus,sunflower
Plantae,Magnoliopsida,Asterales,Asteraceae,Helianthus,Helianthus mollis,ashy sunflower
Plantae,Magnoliopsida,Asterales,Asteraceae,Helianthus,Helianthus maximiliani,prairie sunflower
"""


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    path = tmp_path_factory.mktemp("life") / "life.csv"
    path.write_text(LIFE, "utf-8")
    return Lexicon(read_taxonomy(path))


def mention_of(lexicon, text):
    (phrase,) = read_line(text, lexicon).phrases
    return name_phrase(lexicon, phrase)


def named(lexicon, text):
    """Returns the label of the only node that a phrase names, or None."""
    mention = mention_of(lexicon, text)
    if mention is None:
        return None
    return lexicon.taxonomy.labels[lexicon.taxonomy.common_ancestor(mention.nodes)]


LABELS = st.sampled_from(DEVICES.taxonomy.labels[1:])
FRONT = st.sampled_from(["", "a ", "the ", "one ", "a single ", "a photo of a ", "a beautiful "])
END = st.sampled_from(["", "s", " specimen", " image", " itself"])


@given(LABELS, FRONT, END, st.sampled_from([str.lower, str.upper, str]))
def test_a_whole_name_is_read_as_itself(label, front, end, case):
    """Whatever fillers stand around it, in any case, in the singular and the plural."""
    if end == "s" and label.endswith("s"):
        end = ""
    mention = mention_of(DEVICES, front + case(label + end))
    assert mention.nodes == DEVICES.exact(label.lower().replace("-", " ").split())
    assert mention.strength is Strength.WHOLE
    assert not mention.broad


@given(LABELS, st.text("abcdefghij", min_size=3, max_size=9))
def test_what_only_describes_does_not_change_a_name(label, word):
    """Nor does a word that the tree lacks, before a name of several words."""
    described = mention_of(DEVICES, f"the old {word}ed {label}")
    assert described.nodes == mention_of(DEVICES, label).nodes


@pytest.mark.parametrize(
    "compound", ["printer cable", "a wooden chair cushion", "red computer desk"]
)
def test_a_noun_that_only_heads_names_is_nothing_before_another_noun(compound):
    assert mention_of(DEVICES, compound) is None


@pytest.mark.parametrize(
    ("phrase", "label"),
    cases(
        """
        printer held = printer  # no compound: a participle, an adverb, a code, ...
        printer mounted = printer
        printers hang = printer
        printer clearly = printer
        printer X100 = printer
        printer Pro = printer
        printer specimen = printer
        printer laser = printer  # ... a noun that the tree has
        apple tree = apple  # a name that heads no others may be a material, a make, ...
        Ford F-150 truck parked = Ford F-150
        laser printer cable = laser printer  # a name of several words
        Ford can = Ford  # a noun that one name ends in counts for want of better
        wooden can = furniture
        """
    ),
)
def test_what_is_no_compound_is_read_without_its_end(phrase, label):
    assert named(DEVICES, phrase) == label


@pytest.mark.parametrize(
    ("phrase", "label"),
    cases(
        """
        a gull flies = Laridae
        One mallard flies = Anas platyrhynchos
        the gull flies away = Laridae
        the house flies = Musca domestica
        a pair of blow flies = Calliphora vicina
        """
    ),
)
def test_a_verb_is_no_noun(life, phrase, label):
    assert named(life, phrase) == label


@pytest.mark.parametrize(
    ("phrase", "label"),
    cases(
        """
        T. migratorius = Turdus migratorius
        A. acuta = Anas acuta
        P. major = life  # a tit, a plantain, and more, but no sergeant major
        Turdus migratorius propinquus = Turdus migratorius
        T. migratorius propinquus = Turdus migratorius
        Turdus merula L. = Turdus merula
        Turdus merula Linnaeus = Turdus merula
        Digitalis lutea = Digitalis
        digitalis lutea = Digitalis
        Anas platyrhynchos × Anas acuta = Anas
        Turdus merula x T. migratorius cross = Turdus
        mallard x American robin = Aves
        mallard x unknown = Anas platyrhynchos
        """
    ),
)
def test_scientific_names(life, phrase, label):
    assert named(life, phrase) == label


def test_a_sunflower_of_another_kind_may_be_any(life):
    assert named(life, "sunflower") == "Helianthus annuus"
    assert named(life, "an alpine sunflower") == "Helianthus"


@pytest.mark.parametrize(
    ("phrase", "strength"),
    [
        ("herring gul", None),
        ("hering gull", Strength.HEAD),
        ("American robbin", Strength.HEAD),
        ("northen pintail", Strength.HEAD),
        ("a fine northen pintail", Strength.HEAD),
        ("mew gull", Strength.WHOLE),
    ],
)
def test_slips_in_a_name_of_several_words(life, phrase, strength):
    mention = mention_of(life, phrase)
    assert (mention and mention.strength) == strength
    assert mention is None or life.is_leaf(mention.nodes[0])
