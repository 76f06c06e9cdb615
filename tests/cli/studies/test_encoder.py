from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.studies.study import Study

STUDY = "encoder"

TAXONOMY = """path,rank,aliases
life/Aves,class,bird|feathered thing
life/Aves/Anas platyrhynchos,species,mallard|wild duck
life/Aves/Turdus merula,species,blackbird
life/Insecta,class,insect
life/Insecta/Apis mellifera,species,honey bee
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tree.csv").write_text(TAXONOMY, encoding="utf-8")
    (tmp_path / "placed.csv").write_text("said,where\na mallard,mallard\nno idea,\n", encoding="utf-8")
    return tmp_path


def test_tables_and_files(folder: Path, study: Study) -> None:
    out, err = study.said(
        "-t", folder / "tree.csv", "-e", "lexical", "-e", "again=lexical", "--resamples", 20,
        "--answers", folder / "placed.csv", "--answer-column", "said", "--node-column", "where",
        "--template", "it is a {name}", "--out", folder / "out",
    )  # fmt: skip
    for text in ("held-out name", "it is a {name}", "placed answers", "no evidence", "Language only"):
        assert text in out
    assert "no evidence that the mapper's similarity matters on this tree" in err
    assert "1 of 2 answers name no node" in err
    files = {path.name for path in (folder / "out").iterdir()}
    assert {"study.json", "encoder.csv", "encoder-1.md", "encoder-levels.png", "encoder-language.svg"} <= files


def test_a_root_changes_the_metrics_and_both_are_shown(folder: Path, study: Study) -> None:
    rows = "said,where\na blackbird,mallard\nsome bird,mallard\na honey bee,honey bee\n,insect\nno idea,\n"
    (folder / "placed.csv").write_text(rows, encoding="utf-8")
    answers = ("--answers", folder / "placed.csv", "--answer-column", "said", "--node-column", "where")
    template = ("--template", "it is a {name}", "--resamples", 10)
    found = study.json("-t", folder / "tree.csv", *template, *answers, "--root", "Aves")
    both = {row["text (placed by, encoder)"]: row for row in found["tables"]["both-trees"]}
    # Below Aves: Aves alone of 2 nodes for the blackbird, Aves of the mallard's 2 for "bird", and the root for no idea.
    own = both["placed answers (default mapper, lexical)"]
    assert (own["answers"], own["hP on Aves"], own["hP on life"]) == pytest.approx((3, 5 / 6, 8 / 9))
    assert (own["hR on Aves"], own["hR on life"]) == pytest.approx((2 / 3, 7 / 9))
    named = both["it is a {name} (default mapper, lexical)"]
    assert (named["answers"], named["hP on Aves"], named["hP on life"]) == (2, 1, 1)
    assert len(both) == 3 * 2
    assert (found["settings"]["root"], found["settings"]["levels"]) == ("life/Aves", ["species"])
    reasons = [(row["row"], row["reason"]) for row in found["excluded"]]
    assert reasons == [(4, "node outside Aves"), (5, "node outside Aves")]
    assert "2 of 5 rows are left out: node outside Aves" in found["notes"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-e", "clip-i2t:model"], "The encoder needs images"),
        (["-e", "sentence"], "no such similarity"),
        (["--template", "a photo"], "{name} or {plural}"),
        (["--answers", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_errors(folder: Path, arguments: list[str], said: str, study: Study) -> None:
    assert said in study.refused("-t", folder / "tree.csv", *arguments)
