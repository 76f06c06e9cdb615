from __future__ import annotations

import math
import shutil

import nltk
import pytest

from taxtune import wordnet as module
from taxtune.errors import DataError
from taxtune.wordnet import ENVIRONMENT, Synset, find_wordnet
from tests.small_wordnet import write_wordnet


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    module._at.cache_clear()
    yield
    module._at.cache_clear()


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(write_wordnet(tmp_path / "wn", SENSES)))
    found = find_wordnet()
    assert found is not None
    return found


# Senses in the order of their frequency: name, lemmas, gloss, hypernyms.
SENSES = (
    ("thing", ("thing",), "what there is", ()),
    ("animal", ("animal", "beast"), "a living thing that moves", ("thing",)),
    ("pet", ("pet",), "an animal kept at home", ("animal",)),
    ("cat", ("cat", "true_cat", "Felis_catus"), "a small hunter", ("animal", "pet")),
    ("tool", ("tool",), "what is worked with", ("thing",)),
    ("cat tool", ("cat",), "a tracked vehicle", ("tool",)),
)


def test_senses_of_a_word_in_any_form(small):
    senses = small.synsets("cat")
    assert [sense.gloss for sense in senses] == ["a small hunter", "a tracked vehicle"]
    assert senses[0].lemmas == ("cat", "true cat", "Felis catus")
    assert small.synsets("Cats") == senses
    assert small.synsets("True cats") == small.synsets("true_cat") == senses[:1]
    assert small.synsets("dog") == small.synsets("") == small.synsets("  ") == ()
    assert small.synsets("cat", "v") == ()
    assert (small.version, small.source) == ("3.0", "WordNet 3.0")


def test_a_sense_by_its_name(small):
    assert small.synset("cat.n.02") == small.synsets("cat")[1]
    assert (
        small.synset("cat.n.03")
        is small.synset("dog.n.01")
        is small.synset("cat")
        is small.synset("")
        is None
    )


def test_what_is_a_kind_of_what(small):
    cat, tracked = small.synsets("cat")
    by_name = {name: small.synsets(name)[0] for name in ("thing", "animal", "pet", "tool")}
    assert small.hypernyms(cat) == (by_name["animal"], by_name["pet"])
    assert small.ancestors(cat) == {cat, by_name["pet"], by_name["animal"], by_name["thing"]}
    assert by_name["animal"] not in small.ancestors(tracked)


def test_the_information_of_a_kind(small):
    # Six nouns: all are things, three animals; the cat has nothing below it.
    thing, animal, pet, cat = (small.synsets(name)[0] for name in ("thing", "animal", "pet", "cat"))
    assert small.information(thing) == pytest.approx(0)
    assert small.information(animal) == pytest.approx(1 - math.log(3) / math.log(6))
    assert small.information(pet) == pytest.approx(1 - math.log(2) / math.log(6))
    assert small.information(cat) == 1


def test_nltks_archive(tmp_path, monkeypatch):
    write_wordnet(tmp_path / "files" / "wordnet", SENSES)
    corpora = tmp_path / "nltk_data" / "corpora"
    corpora.mkdir(parents=True)
    shutil.make_archive(str(corpora / "wordnet"), "zip", tmp_path / "files", "wordnet")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nltk_data")])
    monkeypatch.setattr(module, "_SYSTEM", tmp_path / "nowhere")
    found = find_wordnet()
    assert found is not None
    assert found.has("cat")
    assert not found.has("dog")
    assert found.version == "3.0"
    assert [sense.gloss for sense in found.synsets("cats")] == [
        "a small hunter",
        "a tracked vehicle",
    ]


def test_without_one(tmp_path, monkeypatch):
    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(module, "_SYSTEM", tmp_path / "nowhere")
    assert find_wordnet() is None
    monkeypatch.setattr(module, "_SYSTEM", write_wordnet(tmp_path / "system", SENSES))
    assert find_wordnet() is not None
    monkeypatch.setenv(ENVIRONMENT, "none")
    assert find_wordnet() is None


def test_a_misspelt_folder_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "wordnte"))
    with pytest.raises(DataError, match=r"TAXTUNE_WORDNET does not name a folder.*wordnte.*unset"):
        find_wordnet()


def test_a_damaged_one_is_an_error_that_names_folder_and_file(tmp_path, monkeypatch):
    folder = write_wordnet(tmp_path / "wn", SENSES)
    monkeypatch.setenv(ENVIRONMENT, str(folder))
    (folder / "data.noun").unlink()
    with pytest.raises(
        DataError, match=r"wn: WordNet's files cannot be read: there is no data\.noun\. Install it"
    ):
        find_wordnet()
    write_wordnet(folder, SENSES)
    (folder / "index.noun").write_text("cat n one 0\n")
    found = find_wordnet()
    assert found is not None
    with pytest.raises(
        DataError, match=r"cannot be read: .*index\.noun, line 1.*none to do without"
    ):
        found.synsets("cat")


# -- the real one ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real():
    found = find_wordnet()
    if found is None:
        pytest.skip("WordNet is not installed here")
    return found


def test_the_real_one_knows_dogs(real):
    dog = real.synset("dog.n.01")
    assert isinstance(dog, Synset)
    assert (dog, dog.lexname) == (real.synsets("dogs")[0], "noun.animal")
    assert "domestic dog" in dog.lemmas
    assert {sense.name for sense in real.ancestors(dog)} >= {
        "canine.n.02",
        "domestic_animal.n.01",
        "entity.n.01",
    }
    assert real.version.startswith("3.")
    assert real.synsets("school buses")[0].name == "school_bus.n.01"
    by_nltk = [
        synset.name()
        for synset in real.reader.synset("canine.n.02").closure(lambda s: s.hyponyms())
    ]
    assert real.information(real.synsets("canine")[1]) == pytest.approx(
        1 - math.log(len(set(by_nltk)) + 1) / math.log(82_115)
    )
    rivers = [real.synsets(name)[0] for name in ("Danube", "Thames")]
    assert all(real.synset("river.n.01") in real.ancestors(river) for river in rivers)
