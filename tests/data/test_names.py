"""Names of images as tables of any system write them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taxtune.data import load_examples
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
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (9, 9)).save(tmp_path / there)
    assert find_file(tmp_path, written).samefile(tmp_path / there)
    (example,) = load_examples([(str(tmp_path / there), "duck")], TREE)
    (found,) = load_examples([(written, "duck")], TREE, images=tmp_path)
    assert (found.id, found.sha256) == (written, example.sha256)


@pytest.mark.parametrize("written", ["b\\a.png", "C:\\a.png", "é.png", "x" * 300 + "é", "a\0é.png"])
def test_a_name_that_nothing_has_stays_as_it_is(written, tmp_path):
    assert find_file(tmp_path, written) == tmp_path / written


@pytest.mark.parametrize(
    ("names", "known", "pairs"),
    [
        (["a.jpg"], ["a.jpg", "photos/a.jpg"], {"a.jpg": "a.jpg"}),
        (["photos\\a.jpg"], ["./photos/a.jpg"], {"photos\\a.jpg": "./photos/a.jpg"}),
        ([COMPOSED], [DECOMPOSED], {COMPOSED: DECOMPOSED}),
        (["C:\\me\\a.jpg", "C:\\me\\b.jpg"], ["x/a.jpg"], {"C:\\me\\a.jpg": "x/a.jpg"}),
        (["a.jpg"], ["D:/one/a.jpg"], {"a.jpg": "D:/one/a.jpg"}),
        (["C:\\x\\one\\a.jpg"], ["one/a.jpg", "two/a.jpg"], {"C:\\x\\one\\a.jpg": "one/a.jpg"}),
        (
            ["one/a.jpg"],
            ["//nas/x/one/a.jpg", "//nas/x/two/a.jpg"],
            {"one/a.jpg": "//nas/x/one/a.jpg"},
        ),
        (["\\\\nas\\x\\a.jpg"], ["photos/a.jpg"], {"\\\\nas\\x\\a.jpg": "photos/a.jpg"}),
    ],
)
def test_names_of_two_tables_are_matched(names, known, pairs):
    assert match_names(names, known) == pairs


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
