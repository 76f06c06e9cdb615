"""What is drawn of a tree, and where."""

from __future__ import annotations

import random

import pytest

from taxtune.report.clades import answered, grow
from taxtune.report.icicle import HIGHEST, LINE, LOWEST, Box, Icicle, lay_out
from tests.report import samples


def drawn(truths: list[str], **answers: list[str]) -> Icicle:
    root = grow(answered(samples.answered(truths, **answers).heldout))
    assert root is not None
    return lay_out(root)


def made_up(leaves: int, images: int, depth: int) -> Icicle:
    """Images of a random tree with chains, answered to a random depth, now and then elsewhere."""
    rng = random.Random(leaves)
    paths = ["/".join(["root", *(str(rng.randrange(1, 4) if rng.random() < 0.6 else 1) for _ in range(depth))])]
    paths += [
        "/".join(["root", *(str(rng.randrange(1, 6)) for _ in range(rng.randrange(1, depth)))]) for _ in range(leaves)
    ]
    truths = [rng.choice(paths) for _ in range(images)]
    said = [
        "/".join((truth if rng.random() < 0.8 else rng.choice(paths)).split("/")[: rng.randrange(1, depth + 2)])
        for truth in truths
    ]
    return drawn(truths, winner=said)


@pytest.mark.parametrize(
    ("leaves", "images", "depth"), [(10_000, 200, 6), (10_000, 5_000, 6), (60, 300, 15), (1, 1, 4)]
)
def test_heights_are_proportional_and_nothing_gets_lost(leaves: int, images: int, depth: int) -> None:
    icicle = made_up(leaves, images, depth)
    assert LOWEST <= icicle.height <= HIGHEST
    scale = icicle.height / images
    boxes = list(icicle.root.walk())
    assert boxes[0].images == images
    for box in boxes:
        assert box.height == pytest.approx(box.images * scale)
        assert box.top + box.height <= icicle.height + 1e-6
        assert box.images == sum(each.images for each in box.members)
        # What is not in a box of the next level ends in this one.
        below = sum(child.images for child in box.children)
        ending = box.images - below
        assert ending == sum(each.images - sum(child.images for child in each.children) for each in box.members)
        tops = [child.top for child in box.children]
        assert tops == sorted(tops)
        # One box at most of a level is too thin to be read, the group of the small ones or a single one.
        assert sum(child.height < LINE - 0.01 for child in box.children) <= 1
        assert all(child.level == box.end + 1 for child in box.children)
    assert len(boxes) < 400
    assert set(icicle.columns) == {box.level for box in boxes}


def test_siblings_too_small_to_read_are_drawn_together_with_what_is_below_them() -> None:
    # 194 images of one species leave less than a line for each of the others' groups.
    truths = ["r/big/one"] * 194 + [f"r/small {i}/{kind}" for i in range(3) for kind in ("x", "y")]
    icicle = drawn(truths, winner=truths)
    big, small = icicle.root.children
    assert big.labels == ("big", "one")  # the same numbers: one box
    assert (small.labels, len(small.members), small.partial, small.images) == ((), 3, True, 6)
    (below,) = small.children
    assert (len(below.members), below.partial, below.images, below.right) == (6, False, 6, (6,))


@pytest.mark.parametrize(
    ("said", "boxes"),
    [
        ("r/a/b/c", [("r", "a", "b", "c")]),
        # Where some answers stop the numbers differ, and the chain breaks.
        ("r/a", [("r", "a"), ("b", "c")]),
        ("r/a/x/c", [("r", "a"), ("b", "c")]),
    ],
)
def test_a_chain_is_one_box_as_long_as_its_numbers_are_the_same(said: str, boxes: list[tuple[str, ...]]) -> None:
    icicle = drawn(["r/a/b/c"] * 2, winner=["r/a/b/c", said])
    assert [box.labels for box in icicle.root.walk()] == boxes
    # Levels at which no box begins have no column.
    assert len(icicle.columns) == len(boxes)


def test_what_is_said_and_never_shown_is_kept_beside_the_boxes() -> None:
    icicle = drawn(["r/a", "r/a"], winner=["r/b", "r/a"])
    assert [each.path for each in icicle.root.unseen] == [("r", "b")]
    assert icicle.root.unseen[0].said == (1,)


def test_columns_are_found_by_level() -> None:
    icicle = Icicle(Box((), (), False, 0, 0, 0, 1, 1, (), (), ()), (0, 1, 6), 100.0)
    assert [icicle.column(level) for level in (0, 1, 2, 6, 7)] == [0, 1, 2, 2, 3]
