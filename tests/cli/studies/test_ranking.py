"""`taxtune study ranking` through the command line."""

from __future__ import annotations

import shlex

import pytest

STUDY = "ranking"

CAREFUL = "id,answer,target\n1,thrush,blackbird\n2,a bird,mallard\n3,,blackbird\n"
BOLD = "id,answer,target\n1,blackbird,blackbird\n2,American robin,mallard\n3,mallard,blackbird\n"


@pytest.fixture
def folder(birds_folder):
    texts = {
        "careful.csv": CAREFUL,
        "bold.csv": BOLD,
        "short.csv": "id,answer,target\n1,x,blackbird\n9,x,mallard\n",
        "other.csv": BOLD.replace("robin,mallard", "robin,blackbird"),
        "asked.csv": BOLD.replace("target", "target,asked").replace("bird\n", "bird,What?\n"),
        "more.csv": BOLD + "4,blackbird,duck\n5,a bird,birds\n",
    }
    for name, text in texts.items():
        (birds_folder / name).write_text(text, encoding="utf-8")
    return birds_folder


def test_targets_outside_the_root_are_left_out_before_rows_are_matched(folder, study):
    command = shlex.split("careful.csv more.csv -t tree.csv -m exact-match --resamples 5")
    assert "more (more.csv): 2 rows that another file lacks" in study.refused(*command)
    found = study.json(*command, "--root", "thrush")
    # Of example 1 and 3, on thrush/Turdus merula: careful says "thrush" and nothing; more is right,
    # and off the tree.
    careful, more = found["tables"]["scores"]
    assert (careful["answers"], careful["missing"], careful["abstained"]) == (1, 1, 0)
    assert (careful["hP"], careful["hR"]) == (1.0, 0.5)
    assert (more["answers"], more["missing"], more["abstained"]) == (2, 0, 0)
    assert (more["hP"], more["hR"]) == (0.75, (1 + 1 / 2) / 2)
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
    ("command", "message"),
    [
        ("", "No file of answers"),
        ("bold.csv", "at least two models"),
        ("bold.csv short.csv", "--rows common"),
        ("bold.csv other.csv", "a different target in other"),
        ("bold.csv careful.csv --missing error", "row 4: answer is missing"),
        ("bold.csv --by answer --guess 1", "exclude each other"),
        (
            "bold.csv asked.csv -m lave:none --question-column asked",
            "bold: Row 2 has no asked.",
        ),
    ],
)
def test_bad_input_is_one_message(folder, study, command, message):
    assert message in study.refused(*command.split(), "-t", "tree.csv")


def test_common_rows_are_ranked_and_the_others_counted(folder, study):
    command = "bold.csv short.csv -t tree.csv --rows common -m exact-match"
    found = study.json(*command.split())
    assert found["settings"]["examples"] == 1
    assert [note.split(",")[0] for note in found["notes"]] == [
        "2 of 3 rows of bold are left out because another file lacks them",
        "1 of 2 rows of short are left out because another file lacks them",
    ]
    excluded = [(row["file"], row["id"]) for row in found["excluded"]]
    assert excluded == [("bold.csv", "2"), ("bold.csv", "3"), ("short.csv", "9")]
    reasons = {row["reason"] for row in found["excluded"]}
    assert reasons == {"missing for another model or prompt"}
