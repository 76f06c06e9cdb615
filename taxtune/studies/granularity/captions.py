"""How many captions name each node of a taxonomy, and the files that people keep captions in.

A caption names a node when one of the node's names, its label or an alias, stands in it as whole words. Words are
compared as the mapper's lexicon folds them: plural, American and British spelling, accents, case and hyphens do not
matter. No name reaches over a comma or the end of a sentence. Of names one of which lies inside the other the longer is
meant: a "tiger shark" is not a tiger, nor a mention of "shark". A name that several nodes bear counts for each of
them.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.mapping.normalize import fold_words
from taxtune.studies.coco import CaptionTexts, parse_json, parse_object
from taxtune.tables import column_key, csv_delimiter, read_text
from taxtune.taxonomy import Domain, Taxonomy

__all__ = ["CaptionCounts", "count_captions", "read_captions"]

IntArray = NDArray[np.int64]

# What parts one thing that is named from the next. The stop of "St. Bernard" does not.
_PARTS = re.compile(r"[,;:!?|()\[\]{}\"“”«»•\n]|(?<=\w\w\w)\.(?=\s|$)")
_GAP = " | "
_PACKED = (".gz", ".bz2", ".xz")
# A quote that is never closed makes one cell of all that follows: beyond this it is an error and not a caption.
_LONGEST_CELL = 1 << 24
_ENDINGS = (
    "Captions are read from .txt (one per line), .csv, .tsv, .jsonl, all of these also compressed, and COCO's .json."
)

# -- counting ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CaptionCounts:
    """How often captions name the nodes of a taxonomy.

    Attributes:
        captions: Captions that hold a text.
        empty: Captions that hold none; they are left out.
        naming: Captions that name at least one node.
        counts: Captions that name each node, however often each does, shape (nodes,).
        inside: Captions in which each node's names stand only inside longer names, shape (nodes,); not in `counts`.
        names: Distinct names on the tree, folded.
        shared_names: Those of them that several nodes bear, on the tree or on the whole that it is a part of.
        shared_labels: Nodes that bear such a name.
        captions_with_shared_names: Captions in which such a name was found and counted for all its nodes.
        labels_without_words: Nodes none of whose names holds a letter or digit, so no caption can name them.
    """

    captions: int
    empty: int
    naming: int
    counts: IntArray
    inside: IntArray
    names: int
    shared_names: int
    shared_labels: int
    captions_with_shared_names: int
    labels_without_words: int


class _Name(NamedTuple):
    """The nodes of the tree that bear a name, none where it stands outside a part; and whether several nodes do."""

    nodes: tuple[int, ...]
    shared: bool


def count_captions(
    captions: Iterable[str], taxonomy: Taxonomy, part: Domain | None = None, *, source: str | None = None
) -> CaptionCounts:
    """Counts the captions that name each node.

    Args:
        captions: The captions, one at a time; the same text twice is two captions.
        taxonomy: The tree; all names of its nodes are looked for.
        part: What `taxonomy` is a part of. Longer names of the whole tree are longer names here too: a "hot dog" is no
            dog on the tree of dogs.
        source: Where the captions are from, for messages.

    Raises:
        DataError: If there is no caption with text, or none names a node.
    """
    by_name = _names(taxonomy, part)
    automaton = _automaton(by_name)
    counts = np.zeros(len(taxonomy), dtype=np.int64)
    inside = np.zeros(len(taxonomy), dtype=np.int64)
    total = empty = naming = by_shared = 0
    for caption in captions:
        text = _folded(caption)
        if not text:
            if caption.strip():
                total += 1  # signs alone: a caption, and no name
            else:
                empty += 1
            continue
        total += 1
        found = list(automaton.iter(f" {text} ")) if automaton is not None else []
        if not found:
            continue
        named, nested, shared = _sorted_out(found)
        naming += bool(named)
        by_shared += shared
        for node in named:
            counts[node] += 1
        for node in nested - named:
            inside[node] += 1
    if not total:
        raise DataError("All captions are empty.", file=source, value=f"{empty:,} captions")
    if not naming:
        raise DataError(
            f"None of {total:,} captions names a label of the taxonomy, so there is nothing to compare.",
            file=source,
            remedy="Check that they are in the language of its names, separate words by spaces and are about the "
            "same subject.",
        )
    here = [name for name in by_name.values() if name.nodes]
    return CaptionCounts(
        total,
        empty,
        naming,
        counts,
        inside,
        len(here),
        sum(name.shared for name in here),
        len({node for name in here if name.shared for node in name.nodes}),
        by_shared,
        len(taxonomy) - len({node for name in here for node in name.nodes}),
    )


def _folded(text: str) -> str:
    """Returns the folded words of a text, with a bar where one thing is parted from the next."""
    parts = (" ".join(fold_words(part)) for part in _PARTS.split(text))
    return _GAP.join(part for part in parts if part)


def _names(taxonomy: Taxonomy, part: Domain | None) -> dict[str, _Name]:
    whole = taxonomy if part is None else part.full
    by_name: dict[str, list[int]] = defaultdict(list)
    for node in range(len(whole)):
        for name in dict.fromkeys(map(_folded, whole.names(node))):
            if name:
                by_name[name].append(node)
    number = np.full(len(whole), -1)
    number[slice(None) if part is None else part.numbers] = np.arange(len(taxonomy))
    return {
        name: _Name(tuple(int(number[node]) for node in nodes if number[node] >= 0), len(nodes) > 1)
        for name, nodes in by_name.items()
    }


def _automaton(by_name: dict[str, _Name]) -> Any:
    """Returns what finds all names in one pass over a text, or None where there are none."""
    import ahocorasick

    if not by_name:
        return None
    automaton: Any = ahocorasick.Automaton()
    for name, meant in by_name.items():
        # With a space at either end a name is found as whole words only; neighbours share the space between them.
        key = f" {name} "
        automaton.add_word(key, (len(key), meant))
    automaton.make_automaton()
    return automaton


def _sorted_out(found: list[tuple[int, tuple[int, _Name]]]) -> tuple[set[int], set[int], bool]:
    """Returns the nodes that a caption names, those named only inside longer names, and whether a name is shared.

    Args:
        found: Every name in the caption: the place of its last character, its length and what it means.
    """
    named: set[int] = set()
    nested: set[int] = set()
    shared = False
    reached = -1
    # From the left, of names that begin together the longest first: one that ends no later than another ended is
    # inside it.
    for _, last, name in sorted(
        ((last - length, last, name) for last, (length, name) in found), key=lambda span: (span[0], -span[1])
    ):
        if last <= reached:
            nested.update(name.nodes)
            continue
        reached = last
        named.update(name.nodes)
        shared = shared or (name.shared and bool(name.nodes))
    return named, nested, shared


# -- files of captions ------------------------------------------------------------------------------------------------


def read_captions(path: Path, *, column: str = "caption") -> Iterator[str]:
    """Yields the captions of a file as they come, so that it may be larger than the memory.

    Args:
        path: A text file with one caption per line; CSV or TSV with a header; JSON lines, where the column may hold one
            text or a list of them; each of these plain or packed with gzip, bzip2 or xz. Or a captions file in COCO's
            format (`annotations`, each with a `caption`), which is read whole.
        column: The column, or key, of the captions.

    Yields:
        The captions, empty ones included: an empty line, cell or text, null and an empty list are each one.

    Raises:
        DataError: If the file cannot be read, is empty, is not of a form above, or lacks the column; it names the row.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in _PACKED
    ending = (suffixes[-2] if len(suffixes) > 1 else "") if packed else (suffixes[-1] if suffixes else "")
    readers = {".txt": _plain, ".csv": _table, ".tsv": _table, ".jsonl": _json_lines, ".ndjson": _json_lines}
    readers[".json"] = _coco
    if ending not in readers or (packed and ending == ".json"):
        raise DataError("The captions file has an unknown suffix.", file=path, value=path.name, remedy=_ENDINGS)
    rows = 0
    for caption in readers[ending](path, column):
        rows += 1
        yield caption
    if not rows:
        raise DataError("The captions file is empty.", file=path)


