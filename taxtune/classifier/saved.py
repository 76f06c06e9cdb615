"""A classifier in a folder: `classifier.json`, and the label tree as `taxonomy.json`; plain text, no pickle.

The tree is written as the columns that `Taxonomy` is made of, since readers of other formats tidy names.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from taxtune.atomic import make_folder, write_json
from taxtune.errors import DataError, TaxonomyError
from taxtune.policies import Reliability, RiskGuarantee
from taxtune.recipe import Recipe
from taxtune.settings import LocalVLMSettings, MapperSettings, VLMSettings
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from taxtune.classifier.classifier import Classifier

__all__ = ["FILE", "Saved", "read_saved", "read_tree", "save"]

#: The file that makes a folder a saved classifier.
FILE = "classifier.json"
_TREE = "taxonomy.json"
_AGAIN = "Save the classifier again from its run."


class Saved(BaseModel):
    """The content of `classifier.json`: settings as a recipe has them, with the commit of the model's weights."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["taxtune classifier 3"] = "taxtune classifier 3"
    name: str
    prompts: tuple[str, ...] = Field(min_length=1)
    policy: dict[str, Any]
    vlm: VLMSettings
    mapper: MapperSettings
    seed: int
    taxonomy: str
    reliability: Reliability | None
    guarantee: RiskGuarantee | None


def save(classifier: Classifier, folder: Path) -> Path:
    """Writes a classifier to a folder of its own; see `Classifier.save`."""
    recipe, tree = classifier.recipe, classifier.taxonomy
    if recipe is None or not classifier.portable:
        raise DataError(
            "The classifier has a model or a mapper that was given in Python, which no folder can hold.",
            file=folder,
            remedy="Load it from its run with the same objects: taxtune.load_classifier(run, vlm=...).",
        )
    if folder.exists() and not (folder / FILE).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            "The folder holds something else than a classifier.", file=folder, remedy="Give a new or an empty folder."
        )
    make_folder(folder)
    saved = Saved(
        name=classifier.name,
        prompts=classifier.prompts,
        policy=dict(classifier.policy.identity()),
        vlm=_pinned(recipe),
        mapper=recipe.mapper,
        seed=recipe.seed,
        taxonomy=tree.digest,
        reliability=classifier.reliability,
        guarantee=classifier.guarantee,
    )
    columns = {"aliases": tree.aliases, "leads": tree.leads, "ranks": tree.ranks, "ids": tree.ids}
    columns = {name: values for name, values in columns.items() if any(values)}
    # The JSON last: without it the folder is no classifier.
    write_json(folder / _TREE, {"labels": tree.labels, "parents": tree.parents.tolist(), **columns}, indent=None)
    write_json(folder / FILE, saved.model_dump(mode="json"))
    return folder


def _pinned(recipe: Recipe) -> VLMSettings:
    """The model's settings so that they mean the same anywhere: absolute paths, and the commit of a name."""
    s = recipe.vlm
    if not isinstance(s, LocalVLMSettings) or s.model.startswith("builtin:"):
        return s
    path = recipe.path(s.model)
    if path.is_dir():
        return s.model_copy(update={"model": str(path.resolve())})
    if s.revision is not None and re.fullmatch("[0-9a-f]{40}", s.revision):
        return s
    from taxtune.models.checkpoint import checkpoint_revision

    return s.model_copy(update={"revision": checkpoint_revision(s.model, s.revision)})


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
        said = ": ".join((*map(str, first["loc"]), first["msg"]))
        message = f"This is no classifier of this version of taxtune: {said}."
        raise DataError(message, file=file, remedy=_AGAIN) from error


def read_tree(folder: Path, saved: Saved) -> Taxonomy:
    """Reads the tree of a saved classifier.

    Raises:
        DataError: If it cannot be read, or is not the tree that was saved.
    """
    file = folder / _TREE
    try:
        tree = Taxonomy(**json.loads(file.read_text(encoding="utf-8")), source=str(file))
    except (OSError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, TaxonomyError) as error:
        raise DataError(f"The tree cannot be read: {error}.", file=file, remedy=_AGAIN) from error
    if tree.digest != saved.taxonomy:
        raise DataError("The tree is not the one that was saved.", file=file, remedy=f"{_AGAIN} Or tune on this tree.")
    return tree
