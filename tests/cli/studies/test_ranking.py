"""`taxtune study ranking` through the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.studies.study import Study

STUDY = "ranking"

CAREFUL = "id,answer,target\n1,thrush,blackbird\n2,a bird,mallard\n3,,blackbird\n"
BOLD = "id,answer,target\n1,blackbird,blackbird\n2,American robin,mallard\n3,mallard,blackbird\n"


@pytest.fixture
def folder(birds_folder: Path) -> Path:
    for name, text in (("careful.csv", CAREFUL), ("bold.csv", BOLD)):
        (birds_folder / name).write_text(text, encoding="utf-8")
    return birds_folder


def test_two_files_as_table_json_and_files(folder: Path, study: Study) -> None:
    arguments = ("careful=careful.csv", "bold.csv", "-t", "tree.csv", "-m", "exact-match", "--resamples", "50")
    out, err = study.said(*arguments, "--out", "out")
    assert "Kendall's τ" in out
    assert "1 answer is missing" in out
    assert "written to out" in err
    assert {path.name for path in (folder / "out").iterdir()} >= {
        "study.json", "scores.csv", "scores.md", "ranks.csv", "uncertainty.csv", "tau.csv", "ranks.png", "ranks.svg",
    }  # fmt: skip
    with (folder / "out" / "ranks.csv").open(encoding="utf-8", newline="") as file:
        ranks = {row["model"]: row for row in csv.DictReader(file)}
    assert ranks["careful"]["EM"] == ranks["bold"]["hF"] == "2"
    assert ranks["careful"]["hF"] == ranks["bold"]["EM"] == "1"
    first = study.json(*arguments)
    assert first == study.json(*arguments) == json.loads((folder / "out" / "study.json").read_text())
    assert first["settings"]["seed"] == 0
    assert first["tables"]["scores"][0]["missing"] == 1


def test_the_papers_tables_and_ones_own_can_be_ranked(folder: Path, study: Study) -> None:
    found = study.json("--scores", "paper1-table4", "--out", "paper")
    assert len(found["tables"]["ranks"]) == 8
    assert (folder / "paper" / "ranks.png").exists()
    (folder / "own.csv").write_text("model,EM,hF\na,1,0.5\nb,2,0.4\n", encoding="utf-8")
    assert study.json("--scores", "own.csv")["tables"]["tau"][0]["τ"] == -1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "scores file is empty"),
        ("model,EM\n", "needs the column model, named measures and at least two models"),
        ("model,EM\na,1\n", "(got '1 row with the columns model, EM') Give one row for each model"),
        ("name,EM\na,1\nb,2\n", "scores.csv: A table of scores needs the column model"),
        ("model,EM\n\n\na,1\nb,nan\n", "scores.csv:5: EM of b is not a number. (got 'nan') Leave the cell empty"),
        ("model,EM\na,inf\nb,2\n", "scores.csv:2: EM of a is not a number"),
        ('model,EM\na,"1,5"\nb,2\n', "use a decimal point"),
        ('model,EM\n"a\nb",1\nc,good\n', "scores.csv:4: EM of c is not a number"),
        ("model,EM\na,\nb,\nc,1\n", "2 of 3 models have no score at all"),
        ("model,EM\na,1\na,2\n", "scores.csv:3: A model is in the table twice."),
        ("model,EM\na\nb,2\n", "scores.csv:2: The row and the header have different numbers of cells"),
        ("model,EM\n ,1\nb,2\n", "scores.csv:2: The row has no model"),
        ('model,EM\na,"1\nb,2\n', "scores.csv:2: The row cannot be read as CSV"),
        ("model\na\nb\n", "no columns with scores"),
    ],
)
def test_a_table_of_scores_that_cannot_be_ranked(folder: Path, study: Study, text: str, message: str) -> None:
    (folder / "scores.csv").write_text(text, encoding="utf-8")
    assert message in study.refused("--scores", "scores.csv", "--out", "out")
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "No taxonomy was given"),
        (("-t", "tree.csv"), "No file of answers"),
        (("bold.csv", "-t", "tree.csv"), "at least two models"),
        (("bold.csv", "short.csv", "-t", "tree.csv"), "--rows common"),
        (("bold.csv", "other.csv", "-t", "tree.csv"), "a different target in other"),
        (("bold.csv", "off.csv", "-t", "tree.csv"), "'ostrich' is not on the taxonomy"),
        (("bold.csv", "empty.csv", "-t", "tree.csv"), "empty.csv"),
        (("bold.csv", "careful.csv", "-t", "tree.csv", "--missing", "error"), "row 4: answer is missing"),
        (("bold.csv", "careful.csv", "-t", "tree.csv", "-m", "rouge"), "Did you mean 'rouge-1'"),
        (("bold.csv", "careful.csv", "-t", "tree.csv", "--by", "model"), "--by splits one file"),
        (("bold.csv", "--guess", "none", "-t", "tree.csv"), "Unknown guess"),
        (("bold.csv", "off.csv", "-t", "tree.csv", "-m", "clip-i2t:none"), "clip-i2t needs images"),
        (("bold.csv", "off.csv", "-t", "tree.csv", "-m", "lave:none"), "--question-column"),
        (
            ("bold.csv", "asked.csv", "-t", "tree.csv", "-m", "llama-inclusion:none", "--question-column", "asked"),
            "bold: Row 2 has no asked.",
        ),
        (("bold.csv", "--scores", "paper1-table4"), "--scores ranks only the models of a table"),
        (("--scores", "paper9"), "table does not exist"),
        (("--scores", "words.csv"), "EM of b is not a number"),
    ],
)
def test_bad_input_is_one_message(
    folder: Path,
    study: Study,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    for name, text in (
        ("short.csv", "id,answer,target\n1,x,blackbird\n9,x,mallard\n"),
        ("other.csv", BOLD.replace("robin,mallard", "robin,blackbird")),
        ("off.csv", BOLD.replace("robin,mallard", "robin,ostrich")),
        ("empty.csv", ""),
        ("asked.csv", BOLD.replace("target", "target,asked").replace("bird\n", "bird,What?\n")),
        ("words.csv", "model,EM\na,1\nb,good\n"),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    assert message in study.refused(*arguments)


# -- several data sets -------------------------------------------------------------------------------------------------

ROWS = [
    # data set, target, what the model "bold" says, what "careful" says
    ("birds", "blackbird", "blackbird", "thrush"),
    ("birds", "mallard", "American robin", "a bird"),
    ("birds", "mallard", "mallard", None),
    ("dishes", "ramen", "ramen", "soup"),
    ("cars", "Audi A4", "Audi A6", "an Audi A4"),
    ("cars", "Audi A6", "Audi A6", "Audi"),
]
GROUPS = ("--group", "fine=birds,dishes", "--group", "very fine=cars", "-m", "text-inclusion", "--resamples", "50")


@pytest.fixture
def sets(folder: Path) -> list[str]:
    """A file for each model and data set, as harnesses write them, named as arguments."""
    files: dict[str, list[str]] = {}
    for i, (name, target, *answers) in enumerate(ROWS):
        for model, answer in zip(("bold", "careful"), answers, strict=True):
            row = json.dumps({"id": i, "answer": answer, "target": target, "set": name, "model": model})
            for path in (f"{model}:{name}=samples_{name}_{model}.jsonl", "=all.jsonl", f"={model}.jsonl"):
                files.setdefault(path, []).append(row)
    for argument, rows in files.items():
        (folder / argument.partition("=")[2]).write_text("\n".join(rows), encoding="utf-8")
    return [argument for argument in files if argument[0] != "="]


def test_a_groups_value_is_the_mean_over_its_data_sets(folder: Path, study: Study, sets: list[str]) -> None:
    found = study.json(*sets, *GROUPS)
    tables = found["tables"]
    counts = {"missing": 0, "abstained": None, "off the tree": None}
    bold, careful = tables["scores"]
    # bold: two of three birds, the one dish, one of two cars. careful has given no answer about a bird.
    assert bold == {"model": "bold", "answers": 6, **counts, "fine TI": pytest.approx(250 / 3), "very fine TI": 50}
    assert careful == {"model": "careful", "answers": 5, **counts, "missing": 1, "fine TI": 0, "very fine TI": 50}
    assert [(row["data set"], row["model"], row["answers"], row["TI"]) for row in tables["data-sets"]] == [
        ("birds", "bold", 3, pytest.approx(200 / 3)), ("birds", "careful", 2, 0),
        ("dishes", "bold", 1, 100), ("dishes", "careful", 1, 0),
        ("cars", "bold", 2, 50), ("cars", "careful", 2, 50),
    ]  # fmt: skip
    assert [tuple(row.values()) for row in tables["ranks"]] == [("bold", 1, 1.5), ("careful", 2, 1.5)]
    # Resampled by data set: the one dish is always there, and bold behind in no draw. In one of 27, the three birds are
    # thrice the one that careful has no answer about, and the two cannot be told apart.
    assert [row["P(first)"] for row in tables["uncertainty"][:2]] == pytest.approx([1 - 1 / 54, 1 / 54], abs=0.05)
    assert "tau" not in tables
    assert found["settings"]["groups"] == {"fine": ["birds", "dishes"], "very fine": ["cars"]}
    assert found["settings"]["data_sets"]["birds"] == {"taxonomy": None, "units": 3}
    assert "fine: the mean of birds, dishes, each of which counts the same." in found["table_notes"]["scores"]
    study.said(*sets, *GROUPS, "--out", "out")
    assert {"ranks-1.png", "ranks-2.png", "data-sets.csv"} <= {path.name for path in (folder / "out").iterdir()}
