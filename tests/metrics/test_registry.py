from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from taxtune.errors import DataError, TaxtuneError
from taxtune.metrics.base import FunctionMeasure
from taxtune.metrics.registry import MEASURES, Measure, make_measure, measure

WITHOUT_MODEL = [name for name, kind in MEASURES.items() if kind.default_model is None]


@pytest.mark.parametrize("kind", WITHOUT_MODEL)
def test_measures_without_a_model_keep_the_one_signature(kind):
    made = make_measure(kind)
    assert isinstance(made, Measure)
    assert made.name == kind
    assert made.label == MEASURES[kind].label
    scores = made.scores(["a red bird", "bird", ""], ["bird", "bird", "red tree"])
    assert scores.shape == (3,)
    assert scores.dtype == np.float64
    assert (scores >= 0).all()
    assert (scores <= 1 + 1e-9).all()
    assert scores[1] == scores.max()
    assert scores[2] == 0  # an answer that says nothing has nothing of the reference
    references = ["bird", "tree"]
    table = made.matrix(["a red bird", ""], references)
    assert table.shape == (2, 2)
    expected = made.scores(["a red bird"] * 2, references)
    assert table[0] == pytest.approx(expected)
    assert made.scores([], []).shape == (0,)
    assert made.identity()["measure"] == kind


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("rouge1", "rouge-1"),
        ("rouge-1:x", "has no model"),
        ("sentence:", "empty"),
        ("", "Known names"),
    ],
)
def test_what_is_no_measure(spec, said):
    with pytest.raises(DataError, match=said):
        make_measure(spec)


def test_listing_the_measures_imports_light():
    heavy = {
        "torch",
        "transformers",
        "nltk",
        "rouge_score",
        "spacy",
        "scipy",
        "sklearn",
        "open_clip",
        "litellm",
    }
    code = (
        "import sys\nfrom taxtune.metrics.registry import MEASURES\n"
        "text = [name for name in sys.modules if name == 'taxtune.metrics.text']\n"
        "assert not text and [kind.kind for kind in MEASURES.values()] == list(MEASURES)\n"
        f"print(sorted(set(sys.modules) & {heavy!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- measures of the user's own --------------------------------------------------------------------


@pytest.fixture
def own():
    """The registry, which forgets after the test what is registered in it."""
    before = dict(MEASURES)
    yield MEASURES
    for name in MEASURES.keys() - before.keys():
        del MEASURES[name]
    MEASURES.update(before)


def longer(answer, reference):
    """How much longer the answer is."""
    return len(answer) - len(reference)


def test_a_function_is_a_measure_wherever_a_name_is(own, recorder):
    assert measure("longer", label="Longer", source="here")(longer) is longer
    assert (own["longer"].label, own["longer"].summary) == (
        "Longer",
        "How much longer the answer is.",
    )
    assert list(own)[-1] == "longer"
    made = make_measure("longer")
    assert made.scores(["abc", "abc", ""], ["a", "a", "b"]).tolist() == [2, 2, -1]
    assert recorder.of("Longer") == [(0, 2), (1, 2), (2, 2)], "equal pairs are scored once"
    assert made.matrix(["abc", "a"], ["a", "ab"]).tolist() == [[2, 1], [0, -1]]
    assert made.identity() == {"measure": "longer", "function": f"{__name__}.longer"}
    # Without a name of its own, too.
    assert make_measure(longer).scores(["abc"], ["a"]).tolist() == [2]
    assert make_measure(made) is made


def test_a_function_gets_the_question(own):
    @measure("asked", needs_question=True)
    def asked(answer, reference, question):
        return len(question) if answer else None

    made = make_measure("asked")
    assert made.needs_questions
    scores = made.scores(["a", "", "a"], ["x", "y", "x"], questions=["What?", "", "Why?"])
    np.testing.assert_array_equal(scores, [5, np.nan, 4])
    assert made.scores([], [], questions=[]).shape == (0,)
    with pytest.raises(DataError, match="asked needs the question of every answer"):
        made.scores(["a"], ["x"])


@pytest.mark.parametrize("value", ["good", float("inf"), [True]])
def test_what_a_function_must_not_return(value):
    own = FunctionMeasure("own", "Own", lambda answer, reference: value)
    with pytest.raises(
        TaxtuneError,
        match=r"own did not return a finite number for the answer 'an answer' .*'a refer",
    ):
        own.scores(["an answer"], ["a reference"])


def test_other_packages_add_measures_by_entry_points(own, tmp_path, monkeypatch):
    (tmp_path / "their_measures.py").write_text(
        "import taxtune.metrics.registry as registry\n"
        "def plain(answer, reference):\n    return 0.25\n"
        "@registry.measure('theirs', label='Theirs')\n"
        "def decorated(answer, reference):\n    return 0.5\n"
    )
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[taxtune.measures]\ntheirs = their_measures:decorated\nplain = their_measures:plain\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert {"theirs", "plain"} <= set(own)
    assert make_measure("theirs").label == "Theirs"
    assert make_measure("plain").scores(["a"], ["b"]).tolist() == [0.25]
