"""The answers of a tuning run and where they were placed, as its folder records them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.audit.population import Item, Population
from taxtune.errors import DataError
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["RunAnswers", "evaluations", "read_run_answers", "run_settings"]

_FINISH = "Finish it with taxtune tune --resume, or audit an iteration: --evaluation 0 is its baseline."


@dataclass(frozen=True, slots=True)
class RunAnswers:
    """What was said to one template of a run.

    Attributes:
        evaluation: Which template: "winner", "baseline", the objective that it won, or an iteration's number.
        split: "held-out" or "tuning".
        file: Where it is recorded.
        rows: Answer, node's number, its path joined with "/", and stage of each image that was answered.
        unanswered: Images without an answer.
    """

    evaluation: str
    split: str
    file: Path
    rows: tuple[tuple[str, int, str, str], ...]
    unanswered: int

    @property
    def answers(self) -> list[str]:
        """The answers, one an image."""
        return [answer for answer, *_ in self.rows]

    def population(self, name: str, tree: Taxonomy, mapper: Mapping[str, Any]) -> Population:
        """Returns the answers as the run placed them.

        Args:
            name: What they are called in messages.
            tree: The run's tree.
            mapper: The run's mapper's identity.

        Raises:
            DataError: If the tree is another one than the run's.
        """
        counts = Counter(self.rows)
        items = []
        for (answer, node, path, stage), count in counts.items():
            if not 0 <= node < len(tree) or "/".join(tree.path(node)) != path:
                raise DataError(
                    "The taxonomy is not the one that the run's answers were placed on.",
                    file=self.file,
                    value=path,
                    remedy="Give a taxonomy with --taxonomy, and the answers are placed on it anew.",
                )
            items.append(Item(answer, count, node, stage))
        return Population(name, tree, tuple(items), mapper, self.unanswered)


def read_run_answers(folder: Path, evaluation: str | None = None) -> RunAnswers:
    """Returns the answers to one template of a run.

    Args:
        folder: The folder of `taxtune tune` or `taxtune compare`.
        evaluation: "winner" or "baseline" on the held-out images, of a comparison an objective; or the number of an
            iteration on the tuning images. None is the winner, of a comparison that of its first objective.

    Raises:
        DataError: If the folder holds no run, or the run no such evaluation.
    """
    result, history = folder / "result.json", folder / "history.jsonl"
    if not result.exists() and not history.exists():
        raise DataError(
            "The folder holds no run of taxtune.",
            file=folder,
            remedy="Give the folder that taxtune tune or taxtune compare wrote, or a file of answers.",
        )
    if evaluation is not None and evaluation.isdecimal():
        return _iteration(history, evaluation)
    if not result.exists():
        raise DataError("The run is not finished: it has no held-out answers.", file=folder, remedy=_FINISH)
    held = dict(evaluations(result))
    name = evaluation or next((name for name in held if name != "baseline"), "winner")
    if name not in held:
        raise DataError(
            "The run has no such evaluation.",
            file=result,
            value=name,
            remedy=f"Use {', '.join(held)}, or the number of an iteration.",
        )
    return _answers(name, "held-out", result, held[name])


def evaluations(result: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yields the name and the rows of each template that a result compares on held-out images.

    Raises:
        DataError: If the file cannot be read or is no result.
    """
    try:
        held = json.loads(result.read_text("utf-8"))["heldout"]
        yield from [(str(entry["name"]), list(entry["rows"])) for entry in held]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_record(result, error) from error


def _iteration(history: Path, number: str) -> RunAnswers:
    try:
        records = [json.loads(line) for line in history.read_text("utf-8").splitlines() if line.strip()]
        found = {str(record["iteration"]): list(record["rows"]) for record in records}
    except FileNotFoundError:
        raise DataError(
            "The folder holds no iterations.",
            file=history.parent,
            remedy="Those of a comparison are in the sub-folders of its objectives.",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_record(history, error) from error
    rows = found.get(str(int(number)))
    if not rows:
        have = ", ".join(key for key, rows in found.items() if rows)
        raise DataError(
            "The run has no answers of this iteration.", file=history, value=number, remedy=f"It has those of {have}."
        )
    return _answers(f"iteration {int(number)}", "tuning", history, rows)


def _answers(evaluation: str, split: str, file: Path, rows: list[Any]) -> RunAnswers:
    try:
        said = [row for row in rows if row["answer"] is not None]
        found = tuple((str(r["answer"]), int(r["node"]), str(r["placed"]), str(r["stage"])) for r in said)
    except (KeyError, TypeError, ValueError) as error:
        raise _no_record(file, error) from error
    if not found:
        raise DataError(f"No image of the {split} split was answered.", file=file, remedy="Give another run.")
    return RunAnswers(evaluation, split, file, found, len(rows) - len(found))


def run_settings(folder: Path) -> Mapping[str, Any]:
    """Returns what a run was made from, see `history.read_attributes`; of a comparison, that of its first run.

    Empty where the history is gone.

    Raises:
        TaxtuneError: If the history cannot be read.
    """
    from taxtune.tuning.history import read_attributes

    folders = (folder, *sorted(path for path in folder.glob("*") if path.is_dir()))
    return next((found for found in map(read_attributes, folders) if found), {})


def _no_record(file: Path, error: Exception) -> DataError:
    return DataError("The record is not one of taxtune's.", file=file, value=str(error))
