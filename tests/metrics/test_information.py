from __future__ import annotations

import math

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
from tests.trees import ancestor_sets, tree_and_nodes

masks = st.lists(st.booleans(), min_size=12, max_size=12)


def weights_by_hand(tree, own):
    """The weight of each node from its own occurrences, and at the end that of an answer off it."""
    below = np.zeros(len(tree))
    for node, ancestors in enumerate(ancestor_sets(tree)):
        below[list(ancestors)] += own[node]
    parents = tree.parents.tolist()
    weights = [0.0]
    for node in range(1, len(tree)):
        quotient = below[parents[node]] / below[node]
        weights.append(math.log2(quotient))
    # The first children down from the root that differ from their parent.
    level = {0}
    off_tree = 0.0
    while level and off_tree < 1e-9:
        level = {node for node, parent in enumerate(parents) if parent in level}
        off_tree = float(np.mean([weights[node] for node in level] or [1.0]))
    return [*weights, off_tree]


@given(tree_and_nodes(), masks, st.booleans(), st.data())
def test_all_scores_over_plain_sets(case, off, by_leaves, data):
    """Sets and the definitions: nothing of what the code does it with."""
    tree, (predicted, target) = case
    off = off[: len(target)]
    nodes = len(tree)
    is_leaf = np.isin(np.arange(nodes), tree.leaves)
    if by_leaves:
        own = is_leaf.astype(float)
        information = leaf_information(tree)
    else:
        counts = data.draw(st.lists(st.integers(0, 9), min_size=nodes, max_size=nodes))
        own = np.array(counts) + 2.0 * is_leaf
        information = frequency_information(tree, counts, smoothing=2.0)
    weights = weights_by_hand(tree, own)
    nowhere = len(tree)
    assert information.off_tree == pytest.approx(weights[nowhere], abs=1e-9)
    ancestors = ancestor_sets(tree)
    ihp, ihr, remaining, wrong = information_values(information, predicted, target, off_tree=off)

    def bits(nodes):
        return sum(weights[v] for v in nodes)

    def quotient(part, whole):
        if bits(whole) < 1e-9:
            return 1
        return bits(part) / bits(whole)

    for i, (p, t) in enumerate(zip(predicted, target, strict=True)):
        said = {0, nowhere} if off[i] else ancestors[p]
        true = ancestors[t]
        assert ihp[i] == pytest.approx(quotient(said & true, said))
        assert ihr[i] == pytest.approx(quotient(said & true, true))
        assert remaining[i] == pytest.approx(bits(true - said), abs=1e-9)
        assert wrong[i] == pytest.approx(bits(said - true), abs=1e-9)


def test_worked_out_by_hand(birds):
    # Three leaves: two thrushes and a mallard. life and Aves tell nothing.
    information = leaf_information(birds)
    order = math.log2(3 / 2)
    duck = math.log2(3)
    contents = [0, 0, order, order, duck, duck, duck, duck, duck]
    assert information.content.tolist() == pytest.approx(contents)
    assert information.weight.tolist() == pytest.approx([0, 0, order, 0, 1, 1, duck, 0, 0])
    # Turdus merula is the truth: itself, its sister, the family, the duck, "bird", nothing, a
    # bicycle.
    said = [4, 5, 3, 8, 1, 0, 0]
    off = [False] * 6 + [True]
    ihp, ihr, remaining, wrong = information_values(information, said, [4] * 7, off_tree=off)
    # life has one child: the orders stand in for the children of the root.
    bicycle = (order + duck) / 2
    assert ihp.tolist() == pytest.approx([1, order / duck, 1, 0, 1, 1, 0])
    assert ihr.tolist() == pytest.approx([1, order / duck, order / duck, 0, 0, 0, 0])
    assert remaining.tolist() == pytest.approx([0, 1, 1, duck, duck, duck, duck])
    assert wrong.tolist() == pytest.approx([0, 1, 0, duck, 0, 0, bicycle])
    # hP knows no difference of that size: 4/5 for the sister, 2/5 for the duck, 1 for the rest, 1/2
    # off the tree.
    hp, _ = precision_recall(birds, said, [4] * 7, off_tree=off)
    assert hp.tolist() == pytest.approx([1, 0.8, 1, 0.4, 1, 1, 0.5])


def test_what_an_answer_off_the_tree_weighs():
    branching = Taxonomy(["root", "a", "b", "b1", "b2", "b3"], [-1, 0, 0, 2, 2, 2])
    information = leaf_information(branching)
    assert information.off_tree == pytest.approx((2 + math.log2(4 / 3)) / 2)
    assert off_tree_weight(branching, [0, 2, 4, 0, 0, 0]) == 3
    below = Taxonomy(["root", "only", "a", "b"], [-1, 0, 1, 1])
    assert leaf_information(below).off_tree == 1  # two alike below the only child
    chain = Taxonomy(["root", "a", "b"], [-1, 0, 1])
    alone = Taxonomy(["root"], [-1])
    assert leaf_information(chain).off_tree == leaf_information(alone).off_tree == 1


# -- files of frequencies --------------------------------------------------------------------------


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
def test_frequencies_that_cannot_be_used(tmp_path, birds, text, message):
    path = tmp_path / "counts.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as error:
        make_information(birds, path)
    assert str(path) in str(error.value)


# -- against the evaluation of the protein function challenges -------------------------------------


def test_parity_with_cafaeval(tmp_path, birds):
    cafaeval = pytest.importorskip("cafaeval.evaluation")
    rng = np.random.default_rng(4)
    # All answers say something: an empty one is no row of theirs.
    target, predicted = rng.integers(2, len(birds), (2, 50))
    information = frequency_information(birds, rng.integers(1, 9, len(birds)))
    weights = information.weight.tolist()
    terms = []
    for v, label in enumerate(birds.labels):
        terms.append(f"[Term]\nid: T:{v}\nname: {label}\nnamespace: tree\n")
        if v:
            terms[v] += f"is_a: T:{birds.parents[v]}\n"
    answers = tmp_path / "answers"
    answers.mkdir()

    def write(name, lines, between=""):
        (tmp_path / name).write_text(between.join(lines))
        return str(tmp_path / name)

    write("answers/a.tsv", (f"x{i}\tT:{p}\t0.5\n" for i, p in enumerate(predicted)))
    graph = write("tree.obo", terms, "\n")
    truth = write("truth.tsv", (f"x{i}\tT:{t}\n" for i, t in enumerate(target)))
    accretion = write("ia.tsv", (f"T:{v}\t{weight!r}\n" for v, weight in enumerate(weights)))
    found, _ = cafaeval.cafa_eval(graph, str(answers), truth, ia=accretion, th_step=0.5)
    theirs = found.iloc[0]
    ours = information_scores(information, predicted, target)
    assert ours.ihp == pytest.approx(theirs["pr_w"])
    assert ours.ihr == pytest.approx(theirs["rc_w"])
    assert ours.ihf == pytest.approx(theirs["f_w"])  # of the means, as ours
    assert ours.remaining_uncertainty == pytest.approx(theirs["ru_w"])
    assert ours.misinformation == pytest.approx(theirs["mi_w"])
