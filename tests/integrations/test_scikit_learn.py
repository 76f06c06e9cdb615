"""`taxtune.Calibrated` in scikit-learn's conventions, on handwritten digits of which only six pixels are seen."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from taxtune import Calibrated, Taxonomy, TaxtuneError
from taxtune.metrics.hierarchical import score

TREE = Taxonomy.from_dict(
    {
        "digit": {
            "round": {"closed": ["0", "6", "8"], "open": ["3", "5", "9", "2"]},
            "straight": ["1", "4", "7"],
        }
    }
)
X, Y = load_digits(return_X_y=True)
X = X[:, [10, 20, 21, 28, 36, 43, 53, 58]]
Y = Y.astype(str)
#: The two halves of the examples.
X_LEFT, X_RIGHT = X[::2], X[1::2]
Y_LEFT, Y_RIGHT = Y[::2], Y[1::2]
NODES = {"/".join(TREE.path(node)): node for node in range(len(TREE))}


def regression():
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


def scores(paths, labels):
    nodes = [NODES[path] for path in paths]
    targets = [TREE.resolve(label) for label in labels]
    return score(TREE, nodes, targets)


def test_it_is_right_where_the_classifier_is_not_and_stays_specific():
    found = Calibrated(regression(), TREE, risk=0.05, confidence=0.9).fit(X_LEFT, Y_LEFT)
    leaves = map(TREE.resolve, found.clf_.predict(X_RIGHT))
    argmax = scores(["/".join(TREE.path(leaf)) for leaf in leaves], Y_RIGHT)
    safe = scores(found.predict(X_RIGHT), Y_RIGHT)
    assert argmax.hp < 0.92
    assert safe.hp >= 0.945
    assert safe.hr > 0.6
    assert found.score(X_RIGHT, Y_RIGHT) == pytest.approx(safe.hr)


def test_groups_are_in_one_half_and_count_once():
    class Remembers(LogisticRegression):
        def fit(self, rows, labels):
            self.seen_ = rows[:, 0]
            return super().fit(rows, labels)

    numbers = np.arange(len(X))
    groups = numbers // 3
    marked = np.column_stack([numbers, X])
    made = Calibrated(Remembers(max_iter=500), TREE, risk=0.3, confidence=0.9)
    found = made.fit(marked, Y, groups=groups)
    fitted = np.isin(numbers, found.clf_.seen_)
    assert 0.4 < fitted.mean() < 0.6
    assert not set(groups[fitted]) & set(groups[~fitted])
    assert found.calibration_.images == (~fitted).sum()
    assert found.calibration_.units == len(set(groups[~fitted]))
    assert found.calibration_.unit == "group"


def test_a_fitted_classifier_is_used_as_it_is():
    fitted = regression().fit(X_LEFT, Y_LEFT)
    found = Calibrated(fitted, TREE, risk=0.1).fit(X_RIGHT, Y_RIGHT)
    assert found.clf_ is fitted
    assert found.calibration_.images == len(X_RIGHT)
    other = Calibrated(regression(), TREE, risk=0.1).fit(X, Y)
    assert other.clf_ is not other.clf
    assert other.calibration_.images == (len(X) + 1) // 2
    wrapped = Calibrated(FrozenEstimator(fitted), TREE, risk=0.1)
    frozen = clone(wrapped).fit(X_RIGHT, Y_RIGHT)
    assert frozen.calibration_ == found.calibration_


def test_shares_by_node_and_paths_belong_to_the_classes():
    found = Calibrated(regression(), TREE, risk=0.1, by=1).fit(X, Y)
    shares = found.predict_proba(X[:50])
    assert list(found.classes_) == list(NODES)
    assert shares.shape == (50, len(TREE))
    np.testing.assert_allclose(shares[:, 0], 1)
    of_leaves = shares[:, TREE.leaves].sum(axis=1)
    of_children = shares[:, TREE.children(1)].sum(axis=1)
    np.testing.assert_allclose(of_leaves, 1)
    np.testing.assert_allclose(shares[:, 1], of_children)
    predicted = found.predict(X[:50])
    assert predicted.dtype == object
    assert set(predicted) <= set(found.classes_)


def test_conventions():
    made = Calibrated(regression(), TREE, risk=0.1, confidence=0.8)
    assert is_classifier(made)
    assert clone(made).get_params()["confidence"] == 0.8
    assert made.set_params(risk=0.2, clf__logisticregression__C=3).clf[-1].C == 3
    with pytest.raises(NotFittedError):
        made.predict(X)
    step = Calibrated(LogisticRegression(max_iter=500), TREE, risk=0.1)
    last = make_pipeline(StandardScaler(), step).fit(X, Y)
    assert scores(last.predict(X), Y).hp > 0.89
    copied = pickle.loads(pickle.dumps(last))
    np.testing.assert_array_equal(copied.predict(X), last.predict(X))
    crossed = cross_val_predict(made, X, Y, cv=3)
    assert scores(crossed, Y).hp > 0.79
    search = GridSearchCV(made, {"risk": [0.05, 0.3]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"risk": 0.3}  # the score is hR, and more risk is more specific


def test_labels_may_be_numbers_and_classes_rare():
    few = Y != "7"
    few[np.argmin(few)] = True
    digits = [str(digit) for digit in range(10)]
    tree = {"digit": {digit: {} for digit in digits}}
    found = Calibrated(regression(), tree, risk=0.2).fit(X[few], Y[few].astype(int))
    paths = [f"digit/{digit}" for digit in digits]
    assert set(found.predict(X)) <= {"digit", *paths}


@pytest.mark.parametrize(
    ("clf", "labels", "said"),
    [
        (LinearSVC(), Y, "The classifier has no predict_proba. (got 'LinearSVC') Wrap it in"),
        (regression(), np.where(Y == "3", "three", Y), "1 labels are not on the tree: "),
        (regression(), np.where(np.arange(len(Y)) < 9, Y, "x"), "'x' is not on the taxonomy"),
    ],
)
def test_what_cannot_be_used_is_told(clf, labels, said):
    with pytest.raises(TaxtuneError) as error:
        Calibrated(clf, TREE).fit(X, labels)
    assert said in str(error.value)
    with pytest.raises(TaxtuneError, match="cannot show that the risk is kept"):
        Calibrated(regression(), TREE, risk=0.001).fit(X[:60], Y[:60])
