from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from taxtune.authoring.tree_file import tree_csv, write_tree
from taxtune.taxonomy import Taxonomy, read_taxonomy

_NAME = st.text(st.sampled_from("abc é/,\"'[x"), min_size=1, max_size=6).map(lambda s: " ".join(s.split())).filter(bool)


@st.composite
def trees(draw: st.DrawFn) -> Taxonomy:
    n = draw(st.integers(1, 8))
    parents = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    labels, seen = [], set()
    for i, parent in enumerate(parents):
        label = draw(_NAME.filter(lambda s, p=parent: (p, s) not in seen))  # type: ignore[misc]
        seen.add((parent, label))
        labels.append(label)
        assert i == len(labels) - 1
    unlike = [
        st.lists(_NAME.filter(lambda s, own=label: s.casefold() != own.casefold()), max_size=2, unique=True)
        for label in labels
    ]  # type: ignore[misc]
    ids = [f"id{i}" if draw(st.booleans()) else None for i in range(n)] if draw(st.booleans()) else None
    return Taxonomy(
        labels,
        parents,
        aliases=[draw(some) for some in unlike],
        leads=[draw(some) for some in unlike],
        ranks=[draw(st.sampled_from([None, "kind"])) for _ in labels],
        ids=ids,
    )


def facts(tree: Taxonomy) -> set[tuple[object, ...]]:
    return {(tree.path(i), tree.aliases[i], tree.leads[i], tree.ranks[i]) for i in range(len(tree))}


@given(trees())
def test_a_written_tree_is_read_as_it_was(tree: Taxonomy) -> None:
    with TemporaryDirectory() as folder:
        file = write_tree(Path(folder) / "tree.csv", tree)
        again = read_taxonomy(file, names=False)
    assert facts(again) == facts(tree)
    for i, key in enumerate(tree.ids):
        if key is not None:
            assert again.path(again.by_id[key]) == tree.path(i)


def test_names_with_separators_are_written_with_a_comma() -> None:
    tree = Taxonomy(["a", "b"], [-1, 0], aliases=[[], ["this;that", "one|two"]])
    assert tree_csv(tree).splitlines()[2] == 'a/b,,"this,that;one,two",'
