"""Tuning and held-out splits, and the images that remain."""

from __future__ import annotations

import bisect
import itertools
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taxtune.data import Example, split
from taxtune.data.splits import remaining, split_sizes
from taxtune.errors import DataError, ImageError


def made(*sizes):
    """Returns examples with known content, `sizes[t]` of them for target t."""
    examples = []
    for target, size in enumerate(sizes):
        for i in range(size):
            name = f"{target}-{i}.png"
            label = f"label {target}"
            examples.append(Example(name, Path(name), label, target, f"hash {target} {i}"))
    return examples


def ids(examples):
    return [example.id for example in examples]


def contents(examples):
    return {example.sha256 for example in examples}


def drawn_from(examples, **sizes):
    """Returns a split, and the examples in both of its parts."""
    drawn = split(examples, **sizes)
    return drawn, (*drawn.tuning, *drawn.heldout)


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=8),
    st.integers(0, 15),
    st.integers(0, 15),
    st.integers(0, 2**40),
)
def test_a_split_is_disjoint_exact_and_balanced(sizes, tuning, heldout, seed):
    examples = made(*sizes)
    if tuning + heldout == 0 or tuning + heldout > len(examples):
        with pytest.raises(DataError):
            split(examples, tuning=tuning, heldout=heldout, seed=seed)
        return
    drawn, both = drawn_from(examples, tuning=tuning, heldout=heldout, seed=seed)
    assert len(drawn.tuning) == tuning
    assert len(drawn.heldout) == heldout
    assert len(contents(both)) == tuning + heldout  # so no image is in both
    # No target lags behind another unless it has no more images.
    counts = Counter(example.target for example in drawn.tuning)
    most = max(counts.values(), default=0)
    for target, size in enumerate(sizes):
        assert counts[target] >= min(most - 1, size)


@given(st.integers(0, 20), st.integers(1, 30), st.integers(0, 2**40))
def test_what_remains_shows_no_image_that_was_used(used, most, seed):
    examples = made(12, 8)
    # A copy of an image under another name has been used if the image has.
    copies = [replace(example, id=f"copy of {example.id}") for example in examples[::3]]
    gone = examples[:used]
    unused = remaining([*examples, *copies], gone, most=most, seed=seed)
    assert len(unused) == min(most, 20 - used)
    assert len(contents(unused)) == len(unused)
    assert contents(unused).isdisjoint(contents(gone))
    assert unused == remaining([*copies, *reversed(examples)], gone, most=most, seed=seed)


def test_the_same_seed_gives_the_same_split_whatever_the_order():
    examples = made(5, 9, 3)
    sizes = {"tuning": 6, "heldout": 6}
    one = split(examples, **sizes, seed=11)
    assert split(examples[::-1], **sizes, seed=11) == one
    assert split(examples, **sizes, seed=12) != one


def test_the_split_is_the_same_on_every_machine():
    drawn = split(made(3, 3, 3), tuning=3, heldout=3, seed=0)
    assert ids(drawn.tuning) == ["1-1.png", "0-2.png", "2-1.png"]
    assert ids(drawn.heldout) == ["0-1.png", "1-0.png", "2-0.png"]


def test_a_larger_held_out_split_keeps_the_tuning_split():
    examples = made(9, 9, 9)
    small = split(examples, tuning=5, heldout=3, seed=1)
    large = split(examples, tuning=5, heldout=20, seed=1)
    assert small.tuning == large.tuning


def test_copies_of_an_image_are_drawn_once(notes):
    examples = made(4, 4)
    for example in made(4, 4):
        name = f"copy of {example.id}"
        examples.append(replace(example, id=name, image=Path(name)))
    _, both = drawn_from(examples, tuning=4, heldout=4, seed=0)
    assert len(contents(both)) == 8
    assert len(notes) == 1
    with pytest.raises(DataError, match=r"need 9 different images, but there are 8\."):
        split(examples, tuning=4, heldout=5, seed=0)


