"""Data sets of many images: columns, hashes that are kept on disk, and decoding of what is drawn alone."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taxtune.data import Example, Examples, examples, hashes, images, load_examples, split
from taxtune.data.collection import distinct
from taxtune.data.splits import remaining
from taxtune.errors import DataError, ImageError
from taxtune.taxonomy import Taxonomy
from tests.displays import Recorder

LABELS = ["ash", "beech", "cedar"]
TREE = Taxonomy(["tree", *LABELS], [-1, 0, 0, 0])


def draw(folder: Path, n: int) -> Path:
    """Writes n images of their own, in a folder for each label."""
    for label in LABELS:
        (folder / label).mkdir(parents=True)
    for i in range(n):
        Image.new("L", (8, 8), i).save(folder / LABELS[i % 3] / f"{i:04}.png")
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The files that are read, where hashes of all files are kept, however new they are and however few."""
    found: list[Path] = []
    real = images._read
    monkeypatch.setattr(images, "_read", lambda path: (found.append(path), real(path))[1])
    monkeypatch.setattr(images, "_BLOCK", 10)
    monkeypatch.setattr(images, "_WORTH_KEEPING", 1)
    monkeypatch.setattr(hashes, "_SETTLED", -(10**18))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return found


# -- columns -----------------------------------------------------------------------------------------------------------


@st.composite
def collections(make: st.DrawFn) -> Examples:
    """Examples of few names, contents and targets, so that many are alike; a content has one target."""
    n = make(st.integers(0, 30))
    contents = make(st.lists(st.integers(0, 12), min_size=n, max_size=n))
    ids = make(st.lists(st.text("ab/.", min_size=1, max_size=4), min_size=n, max_size=n))
    target = np.array([content % 3 for content in contents], dtype=np.int64)
    found = Examples(Path("photos"), ids, LABELS, target, target + 1, files={0: "elsewhere.png"} if n else None)
    digests = b"".join(hashlib.sha256(bytes([content])).digest() for content in contents)
    return found.with_hashes(np.frombuffer(digests, dtype=np.uint8).reshape(-1, 32), checked=True)


@given(collections(), st.integers(0, 2**40), st.integers(1, 12))
def test_columns_are_drawn_from_as_a_list_is(found: Examples, seed: int, size: int) -> None:
    listed = [*found]
    assert found == listed
    assert found[1:5] == listed[1:5]
    assert all(example.label == LABELS[example.target - 1] for example in listed)
    kept, others = distinct(found)
    assert [a.tolist() for a in distinct(listed)] == [kept.tolist(), others.tolist()]
    first = {e.sha256: i for i, e in reversed([*enumerate(listed)])}
    assert kept.tolist() == sorted(first.values())
    assert found.take(kept) == [listed[i] for i in kept]
    if len(kept) >= 2 * size:
        assert split(found, tuning=size, heldout=size, seed=seed) == split(listed, tuning=size, heldout=size, seed=seed)
    assert remaining(found, listed[:2], most=size, seed=seed) == remaining(listed, listed[:2], most=size, seed=seed)


@given(collections(), st.integers(0, 2**40))
def test_the_order_is_that_of_the_ranks(found: Examples, seed: int) -> None:
    """The order of a draw is part of a run's identity: hashes of the seed and the name, rounds of targets."""

    def rank(what: str, name: str) -> bytes:
        return hashlib.sha256(f"{seed}\0{what}\0{name}".encode()).digest()

    single = found.take(distinct(found)[0])
    groups: dict[int, list[Example]] = {}
    for example in sorted(single, key=lambda e: (rank("example", e.id), e.id)):
        groups.setdefault(example.target, []).append(example)
    expected = [
        groups[target][number]
        for number in range(max(map(len, groups.values()), default=0))
        for target in sorted(groups, key=lambda t: (rank(f"round {number}", str(t)), t))
        if number < len(groups[target])
    ]
    if expected:
        assert split(single, tuning=len(expected), heldout=0, seed=seed).tuning == tuple(expected)


def test_the_same_content_with_two_labels_is_refused_in_columns_too() -> None:
    digests = np.zeros((2, 32), dtype=np.uint8)
    found = Examples(Path(), ["a", "b"], LABELS, np.array([0, 1]), np.array([1, 2])).with_hashes(digests, checked=True)
    with pytest.raises(DataError, match="a is 'ash', b is 'beech'"):
        distinct(found)


