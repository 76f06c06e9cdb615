"""Examples, images with the node that they show, from any of the sources that taxtune knows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from taxtune.data.context import EXIF, exif_values
from taxtune.data.images import check_images, is_image_data, store_image
from taxtune.data.labels import OUTSIDE, UNNAMED, LabelFinder, Reference, leaves_meant
from taxtune.data.names import find_file
from taxtune.data.sources import Record, Source, read_folder, read_inat21, read_rows, refuse_columns
from taxtune.errors import DataError, ImageError, Problems, TaxonomyError, shortened
from taxtune.progress import note
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Example", "distinct", "load_examples", "note_repeated"]

# Of more images only those that are drawn are read.
_LARGE = 10_000
# Instead of the node of a label that names none, until all problems are told.
_UNKNOWN = -2
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
        sha256: SHA-256 of the image file's bytes; "" until the file is read.
        context: What a template may know of it, by variable; None for a text or a number that is missing. Examples that
            were just loaded have the cells as they stand in the source, by column.
    """

    id: str
    image: Path
    label: str
    target: int
    sha256: str = ""
    context: Mapping[str, Any] = field(default_factory=dict, hash=False)


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
) -> list[Example]:
    """Reads a source of labelled images and finds the node of every label.

    Args:
        source: A path: a manifest (CSV, TSV, XLSX, Parquet or JSONL with an image and a label per row, or any text file
            with `pattern`), a folder with a sub-folder per class, or iNaturalist's COCO-style JSON; or a list of pairs
            (image, label), a pandas `DataFrame` or a Hugging Face `Dataset`, whose images are paths, PIL images, or the
            bytes of image files (also as the value of "bytes" in an object).
        taxonomy: The tree that the labels are on. A label may be a node's label, an alias, or its path with slashes.
        kind: "manifest", "folder" or "inat21" for a path; by default what the path is.
        images: The folder that image names are relative to; by default that of the file.
        image_column: Column of the images.
        label_column: Column of the labels.
        pattern: For a file without columns: a regular expression that matches each line, with the groups `image`,
            which gets the ending .jpg, and `label`.
        folder: Where images that are in no file are written. Needed if there are any.
        domain: Keep only examples whose node is this one or below it.
        part: What `taxonomy` is a part of. Examples whose label is elsewhere on the whole tree are left out.
        skip_broken: Leave out images that are missing or unreadable, and note how many and which; all are decoded.
        columns: Further columns that examples keep the cells of, and what is wanted of `EXIF` out of the files.

    Returns:
        The examples, in the order of the source. An image that is listed twice with the same label is kept once. Every
        image has been decoded, unless there are more than 10,000 or the kind is "inat21": then
        `taxtune.data.splits.split` decodes what it draws.

    Raises:
        DataError: If the source is malformed, or labels are not on the taxonomy (all are listed, with the nearest
            names), or an image has two labels, or there are images in no file and `folder` is not given.
        ImageError: If images are missing or unreadable, or with `skip_broken` all of them are.
    """
    name, base = type(source).__name__, Path()
    if isinstance(source, str | Path):
        source = Path(source)
        kind = kind or (
            "folder"
            if source.is_dir()
            else "inat21"
            if source.suffix.lower() == ".json"
            else "manifest"
        )
        name, base = str(source), source if kind == "folder" else source.parent
    if images is not None:
        base = Path(images)
        if not base.is_dir():
            raise DataError(
                "The folder of the images does not exist.", file=base, remedy="Check `images`."
            )
    further = [column for column in columns if column not in EXIF]
    if isinstance(source, Path) and kind in ("folder", "inat21"):
        refuse_columns(further, name)
        found = read_folder(source) if kind == "folder" else read_inat21(source)
    else:
        named_columns = {
            "image_column": image_column,
            "label_column": label_column,
            "further": further,
        }
        found = read_rows(source, pattern=pattern, **named_columns)  # type: ignore[arg-type]
    records: list[Record] = []
    problems = Problems()
    with problems.gathered():
        records += found
    if not records:
        problems.tell()
        raise DataError("There are no images in the data.", file=name)
    nodes = _find_nodes(records, taxonomy, part, name, problems)
    placed = [
        (record, node) for record in records if (node := nodes[record.references]) is not None
    ]
    if part is not None:
        outside = Counter(record.label for record in records if nodes[record.references] is None)
        _note_outside(outside, len(records), part.label, name)
    if domain is not None:
        known = {node for node in nodes.values() if node is not None}
        inside = {node for node in known if node == _UNKNOWN or taxonomy.is_ancestor(domain, node)}
        outside = Counter(record.label for record, node in placed if node not in inside)
        _note_outside(outside, len(placed), taxonomy.labels[domain], name)
        placed = [(record, node) for record, node in placed if node in inside]
    files = _stored(
        [record for record, _ in placed], base, None if folder is None else Path(folder), name
    )
    examples = [
        Example(id, file, record.label, node, context=record.cells)
        for (id, file), (record, node) in zip(files, placed, strict=True)
    ]
    if skip_broken or (kind != "inat21" and len(examples) <= _LARGE):
        short = source.name if isinstance(source, Path) else name
        listed = kind in (None, "manifest")
        named = (
            {e.image: f"{short}, {r.where}" for e, (r, _) in zip(examples, placed, strict=True)}
            if listed
            else {}
        )
        files_of = [example.image for example in examples]
        hashes = check_images(files_of, named_in=named, skip_broken=skip_broken, problems=problems)
        if not hashes and not problems:
            raise ImageError(
                f"None of the {len(examples):,} images can be used.",
                file=name,
                remedy="Check the paths.",
            )
        examples = [replace(e, sha256=hashes[e.image]) for e in examples if e.image in hashes]
    with problems.gathered():
        kept, repeated = distinct(
            [example for example in examples if example.target != _UNKNOWN], source=name
        )
    problems.tell()
    note_repeated(repeated)
    if any(column in EXIF for column in columns):
        kept = [replace(e, context={**e.context, **exif_values(e.image, columns)}) for e in kept]
    return kept


