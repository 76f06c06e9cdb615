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


def test_one_file_parted_by_a_column_or_by_guesses(folder: Path, study: Study) -> None:
    rows = [
        {"id": i, "model": model, "set": "x", "answer": answer, "target": "blackbird"}
        for model, answer in (("m", ["blackbird", "mallard"]), ("n", ["mallard", "American robin"]))
        for i in (1, 2)
    ]
    (folder / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    shared = ("-t", "tree.csv", "-m", "exact-match", "--resamples", "5")
    found = study.json("all.jsonl", "--by", "model", *shared)
    assert found["settings"]["models"] == ["m", "n"]
    one = ("all.jsonl", "--where", "model=m", "--guess", "1", "--guess", "2", "--guess", "all", *shared)
    found = study.json(*one)
    assert [(row["model"], row["EM"], row["hP"]) for row in found["tables"]["scores"]] == [
        ("guess 1", 100.0, 1.0), ("guess 2", 0.0, 0.5), ("all guesses", 0.0, 1.0),
    ]  # fmt: skip


def test_a_root_changes_what_the_metrics_count(folder: Path, study: Study) -> None:
    arguments = ("careful.csv", "bold.csv", "-t", "tree.csv", "-m", "exact-match", "--resamples", "5")
    whole = study.json(*arguments)["tables"]["scores"][1]
    tables = study.json(*arguments, "--root", "bird")["tables"]
    below = tables["scores"][1]
    # A blackbird is right; a robin for a mallard, and a mallard for a blackbird, share life and bird of four.
    assert whole["hP"] == pytest.approx((1 + 2 / 4 + 2 / 4) / 3)
    assert below["hP"] == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)
    both = tables["both-trees"][1]
    assert (both["hP on bird"], both["hP on life"]) == (pytest.approx(below["hP"]), pytest.approx(whole["hP"]))
    assert (both["hF on bird"], both["hF on life"]) == (pytest.approx(below["hF"]), pytest.approx(whole["hF"]))
    # The careful model lacks an answer.
    assert [row["answers"] for row in tables["both-trees"]] == [row["answers"] for row in tables["scores"]] == [2, 3]


def test_targets_outside_the_root_are_left_out_before_rows_are_matched(folder: Path, study: Study) -> None:
    (folder / "more.csv").write_text(BOLD + "4,blackbird,duck\n5,a bird,birds\n", encoding="utf-8")
    arguments = ("careful.csv", "more.csv", "-t", "tree.csv", "-m", "exact-match", "--resamples", "5")
    assert "more (more.csv): 2 rows that another file lacks" in study.refused(*arguments)
    found = study.json(*arguments, "--root", "thrush")
    # Of example 1 and 3, on thrush/Turdus merula: careful says "thrush" and nothing; more is right, and off the tree.
    assert [(row["answers"], row["missing"], row["abstained"]) for row in found["tables"]["scores"]] == [
        (1, 1, 0),
        (2, 0, 0),
    ]
    assert [(row["hP"], row["hR"]) for row in found["tables"]["scores"]] == [(1.0, 0.5), (0.75, (1 + 1 / 2) / 2)]
    assert [(row["file"], row["row"], row["id"]) for row in found["excluded"]] == [
        ("careful.csv", 3, "2"),
        ("more.csv", 3, "2"),
        ("more.csv", 5, "4"),
        ("more.csv", 6, "5"),
    ]
    assert {row["reason"] for row in found["excluded"]} == {"target outside thrush"}
    assert found["notes"] == [
        "careful.csv: 1 of 3 rows are left out: target outside thrush",
        "more.csv: 3 of 5 rows are left out: target outside thrush",
    ]


def test_the_papers_tables_and_ones_own_can_be_ranked(folder: Path, study: Study) -> None:
    found = study.json("--scores", "paper1-table4", "--out", "paper")
    assert len(found["tables"]["ranks"]) == 8
    assert (folder / "paper" / "ranks.png").exists()
    (folder / "own.csv").write_text("model,EM,hF\na,1,0.5\nb,2,0.4\n", encoding="utf-8")
    assert study.json("--scores", "own.csv")["tables"]["tau"][0]["τ"] == -1


