"""Comparing prompts in the hP-hR plane and by measures of text."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from taxtune.errors import TaxtuneError
from taxtune.metrics.base import FunctionMeasure
from taxtune.metrics.statistics import hierarchical_sample, paired_bootstrap
from taxtune.studies import run
from taxtune.studies.prompts import PromptsSettings, compare_prompts
from tests.studies.reports import assert_drawn, cells, records, rows_by

BLACKBIRD, ROBIN, MALLARD = 4, 5, 8
#: Answers that are right about both examples; a blackbird and a robin; a thrush and a bird.
RIGHT, BOLD, CAREFUL = (BLACKBIRD, MALLARD), (BLACKBIRD, ROBIN), (3, 1)
ROBINS, FAMILIES = (ROBIN, ROBIN), (3, 7)


def model(name="m", **prompts):
    """The answers of a model under prompts on some nodes, none of which abstains or is off the tree."""
    parts = []
    for prompt, nodes in prompts.items():
        part = pd.DataFrame({"model": name, "prompt": prompt, "node": list(nodes)})
        part["target"] = np.resize(RIGHT, len(part))
        parts.append(part)
    answers = pd.concat(parts, ignore_index=True).assign(question="")
    answers["answer"] = answers["node"].astype(str).mask(answers["node"] < 0, None)
    answers[["as_child", "abstained", "off_tree"]] = False
    return answers


def compared(birds, *models, **settings):
    chosen = PromptsSettings(files=(), taxonomy=birds, **settings)
    return compare_prompts(birds, pd.concat(models, ignore_index=True), chosen)


def test_a_hand_computed_arrow(birds):
    # See test_ranking for the sums.
    report = compared(birds, model(bold=BOLD, careful=CAREFUL), resamples=100)
    prompts = rows_by(report, "prompts", "prompt")
    metrics = ("hP", "hR", "hF", "accuracy")
    assert cells(prompts["bold"], *metrics) == pytest.approx((0.7, 0.7, 0.7, 0.5))
    assert cells(prompts["careful"], *metrics) == pytest.approx((1.0, 0.6, 0.75, 0.0))
    (arrow,) = records(report, "arrows")
    assert cells(arrow, "from", "to", "examples") == ("bold", "careful", 2)
    changes = cells(arrow, "ΔhP", "ΔhR", "ΔhF", "Δaccuracy")
    assert changes == pytest.approx((0.3, -0.1, 0.05, -0.5))


def test_differences_are_the_paired_bootstrap_on_what_both_answered(birds):
    rng = np.random.default_rng(0)
    one, two = rng.integers(0, 9, (2, 60))
    one[:5] = -1
    two[5:8] = -1
    report = compared(birds, model(one=one, two=two), resamples=300, seed=4)
    both = (one >= 0) & (two >= 0)
    targets = np.resize(RIGHT, 60)[both]
    samples = [hierarchical_sample(birds, nodes[both], targets) for nodes in (two, one)]
    expected = paired_bootstrap(samples, resamples=300, seed=4)
    for row in records(report, "differences"):
        change = expected[row["metric"].lower()]
        shown = cells(row, "difference", "2.5 %", "97.5 %", "p")
        assert shown == dataclasses.astuple(change)
    metrics = [row["metric"] for row in records(report, "differences")]
    assert metrics == ["hP", "hR", "hF", "accuracy"]
    counts = [cells(row, "answers", "missing") for row in records(report, "prompts")]
    assert counts == [(55, 5), (57, 3)]
    assert records(report, "arrows")[0]["examples"] == 52
    assert any("8 answers are missing" in note for note in report.table("prompts").notes)


@pytest.mark.parametrize(
    ("start", "end", "reading"),
    [
        (BOLD, CAREFUL, "precision for recall"),
        (ROBINS, CAREFUL, "more precision"),
        (CAREFUL, BOLD, "recall for precision"),
        (ROBINS, RIGHT, "better in both"),
        (RIGHT, ROBINS, "worse in both"),
        (FAMILIES, RIGHT, "more recall"),
        (RIGHT, FAMILIES, "less recall"),
        (RIGHT, RIGHT, "no clear change"),
    ],
)
def test_an_arrow_is_read_by_what_surely_moved(birds, start, end, reading):
    report = compared(birds, model(a=start * 100, b=end * 100), resamples=200)
    assert records(report, "arrows")[0]["reading"] == reading


@pytest.mark.parametrize(("baseline", "arrows"), [(None, ["ab", "ac"]), ("b", ["ba", "bc"])])
def test_the_baseline_is_the_first_prompt_or_the_named_one(birds, baseline, arrows):
    answers = model(**dict.fromkeys("abc", RIGHT))
    report = compared(birds, answers, baseline=baseline, resamples=10)
    assert [row["from"] + row["to"] for row in records(report, "arrows")] == arrows


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ({"a": [BLACKBIRD]}, "single prompt"),
        ({"a": [-1, -1], "d": [3, 3]}, "every call failed"),
        ({"a": [-1, 3], "d": [3, -1]}, "both 'd' and 'a'"),
        (dict.fromkeys("abc", RIGHT), r"m has no prompt of the baseline's name.*'a', 'b', 'c'"),
    ],
)
def test_what_cannot_be_compared_is_refused(birds, prompts, message):
    with pytest.raises(TaxtuneError, match=message):
        compared(birds, model(**prompts), baseline="d")


def test_answers_that_a_measure_cannot_score_are_counted_and_leave_no_gain(birds):
    def told(answer, reference):
        return None if answer == "mumble" else float(answer == reference)

    answers = model(**dict.fromkeys("abc", RIGHT))
    answers["answer"] = ["mumble", "mallard", "Turdus merula", "mumble", "x", "y"]
    measure = FunctionMeasure("told", "told", told)
    report = compared(birds, answers, measure=(measure,), reference="any-name", resamples=20)
    gains = rows_by(report, "gains", "prompt")
    columns = ("scored", "missing", "unscored", "mean", "in both", "gain")
    assert cells(gains["a"], *columns) == (1, 0, 1, 1.0, 1, None)
    # No example has a score under both.
    assert cells(gains["b"], *columns) == (1, 0, 1, 1.0, 0, None)
    assert cells(gains["c"], *columns) == (2, 0, 0, 0.0, 1, -1.0)
    report.figures["gains"]()


@pytest.mark.parametrize(
    ("names", "prompts", "arrows"),
    [("m", "ab", 1), ("m", "abc", 2), ("mno", "ab", 3), ("mn", "abc", 4)],
)
def test_an_arrow_for_each_model_and_prompt(birds, names, prompts, arrows):
    rng = np.random.default_rng(0)
    models = []
    for name in names:
        nodes = {prompt: rng.integers(1, 9, 30) for prompt in prompts}
        models.append(model(name, **nodes))
    report = compared(birds, *models, resamples=20)
    (axes,) = report.figures["arrows"]().axes
    drawn = [text for text in axes.texts if getattr(text, "arrow_patch", None) is not None]
    assert len(drawn) == arrows
    shown = [text.get_text() for text in axes.get_legend().get_texts()]
    assert shown[0] == "from: a"
    assert len(shown) == 1 + arrows
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    for row in records(report, "prompts"):
        assert left <= row["hR"] <= right
        assert bottom <= row["hP"] <= top


def test_arrows_of_no_length_draw(birds, tmp_path):
    report = compared(birds, model(a=RIGHT, b=RIGHT), resamples=5)
    assert_drawn(report, tmp_path, least=10_000)


# -- files ------------------------------------------------------------------------------------------------------------

#: The answers about a blackbird and a mallard.
FILES = {
    "short": ("blackbird", "American robin"),
    "careful": ("thrush", "a bird"),
    "gap": ("", "a mallard"),
    "silent": ("", ""),
    "thought": ("<think>A robin?</think>blackbird", "mallard"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, (first, second) in FILES.items():
        rows = f"id,answer,target\n1,{first},blackbird\n2,{second},mallard\n"
        (tmp_path / f"{name}.csv").write_text(rows, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "settings", "message"),
    [
        ("m=short.csv", {}, "does not say which model and prompt"),
        ("m:a=short.csv", {}, "m has a single prompt"),
        ("m:a=short.csv m:b=careful.csv", {"baseline": "c"}, "no prompt of the baseline's name"),
        ("m:a=short.csv m:b=silent.csv", {}, "every call failed"),
        ("m=run", {}, "does not contain a taxtune run"),
        ("m:a=short.csv m=done", {}, r"same model and prompt. \(got \['m:a'\]\)"),
        ("m:a=short.csv m:b=careful.csv", {"measure": "lave:none"}, "--question-column"),
    ],
)
def test_what_files_lack_is_named(birds, folder, files, settings, message):
    (folder / "run").mkdir()
    (folder / "done").mkdir()
    result = '{"heldout": [{"name": "a", "rows": []}]}'
    (folder / "done" / "result.json").write_text(result, encoding="utf-8")
    with pytest.raises(TaxtuneError, match=message):
        run("prompts", taxonomy=birds, files=files.split(), **settings)


@pytest.mark.usefixtures("folder")
def test_measures_of_text_stand_beside_with_their_gains(birds):
    files = [f"m:{name}={name}.csv" for name in ("short", "careful", "gap", "thought")]
    measures = ["contained", "exact-match"]
    report = run("prompts", taxonomy=birds, files=files, measure=measures, resamples=50)
    gains = rows_by(report, "gains", "prompt", "measure")
    assert [measure for _, measure in gains] == ["Contained", "EM"] * 4
    # Short: a blackbird for a blackbird, an American robin for a mallard; careful: a thrush, a bird.
    short, careful = gains["short", "Contained"], gains["careful", "Contained"]
    assert cells(short, "scored", "mean", "gain") == (2, 0.5, None)
    assert cells(careful, "scored", "mean", "in both", "gain") == (2, 0.0, 2, -0.5)
    # The missing answer is no zero: the gain is that of the one example with both.
    gap = gains["gap", "Contained"]
    assert cells(gap, "scored", "missing", "unscored") == (1, 1, 0)
    assert cells(gap, "mean", "in both", "gain") == (1.0, 1, 1.0)
    titles = [axes.get_title() for axes in report.figures["gains"]().axes]
    assert titles == ["hP", "hR", "Contained", "EM"]
    # A measure sees what the mapper reads of a reply, without the reasoning.
    assert gains["thought", "EM"]["mean"] == 1
