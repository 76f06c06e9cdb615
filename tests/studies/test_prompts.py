"""Comparing prompts in the hP-hR plane and by measures of text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from taxtune.errors import TaxtuneError
from taxtune.metrics import hierarchical_sample, paired_bootstrap
from taxtune.metrics.registry import FunctionMeasure
from taxtune.report.drawing import save_figure
from taxtune.report.output import StudyReport
from taxtune.studies import run
from taxtune.studies.prompts import PromptsSettings, compare_prompts
from taxtune.taxonomy import Taxonomy

BLACKBIRD, ROBIN, MALLARD = 4, 5, 8


def model(
    name: str = "m", targets: tuple[int, ...] = (BLACKBIRD, MALLARD), **prompts: Any
) -> pd.DataFrame:
    """The answers of a model under prompts on some nodes, none of which abstains or is off the tree."""
    rows = [
        (
            name,
            prompt,
            None if node < 0 else f"{node}",
            targets[i % len(targets)],
            "",
            node,
            False,
            False,
            False,
        )
        for prompt, nodes in prompts.items()
        for i, node in enumerate(nodes)
    ]
    columns = [
        "model",
        "prompt",
        "answer",
        "target",
        "question",
        "node",
        "as_child",
        "abstained",
        "off_tree",
    ]
    return pd.DataFrame(rows, columns=columns)


def prompts_study(birds: Taxonomy, *models: pd.DataFrame, **settings: Any) -> StudyReport:
    settings = {"files": (), "taxonomy": birds} | settings
    return compare_prompts(birds, pd.concat(models, ignore_index=True), PromptsSettings(**settings))


def records(report: StudyReport, name: str) -> list[dict[str, Any]]:
    return report.table(name).records()


def test_a_hand_computed_arrow(birds: Taxonomy) -> None:
    # Bold: a blackbird and a robin; careful: a thrush and a bird (see test_ranking for the sums).
    report = prompts_study(birds, model(bold=(BLACKBIRD, ROBIN), careful=(3, 1)), resamples=100)
    bold, careful = records(report, "prompts")
    assert (bold["hP"], bold["hR"], bold["hF"], bold["accuracy"]) == pytest.approx(
        (0.7, 0.7, 0.7, 0.5)
    )
    assert (careful["hP"], careful["hR"], careful["hF"], careful["accuracy"]) == pytest.approx(
        (1.0, 0.6, 0.75, 0.0)
    )
    (arrow,) = records(report, "arrows")
    assert (arrow["from"], arrow["to"], arrow["examples"]) == ("bold", "careful", 2)
    assert (arrow["ΔhP"], arrow["ΔhR"], arrow["ΔhF"], arrow["Δaccuracy"]) == pytest.approx(
        (0.3, -0.1, 0.05, -0.5)
    )


def test_differences_are_the_paired_bootstrap_on_what_both_answered(birds: Taxonomy) -> None:
    rng = np.random.default_rng(0)
    one, two = rng.integers(0, 9, 60), rng.integers(0, 9, 60)
    one[:5], two[5:8] = -1, -1
    report = prompts_study(birds, model(one=one.tolist(), two=two.tolist()), resamples=300, seed=4)
    targets = np.array([BLACKBIRD, MALLARD] * 30)
    both = (one >= 0) & (two >= 0)
    second, first = (hierarchical_sample(birds, nodes[both], targets[both]) for nodes in (two, one))
    expected = paired_bootstrap((second, first), resamples=300, seed=4)
    shown = {row["metric"]: row for row in records(report, "differences")}
    for metric, name in (("hp", "hP"), ("hr", "hR"), ("hf", "hF"), ("accuracy", "accuracy")):
        assert shown[name]["difference"] == expected[metric].difference
        assert (shown[name]["2.5 %"], shown[name]["97.5 %"]) == (
            expected[metric].low,
            expected[metric].high,
        )
        assert shown[name]["p"] == expected[metric].p_value
    assert [(row["answers"], row["missing"]) for row in records(report, "prompts")] == [
        (55, 5),
        (57, 3),
    ]
    assert records(report, "arrows")[0]["examples"] == 52
    assert any(
        "8 answers are missing" in note for note in report.as_json()["table_notes"]["prompts"]
    )


@pytest.mark.parametrize(
    ("start", "end", "reading"),
    [
        ((BLACKBIRD, ROBIN), (3, 1), "precision for recall"),
        ((ROBIN, ROBIN), (3, 1), "more precision"),
        ((3, 1), (BLACKBIRD, ROBIN), "recall for precision"),
        ((ROBIN, ROBIN), (BLACKBIRD, MALLARD), "better in both"),
        ((BLACKBIRD, MALLARD), (ROBIN, ROBIN), "worse in both"),
        ((3, 7), (BLACKBIRD, MALLARD), "more recall"),
        ((BLACKBIRD, MALLARD), (3, 7), "less recall"),
        ((BLACKBIRD, MALLARD), (BLACKBIRD, MALLARD), "no clear change"),
    ],
)
def test_an_arrow_is_read_by_what_surely_moved(
    birds: Taxonomy, start: tuple[int, int], end: tuple[int, int], reading: str
) -> None:
    report = prompts_study(birds, model(a=start * 100, b=end * 100), resamples=200)
    assert records(report, "arrows")[0]["reading"] == reading


def test_the_baseline_is_the_first_prompt_or_the_named_one(birds: Taxonomy) -> None:
    given = model(**dict.fromkeys("abc", (BLACKBIRD, MALLARD)))
    assert [row["to"] for row in records(prompts_study(birds, given, resamples=10), "arrows")] == [
        "b",
        "c",
    ]
    named = prompts_study(birds, given, baseline="b", resamples=10)
    assert [(row["from"], row["to"]) for row in records(named, "arrows")] == [
        ("b", "a"),
        ("b", "c"),
    ]
    with pytest.raises(
        TaxtuneError, match=r"m has no prompt of the baseline's name.*'a', 'b', 'c'"
    ):
        prompts_study(birds, given, baseline="d")


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ({"a": [BLACKBIRD]}, "single prompt"),
        ({"a": [-1, -1], "b": [3, 3]}, "every call failed"),
        ({"a": [-1, 3], "b": [3, -1]}, "both 'a' and 'b'"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    birds: Taxonomy, prompts: dict[str, list[int]], message: str
) -> None:
    with pytest.raises(TaxtuneError, match=message):
        prompts_study(birds, model(**prompts))


def test_answers_that_a_measure_cannot_score_are_counted_and_leave_no_gain(birds: Taxonomy) -> None:
    def told(answer: str, reference: str) -> float | None:
        return None if answer == "mumble" else float(answer == reference)

    given = model(**dict.fromkeys("abc", (BLACKBIRD, MALLARD)))
    given["answer"] = ["mumble", "mallard", "Turdus merula", "mumble", "x", "y"]
    measure = FunctionMeasure("told", "told", told)
    report = prompts_study(birds, given, measure=(measure,), reference="any-name", resamples=20)
    found = {row["prompt"]: row for row in records(report, "gains") if row["measure"] == "told"}
    keys = ("scored", "missing", "unscored", "mean", "in both", "gain")
    assert [found["a"][key] for key in keys] == [1, 0, 1, 1.0, 1, None]
    assert [found["b"][key] for key in keys] == [
        1,
        0,
        1,
        1.0,
        0,
        None,
    ]  # no example has a score under both
    assert [found["c"][key] for key in keys] == [2, 0, 0, 0.0, 1, -1.0]
    report.figures["gains"]()


@pytest.mark.parametrize(
    ("names", "prompts", "arrows"),
    [("m", "ab", 1), ("m", "abc", 2), ("mno", "ab", 3), ("mn", "abc", 4)],
)
def test_an_arrow_for_each_model_and_prompt(
    birds: Taxonomy, names: str, prompts: str, arrows: int
) -> None:
    rng = np.random.default_rng(0)
    models = [model(m, **{p: rng.integers(1, 9, 30).tolist() for p in prompts}) for m in names]
    report = prompts_study(birds, *models, resamples=20)
    (axes,) = report.figures["arrows"]().axes
    assert (
        sum(text.arrow_patch is not None for text in axes.texts if hasattr(text, "arrow_patch"))
        == arrows
    )
    shown = [text.get_text() for text in axes.get_legend().get_texts()]
    assert shown[0] == "from: a"
    assert len(shown) == 1 + arrows
    for row in records(report, "prompts"):
        assert axes.get_xlim()[0] <= row["hR"] <= axes.get_xlim()[1]
        assert axes.get_ylim()[0] <= row["hP"] <= axes.get_ylim()[1]


def test_arrows_of_no_length_draw(birds: Taxonomy, tmp_path: Path) -> None:
    perfect = (BLACKBIRD, MALLARD)
    report = prompts_study(birds, model(a=perfect, b=perfect), resamples=5)
    assert save_figure(report.figures["arrows"], tmp_path / "arrows")[0].stat().st_size > 10_000


# -- files ------------------------------------------------------------------------------------------------------------

FILES = {
    "short.csv": "id,answer,target\n1,blackbird,blackbird\n2,American robin,mallard\n",
    "careful.csv": "id,answer,target\n1,thrush,blackbird\n2,a bird,mallard\n",
    "gap.csv": "id,answer,target\n1,,blackbird\n2,a mallard,mallard\n",
    "silent.csv": "id,answer,target\n1,,blackbird\n2,,mallard\n",
    "thought.csv": "id,answer,target\n1,<think>A robin?</think>blackbird,blackbird\n2,mallard,mallard\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "settings", "message"),
    [
        (["m=short.csv"], {}, "does not say which model and prompt"),
        (["m:a=short.csv"], {}, "m has a single prompt"),
        (
            ["m:a=short.csv", "m:b=careful.csv"],
            {"baseline": "c"},
            "no prompt of the baseline's name",
        ),
        (["m:a=short.csv", "m:b=silent.csv"], {}, "every call failed"),
        (["m=run"], {}, "does not contain a taxtune run"),
        (["m:a=short.csv", "m=done"], {}, r"same model and prompt. \(got \['m:a'\]\)"),
        (["m:a=short.csv", "m:b=careful.csv"], {"measure": "lave:none"}, "--question-column"),
    ],
)
def test_what_files_lack_is_named(
    birds: Taxonomy, folder: Path, files: list[str], settings: dict[str, Any], message: str
) -> None:
    (folder / "run").mkdir()
    (folder / "done").mkdir()
    (folder / "done" / "result.json").write_text(
        '{"heldout": [{"name": "a", "rows": []}]}', encoding="utf-8"
    )
    with pytest.raises(TaxtuneError, match=message):
        run("prompts", taxonomy=birds, files=files, **settings)


def test_measures_of_text_stand_beside_with_their_gains(birds: Taxonomy, folder: Path) -> None:
    files = [f"m:{name}={name}.csv" for name in ("short", "careful", "gap", "thought")]
    report = run(
        "prompts", taxonomy=birds, files=files, measure=["contained", "exact-match"], resamples=50
    )
    table = {(row["prompt"], row["measure"]): row for row in records(report, "gains")}
    assert [measure for _, measure in table] == ["Contained", "EM"] * 4
    # Short: a blackbird for a blackbird, an American robin for a mallard; careful: a thrush, a bird.
    assert [table["short", "Contained"][key] for key in ("scored", "mean", "gain")] == [
        2,
        0.5,
        None,
    ]
    assert [
        table["careful", "Contained"][key] for key in ("scored", "mean", "in both", "gain")
    ] == [2, 0.0, 2, -0.5]
    # The missing answer is no zero: the gain is that of the one example with both.
    gap = table["gap", "Contained"]
    assert [gap[key] for key in ("scored", "missing", "unscored", "mean", "in both", "gain")] == [
        1,
        1,
        0,
        1.0,
        1,
        1.0,
    ]
    assert [axes.get_title() for axes in report.figures["gains"]().axes] == [
        "hP",
        "hR",
        "Contained",
        "EM",
    ]
    # A measure sees what the mapper reads of a reply, without the reasoning.
    assert table["thought", "EM"]["mean"] == 1
