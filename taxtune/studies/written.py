"""Files that a study writes where it is told to: checked before anything long is done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from taxtune.atomic import check_folder
from taxtune.errors import DataError

__all__ = ["check_written"]


def check_written(path: Path | None, option: str, ending: str, read: Iterable[Path | str | None]) -> None:
    """Checks that a file can be written to, has the ending that its content has, and is none of those that are read.

    Args:
        path: The file, or None.
        option: The option that names it, for the message.
        ending: The ending, as in ".npz".
        read: The files that the study reads; None for one that it does not.

    Raises:
        DataError: If its ending is another, it is a folder, or it is read.
        TaxtuneError: If it cannot be written to.
    """
    if path is None:
        return
    if path.suffix.lower() != ending:
        raise DataError(f"The file of {option} must end in {ending}.", value=str(path), remedy="Name it so.")
    if path.is_dir():
        raise DataError(f"This is a folder, and {option} names a file.", file=path)
    if path.resolve() in {Path(other).resolve() for other in read if other is not None}:
        raise DataError(f"{option} would overwrite a file that is read.", file=path, remedy="Choose another.")
    check_folder(path.parent)
