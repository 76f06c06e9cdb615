"""The errors that taxtune shows to people.

Every error that bad input can cause derives from `TaxtuneError`; the command line prints its
message and exits with code 2. A message names the file, the row and the value where there are any,
and says what to do about it.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path


class TaxtuneError(Exception):
    """A problem that the user can fix.

    Args:
        message: What is wrong, in one sentence.
        file: The file that the problem is in.
        row: The 1-based line of that file.
        value: The offending value.
        remedy: What to do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | Path | None = None,
        row: int | None = None,
        value: object | None = None,
        remedy: str | None = None,
    ) -> None:
        self.message = message
        self.file = None if file is None else str(file)
        self.row = row
        self.value = value
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        text = self.message
        if self.file is not None:
            where = self.file if self.row is None else f"{self.file}:{self.row}"
            text = f"{where}: {text}"
        if self.value is not None:
            text += f" (got {_short(self.value)})"
        if self.remedy is not None:
            text += f" {self.remedy}"
        return text


def _short(value: object, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shortened(lines: Sequence[str], limit: int = 10_000) -> list[str]:
    """Returns the lines of a message, or the first of them and how many more there are.

    A message names everything that is wrong, so that it can be fixed at once; but not a million
    times the same.
    """
    if len(lines) <= limit:
        return list(lines)
    return [*lines[:limit], f"  and {len(lines) - limit:,} more"]


def one_line(text: object) -> str:
    """Returns a text, or that of an error, with each run of white space as one space."""
    return " ".join(str(text).split())


def command(*words: str | Path) -> str:
    """Returns a command line of taxtune, quoted for a shell, for a message.

    Example: `command("tune", Path("my birds.yaml"))`.
    """
    return shlex.join(["taxtune", *map(str, words)])


def install_extra(extra: str) -> str:
    """Returns the command that installs an extra of taxtune from its clone.

    (It is on no package index.)
    """
    return f"pip install '.[{extra}]' (in the clone of taxtune)"


class Problems(list[TaxtuneError]):
    """Problems that are told together, so that they can be fixed at once."""

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Adds the problem that ends the block."""
        try:
            yield
        except TaxtuneError as problem:
            self.append(problem)

    def tell(self) -> None:
        """Raises the problem, or one error with all of them."""
        if len(self) == 1:
            raise self[0]
        if self:
            raise DataError("\n".join(map(str, self)))


class DataError(TaxtuneError):
    """A manifest, an answers file or a predictions file is not what it must be."""


class TaxonomyError(TaxtuneError):
    """A taxonomy is no rooted tree, or a label is not on it."""


class ImageError(TaxtuneError):
    """An image is missing, unreadable or refused."""


class TemplateError(TaxtuneError):
    """A prompt template was refused; the message is fit to be shown to the proposer."""


class RecipeError(TaxtuneError):
    """A recipe has an unknown key, a wrong value or asks for what is not there."""


class ResumeError(TaxtuneError):
    """`--resume` met a run that was made from another recipe or other data."""


class ProposerError(TaxtuneError):
    """A proposer cannot propose: no key, no server, no acceptable reply."""


class MapperError(TaxtuneError):
    """A similarity does not exist or lacks its texts, or a mapper setting is out of range."""


class ModelError(TaxtuneError):
    """A model behind a measure or a similarity (an encoder, a judge) cannot be loaded or run."""


class BatchPendingError(ModelError):
    """Questions are with a provider, whose batch has not ended; nothing is wrong."""


class MissingExtraError(TaxtuneError):
    """An optional package is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed.",
            remedy=f"Install it with: {install_extra(extra)}",
        )