def test_a_table_of_scores_as_people_have_them(folder: Path, study: Study) -> None:
    text = "model;EM;hF\r\n\r\n a ;1;0.5\r\nb;;0.4\r\nc;2;\r\n"
    for name, content in (("bom.csv", text.encode("utf-8-sig")), ("utf-16.csv", text.encode("utf-16"))):
        (folder / name).write_bytes(content)
        tables = study.json("--scores", name)["tables"]
        assert [tuple(row.values()) for row in tables["ranks"]] == [("a", 2, 1), ("b", None, 2), ("c", 1, None)]
    (folder / "one.csv").write_text("model,EM\na,1\nb,2\n", encoding="utf-8")
    assert "tau" not in study.json("--scores", "one.csv")["tables"]


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


def test_common_rows_are_ranked_and_the_others_counted(folder: Path, study: Study) -> None:
    (folder / "short.csv").write_text("id,answer,target\n1,x,blackbird\n9,x,mallard\n", encoding="utf-8")
    found = study.json("bold.csv", "short.csv", "-t", "tree.csv", "--rows", "common", "-m", "exact-match")
    assert found["settings"]["examples"] == 1
    assert [note.split(",")[0] for note in found["notes"]] == [
        "2 of 3 rows of bold are left out because another file lacks them",
        "1 of 2 rows of short are left out because another file lacks them",
    ]
    assert [(row["file"], row["id"], row["reason"]) for row in found["excluded"]] == [
        ("bold.csv", "2", "missing for another model or prompt"),
        ("bold.csv", "3", "missing for another model or prompt"),
        ("short.csv", "9", "missing for another model or prompt"),
    ]


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


@pytest.mark.parametrize("files", [("all.jsonl", "--by", "model"), ("bold.jsonl", "careful.jsonl")])
def test_data_sets_are_told_by_a_column_too(study: Study, sets: list[str], files: tuple[str, ...]) -> None:
    by_file, by_column = study.json(*sets, *GROUPS), study.json(*files, "--dataset-column", "set", *GROUPS)
    assert by_column["tables"] == by_file["tables"]


def test_a_data_set_with_a_tree_has_metrics_and_so_has_a_group_of_such(study: Study, sets: list[str]) -> None:
    found = study.json(*sets, "--tree", "birds=tree.csv", "--group", "trees=birds", *GROUPS)
    bold, careful = found["tables"]["scores"]
    alone = study.json("bold=samples_birds_bold.jsonl", "careful=samples_birds_careful.jsonl", "-t", "tree.csv",
                       "-m", "text-inclusion")["tables"]["scores"]  # fmt: skip
    for label in ("TI", "accuracy", "hR", "hP", "hF"):
        assert [row[f"trees {label}"] for row in (bold, careful)] == [row[label] for row in alone]
    assert not {f"{group} hP" for group in ("fine", "very fine")} & set(bold)
    assert [row["hP"] is None for row in found["tables"]["data-sets"]] == [False] * 2 + [True] * 4
    assert (careful["abstained"], careful["missing"]) == (0, 1)


def test_a_model_without_a_data_set_has_no_mean_over_its_groups(study: Study, sets: list[str]) -> None:
    sets.remove("careful:dishes=samples_dishes_careful.jsonl")
    found = study.json(*sets, *GROUPS)
    careful = found["tables"]["scores"][1]
    assert (careful["answers"], careful["fine TI"], careful["very fine TI"]) == (4, None, 50)
    assert [row["fine TI"] for row in found["tables"]["ranks"]] == [1, None]
    assert "fine: careful has no answers about dishes, and so no mean." in found["table_notes"]["scores"]


def test_neither_has_one_whose_every_call_about_a_data_set_failed(folder: Path, study: Study, sets: list[str]) -> None:
    file = folder / "samples_dishes_careful.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace('"soup"', "null"), encoding="utf-8")
    found = study.json(*sets, *GROUPS)
    assert found["tables"]["scores"][1]["fine TI"] is None
    assert "fine: careful has no answers about dishes, and so no mean." in found["table_notes"]["scores"]


