"""The Python of the README and of the documentation, run as its reader would run it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
SHADES = {"cake": (120, 60, 20), "ice cream": (250, 220, 230), "pho": (150, 160, 70), "ramen": (220, 160, 40)}
TREE = "path,aliases\nfood/dessert/cake,\nfood/dessert/ice cream,gelato\nfood/soup/pho,\nfood/soup/ramen,\n"


def see(image: Image.Image, prompt: str) -> str:
    """Names the dish of a shade that it was asked for, or its group where the prompt asks for care."""
    shade = image.resize((1, 1)).getpixel((0, 0))
    label = min(SHADES, key=lambda name: sum((a - b) ** 2 for a, b in zip(SHADES[name], shade, strict=True)))
    return "some kind of soup" if "sure" in prompt and label in ("pho", "ramen") else f"A: {label}."


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tree.csv and photos/, which is the current one."""
    (tmp_path / "tree.csv").write_text(TREE)
    for label, shade in SHADES.items():
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i in range(6):
            picture = Image.new("RGB", (32, 32), tuple(min(255, part + 3 * i) for part in shade))
            picture.save(tmp_path / "photos" / label / f"{i}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("README.md", marks=pytest.mark.heavy),
        pytest.param("docs/tutorial/python.md", marks=pytest.mark.heavy),
        "docs/how-to/own-function.md",
        "docs/how-to/gepa-and-dspy.md",
    ],
)
def test_the_python_of_a_page_runs(page: str, photos: Path) -> None:
    if "gepa" in page:
        pytest.importorskip("gepa", reason="gepa is not installed: pip install 'taxtune[gepa]'")
    names: dict[str, Any] = {"my_model": see, "my_language_model": lambda prompt: "Only if you are sure, be specific."}
    exec("import taxtune", names)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    result = names["result"]
    assert result.best.template
    assert {held.name for held in result.heldout} == {"baseline", "winner"}
    assert Path(result.folder).is_dir()
    assert sorted(names["taxtune"].load_run(result.folder).answers("winner")["hp"].dropna().between(0, 1).unique()) == [
        True
    ]