def in_groups(examples, sizes):
    """Returns examples in groups of sizes, the last of which goes on for the rest."""
    grouped = []
    ends = list(itertools.accumulate(sizes))
    for place, example in enumerate(examples):
        number = bisect.bisect_right(ends, place)
        grouped.append(replace(example, group=f"group {number}"))
    return grouped


def groups_of(examples):
    return {example.group for example in examples}


@given(
    st.lists(st.integers(1, 8), max_size=12),
    st.integers(1, 10),
    st.integers(1, 20),
    st.integers(0, 2**40),
)
def test_no_group_is_in_two_splits(sizes, tuning, heldout, seed):
    examples = in_groups(random.Random(seed).sample(made(9, 20, 11), 40), [*sizes, 5, 5, 5])
    # A group has at most 25 images, so that those of the tuning split do not use up all.
    drawn, both = drawn_from(examples, tuning=tuning, heldout=heldout, seed=seed, may_be_short=True)
    assert len(drawn.tuning) == tuning
    assert groups_of(drawn.tuning).isdisjoint(groups_of(drawn.heldout))
    named = [example.group or example.id for example in drawn.tuning]
    assert len({*named[: len({*named})]}) == len({*named})  # each comes once before any twice
    unused = remaining(examples, both, most=40, seed=seed)
    assert groups_of(unused).isdisjoint(groups_of(both))
    # Nothing is passed over but the rest of a group that was cut.
    free = [example for example in examples if example.group not in groups_of(drawn.tuning)]
    assert len(drawn.heldout) == min(heldout, len(free))
    # The images of a group are side by side where all are asked about at once.
    groups = [example.group for example in drawn.heldout]
    runs = [name for name, _ in itertools.groupby(groups)]
    assert len(runs) == len(set(runs))


@given(st.lists(st.integers(0, 6), min_size=2, max_size=6), st.integers(0, 2**40))
def test_groups_of_one_image_change_nothing(sizes, seed):
    examples = made(3, *sizes)
    alone = [replace(example, group=f"group of {example.id}") for example in examples]
    tuning = len(examples) // 2
    _, plain = drawn_from(examples, tuning=tuning, heldout=1, seed=seed)
    _, grouped = drawn_from(alone, tuning=tuning, heldout=1, seed=seed)
    assert ids(grouped) == ids(plain)
    unused = remaining(examples, plain, most=99, seed=seed)
    assert ids(remaining(alone, grouped, most=99, seed=seed)) == ids(unused)


def test_a_group_counts_as_its_first_image_in_the_rounds():
    one, two, three, four = made(2, 2)
    # Both images of label 0 are one group, so that label 1 has its second round alone.
    examples = [replace(one, group="a"), replace(two, group="a"), three, four]
    drawn = split(examples, tuning=2, heldout=1, seed=0)
    assert {example.target for example in drawn.tuning} in ({0}, {0, 1})
    assert drawn.heldout[0].target == 1


def test_too_few_images_are_said_to_be_so_by_their_groups():
    examples = in_groups(made(6, 6), [6])
    said = r"there are 11\. A group is in one split alone: .* 2\..*smaller tuning split"
    with pytest.raises(DataError, match=said):
        split(examples, tuning=5, heldout=7, seed=0)
    short = split(examples, tuning=5, heldout=7, seed=0, may_be_short=True)
    assert len(short.heldout) == 6


def test_an_image_with_two_labels_is_refused():
    one, two = made(1, 1)
    copy = replace(two, sha256=one.sha256)
    with pytest.raises(DataError, match=r"0-0\.png is 'label 0', 1-0\.png is|1-0\.png is"):
        split([one, copy], tuning=1, heldout=1, seed=0)


@pytest.mark.parametrize(("tuning", "heldout"), [(0, 0), (-1, 5), (5, -1)])
def test_senseless_sizes_are_refused(tuning, heldout):
    with pytest.raises(DataError, match="sizes of at least 1"):
        split(made(9), tuning=tuning, heldout=heldout, seed=0)


def test_too_few_images_are_counted_and_the_way_out_is_named():
    way_out = r"need 220 different images, but there are 33\..*at most 33 in all.*3 and 30"
    with pytest.raises(DataError, match=way_out):
        split(made(11, 11, 11), tuning=20, heldout=200, seed=0)
    with pytest.raises(DataError, match="there are 0"):
        split([], tuning=1, heldout=1, seed=0)


