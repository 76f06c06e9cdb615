"""Names of image files as tables have them: written on any system, in either Unicode form."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

__all__ = ["find_file", "match_names"]

_WINDOWS = re.compile(r"[A-Za-z]:/|//")
#: Names that are the same on every system.
_PLAIN = re.compile(r"[^\\:]*", re.ASCII)


def find_file(folder: Path, name: str) -> Path:
    r"""Returns the file of a name, as it is written or as another system writes it.

    A backslash may stand for a slash, a letter with an accent for one composed or decomposed, and
    of a full path on Windows the longest end that is there counts.
    """
    path = folder / name
    if (name.isascii() and _PLAIN.fullmatch(name)) or os.path.exists(path):
        return path
    key = _key(name)
    parts = PurePosixPath(key).parts
    ends = range(1, len(parts)) if _WINDOWS.match(key) else [0]
    found = (_spelled(folder, parts[end:]) for end in ends)
    return next((file for file in found if os.path.exists(file)), path)


def match_names(names: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Returns by name which of the known names means the same image.

    That is the one that is written alike but for slashes and Unicode form. Else it is the only one
    of which one is the end of the other ("photos/1.jpg" and "1.jpg"), or else for a full path on
    Windows the only one with the same last part; if no other name means it.
    """
    keys = {_key(name): name for name in known}
    by_last = defaultdict(list)
    for key in keys:
        by_last[_last(key)].append(key)
    found = {}
    for name in names:
        key = _key(name)
        near = [key] if key in keys else by_last[_last(key)]
        alike = [other for other in near if _is_end(key, other) or _is_end(other, key)]
        alike = alike or [other for other in near if _WINDOWS.match(key) or _WINDOWS.match(other)]
        if len(alike) == 1:
            found[name] = keys[alike[0]]
    times = Counter(found.values())
    return {
        name: other
        for name, other in found.items()
        if times[other] == 1 or _key(name) == _key(other)
    }


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", name.replace("\\", "/")).removeprefix("./")


def _last(key: str) -> str:
    return key.rsplit("/", 1)[-1]


def _spelled(folder: Path, parts: Iterable[str]) -> Path:
    """Returns the file of some parts, each in the Unicode form that is there."""
    found = folder
    for part in parts:
        forms = (part, unicodedata.normalize("NFC", part), unicodedata.normalize("NFD", part))
        there = [found / form for form in forms if os.path.exists(found / form)]
        found = there[0] if there else found / part
    return found


def _is_end(key: str, other: str) -> bool:
    return f"/{other}".endswith(f"/{key}")
