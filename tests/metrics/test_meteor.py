from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nltk.translate.meteor_score import single_meteor_score

from taxtune.metrics.registry import Measure, make_measure
from taxtune.metrics.words import tokens
from taxtune.wordnet import ENVIRONMENT, find_wordnet

TEXTS = st.lists(
    st.sampled_from(("car", "cars", "automobile", "motorcar", "bird", "birds", "red", "on")), min_size=1, max_size=6
).map(" ".join)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Measure:
    """METEOR without synonyms."""
    monkeypatch.setenv(ENVIRONMENT, "none")
    return make_measure("meteor")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answers=st.lists(TEXTS, min_size=1, max_size=4), references=st.lists(TEXTS, min_size=1, max_size=4))
def test_the_matrix_leaves_out_no_pair_that_matches(
    answers: list[str], references: list[str], tiny_wordnet: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, str(tiny_wordnet))
        measure, found = make_measure("meteor"), find_wordnet()
    assert found is not None
    table = measure.matrix(answers, references)
    for row, answer in zip(table, answers, strict=True):
        for score, reference in zip(row, references, strict=True):
            assert score == single_meteor_score(reference.split(), answer.split(), wordnet=found.reader)


def test_meteor_of_nltks_own_example(plain: Measure) -> None:
    answer = "It is a guide to action which ensures that the military always obeys the commands of the party"
    reference = "It is a guide to action that ensures that the military will forever heed Party commands"
    # nltk documents 0.6944 with WordNet; no synonym plays a part in it.
    assert plain.scores([answer], [reference]) == pytest.approx(0.6944, abs=5e-5)
    assert plain.scores(["non matching hypothesis"], ["this is a cat"]).tolist() == [0]
    assert len(tokens(answer)) == 18


def test_meteor_by_hand(plain: Measure) -> None:
    # P = 1/2, R = 1/1; F = PR / (0.9 P + 0.1 R) = 0.5 / 0.55; one chunk of one match halves it.
    # All of two words in one chunk: 1 - 0.5 (1/2)^3. A single word never has more than one half.
    found = plain.scores(["gray seals", "gray seal", "seal"], ["seal", "gray seal", "seal"])
    assert found == pytest.approx([0.5 / 0.55 / 2, 1 - 0.5 / 8, 0.5])


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