# -- images that are read as they are drawn ----------------------------------------------------------------------------


@pytest.fixture
def unread(tmp_path):
    examples = []
    for number in range(40):
        path = tmp_path / f"{number}.png"
        Image.new("RGB", (16, 16), (number, 0, 0)).save(path)
        examples.append(Example(path.name, path, f"label {number % 4}", number % 4))
    return examples


def test_only_what_is_drawn_is_read(unread):
    drawn, both = drawn_from(unread, tuning=4, heldout=4, seed=5)
    used = {example.image for example in both}
    assert {len(sha256) for sha256 in contents(both)} == {64}
    for example in unread:
        if example.image not in used:
            example.image.write_bytes(b"ruined")
    assert split(unread, tuning=4, heldout=4, seed=5) == drawn


def test_all_bad_images_that_are_drawn_are_named(unread):
    drawn = split(unread, tuning=4, heldout=4, seed=5)
    gone = drawn.tuning[0].image
    gone.unlink()
    empty = drawn.heldout[3].image
    empty.write_bytes(b"")
    with pytest.raises(ImageError, match="2 of 8 images") as caught:
        split(unread, tuning=4, heldout=4, seed=5)
    for path in (gone, empty):
        assert str(path) in str(caught.value)


def test_copies_are_found_as_they_are_drawn(unread, notes):
    for example in unread[4:]:  # every label has ten files, and all show the same
        first = unread[example.target]
        example.image.write_bytes(first.image.read_bytes())
    _, both = drawn_from(unread, tuning=2, heldout=2, seed=0)
    assert {example.target for example in both} == {0, 1, 2, 3}
    with pytest.raises(DataError, match="there are 4"):
        split(unread, tuning=3, heldout=2, seed=0)


@given(st.integers(2, 100_000))
def test_default_sizes_use_every_image_once(n):
    tuning, heldout = split_sizes(n)
    calibration = n - tuning - heldout
    assert min(tuning, heldout) >= 1
    assert calibration >= 38 if n >= 150 else calibration == 0


@pytest.mark.parametrize(
    ("n", "sizes"),
    [(100, (60, 40)), (300, (120, 105)), (800, (320, 200)), (5000, (400, 200))],
)
def test_default_sizes(n, sizes):
    assert split_sizes(n) == sizes


@pytest.mark.parametrize("empty", [30, 90, 360])
def test_images_of_nothing_are_as_often_in_each_split_as_among_all(empty):
    examples = made(empty, *([3] * 30))
    drawn = split(examples, tuning=60, heldout=40, seed=1, root=0)
    share = empty / (empty + 90)
    for part, size in ((drawn.tuning[:20], 20), (drawn.tuning, 60), (drawn.heldout, 40)):
        assert sum(example.target == 0 for example in part) == pytest.approx(size * share, abs=2)
    named = [example for example in drawn.tuning if example.target]
    assert len({example.target for example in named}) == min(len(named), 30)
    others = split(made(0, *([3] * 30)), tuning=20, heldout=10, seed=1, root=0)
    assert others == split(made(0, *([3] * 30)), tuning=20, heldout=10, seed=1)


def test_large_groups_are_drawn_no_more_often_than_small_ones():
    images = made(110, 110)
    examples = []
    for target in (0, 1):
        own = images[110 * target : 110 * (target + 1)]
        large = in_groups(own[:100], [10] * 9)
        examples += [replace(one, group=f"{target} {one.group}") for one in large]
        examples += own[100:]
    large_first = Counter()
    for seed in range(200):
        drawn = split(examples, tuning=1, heldout=1, seed=seed)
        large_first["split"] += bool(drawn.tuning[0].group)
        (unused,) = remaining(examples, (), most=1, seed=seed)
        large_first["remaining"] += bool(unused.group)
    # Of each target ten groups have ten images, and ten have one.
    for count in large_first.values():
        assert 70 <= count <= 130
