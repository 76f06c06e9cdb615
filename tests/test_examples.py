"""The notebooks of the folder `examples`, executed as their reader would execute them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import taxtune

PACKAGE = Path(taxtune.__file__).parents[1]
NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


def read(file):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    return nbformat.read(file, as_version=4)


def code_cells(book):
    return [cell for cell in book.cells if cell.cell_type == "code"]


def kinds(cell):
    """Returns the kinds of output of a cell; what it prints comes in one piece or several."""
    found = set()
    for output in cell.outputs:
        found |= set(output.get("data", [output.get("name", "error")]))
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE), prepend=os.pathsep)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = read(file)
    client = nbclient.NotebookClient(
        book,
        timeout=280,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    for cell, kept in zip(code_cells(book), code_cells(read(file)), strict=True):
        assert kinds(cell) == kinds(kept), "the outputs in the file are those of this version"


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_kept_with_its_outputs_and_nothing_of_the_machine(file):
    shown = []
    for number, cell in enumerate(code_cells(read(file)), start=1):
        assert cell.execution_count == number
        for output in cell.outputs:
            assert output.output_type != "error"
            shown += [output.get("text", ""), *output.get("data", {}).values()]
    for text in shown:
        assert str(PACKAGE) not in text
        assert "site-packages" not in text
        assert "Warning" not in text
    assert any("images the search never saw" in text for text in shown)
    assert file.stat().st_size < 1_000_000


def test_there_are_notebooks():
    names = [file.stem for file in NOTEBOOKS]
    assert names == ["place_and_score_answers", "tune_your_own_function"]
