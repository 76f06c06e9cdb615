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
    (tmp_path / "placed.csv").write_text("answer,node\na mallard,mallard\nno idea,\n", encoding="utf-8")
    return tmp_path


def test_tables_and_files(folder: Path, study: Study) -> None:
    out, err = study.said(
        "-t", folder / "tree.csv", "-e", "lexical", "-e", "again=lexical", "--resamples", 20,
        "--answers", folder / "placed.csv",
        "--template", "it is a {name}", "--out", folder / "out",
    )  # fmt: skip
    for text in ("held-out name", "it is a {name}", "placed answers", "no evidence", "Language only"):
        assert text in out
    assert "no evidence that the mapper's similarity matters on this tree" in err
    assert "1 of 2 answers name no node" in err
    files = {path.name for path in (folder / "out").iterdir()}
    assert {"study.json", "encoder.csv", "encoder-1.md", "encoder-levels.png", "encoder-language.svg"} <= files


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-e", "clip-i2t:model"], "The encoder needs images"),
        (["--template", "a photo"], "{name} or {plural}"),
    ],
)
def test_errors(folder: Path, arguments: list[str], said: str, study: Study) -> None:
    assert said in study.refused("-t", folder / "tree.csv", *arguments)
