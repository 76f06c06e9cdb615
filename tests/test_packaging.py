"""What pyproject.toml promises, against what the code says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from taxtune.metrics.registry import MEASURES

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]


def text_of(files):
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def canonical(package):
    return re.sub(r"[-_.]+", "-", package).lower()


def test_every_extra_that_a_message_names_exists():
    code = text_of((ROOT / "taxtune").rglob("*.py"))
    raised = re.findall(r'MissingExtraError\(\s*"([^"]+)",\s*"([^"]+)"', code)
    assert raised
    for package, extra in raised:
        needs = map(canonical, EXTRAS[extra])
        assert any(need.startswith(canonical(package)) for need in needs), (package, extra)
    named = set(re.findall(r"taxtune\[([a-z]+)\]", code))
    assert named <= set(EXTRAS)
    assert {kind.extra for kind in MEASURES.values()} <= {None, *EXTRAS}


def test_docs_install_from_the_clone_and_name_no_extra_that_is_gone():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").glob("*.yaml")]
    text = text_of(pages)
    lists = re.findall(r"'\.\[([a-z,-]+)\]'", text)
    named = set(",".join(lists).split(","))
    assert "gepa" in named
    assert named <= set(EXTRAS)
    assert "'taxtune[" not in text
    assert "pip install taxtune" not in text
