"""Prompts of taxtune's own runs: the baseline and the winners, as they were asked about the held-out images.

A finished run's folder holds `result.json`, and in it for each template compared one row an image with the target, the
answer and the node that it was placed on. Nothing is placed again here: the study shows what the run reported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taxtune.answers import AnswerRow
from taxtune.errors import DataError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.studies.placing import PlacedAnswers
from taxtune.studies.prompts.study import PromptedModel
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["read_run"]

_RESULT = "result.json"


def read_run(folder: str | Path, taxonomy: Taxonomy | None = None) -> PromptedModel:
    """Returns a run's baseline and winners on the held-out images.

    Args:
        folder: The folder of `taxtune tune` or `taxtune compare`, finished.
        taxonomy: The run's taxonomy; None takes the part of it that the recorded paths show, which is all that hP and
            hR need.

    Raises:
        DataError: If the folder holds no finished run, or the nodes do not give the hP and hR that the run recorded.
    """
    file = Path(folder) / _RESULT
    result = _load(file)
    held = result.get("heldout")
    if not isinstance(held, list) or len(held) < 2:
        raise DataError(
            "The run compared no templates on held-out images.",
            file=file,
            remedy="Give a run that has a held-out split.",
        )
    try:
        names = [str(entry["name"]) for entry in held]
        rows = [{str(row["example"]): row for row in entry["rows"]} for entry in held]
        examples = list(rows[0])
        if not examples:
            raise DataError("The run's held-out split has no images.", file=file, remedy="Give another run.")
        if any(set(part) != set(examples) for part in rows):
            raise DataError("The run's templates were asked about different images.", file=file)
        if taxonomy is None:
            paths = [row[key] for part in rows for row in part.values() for key in ("truth", "placement")]
            taxonomy = _tree_of_paths(paths)
            number = {"/".join(taxonomy.path(node)): node for node in range(len(taxonomy))}
            keys = ("truth", "placement")
        else:
            number, keys = None, ("target", "node")
        targets, *nodes = (
            [
                -1 if part[example][key] is None else number[part[example][key]] if number else int(part[example][key])
                for example in examples
            ]
            for part, key in ((rows[0], keys[0]), *((part, keys[1]) for part in rows))
        )
        prompts = {
            name: PlacedAnswers(
                np.array(placed, dtype=np.int64),
                # A run of a version that knew of no answers off the tree has none.
                np.array([entry.get("off_tree_as") == "child" and _off_tree(part[key]) for key in examples], bool),
                abstained=sum(bool(part[key]["abstained"]) for key in examples),
                off_tree=sum(_off_tree(part[key]) for key in examples),
            )
            for name, placed, part, entry in zip(names, nodes, rows, held, strict=True)
        }
        texts = {name: str(entry["template"]) for name, entry in zip(names, held, strict=True)}
        said = {name: _answers(part, examples, targets) for name, part in zip(names, rows, strict=True)}
        model = PromptedModel(taxonomy, np.array(targets, dtype=np.int64), prompts, said, texts=texts)
        _check_scores(file, model, [[part[example] for example in examples] for part in rows])
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise DataError(
            "This is not a result of taxtune.",
            file=file,
            value=str(error),
            remedy="Give the folder of a finished run.",
        ) from error
    return model


def _load(file: Path) -> dict[str, Any]:
    try:
        result = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise DataError(
            "The folder contains no finished run.",
            file=file,
            remedy="A run writes this file when it finishes: finish it with taxtune tune --resume.",
        ) from None
    except (OSError, ValueError) as error:
        raise DataError("The run's result cannot be read.", file=file, value=str(error)) from error
    if not isinstance(result, dict):
        raise DataError("This is not a result of taxtune.", file=file)
    return result


def _answers(
    rows: Mapping[str, Mapping[str, Any]], examples: Sequence[str], targets: Sequence[int]
) -> tuple[AnswerRow, ...]:
    """Returns what was said of each example, for measures of text."""
    found = []
    for number, (example, target) in enumerate(zip(examples, targets, strict=True), start=1):
        row = rows[example]
        said = None if row.get("answer") is None else str(row["answer"])
        found.append(AnswerRow(number, example, said, (said,) if said else (), target, str(row["truth"]), row))
    return tuple(found)


def _off_tree(row: Mapping[str, Any]) -> bool:
    return bool(row.get("off_tree", False))


def _tree_of_paths(paths: Sequence[str | None]) -> Taxonomy:
    """Returns the smallest tree that holds all paths "root/…/node"."""
    known: dict[tuple[str, ...], None] = {}
    for path in sorted({path for path in paths if path is not None}):
        labels = tuple(path.split("/"))
        for end in range(1, len(labels) + 1):
            known.setdefault(labels[:end])
    ordered = sorted(known, key=lambda labels: (len(labels), labels))
    number = {labels: i for i, labels in enumerate(ordered)}
    return Taxonomy([labels[-1] for labels in ordered], [number.get(labels[:-1], -1) for labels in ordered])


def _check_scores(file: Path, model: PromptedModel, rows: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """Makes sure that the nodes are those of the run: they must give the hP and the hR that it wrote down."""
    remedy = "Give the run's own taxonomy with --taxonomy."
    for placed, part in zip(model.prompts.values(), rows, strict=True):
        known = placed.known
        highest = max(int(placed.nodes.max()), int(model.targets.max()))
        if highest >= len(model.taxonomy) or int(model.targets.min()) < 0 or int(placed.nodes.min()) < -1:
            raise DataError("This is not the run's taxonomy.", file=file, remedy=remedy)
        hp, hr = precision_recall(
            model.taxonomy, placed.nodes[known], model.targets[known], off_tree=placed.as_child[known]
        )
        said = [(row["hp"], row["hr"]) for row in part if row["placement"] is not None]
        if said and not np.allclose(np.stack([hp, hr], axis=1), np.array(said, dtype=np.float64)):
            raise DataError(
                "The recorded nodes do not give the run's hP and hR; this is a different taxonomy, or its labels "
                "contain slashes.",
                file=file,
                remedy=remedy,
            )