def distinct(
    examples: Sequence[Example], *, source: str | None = None
) -> tuple[list[Example], list[Example]]:
    """The first of the examples that show each image, and the others.

    Images are the same that have the same content where it is known, or else are the same file.

    Raises:
        DataError: If the same image has two labels; it names such pairs.
    """
    first: dict[str, Example] = {}
    others = [e for e in examples if first.setdefault(e.sha256 or str(e.image), e) is not e]
    pairs = [(first[e.sha256 or str(e.image)], e) for e in others]
    conflicts = [
        f"  {a.id} is {a.label!r}, {b.id} is {b.label!r}" for a, b in pairs if a.target != b.target
    ]
    if conflicts:
        listed = "\n".join(shortened(conflicts, 20))
        raise DataError(
            f"The same image has two labels:\n{listed}\nKeep one row of each pair.", file=source
        )
    return list(first.values()), others


def note_repeated(repeated: Sequence[Example]) -> None:
    """Notes which images are passed over since others show the same."""
    if repeated:
        count = "1 image is" if len(repeated) == 1 else f"{len(repeated)} images are"
        names = _some([example.id for example in repeated])
        note(f"{count} listed more than once with the same label: {names}. Each is used once.")


def _some(names: Sequence[str], limit: int = 5) -> str:
    return ", ".join(names[:limit]) + (
        f" and {len(names) - limit} more" if len(names) > limit else ""
    )


def _stored(
    records: Sequence[Record], base: Path, folder: Path | None, source: str
) -> list[tuple[str, Path]]:
    """The id and the file of each image; those that are in no file are written to a folder."""
    files: list[tuple[str, Path]] = []
    faults: list[str] = []
    for record in records:
        if isinstance(record.image, str):
            files.append((record.image, find_file(base, record.image)))
            continue
        value = record.image()
        path = value.get("path") if isinstance(value, dict) else None
        if is_image_data(value):
            if folder is None:
                remedy = "Give `folder`, the folder to write them to."
                raise DataError("Some images are not stored in files.", file=source, remedy=remedy)
            try:
                file = store_image(value, folder)
                files.append((file.name, file))
            except ImageError as error:
                faults.append(f"  {record.where}: {error}")
        elif isinstance(path, str):
            files.append((path, Path(path)))
        else:
            faults.append(f"  {record.where}: no image")
    if faults:
        listed = "\n".join(shortened(faults, 20))
        raise ImageError(
            f"{len(faults)} of {len(records)} images cannot be used:\n{listed}", file=source
        )
    return files


# -- labels ------------------------------------------------------------------------------------------------------------


def _find_nodes(
    records: Sequence[Record],
    taxonomy: Taxonomy,
    part: Domain | None,
    source: str,
    problems: Problems,
) -> Mapping[tuple[Reference, ...], int | None]:
    """The node of what each label refers to; None where it is on the whole tree, outside the part.

    Labels that name no single node are a problem; their node is `_UNKNOWN`.
    """
    nodes: dict[tuple[Reference, ...], int | None] = {}
    reasons: dict[tuple[Reference, ...], str] = {}
    told: dict[tuple[Reference, ...], str] = {}
    finder = LabelFinder(taxonomy, part)
    for references in dict.fromkeys(record.references for record in records):
        try:
            node = finder.node(references)
            if node is None and (unnamed := finder.unnamed(str(references[0]))) is not None:
                told[references], node = unnamed
        except TaxonomyError as error:  # several nodes have this name; the error lists their paths
            reasons[references] = f"{error.message} {error.remedy or ''}".strip()
            continue
        if node is None:
            reasons[references] = ""
        else:
            nodes[references] = None if node == OUTSIDE else node
    if reasons:
        rows: dict[str, list[str]] = {}
        for record in records:
            if record.references in reasons:
                rows.setdefault(record.label, []).append(record.where)
        said = {record.label: reasons.get(record.references, "") for record in records}
        lines = "\n".join(shortened(_label_lines(rows, said, taxonomy)))
        count = f"{len(rows)} {'label names' if len(rows) == 1 else 'labels name'}"
        remedy = f"Correct the labels, or add them to the taxonomy as nodes or aliases. {UNNAMED}"
        problems.append(
            DataError(f"{count} no single node of the taxonomy:\n{lines}\n{remedy}", file=source)
        )
    nodes |= dict.fromkeys(reasons, _UNKNOWN)
    for references, phrase in told.items():
        times = sum(record.references == references for record in records)
        left = "left out, " if nodes[references] is None else ""
        note(f"{source}: {times:,} of {len(records):,} labels: {left}{phrase}")
    if finder.leaves:
        note(f"{source}: {leaves_meant(finder.leaves)}")
    return nodes


def _label_lines(
    rows: Mapping[str, Sequence[str]], reasons: Mapping[str, str], taxonomy: Taxonomy
) -> list[str]:
    lines: list[str] = []
    for number, (label, where) in enumerate(rows.items()):
        line = f"  {label!r} ({_some(where)})"
        if reasons[label]:
            line += f": {reasons[label]}"
        elif number < _SUGGESTIONS:
            meant = taxonomy.suggest(re.sub(r"[_\s]+", " ", label.rsplit("/", 1)[-1]))
            line += f": {meant[0].lower()}{meant[1:]}"
        lines.append(line)
    return lines


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
