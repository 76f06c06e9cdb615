from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.packed import Multimap, MultimapBuilder, Part, Texts, kept, read_parts, text_key, write_parts

# Half a character, which a badly decoded answer may hold, is a text too.
anything = st.text(st.characters(exclude_categories=()), max_size=6)


@given(st.lists(anything))
def test_texts_come_back(texts: list[str]) -> None:
    packed = Texts.of(texts)
    assert list(packed) == [packed[i] for i in range(len(packed))] == packed[:] == texts
    assert [packed[-1 - i] for i in range(len(packed))] == texts[::-1]
    with pytest.raises(IndexError):
        packed[len(texts)]


@given(st.lists(st.tuples(st.sampled_from(["", "owl", "Ä", "\ud800", "sea gull"]), st.integers(0, 9))), st.booleans())
def test_a_multimap_is_a_dictionary_of_sorted_lists(pairs: list[tuple[str, int]], repeats: bool) -> None:
    builder = MultimapBuilder()
    expected: dict[str, list[int]] = defaultdict(list)
    for text, number in pairs:
        builder.add(text, number)
        expected[text].append(number)
    found = builder.build(repeats=repeats)
    for text in ("", "owl", "Ä", "\ud800", "sea gull", "seagull"):
        numbers = sorted(expected[text] if repeats else set(expected[text]))
        assert found.find(text).tolist() == numbers
        assert (text in found) == bool(numbers)


def test_a_text_has_the_same_key_in_every_process() -> None:
    assert text_key("owl") == 4023525244920974642


def made() -> dict[str, Part]:
    builder = MultimapBuilder()
    for number, text in enumerate(("owl", "gull", "owl")):
        builder.add(text, number)
    table = np.arange(6, dtype=np.int32).reshape(2, 3)
    return {"texts": Texts.of(["eins", "zwölf"]), "map": builder.build(), "table": table, "flag": np.array(True)}


@pytest.mark.parametrize("parts", [made(), {"empty": np.zeros((0, 4)), "none": Texts.of([])}, {}])
def test_parts_come_back_read_only(tmp_path: Path, parts: dict[str, Part]) -> None:
    write_parts(tmp_path / "a.parts", parts)
    found = read_parts(tmp_path / "a.parts")
    assert found.keys() == parts.keys()
    for name, part in parts.items():
        other = found[name]
        if isinstance(part, np.ndarray):
            assert isinstance(other, np.ndarray)
            assert (other.dtype, other.shape, other.tolist()) == (part.dtype, part.shape, part.tolist())
            assert not other.flags.writeable
        elif isinstance(part, Texts):
            assert isinstance(other, Texts)
            assert list(other) == list(part)
        else:
            assert isinstance(other, Multimap)
            assert other.find("owl").tolist() == part.find("owl").tolist()


@pytest.mark.parametrize("damage", [b"", b"{}", "half", "longer"])
def test_what_is_damaged_is_made_again(tmp_path: Path, damage: bytes | str) -> None:
    path = tmp_path / "cache" / "a.parts"
    kept(path, made)
    whole = path.read_bytes()
    path.write_bytes(
        {"half": whole[: len(whole) // 2], "longer": whole + b"x"}.get(str(damage), bytes(str(damage), "utf8"))
    )
    with pytest.raises((OSError, ValueError)):
        read_parts(path)
    kept(path, made)
    assert path.read_bytes() == whole


def test_what_is_kept_is_not_made_again(tmp_path: Path) -> None:
    kept(tmp_path / "a.parts", made)
    again = kept(tmp_path / "a.parts", lambda: pytest.fail("made again"))
    assert list(again["texts"]) == ["eins", "zwölf"]  # type: ignore[arg-type]


def test_where_nothing_can_be_kept_it_is_made_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for _ in range(2):
        assert list(kept(tmp_path / "file" / "a.parts", made)["texts"]) == ["eins", "zwölf"]  # type: ignore[arg-type]
