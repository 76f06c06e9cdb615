"""What pyproject.toml promises, against what the code says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from taxtune.metrics.registry import MEASURES

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]


def test_every_extra_that_a_message_names_exists():
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "taxtune").rglob("*.py"))
    raised = re.findall(r'MissingExtraError\(\s*"([^"]+)",\s*"([^"]+)"', code)
    assert raised
    for package, extra in raised:
        wanted = re.sub(r"[-_.]+", "-", package).lower()
        assert any(
            re.sub(r"[-_.]+", "-", need).lower().startswith(wanted) for need in EXTRAS[extra]
        ), (package, extra)
    named = set(re.findall(r"taxtune\[([a-z]+)\]", code)) | {
        kind.extra for kind in MEASURES.values()
    } - {None}
    assert named <= set(EXTRAS)


def test_docs_install_from_the_clone_and_name_no_extra_that_is_gone():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").glob("*.yaml")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = {name for names in re.findall(r"'\.\[([a-z,-]+)\]'", text) for name in names.split(",")}
    assert "gepa" in named
    assert named <= set(EXTRAS)
    assert "'taxtune[" not in text
    assert "pip install taxtune" not in text
