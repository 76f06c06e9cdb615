"""Lines of text files as they come, plain or packed, one at a time, with their numbers.

Packing is told by content and not by name. Bytes are counted as they lie in the file, so that a progress bar over a
packed file moves evenly.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.progress import track
from taxtune.tables import unpacked

__all__ = ["first_lines", "lines"]

_STEP = 1 << 14  # lines between two reports of progress
_LONGEST = 2**26  # bytes of a line; an entity of Wikidata may have some megabytes


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the 1-based number and the text of each line of a UTF-8 file, without its end.

    Args:
        path: A text file, or one packed with gzip, bzip2 or xz.

    Raises:
        TaxonomyError: If the file cannot be read, is cut off, or is not UTF-8 text.
    """
    number = 0
    try:
        size = path.stat().st_size
        with path.open("rb") as raw, unpacked(raw) as file, track(f"reading {path.name}", size) as task:
            for number, line in enumerate(iter(partial(file.readline, _LONGEST), b""), start=1):
                if len(line) == _LONGEST:
                    raise TaxonomyError("The line is longer than 64 MiB.", file=path, row=number)
                if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                    line = line[3:]
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as problem:
                    bad = line[problem.start : problem.start + 8]
                    raise TaxonomyError(
                        "The file is not UTF-8 text.", file=path, row=number, value=bad, remedy="Save it as UTF-8."
                    ) from None
                yield number, text.rstrip("\r\n")
                if number % _STEP == 0:
                    task.advance(raw.tell() - task.done)
            task.advance(size - task.done)
    except FileNotFoundError:
        raise TaxonomyError("The file does not exist.", file=path, remedy="Check the path.") from None
    except IsADirectoryError:
        raise TaxonomyError("This is a folder, not a file.", file=path, remedy="Give the file in it.") from None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as problem:
        raise _cut_off(path, number, problem) from None
    except OSError as problem:
        if problem.errno is None:  # how bz2 says that the data are bad
            raise _cut_off(path, number, problem) from None
        raise TaxonomyError(f"The file cannot be read: {problem.strerror or problem}.", file=path) from None


def first_lines(path: Path, count: int = 5) -> list[str]:
    """Returns the first lines of a file that are not blank, to see what it is.

    Raises:
        TaxonomyError: If there is none, or as `lines`.
    """
    found = []
    for _, text in lines(path):
        if text.strip():
            found.append(text)
            if len(found) == count:
                break
    if not found:
        raise TaxonomyError("The file is empty.", file=path)
    return found


def _cut_off(path: Path, row: int, problem: Exception) -> TaxonomyError:
    return TaxonomyError(
        f"The compressed data are damaged or incomplete after this line: {problem}.",
        file=path,
        row=row or None,
        remedy="Download the file again.",
    )
