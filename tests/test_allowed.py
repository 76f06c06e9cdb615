"""What may occur where and when: the checklist, and what it does to placements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import DataError
from taxtune.metrics import precision_recall
from taxtune.policies import Checklist, Vote, read_checklist, spread
from taxtune.taxonomy import Taxonomy, restrict
from tests.trees import trees

BIRDS = Taxonomy.from_paths(["bird/duck/mallard", "bird/duck/teal", "bird/gull/herring gull", "bird/gull/kittiwake"])
CHECKLIST = """\
node,Place,From month,to_month
mallard,,,
teal, Marsh ,10,03
gull,coast,,
herring gull,7,6.0,
"""


def read(folder: Path, text: str) -> Checklist:
    (folder / "list.csv").write_text(text)
    return read_checklist(folder / "list.csv", BIRDS)


def can_be(checklist: Checklist, **context: object) -> set[str]:
    ((_, lift),) = checklist.groups([context])  # type: ignore[list-item]
    return {BIRDS.labels[v] for v in np.flatnonzero(lift == np.arange(len(BIRDS)))}


@pytest.mark.parametrize(
    ("context", "leaves"),
    [
        ({"place": "marsh", "month": 1}, {"mallard", "teal"}),
        ({"place": "MARSH ", "month": "12.0"}, {"mallard", "teal"}),
        ({"place": "marsh", "month": 7}, {"mallard"}),
        ({"place": "marsh", "month": None}, {"mallard", "teal"}),
        ({"place": "coast", "month": "05"}, {"mallard", "herring gull", "kittiwake"}),
        ({"place": 7.0, "month": 6.0}, {"mallard", "herring gull"}),
        ({"place": "7", "month": 5}, {"mallard"}),
        ({"place": " ", "month": 11}, {"mallard", "teal", "herring gull", "kittiwake"}),
        ({"month": 4}, {"mallard", "herring gull", "kittiwake"}),
        ({"place": "the moon", "month": 4}, {"mallard", "teal", "herring gull", "kittiwake"}),
    ],
)
def test_what_can_be_where_and_when(tmp_path: Path, context: dict[str, object], leaves: set[str]) -> None:
    found = can_be(read(tmp_path, CHECKLIST), **context)
    assert found == leaves | {BIRDS.labels[BIRDS.parents[BIRDS.resolve(leaf)]] for leaf in leaves} | {"bird"}


def test_a_list_of_nodes_alone_goes_by_nothing(tmp_path: Path) -> None:
    checklist = read(tmp_path, "node\nduck\n")
    assert checklist.variables == ()
    assert can_be(checklist, place="marsh", month="no month") == {"bird", "duck", "mallard", "teal"}


def test_a_month_that_is_none_and_places_that_no_row_names_are_told(tmp_path: Path) -> None:
    checklist = read(tmp_path, CHECKLIST)
    with pytest.raises(DataError, match=r"no month.*got 13.*1 to 12"):
        can_be(checklist, month=13)
    teal = BIRDS.resolve("teal")
    contexts = [{"place": "marsh", "month": 7}] * 2 + [{"place": "Marsch", "month": 7}, {"place": "marsh", "month": 1}]
    assert checklist.notes([teal] * 4, contexts, "tuning images") == [
        "the checklist lacks the truth of 2 of 4 tuning images: teal, place marsh, month 7 (2 images)",
        "the checklist does not name the place, and allows all, of 1 of 4 tuning images: place Marsch (1 image)",
    ]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("node,from month\nteal,13\nmallard,0\nduck,3\n", ("2 of 3 rows", "row 2: .*'13'", "row 3: .*'0'")),
        ("node,to month\nteal,Smarch\n", ("row 2: This is no month", "1 to 12")),
        ("node,place\nteel,\n,marsh\n", ("2 of 2 rows", "row 2: node.*teal", "row 3: node is missing")),
        ("name,place\nteal,marsh\n", ("no column node", "from month and to month")),
        ("node,place\n", ("header but no rows",)),
    ],
)
def test_a_bad_checklist_is_refused_with_all_its_rows(tmp_path: Path, text: str, problems: tuple[str, ...]) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    for problem in problems:
        assert caught.match(problem)


def test_rows_outside_of_the_part_are_left_out_and_a_checklist_of_nothing_else_is_refused(tmp_path: Path) -> None:
    part = restrict(BIRDS, "gull")
    (tmp_path / "list.csv").write_text("node\nkittiwake\nteal\n")
    assert len(read_checklist(tmp_path / "list.csv", part.tree, part=part).rows) == 1
    (tmp_path / "list.csv").write_text("node\nteal\n")
    with pytest.raises(DataError, match="outside of the part"):
        read_checklist(tmp_path / "list.csv", part.tree, part=part)


@st.composite
def checklists(draw: st.DrawFn) -> tuple[Taxonomy, Checklist, dict[str, object], np.ndarray]:
    """A tree, a checklist on it, where and when an image was taken, and what can be there."""
    tree, month = draw(trees()), st.integers(1, 12)
    node, place = st.integers(0, len(tree) - 1), st.sampled_from(["", "a", "b"])
    rows = draw(st.lists(st.tuples(node, place, month, month), min_size=1, max_size=5))
    context = {"place": draw(st.sampled_from([None, "a", "b", "c"])), "month": draw(st.none() | month)}
    checklist = Checklist(tree, rows)
    ((_, lift),) = checklist.groups([context])  # type: ignore[list-item]
    return tree, checklist, context, lift


@given(checklists())
def test_a_node_goes_to_the_deepest_at_or_above_it_that_can_be(drawn: tuple) -> None:
    tree, checklist, context, lift = drawn
    places = {place for _, place, _, _ in checklist.rows} - {""}
    known = context["place"] if places else None

    def fits(row: tuple[int, str, int, int]) -> bool:
        _, place, first, last = row
        months = {first} | set(range(first, last + 1) if first <= last else [*range(first, 13), *range(1, last + 1)])
        return (known is None or place in ("", known)) and (context["month"] is None or context["month"] in months)

    allowed = [row[0] for row in checklist.rows if fits(row)]
    for v in range(len(tree)):
        can = [
            u
            for u in tree.ancestors(v).tolist()
            if u == 0
            or (known is not None and known not in places)
            or any(tree.is_ancestor(u, w) or tree.is_ancestor(w, u) for w in allowed)
        ]
        assert lift[v] == can[-1]


@given(checklists(), st.data())
def test_a_single_answer_never_loses_hp_nor_hr_where_the_truth_can_be(drawn: tuple, data: st.DataObject) -> None:
    tree, _, _, lift = drawn
    node = st.integers(0, len(tree) - 1)
    nodes, truth = (np.array(data.draw(st.lists(node, min_size=9, max_size=9))) for _ in range(2))
    (hp, hr), (masked_hp, masked_hr) = precision_recall(tree, nodes, truth), precision_recall(tree, lift[nodes], truth)
    assert (masked_hp >= hp).all()
    assert (masked_hr <= hr).all()
    assert (masked_hr == hr)[lift[truth] == truth].all()


@given(checklists(), st.floats(0.51, 1.0), st.data())
def test_a_vote_of_what_can_be_is_the_vote_moved_to_what_can_be(
    drawn: tuple, share: float, data: st.DataObject
) -> None:
    tree, _, _, lift = drawn
    answers = st.lists(st.integers(-1, len(tree) - 1), min_size=7, max_size=7)
    nodes = np.array(data.draw(st.lists(answers, min_size=1, max_size=4)))
    vote = Vote(7, share)
    before, after = (vote.place(tree, each)[0] for each in (nodes, np.where(nodes >= 0, lift[nodes], -1)))
    assert (after == lift[before]).all()


@given(checklists(), st.data())
def test_probability_is_kept_and_only_on_what_can_be(drawn: tuple, data: st.DataObject) -> None:
    tree, _, _, lift = drawn
    nodes = np.array([-1, *range(len(tree))])
    weights = np.array([[data.draw(st.sampled_from([0.0, 0.25, 1.0, 3.0])) for _ in nodes]])
    ends = np.where(nodes >= 0, lift[nodes], -1)
    moved = spread(tree, ends, weights, giving=ends != nodes)
    assert moved.sum() == pytest.approx(weights.sum())
    assert moved[0, 0] == weights[0, 0]
    for v in np.flatnonzero(lift == np.arange(len(tree))).tolist():
        inside = [i + 1 for i in tree.descendants(v).tolist()]
        held = moved[0, [i for i, end in enumerate(ends) if end >= 0 and tree.is_ancestor(v, end)]].sum()
        assert held >= weights[0, inside].sum() - 1e-9  # what can be never loses
