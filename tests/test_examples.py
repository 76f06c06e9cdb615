"""The notebooks of the folder `examples`, executed as their reader would execute them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import taxtune

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def read(file):
    return pytest.importorskip("nbformat", reason="nbformat is not installed").read(
        file, as_version=4
    )


@pytest.mark.heavy
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    package = Path(taxtune.__file__).parents[1]
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = read(file)
    nbclient.NotebookClient(
        book, timeout=280, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    assert outputs(book) == outputs(read(file)), "the outputs in the file are those of this version"


def outputs(book):
    """Returns the kinds of output of the cells; what a cell prints comes in one piece or several."""
    return [
        sorted(
            {
                mime
                for output in cell.outputs
                for mime in output.get("data", {output.get("name", "error"): ""})
            }
        )
        for cell in book.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_kept_with_its_outputs_and_nothing_of_the_machine(file):
    book = read(file)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    found = [output for cell in code for output in cell.outputs]
    assert not [
        output
        for output in found
        if output.output_type == "error" or output.get("name") == "stderr"
    ]
    shown = [
        text
        for output in found
        for text in (output.get("text", ""), *output.get("data", {}).values())
    ]
    assert not [
        text
        for text in shown
        if str(Path(taxtune.__file__).parents[1]) in text or "site-packages" in text
    ]
    assert any("held-out images" in text for text in shown)
    assert file.stat().st_size < 1_000_000


def test_there_are_notebooks():
    assert [file.stem for file in NOTEBOOKS] == [
        "place_and_score_answers",
        "tune_your_own_function",
    ]