def _text_lines(path: Path) -> Iterator[tuple[int, str]]:
    text = read_text(path, error=DataError, what="captions")
    for number, line in enumerate(io.StringIO(text), start=1):
        yield number, line.rstrip("\r\n")


def _plain(path: Path, column: str) -> Iterator[str]:
    for _, line in _text_lines(path):
        yield line


def _table(path: Path, column: str) -> Iterator[str]:
    source = _text_lines(path)
    first = next(((number, line) for number, line in source if line.strip()), None)
    if first is None:
        return
    start, head = first
    delimiter = csv_delimiter(head)
    try:
        header = next(csv.reader([head], delimiter=delimiter, strict=True))
    except csv.Error as problem:
        raise DataError(f"The header cannot be read as CSV: {problem}.", file=path, row=start) from None
    keys = [column_key(cell) for cell in header]
    if column_key(column) not in keys:
        raise _no_column(path, start, column, header, "The first line must name the columns. ")
    if keys.count(column_key(column)) > 1:
        raise DataError("Two columns have the same name.", file=path, row=start, value=column, remedy="Rename one.")
    place = keys.index(column_key(column))
    # The module takes line ends off only between rows: a caption may hold one.
    reader = csv.reader((line + "\n" for _, line in source), delimiter=delimiter, strict=True)
    limit = csv.field_size_limit()
    row = start + 1
    try:
        csv.field_size_limit(max(limit, _LONGEST_CELL))  # a limit of the whole process
        for cells in reader:
            if len(cells) > len(header):
                raise DataError(
                    f"The row has {len(cells):,} cells, the header {len(header):,}.",
                    file=path,
                    row=row,
                    value=delimiter.join(cells),
                    remedy="Put captions that contain the delimiter in double quotes, or give a .txt with one per "
                    "line.",
                )
            if cells:  # a blank line is no row
                yield cells[place] if place < len(cells) else ""
            row = start + 1 + reader.line_num
    except csv.Error as problem:
        raise DataError(
            f"The row cannot be read as CSV: {problem}.",
            file=path,
            row=row,
            remedy="Close its quotes, and double any quote inside a caption.",
        ) from None
    finally:
        csv.field_size_limit(limit)


def _json_lines(path: Path, column: str) -> Iterator[str]:
    for number, line in _text_lines(path):
        if not line.strip():
            continue
        record = parse_object(line, path, number)
        if column not in record:
            raise _no_column(path, number, column, list(record))
        value = record[column]
        texts = value if isinstance(value, list) else [value]
        for text in texts or [None]:
            if text is not None and not isinstance(text, str):
                raise DataError("The caption is not text.", file=path, row=number, value=text)
            yield text or ""


def _coco(path: Path, column: str) -> Iterator[str]:
    for entry in parse_json(path, CaptionTexts).annotations:
        yield entry.caption


def _no_column(path: Path, row: int, column: str, names: list[str], before: str = "") -> DataError:
    near = difflib.get_close_matches(column.lower(), names, n=1)
    listed = ", ".join(map(repr, names[:20])) + (" …" if len(names) > 20 else "")
    return DataError(
        f"There is no column {column!r}.",
        file=path,
        row=row,
        remedy=f"{before}There {'is' if len(names) == 1 else 'are'} {listed or 'none'}; choose one with "
        f"--caption-column." + (f" Did you mean {near[0]!r}?" if near else ""),
    )
