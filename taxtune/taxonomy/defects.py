"""What can be wrong with a taxonomy file: `Defect`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from taxtune.errors import TaxonomyError

__all__ = ["Defect", "DefectKind"]

DefectKind = Literal[
    "added root",
    "authorship",
    "conflicting rows",
    "cycle",
    "dangling parent",
    "duplicate row",
    "duplicate sibling",
    "empty name",
    "left out",
    "provisional",
    "ragged row",
    "renamed",
    "second root",
    "several parents",
    "shared alias",
    "shared id",
    "shared label",
    "similar siblings",
    "synonyms",
]


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong, or worth knowing, in a taxonomy file.

    Attributes:
        kind: What kind of defect it is.
        message: What is wrong, in one sentence.
        file: The file.
        row: The 1-based line of a CSV file, or the 1-based position in the `categories` of a JSON file; None where no
            single row is to blame or there are none: in nested JSON the value is a JSON path, in RDF an IRI.
        breaks: Whether the file is no rooted tree of named nodes while the defect is there. Every reader refuses such
            a file; a defect that does not break the tree is a note.
        value: The offending value, where there is one.
        remedy: What to do about it.
    """

    kind: DefectKind
    message: str
    file: str
    row: int | None
    breaks: bool
    value: str | None = None
    remedy: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns the defect as plain values, for JSON."""
        return asdict(self)

    def error(self, more: int = 0) -> TaxonomyError:
        """Returns the defect as an error.

        Args:
            more: How many other defects break the same file.
        """
        others = "" if more == 0 else f" {more} more: see `taxtune taxonomy check`."
        return TaxonomyError(
            self.message, file=self.file, row=self.row, value=self.value, remedy=(self.remedy or "") + others or None
        )
