from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.taxonomy.readers.authorship import is_epithet, split_authorship


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Quercus alba L.", "Quercus alba"),
        ("Passer domesticus (Linnaeus, 1758)", "Passer domesticus"),
        ("Abies balsamea (L.) Mill.", "Abies balsamea"),
        ("Rosa canina var. alba (Willd.) DC. ex Ser.", "Rosa canina var. alba"),
        ("Quercus robur f. fastigiata (Lam.) O.Schwarz", "Quercus robur f. fastigiata"),
        ("Larus fuscus graellsii A. E. Brehm, 1857", "Larus fuscus graellsii"),
        ("Larus fuscus de Vries, 1900", "Larus fuscus"),
        ("Aus bus Müller & Troschel, 1842", "Aus bus"),
        ("Aus bus d'Orbigny, 1840", "Aus bus"),
        ("Chilo suppressalis (Walker, [1863])", "Chilo suppressalis"),
        ("Malus ×domestica Borkh.", "Malus ×domestica"),
        ("Corvus corone L. f.", "Corvus corone"),
    ],
)
def test_authorship_is_recognised_behind_a_binomial(name: str, short: str) -> None:
    assert split_authorship(name) == (short, name[len(short) :].strip())


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Homo sapiens",
            "Felis catus Siamese",
            "Ford mustang GT",
            "Falcon 2000",
            "Jeep Wrangler SUV 2012",
            "Boeing 747",
        ),
        *("Sorbus aucuparia 'Edulis'", "Great Tit", "Carex sp.", "Malus ×domestica", "tit", "", "Acer (genus)"),
        "Quercus L.",
    ],
)
def test_what_is_none_stays(name: str) -> None:
    assert split_authorship(name) == (name, "")


def test_formats_that_cite_authors_need_less_of_a_mark() -> None:
    assert split_authorship("Pica pica Sharpe", cited=True) == ("Pica pica", "Sharpe")
    assert split_authorship("Pinaceae Spreng.", cited=True) == ("Pinaceae", "Spreng.")
    assert split_authorship("Great Tit", cited=True) == ("Great Tit", "")


def test_a_stated_author_is_taken_at_its_word() -> None:
    assert split_authorship("Aus bus Linnaeus", "Linnaeus") == ("Aus bus", "Linnaeus")
    assert split_authorship("Aus bus (Linnaeus)", "Linnaeus") == ("Aus bus", "Linnaeus")
    assert split_authorship("Aus bus", "Linnaeus") == ("Aus bus", "Linnaeus")
    assert split_authorship("L.", "L.") == ("L.", "L.")


@given(st.text("ABabc.,&()[] '-×18é", max_size=300), st.booleans())
def test_any_text_is_split_into_its_parts(text: str, cited: bool) -> None:
    name = f"Aus bus {text}"
    short, author = split_authorship(name, cited=cited)
    assert name.startswith(short)
    assert short
    assert author in name


def test_an_epithet_is_one_word_in_lower_case() -> None:
    assert [is_epithet(text) for text in ("alba", "×domestica", "novae-angliae", "white oak", "Alba", "b2", "")] == [
        *[True] * 3,
        *[False] * 4,
    ]
