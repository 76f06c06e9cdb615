"""What a run that cannot go on says has changed: photos and labels first, then the tree, then settings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taxtune.tuning.changes import changes_in_words
from taxtune.tuning.run_folder import next_folder

A, B = "a" * 16, "b" * 16
IMAGES = {f"hash {number}": [f"{number}.png", "robin"] for number in range(5)}
NODES = {
    "bird": ["bird", "no aliases"],
    "bird/robin": ["bird/robin", "redbreast"],
    "bird/wren": ["bird/wren", "no aliases"],
}


def inputs(images=IMAGES, nodes=NODES, splits=A, **identity):
    identity = {
        "recipe.data.tuning": 0.4,
        "tuning images": splits,
        "held-out images": splits,
    } | identity
    return identity | {"all images": images, "nodes": nodes}


BEFORE = inputs()


def test_nothing_is_told_of_images_outside_of_the_splits():
    more = IMAGES | {"hash 9": ["9.png", "wren"]}
    assert changes_in_words(BEFORE, inputs(images=more)) == []


def test_photos_that_came_and_went_are_counted_and_three_are_named():
    kept = dict(list(IMAGES.items())[1:])
    new = {f"new {number}": [f"new {number}.png", "wren"] for number in range(48)}
    assert changes_in_words(BEFORE, inputs(images=kept | new, splits=B)) == [
        "48 new images: new 0.png; new 1.png; new 2.png; and 45 more",
        "1 image gone: 0.png",
    ]


def test_another_label_and_other_content_are_told_apart():
    images = IMAGES | {
        "hash 0": ["0.png", "wren"],
        "hash 1": ["wrens/1.png", "wren"],
    }
    del images["hash 3"]
    images["hash 33"] = ["3.png", "robin"]
    assert changes_in_words(BEFORE, inputs(images=images, splits=B)) == [
        "1 new image: 3.png",
        "1 image gone: 3.png",
        "2 labels changed: 0.png: robin → wren; 1.png: robin → wren",
    ]


def test_the_tree_is_told_by_its_nodes_and_what_follows_is_not():
    nodes = NODES | {
        "bird/robin": ["bird/robin", "redbreast, ruddock"],
        "bird/tit": ["bird/tit", "no aliases"],
    }
    del nodes["bird/wren"]
    before = inputs(taxonomy=A, weights=A)
    assert changes_in_words(before, inputs(nodes=nodes, splits=B, taxonomy=B, weights=B)) == [
        "1 new node: bird/tit",
        "1 node gone: bird/wren",
        "1 node changed: bird/robin: redbreast → redbreast, ruddock",
    ]


def test_settings_come_with_their_values_and_the_splits_follow_from_theirs():
    now = inputs(splits=B, **{"recipe.data.tuning": 0.5, "recipe.vlm.model": "b", "vlm.model": "b"})
    assert changes_in_words(BEFORE, now) == [
        "data.tuning: was 0.4, is 0.5",
        'vlm.model: was null, is "b"',
    ]


def test_a_change_without_lists_says_at_least_what_has_changed():
    lines = changes_in_words(inputs(images=None, nodes=None), inputs(splits=B))
    assert lines == [f"{split} images: the content has changed" for split in ("held-out", "tuning")]


@given(
    st.dictionaries(st.integers(0, 9), st.sampled_from("xyz")),
    st.dictionaries(st.integers(0, 9), st.sampled_from("xyz")),
)
def test_a_change_of_the_splits_is_never_silent(before, now):
    listed = []
    for images in (before, now):
        listed.append({f"hash {key}": [f"{key}.png", label] for key, label in images.items()})
    lines = changes_in_words(inputs(images=listed[0]), inputs(images=listed[1], splits=B))
    assert lines
    new = len(now.keys() - before.keys())
    assert any(line.startswith(f"{new} new image") for line in lines) is (new > 0)


def test_the_folder_of_a_new_run_is_the_first_that_is_free(tmp_path):
    assert next_folder(tmp_path / "birds") == tmp_path / "birds-2"
    for name in ("birds", "birds-2"):
        (tmp_path / name).mkdir()
    assert next_folder(tmp_path / "birds") == tmp_path / "birds-3"
