from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.meteor_score import single_meteor_score

from taxtune.metrics.meteor import IndexedAnswer, NoSynonyms, meteor
from taxtune.metrics.registry import make_measure
from taxtune.metrics.words import tokens
from taxtune.wordnet import ENVIRONMENT, find_wordnet

# Synonyms in sets that overlap, an inflected word and a phrase, which METEOR leaves out.
_SETS = (("car", "automobile", "motor_car"), ("automobile", "machine"), ("cars", "autos"), ("bird", "fowl"))
_WORDS = ("car", "cars", "automobile", "machine", "autos", "bird", "birds", "fowl", "red", "on")


class _FewSynonyms:
    source = "a few words"

    def synsets(self, word: str) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(lemmas=lambda names=names: [SimpleNamespace(name=lambda name=name: name) for name in names])
            for names in _SETS
            if word in names
        ]


def ours(answer: list[str] | tuple[str, ...], reference: list[str] | tuple[str, ...], synonyms: object) -> float:
    return meteor(IndexedAnswer.of(answer, synonyms), reference, synonyms)  # type: ignore[arg-type]


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from(_WORDS), max_size=14),
    st.lists(st.sampled_from(_WORDS), min_size=1, max_size=6),
    st.sampled_from([NoSynonyms(), _FewSynonyms()]),
)
def test_meteor_is_nltks(answer: list[str], reference: list[str], synonyms: object) -> None:
    assert ours(answer, reference, synonyms) == single_meteor_score(reference, answer, wordnet=synonyms)


def test_meteor_of_nltks_own_example() -> None:
    answer = tokens("It is a guide to action which ensures that the military always obeys the commands of the party")
    reference = tokens("It is a guide to action that ensures that the military will forever heed Party commands")
    # nltk documents 0.6944 with WordNet; no synonym plays a part in it.
    assert ours(answer, reference, NoSynonyms()) == pytest.approx(0.6944, abs=5e-5)
    assert ours(("non", "matching", "hypothesis"), ("this", "is", "a", "cat"), NoSynonyms()) == 0


def test_meteor_by_hand() -> None:
    # P = 1/2, R = 1/1; F = PR / (0.9 P + 0.1 R) = 0.5 / 0.55; one chunk of one match halves it.
    assert ours(("gray", "seals"), ("seal",), NoSynonyms()) == pytest.approx(0.5 / 0.55 / 2)
    # All of two words in one chunk: 1 - 0.5 (1/2)^3. A single word never has more than one half.
    assert ours(("gray", "seal"), ("gray", "seal"), NoSynonyms()) == pytest.approx(1 - 0.5 / 8)
    assert ours(("seal",), ("seal",), NoSynonyms()) == pytest.approx(0.5)


def test_an_answer_that_repeats_itself_is_aligned_as_in_full() -> None:
    answer = ("a", "red", "car", "and", "a", "red", "automobile", "stands", "by", "the", "bird") * 50
    for reference in (("red", "car"), ("machine", "red", "red"), ("a", "bird", "and", "cars")):
        expected = single_meteor_score(reference, answer, wordnet=_FewSynonyms())
        assert ours(answer, reference, _FewSynonyms()) == expected


def test_of_a_repeated_word_the_last_are_aligned() -> None:
    # nltk aligns from the end: two neighbours, one chunk. The first two would be two chunks.
    answer, reference = ("car", "x", "car", "car"), ("car", "car")
    assert ours(answer, reference, NoSynonyms()) == single_meteor_score(reference, answer, wordnet=NoSynonyms())


def test_without_wordnet_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "none")
    measure = make_measure("meteor")
    assert "without synonyms" in measure.notes[0]
    assert measure.identity()["synonyms"] == "none"
    assert measure.scores(["an automobile"], ["car"]).tolist() == [0.0]


def test_with_wordnet_synonyms_count(tiny_wordnet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tiny_wordnet))
    measure = make_measure("meteor")
    assert measure.notes == ()
    assert measure.identity()["synonyms"] == "WordNet 3.0"
    # "car", the stem of "cars", has the synonym "motorcar"; one word of one scores a half. nltk looks stems up, and
    # "automobil" is no word of WordNet.
    assert measure.scores(["cars", "red", "automobile"], ["motorcar"] * 3).tolist() == [0.5, 0.0, 0.0]
    found = find_wordnet()
    assert found is not None
    assert single_meteor_score(["motorcar"], ["cars"], wordnet=found.reader) == 0.5
    table = measure.matrix(["cars", "red"], ["motorcar", "red", "bird"])
    assert table.tolist() == [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]]


@pytest.fixture
def tiny_wordnet(tmp_path: Path) -> Path:
    """A folder with a WordNet of one noun, in the format of the WordNet database files."""
    folder = tmp_path / "corpora" / "wordnet"
    folder.mkdir(parents=True)
    licence = "  1 WordNet 3.0 Copyright of a test.\n"
    offset = len(licence)
    words = ("car", "automobile", "motorcar")
    noun = f"{offset:08d} 06 n {len(words):02x} {' '.join(f'{word} 0' for word in words)} 000 | a motor vehicle  \n"
    index = "".join(f"{word} n 1 0 1 0 {offset:08d}  \n" for word in sorted(words))
    senses = "".join(f"{word}%1:06:00:: {offset:08d} 1 0\n" for word in sorted(words))
    files = {
        "lexnames": "".join(f"{i:02d}\tname{i}\t1\n" for i in range(45)),
        "data.noun": licence + noun,
        "index.noun": licence + index,
        "index.sense": senses,
        "cntlist.rev": "",
    }
    for name in ("adj", "adv", "verb"):
        files[f"data.{name}"] = files[f"index.{name}"] = licence
    for name in ("adj", "adv", "verb", "noun"):
        files[f"{name}.exc"] = ""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder
