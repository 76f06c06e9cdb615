from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.encoders.base import FloatMatrix
from taxtune.errors import DataError, ModelError
from taxtune.models import Answer, Failure, Identity, Reply, Request
from taxtune.studies.granularity import GranularitySettings
from taxtune.studies.granularity.classes import coarse_cut, top_one, two_level, two_level_report
from taxtune.studies.granularity.language import (
    chosen_class,
    language_chat,
    language_only,
    language_report,
)
from taxtune.studies.granularity.matrices import ScoreMatrix
from taxtune.taxonomy import Taxonomy

#: thing / animal (cat, dog), food (apple, bread), and "rock", which is no leaf of either.
TREE = Taxonomy(
    ["thing", "animal", "food", "rock", "cat", "dog", "apple", "bread"], [-1, 0, 0, 0, 1, 1, 2, 2]
)


class Directions:
    """An encoder that knows the direction of a few texts."""

    name = "made"
    identity: dict[str, str | int | None] = {}  # noqa: RUF012

    def __init__(self, **vectors: Sequence[float]) -> None:
        self._vectors = vectors

    def texts(self, texts: Sequence[str]) -> FloatMatrix:
        rows = np.array([self._vectors[text] for text in texts], dtype=np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)

    stored = texts


def test_a_cut_by_level_leaves_out_what_has_no_coarse_class() -> None:
    grouping = coarse_cut(TREE, level=1)
    assert grouping.coarse.tolist() == [1, 2]
    assert grouping.fine.tolist() == [4, 5, 6, 7]
    assert grouping.parent.tolist() == [0, 0, 1, 1]
    assert grouping.notes == ["1 of 5 fine classes left out: they are not below a coarse class."]
    assert coarse_cut(TREE, labels=["food", "animal"]).coarse.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "not both"),
        ({"level": 1, "labels": ["food"]}, "not both"),
        ({"level": 0}, "at least two"),
        ({"level": 2}, "at least two.*Take a level"),
        ({"labels": ["food", "cat"]}, "nothing below it.*'cat'"),
        ({"labels": ["thing", "food"]}, "below another.*'thing', 'food'"),
        ({"labels": ["food", "food"]}, "at least two"),
    ],
)
def test_cuts_that_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match=said):
        coarse_cut(TREE, **options)  # type: ignore[arg-type]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), min_size=1, max_size=6),
    st.integers(0, 3),
)
def test_ties_count_by_the_share_that_is_right(rows: list[list[int]], right: int) -> None:
    group = np.array([0, 0, 1, 1])
    truth = np.full(len(rows), right)
    of_column = top_one(np.array(rows, dtype=np.float32), truth)
    of_group = top_one(np.array(rows, dtype=np.float32), group[truth], group)
    for i, row in enumerate(rows):
        best = [j for j, value in enumerate(row) if value == max(row)]
        assert of_column[i] == pytest.approx((right in best) / len(best))
        assert of_group[i] == pytest.approx(sum(group[j] == group[right] for j in best) / len(best))


#: Columns thing, animal, food, rock, cat, dog, apple, bread; images of cat, dog, apple, bread and rock.
SCORES = np.array(
    [
        [0, 0.1, 0.3, 0, 0.9, 0.2, 0.1, 0.1],  # cat: fine right, coarse wrong directly
        [0, 0.5, 0.2, 0, 0.8, 0.7, 0.1, 0.1],  # dog: taken for a cat, coarse right both ways
        [0, 0.4, 0.1, 0, 0.1, 0.1, 0.6, 0.2],  # apple: fine right, coarse wrong directly
        [0, 0.1, 0.6, 0, 0.1, 0.9, 0.1, 0.3],  # bread: taken for a dog; coarse right directly only
        [0, 0.1, 0.6, 0, 0.1, 0.9, 0.1, 0.3],
    ],
    dtype=np.float32,
)


def options(form: str) -> GranularitySettings:
    """Settings of a form; the models are not asked."""
    source = {"model": "made"} if form == "language" else {"scores": "s.csv"}
    return GranularitySettings(taxonomy=TREE, form=form, coarse_level=1, resamples=9, **source)  # type: ignore[arg-type]


def test_table_5_by_hand() -> None:
    matrix = ScoreMatrix("made", np.array([4, 5, 6, 7, 3]), SCORES, notes=("made by hand",))
    grouping = coarse_cut(TREE, level=1)
    result = two_level(matrix, TREE, grouping)
    report = two_level_report([result], grouping, options("two-level"))
    row = report.tables[0].records()[0]
    assert [row["images"], *(row[name] for name in ("FG direct", "CG direct", "CG FG-label", "Δ label"))] == [
        4, 50, 50, 75, 25
    ]  # fmt: skip
    assert row["CG FG-emb"] is None
    # The fine and the coarse class are never both right; those of the cat, the apple and the bread disagree.
    assert (row["full path"], row["inconsistent"]) == (0, 75)
    # A tie is a draw: the cat is a cat or an apple, an animal or a food, each with one half.
    ties = np.array(
        [[0, 0.5, 0.5, 0, 0.9, 0, 0.9, 0], [0, 0.5, 0.1, 0, 0.1, 0.9, 0.1, 0]], dtype=np.float32
    )
    tied = two_level(ScoreMatrix("tied", np.array([4, 5]), ties), TREE, grouping).credit
    assert tied[["full path", "inconsistent"]].to_numpy().tolist() == [[0.25, 0.5], [1, 0]]
    assert report.notes[:2] == ("made by hand", *grouping.notes)
    assert any("1 of 5 images left out" in note for note in report.notes)
    assert any("No CG FG-emb" in note for note in report.notes)
    rocks = ScoreMatrix("made", np.array([3, 4]), SCORES[:2])
    without_cats = grouping._replace(fine=grouping.fine[1:], parent=grouping.parent[1:])
    with pytest.raises(DataError, match="No image shows a class that is below"):
        two_level(rocks, TREE, without_cats)


