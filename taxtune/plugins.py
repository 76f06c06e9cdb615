"""What other packages add to taxtune: entry points, found by group and name.

The groups are `taxtune.proposers`, `taxtune.vlms`, `taxtune.measures` and `taxtune.readers`. A
package declares what it adds in its own `pyproject.toml`:

    [project.entry-points."taxtune.proposers"]
    greedy = "my_package.proposers:Greedy"
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from taxtune.errors import TaxtuneError

__all__ = ["find_plugin", "names_near", "plugin_names"]


def plugin_names(group: str) -> list[str]:
    """Returns the names that installed packages add to a group, sorted; nothing is imported."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=group)})


def find_plugin(group: str, name: str) -> Any:
    """Returns the entry point that an installed package adds to a group under a name, or None.

    Args:
        group: The group of entry points, such as "taxtune.proposers".
        name: The name.

    Raises:
        TaxtuneError: If two packages add the same name, or what the name stands for cannot be
            imported.
    """
    from importlib.metadata import entry_points

    points = {point.value: point for point in entry_points(group=group, name=name)}
    if not points:
        return None
    if len(points) > 1:
        raise TaxtuneError(
            f"Several packages register {name!r} for {group}: {', '.join(sorted(points))}.",
            remedy="Uninstall all but one of them.",
        )
    [point] = points.values()
    try:
        return point.load()
    except Exception as error:
        package = point.dist.name if point.dist is not None else "a package"
        raise TaxtuneError(
            f"{name!r}, which {package} registers for {group}, cannot be loaded: {error}.",
            value=point.value,
        ) from error


def names_near(name: str, known: Iterable[str]) -> str:
    """Returns the remedy for a name that is not known: the nearest one that is, and all of them."""
    known = list(known)
    nearest = difflib.get_close_matches(name, known, n=1)
    question = f"Did you mean {nearest[0]!r}? " if nearest else ""
    return f"{question}Known names: {', '.join(known)}."
