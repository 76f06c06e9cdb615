from __future__ import annotations

import math
import shutil

import nltk
import pytest

from taxtune import wordnet as module
from taxtune.errors import DataError
from taxtune.wordnet import ENVIRONMENT, find_wordnet
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
    return find_wordnet()


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
    assert small.synsets("True cats") == senses[:1]
    assert small.synsets("true_cat") == senses[:1]
    assert small.synsets("cat", "v") == ()
    for word in ("dog", "", "  "):
        assert small.synsets(word) == ()


def test_a_wordnet_tells_its_version(small):
    assert small.version == "3.0"
    assert small.source == "WordNet 3.0"


def test_a_sense_by_its_name(small):
    assert small.synset("cat.n.02") == small.synsets("cat")[1]
    for name in ("cat.n.03", "dog.n.01", "cat", ""):
        assert small.synset(name) is None


def test_what_is_a_kind_of_what(small):
    cat, tracked = small.synsets("cat")
    (thing,) = small.synsets("thing")
    (animal,) = small.synsets("animal")
    (pet,) = small.synsets("pet")
    assert small.hypernyms(cat) == (animal, pet)
    assert small.ancestors(cat) == {cat, pet, animal, thing}
    assert animal not in small.ancestors(tracked)


def test_the_information_of_a_kind(small):
    # Six nouns: all are things, three animals; the cat has nothing below it.
    for name, nouns in (("thing", 6), ("animal", 3), ("pet", 2), ("cat", 1)):
        information = small.information(small.synsets(name)[0])
        assert information == pytest.approx(1 - math.log(nouns) / math.log(6))


def test_nltks_archive(tmp_path, monkeypatch):
    write_wordnet(tmp_path / "files" / "wordnet", SENSES)
    corpora = tmp_path / "nltk_data" / "corpora"
    corpora.mkdir(parents=True)
    shutil.make_archive(str(corpora / "wordnet"), "zip", tmp_path / "files", "wordnet")
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nltk_data")])
    monkeypatch.setattr(module, "_SYSTEM", tmp_path / "nowhere")
    found = find_wordnet()
    assert found.has("cat")
    assert not found.has("dog")
    assert found.version == "3.0"
    glosses = [sense.gloss for sense in found.synsets("cats")]
    assert glosses == ["a small hunter", "a tracked vehicle"]


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


def test_the_real_one_knows_dogs(installed_wordnet):
    dog, *_ = installed_wordnet.synsets("dogs")
    assert dog == installed_wordnet.synset("dog.n.01")
    assert dog.lexname == "noun.animal"
    assert "domestic dog" in dog.lemmas
    above = {sense.name for sense in installed_wordnet.ancestors(dog)}
    assert above >= {"canine.n.02", "domestic_animal.n.01", "entity.n.01"}
    assert installed_wordnet.version.startswith("3.")
    assert installed_wordnet.synsets("school buses")[0].name == "school_bus.n.01"


def test_the_real_ones_information_is_by_the_senses_below(installed_wordnet):
    canine = installed_wordnet.reader.synset("canine.n.02")
    below = {synset.name() for synset in canine.closure(lambda sense: sense.hyponyms())}
    information = 1 - math.log(len(below) + 1) / math.log(82_115)
    _, animal, *_ = installed_wordnet.synsets("canine")
    assert installed_wordnet.information(animal) == pytest.approx(information)


@pytest.mark.parametrize("name", ["Danube", "Thames"])
def test_the_real_one_knows_rivers_by_their_names(installed_wordnet, name):
    river, *_ = installed_wordnet.synsets(name)
    assert installed_wordnet.synset("river.n.01") in installed_wordnet.ancestors(river)
