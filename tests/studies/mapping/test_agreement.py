from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from taxtune.studies.mapping.agreement import agreement_matrix


def test_by_hand() -> None:
    matrix = agreement_matrix({"a": [1, 2, 3, 4], "b": [1, 2, 0, 0], "c": [1, -1, 3, -1]})
    # a and b agree on 2 of 4; a and c on 2 of the 2 that c placed; b and c on 1 of these 2.
    assert matrix.tolist() == [[1, 0.5, 1], [0.5, 1, 0.5], [1, 0.5, 1]]


@given(arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(1, 12)), elements=st.integers(0, 3)))
def test_symmetric_with_ones_on_the_diagonal(nodes: np.ndarray) -> None:
    matrix = agreement_matrix({str(i): row for i, row in enumerate(nodes)})
    assert np.array_equal(matrix, matrix.T)
    assert (np.diag(matrix) == 1).all()
    assert ((matrix >= 0) & (matrix <= 1)).all()
    i, j = 0, len(nodes) - 1
    assert matrix[i, j] == pytest.approx(sum(a == b for a, b in zip(nodes[i], nodes[j], strict=True)) / nodes.shape[1])


def test_nothing_in_common_is_no_zero() -> None:
    assert np.isnan(agreement_matrix({"a": [1, -1], "b": [-1, 1]})[0, 1])


def test_other_answers_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="same answers"):
        agreement_matrix({"a": [1, 2], "b": [1]})
    assert agreement_matrix({}).shape == (0, 0)
