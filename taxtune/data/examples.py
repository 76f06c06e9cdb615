"""Examples, images with the node that they show, from any of the sources that taxtune knows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from taxtune.data.boxes import Box, Boxes, Found
from taxtune.data.context import EXIF, exif_values
from taxtune.data.example import Example
from taxtune.data.grouping import BURST, FOLDER, at_class, grouped
from taxtune.data.labels import OUTSIDE, UNNAMED, LabelFinder, Reference, leaves_meant
from taxtune.data.names import find_file
from taxtune.data.sources import (
    Record,
    Source,
    checked_columns,
    read_folder,
    read_inat21,
    read_labelled,
)
from taxtune.errors import DataError, ImageError, Problems, TaxonomyError, shortened
from taxtune.images import check_images, is_image_data, store_image
from taxtune.progress import note
from taxtune.settings import LabelWords
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["distinct", "load_examples", "note_repeated"]

# Of more images only those that are drawn are read.
_LARGE = 10_000
# Instead of the node of a label that names none, until all problems are told.
_UNKNOWN = -2
# Looking for near names costs tens of milliseconds a label on a large tree.
_SUGGESTIONS = 20


def load_examples(
    source: Source,
    taxonomy: Taxonomy,
    *,
    kind: Literal["manifest", "folder", "inat21"] | None = None,
    images: str | Path | None = None,
    image_column: str = "image",
    label_column: str = "label",
    pattern: str | None = None,
    folder: str | Path | None = None,
    domain: int | None = None,
    part: Domain | None = None,
    skip_broken: bool = False,
    columns: Sequence[str] = (),
    words: LabelWords | None = None,
    group: str | None = None,
    boxes: Boxes | None = None,
) -> list[Example]:
    """Reads a source of labelled images and finds the node of every label.

    Args:
        source: A path: a manifest (CSV, TSV, XLSX, Parquet or JSONL with an image and a label per
            row, or any text file with `pattern`), a folder with a sub-folder per class, or
            iNaturalist's COCO-style JSON; or a list of pairs (image, label), a pandas `DataFrame`
            or a Hugging Face `Dataset`, whose images are paths, PIL images, or the bytes of image
            files (also as the value of "bytes" in an object).
        taxonomy: The tree of the labels, which are a node's label, an alias, or its path with
            slashes.
        kind: "manifest", "folder" or "inat21" for a path. By default it follows from the path.
        images: The folder that image names are relative to. By default it is that of the file.
        image_column: Column of the images.
        label_column: Column of the labels.
        pattern: For a file without columns: a regular expression that matches each line, with the
            groups `image`, which gets the ending .jpg, and `label`.
        folder: Where images that are in no file are written. It is needed if there are any.
        domain: Keep only examples whose node is this one or below it.
        part: What `taxonomy` is a part of. Labels elsewhere on the whole tree are left out.
        skip_broken: Leave out, and note, images that are missing or unreadable. All are decoded.
        columns: Further columns whose cells examples keep, and those of `EXIF` out of the files.
        words: What labels say that no tree has; None for the words that are usual.
        group: Which images belong together, as in a recipe (`data.group`).
        boxes: Where the boxes of the photos are, each an example whose crop is written to `folder`.
            Photos without a box are left out and counted.

    Returns:
        The examples, in the order of the source, each image once. Every image has been decoded,
        unless there are more than 10,000 or the kind is "inat21": then `split` decodes what it
        draws.

    Raises:
        DataError: If the source is malformed, labels are not on the taxonomy (all are listed), an
            image has two labels, or there are images in no file and `folder` is not given.
        ImageError: If images are missing or unreadable, or with `skip_broken` all of them are.
    """
    opened = _Opened.of(source, kind, images)
    wanted = [column for column in columns if column not in EXIF]
    further = (group, None if boxes is None or boxes.file else boxes.column)
    wanted += [column for column in further if column and column not in (BURST, FOLDER)]
    records: list[Record] = []
    problems = Problems()
    with problems.gathered():
        records += opened.records(image_column, label_column, pattern, wanted)
    if not records:
        problems.tell()
        raise DataError("There are no images in the data.", file=opened.name)
    finder = LabelFinder(taxonomy, part, words)
    if group == FOLDER and opened.kind == "folder":
        records = [at_class(record, finder) for record in records]
    placed = _placed(records, finder, taxonomy, part, domain, opened.name, problems)
    examples = _stored(placed, opened, None if folder is None else Path(folder))
    if boxes is not None:
        examples = _boxed(examples, placed, opened, boxes, folder, skip_broken, problems)
    elif skip_broken or (opened.kind != "inat21" and len(examples) <= _LARGE):
        examples = _decoded(examples, placed, opened, skip_broken, problems)
    with problems.gathered():
        labelled = [example for example in examples if example.target != _UNKNOWN]
        kept, repeated = distinct(labelled, source=opened.name)
    problems.tell()
    note_repeated(repeated)
    return _with_context(grouped(kept, group, opened.name), columns)


class _Opened(NamedTuple):
    """A source of images.

    Attributes:
        source: The source. A path is a `Path`.
        name: Its name, for messages.
        kind: The kind of a path, None of objects.
        base: The folder that image names are relative to.
    """

    source: Source
    name: str
    kind: str | None
    base: Path

    @classmethod
    def of(cls, source: Source, kind: str | None, images: str | Path | None) -> _Opened:
        """Returns a source as `load_examples` takes it."""
        name = type(source).__name__
        base = Path()
        if isinstance(source, str | Path):
            source = Path(source)
            name = str(source)
            kind = kind or _kind_of(source)
            base = source if kind == "folder" else source.parent
        if images is not None:
            base = Path(images)
            if not base.is_dir():
                message = "The folder of the images does not exist."
                raise DataError(message, file=base, remedy="Check `images`.")
        return cls(source, name, kind, base)

    def records(
        self, image_column: str, label_column: str, pattern: str | None, further: Sequence[str]
    ) -> Iterator[Record]:
        """Returns the rows of the source, in order."""
        if isinstance(self.source, Path) and self.kind in ("folder", "inat21"):
            checked_columns(further, [], self.name)
            return (read_folder if self.kind == "folder" else read_inat21)(self.source)
        return read_labelled(
            self.source,
            image_column=image_column,
            label_column=label_column,
            pattern=pattern,
            further=further,
        )


def _kind_of(path: Path) -> str:
    if path.is_dir():
        return "folder"
    return "inat21" if path.suffix.lower() == ".json" else "manifest"


def _placed(
    records: Sequence[Record],
    finder: LabelFinder,
    taxonomy: Taxonomy,
    part: Domain | None,
    domain: int | None,
    source: str,
    problems: Problems,
) -> list[tuple[Record, int]]:
    """Returns the records with their nodes, without those outside of the part and the domain."""
    nodes = _find_nodes(records, finder, taxonomy, source, problems)
    placed = []
    outside: Counter[str] = Counter()
    for record in records:
        node = nodes[record.references]
        if node is None:
            outside[record.label] += 1
        else:
            placed.append((record, node))
    if part is not None:
        _note_outside(outside, len(records), part.label, source)
    if domain is None:
        return placed
    # Looked up once for each node: of iNaturalist there are millions of records.
    known = {node for _, node in placed if node != _UNKNOWN}
    nodes_inside = {node for node in known if taxonomy.is_ancestor(domain, node)}
    # An empty frame shows nothing of the domain, and is no image of anything else.
    root = taxonomy.root
    at_root = {record.label for record, node in placed if node == root}
    empty = finder.empty(at_root)
    inside = []
    outside.clear()
    for record, node in placed:
        if node == _UNKNOWN or node in nodes_inside or record.label in empty:
            inside.append((record, node))
        else:
            outside[record.label] += 1
    _note_outside(outside, len(placed), taxonomy.labels[domain], source)
    return inside


def _stored(
    placed: Sequence[tuple[Record, int]], opened: _Opened, folder: Path | None
) -> list[Example]:
    """Returns the records as examples. Images that are in no file are written to a folder.

    Raises:
        DataError: If there are such images and no folder.
        ImageError: If images cannot be written; it names them.
    """
    examples = []
    faults = []
    for record, node in placed:
        try:
            id, file = _image_file(record, opened, folder)
        except ImageError as error:
            faults.append(f"  {record.where}: {error}")
            continue
        examples.append(
            Example(id=id, image=file, label=record.label, target=node, context=record.cells)
        )
    if faults:
        listed = "\n".join(shortened(faults, 20))
        message = f"{len(faults)} of {len(placed)} images cannot be used:\n{listed}"
        raise ImageError(message, file=opened.name)
    return examples


def _image_file(record: Record, opened: _Opened, folder: Path | None) -> tuple[str, Path]:
    """Returns the id and the file of an image."""
    if isinstance(record.image, str):
        return record.image, find_file(opened.base, record.image)
    image = record.image()
    if is_image_data(image):
        if folder is None:
            remedy = "Give `folder`, the folder to write them to."
            message = "Some images are not stored in files."
            raise DataError(message, file=opened.name, remedy=remedy)
        file = store_image(image, folder)
        return file.name, file
    path = image.get("path") if isinstance(image, dict) else None
    if not isinstance(path, str):
        raise ImageError("no image")
    return path, Path(path)


def _decoded(
    examples: Sequence[Example],
    placed: Sequence[tuple[Record, int]],
    opened: _Opened,
    skip_broken: bool,
    problems: Problems,
    then: Callable[[Path, Image.Image], None] | None = None,
) -> list[Example]:
    """Returns the examples whose images can be decoded, with their content hashes.

    Raises:
        ImageError: If none can, and no problem says so.
    """
    named = {}
    if opened.kind in (None, "manifest"):
        file = opened.source.name if isinstance(opened.source, Path) else opened.name
        for example, (record, _) in zip(examples, placed, strict=True):
            named[example.image] = f"{file}, {record.where}"
    files = [example.image for example in examples]
    checked = check_images(
        files, named_in=named, skip_broken=skip_broken, problems=problems, then=then
    )
    if not checked and not problems:
        message = f"None of the {len(examples):,} images can be used."
        raise ImageError(message, file=opened.name, remedy="Check the paths.")
    there = [example for example in examples if example.image in checked]
    complete = []
    for example in there:
        read = checked[example.image]
        complete.append(replace(example, **read._asdict()))
    return complete


def _boxed(
    examples: Sequence[Example],
    placed: Sequence[tuple[Record, int]],
    opened: _Opened,
    boxes: Boxes,
    folder: str | Path | None,
    skip_broken: bool,
    problems: Problems,
) -> list[Example]:
    """Returns an example for each box of the photos, with its crop; none if a box cannot be used."""
    if folder is None:
        remedy = "Give `folder`, the folder to write them to."
        raise DataError("Boxes are cut out into files.", file=opened.name, remedy=remedy)
    found: list[Found] = []
    with problems.gathered():
        names = [example.id for example in examples]
        cells = [record.cells.get(boxes.column) for record, _ in placed]
        rows = [record.where for record, _ in placed]
        found += boxes.find(
            names=names,
            cells=cells,
            rows=rows,
        )
    uncut = []
    records = []
    missed = []
    wanted: dict[Path, list[Box]] = {}
    for photo, record, of_photo in zip(examples, placed, found, strict=False):
        for name, box in of_photo.boxes.items():
            wanted.setdefault(photo.image, []).append(box)
            part = replace(photo, id=name, group=photo.id, box=box)
            uncut.append(part)
            records.append(record)
        if not of_photo.boxes and of_photo.failure is None:
            missed.append(photo.target > 0)
    failed = sum(of_photo.failure is not None for of_photo in found)
    if found and not uncut:
        raise DataError("None of the photos has a box.", file=opened.name)
    if missed or failed:
        note(
            f"{opened.name}: {len(missed):,} photos without a box are left out, {sum(missed):,} of "
            f"them with a label below the root, and {failed:,} that the detector does not know"
        )
    crops: dict[tuple[Path, Box | None], tuple[Path, Box]] = {}

    def cut(photo: Path, image: Image.Image) -> None:
        for box in wanted[photo]:
            crops[photo, box] = boxes.cut(photo, image, box, Path(folder))

    cut_out = []
    for example in _decoded(uncut, records, opened, skip_broken, problems, cut):
        crop, box = crops[example.image, example.box]
        cropped = replace(example, image=crop, sha256=crop.stem)
        cut_out.append(replace(cropped, cut_from=example.image, box=box))
    return cut_out


def _with_context(examples: list[Example], columns: Sequence[str]) -> list[Example]:
    """Returns the examples with their cells of columns, those of `EXIF` out of their files."""
    if not columns and not any(example.context for example in examples):
        return examples
    complete = []
    for example in examples:
        known = {**example.context, **exif_values(example.photo, columns)}
        context = {column: known[column] for column in columns}
        complete.append(replace(example, context=context))
    return complete


def distinct(
    examples: Sequence[Example], *, source: str | None = None
) -> tuple[list[Example], list[Example]]:
    """Returns the first of the examples that show each image, and the others.

    Images are the same that have the same content where it is known, or else are the same file.

    Raises:
        DataError: If the same image has two labels; it names such pairs.
    """
    first: dict[str, Example] = {}
    others = []
    conflicts = []
    for example in examples:
        kept = first.setdefault(example.sha256 or str(example.image), example)
        if kept is example:
            continue
        others.append(example)
        if kept.target != example.target:
            conflicts.append(f"  {kept.id} is {kept.label!r}, {example.id} is {example.label!r}")
    if conflicts:
        listed = "\n".join(shortened(conflicts, 20))
        message = f"The same image has two labels:\n{listed}\nKeep one row of each pair."
        raise DataError(message, file=source)
    return list(first.values()), others


def note_repeated(repeated: Sequence[Example]) -> None:
    """Notes which images are passed over since others show the same."""
    if repeated:
        count = "1 image is" if len(repeated) == 1 else f"{len(repeated)} images are"
        names = _some([example.id for example in repeated])
        note(f"{count} listed more than once with the same label: {names}. Each is used once.")


def _some(names: Sequence[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


# -- labels ----------------------------------------------------------------------------------------


def _find_nodes(
    records: Sequence[Record],
    finder: LabelFinder,
    taxonomy: Taxonomy,
    source: str,
    problems: Problems,
) -> Mapping[tuple[Reference, ...], int | None]:
    """Returns the node of each record's references.

    It is None where the node is on the whole tree, outside the part. Labels that name no single
    node are a problem; their node is `_UNKNOWN`.
    """
    nodes: dict[tuple[Reference, ...], int | None] = {}
    reasons: dict[tuple[Reference, ...], str] = {}
    phrases: dict[tuple[Reference, ...], str] = {}
    counts = Counter(record.references for record in records)
    for references in counts:
        try:
            node = finder.node(references)
            unnamed = None if node is not None else finder.unnamed(str(references[0]))
        except TaxonomyError as error:  # several nodes have this name; the error lists their paths
            reasons[references] = f"{error.message} {error.remedy or ''}".strip()
            continue
        if unnamed is not None:
            _, node, phrases[references] = unnamed
        if node is None:
            reasons[references] = ""
        else:
            nodes[references] = None if node == OUTSIDE else node
    if reasons:
        problems.append(_unplaced_labels(records, reasons, taxonomy, source))
    nodes |= dict.fromkeys(reasons, _UNKNOWN)
    for references, phrase in phrases.items():
        left_out = "left out, " if nodes[references] is None else ""
        note(f"{source}: {counts[references]:,} of {len(records):,} labels: {left_out}{phrase}")
    if finder.leaves:
        note(f"{source}: {leaves_meant(finder.leaves)}")
    return nodes


def _unplaced_labels(
    records: Sequence[Record],
    reasons: Mapping[tuple[Reference, ...], str],
    taxonomy: Taxonomy,
    source: str,
) -> DataError:
    """Returns the error that lists labels which name no single node, each with the reason."""
    rows: dict[str, list[str]] = {}
    reason_of: dict[str, str] = {}
    for record in records:
        if record.references in reasons:
            rows.setdefault(record.label, []).append(record.where)
            reason_of[record.label] = reasons[record.references]
    lines = []
    for number, (label, where) in enumerate(rows.items()):
        line = f"  {label!r} ({_some(where)})"
        if reason_of[label]:
            line += f": {reason_of[label]}"
        elif number < _SUGGESTIONS:
            meant = taxonomy.suggest(re.sub(r"[_\s]+", " ", label.rsplit("/", 1)[-1]))
            line += f": {meant[0].lower()}{meant[1:]}"
        lines.append(line)
    listed = "\n".join(shortened(lines))
    count = "1 label names" if len(rows) == 1 else f"{len(rows)} labels name"
    return DataError(
        f"{count} no single node of the taxonomy:\n{listed}\n"
        f"Correct the labels, or add them to the taxonomy as nodes or aliases. {UNNAMED}",
        file=source,
    )


def _note_outside(outside: Counter[str], total: int, label: str, source: str) -> None:
    """Notes the images that are left out since their label is not below a node.

    Raises:
        DataError: If none is left.
    """
    if outside.total() == total:
        message = f"None of the {total} images shows anything below {label!r}."
        raise DataError(message, file=source, remedy="Choose another root or domain.")
    if outside:
        labels = _some(sorted(outside))
        note(
            f"{outside.total()} of {total} images are outside {label!r} and are left out: {labels}."
        )
