from __future__ import annotations

from pathlib import Path

from taxtune.report.built_tree import draw_built_tree, shortest_levels
from taxtune.report.drawing import save_figure
from tests.taxonomy.building.graphs import built

PAIRS = "a<root b<a c<b c<root d<c e<d e<a x<y"


def test_levels_along_shortest_paths() -> None:
    tree = built(PAIRS)
    assert tree.parents.depth[tree.order].tolist() == [0, 1, 2, 3, 4, 5]
    assert shortest_levels(tree) == [1, 2, 3]  # a and c; then b, d and e


def test_the_figure_shows_levels_and_parents(tmp_path: Path) -> None:
    figure = draw_built_tree(built(PAIRS))
    left, right = figure.axes
    assert [line.get_ydata().tolist() for line in left.lines] == [[1, 1, 1, 1, 1, 1], [1, 2, 3]]  # type: ignore[union-attr]
    assert {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in right.patches} == {0: 2, 1: 4, 2: 2}
    paths = save_figure(lambda: draw_built_tree(built(PAIRS)), tmp_path / "levels")
    assert [path.name for path in paths] == ["levels.png", "levels.svg"]
    assert draw_built_tree(built("a<a")).axes
