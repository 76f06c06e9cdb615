"""The part of the tree that the held-out images touch, and how far down it each template's answers are right.

All is counted on the paths of the rows, over the images that were answered for every template, as the scores are. An
answer on a node says that node and all above it, and an answer off the tree nothing below the root.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from taxtune.metrics.ranks import OFF_TREE_RANK
from taxtune.tuning.records import HeldoutResult, SampleResult

__all__ = ["Clade", "Path", "alike", "answered", "grow", "level_names", "path_of", "said_path"]

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clade:
    """A node of the tree, with what is below it.

    Attributes:
        path: The labels from the root to it.
        images: Images whose truth it is, or lies below it.
        right: By template, how many of them are answered right down to this node.
        wrong: By template, how many of them are answered with another node at this level or above, or off the tree. The
            others are answered with what is above this node, which is right and less than is asked.
        said: By template, how many answers, whatever their truth, are on it or below it.
        children: The nodes below it that a truth or an answer touches: those with most images first.
    """

    path: Path
    images: int
    right: tuple[int, ...]
    wrong: tuple[int, ...]
    said: tuple[int, ...]
    children: tuple[Clade, ...] = ()


def alike(heldout: Sequence[HeldoutResult]) -> list[tuple[HeldoutResult, ...]]:
    """Returns the templates in groups of those that were asked about the same images: one, unless runs were joined."""
    groups: dict[frozenset[tuple[str, str]], list[HeldoutResult]] = {}
    for held in heldout:
        groups.setdefault(frozenset((row.example, row.truth) for row in held.rows), []).append(held)
    return [tuple(group) for group in groups.values()]


def answered(heldout: Sequence[HeldoutResult]) -> list[tuple[SampleResult, ...]]:
    """Returns the rows of each image that counts in the scores: answered, and rated, for every template; a row each."""
    rows = [
        {row.example: row for row in held.rows if row.placement is not None and row.unrated is None} for held in heldout
    ]
    return [
        tuple(each[example] for each in rows)
        for example in (rows[0] if rows else ())
        if all(example in each for each in rows)
    ]


def path_of(text: str) -> Path:
    """Returns the labels of a path that is joined with "/"."""
    return tuple(text.split("/"))


def said_path(row: SampleResult) -> Path:
    """Returns what an answer says, from the root down; of one off the tree, and of one that says nothing, the root."""
    return path_of(row.truth)[:1] if row.off_tree or row.placement is None else path_of(row.placement)


def grow(images: Sequence[tuple[SampleResult, ...]]) -> Clade | None:
    """Returns the tree that truths and answers touch, from its root; None where there is no image.

    Args:
        images: The rows of each image, one row a template; see `answered`.
    """
    if not images:
        return None
    templates = range(len(images[0]))
    counts: Counter[Path] = Counter()
    right, wrong, said = ([Counter[Path]() for _ in templates] for _ in range(3))
    for rows in images:
        truth = _lineage(path_of(rows[0].truth))
        counts.update(truth)
        for i, row in enumerate(rows):
            path = _lineage(said_path(row))
            said[i].update(path)
            shared = sum(one == other for one, other in zip(truth, path, strict=False))
            right[i].update(truth[:shared])
            if row.off_tree or len(path) > shared:
                wrong[i].update(truth[shared:])
    below: dict[Path, list[Path]] = {}
    for node in dict.fromkeys((*counts, *(node for each in said for node in each))):
        below.setdefault(node[:-1], []).append(node)

    def made(node: Path) -> Clade:
        children = sorted(below.get(node, ()), key=lambda child: (-counts[child], child))
        return Clade(
            node,
            counts[node],
            tuple(each[node] for each in right),
            tuple(each[node] for each in wrong),
            tuple(each[node] for each in said),
            tuple(made(child) for child in children),
        )

    return made(below[()][0])


def _lineage(path: Path) -> list[Path]:
    """Returns the paths of a node and all above it, the root's first."""
    return [path[:length] for length in range(1, len(path) + 1)]


def level_names(heldout: Sequence[HeldoutResult], images: Sequence[tuple[SampleResult, ...]]) -> list[str]:
    """Returns what the levels below the root are called, the first below it first: "order", or "level 1".

    Rows do not say what rank a node has. A level has the name of a rank where the ranks of the scores are as many as
    the levels, and as often said and due as those are; else, as on a tree with gaps in its ranks, it is numbered.

    Args:
        heldout: The templates.
        images: The rows of each image, one row a template.
    """
    depths = [[len(path_of(rows[0].truth)) for rows in images]]
    depths += [[len(said_path(rows[i])) for rows in images] for i in range(len(heldout))]
    # How many truths, and how many answers to each template, have a node at each level.
    deepest = max((size for each in depths for size in each), default=1)
    due, *said = ([sum(size > level for size in each) for level in range(1, deepest)] for each in depths)
    names: list[str] = []
    for held, counts in zip(heldout, said, strict=True):
        ranks = [each.scores for each in held.ranks if each.scores.rank != OFF_TREE_RANK]
        beyond = [0] * (deepest - 1 - len(ranks))
        predicted, relevant = [each.n_predicted for each in ranks], [each.n_relevant for each in ranks]
        if predicted + beyond != counts or relevant + beyond != due:
            return [f"level {level}" for level in range(1, deepest)]
        names = max(names, [each.rank for each in ranks], key=len)
    return names
