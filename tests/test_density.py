"""Code gets no more packed: what it has today is the most that it may have, and the figures only go down."""

from __future__ import annotations

import pytest

from tests.density import Density, density, joined
from tests.size import long_functions, measured, packed

#: Tokens, tokens a statement, those that nine statements in ten have at most, packed modules, long functions.
CEILINGS = {"taxtune": (378_300, 10.95, 20, 0, 0), "tests": (369_900, 12.05, 21, 61, 0)}


@pytest.mark.parametrize("folder", CEILINGS)
def test_code_gets_no_more_packed(folder):
    modules = measured(folder)
    whole = joined(modules.values())
    found = (
        whole.tokens,
        whole.mean,
        whole.most,
        len(packed(modules)),
        len(long_functions(modules)),
    )
    most = CEILINGS[folder]
    assert all(one <= ceiling for one, ceiling in zip(found, most, strict=True)), (found, most)


def test_tokens_of_statements_are_counted_without_comments_and_docstrings(tmp_path):
    file = tmp_path / "sample.py"
    file.write_text(
        """'''A module.'''


def double(
    x,  # a number
):
    '''Doubles it.'''
    y = x + (
        x
    )
    return y
"""
    )
    found = density(file)
    assert found.statements == (7, 7, 2)
    assert (found.tokens, found.lines) == (16, 7)
    assert list(found.functions.values()) == [8]


def test_breaking_lines_changes_no_density(tmp_path):
    long, broken = tmp_path / "long.py", tmp_path / "broken.py"
    long.write_text("x = call(1, 2)\n")
    broken.write_text("x = call(\n    1,\n    2\n)\n")
    assert density(long).statements == density(broken).statements == (8,)
    assert joined([density(long), density(broken)]) == Density(
        statements=(8, 8), functions={}, lines=5
    )
