"""`taxtune study ranking` through the command line."""

from __future__ import annotations

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


def test_targets_outside_the_root_are_left_out_before_rows_are_matched(
    folder: Path, study: Study
) -> None:
    (folder / "more.csv").write_text(BOLD + "4,blackbird,duck\n5,a bird,birds\n", encoding="utf-8")
    arguments = (
        "careful.csv",
        "more.csv",
        "-t",
        "tree.csv",
        "-m",
        "exact-match",
        "--resamples",
        "5",
    )
    assert "more (more.csv): 2 rows that another file lacks" in study.refused(*arguments)
    found = study.json(*arguments, "--root", "thrush")
    # Of example 1 and 3, on thrush/Turdus merula: careful says "thrush" and nothing; more is right, and off the tree.
    assert [
        (row["answers"], row["missing"], row["abstained"]) for row in found["tables"]["scores"]
    ] == [
        (1, 1, 0),
        (2, 0, 0),
    ]
    assert [(row["hP"], row["hR"]) for row in found["tables"]["scores"]] == [
        (1.0, 0.5),
        (0.75, (1 + 1 / 2) / 2),
    ]
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-t", "tree.csv"), "No file of answers"),
        (("bold.csv", "-t", "tree.csv"), "at least two models"),
        (("bold.csv", "short.csv", "-t", "tree.csv"), "--rows common"),
        (("bold.csv", "other.csv", "-t", "tree.csv"), "a different target in other"),
        (
            ("bold.csv", "careful.csv", "-t", "tree.csv", "--missing", "error"),
            "row 4: answer is missing",
        ),
        (("bold.csv", "-t", "tree.csv", "--by", "answer", "--guess", "1"), "exclude each other"),
        (
            (
                "bold.csv",
                "asked.csv",
                "-t",
                "tree.csv",
                "-m",
                "lave:none",
                "--question-column",
                "asked",
            ),
            "bold: Row 2 has no asked.",
        ),
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
        ("asked.csv", BOLD.replace("target", "target,asked").replace("bird\n", "bird,What?\n")),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    assert message in study.refused(*arguments)


def test_common_rows_are_ranked_and_the_others_counted(folder: Path, study: Study) -> None:
    (folder / "short.csv").write_text(
        "id,answer,target\n1,x,blackbird\n9,x,mallard\n", encoding="utf-8"
    )
    found = study.json(
        "bold.csv", "short.csv", "-t", "tree.csv", "--rows", "common", "-m", "exact-match"
    )
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
