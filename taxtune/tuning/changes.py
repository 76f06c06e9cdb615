"""What has changed since a run was begun, in words: images, labels, the tree and the settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taxtune.tuning.experiment import Experiment

__all__ = ["changes_in_words", "contents_of"]

_HASH = re.compile(r"[0-9a-f]{16,64}")
# Of more images or nodes no list is kept, and a change is told without their names.
_MOST = 20_000
_NAMED = 3
# Lists, which explain changes of hashes; on their own they are no change.
_IMAGES = "all images"
_NODES = "nodes"
_ARBITER = "mapper.arbiter"
# Hashes that follow from images, sizes, seed and tree.
_FOLLOWING = ("tuning images", "held-out images", "context", "weights")


def contents_of(experiment: Experiment) -> dict[str, dict[str, tuple[str, str]]]:
    """Returns the lists behind the hashes of an identity, from which a change is told.

    Returns:
        Name and label of each labelled image, by its content hash (its id where images are read as
        they are drawn), and path and aliases of each node of the tree, by its path. Either is left
        out where there are more than 20,000.
    """
    contents: dict[str, dict[str, tuple[str, str]]] = {}
    if len(experiment.examples) <= _MOST:
        images = {}
        for example in experiment.examples:
            images[example.sha256 or example.id] = (example.id, example.label)
        contents[_IMAGES] = images
    tree = experiment.taxonomy
    if len(tree) <= _MOST:
        nodes = {}
        for node in range(len(tree)):
            path = "/".join(tree.path(node))
            nodes[path] = (path, ", ".join(sorted(tree.names(node)[1:])) or "no aliases")
        contents[_NODES] = nodes
    return contents


def changes_in_words(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns a line for each thing that has changed; none where the run is about the same.

    Photos and labels come first, then the tree, then the settings.

    Args:
        before: The identity of the run, with its lists as far as they were kept.
        now: That of today.
    """
    keys = []
    for key in sorted(before.keys() | now.keys()):
        if key not in (_IMAGES, _NODES) and before.get(key) != now.get(key):
            keys.append(key)
    if not keys:
        return []
    nodes = _differences(before.get(_NODES), now.get(_NODES), "node")
    lines = _differences(before.get(_IMAGES), now.get(_IMAGES), "image") + nodes
    explaining = ("recipe.data.", "recipe.seed", "taxonomy")
    is_explained = bool(lines) or any(key.startswith(explaining) for key in keys)
    for key in keys:
        # The model's own word for a setting of the recipe says nothing new.
        is_said = f"recipe.{key}" in keys or (key == "taxonomy" and bool(nodes))
        # Nor do the many words of a chat model for its name.
        is_said |= key.startswith(f"{_ARBITER}.") and f"recipe.{_ARBITER}" in keys
        if is_said or (is_explained and key in _FOLLOWING):
            continue
        change = _change(before.get(key), now.get(key))
        lines.append(f"{key.removeprefix('recipe.')}: {change}")
    return lines


def _differences(
    before: Mapping[str, Sequence[str]] | None, now: Mapping[str, Sequence[str]] | None, kind: str
) -> list[str]:
    """Returns a line for what is new, gone and changed; none where either list was not kept.

    Args:
        before: The things of a kind, each with its name and what may change of it.
        now: Those of today.
        kind: What they are, in a word.
    """
    if before is None or now is None:
        return []
    changed = []
    for key in now:
        name, was = before.get(key, now[key])
        if now[key][1] != was:
            changed.append(f"{name}: {was} → {now[key][1]}")
    new = [name for key, (name, _) in now.items() if key not in before]
    gone = [name for key, (name, _) in before.items() if key not in now]
    lines = []
    label = "label" if kind == "image" else kind
    for names, word, line in (
        (new, kind, "new {}"),
        (gone, kind, "{} gone"),
        (changed, label, "{} changed"),
    ):
        if names:
            things = line.format(word if len(names) == 1 else f"{word}s")
            lines.append(f"{len(names):,} {things}: {_first(names)}")
    return lines


def _first(names: Sequence[str]) -> str:
    named = "; ".join(names[:_NAMED])
    more = len(names) - _NAMED
    return f"{named}; and {more:,} more" if more > 0 else named


def _change(before: Any, now: Any) -> str:
    if _HASH.fullmatch(str(before)) and _HASH.fullmatch(str(now)):
        return "the content has changed"
    texts = []
    for value in (before, now):
        text = json.dumps(value, ensure_ascii=False)
        texts.append(text if len(text) <= 80 else text[:79] + "…")
    return f"was {texts[0]}, is {texts[1]}"