# -- hashes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", ["all", "content"])
def test_a_second_start_reads_no_file_again(tmp_path: Path, read: list[Path], recorder: Recorder, check: str) -> None:
    folder = draw(tmp_path / "trees", 60)
    first = load_examples(folder, TREE, check=check)  # type: ignore[arg-type]
    assert sorted(read) == sorted(first.images())
    assert [e.sha256 for e in first] == [hashlib.sha256(e.image.read_bytes()).hexdigest() for e in first]
    read.clear()
    assert load_examples(folder, TREE, check=check) == first  # type: ignore[arg-type]
    assert read == []
    assert recorder.of("reading images")[-1] == (60, 60)


def test_a_start_that_was_killed_goes_on_where_it_was(
    tmp_path: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = draw(tmp_path / "trees", 60)
    with monkeypatch.context() as patch:
        real = images._read

        def killed(path: Path) -> bytes:
            if len(read) > 35:
                raise KeyboardInterrupt
            return real(path)

        patch.setattr(images, "_read", killed)
        with pytest.raises(KeyboardInterrupt):
            load_examples(folder, TREE)
    before = set(read)
    read.clear()
    load_examples(folder, TREE)
    assert len(read) == 30  # three blocks of ten were whole
    assert len(before | set(read)) == 60


def rewritten(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"IEND", b"IENC"))


def replaced_with_its_times(file: Path) -> None:
    state, other = file.stat(), file.with_suffix(".new")
    other.write_bytes(file.read_bytes().replace(b"IEND", b"IENC"))
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.replace(file)


@pytest.mark.parametrize("change", [rewritten, replaced_with_its_times])
def test_a_file_that_has_changed_is_read_again(
    tmp_path: Path, read: list[Path], change: Callable[[Path], None]
) -> None:
    folder = draw(tmp_path / "trees", 12)
    first = load_examples(folder, TREE)
    file = folder / "ash" / "0003.png"
    size = file.stat().st_size
    change(file)
    assert file.stat().st_size == size
    read.clear()
    again = load_examples(folder, TREE)
    assert read == [file]
    assert [a.id for a, b in zip(first, again, strict=True) if a != b] == ["ash/0003.png"]


def test_a_file_that_was_just_written_is_not_relied_on(
    tmp_path: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "_SETTLED", 10**18)
    folder = draw(tmp_path / "trees", 12)
    load_examples(folder, TREE)
    load_examples(folder, TREE)
    assert len(read) == 24


def test_another_limit_of_pixels_decodes_again(tmp_path: Path, read: list[Path]) -> None:
    folder = draw(tmp_path / "trees", 12)
    load_examples(folder, TREE)
    with pytest.raises(ImageError, match="12 of 12 images cannot be used"):
        load_examples(folder, TREE, max_pixels=63)


# -- what is decoded ---------------------------------------------------------------------------------------------------


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of more images than are all decoded."""
    monkeypatch.setattr(examples, "_LARGE", 59)
    return draw(tmp_path / "trees", 60)


def test_a_large_data_set_is_split_as_a_small_one(many: Path) -> None:
    large, small = load_examples(many, TREE), load_examples(many, TREE, check="all")
    assert not large.checked
    assert small.checked
    assert [replace(example, checked=True) for example in large] == small
    assert split(large, tuning=5, heldout=20, seed=1) == split(small, tuning=5, heldout=20, seed=1)


def test_of_a_large_data_set_only_what_is_drawn_must_be_sound(many: Path) -> None:
    drawn = split(load_examples(many, TREE), tuning=5, heldout=20, seed=1)
    used = {example.image for example in (*drawn.tuning, *drawn.heldout)}
    for i, file in enumerate(sorted(many.glob("*/*.png"))):
        if file not in used:
            file.write_bytes(f"no image {i}".encode())
    found = load_examples(many, TREE)
    assert split(found, tuning=5, heldout=20, seed=1) == drawn
    with pytest.raises(ImageError, match="cannot be used"):
        split(found, tuning=5, heldout=40, seed=1)
    with pytest.raises(ImageError, match="35 of 60 images cannot be used"):
        load_examples(many, TREE, check="all")


def test_files_that_are_not_there_are_named_with_their_rows_however_many_there_are(many: Path) -> None:
    files = sorted(file.relative_to(many).as_posix() for file in many.glob("*/*.png"))
    rows = "".join(f"{name},{name.partition('/')[0]}\n" for name in [*files, "ash/gone.png"])
    (many / "all.csv").write_text("image,label\n" + rows)
    with pytest.raises(ImageError, match=r"gone\.png: The image file does not exist \(all\.csv, row 62\)"):
        load_examples(many / "all.csv", TREE)
