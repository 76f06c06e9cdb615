"""`history.jsonl`: the finished iterations of a run as a file, for people, for other programs and for reports.

It is an export: the database holds the truth. While a run goes on, a finished iteration costs one line at the end of
the file; when the search is over, the lines are put in order. A line counts once it ends with a newline, so that what
a killed process left half-written counts for nothing, and of several lines of one iteration the last one counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter

from taxtune.atomic import output_error, write_text
from taxtune.record_lines import parsed, whole_lines
from taxtune.tuning.records import IterationRecord

__all__ = ["RecordFile"]

_RECORD = TypeAdapter(IterationRecord)


class RecordFile:
    """The file of one run, written by the process that locks the run's folder.

    Args:
        file: The file.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        # The lines that are in the file as far as it was read: iteration and number of rows, which grow.
        self._lines: list[tuple[int, int]] = []
        self._read, self._inode = 0, 0

    def append(self, records: Sequence[IterationRecord]) -> None:
        """Appends the records that the file lacks, in whole or in part."""
        if not self._follow():
            self._write(records)
            return
        there = dict(self._lines)
        missing = [record for record in records if there.get(record.iteration) != len(record.rows)]
        content = "".join(map(_line, missing)).encode("utf-8", "backslashreplace")
        with self._file.open("ab", buffering=0) as stream:
            try:
                while content:
                    content = content[stream.write(content) :]
                self._read = stream.tell()
            except OSError as error:
                stream.truncate(self._read)
                raise output_error(self._file, error) from error
        self._lines += [(record.iteration, len(record.rows)) for record in missing]

    def complete(self, records: Sequence[IterationRecord]) -> None:
        """Makes the file one line a record, in the order given."""
        if not self._follow() or self._lines != [(record.iteration, len(record.rows)) for record in records]:
            self._write(records)

    def _follow(self) -> bool:
        """Reads what an earlier process appended and cuts off half a line; False where the file makes no sense."""
        try:
            with self._file.open("r+b") as stream:
                found = os.fstat(stream.fileno())
                if found.st_ino != self._inode or found.st_size < self._read:  # another file
                    self._lines, self._read, self._inode = [], 0, found.st_ino
                if found.st_size == self._read:
                    return True
                stream.seek(self._read)
                lines = whole_lines(stream.read())
                self._lines += [(iteration, len(data["rows"])) for iteration, data in parsed(lines)]
                self._read += len(lines)
                stream.truncate(self._read)
        except FileNotFoundError:
            self._lines, self._read = [], 0
            return False
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def _write(self, records: Sequence[IterationRecord]) -> None:
        write_text(self._file, "".join(map(_line, records)))
        found = self._file.stat()
        self._lines = [(record.iteration, len(record.rows)) for record in records]
        self._read, self._inode = found.st_size, found.st_ino


def _line(record: IterationRecord) -> str:
    return json.dumps(_RECORD.dump_python(record, mode="json"), ensure_ascii=False) + "\n"
