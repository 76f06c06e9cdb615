"""Examples: images with the node that they show, from any of the sources that taxtune reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from taxtune.data.folder import read_folder
from taxtune.data.images import DEFAULT_MAX_PIXELS, check_images, is_image_data, store_image
from taxtune.data.inat21 import read_inat21
from taxtune.data.rows import read_rows
from taxtune.data.sources import Record, Source, find_kind, source_name
from taxtune.errors import DataError, ImageError, TaxonomyError, shortened
from taxtune.progress import note
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Example", "distinct", "load_examples", "merge_duplicates"]

# In place of a node: the label is on the whole tree, outside the part that counts.
_OUTSIDE = "outside"

# Looking for near names costs tens of milliseconds a label on a large tree.
_SUGGESTIONS = 20


@dataclass(frozen=True, slots=True)
class Example:
    """An image and the node that it shows.

    Attributes:
        id: The image's name as the source writes it; unique among the examples of a source.
        image: The image file.
        label: The label as the source writes it.
        target: Number of the node that the label names on the taxonomy.
        sha256: SHA-256 of the image file's bytes. Empty until the file was read to its end and found good, which for
            large sources is when the example is drawn into a split.
    """

    id: str
    image: Path
    label: str
    target: int
    sha256: str = ""


def load_examples(
    source: Source,
    taxonomy: Taxonomy,
    *,
    kind: str | None = None,
    images: str | Path | None = None,
    image_column: str = "image",
    label_column: str = "label",
    folder: str | Path | None = None,
    domain: int | None = None,
    part: Domain | None = None,
    check: Literal["all", "drawn"] | None = None,
    max_pixels: int = DEFAULT_MAX_PIXELS,
) -> list[Example]:
    """Reads a source of labelled images and finds the node of every label.

    Args:
        source: One of these:

            - a path: a manifest (CSV, TSV or JSONL with an image and a label a row), a folder with a sub-folder a
              class, or iNaturalist's COCO-style JSON;
            - a list of pairs (image, label);
            - a pandas `DataFrame`, or a Hugging Face `Dataset`, with a column of images and one of labels.

            Images in lists, frames and data sets are paths, PIL images, or the bytes of image files (also as the value
            of "bytes" in an object, as data sets store them).
        taxonomy: The tree that the labels are on. A label may be a node's label, an alias, or its path with slashes.
        kind: "manifest", "folder" or "inat21" for a path; by default what the path is: a folder, a file that ends in
            .json (iNaturalist's), or a manifest.
        images: The folder that image names are relative to; by default that of the manifest or JSON file, and for what
            is not a path the current one.
        image_column: Column of the images.
        label_column: Column of the labels.
        folder: Where images that are in no file are written, each once, under a name made of its content. Needed if
            there are any.
        domain: Keep only examples whose node is this one or below it.
        part: What `taxonomy` is a part of. Examples whose label is elsewhere on the whole tree are left out.
        check: "all" reads every image to its end at once, so that all unreadable ones are named; "drawn" leaves that to
            `taxtune.data.splits.split`, for those it draws. By default "drawn" for "inat21" and "all" otherwise.
        max_pixels: Largest width times height of an image.

    Returns:
        The examples, in the order of the source. An image that is listed twice with the same label is kept once.

    Raises:
        DataError: If the source is malformed, or labels are not on the taxonomy (all are listed, with the nearest
            names), or an image has two labels, or there are images in no file and `folder` is not given.
        ImageError: If images are missing or unreadable (all are listed).
    """
    if isinstance(source, str):
        source = Path(source)
    if isinstance(source, Path):
        kind = find_kind(source, kind)
    elif kind is not None:
        raise DataError("`kind` applies only to data given as a path.", value=kind, remedy="Leave `kind` out.")
    name = source_name(source)
    root = None if images is None else Path(images)
    if root is not None and not root.is_dir():
        raise DataError("The folder of the images does not exist.", file=root, remedy="Check `images`.")
    if isinstance(source, Path) and kind == "folder":
        if root is not None:
            raise DataError(
                "Data of the kind 'folder' takes no `images`: the images are in the folder itself.", file=source
            )
        records = read_folder(source)
    elif isinstance(source, Path) and kind == "inat21":
        records = read_inat21(source, images=root)
    else:
        records = read_rows(source, images=root, image_column=image_column, label_column=label_column)
    if not records:
        raise DataError("There are no images in the data.", file=name)

    placed = _place(records, taxonomy, part, source=name)
    if domain is not None:
        placed = _below(placed, taxonomy, domain, source=name)
    examples = _examples(placed, None if folder is None else Path(folder), source=name)
    if check is None:
        check = "drawn" if kind == "inat21" else "all"
    if check == "all":
        rows: dict[Path, str] = {}
        if kind in (None, "manifest"):
            short = source.name if isinstance(source, Path) else name
            for example, (record, _) in zip(examples, placed, strict=True):
                rows.setdefault(example.image, f"{short}, {record.where}")
        hashes = check_images((e.image for e in examples), max_pixels=max_pixels, named_in=rows)
        examples = [replace(e, sha256=hashes[e.image]) for e in examples]
    return merge_duplicates(examples, taxonomy, source=name)


def _examples(placed: Sequence[tuple[Record, int]], folder: Path | None, *, source: str) -> list[Example]:
    """Returns the examples of records and their nodes; images that are in no file are written to the folder."""
    examples: list[Example] = []
    faults: list[str] = []
    for record, node in placed:
        if isinstance(record.image, str) and record.file is not None:
            examples.append(Example(record.image, record.file, record.label, node))
            continue
        value = record.image() if callable(record.image) else None
        path = value.get("path") if isinstance(value, dict) else None
        if is_image_data(value):
            if folder is None:
                raise DataError(
                    "Some images are not stored in files.",
                    file=source,
                    remedy="Give `folder`, the folder to write them to.",
                )
            try:
                file = store_image(value, folder)
            except ImageError as error:
                faults.append(f"  {record.where}: {error}")
                continue
            examples.append(Example(file.name, file, record.label, node))
        elif isinstance(path, str):
            examples.append(Example(path, Path(path), record.label, node))
        else:
            faults.append(f"  {record.where}: no image")
    if faults:
        raise ImageError(
            f"{len(faults)} of {len(placed)} images cannot be used:\n" + "\n".join(shortened(faults)), file=source
        )
    return examples


def merge_duplicates(
    examples: Iterable[Example],
    taxonomy: Taxonomy | None = None,
    *,
    source: str | None = None,
) -> list[Example]:
    """Keeps one of the examples that show the same image, and notes how many others there are; see `distinct`."""
    kept, repeated = distinct(examples, source=source)
    if repeated:
        note(
            f"{_count(repeated, 'image')} listed more than once with the same label: {_some(repeated)}. Each is "
            f"used once."
        )
    return kept


def distinct(examples: Iterable[Example], *, source: str | None = None) -> tuple[list[Example], list[str]]:
    """Returns one of the examples that show the same image, and the ids of the others.

    Images are the same that have the same content where it is known, or else are the same file.

    Raises:
        DataError: If the same image has two labels; it names all such pairs.
    """
    first: dict[str, Example] = {}
    kept: list[Example] = []
    conflicts: list[str] = []
    repeated: list[str] = []
    for example in examples:
        key = example.sha256 or str(example.image)
        earlier = first.setdefault(key, example)
        if earlier is example:
            kept.append(example)
        elif earlier.target != example.target:
            conflicts.append(f"  {earlier.id} is {earlier.label!r}, {example.id} is {example.label!r}")
        else:
            repeated.append(example.id)
    if conflicts:
        raise DataError(
            "The same image has two labels:\n" + "\n".join(shortened(conflicts)) + "\nKeep one row of each pair.",
            file=source,
        )
    return kept, repeated


def _place(
    records: Sequence[Record], taxonomy: Taxonomy, part: Domain | None, *, source: str
) -> list[tuple[Record, int]]:
    nodes: dict[tuple[str | tuple[str, ...], ...], int | str] = {}
    outside: dict[str, int] = {}
    rows: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    placed: list[tuple[Record, int]] = []
    for record in records:
        node = nodes.get(record.references)
        if node is None:
            node = _lookup(record.references, taxonomy)
            if node == "" and part is not None:
                node = _lookup_on_whole(record.references, part)
            nodes[record.references] = node
        if node == _OUTSIDE:
            outside[record.label] = outside.get(record.label, 0) + 1
        elif isinstance(node, str):
            rows.setdefault(record.label, []).append(record.where)
            reasons[record.label] = node
        else:
            placed.append((record, node))
    if rows:
        raise _unknown_labels(rows, reasons, taxonomy, source)
    if outside and part is not None:
        left_out = sum(outside.values())
        if not placed:
            raise DataError(
                f"None of the {left_out} images shows anything below {part.label!r}, the root of the selected part "
                "of the taxonomy.",
                file=source,
                remedy="Choose another root.",
            )
        note(
            f"{left_out} of {len(records)} images are outside {part.label!r} and cannot be scored on it; they are left "
            f"out: {_some(sorted(outside))}."
        )
    return placed


def _lookup_on_whole(references: tuple[str | tuple[str, ...], ...], part: Domain) -> int | str:
    """Returns the node in the part of a reference that the whole tree has, or `_OUTSIDE`, or "" if it has none."""
    node = _lookup(references, part.full)
    if node == "":
        return ""
    inside = part.inside(node) if isinstance(node, int) else None
    return _OUTSIDE if inside is None else inside


def _lookup(references: tuple[str | tuple[str, ...], ...], taxonomy: Taxonomy) -> int | str:
    """Returns the node of the first reference that is on the taxonomy, or why none is."""
    reason = ""
    for reference in references:
        if not isinstance(reference, str):
            paths = [reference]
        elif taxonomy.find(reference):
            try:
                return taxonomy.resolve(reference)
            except TaxonomyError as error:  # several nodes have this name; the error lists their paths
                leaf = _leaf_of_its_group(reference, taxonomy)
                if leaf is not None:
                    return leaf
                reason = reason or f"{error.message} {error.remedy or ''}".strip()
                continue
        elif reference in taxonomy.by_id:
            return taxonomy.by_id[reference]
        else:
            parts = tuple(part.strip() for part in reference.split("/") if part.strip())
            paths = [parts] if len(parts) > 1 else []
        for candidate in paths:
            try:
                return taxonomy.resolve(candidate)
            except TaxonomyError:
                continue
    return reason


def _leaf_of_its_group(name: str, taxonomy: Taxonomy) -> int | None:
    """Returns the leaf called so if all other nodes called so are above it: the class "pizza" in the group "pizza"."""
    nodes = [i for i in taxonomy.find(name) if taxonomy.labels[i].casefold() == name.strip().casefold()]
    lowest = max(nodes, key=lambda i: int(taxonomy.depth[i]), default=None)
    if lowest is None or len(taxonomy.children(lowest)) or not taxonomy.is_ancestor(nodes, lowest).all():
        return None
    return lowest


def _unknown_labels(rows: dict[str, list[str]], reasons: dict[str, str], taxonomy: Taxonomy, source: str) -> DataError:
    lines: list[str] = []
    for number, (label, where) in enumerate(rows.items()):
        places = ", ".join(where[:5]) + (f" and {len(where) - 5} more" if len(where) > 5 else "")
        line = f"  {label!r} ({places})"
        if reasons[label]:
            line += f": {reasons[label]}"
        elif number < _SUGGESTIONS:
            name = re.sub(r"[_\s]+", " ", label.rsplit("/", 1)[-1])
            meant = taxonomy.suggest(name)
            line += f": {meant[0].lower()}{meant[1:]}"
        lines.append(line)
    return DataError(
        f"{len(rows)} {'label names' if len(rows) == 1 else 'labels name'} no single node of the taxonomy:\n"
        + "\n".join(shortened(lines))
        + "\nCorrect the labels, or add them to the taxonomy as nodes or aliases.",
        file=source,
    )


def _below(
    placed: list[tuple[Record, int]], taxonomy: Taxonomy, domain: int, *, source: str
) -> list[tuple[Record, int]]:
    inside = taxonomy.is_ancestor(domain, np.array([node for _, node in placed], dtype=np.int64))
    kept = [pair for pair, keep in zip(placed, inside.tolist(), strict=True) if keep]
    name = taxonomy.labels[domain]
    if not kept:
        raise DataError(
            f"None of the {len(placed)} images shows anything below {name!r}.",
            file=source,
            remedy="Choose another domain.",
        )
    if len(kept) < len(placed):
        left_out = len(placed) - len(kept)
        note(f"{left_out} of {len(placed)} images are outside the domain {name!r} and are left out.")
    return kept


def _count(items: Sequence[object], noun: str) -> str:
    return f"1 {noun} is" if len(items) == 1 else f"{len(items)} {noun}s are"


def _some(names: Sequence[str], limit: int = 5) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
