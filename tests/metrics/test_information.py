from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.answers.targets import make_information
from taxtune.errors import DataError
from taxtune.metrics import precision_recall
from taxtune.metrics.information import (
    frequency_information,
    information_scores,
    information_values,
    leaf_information,
    off_tree_weight,
)
from taxtune.taxonomy import Taxonomy
from tests.trees import tree_and_nodes

Case = tuple[Taxonomy, list[list[int]]]
masks = st.lists(st.booleans(), min_size=12, max_size=12)


@given(tree_and_nodes(), masks, st.data())
def test_all_scores_over_plain_sets(case: Case, off: list[bool], data: st.DataObject) -> None:
    """Sets, dictionaries and the definitions: nothing of what the code does it with."""
    tree, (predicted, target) = case
    off = off[: len(target)]
    counts = data.draw(st.lists(st.integers(0, 9), min_size=len(tree), max_size=len(tree)))
    by_leaves = data.draw(st.booleans())
    ancestors = {v: set(tree.ancestors(v).tolist()) for v in range(len(tree))}
    leaves = {
        v for v in ancestors if not any(v in ancestors[other] for other in ancestors if other != v)
    }
    own = {
        v: float(v in leaves) if by_leaves else counts[v] + 2.0 * (v in leaves) for v in ancestors
    }
    below = {v: sum(own[other] for other in ancestors if v in ancestors[other]) for v in ancestors}
    parent = {
        v: max(ancestors[v] - {v}, key=lambda a: len(ancestors[a])) for v in ancestors if v != 0
    }
    content = {v: -math.log2(below[v] / below[0]) for v in ancestors}
    weight = {v: content[v] - content[parent[v]] for v in parent} | {0: 0.0}
    # The first children down from the root that differ from their parent, by hand.
    level = [v for v in parent if parent[v] == 0]
    while level and max(weight[v] for v in level) < 1e-9:
        level = [v for v in parent if parent[v] in level]
    nowhere = len(tree)
    weight[nowhere] = sum(weight[v] for v in level) / len(level) if level else 1.0

    if by_leaves:
        information = leaf_information(tree)
    else:
        if not any(counts):
            counts[0], own[0] = 1, own[0] + 1
            # All occurrences are the root's: everything below it weighs more by what the root took.
            below[0] += 1
            weight |= {v: math.log2(below[parent[v]] / below[v]) for v in parent}
            level = [v for v in parent if parent[v] == 0]
            weight[nowhere] = sum(weight[v] for v in level) / len(level) if level else 1.0
        information = frequency_information(tree, counts, smoothing=2.0)
    assert information.off_tree == pytest.approx(weight[nowhere], abs=1e-9)
    ihp, ihr, remaining, wrong = information_values(information, predicted, target, off_tree=off)
    for i, (p, t) in enumerate(zip(predicted, target, strict=True)):
        said = {0, nowhere} if off[i] else ancestors[p]
        true = ancestors[t]

        def bits(nodes: set[int]) -> float:
            return sum(weight[v] for v in nodes)

        assert ihp[i] == pytest.approx(bits(said & true) / bits(said) if bits(said) > 1e-9 else 1)
        assert ihr[i] == pytest.approx(bits(said & true) / bits(true) if bits(true) > 1e-9 else 1)
        assert remaining[i] == pytest.approx(bits(true - said), abs=1e-9)
        assert wrong[i] == pytest.approx(bits(said - true), abs=1e-9)


def test_worked_out_by_hand(birds: Taxonomy) -> None:
    # Three leaves: two thrushes and a mallard. life and Aves tell nothing.
    information = leaf_information(birds)
    order, duck = math.log2(3 / 2), math.log2(3)
    assert information.content.tolist() == pytest.approx(
        [0, 0, order, order, duck, duck, duck, duck, duck]
    )
    assert information.weight.tolist() == pytest.approx([0, 0, order, 0, 1, 1, duck, 0, 0])
    # Turdus merula is the truth: itself, its sister, the family, the duck, "bird", nothing, a bicycle.
    said, off = [4, 5, 3, 8, 1, 0, 0], [False] * 6 + [True]
    ihp, ihr, remaining, wrong = information_values(information, said, [4] * 7, off_tree=off)
    aside = (
        order + duck
    ) / 2  # life has one child: the orders stand in for the children of the root
    assert ihp.tolist() == pytest.approx([1, order / duck, 1, 0, 1, 1, 0])
    assert ihr.tolist() == pytest.approx([1, order / duck, order / duck, 0, 0, 0, 0])
    assert remaining.tolist() == pytest.approx([0, 1, 1, duck, duck, duck, duck])
    assert wrong.tolist() == pytest.approx([0, 1, 0, duck, 0, 0, aside])
    # hP knows no difference of that size: 4/5 for the sister, 2/5 for the duck, 1 for the rest, 1/2 off the tree.
    hp, _ = precision_recall(birds, said, [4] * 7, off_tree=off)
    assert hp.tolist() == pytest.approx([1, 0.8, 1, 0.4, 1, 1, 0.5])


