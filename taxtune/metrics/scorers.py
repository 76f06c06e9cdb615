"""Hierarchical precision, recall and F1 in scikit-learn's conventions, for any classifier over a taxonomy's labels.

    from sklearn.metrics import make_scorer
    scorer = make_scorer(hierarchical_f1_score, taxonomy=tree)
    cross_val_score(classifier, features, labels, scoring=scorer)

The scores are those of `taxtune.score`: means over examples of what prediction and truth share of their paths (paper 1,
eq. 2; hiclass calls it the macro average), and the harmonic mean of the two means (eq. 3). Exact accuracy is
`sklearn.metrics.accuracy_score`.
"""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.errors import TaxonomyError
from taxtune.metrics.hierarchical import harmonic_mean, precision_recall
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["hierarchical_f1_score", "hierarchical_precision_score", "hierarchical_recall_score"]

Labels = Iterable[int | str | Sequence[str]]


def hierarchical_precision_score(
    y_true: Labels, y_pred: Labels, *, taxonomy: Taxonomy, sample_weight: ArrayLike | None = None
) -> float:
    """Returns the mean share of a prediction's path that the truth shares, in (0, 1]; paths include the root.

    Args:
        y_true: The true nodes, n ≥ 1 of them: each a label, an alias, a path as text ("life/Aves") or as a sequence of
            labels, or a node number. Rows of a 2-D array are paths, "" filling up the short ones, as hiclass has them.
        y_pred: The predicted nodes, as many.
        taxonomy: The tree.
        sample_weight: What each example counts, shape (n,), finite, at least 0 and not all 0; 1 each where left out.

    Raises:
        TaxonomyError: If a label or number is not on the tree; the message says where it stands and what may be meant.
        ValueError: If there are no examples, the lengths differ, or weights are out of range.
    """
    return _means(y_true, y_pred, taxonomy, sample_weight)[0]


def hierarchical_recall_score(
    y_true: Labels, y_pred: Labels, *, taxonomy: Taxonomy, sample_weight: ArrayLike | None = None
) -> float:
    """Returns the mean share of the truth's path that the prediction shares, in (0, 1]; paths include the root.

    Arguments and errors are those of `hierarchical_precision_score`.
    """
    return _means(y_true, y_pred, taxonomy, sample_weight)[1]


def hierarchical_f1_score(
    y_true: Labels, y_pred: Labels, *, taxonomy: Taxonomy, sample_weight: ArrayLike | None = None
) -> float:
    """Returns the harmonic mean of hierarchical precision and recall, in (0, 1]: of the means, not a mean of F values.

    Arguments and errors are those of `hierarchical_precision_score`.
    """
    return harmonic_mean(*_means(y_true, y_pred, taxonomy, sample_weight))


def _means(y_true: Labels, y_pred: Labels, taxonomy: Taxonomy, sample_weight: ArrayLike | None) -> tuple[float, float]:
    target, predicted = _nodes(taxonomy, y_true, "y_true"), _nodes(taxonomy, y_pred, "y_pred")
    n = len(target)
    if len(predicted) != n:
        raise ValueError(f"y_true has {n} labels, y_pred {len(predicted)}; the numbers must be equal")
    if n == 0:
        raise ValueError("there are no examples to score")
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}; there are {n} examples")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("sample_weight must be finite, not negative and not all 0")
    hp, hr = precision_recall(taxonomy, predicted, target)
    return float(np.average(hp, weights=weights)), float(np.average(hr, weights=weights))


def _nodes(taxonomy: Taxonomy, labels: Labels, name: str) -> NDArray[np.int64]:
    """Returns the node of each label."""
    if isinstance(labels, str):
        raise ValueError(f"{name} must be a list of labels, not one text")
    known: dict[Hashable, int] = {}
    nodes = []
    for place, label in enumerate(labels.tolist() if isinstance(labels, np.ndarray) else labels):
        key = label if isinstance(label, Hashable) else tuple(label)
        if key not in known:
            try:
                known[key] = _node(taxonomy, key)
            except TaxonomyError as error:
                raise TaxonomyError(
                    f"{name}[{place}]: {error.message}", file=error.file, value=error.value, remedy=error.remedy
                ) from None
        nodes.append(known[key])
    return np.array(nodes, dtype=np.int64)


def _node(taxonomy: Taxonomy, label: Any) -> int:
    if isinstance(label, str):
        return taxonomy.resolve(label)
    if isinstance(label, tuple) and all(isinstance(part, str) for part in label):
        return taxonomy.resolve([part for part in label if part])
    # True is a number to Python, but no node.
    if isinstance(label, numbers.Integral) and label is not True and label is not False:
        number = int(label)
        if 0 <= number < len(taxonomy):
            return number
    raise TaxonomyError(
        "This is not a label, a path or the number of a node.",
        value=label,
        remedy=f"Node numbers are 0 to {len(taxonomy) - 1:,}.",
    )
