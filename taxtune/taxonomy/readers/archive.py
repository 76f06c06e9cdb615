"""Archives of tables: a folder, a zip file or a tar file of tables, read row by row however large they are."""

from __future__ import annotations

import codecs
import csv
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from taxtune.errors import TaxonomyError
from taxtune.tables import MOST_UNPACKED, Row, clean, csv_delimiter

__all__ = ["Archive", "Layout", "is_archive", "tidy"]

# A line of a table of names is some hundreds of bytes long; one of 16 MB is no line.
_LONGEST_LINE = 16 * 2**20
_SMALL_FILE = 2**20
_PEEKED = 2**16
_UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError)
_TAR = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".taz")


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is laid out.

    Attributes:
        delimiter: What parts the cells; one character.
        quote: What encloses cells; None where nothing does and a quote is a character like others.
        encoding: The encoding, as Python's codecs know it.
        escapes: Whether a backslash escapes tabs, line ends and itself (ColDP's TSV).
    """

    delimiter: str = ","
    quote: str | None = '"'
    encoding: str = "utf-8"
    escapes: bool = False


def is_archive(path: Path) -> bool:
    """Tells whether a path is a folder, a zip file or a tar file, compressed or not."""
    try:
        if path.is_dir():
            return True
        is_named = path.name.lower().endswith((".zip", *_TAR))
        return path.is_file() and (is_named or zipfile.is_zipfile(path))
    except (OSError, ValueError):
        return False


class Archive:
    """The files of a folder, a zip file or a tar file, by their names without folders.

    Args:
        path: The folder or the archive.

    Raises:
        TaxonomyError: If it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._zip: zipfile.ZipFile | None = None
        self._tar: tarfile.TarFile | None = None
        try:
            if path.is_dir():
                members = [(file.name, str(file)) for file in sorted(path.iterdir()) if file.is_file()]
            else:
                if path.name.lower().endswith(_TAR):
                    # Members are only ever read, never written to the disk.
                    self._tar = tarfile.open(path)  # noqa: SIM115 - read from as long as the archive is
                    inside = []
                    size = 0
                    for info in self._tar:  # each is unpacked on the way to the next
                        self._check_size(size := size + info.size)
                        if info.isfile():
                            inside.append(info.name)
                else:
                    self._zip = zipfile.ZipFile(path)
                    inside = [info.filename for info in self._zip.infolist() if not info.is_dir()]
                # A package may hold one folder with everything in it; the shallowest file of a name counts.
                members = [(name.rsplit("/", 1)[-1], name) for name in sorted(inside, key=lambda n: -n.count("/"))]
        except _UNREADABLE as problem:
            raise TaxonomyError(f"The archive cannot be opened: {problem}.", file=path) from None
        self._members = dict(members)
        #: The names of the files in it.
        self.names: tuple[str, ...] = tuple(sorted(self._members))

    def find(self, pattern: str) -> str | None:
        """Returns the first file whose whole name fits a regular expression, upper and lower case alike, or None."""
        return next((name for name in self.names if re.fullmatch(pattern, name, re.IGNORECASE)), None)

    def shown(self, name: str) -> str:
        """Returns how messages call a file of the archive."""
        return str(self.path / name)

    def small(self, name: str) -> bytes:
        """Returns the content of a small file.

        Raises:
            TaxonomyError: If it is not there, cannot be read or is larger than 1 MiB.
        """
        data = self._beginning(name, _SMALL_FILE + 1)
        if len(data) > _SMALL_FILE:
            raise TaxonomyError("The file is larger than 1 MiB.", file=self.shown(name))
        return data

    def layout(self, name: str) -> Layout:
        """Returns the layout of a table with a header: CSV by its suffix, or the delimiter that the header has most of.

        A file called .tsv, .tab or .txt with tabs in its header quotes nothing.
        """
        data = self._beginning(name, _PEEKED)
        encoding = _encoding(data)
        first = next((line for line in data.decode(encoding, "replace").splitlines() if line.strip()), "")
        delimiter = csv_delimiter(first)
        if delimiter == "\t" and not name.lower().endswith(".csv"):
            return Layout("\t", None, encoding, escapes=True)
        return Layout(delimiter, '"', encoding)

    def rows(self, name: str, layout: Layout) -> Iterator[Row]:
        """Yields the rows of a table, the header's included; blank lines are left out. Cells are trimmed.

        Raises:
            TaxonomyError: If the file is not there, is cut off, is not text in its encoding, or a quote is not closed.
        """
        file = self.shown(name)
        lines = _Lines(self, name, layout.encoding)
        if layout.quote is None:
            for line in lines:
                if line.strip():
                    cells = line.rstrip("\r\n").split(layout.delimiter)
                    yield Row(lines.number, tuple(_unescape(c) if layout.escapes and "\\" in c else c for c in cells))
            return
        reader = csv.reader(iter(lines), delimiter=layout.delimiter, quotechar=layout.quote, strict=True)
        start = 1
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as problem:
                raise TaxonomyError(
                    f"The row cannot be read as CSV: {problem}.",
                    file=file,
                    row=start,
                    remedy="Close its quotes, and double any quote inside a name.",
                ) from None
            if any(cell.strip() for cell in cells):
                yield Row(start, tuple(cells))
            start = reader.line_num + 1

    def header(self, name: str, layout: Layout) -> Row:
        """Returns the first row of a table.

        Raises:
            TaxonomyError: If the table is empty.
        """
        first = next(iter(self.rows(name, layout)), None)
        if first is None:
            raise TaxonomyError("The taxonomy file is empty.", file=self.shown(name))
        return first

    def _beginning(self, name: str, size: int) -> bytes:
        with self._open(name) as stream:
            try:
                return stream.read(size)
            except _UNREADABLE as problem:
                raise self._broken(name, None, problem) from None

    def _open(self, name: str) -> IO[bytes]:
        member = self._members.get(name)
        if member is None:
            raise TaxonomyError(
                f"There is no file {name!r} in the archive.", file=self.path, remedy=f"There are: {_some(self.names)}."
            )
        if self._zip is not None:
            self._check_size(self._zip.getinfo(member).file_size)
        try:
            if self._tar is not None:
                # A member that is a file has a stream.
                return cast("IO[bytes]", self._tar.extractfile(member))
            return Path(member).open("rb") if self._zip is None else self._zip.open(member)
        except (RuntimeError, NotImplementedError, *_UNREADABLE) as problem:
            # RuntimeError is how the zipfile module says that a file is encrypted.
            raise self._broken(name, None, problem) from None

    def _check_size(self, size: int) -> None:
        if size > MOST_UNPACKED:
            raise TaxonomyError(
                f"The archive unpacks to more than {MOST_UNPACKED / 2**20:,.0f} MiB.",
                file=self.path,
                remedy="If it is as it should be, unpack it and give the folder.",
            )

    def _broken(self, name: str, row: int | None, problem: Exception) -> TaxonomyError:
        return TaxonomyError(
            f"The file cannot be read: {problem}.",
            file=self.shown(name),
            row=row,
            remedy="The archive may have been cut off; download it again.",
        )


class _Lines:
    """The lines of a file, decoded one by one, so that a bad byte has a row; counts them."""

    def __init__(self, archive: Archive, name: str, encoding: str) -> None:
        self._archive, self._name, self._encoding = archive, name, encoding
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        wide = codecs.lookup(self._encoding).name.startswith(("utf-16", "utf-32"))
        with self._archive._open(self._name) as stream:
            try:
                if wide:
                    for text in io.TextIOWrapper(stream, self._encoding, newline=""):
                        self.number += 1
                        yield self._checked(text)
                    return
                while line := stream.readline(_LONGEST_LINE):
                    self.number += 1
                    if len(line) == _LONGEST_LINE:
                        raise TaxonomyError("The line is longer than 16 MB.", file=self._shown, row=self.number)
                    if self.number == 1:
                        line = line.removeprefix(codecs.BOM_UTF8)
                    yield self._checked(line.decode(self._encoding))
            except UnicodeDecodeError:
                raise TaxonomyError(
                    f"The row is not {self._encoding.upper()} text.",
                    file=self._shown,
                    row=self.number + wide,
                    remedy="Save the file as UTF-8.",
                ) from None
            except _UNREADABLE as problem:
                raise self._archive._broken(self._name, self.number + 1, problem) from None

    def _checked(self, text: str) -> str:
        if "\0" in text:
            raise TaxonomyError("The line holds a NUL character.", file=self._shown, row=self.number)
        return text

    @property
    def _shown(self) -> str:
        return self._archive.shown(self._name)


def tidy(cell: str) -> str:
    """Returns a cell as `clean` does, at little cost where there is nothing to do."""
    return cell if cell.isascii() and cell.isprintable() and "  " not in cell and cell.strip() == cell else clean(cell)


def _encoding(data: bytes) -> str:
    return "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"


def _unescape(cell: str) -> str:
    return re.sub(r"\\([tnr\\])", lambda m: {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}[m[1]], cell)


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "") if names else "none"
