"""Draws the picture of docs/explanation/hp-and-hr.md: `python docs/code/hp_and_hr.py`.

The numbers in the picture are computed with taxtune, not typed in.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from taxtune.metrics import score
from taxtune.taxonomy import Taxonomy

FILE = Path(__file__).parents[1] / "images" / "hp-and-hr.svg"

PARENTS = {
    "bird": None,
    "songbird": "bird",
    "waterfowl": "bird",
    "sparrow": "songbird",
    "finch": "songbird",
    "duck": "waterfowl",
    "song sparrow": "sparrow",
    "fox sparrow": "sparrow",
    "house finch": "finch",
    "mallard": "duck",
}
TRUTH = "song sparrow"
ANSWERS = ["song sparrow", "sparrow", "bird", "fox sparrow", "house finch", "mallard"]

SHARED, WRONG, UNSAID, OTHER = "#0f766e", "#c2410c", "#ffffff", "#d6d3d1"


def main() -> None:
    """Writes the picture."""
    names = list(PARENTS)
    tree = Taxonomy(names, [-1 if above is None else names.index(above) for above in PARENTS.values()])
    place = positions(tree)
    figure, grid = plt.subplots(2, 3, figsize=(9.6, 6.4), layout="constrained")
    for axes, answer in zip(grid.flat, ANSWERS, strict=True):
        panel(axes, tree, place, answer)
    for text, color in (("said and true", SHARED), ("said and not true", WRONG), ("true and not said", UNSAID)):
        grid[0, 0].scatter([], [], s=90, color=color, edgecolor="#44403c", label=text)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=11)
    plt.rcParams["svg.hashsalt"] = "taxtune"
    figure.savefig(FILE, metadata={"Date": None})


def positions(tree: Taxonomy) -> dict[int, tuple[float, float]]:
    """Returns where each node stands: leaves in a row, every other node above the middle of its children."""
    place: dict[int, tuple[float, float]] = {}
    leaves = iter(range(len(tree)))
    for node in sorted(range(len(tree)), key=lambda node: tree.path(node)):
        if not len(tree.children(node)):
            place[node] = (next(leaves), -float(tree.depth[node]))
    for node in sorted(range(len(tree)), key=lambda node: -int(tree.depth[node])):
        if node not in place:
            below = [place[child][0] for child in tree.children(node)]
            place[node] = (sum(below) / len(below), -float(tree.depth[node]))
    return place


def panel(axes: Axes, tree: Taxonomy, place: dict[int, tuple[float, float]], answer: str) -> None:
    """Draws the tree with what one answer says of the truth."""
    said, truth = tree.resolve(answer), tree.resolve(TRUTH)
    said_nodes, true_nodes = set(tree.ancestors(said)), set(tree.ancestors(truth))
    for node, (x, y) in place.items():
        for child in tree.children(node):
            axes.plot([x, place[child][0]], [y, place[child][1]], color=OTHER, zorder=1)
    for node, (x, y) in place.items():
        kind = (
            SHARED if node in said_nodes & true_nodes
            else WRONG if node in said_nodes
            else UNSAID if node in true_nodes
            else OTHER
        )
        edge = "#44403c" if node in said_nodes | true_nodes else OTHER
        axes.scatter(x, y, s=150, color=kind, edgecolor=edge, zorder=2)
        leaf = not len(tree.children(node))
        left = not leaf and node and x < place[int(tree.parents[node])][0]
        axes.annotate(
            tree.labels[node].replace(" ", "\n"),
            (x, y),
            xytext=(0, -10) if leaf else (-10, 4) if left else (10, 4),
            textcoords="offset points",
            fontsize=9.5,
            ha="center" if leaf else "right" if left else "left",
            va="top" if leaf else "bottom",
            color="#44403c",
        )
    scores = score(tree, [said], [truth])
    shared = len(said_nodes & true_nodes)
    axes.set_title(
        f"“{answer}”\nhP {shared}/{len(said_nodes)} = {scores.hp:.2f}     hR {shared}/{len(true_nodes)} = {scores.hr:.2f}",
        fontsize=11,
    )
    axes.set_xlim(-0.6, max(x for x, _ in place.values()) + 0.9)
    axes.set_ylim(min(y for _, y in place.values()) - 0.75, 0.5)
    axes.axis("off")


if __name__ == "__main__":
    main()
