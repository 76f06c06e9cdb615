"""Groups of images: numbers by first occurrence, means over the images that have a value."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taxtune.metrics.groups import Groups, unit_name

NAMES = st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=30)


@given(NAMES, st.data())
def test_a_group_has_the_mean_of_its_images(names, data):
    value = st.floats(0, 1) | st.just(np.nan)
    n = len(names)
    drawn = st.lists(value, min_size=n, max_size=n)
    values = data.draw(drawn)
    own = {}
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        own.setdefault(name or place, []).append(value)
    expected = []
    for members in own.values():
        there = [value for value in members if not np.isnan(value)]
        expected.append(np.mean(there) if there else np.nan)
    np.testing.assert_allclose(Groups.of(names).mean(values), expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_where_every_group_is_one_image_nothing_changes(values):
    for names in ([""] * len(values), [str(i) for i in range(len(values))]):
        groups = Groups.of(names)
        assert groups.single
        assert groups.mean(values).tolist() == values


def test_what_a_group_is_called():
    assert unit_name(None) == "image"
    assert unit_name("exif:burst") == "burst"
    assert unit_name("folder") == "folder"
    assert unit_name("patient") == "patient"
