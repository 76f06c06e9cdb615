"""An icicle of a tree: what is drawn of it, and where.

Levels go from left to right and heights are proportional to numbers of images. What would be too thin to read is drawn
together with its siblings, and a chain of nodes in which all numbers are the same as one box, so that a tree of
thousands of leaves, or one of fifteen levels, stays readable and loses no number that is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from taxtune.report.clades import Clade

__all__ = ["Box", "Icicle", "lay_out"]

#: The least height of a box whose text can be read, and the height of the whole.
LINE, LOWEST, HIGHEST = 17.0, 48.0, 900.0
_ROUNDING = 0.01


@dataclass(frozen=True, slots=True)
class Box:
    """A node, a chain of nodes with the same numbers, or several siblings that are too small to be drawn alone.

    Attributes:
        labels: The labels of the chain, the broadest first; of several siblings none.
        members: The nodes whose numbers these are: the last of the chain, or the siblings.
        partial: Whether there are other siblings, which are drawn alone.
        level: The depth at which it begins, 0 at the root.
        end: The depth at which it ends, that one included.
        top: Where it begins from above, in pixels.
        height: Its height in pixels.
        images: Images whose truth is in it.
        right: By template, those answered right down to its last level.
        wrong: By template, those answered with something else.
        said: By template, the answers in it, whatever their truth.
        children: The boxes of the next level that hold images.
        unseen: Nodes of the next level that answers name and no image shows.
    """

    labels: tuple[str, ...]
    members: tuple[Clade, ...]
    partial: bool
    level: int
    end: int
    top: float
    height: float
    images: int
    right: tuple[int, ...]
    wrong: tuple[int, ...]
    said: tuple[int, ...]
    children: tuple[Box, ...] = ()
    unseen: tuple[Clade, ...] = field(default=(), repr=False)

    def walk(self) -> Iterator[Box]:
        """Yields this box and all below it, in the order in which a table lists them."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Icicle:
    """A drawn tree.

    Attributes:
        root: The box of the root.
        columns: The depth at which each column begins: levels at which no box does have none.
        height: The height in pixels.
    """

    root: Box
    columns: tuple[int, ...]
    height: float

    def column(self, level: int) -> int:
        """Returns the first column at or beyond a depth."""
        return sum(each < level for each in self.columns)


def lay_out(root: Clade) -> Icicle:
    """Returns what is drawn of a tree, with sizes in pixels.

    Args:
        root: The tree, with at least one image.
    """
    least = min(_leaves(root))
    height = min(max(LINE * root.images / least, LOWEST), HIGHEST)
    box = _box((root,), partial=False, top=0.0, scale=height / root.images)
    return Icicle(box, tuple(sorted({each.level for each in box.walk()})), height)


def _leaves(clade: Clade) -> Iterator[int]:
    shown = [child for child in clade.children if child.images]
    if not shown:
        yield clade.images
    for child in shown:
        yield from _leaves(child)


def _box(members: Sequence[Clade], *, partial: bool, top: float, scale: float) -> Box:
    """Returns the box of a node or of several siblings, with all that is drawn of what is below."""
    images, level = sum(each.images for each in members), len(members[0].path) - 1
    right, wrong, said = (_sums([getattr(each, name) for each in members]) for name in ("right", "wrong", "said"))
    below = [child for each in members for child in each.children]
    seen = sorted((child for child in below if child.images), key=lambda child: -child.images)
    children, start = [], top
    for group, other in _groups(seen, scale, together=len(members) > 1):
        children.append(_box(group, partial=other, top=start, scale=scale))
        start += children[-1].height
    labels = members[0].path[-1:] if len(members) == 1 else ()
    numbers = (images, right, wrong, said)
    unseen = tuple(child for child in below if not child.images)
    box = Box(labels, tuple(members), partial, level, level, top, images * scale, *numbers, tuple(children), unseen)
    only = children[0] if len(children) == 1 and not unseen and len(children[0].members) == len(members) else None
    if only is None or (only.images, only.right, only.wrong, only.said) != numbers:
        return box
    return replace(only, labels=labels + only.labels, level=level, partial=partial)


def _groups(seen: Sequence[Clade], scale: float, *, together: bool) -> list[tuple[tuple[Clade, ...], bool]]:
    """Returns which siblings are drawn together, and for each group whether others are drawn alone."""
    thin = [together or child.images * scale < LINE - _ROUNDING for child in seen]
    if sum(thin) < 2:
        return [((child,), False) for child in seen]
    small = tuple(child for child, is_thin in zip(seen, thin, strict=True) if is_thin)
    large = [((child,), False) for child, is_thin in zip(seen, thin, strict=True) if not is_thin]
    return [*large, (small, bool(large))]


def _sums(counts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sum(each) for each in zip(*counts, strict=True))
