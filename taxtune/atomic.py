"""Files that are there whole or not at all.

A result is written to a temporary file in the same folder, flushed to the disk and then moved over
the old one in a single step. A full disk, a read-only folder or a crash leaves the old file as it
was.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from taxtune.errors import TaxtuneError

__all__ = [
    "check_folder",
    "check_in_place",
    "make_folder",
    "output_error",
    "write_bytes",
    "write_json",
    "write_text",
    "writing",
]


def output_error(path: str | Path, error: OSError) -> TaxtuneError:
    """Returns the error to show for a file or folder that cannot be written."""
    return TaxtuneError(
        f"{error.strerror or error}; nothing was written.",
        file=path,
        remedy="Fix that (space, permissions, what is in the way), or choose another folder with "
        "--out.",
    )


def make_folder(path: str | Path) -> Path:
    """Makes a folder and its parents, if need be, and returns it.

    Raises:
        TaxtuneError: If it cannot be made, or no file can be created in it.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _probe(folder)
    except OSError as error:
        raise output_error(folder, error) from error
    return folder


def check_folder(path: str | Path) -> None:
    """Checks that a folder could be made, or written to if it exists; leaves nothing behind.

    Raises:
        TaxtuneError: If not.
    """
    folder = Path(path)
    try:
        while not folder.exists():
            folder = folder.parent
        _probe(folder)
    except OSError as error:
        raise output_error(path, error) from error


def check_in_place(*paths: Path) -> None:
    """Checks files that are written in place, such as databases.

    None may be a link, behind which anything may lie.

    Raises:
        TaxtuneError: If one is.
    """
    for path in paths:
        if path.is_symlink():
            message = "This is a link, and writing here would change the file behind it."
            remedy = "Remove the link, or put the file itself in its place."
            raise TaxtuneError(message, file=path, remedy=remedy)


def _probe(folder: Path) -> None:
    """Writes a file and removes it: a folder that exists may be read-only, or on a full disk."""
    probe, handle = _create_beside(folder / "probe")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(b"taxtune")
    finally:
        probe.unlink()


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Writes a file in one step, replacing what was there; returns its path.

    A symbolic link is not followed: it is replaced as well. The folder is made if need be.

    Raises:
        TaxtuneError: If the file cannot be written whole; the old file, if any, is untouched.
    """
    with writing(path) as file:
        file.write(data)
    return Path(path)


@contextmanager
def writing(path: str | Path) -> Iterator[IO[bytes]]:
    """Opens a file to be written bit by bit.

    It takes the place of the old one when the block ends without an error.

    Raises:
        TaxtuneError: If the file cannot be written whole; the old file, if any, is untouched.
    """
    target = Path(path)
    temporary: Path | None = None
    try:
        if target.exists() and not target.is_file():
            raise OSError(errno.EINVAL, "This is no file")
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary, handle = _create_beside(target)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise output_error(path, error) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()
    _sync_folder(target.parent)


def write_text(path: str | Path, text: str) -> Path:
    """Writes a text file as UTF-8, line ends unchanged, in one step; returns its path.

    Raises:
        TaxtuneError: If the file cannot be written whole.
    """
    # A lone surrogate (from a badly decoded answer) must not lose the whole file.
    return write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_json(path: str | Path, value: Any, *, indent: int | None = 2) -> Path:
    """Writes a value as JSON in one step; returns the file's path.

    Args:
        path: The file.
        value: Plain values; NaN and infinities are refused, since JSON has none.
        indent: Spaces an indentation level, or None for one line.

    Raises:
        TaxtuneError: If the file cannot be written whole.
        ValueError: If a number is NaN or infinite.
        TypeError: If a value is not plain.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    return write_text(path, text + "\n")


def _create_beside(target: Path) -> tuple[Path, int]:
    """Creates a temporary file in the target's folder, with the permissions of a plain `open`."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    # A name near the file system's limit of 255 bytes must stay possible, so the temporary name
    # does not contain it.
    temporary = target.parent / f".taxtune-{os.getpid()}-{secrets.token_hex(6)}.tmp"
    return temporary, os.open(temporary, flags, 0o666)


def _sync_folder(folder: Path) -> None:
    """Flushes the folder's entry, where the system can.

    Without it the move itself may be lost in a power cut.
    """
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
