"""The arrows of ARCHITECTURE.md: which package may import which, imports inside functions included."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "taxtune"

#: What each package may import besides the modules at the top of the package that need no other package.
ALLOWED = {
    "taxonomy": set(),
    "data": {"taxonomy"},
    "models": {"data"},
    "execution": {"models", "data"},
    "encoders": {"models", "data"},
    "mapping": {"taxonomy", "encoders"},
    "metrics": {"taxonomy", "models", "encoders", "data"},
    "answers": {"taxonomy", "mapping", "metrics", "data", "report"},
    "report": {"taxonomy", "metrics", "data", "tuning", "audit"},
    "classifier": {"taxonomy", "data", "models", "execution", "mapping", "policies", "answers", "tuning"},
    "serving": {"classifier", "models"},
    "tracking": {"report", "tuning", "classifier", "serving"},
    "tuning": {
        "classifier",
        "policies",
        "taxonomy",
        "data",
        "models",
        "execution",
        "mapping",
        "metrics",
        "answers",
        "report",
        "tracking",
        "fieldguide",
    },
    "authoring": {"taxonomy", "mapping", "models", "data"},
    "drafting": {"taxonomy", "data", "models", "authoring", "tuning"},
    "audit": {"taxonomy", "mapping", "metrics", "models", "answers", "authoring", "report", "tuning"},
    "policies": {"taxonomy", "models", "metrics"},
    "integrations": {"taxonomy", "mapping", "metrics", "models", "data", "tuning", "api"},
    "studies": {"taxonomy", "mapping", "metrics", "models", "encoders", "data", "answers", "report"},
}
#: Who may import the doors: nobody but they themselves and whoever the table lets.
DOORS = {"api", "cli"}


def imported(file: Path) -> set[str]:
    """The first names below taxtune that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "taxtune":
            names = [alias.name for alias in node.names] if node.module == "taxtune" else [node.module.split(".")[1]]
            found |= set(names)
    return found


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_go_one_way(package: str) -> None:
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir()} | DOORS
    for file in (PACKAGE / package).rglob("*.py"):
        strange = (imported(file) & packages) - ALLOWED[package] - {package}
        assert not strange, f"{file.relative_to(PACKAGE)} imports {', '.join(sorted(strange))}"


def test_every_package_is_in_the_table_and_in_the_page() -> None:
    page = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    found = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert found - {"cli", "fieldguide"} == set(ALLOWED)
    assert not {name for name in found if f"taxtune/{name}/" not in page}
