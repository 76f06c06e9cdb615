"""Reading examples, images with the node that they show, from any of the sources that taxtune knows."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from taxtune.data.collection import Example, Examples, merge_duplicates, some
from taxtune.data.folder import read_folder
from taxtune.data.images import DEFAULT_MAX_PIXELS, hash_images, is_image_data, store_image
from taxtune.data.inat21 import read_inat21
from taxtune.data.rows import read_rows
from taxtune.data.sources import Record, Source, find_kind, source_name
from taxtune.errors import DataError, ImageError, TaxonomyError, shortened
from taxtune.progress import note
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Example", "Examples", "UnknownLabelsError", "load_examples"]

# In place of a node: the label is on the whole tree, outside the part that counts.
_OUTSIDE = "outside"

# In larger data sets only the images that are drawn are decoded.
_LARGE = 10_000

# Looking for near names costs tens of milliseconds a label on a large tree.
_SUGGESTIONS = 20


class UnknownLabelsError(DataError):
    """Labels name no single node of the taxonomy.

    Args:
        labels: The labels, as the source writes them.
        lines: A line for each, with the rows and what may be meant.
        file: The source.
    """

    def __init__(self, labels: Sequence[str], lines: Sequence[str], file: str) -> None:
        self.labels, self.lines = tuple(labels), tuple(shortened(lines))
        super().__init__(
            f"{len(labels)} {'label names' if len(labels) == 1 else 'labels name'} no single node of the taxonomy:\n"
            + "\n".join(self.lines)
            + "\nCorrect the labels, or add them to the taxonomy as nodes or aliases.",
            file=file,
        )


def load_examples(
    source: Source,
    taxonomy: Taxonomy,
    *,
    kind: str | None = None,
    images: str | Path | None = None,
    image_column: str = "image",
    label_column: str = "label",
    pattern: str | None = None,
    image_suffix: str = "",
    folder: str | Path | None = None,
    domain: int | None = None,
    part: Domain | None = None,
    check: Literal["all", "content", "drawn"] | None = None,
    max_pixels: int = DEFAULT_MAX_PIXELS,
    skip_broken: bool = False,
) -> Examples:
    """Reads a source of labelled images and finds the node of every label.

    Args:
        source: One of these:

            - a path: a manifest (CSV, TSV or JSONL with an image and a label a row, or any text file with `pattern`), a
              folder with a sub-folder a class, or iNaturalist's COCO-style JSON;
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
        pattern: A regular expression with the groups `image` and `label` that matches each line of a manifest without
            columns.
        image_suffix: What is added to the images' names, such as ".jpg".
        folder: Where images that are in no file are written, each once, under a name made of its content. Needed if
            there are any.
        domain: Keep only examples whose node is this one or below it.
        part: What `taxonomy` is a part of. Examples whose label is elsewhere on the whole tree are left out.
        check: "all" decodes every image at once, so that all unreadable ones are named. "content" reads them all, so
            that no two examples show the same image, and leaves decoding to `taxtune.data.splits.split`, for those it
            draws; "drawn" leaves reading to it as well. By default "drawn" for "inat21", and otherwise "all" up to
            10,000 images and "content" for more. What was found out about a file is kept in the user's cache folder,
            and the file is not read again until it changes.
        max_pixels: Largest width times height of an image.
        skip_broken: Leave out images that are missing or unreadable, and note how many and which; all are decoded.

    Returns:
        The examples, in the order of the source: a sequence in columns, which makes an example when it is asked for
            one. An image that is listed twice with the same label is kept once.

    Raises:
        DataError: If the source is malformed, or labels are not on the taxonomy (all are listed, with the nearest
            names), or an image has two labels, or there are images in no file and `folder` is not given.
        ImageError: If images are missing or unreadable (all are listed), or with `skip_broken` all of them are.
    """
    if isinstance(source, str):
        source = Path(source)
    if isinstance(source, Path):
        kind = find_kind(source, kind)
    elif kind is not None:
        raise DataError("`kind` applies only to data given as a path.", value=kind, remedy="Leave `kind` out.")
    name = source_name(source)
    how = {"image_column": image_column, "label_column": label_column, "image_suffix": image_suffix}
    root = None if images is None else Path(images)
    if root is not None and not root.is_dir():
        raise DataError("The folder of the images does not exist.", file=root, remedy="Check `images`.")
    base = root or Path()
    if isinstance(source, Path) and kind == "folder":
        if root is not None:
            raise DataError(
                "Data of the kind 'folder' takes no `images`: the images are in the folder itself.", file=source
            )
        records, base = read_folder(source), source
    elif isinstance(source, Path):
        base = root or source.parent
        records = read_inat21(source) if kind == "inat21" else read_rows(source, pattern=pattern, **how)
    else:
        records = read_rows(source, **how)

    found = _Found(base)
    for record, node in _place(records, taxonomy, part, source=name):
        found.add(record, node)
    if domain is not None:
        found.keep_below(taxonomy, domain, source=name)
    found.store_images(None if folder is None else Path(folder), source=name)
    examples = found.examples()
    if skip_broken:
        check = "all"
    if check is None:
        check = "drawn" if kind == "inat21" else "all" if len(examples) <= _LARGE else "content"
    if check != "drawn":
        short = source.name if isinstance(source, Path) else name
        listed = kind in (None, "manifest")
        hashes = hash_images(
            examples.images,
            max_pixels=max_pixels if check == "all" else None,
            named_in=lambda place: f"{short}, {found.where[place]}" if listed else None,
            skip_broken=skip_broken,
        )
        sound = np.flatnonzero(hashes.any(axis=1))
        if not len(sound):
            raise ImageError(f"None of the {len(hashes):,} images can be used.", file=name, remedy="Check the paths.")
        examples = examples.take(sound).with_hashes(hashes[sound], checked=check == "all")
    return merge_duplicates(examples, source=name)


class _Found:
    """The examples of a source as they are found, in columns.

    Attributes:
        where: The row of each, for messages.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ids: list[str] = []
        self._labels: dict[str, int] = {}
        self._label, self._target = array("i"), array("i")
        self._unstored: dict[int, Callable[[], object]] = {}
        self._files: dict[int, str] = {}
        self.where: list[str] = []

    def add(self, record: Record, node: int) -> None:
        """Adds an example; an image that is in no file waits for `store_images`."""
        if callable(record.image):
            self._unstored[len(self._ids)] = record.image
        self._ids.append("" if callable(record.image) else record.image)
        self._label.append(self._labels.setdefault(record.label, len(self._labels)))
        self._target.append(node)
        self.where.append(record.where)

    def keep_below(self, taxonomy: Taxonomy, domain: int, *, source: str) -> None:
        """Leaves out the examples whose node is not at or below a domain.

        Raises:
            DataError: If none is left.
        """
        total, name = len(self._ids), taxonomy.labels[domain]
        kept = np.flatnonzero(taxonomy.is_ancestor(domain, np.array(self._target))).tolist()
        if not kept:
            raise DataError(
                f"None of the {total} images shows anything below {name!r}.",
                file=source,
                remedy="Choose another domain.",
            )
        if len(kept) < total:
            note(f"{total - len(kept)} of {total} images are outside the domain {name!r} and are left out.")
        self._ids, self.where = [self._ids[i] for i in kept], [self.where[i] for i in kept]
        self._label, self._target = (array("i", (column[i] for i in kept)) for column in (self._label, self._target))
        self._unstored = {to: self._unstored[i] for to, i in enumerate(kept) if i in self._unstored}

    def store_images(self, folder: Path | None, *, source: str) -> None:
        """Writes the images that are in no file to a folder.

        Raises:
            DataError: If there are any and no folder.
            ImageError: If some cannot be written or are no images; it names them all.
        """
        faults: list[str] = []
        for place, image in self._unstored.items():
            value = image()
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
                    faults.append(f"  {self.where[place]}: {error}")
                    continue
                self._ids[place], self._files[place] = file.name, str(file)
            elif isinstance(path, str):
                self._ids[place] = self._files[place] = path
            else:
                faults.append(f"  {self.where[place]}: no image")
        if faults:
            raise ImageError(
                f"{len(faults)} of {len(self._ids)} images cannot be used:\n" + "\n".join(shortened(faults)),
                file=source,
            )

    def examples(self) -> Examples:
        """Returns the examples."""
        columns = (np.array(column, dtype=np.int64) for column in (self._label, self._target))
        return Examples(self._folder, self._ids, list(self._labels), *columns, files=self._files)


def _place(
    records: Iterable[Record], taxonomy: Taxonomy, part: Domain | None, *, source: str
) -> Iterator[tuple[Record, int]]:
    """Yields the records whose label is on the taxonomy, with its node; labels that are not are raised at the end."""
    nodes: dict[tuple[str | tuple[str, ...], ...], int | str] = {}
    outside: dict[str, int] = {}
    rows: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    total = kept = 0
    for record in records:
        total += 1
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
            kept += 1
            yield record, node
    if not total:
        raise DataError("There are no images in the data.", file=source)
    if rows:
        raise _unknown_labels(rows, reasons, taxonomy, source)
    if outside and part is not None:
        left_out = sum(outside.values())
        if not kept:
            raise DataError(
                f"None of the {left_out} images shows anything below {part.label!r}, the root of the selected part "
                "of the taxonomy.",
                file=source,
                remedy="Choose another root.",
            )
        note(
            f"{left_out} of {total} images are outside {part.label!r} and cannot be scored on it; they are left "
            f"out: {some(sorted(outside))}."
        )


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
    return UnknownLabelsError(list(rows), lines, source)
