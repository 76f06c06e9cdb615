"""`taxtune study prompts` through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.studies.study import Study

STUDY = "prompts"

SHORT = "id,answer,target\n1,blackbird,blackbird\n2,American robin,mallard\n"
CAREFUL = "id,answer,target\n1,thrush,blackbird\n2,a bird,mallard\n"


@pytest.fixture
def folder(birds_folder: Path) -> Path:
    for name, text in (("short.csv", SHORT), ("careful.csv", CAREFUL)):
        (birds_folder / name).write_text(text, encoding="utf-8")
    return birds_folder


def test_two_prompts_as_table_json_and_files(folder: Path, study: Study) -> None:
    arguments = ("m:short=short.csv", "m:careful=careful.csv", "-t", "tree.csv", "--resamples", "50", "--seed", "3")
    assert "From the baseline prompt to the others" in study.said(*arguments, "--out", "out")[0]
    assert {path.name for path in (folder / "out").iterdir()} >= {
        "study.json", "prompts.csv", "arrows.md", "differences.csv", "arrows.png", "arrows.svg",
    }  # fmt: skip
    found = study.json(*arguments)
    assert found == json.loads((folder / "out" / "study.json").read_text("utf-8"))
    # life/bird/thrush/blackbird: a thrush is right and a bird is right; a robin for a mallard shares 2 of 4.
    assert [(row["prompt"], row["hP"], row["hR"]) for row in found["tables"]["prompts"]] == [
        ("short", 0.75, 0.75), ("careful", 1.0, (3 / 4 + 2 / 4) / 2),
    ]  # fmt: skip
    turned = study.json(*arguments, "--baseline", "careful")
    assert turned["tables"]["arrows"][0]["ΔhP"] == -0.25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("m:a=short.csv", "m:b=careful.csv"), "Missing option '--taxonomy'"),
        (("m=short.csv", "-t", "tree.csv"), "does not say which model and prompt"),
        (("m:a=short.csv", "-t", "tree.csv"), "m has a single prompt"),
        (("m:a=short.csv", "m:b=careful.csv", "-t", "tree.csv", "--baseline", "c"), "no prompt of the baseline's name"),
        (("m:a=short.csv", "m:b=silent.csv", "-t", "tree.csv"), "every call failed"),
        (("m=run", "-t", "tree.csv"), "does not contain a taxtune run"),
        (("m:a=short.csv", "m=done", "-t", "tree.csv"), "same model and prompt. (got ['m:a'])"),
        (("m:a=short.csv", "m:b=careful.csv", "-t", "tree.csv", "-m", "lave:none"), "--question-column"),
    ],
)
def test_bad_input_is_one_message(
    folder: Path,
    study: Study,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    (folder / "run").mkdir()
    (folder / "done").mkdir()
    (folder / "done" / "result.json").write_text('{"heldout": [{"name": "a", "rows": []}]}', encoding="utf-8")
    (folder / "silent.csv").write_text("id,answer,target\n1,,blackbird\n2,,mallard\n", encoding="utf-8")
    assert message in study.refused(*arguments)


def test_measures_of_text_stand_beside_with_their_gains(folder: Path, study: Study) -> None:
    (folder / "gap.csv").write_text("id,answer,target\n1,,blackbird\n2,a mallard,mallard\n", encoding="utf-8")
    arguments = ("m:short=short.csv", "m:careful=careful.csv", "m:gap=gap.csv", "-t", "tree.csv", "--resamples", "50")
    found = study.json(*arguments, "-m", "text-inclusion", "-m", "rouge-1", "--out", "out")
    table = {(row["prompt"], row["measure"]): row for row in found["tables"]["gains"]}
    assert [measure for _, measure in table] == ["hP", "hR", "TI", "ROUGE"] * 3
    # Short: a blackbird for a blackbird, an American robin for a mallard; careful: a thrush, a bird.
    assert [table["short", "TI"][key] for key in ("scored", "mean", "gain")] == [2, 0.5, None]
    assert [table["careful", "TI"][key] for key in ("scored", "mean", "in both", "gain")] == [2, 0.0, 2, -0.5]
    # The missing answer is no zero: the gain is that of the one example with both.
    gap = table["gap", "TI"]
    assert [gap[key] for key in ("scored", "missing", "unscored", "mean", "in both", "gain")] == [1, 1, 0, 1.0, 1, 1.0]
    arrows = {row["to"]: row for row in found["tables"]["arrows"]}
    assert table["careful", "hP"]["gain"] == arrows["careful"]["ΔhP"]
    assert {path.name for path in (folder / "out").iterdir()} >= {"gains.csv", "gains.md", "gains.png", "gains.svg"}
    assert [one["measure"] for one in found["settings"]["measures"]] == ["text-inclusion", "rouge-1"]
    assert "gains" not in study.json(*arguments)["tables"]


def test_measures_see_the_answer_or_the_whole_reply(folder: Path, study: Study) -> None:
    lines = "id,answer,target\n1,<think>A robin?</think>blackbird,blackbird\n2,mallard,mallard\n"
    (folder / "thought.csv").write_text(lines, encoding="utf-8")
    arguments = (
        "m:short=short.csv",
        "m:thought=thought.csv",
        "-t",
        "tree.csv",
        "--resamples",
        "9",
        "-m",
        "exact-match",
    )
    for reply, mean in (("answer", 1), ("whole", 0.5)):
        gains = study.json(*arguments, "--reply", reply)["tables"]["gains"]
        assert [row["mean"] for row in gains if (row["prompt"], row["measure"]) == ("thought", "EM")] == [mean]
