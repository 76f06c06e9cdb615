"""A classifier in a folder: `classifier.json`, and the label tree as `taxonomy.json`; plain text, no pickle.

The tree is written as the columns that `Taxonomy` is made of. Formats for exchange would do for most trees, but their
readers tidy names and number the nodes anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

import taxtune
from taxtune.atomic import make_folder, write_json
from taxtune.classifier.classifier import Classifier, Promise
from taxtune.classifier.reliability import Reliability
from taxtune.errors import DataError, TaxonomyError
from taxtune.policies import Direct, Vote
from taxtune.recipe import Recipe
from taxtune.settings import LocalVLMSettings, VLMSettings
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from taxtune.mapping import Mapper

__all__ = ["FILE", "Saved", "not_saved", "read_saved", "read_tree", "save"]

#: The file that makes a folder a saved classifier.
FILE = "classifier.json"
_TREE = "taxonomy.json"
_FORMAT = "taxtune classifier"
_AGAIN = "Save the classifier again from its run."
_ANOTHER = "For another tree, tune again."
#: Raised when a folder that this version writes cannot be read by the version before.
_VERSION = 2


class _Mapper(BaseModel):
    """The mapper: the specification of its similarity, and its settings."""

    model_config = ConfigDict(extra="forbid")

    similarity: str
    config: dict[str, Any]


class Saved(BaseModel):
    """What `classifier.json` holds.

    Attributes:
        format: What the file is.
        version: The version of the format.
        taxtune: The version of taxtune that wrote it, for people.
        name: What the classifier is called.
        prompts: The rendered prompts.
        policy: The policy's kind and settings; None for a policy that was given in Python.
        vlm: The model's settings as a recipe has them, with the commit of its weights; None for a model that was given
            in Python.
        seed: The seed of the model's sampling.
        mapper: How answers are placed; None for a mapper that was given in Python.
        taxonomy: The digest of the tree.
        reliability: How often answers like these were right.
        promise: What `calibrate` promised.
    """

    model_config = ConfigDict(extra="forbid")

    format: Literal["taxtune classifier"]
    version: int
    taxtune: str
    name: str
    prompts: tuple[str, ...]
    policy: dict[str, Any] | None
    vlm: VLMSettings | None
    seed: int
    mapper: _Mapper | None
    taxonomy: str
    reliability: Reliability | None
    promise: Promise | None


def not_saved(classifier: Classifier) -> list[str]:
    """Returns which parts of a classifier are objects that a folder cannot hold, by the name of the option."""
    from taxtune.mapping import Mapper

    missing = [] if classifier.recipe is not None else ["vlm"]
    if type(classifier.mapper) is not Mapper or not _known(classifier.mapper):
        missing.append("mapper")
    if not isinstance(classifier.policy, Direct | Vote):
        missing.append("policy")
    return missing


def _known(mapper: Mapper) -> bool:
    """Tells whether the mapper's similarity can be made again by its name."""
    from taxtune.mapping.similarity import EmbeddingSimilarity, LexicalSimilarity

    return type(mapper.similarity) in (LexicalSimilarity, EmbeddingSimilarity)


def save(classifier: Classifier, folder: Path) -> Path:
    """Writes a classifier to a folder of its own; see `Classifier.save`."""
    missing = not_saved(classifier)
    if folder.exists() and not (folder / FILE).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            "The folder holds something else than a classifier.", file=folder, remedy="Give a new or an empty folder."
        )
    make_folder(folder)
    mapper, recipe = classifier.mapper, classifier.recipe
    saved = Saved(
        format=_FORMAT,
        version=_VERSION,
        taxtune=taxtune.__version__,
        name=classifier.name,
        prompts=classifier.prompts,
        policy=None if "policy" in missing else dict(classifier.policy.identity()),
        vlm=None if recipe is None else _vlm(recipe),
        seed=0 if recipe is None else recipe.seed,
        mapper=None
        if "mapper" in missing
        else _Mapper(similarity=mapper.similarity.name, config=mapper.config.as_dict()),
        taxonomy=classifier.taxonomy.digest,
        reliability=classifier.reliability,
        promise=classifier.promise,
    )
    # The JSON last: without it the folder is no classifier.
    write_json(folder / _TREE, _columns(classifier.taxonomy), indent=None)
    write_json(folder / FILE, saved.model_dump(mode="json"))
    return folder


def _vlm(recipe: Recipe) -> VLMSettings:
    """Returns the model's settings so that they mean the same anywhere: absolute paths, and the commit of a name."""
    s = recipe.vlm
    if not isinstance(s, LocalVLMSettings):
        return s
    if s.model.startswith("builtin:"):
        return s
    path = recipe.path(s.model)
    if path.is_dir():
        return s.model_copy(update={"model": str(path.resolve())})
    if s.revision is not None and re.fullmatch("[0-9a-f]{40}", s.revision):
        return s
    from taxtune.models.checkpoint import checkpoint_revision

    return s.model_copy(update={"revision": checkpoint_revision(s.model, s.revision)})


def _columns(tree: Taxonomy) -> dict[str, Any]:
    """Returns the arguments of `Taxonomy`, without those that say nothing of any node."""
    optional = {"aliases": tree.aliases, "leads": tree.leads, "ranks": tree.ranks, "ids": tree.ids}
    return {
        "labels": tree.labels,
        "parents": tree.parents.tolist(),
        **{name: values for name, values in optional.items() if any(values)},
    }


def read_saved(folder: Path) -> Saved:
    """Reads `classifier.json`.

    Raises:
        DataError: If it cannot be read, or was written by a version of taxtune that this one does not know.
    """
    file = folder / FILE
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"The file cannot be read: {error}.", file=file) from error
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise DataError("The file is not a classifier of taxtune.", file=file, remedy=_AGAIN)
    if data.get("version") != _VERSION:
        raise DataError(
            f"The classifier was saved by taxtune {data.get('taxtune')}, in another version of the format.",
            file=file,
            value=data.get("version"),
            remedy=f"This is taxtune {taxtune.__version__}, which reads version {_VERSION}: update the older of the "
            "two, or save the classifier again from its run.",
        )
    try:
        return Saved.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(
            f"The classifier's settings cannot be used: {where}: {first['msg']}.",
            file=file,
            remedy=_AGAIN,
        ) from error


def read_tree(folder: Path, saved: Saved) -> Taxonomy:
    """Reads the tree of a saved classifier.

    Raises:
        DataError: If it cannot be read, or is not the tree that was saved.
    """
    file = folder / _TREE
    try:
        tree = Taxonomy(**json.loads(file.read_text(encoding="utf-8")), source=str(file))
    except (OSError, ValueError, TypeError, TaxonomyError) as error:
        raise DataError(f"The tree cannot be read: {error}.", file=file, remedy=_AGAIN) from error
    if tree.digest != saved.taxonomy:
        raise DataError("The tree is not the one that was saved.", file=file, remedy=f"{_AGAIN} {_ANOTHER}")
    return tree
