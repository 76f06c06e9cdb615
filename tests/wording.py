"""Finds wording that taxtune's prose avoids, in code, prompts and documentation; `make lint` runs it beside ruff.

python -m tests.wording [FILE ...]
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
WHERE = (
    "taxtune/**/*.py",
    "tests/**/*.py",
    "benchmarks/**/*.py",
    "fieldguide/*.py",
    "docs/**/*.md",
    "*.md",
)
# What is not written -> what is.
AVOIDED = {
    r"\bin the place of\b": "instead of, for",
    r"\bmend(s|ed|ing)?\b": "fix, repair, correct",
    r"\bat hand\b": "available, here",
    r"\b(some|any)body\b": "a person, who, anyone",
    r"\bwhat is left\b": "the rest, the remaining ones",
    r"\bwhat (was|is) asked\b": "the question, the prompts",
    r"\bends the use of\b": "closes",
    r'"""Returns (what|how)\b': "name the value that is returned",
    r'"""What came of\b': "Evaluation of, Result of",
    r"\b(calls?|seconds?|questions?|answers?|tokens?|rows?|lines?|bytes|times?|once|ms|MB) an? "
    r"(image|row|node|template|iteration|call|answer)\b": "per image",
}

#: How the docstring of a function begins: "Returns", "Reads", "Raises".
VERB = re.compile(r"[A-Z][a-z]+s\b")


def avoided(path: Path) -> list[str]:
    """One line per occurrence: file, line, the words, and what to write."""
    hits = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.endswith("# wording: data"):
            continue
        for pattern, instead in AVOIDED.items():
            hits += [
                f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: write {instead}"
                for match in re.finditer(pattern, line, re.IGNORECASE)
            ]
    return hits


def unverbed(path: Path) -> list[str]:
    """One line per function of taxtune whose docstring does not begin with what it does."""
    hits = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        is_property = any("property" in ast.dump(one) for one in node.decorator_list)
        if text is None or is_property or VERB.match(text):
            continue
        where = f"{path.relative_to(ROOT)}:{node.lineno}"
        hits.append(f"{where}: {text.splitlines()[0]!r}: write Returns, Reads, Raises ...")
    return hits


def main() -> int:
    """Prints what was found; the exit code says whether there is any."""
    paths = [Path(name).resolve() for name in sys.argv[1:]]
    paths = paths or sorted(
        {path for pattern in WHERE for path in ROOT.glob(pattern)} - {Path(__file__)}
    )
    hits = [hit for path in paths for hit in avoided(path)]
    for path in paths:
        # The docstrings of commands are what --help prints, in the imperative.
        parts = path.relative_to(ROOT).parts
        if parts[0] == "taxtune" and path.suffix == ".py" and parts[1] not in ("cli", "studies"):
            hits += unverbed(path)
    print(*hits, sep="\n", end="\n" if hits else "")
    return 1 if hits else 0


if __name__ == "__main__":
    raise SystemExit(main())
