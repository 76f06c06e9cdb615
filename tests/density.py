"""How packed code is: tokens, and tokens a statement, without comments and docstrings.

A token is what Python's tokenizer gives, a string one, without line ends and indentation. A statement ends with a
logical line, so that its tokens do not depend on how lines are broken.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Density:
    """The tokens of each statement, and the lines of each function.

    Attributes:
        statements: Tokens of each statement.
        functions: Lines of each function, by its file and name.
        lines: Lines that hold a token.
    """

    statements: tuple[int, ...]
    functions: dict[str, int]
    lines: int

    @property
    def tokens(self) -> int:
        """The tokens of all statements."""
        return sum(self.statements)

    @property
    def mean(self) -> float:
        """Tokens a statement, on average."""
        return self.tokens / max(1, len(self.statements))

    @property
    def most(self) -> int:
        """Tokens that nine statements in ten have at most."""
        return sorted(self.statements)[len(self.statements) * 9 // 10]


def density(file: Path) -> Density:
    """Measures one file of Python."""
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    skipped = {line for lines in _docstrings(tree) for line in lines}
    statements: list[int] = []
    lines: set[int] = set()
    length = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            if length:
                statements.append(length)
            length = 0
        elif token.type not in _LAYOUT and token.start[0] not in skipped:
            length += 1
            lines.update(range(token.start[0], token.end[0] + 1))
    functions = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            functions[f"{file.name}:{node.lineno} {node.name}"] = node.end_lineno - node.lineno + 1
    return Density(statements=tuple(statements), functions=functions, lines=len(lines))


def joined(found: Iterable[Density]) -> Density:
    """Joins what was measured of several files."""
    parts = list(found)
    statements = tuple(length for part in parts for length in part.statements)
    functions = {name: lines for part in parts for name, lines in part.functions.items()}
    return Density(
        statements=statements, functions=functions, lines=sum(part.lines for part in parts)
    )


def _docstrings(tree: ast.AST) -> Iterator[range]:
    """Yields the lines of each docstring."""
    for node in ast.walk(tree):
        if not isinstance(node, _DOCUMENTED) or not node.body:
            continue
        first = node.body[0]
        if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
            continue
        if isinstance(first.value.value, str) and first.end_lineno is not None:
            yield range(first.lineno, first.end_lineno + 1)
