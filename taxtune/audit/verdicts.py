"""Finding on placements, and the file that they are appended to as they are given."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from taxtune import atomic
from taxtune.audit.population import Item, Population
from taxtune.errors import DataError, TaxonomyError
from taxtune.mapping.config import Stage
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Finding", "Verdict", "VerdictLog", "judged_by_node"]


class Verdict(StrEnum):
    """What a placement is."""

    #: The node is what the answer asserts, or one that is as good.
    RIGHT = "right"
    #: The node is right as far as it goes, and the tree has a deeper one that the answer asserts.
    TOO_GENERAL = "too general"
    #: The node, or one above it, is not what the answer asserts.
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """What somebody found a placement to be.

    Attributes:
        verdict: The verdict.
        node: The node that the answer belongs on, where it was named; the root if it names nothing on the tree.
        phrase: The words of the answer that name that node, where they were pointed out.
    """

    verdict: Verdict
    node: int | None = None
    phrase: str | None = None


def judged_by_node(tree: Taxonomy, item: Item, node: int) -> Verdict:
    """Returns the verdict on a placement that follows from the node that the answer belongs on.

    An abstention is the most general of placements; that an answer is off the tree, where it is not, is wrong.

    Args:
        tree: The tree.
        item: The placement.
        node: The node that its answer belongs on; the root if that names nothing on the tree.
    """
    if node == item.node:
        return Verdict.RIGHT
    above = bool(tree.is_ancestor(item.node, node)) and item.stage != Stage.OFF_TREE
    return Verdict.TOO_GENERAL if above else Verdict.WRONG


class VerdictLog:
    """The verdicts of a person on disk, one per line; a later one on the same placement replaces an earlier one.

    Args:
        path: The file; it need not be there.

    Raises:
        DataError: If it cannot be read, or a line other than an unfinished last one is not a verdict.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # By answer, and for each by placement: the latest is the last.
        self._said: dict[str, dict[str, dict[str, Any]]] = {}
        self._whole = 0  # bytes of the file that hold verdicts; what follows was cut off by a crash
        self._ended = True  # whether the last of them has its line end
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise DataError(f"The verdicts cannot be read: {error.strerror}.", file=path) from error
        for row, line in enumerate(content.splitlines(keepends=True), 1):
            try:
                record = _record(line)
            except (ValueError, KeyError, TypeError) as error:
                if line.endswith(b"\n"):
                    raise DataError(
                        "The line is not a verdict.",
                        file=path,
                        row=row,
                        value=line.decode("utf-8", "replace").strip(),
                        remedy="Remove the line, or move the file away to start again.",
                    ) from error
                break
            self._keep(record)
            self._whole += len(line)
            self._ended = line.endswith(b"\n")

    def _keep(self, record: dict[str, Any]) -> None:
        of_answer = self._said.setdefault(record["answer"], {})
        key = _placement(record["placed"], record["nowhere"])
        of_answer.pop(key, None)
        of_answer[key] = record

    def find(self, population: Population, item: Item) -> Finding | None:
        """Returns the verdict on an item; None where there is none, or its placement was another.

        An answer for which the right node was chosen needs no new verdict where it is on that node by now.
        """
        of_answer = self._said.get(item.answer, {})
        record = of_answer.get(_placement(population.tree.path(item.node), item.nowhere))
        if record is not None:
            return Finding(Verdict(record["verdict"]), _node(population.tree, record["node"]))
        chosen = [_node(population.tree, record["node"]) for record in of_answer.values()]
        return Finding(Verdict.RIGHT, item.node) if chosen and chosen[-1] == item.node else None

    def earlier(self, answer: str) -> str | None:
        """Returns what was said of another placement of this answer, in words; None where nothing was."""
        record = next(reversed(self._said.get(answer, {}).values()), None)
        return None if record is None else f"placed on {' › '.join(record['placed'])} it was {record['verdict']}"

    def add(self, population: Population, item: Item, said: Finding) -> None:
        """Appends a verdict, and has it on the disk before returning.

        Raises:
            TaxtuneError: If it cannot be written.
        """
        record = {
            "answer": item.answer,
            "placed": list(population.tree.path(item.node)),
            "nowhere": item.nowhere,
            "verdict": str(said.verdict),
            "node": None if said.node is None else list(population.tree.path(said.node)),
        }
        line = json.dumps(record)  # in ASCII: a broken answer may hold half a surrogate pair
        try:
            with self.path.open("ab") as file:
                file.truncate(self._whole)
                self._whole += file.write(f"{'' if self._ended else chr(10)}{line}\n".encode("ascii"))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise atomic.output_error(self.path, error) from error
        self._ended = True
        self._keep(record)


def _record(line: bytes) -> dict[str, Any]:
    record = json.loads(line)
    Verdict(record["verdict"])
    paths = [record["placed"], *([] if record["node"] is None else [record["node"]])]
    if not all(isinstance(path, list) and all(isinstance(label, str) for label in path) for path in paths):
        raise TypeError("a path must be a list of labels")
    if not isinstance(record["answer"], str) or not isinstance(record["nowhere"], str):
        raise TypeError("an answer must be text")
    return dict(record)


def _placement(path: Sequence[str], nowhere: str) -> str:
    return json.dumps([*path, nowhere])


def _node(tree: Taxonomy, path: list[str] | None) -> int | None:
    """Returns the node of a path; None where there is none, or the tree has it no more."""
    if path is None:
        return None
    try:
        return tree.resolve(tuple(path))
    except TaxonomyError:
        return None