def test_what_an_answer_off_the_tree_weighs() -> None:
    branching = Taxonomy(["root", "a", "b", "b1", "b2", "b3"], [-1, 0, 0, 2, 2, 2])
    information = leaf_information(branching)
    assert information.off_tree == pytest.approx((2 + math.log2(4 / 3)) / 2)
    assert off_tree_weight(branching, [0, 2, 4, 0, 0, 0]) == 3
    below = Taxonomy(["root", "only", "a", "b"], [-1, 0, 1, 1])
    assert leaf_information(below).off_tree == 1  # two alike below the only child
    for chain in (Taxonomy(["root"], [-1]), Taxonomy(["root", "a", "b"], [-1, 0, 1])):
        assert leaf_information(chain).off_tree == 1


# -- files of frequencies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node,number\nAves,1\n", "needs the columns node and count"),
        (
            "node,count\nAvis,1\n",
            r"row 2: node: 'Avis' is not on the taxonomy. Did you mean 'Aves'",
        ),
        ("node,count\n,1\n", "row 2: node is missing"),
        ("node,count\nAves,many\n", "row 2: count must be a number of at least 0, not 'many'"),
        ("node,count\nAves,\n", "row 2: count must be a number of at least 0, not ''"),
        ("node,count\nAves,-1\n", "row 2: count must be a number of at least 0, not '-1'"),
        ("node,count\nAves,nan\n", "row 2: count must be a number of at least 0, not 'nan'"),
        (
            "node,count\nAves,1\nlife/Aves,2\n",
            r"1 of 2 rows cannot be used:\s+row 3: 'life/Aves' already has a count",
        ),
        ("node,count\nAves,0\n", "No node has a count above 0"),
        ("node,count\nAves,1\n", "never occur"),
        ("", "frequencies file is empty"),
    ],
)
def test_frequencies_that_cannot_be_used(
    tmp_path: Path, birds: Taxonomy, text: str, message: str
) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as error:
        make_information(birds, path)
    assert str(path) in str(error.value)


# -- against the evaluation of the protein function challenges ---------------------------------------------------------


def test_parity_with_cafaeval(tmp_path: Path, birds: Taxonomy) -> None:
    cafaeval = pytest.importorskip("cafaeval.evaluation")
    rng = np.random.default_rng(4)
    target = rng.integers(2, len(birds), 50)
    predicted = rng.integers(
        2, len(birds), 50
    )  # all say something: an empty answer is no row of theirs
    information = frequency_information(birds, rng.integers(1, 9, len(birds)))
    terms = [
        f"[Term]\nid: T:{v}\nname: {birds.labels[v]}\nnamespace: tree\n"
        + (f"is_a: T:{birds.parents[v]}\n" if v else "")
        for v in range(len(birds))
    ]
    (tmp_path / "tree.obo").write_text("\n".join(terms))
    (tmp_path / "truth.tsv").write_text("".join(f"x{i}\tT:{t}\n" for i, t in enumerate(target)))
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "a.tsv").write_text(
        "".join(f"x{i}\tT:{p}\t0.5\n" for i, p in enumerate(predicted))
    )
    accretion = "".join(
        f"T:{v}\t{float(weight)!r}\n" for v, weight in enumerate(information.weight)
    )
    (tmp_path / "ia.tsv").write_text(accretion)
    found, _ = cafaeval.cafa_eval(
        str(tmp_path / "tree.obo"),
        str(tmp_path / "answers"),
        str(tmp_path / "truth.tsv"),
        ia=str(tmp_path / "ia.tsv"),
        th_step=0.5,
    )
    theirs = found.iloc[0]
    ours = information_scores(information, predicted, target)
    assert ours.ihp == pytest.approx(theirs["pr_w"])
    assert ours.ihr == pytest.approx(theirs["rc_w"])
    assert ours.ihf == pytest.approx(theirs["f_w"])  # of the means, as ours
    assert ours.remaining_uncertainty == pytest.approx(theirs["ru_w"])
    assert ours.misinformation == pytest.approx(theirs["mi_w"])
