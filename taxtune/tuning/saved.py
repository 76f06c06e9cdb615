"""A saved classifier: all that labels new images but the weights of the model, as JSON in a folder.

`classifier.json` has the template, the settings and the label tree: plain text, no pickle. The tree
is written as the columns that `Taxonomy` is made of, since readers of other formats tidy names. A
run saves its winner in its own folder, as `classifier`, so that the folder
needs none of the files that the recipe names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from taxtune.atomic import check_in_place, make_folder, write_json
from taxtune.data.boxes import Boxes
from taxtune.data.context import Variable
from taxtune.errors import DataError, TaxonomyError
from taxtune.models import Model
from taxtune.policies import Reliability, RiskGuarantee
from taxtune.policies.allowed import Occurrence
from taxtune.recipe import Recipe
from taxtune.settings import AUTO, LabelWords, LocalVLMSettings, MapperSettings, VLMSettings
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.build import language_model, make_boxes
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.records import TuneResult
from taxtune.tuning.run_folder import CLASSIFIER, as_texts, finished_run
from taxtune.untrusted import redact

__all__ = [
    "FILE",
    "Saved",
    "find_saved",
    "pinned",
    "read_saved",
    "save_winner",
    "tree_columns",
    "tree_of_columns",
    "write_saved",
]

#: The file that makes a folder a saved classifier.
FILE = "classifier.json"
_AGAIN = "Save the classifier again from its run."


class Saved(BaseModel):
    """The content of `classifier.json`: settings as in a recipe, with the commit of the weights.

    Attributes:
        format: What the file is.
        name: The run's name.
        template: The Jinja source.
        variables: What the template says of every image.
        context: What has to be known of each image.
        allowed: The rows of the checklist, by numbers of nodes.
        policy: The policy's identity.
        vlm: The model's settings, None for a model that was given in Python.
        mapper: The mapper's settings, None for a mapper that was given in Python.
        placed_by: The mapper's identity, as a provenance has it.
        seed: Seeds the model's sampling.
        reliability: How often answers like these were right.
        guarantee: What `calibrate` guarantees of the policy.
        words: What labels say that no tree has.
        boxes: What of photos is asked about; None for whole photos.
        group: Which images belong together.
        taxonomy: The label tree, see `tree_columns`.
    """

    model_config = ConfigDict(extra="forbid")

    format: Literal["taxtune classifier 7"] = "taxtune classifier 7"
    name: str
    template: str = Field(min_length=1)
    variables: dict[str, Any]
    context: tuple[Variable, ...]
    allowed: tuple[Occurrence, ...] | None
    policy: dict[str, Any]
    vlm: VLMSettings | None
    mapper: MapperSettings | None
    placed_by: dict[str, str]
    seed: int
    reliability: Reliability | None
    guarantee: RiskGuarantee | None
    words: LabelWords = LabelWords()
    boxes: Boxes | None = None
    group: str | None = None
    taxonomy: dict[str, Any]


# -- writing ---------------------------------------------------------------------------------------


def write_saved(folder: Path, saved: Saved) -> None:
    """Writes a classifier to a folder, which is made if it is not there.

    Addresses lose their passwords.
    """
    make_folder(folder)
    content = saved.model_dump(mode="json")
    for group in ("vlm", "mapper"):
        content[group] = json.loads(redact(json.dumps(content[group])))
    write_json(folder / FILE, content)


def save_winner(experiment: Experiment, result: TuneResult) -> None:
    """Writes the winner of a run to the run's folder, as a classifier."""
    recipe = experiment.recipe
    winner = experiment.rules.parse(result.best.template or "")
    allowed = experiment.allowed
    used = set(winner.variables)
    if allowed is not None:
        used.update(allowed.variables)
    policy = {} if result.selection is None else result.selection.policy
    vlm, mapper = pinned(recipe, experiment.vlm)
    boxes = None if "data" in experiment.given else make_boxes(recipe)
    if boxes is not None:
        boxes = replace(boxes, file=None)
    words = recipe.data.model_dump(include=set(LabelWords.model_fields))
    context = [variable for variable in experiment.context if variable.name in used]
    saved = Saved(
        name=result.name,
        template=winner.source,
        variables=experiment.variables,
        context=tuple(context),
        allowed=None if allowed is None else allowed.rows,
        policy=policy or dict(experiment.policy.identity()),
        vlm=None if "vlm" in experiment.given else vlm,
        mapper=None if "mapper" in experiment.given else mapper,
        placed_by=as_texts(experiment.mapper.identity()),
        seed=recipe.seed,
        taxonomy=tree_columns(experiment.taxonomy),
        reliability=_reliability(experiment.taxonomy, result),
        guarantee=None,
        words=LabelWords(**words),
        boxes=boxes,
        group=recipe.data.group,
    )
    folder = Path(result.folder) / CLASSIFIER
    check_in_place(folder)
    write_saved(folder, saved)