def test_data_sets_of_no_group_are_left_out_and_named(study: Study, sets: list[str]) -> None:
    found = study.json(*sets, "--group", "fine=birds", "-m", "text-inclusion", "--resamples", "50")
    assert "Data sets that no group has are left out: dishes, cars" in found["notes"]


def test_classes_are_the_same_however_they_are_written(folder: Path, study: Study) -> None:
    for model, target in (("a", "Basset Hound"), ("b", "basset_hound"), ("c", "pug")):
        row = {"id": model, "answer": "a basset hound", "target": target}
        (folder / f"{model}.jsonl").write_text(json.dumps(row), encoding="utf-8")
    found = study.json("a:pets=a.jsonl", "b:pets=b.jsonl", "c:pets=c.jsonl", "--group", "g=pets", "--unit", "target",
                       "-m", "text-inclusion")  # fmt: skip
    assert found["settings"]["data_sets"]["pets"]["units"] == 2
    said = [note for note in found["table_notes"]["scores"] if "in common" in note]
    assert said == [f"pets: {model} and c have no target in common, so that they count as tied." for model in "ab"]


def test_what_lmms_eval_logs_by_task_is_read(folder: Path, study: Study) -> None:
    for model, said in (("a", "a mallard"), ("b", "a duck")):
        sample = {"doc_id": 0, "target": "mallard", "filtered_resps": [said], "input": "What is this?"}
        (folder / f"samples_{model}.jsonl").write_text(json.dumps(sample), encoding="utf-8")
    found = study.json("a:birds=samples_a.jsonl", "b:birds=samples_b.jsonl", "--group", "fine=birds",
                       "-m", "text-inclusion")  # fmt: skip
    assert [row["fine TI"] for row in found["tables"]["scores"]] == [100, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bold.jsonl", "--group", "g=birds"), "does not say which model and data set"),
        (("bold:birds=bold.jsonl", "--group", "g=fish"), "--group names a data set that no file has. (got ['fish'])"),
        (("bold:birds=bold.jsonl", "--group", "g=birds,birds"), "--group takes NAME=DATASET,DATASET"),
        (("bold:birds=bold.jsonl", "--group", "g="), "--group takes NAME=DATASET,DATASET"),
        (("bold:birds=bold.jsonl", "--group", "g=birds", "--tree", "cars=tree.csv"), "--tree names a data set"),
        (("bold.jsonl", "--group", "g=birds", "--dataset-column", "domain"), "no column 'domain'"),
        (
            ("stray.jsonl", "--group", "g=birds", "--dataset-column", "set"),
            "1 of 6 rows cannot be used: row 4: set is missing",
        ),
        (("bold.jsonl", "--tree", "birds=tree.csv"), "--tree and --dataset-column need --group"),
        (("bold.jsonl", "--group", "g=birds", "--root", "bird"), "--root is of one tree"),
        (("--scores", "paper2-main", "--group", "g=birds"), "--scores ranks only the models of a table"),
        (("--scores", "paper2-main", "--tree", "birds=tree.csv"), "--scores ranks only the models of a table"),
        (("--scores", "paper2-main", "--dataset-column", "set"), "--scores ranks only the models of a table"),
        (("a:birds=bold.jsonl", "b:birds=wrong.jsonl", "--group", "g=birds"), "a different target in b"),
    ],
)
def test_groups_that_cannot_be_are_refused(
    folder: Path, study: Study, sets: list[str], arguments: tuple[str, ...], message: str
) -> None:
    text = (folder / "bold.jsonl").read_text(encoding="utf-8")
    (folder / "wrong.jsonl").write_text(text.replace('"target": "ramen"', '"target": "pho"'), encoding="utf-8")
    (folder / "stray.jsonl").write_text(text.replace('"set": "dishes"', '"set": null'), encoding="utf-8")
    assert message in study.refused(*arguments)
