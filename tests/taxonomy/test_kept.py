from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.taxonomy.readers import read as reading

CACHE = Path("taxtune", "taxonomies")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which trees are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / CACHE


def write_edges(path: Path, nodes: int = 30_000, extra: str = "") -> Path:
    rows = [
        f"t{i},t{(i - 1) // 9},Größe {i},{'genus' if i % 3 else ''},Thing {i} of old;other {i}" for i in range(1, nodes)
    ]
    path.write_text("\n".join(["child,parent,label,rank,aliases", "t0,,top,,", *rows]) + extra, encoding="utf-8")
    return path


def contents(tree: Taxonomy) -> list[object]:
    """Everything that a tree says."""
    relations = [tree.parents, tree.depth, tree.lineage, tree.places, tree.sizes, tree.walk]
    names = [tree.labels, tree.aliases, tree.leads, tree.ranks, tree.ids]
    return [*names, tree.source, tree.digest, tree.height, *(array.tolist() for array in relations)]


def test_a_large_file_is_parsed_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_edges(tmp_path / "tree.csv")
    first = read_taxonomy(path)
    assert len(list(cache.iterdir())) == 1
    parse = reading.parse_taxonomy
    monkeypatch.setattr(reading, "parse_taxonomy", lambda *args, **kwargs: pytest.fail("parsed again"))
    again = read_taxonomy(path)
    assert contents(again) == contents(first)
    assert again.resolve("größe 17") == first.resolve("Thing 17 of old") == first.by_id["t17"]
    assert again.subtree(3).labels == first.subtree(3).labels
    monkeypatch.setattr(reading, "parse_taxonomy", parse)
    # Another content, another way to read it, another place: nothing of the old.
    write_edges(path, extra="\nt99999,t0,new")
    assert read_taxonomy(path).resolve("new") == len(first)
    assert read_taxonomy(path, names=False).leads == ((),) * (len(first) + 1)
    assert read_taxonomy(shutil.copy(path, tmp_path / "copy.csv")).source == str(tmp_path / "copy.csv")
    assert len(list(cache.iterdir())) == 4


def test_a_small_file_is_not_kept(tmp_path: Path, cache: Path) -> None:
    read_taxonomy(write_edges(tmp_path / "tree.csv", nodes=100))
    assert not cache.exists()


def test_what_is_left_out_is_told_each_time(tmp_path: Path, cache: Path, notes: list[str]) -> None:
    folder = tmp_path / "ncbi"
    folder.mkdir()
    n = 20_000
    lines = [f"{i}\t|\t{max(1, i // 5)}\t|\tspecies\t|" for i in range(1, n)]
    (folder / "nodes.dmp").write_text("\n".join(lines), encoding="utf-8")
    names = [f"{i}\t|\tname {i}\t|\t\t|\tscientific name\t|" for i in range(1, n)]
    left_out = ["7\t|\tnaem 7\t|\t\t|\tmisspelling\t|"]
    (folder / "names.dmp").write_text("\n".join([*names, *left_out]), encoding="utf-8")
    for given in (folder, folder / "nodes.dmp"):
        notes.clear()
        first = read_taxonomy(given)
        told = list(notes)
        assert any("misspelling" in text for text in told)
        notes.clear()
        assert contents(read_taxonomy(given)) == contents(first)
        assert notes == told
    # What stands beside the file that was given counts as well.
    (folder / "names.dmp").write_text("\n".join(names).replace("name 9\t", "nine\t"), encoding="utf-8")
    assert read_taxonomy(folder / "nodes.dmp").resolve("nine") > 0


def test_what_cannot_be_kept_is_read(tmp_path: Path, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("in the way")
    assert len(read_taxonomy(write_edges(tmp_path / "tree.csv"))) == 30_000
