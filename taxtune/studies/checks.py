"""What a study is told to read and to write, checked before anything long is done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from taxtune.atomic import check_folder
from taxtune.errors import DataError

__all__ = ["check_once", "check_written"]


def check_written(path: Path | None, option: str, ending: str, read: Iterable[Any]) -> None:
    """Checks that a file can be written to, has the ending that its content has, and is not one of those that are read.

    Args:
        path: The file, or None.
        option: The option that names it, for the message.
        ending: The ending, as in ".npz".
        read: The files that the study reads; None, or anything that is not a file, is passed over.

    Raises:
        DataError: If its ending is another, it is a folder, or it is read.
        TaxtuneError: If it cannot be written to.
    """
    if path is None:
        return
    if path.suffix.lower() != ending:
        raise DataError(f"The file for {option} must end in {ending}.", value=str(path), remedy="Rename it.")
    if path.is_dir():
        raise DataError(f"This is a folder, but {option} needs a file.", file=path)
    if path.resolve() in {Path(other).resolve() for other in read if isinstance(other, str | Path)}:
        raise DataError(f"{option} names a file that is also an input.", file=path, remedy="Choose another.")
    check_folder(path.parent)


def check_once(option: str, given: Sequence[Any]) -> None:
    """Checks that an option that may be repeated names nothing twice.

    Raises:
        DataError: If it does.
    """
    repeated = [str(value) for i, value in enumerate(given) if value in given[:i]]
    if repeated:
        raise DataError(f"{option} contains the same value twice.", value=repeated[0], remedy="Give it once.")
