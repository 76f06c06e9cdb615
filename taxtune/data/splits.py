"""Drawing the tuning and the held-out split."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

from taxtune.data.example import Example
from taxtune.data.examples import distinct, note_repeated
from taxtune.data.grouping import joined, note_copies
from taxtune.errors import DataError
from taxtune.images import check_images

__all__ = ["CALIBRATION_FROM", "Splits", "remaining", "split", "split_sizes"]

#: With fewer images none are left for calibration by default: a promised hP of 0.98 takes 37 of them
#: at least.
CALIBRATION_FROM = 150
# Most images of splits whose sizes nobody gives.
_MOST_TUNING = 400
_MOST_HELDOUT = 200


def split_sizes(
    n_photos: int, tuning: float | None = None, heldout: float | None = None
) -> tuple[int, int]:
    """Returns the sizes of the tuning and the held-out split, of which either may be given.

    A size is a number of images (an int), or a share of them (a float in (0, 1)), which is rounded
    down, but at least 1. Shares that sum to 1 leave no image over. By default two fifths of the
    images are for tuning and seven twentieths held out; of fewer than 150, three fifths (100 can then
    prove an hP of 0.98) and the others.

    Args:
        n_photos: The number of different images, at least 1.
        tuning: Size of the tuning split. None for the default, or what `heldout` leaves, at most
            400.
        heldout: Size of the held-out split. None for the default, or what `tuning` leaves, at most
            200.
    """
    if tuning is None and heldout is None:
        if n_photos < CALIBRATION_FROM:
            return split_sizes(n_photos, 0.6, 0.4)
        n_tuning, n_heldout = split_sizes(n_photos, 0.4, 0.35)
        return min(_MOST_TUNING, n_tuning), min(_MOST_HELDOUT, n_heldout)
    if tuning is None:
        n_heldout = _count(heldout, n_photos)
        return min(_MOST_TUNING, max(n_photos - n_heldout, 1)), n_heldout
    n_tuning = _count(tuning, n_photos)
    left = max(n_photos - n_tuning, 1)
    if heldout is None:
        return n_tuning, min(_MOST_HELDOUT, left)
    if _exact(tuning) + _exact(heldout) == 1:  # two shares
        return n_tuning, left
    return n_tuning, _count(heldout, n_photos)


def _count(size: float | None, n_photos: int) -> int:
    """Returns the number of images of a size, which may be a share of them; 0 for None."""
    if isinstance(size, float):
        return max(1, int(_exact(size) * n_photos))
    return size or 0


def _exact(size: float) -> Fraction:
    """Returns a size as it is written, so that 0.35 of 180 images are 63 and not 62.99."""
    return Fraction(str(size))


@dataclass(frozen=True, slots=True)
class Splits:
    """Two sets of examples that share no image and no group of images.

    Attributes:
        tuning: What templates are tried on.
        heldout: What the baseline and the winner are compared on, once, at the end.
    """

    tuning: tuple[Example, ...]
    heldout: tuple[Example, ...]


def split(
    examples: Sequence[Example],
    *,
    tuning: int,
    heldout: int,
    seed: int,
    may_be_short: bool = False,
    root: int | None = None,
) -> Splits:
    """Draws a tuning and a held-out split, stratified by target and disjoint by image and group.

    All groups of images are put in one order: one group of every target, then a second of every
    target that has two, and so on, in an order that depends on the seed and on each example's `id`
    and target alone; a group has the target of its first image. The tuning split takes the front of
    it and the held-out split what follows. What goes over the end of a group's split is in none.
    The tuning split begins with one image of each of its groups, so that a few show most.
    Images are read and hashed as they are drawn; content that was drawn before is passed over, so
    that a copy of a tuning image is never in the held-out split.

    Args:
        examples: The examples to draw from.
        tuning: Size of the tuning split, in images.
        heldout: Size of the held-out split.
        seed: Any integer; another seed gives another draw.
        may_be_short: Whether the held-out split may have fewer images, where groups leave no more.
        root: The target of images that show nothing, which are spread evenly over the order: they
            may be most of them, and are as often in each split as among all.

    Raises:
        DataError: If there are too few different images, or the same image has two labels.
        ImageError: If images that are drawn are missing or unreadable (all are listed).
    """
    if tuning < 0 or heldout < 0 or tuning + heldout == 0:
        message = f"The splits cannot have {tuning} and {heldout} images."
        raise DataError(message, remedy="Give sizes of at least 1.")
    wanted = tuning + heldout
    are_read = all(example.sha256 for example in examples)
    full: set[str] = set()  # the groups of a split that has all its images
    order = (example for example in _stratified(examples, seed, root) if example.group not in full)
    taken: list[Example] = []
    repeated: list[Example] = []
    first: list[Example] = []
    others: list[Example] = []
    while (missing := wanted - len(first) - len(others)) > 0:
        batch = list(itertools.islice(order, missing))
        if not batch and may_be_short and others:
            break
        if not batch:
            raise _too_few(tuning, heldout, wanted - missing, taken)
        taken += _checked(batch)
        different, repeated = distinct(taken)
        # Of images that were read before, the copies are known.
        found = different if are_read else joined(different)
        first = found[:tuning]
        used = _groups(first)
        others = [example for example in found[tuning:] if example.group not in used][:heldout]
        if len(first) == tuning:
            full |= used
    note_repeated(repeated)
    if not are_read:
        note_copies(found)
    return Splits(tuning=_in_rounds(first), heldout=tuple(others))


def _in_rounds(examples: Sequence[Example]) -> tuple[Example, ...]:
    """Returns examples in rounds, each of one image of every group that has any left."""
    taken: Counter[str] = Counter()
    rounds: dict[int, list[Example]] = {}
    for example in examples:
        rounds.setdefault(taken[example.group], []).append(example)
        if example.group:
            taken[example.group] += 1
    return tuple(example for number in sorted(rounds) for example in rounds[number])


def _groups(examples: Iterable[Example]) -> set[str]:
    """Returns the names of the groups of examples."""
    return {example.group for example in examples} - {""}


def remaining(
    examples: Sequence[Example],
    used: Sequence[Example],
    *,
    most: int,
    seed: int,
) -> tuple[Example, ...]:
    """Returns examples of no image and no group that was used, drawn at random from the rest.

    Unlike the splits they are not stratified: labels occur among them as often as among the rest.

    Args:
        examples: The examples to draw from.
        used: Examples whose images, groups, and copies are passed over; with their content hashes.
        most: Most examples to return.
        seed: Any integer; another seed gives another order.

    Raises:
        DataError: If the same image has two labels.
        ImageError: If images that are drawn are missing or unreadable (all are listed).
    """
    gone = {example.sha256 for example in used}
    names = {example.id for example in used}
    # Copies that were found as they were drawn have joined two groups of the source.
    used_groups = _groups(used)
    used_groups |= _groups(example for example in examples if example.id in names)
    unused_groups = [example for example in examples if example.group not in used_groups]
    order = iter(_ranked(unused_groups, seed, "remaining"))
    unused: list[Example] = []
    while len(unused) < most:
        batch = list(itertools.islice(order, most - len(unused)))
        if not batch:
            break
        unused += [example for example in _checked(batch) if example.sha256 not in gone]
        unused, _ = distinct(unused)
        both = joined([*used, *unused])
        used_groups = _groups(both[: len(used)])
        unused = [example for example in both[len(used) :] if example.group not in used_groups]
    return tuple(unused)


def _checked(batch: Sequence[Example]) -> list[Example]:
    """Returns examples with what is kept of their files, which are all decoded."""
    unread = [example.image for example in batch if not example.sha256]
    checked = check_images(unread) if unread else {}
    return [replace(e, **checked[e.image]._asdict()) if e.image in checked else e for e in batch]


def _stratified(examples: Sequence[Example], seed: int, root: int | None) -> list[Example]:
    """Returns the examples in rounds, one group of every target that has any left."""
    groups: dict[str, list[Example]] = {}
    for place, example in enumerate(_ranked(examples, seed, "example")):
        groups.setdefault(example.group or f"\0{place}", []).append(example)
    taken: Counter[int] = Counter()
    rounds: list[tuple[int, int, list[Example]]] = []
    for members in groups.values():
        target = members[0].target
        rounds.append((taken[target], target, members))
        taken[target] += 1

    @cache
    def rank(number: int, target: int) -> bytes:
        return _rank(seed, f"round {number}", str(target))

    rounds.sort(key=lambda one: (one[0], rank(one[0], one[1]), one[1]))
    parts = [[one for one in rounds if (one[1] == root) is empty] for empty in (False, True)]
    spread = [((i + 0.5) / len(part), one[2]) for part in parts for i, one in enumerate(part)]
    spread.sort(key=lambda one: one[0])
    return [example for _, members in spread for example in members]


def _ranked(examples: Sequence[Example], seed: int, what: str) -> list[Example]:
    """Returns examples in the order of a draw: groups at random, and the images of each at random.

    A group's place is that of one image alone, so that large ones are not sooner drawn than small
    ones. Ranking by a hash, not shuffling: adding an image leaves the order of the others as it was.
    """
    least: dict[str, str] = {}
    for example in examples:
        key = example.group or example.id
        least[key] = min(example.id, least.get(key, example.id))

    def rank(example: Example) -> tuple[bytes, bytes]:
        of_group = least[example.group or example.id]
        return _rank(seed, what, of_group), _rank(seed, what, example.id)

    return sorted(examples, key=rank)


def _rank(seed: int, what: str, name: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{what}\0{name}".encode("utf-8", "surrogatepass")).digest()


def _too_few(tuning: int, heldout: int, there: int, examples: Sequence[Example]) -> DataError:
    groups = len(_groups(examples))
    grouped = f" A group is in one split alone: there are {groups:,}." if groups else ""
    total = tuning + heldout
    fitting = max(1, round(there * tuning / total)) if tuning else 0
    example = f", for example {fitting} and {there - fitting}" if there >= 2 else ""
    remedy = f"Ask for smaller splits (at most {there} in all{example}) or add images."
    if groups:  # which sizes there are depends on those of the groups
        remedy = "Ask for a smaller tuning split, or add images of other groups."
    verb = "is" if there == 1 else "are"
    return DataError(
        f"The tuning split of {tuning} and the held-out split of {heldout} need {total} different "
        f"images, but there {verb} {there}.{grouped}",
        remedy=remedy,
    )