def test_an_average_of_unlike_embeddings_is_no_shorter_than_others() -> None:
    # The mean of x and y has length 0.71; at length 1 its cosine with the image, 0.60, exceeds the food's, 0.53.
    labels = np.zeros((8, 3), dtype=np.float32)
    labels[[4, 5, 6, 7]] = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    images = np.array([[0.8, 0, 0.5], [0, 0, 1]], dtype=np.float32)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    matrix = ScoreMatrix("made", np.array([4, 6]), images @ labels.T, images, labels)
    result = two_level(matrix, TREE, coarse_cut(TREE, level=1))
    assert result.credit["CG FG-emb"].tolist() == [1, 1]


def test_language_only_by_hand() -> None:
    encoder = Directions(
        animal=[1, 0], food=[0, 1], cat=[1, 0.1], dog=[1, 0.9], apple=[0.1, 1], bread=[1, 0.5]
    )
    grouping = coarse_cut(TREE, level=1)
    result = language_only(encoder, grouping, ("{label}",))
    assert result.credit["accuracy"].tolist() == [1, 1, 1, 0]
    report = language_report([result, result], grouping, options("language"))
    assert [row["encoder"] for row in report.tables[0].records()] == ["made", "made (2)"]
    assert report.tables[0].records()[0]["accuracy"] == 75
    assert "50.00 %" in report.tables[0].notes[0]
    by_class = {row["coarse class"]: row for row in report.tables[1].records()}
    assert by_class["food"]["accuracy"] == 50
    assert by_class["food"]["mistaken for"] == "animal (1)"
    (axes,) = report.figures["language"]().axes
    assert [bars.lines[0].get_xdata().tolist() for bars in axes.containers] == [[75, 75]]
    sorted_names = report.as_json()["sorted"]["made"]
    assert sorted_names[3] == {"fine": "bread", "coarse": "food", "chosen": "animal", "credit": 0.0}


def test_classes_that_only_float_noise_parts_are_tied() -> None:
    up, down = (1, 1 + 1e-6), (1 + 1e-6, 1)  # cosines with the axes differ by 7e-7
    encoder = Directions(animal=[1, 0], food=[0, 1], cat=up, dog=down, apple=up, bread=down)
    result = language_only(encoder, coarse_cut(TREE, level=1), ("{label}",))
    assert result.credit["accuracy"].tolist() == [0.5] * 4


def test_coarse_classes_of_one_name_share_the_credit() -> None:
    tree = Taxonomy(
        ["thing", "meal", "crockery", "dish", "dish", "soup", "plate"], [-1, 0, 0, 1, 2, 3, 4]
    )
    encoder = Directions(dish=[1, 0], soup=[1, 0.1], plate=[1, 0.2])
    grouping = coarse_cut(tree, labels=["thing/meal/dish", "thing/crockery/dish"])
    result = language_only(encoder, grouping, ("{label}",))
    assert result.credit["accuracy"].tolist() == [0.5, 0.5]
    (note,) = language_report([result], grouping, options("language")).notes
    assert "share the credit: 'dish' (2)" in note


def test_a_model_without_a_vector_for_a_name_is_refused() -> None:
    broken = Directions(
        cat=[1, 0], dog=[1, 0], apple=[0, 1], bread=[math.nan, 1], animal=[1, 0], food=[0, 1]
    )
    with pytest.raises(ModelError, match=r"no vector for 1 of 4 fine classes.*made"):
        language_only(broken, coarse_cut(TREE, level=1), ("{label}",))


# -- chat models -----------------------------------------------------------------------------------------------------

THINGS = Taxonomy(
    ["thing", "animal", "food", "cat", "dog", "apple", "bread"], [-1, 0, 0, 1, 1, 2, 2]
)
KINDS = ["fish", "food fish", "dog", "cat"]


@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        ("fish", 0),
        ("**Food fish.**", 1),
        ("It is a food fish.", 1),  # "fish" alone does not stand there
        ("a dog, I think", 2),
        ("a dog or a cat", -1),
        ("doghouse", -1),
        ("", -1),
        ("I cannot say", -1),
    ],
)
def test_what_a_reply_chooses(reply: str, chosen: int) -> None:
    assert chosen_class(reply, KINDS) == chosen


class Replies:
    """A chat model with set replies by the thing that is asked about."""

    batch_size = 2

    def __init__(self, **replies: str | None) -> None:
        self._replies = replies
        self.prompts: list[str] = []

    @property
    def identity(self) -> Identity:
        return {"kind": "made"}

    def check(self) -> list[str]:
        return []

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        prompts = [request.prompt for request in requests]
        self.prompts += prompts
        found = [
            next(v for k, v in self._replies.items() if f"is this: {k}?" in prompt)
            for prompt in prompts
        ]
        return [
            Failure("down", retryable=False) if text is None else Answer(text) for text in found
        ]


def test_unclear_replies_and_failed_calls_are_unscored() -> None:
    llm = Replies(cat="animal", dog="food", apple="either", bread=None)
    result = language_chat(llm, "llm:made", coarse_cut(THINGS, level=1))
    assert result.credit["accuracy"].tolist() == pytest.approx(
        [1, 0, math.nan, math.nan], nan_ok=True
    )
    assert result.intervals(options("language"))["accuracy"].estimate == 0.5
    assert result.notes == [
        "llm:made: 1 of 4 replies name no class or several: unscored.",
        "llm:made: 1 of 4 calls failed: unscored.",
    ]
    assert "- animal\n- food\n" in llm.prompts[0]
