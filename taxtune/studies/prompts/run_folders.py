"""Prompts of taxtune's own runs: the baseline and the winners, as they were asked about the held-out images.

A finished run's folder holds `result.json`, which has one row per held-out image and template: target, answer and node.
Nothing is placed again here: the study shows what the run reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from taxtune.answers import AnswerRow
from taxtune.errors import DataError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.statistics import Sample, hierarchical_sample
from taxtune.studies.scoring import PlacedAnswers
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["PromptedModel", "read_run"]


class PromptedModel(NamedTuple):
    """One model under several prompts on the same examples.

    Attributes:
        taxonomy: The tree that nodes and targets are on.
        targets: The target of each example, shape (n,).
        prompts: The placed answers by prompt.
        rows: The answers as text, by prompt; needed for measures of text.
        texts: The templates by prompt, where they are known.
    """

    taxonomy: Taxonomy
    targets: NDArray[np.int64]
    prompts: Mapping[str, PlacedAnswers]
    rows: Mapping[str, Sequence[AnswerRow]] = {}
    texts: Mapping[str, str] = {}

    def sample(self, prompt: str, chosen: NDArray[np.bool_]) -> Sample:
        """Returns the sample of a prompt on some examples, for the bootstrap of the hierarchical scores."""
        placed = self.prompts[prompt]
        nodes, off = placed.nodes[chosen], placed.as_child[chosen]
        return hierarchical_sample(self.taxonomy, nodes, self.targets[chosen], off_tree=off)


class _Row(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    example: str
    truth: str
    placement: str | None
    answer: str | None = None
    hp: float | None
    hr: float | None
    abstained: bool = False
    off_tree: bool = False


class _Heldout(BaseModel):
    name: str
    template: str
    rows: list[_Row]
    off_tree_as: str | None = None


class _Result(BaseModel):
    heldout: list[_Heldout] | None = None


def read_run(folder: str | Path) -> PromptedModel:
    """Returns a run's baseline and winners on the held-out images.

    The tree is the part of the run's that the recorded paths show, which is all that hP and hR need.

    Args:
        folder: The folder of `taxtune tune` or `taxtune compare`, finished.

    Raises:
        DataError: If the folder holds no finished run, or the paths do not give the hP and hR that the run recorded.
    """
    file = Path(folder) / "result.json"
    if not file.is_file():
        remedy = "A run writes this file when it finishes: finish it with taxtune tune --resume."
        raise DataError("The folder contains no finished run.", file=file, remedy=remedy)
    try:
        held = _Result.model_validate_json(file.read_bytes()).heldout or []
    except (OSError, ValidationError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        value = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        remedy = "Give the folder of a finished run."
        raise DataError("This is not a result of taxtune.", file=file, value=value, remedy=remedy) from error
    rows = {entry.name: {row.example: row for row in entry.rows} for entry in held}
    if len(rows) < 2 or not held[0].rows:
        remedy = "Give a run that has a held-out split."
        raise DataError("The run compared no templates on held-out images.", file=file, remedy=remedy)
    examples = list(rows[held[0].name])
    if any(set(of) != set(examples) for of in rows.values()):
        raise DataError("The run's templates were asked about different images.", file=file)
    ordered = {name: [of[example] for example in examples] for name, of in rows.items()}
    taxonomy = _tree_of_paths(path for of in ordered.values() for row in of for path in (row.truth, row.placement))
    number: dict[str | None, int] = {"/".join(taxonomy.path(node)): node for node in range(len(taxonomy))}
    targets = [number[row.truth] for row in ordered[held[0].name]]
    model = PromptedModel(
        taxonomy,
        np.array(targets, dtype=np.int64),
        {
            entry.name: PlacedAnswers(
                np.array([number.get(row.placement, -1) for row in ordered[entry.name]], dtype=np.int64),
                np.array([entry.off_tree_as == "child" and row.off_tree for row in ordered[entry.name]], dtype=bool),
                abstained=sum(row.abstained for row in entry.rows),
                off_tree=sum(row.off_tree for row in entry.rows),
            )
            for entry in held
        },
        {
            name: [
                AnswerRow(
                    i, row.example, row.answer, () if row.answer is None else (row.answer,), target, row.truth, {}
                )
                for i, (row, target) in enumerate(zip(of, targets, strict=True), 1)
            ]
            for name, of in ordered.items()
        },
        {entry.name: entry.template for entry in held},
    )
    for name, of in ordered.items():
        _check_scores(file, model, name, of)
    return model


def _tree_of_paths(paths: Iterable[str | None]) -> Taxonomy:
    """The smallest tree that holds all paths "root/…/node"."""
    parts = [tuple(path.split("/")) for path in paths if path is not None]
    known = sorted({labels[:end] for labels in parts for end in range(1, len(labels) + 1)}, key=lambda p: (len(p), p))
    number = {labels: i for i, labels in enumerate(known)}
    return Taxonomy([labels[-1] for labels in known], [number.get(labels[:-1], -1) for labels in known])


def _check_scores(file: Path, model: PromptedModel, name: str, rows: list[_Row]) -> None:
    """Checks that the paths give the hP and the hR that the run recorded."""
    placed = model.prompts[name]
    known = placed.known
    scores = precision_recall(
        model.taxonomy, placed.nodes[known], model.targets[known], off_tree=placed.as_child[known]
    )
    recorded = [(row.hp, row.hr) for row in rows if row.placement is not None]
    if not np.allclose(np.stack(scores, axis=1), np.array(recorded, dtype=np.float64).reshape(-1, 2)):
        message = "The recorded paths do not give the run's hP and hR: labels of its taxonomy contain slashes."
        raise DataError(message, file=file, value=name)
