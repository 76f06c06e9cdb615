"""A recipe for a user's own images, sized and named after what was found."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from taxtune.data import Example, SplitSizes, default_split, load_examples
from taxtune.data.examples import UnknownLabelsError
from taxtune.data.splits import CALIBRATION_FROM
from taxtune.errors import DataError, ImageError
from taxtune.init.source import Source
from taxtune.init.subject import Subject, find_subject
from taxtune.models.names import parse_model
from taxtune.models.weights import KNOWN_MODELS
from taxtune.shell import command
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.objective import Aims
from taxtune.tuning.power import highest_provable, images_needed

__all__ = ["Draft", "make_draft"]

# Fewer are not three in each split: two show nothing at all.
_FEWEST = 6

_RECIPE = """\
# By `taxtune init`. What is not here has its default, as the goal has: objective: {{hp_target: {hp_target}}}
name: {name}
taxonomy: {{path: {taxonomy}}}
data: {{{data}}} # {rest}
prompt:
  question: {question}
  domain: {word} # what the images show, in a word, for templates
  ranks: {ranks} # broadest first
  examples: {examples} # example answers, general to specific
vlm:
{vlm}
"""


@dataclass(frozen=True, slots=True)
class Draft:
    """What was found, for a recipe.

    Attributes:
        source: The labelled images.
        examples: Those of them that differ, with their nodes.
        tree: The label tree.
        subject: What the images show.
        sizes: How many images are for what.
        skip_broken: Whether images that cannot be used are left out.
    """

    source: Source
    examples: list[Example]
    tree: Taxonomy
    subject: Subject
    sizes: SplitSizes
    skip_broken: bool = False

    def text(
        self,
        file: Path,
        taxonomy: Path,
        model: str,
        word: str | None,
        *,
        api_base: str | None = None,
    ) -> str:
        """The recipe.

        Args:
            file: Where it is going to be; paths in it are relative to that.
            taxonomy: The tree's file, or builtin:NAME.
            model: The vision-language model.
            word: The word for what the images show that the user gave; None for that of the tree.
            api_base: Address of the server that has the model.
        """
        word = word or self.subject.word or "object"
        rest = self.sizes.calibration
        return _RECIPE.format(
            hp_target=Aims().hp_target,
            name=_written(re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem)[:100].strip("._-") or "mine"),
            taxonomy=_path(taxonomy, file),
            data=self._data(file),
            rest=f"the other {rest:,} are for `taxtune calibrate`" if rest else f"all {len(self.examples):,} images",
            question=_written(f"What {word} is this?"),
            word=_written(word),
            ranks=_written(list(self.subject.ranks)),
            examples=_written(list(self.subject.examples)),
            vlm=_one_model(model, file) + ("" if api_base is None else f"\n  api_base: {_written(api_base)}"),
        )

    def facts(self) -> dict[str, Any]:
        """Returns the findings as plain values."""
        aims, subject, found = Aims(), self.subject, len(self.examples)
        return {
            "images": found,
            "listed": self.source.labels.total(),
            "labels": len({example.target for example in self.examples}),
            "nodes": len(self.tree),
            **self.sizes._asdict(),
            "hp_target": aims.hp_target,
            "confidence_level": aims.confidence,
            "provable_hp": highest_provable(self.sizes.tuning, aims.confidence),
            "missing_to_prove": _proving(found) - found,
            "missing_to_calibrate": max(0, CALIBRATION_FROM - found),
            "domain": "/".join(self.tree.path(subject.node)),
            "word": subject.word,
            "ranks": list(subject.ranks),
            "examples": list(subject.examples),
            "image_column": self.source.image_column if self.source.kind == "manifest" else None,
            "label_column": self.source.label_column if self.source.kind == "manifest" else None,
        }

    def _data(self, file: Path) -> str:
        source = self.source
        values = {"kind": str(source.kind), "path": _path(source.path, file)}
        if source.images is not None:
            values["images"] = _path(source.images, file)
        if source.kind == "manifest":
            columns = {"image_column": source.image_column, "label_column": source.label_column}
            values |= {key: _written(name) for key, name in columns.items() if name != key.removesuffix("_column")}
        if self.skip_broken:
            values["skip_broken"] = "true"
        values |= {"tuning": str(self.sizes.tuning), "heldout": str(self.sizes.heldout)}
        return ", ".join(f"{key}: {value}" for key, value in values.items())


def make_draft(source: Source, tree: Taxonomy, *, skip_broken: bool = False) -> Draft:
    """Looks at the images and their labels as a run does, and sizes its splits.

    Args:
        source: The labelled images.
        tree: The label tree.
        skip_broken: Leave out images that cannot be used, and note how many and which.

    Raises:
        DataError: If labels are not on the tree (all are listed, with what may be meant), an image has two labels, or
            there are too few different images.
        ImageError: If images are missing or unreadable (all are listed).
    """
    try:
        examples = load_examples(
            source.path,
            tree,
            kind=source.kind,
            images=source.images,
            image_column=source.image_column,
            label_column=source.label_column,
            skip_broken=skip_broken,
        )
    except UnknownLabelsError as error:
        raise _unmatched(error, source.labels, tree) from error
    except ImageError as error:
        raise error if skip_broken else ImageError(f"{error}\nTo leave such images out, add --skip-broken.") from error
    found = len(examples)
    if found < _FEWEST:
        raise DataError(
            f"There {'is 1 image' if found == 1 else f'are {found} different images'}, too few for a run.",
            file=source.path,
            remedy=f"Label at least {_FEWEST}, better {_proving(found)}: these can prove an hP of {Aims().hp_target}.",
        )
    if len({example.target for example in examples}) == 1:
        raise DataError(
            f"All {found:,} images have the label {examples[0].label!r}, so that there is nothing to tell apart.",
            file=source.path,
            remedy="Add images with other labels.",
        )
    subject = find_subject(tree, [example.target for example in examples])
    return Draft(source, examples, tree, subject, default_split(found), skip_broken)


def _proving(found: int) -> int:
    """Returns the number of images, at least those found, that prove the goal for hP."""
    needed = images_needed(Aims().hp_target, Aims().confidence)
    return next(n for n in itertools.count(found) if default_split(n).tuning >= needed)


def _unmatched(error: UnknownLabelsError, rows: Counter[str], tree: Taxonomy) -> DataError:
    images = sum(rows[label] for label in error.labels)
    total, lost = len(rows), len(error.labels)
    where = tree.source or "the tree"
    if lost == total:
        doubt = f"None of the {total} labels is on the tree. Is {where} the tree of these images?"
    else:
        doubt = (
            f"{total - lost} of {total} labels are on the tree; {lost} ({images:,} of {rows.total():,} images) "
            f"{'is' if lost == 1 else 'are'} not."
        )
    names = command("taxonomy", "enrich", where, "--out", "names.csv")
    return DataError(
        f"{doubt}\n"
        + "\n".join(error.lines)
        + f"\nNothing was written. Correct the labels that are misspelt, or add them to {where}: what it lacks in a "
        "row of its own,\nanother name for a node in the column aliases of its row. To have other names proposed: "
        + names,
        file=error.file,
    )


def _one_model(model: str, file: Path) -> str:
    kind, name = parse_model(model)
    if kind == "local" and Path(name).is_dir():  # relative to the recipe, as all its paths are
        model = f"local:{yaml.safe_load(_path(Path(name), file))}"
    known = KNOWN_MODELS.get(name)
    size = "" if known is None else f" # {known.download_gb:.1f} GB to download"
    return f"  model: {_written(model)}{size}"


def _written(value: object) -> str:
    """A value as YAML that may stand in a flow mapping: words as they are, anything else in quotes."""
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    plain = isinstance(value, str) and re.fullmatch(r"[^\W\d_](?:[\w ./?-]*[\w?])?", value)
    return str(value) if plain and yaml.safe_load(str(value)) == value else json.dumps(value, ensure_ascii=False)


def _path(path: Path, recipe: Path) -> str:
    if str(path).startswith("builtin:"):
        return _written(str(path))
    # Paths in a recipe are relative to it, so that a folder with recipe, tree and images can be moved as a whole.
    base = recipe.resolve().parent
    full = path.resolve()
    return _written(full.relative_to(base).as_posix() if full.is_relative_to(base) else str(full))