def pinned(recipe: Recipe, model: Model) -> tuple[VLMSettings, MapperSettings]:
    """Returns the settings of a recipe's model and mapper in a form that means the same anywhere.

    Paths are absolute, and the name of a checkpoint has its commit.
    """
    vlm = recipe.vlm
    mapper = recipe.mapper
    arbiter = None if mapper.arbiter == AUTO else mapper.arbiter
    if arbiter is not None:
        arbiter = str(language_model(recipe, arbiter))
    mapper = mapper.model_copy(update={"arbiter": arbiter})
    if not isinstance(vlm, LocalVLMSettings) or vlm.model.startswith("builtin:"):
        return vlm, mapper
    for path in (recipe.path(vlm.model), Path(vlm.model)):
        if path.is_dir():
            return vlm.model_copy(update={"model": str(path.resolve())}), mapper
    if vlm.revision is None or not re.fullmatch("[0-9a-f]{40}", vlm.revision):
        vlm = vlm.model_copy(update={"revision": model.identity.get("revision")})
    return vlm, mapper


def _reliability(tree: Taxonomy, result: TuneResult) -> Reliability | None:
    """Counts right answers of the winner to the held-out images; None if none was judged."""
    nodes = []
    targets = []
    for row in result.heldout_winner.rows:
        if row.node is None or row.off_tree:
            continue
        # Of several answers the first: what a single answer would have been.
        node = row.votes[0] if row.votes else row.node
        if node >= 0:
            nodes.append(node)
            targets.append(row.target)
    return Reliability.of(tree, nodes, targets) if nodes else None


# -- reading ---------------------------------------------------------------------------------------


def find_saved(folder: Path) -> Path:
    """Returns the folder of a classifier: the given one, or that of the winner of a run in it.

    Raises:
        DataError: If there is no classifier in the folder, and no finished run.
    """
    if (folder / FILE).exists():
        return folder
    own = folder / CLASSIFIER
    if not (own / FILE).exists():
        finished_run(folder)  # says what is there instead
        raise DataError(
            "The run's folder lacks the winner's classifier, which this version of taxtune writes.",
            file=own / FILE,
            remedy="Run it again with --resume (resume=True in Python), which asks nothing anew.",
        )
    return own


def read_saved(folder: Path) -> Saved:
    """Reads `classifier.json`.

    Raises:
        DataError: If it cannot be read, or was written by another version of taxtune.
    """
    file = folder / FILE
    try:
        return Saved.model_validate_json(file.read_bytes())
    except OSError as error:
        raise DataError(f"The file cannot be read: {error.strerror}.", file=file) from error
    except ValidationError as error:
        first = error.errors()[0]
        parts = (*map(str, first["loc"]), first["msg"])
        problem = ": ".join(parts)
        raise DataError(
            f"This is no classifier of this version of taxtune: {problem}.",
            file=file,
            remedy=_AGAIN,
        ) from error


def tree_columns(tree: Taxonomy) -> dict[str, Any]:
    """Returns the columns of a tree for JSON, without those that have no value."""
    columns: dict[str, Any] = {"labels": tree.labels, "parents": tree.parents.tolist()}
    for name in ("aliases", "leads", "ranks", "ids"):
        values = getattr(tree, name)
        if any(values):
            columns[name] = values
    return columns


def tree_of_columns(columns: Mapping[str, Any], file: Path | None) -> Taxonomy:
    """Returns the tree of columns, read from a file.

    Raises:
        DataError: If they make no tree.
    """
    try:
        return Taxonomy(**columns, source=None if file is None else str(file))
    except (
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        TaxonomyError,
    ) as error:
        raise DataError(f"The tree cannot be read: {error}.", file=file, remedy=_AGAIN) from error
