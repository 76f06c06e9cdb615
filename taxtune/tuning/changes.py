"""What has changed since a run was begun, in words: images, labels, the tree and the settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from taxtune.tuning.experiment import Experiment

__all__ = ["Inputs", "changes_in_words", "contents_of"]

_HASH = re.compile(r"[0-9a-f]{16,64}")
# Of more images or nodes no list is kept, and a change is told without their names.
_MOST = 20_000
_NAMED = 3
# Contents, of which the identity has hashes, that follow from images, sizes, seed and tree.
_FOLLOWING = ("tuning images", "held-out images", "context", "weights")


class Inputs(NamedTuple):
    """What a run is about.

    Attributes:
        identity: Everything that must not change, by dotted key; contents as hashes.
        contents: The lists behind the hashes, by what they are; see `contents_of`.
    """

    identity: Mapping[str, Any]
    contents: Mapping[str, Mapping[str, Any]] = {}


def contents_of(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """Returns the lists of images and nodes that a run notes when it begins, to tell a change later.

    Returns:
        "images": id and label of each labelled image, by its content hash (its id where images are
        read as they are drawn). "nodes": the aliases of each node of the tree, by its path. Either
        is left out where there are more than 20,000.
    """
    contents: dict[str, dict[str, Any]] = {}
    examples = experiment.examples
    if len(examples) <= _MOST:
        images = {example.sha256 or example.id: example for example in examples}
        contents["images"] = {key: [one.id, one.label] for key, one in images.items()}
    tree = experiment.taxonomy
    if len(tree) <= _MOST:
        nodes = range(len(tree))
        contents["nodes"] = {"/".join(tree.path(node)): tree.names(node)[1:] for node in nodes}
    return contents


def changes_in_words(before: Inputs, now: Inputs) -> list[str]:
    """Returns a line for each thing that has changed; none where the run is about the same.

    Photos and labels come first, then the tree, then the settings.
    """
    keys = []
    for key in sorted(before.identity.keys() | now.identity.keys()):
        if before.identity.get(key) != now.identity.get(key):
            keys.append(key)
    if not keys:
        return []
    nodes = _node_lines(before.contents.get("nodes"), now.contents.get("nodes"))
    lines = _image_lines(before.contents.get("images"), now.contents.get("images")) + nodes
    is_explained = bool(lines)
    for key in keys:
        if key.startswith(("recipe.data.", "recipe.seed", "taxonomy")):
            is_explained = True
    for key in keys:
        # The model's own word for a setting of the recipe says nothing new.
        is_said = f"recipe.{key}" in keys or (key == "taxonomy" and bool(nodes))
        if is_said or (is_explained and key in _FOLLOWING):
            continue
        change = _change(before.identity.get(key), now.identity.get(key))
        lines.append(f"{key.removeprefix('recipe.')}: {change}")
    return lines


def _image_lines(
    before: Mapping[str, Sequence[str]] | None, now: Mapping[str, Sequence[str]] | None
) -> list[str]:
    """Returns the changes of the labelled images; none where either list was not kept."""
    if before is None or now is None:
        return []
    gone = {before[key][0]: key for key in before.keys() - now.keys()}
    new: list[str] = []
    redone: list[str] = []
    relabelled = []
    for key, (name, label) in now.items():
        if key not in before:
            (redone if name in gone else new).append(name)
            continue
        former, was = before[key]
        if label != was:
            relabelled.append(f"{former}: {was} → {label}")
    missing = [name for name, _ in before.values() if name in gone and name not in redone]
    return [
        *_line(new, "new image", "new images"),
        *_line(missing, "image gone", "images gone"),
        *_line(redone, "image with other content", "images with other content"),
        *_line(relabelled, "label changed", "labels changed"),
    ]


def _node_lines(
    before: Mapping[str, Sequence[str]] | None, now: Mapping[str, Sequence[str]] | None
) -> list[str]:
    """Returns the changes of the tree; none where either list was not kept."""
    if before is None or now is None:
        return []
    renamed = []
    for path, names in now.items():
        former = before.get(path, names)
        if sorted(names) != sorted(former):
            renamed.append(f"{path}: {_names(former)} → {_names(names)}")
    return [
        *_line([path for path in now if path not in before], "new node", "new nodes"),
        *_line([path for path in before if path not in now], "node gone", "nodes gone"),
        *_line(renamed, "node with other aliases", "nodes with other aliases"),
    ]


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _line(items: Sequence[str], one: str, many: str) -> list[str]:
    """Returns a line that counts things and names the first three, none where there are none."""
    if not items:
        return []
    named = "; ".join(items[:_NAMED])
    if len(items) > _NAMED:
        named += f"; and {len(items) - _NAMED:,} more"
    return [f"{len(items):,} {one if len(items) == 1 else many}: {named}"]


def _change(before: Any, now: Any) -> str:
    if _HASH.fullmatch(str(before)) and _HASH.fullmatch(str(now)):
        return "the content has changed"
    texts = []
    for value in (before, now):
        text = json.dumps(value, ensure_ascii=False)
        texts.append(text if len(text) <= 80 else text[:79] + "…")
    return f"was {texts[0]}, is {texts[1]}"
