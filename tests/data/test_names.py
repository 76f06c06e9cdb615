"""Names of images as tables of any system write them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taxtune.data import content_hash, load_examples
from taxtune.data.names import find_file, match_names
from taxtune.taxonomy import Taxonomy

TREE = Taxonomy.from_dict({"bird": ["duck", "gull"]})
COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "möwe.png") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    ("there", "written"),
    [
        ("a.png", "a.png"),
        ("photos/a b.png", "photos\\a b.png"),
        ("photos/a.png", ".\\photos\\a.png"),
        (COMPOSED, DECOMPOSED),
        (DECOMPOSED, COMPOSED),
        (f"{DECOMPOSED}s/{COMPOSED}", f"{COMPOSED}s\\{DECOMPOSED}"),
        ("a.png", "C:\\Users\\me\\photos\\a.png"),
        ("a.png", "d:/photos/a.png"),
        ("a.png", "\\\\server\\share\\a.png"),
        ("one/a.png", "C:\\me/photos\\one\\a.png"),
        (f"{DECOMPOSED}s/a.png", f"\\\\server\\{COMPOSED}s\\a.png"),
        ("back\\slash.png", "back\\slash.png"),
        ("C:odd.png", "C:odd.png"),
    ],
)
def test_an_image_is_found_however_its_name_is_written(there, written, tmp_path):
    file = tmp_path / there
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (9, 9)).save(file)
    assert find_file(tmp_path, written).samefile(file)
    (found,) = load_examples([(written, "duck")], TREE, images=tmp_path)
    assert found.id == written
    assert found.sha256 == content_hash(file)


@pytest.mark.parametrize("written", ["b\\a.png", "C:\\a.png", "é.png", "x" * 300 + "é", "a\0é.png"])
def test_a_name_that_nothing_has_stays_as_it_is(written, tmp_path):
    assert find_file(tmp_path, written) == tmp_path / written


@pytest.mark.parametrize(
    ("name", "known", "match"),
    [
        ("a.jpg", ["a.jpg", "photos/a.jpg"], "a.jpg"),
        ("a.jpg", ["D:/one/a.jpg"], "D:/one/a.jpg"),
        ("photos\\a.jpg", ["./photos/a.jpg"], "./photos/a.jpg"),
        ("C:\\x\\one\\a.jpg", ["one/a.jpg", "two/a.jpg"], "one/a.jpg"),
        ("one/a.jpg", ["//nas/x/one/a.jpg", "//nas/x/two/a.jpg"], "//nas/x/one/a.jpg"),
        ("\\\\nas\\x\\a.jpg", ["photos/a.jpg"], "photos/a.jpg"),
        (COMPOSED, [DECOMPOSED], DECOMPOSED),
    ],
)
def test_a_name_of_one_table_is_matched_with_one_of_another(name, known, match):
    assert match_names([name], known) == {name: match}


def test_a_name_beside_one_that_is_not_there_is_matched():
    there = "C:\\me\\a.jpg"
    assert match_names([there, "C:\\me\\b.jpg"], ["x/a.jpg"]) == {there: "x/a.jpg"}


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (["a.jpg"], ["D:/one/a.jpg", "D:/two/a.jpg"]),
        (["one/a.jpg", "two/a.jpg"], ["a.jpg"]),
        (["one/a.jpg"], ["two/a.jpg"]),
        (["xa.jpg"], ["a.jpg"]),
    ],
)
def test_names_that_may_be_of_two_images_or_of_none_are_not_matched(names, known):
    assert match_names(names, known) == {}


def written_alike(name):
    return name.replace("\\", "/").removeprefix("./")


@given(st.lists(st.text("ab/\\é", min_size=1, max_size=5), unique=True, max_size=8))
def test_every_name_means_itself_or_one_that_is_written_alike(names):
    matched = match_names(names, names)
    assert matched.keys() == set(names)
    for name, other in matched.items():
        assert written_alike(other) == written_alike(name)
