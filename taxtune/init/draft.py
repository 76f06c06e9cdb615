"""A recipe for a user's own images, sized and named after what was found."""

from __future__ import annotations

import itertools
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
from taxtune.shell import command
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.objective import Aims
from taxtune.tuning.plan import highest_provable, images_needed

__all__ = ["Draft", "make_draft"]

# Fewer are not three in each split: two show nothing at all.
_FEWEST = 6


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
        word, rest = word or self.subject.word or "object", self.sizes.calibration
        kind, name = parse_model(model)
        if kind == "local" and Path(name).is_dir():
            model = f"local:{_path(Path(name), file)}"
        recipe = {
            "name": re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem)[:100].strip("._-") or "mine",
            "taxonomy": {"path": _path(taxonomy, file)},
            "data": self._data(file),
            "prompt": {
                "question": f"What {word} is this?",
                "domain": word,
                "ranks": list(self.subject.ranks),
                "examples": list(self.subject.examples),
            },
            "vlm": {"model": model} | ({} if api_base is None else {"api_base": api_base}),
        }
        others = f"the other {rest:,} images are for `taxtune calibrate`" if rest else "no images are left to calibrate"
        return (
            f"# By `taxtune init`. Keys that are not here have their defaults; {others}.\n"
            "# prompt: what the images show, in a word, with its ranks and example answers, general to specific.\n"
            + yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)
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

    def _data(self, file: Path) -> dict[str, Any]:
        source = self.source
        values: dict[str, Any] = {"kind": source.kind, "path": _path(source.path, file)}
        if source.images is not None:
            values["images"] = _path(source.images, file)
        if source.kind == "manifest":
            columns = {"image_column": source.image_column, "label_column": source.label_column}
            values |= {key: name for key, name in columns.items() if name != key.removesuffix("_column")}
        if self.skip_broken:
            values["skip_broken"] = True
        return values | {"tuning": self.sizes.tuning, "heldout": self.sizes.heldout}


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
    images, where = sum(rows[label] for label in error.labels), tree.source or "the tree"
    names = command("taxonomy", "enrich", where, "--out", "names.csv")
    listed = "\n".join(error.lines)
    return DataError(
        f"{len(error.labels)} of {len(rows)} labels, of {images:,} of {rows.total():,} images, are not on the tree:\n"
        f"{listed}\nNothing was written. Correct the labels, or add them to {where}, if that is their tree: in rows "
        f"of their own, or in the column aliases of other rows. To have such names proposed: {names}",
        file=error.file,
    )


def _path(path: Path, recipe: Path) -> str:
    if str(path).startswith("builtin:"):
        return str(path)
    # Paths in a recipe are relative to it, so that a folder with recipe, tree and images can be moved as a whole.
    base, full = recipe.resolve().parent, path.resolve()
    return full.relative_to(base).as_posix() if full.is_relative_to(base) else str(full)
