"""A recipe for a user's own images: what they show, as their tree has it, and how many are for what."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from taxtune.authoring.label_tree import tree_by_wordnet
from taxtune.authoring.senses import SenseChoice, as_labels
from taxtune.data import Example, load_examples
from taxtune.data.boxes import Boxes
from taxtune.data.grouping import FOLDER, class_of, likely_group
from taxtune.data.labels import LabelFinder, label_references
from taxtune.errors import DataError, RecipeError
from taxtune.init.source import Source
from taxtune.metrics.groups import Groups
from taxtune.models.names import parse_model
from taxtune.settings import LabelWords
from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.names import read_english_names

__all__ = ["Draft", "MadeTree", "Subject", "find_subject", "make_draft", "make_tree"]

# Fewer images are not three in each split, and two show nothing at all.
_FEWEST = 6
# Of fewer groups the splits would have a handful each, which prove nothing: the user decides.
_FEWEST_GROUPS = 20
# Names of roots that say nothing of what the images show; among them the top of WordNet.
_EMPTY = frozenset(
    {
        "abstraction",
        "all",
        "artifact",
        "being",
        "entity",
        "everything",
        "life",
        "living thing",
        "matter",
        "object",
        "objects",
        "organism",
        "physical entity",
        "physical object",
        "root",
        "substance",
        "thing",
        "things",
        "unit",
        "whole",
    }
)
_MOST_RANKS = 32
# Ranks of biology: the nodes of a tree that has one of them are labelled in Latin.
_BIOLOGICAL_RANKS = frozenset({"genus", "kingdom", "order", "phylum", "species"})


class Subject(NamedTuple):
    """What images show.

    Attributes:
        node: The lowest node above all labels.
        word: A word for what the images show, by the node's name; None if the name says nothing.
        ranks: The ranks between the node and the labels, the broadest first; empty if the tree
            names none.
        examples: Example answers, general to specific; empty if there is only one level.
    """

    node: int
    word: str | None
    ranks: tuple[str, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """What was found, for a recipe.

    Attributes:
        source: The labelled images.
        examples: Those of them that differ, with their nodes.
        tree: The label tree.
        subject: What the images show.
        word: What the images show, in a word.
        group: Which images belong together, as in the recipe; None where all stand alone.
        has_unnamed: Whether some have labels that no tree has, see `LabelWords`.
        skip_broken: Whether images that cannot be used are left out.
    """

    source: Source
    examples: list[Example]
    tree: Taxonomy
    subject: Subject
    word: str
    group: str | None = None
    has_unnamed: bool = False
    skip_broken: bool = False

    def text(self, file: Path, taxonomy: Path, model: str) -> str:
        """Returns the recipe.

        Args:
            file: Where it is going to be; paths in it are relative to that.
            taxonomy: The tree's file, or builtin:NAME.
            model: The vision-language model.
        """
        kind, weights = parse_model(model)
        if kind == "local" and Path(weights).is_dir():
            model = f"local:{_path(Path(weights), file)}"
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem)[:100].strip("._-")
        prompt = {
            "question": f"What {self.word} is this?",
            "domain": self.word,
            "ranks": list(self.subject.ranks),
            "examples": list(self.subject.examples),
        }
        recipe: dict[str, object] = {"name": name or "mine"}
        recipe["taxonomy"] = {"path": _path(taxonomy, file)}
        recipe["data"] = self._data(file)
        recipe["prompt"] = prompt
        recipe["vlm"] = {"model": model}
        written = yaml.safe_dump(
            recipe, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120
        )
        return (
            "# By `taxtune init`. Keys that are not here have their defaults.\n"
            "# data: the splits grow with the photos; `tuning` and `heldout` would set their sizes.\n"
            "# prompt: what the images show, in a word, with its ranks and example answers, "
            "general to specific.\n"
            f"{written}"
            "# proposer: openai/gpt-5-mini  # a chat model writes the templates; "
            "its key is OPENAI_API_KEY\n"
            "# That model reads the VLM's answers, too, unless mapper: {arbiter: none}\n"
        )

    def _data(self, recipe: Path) -> dict[str, Any]:
        """Returns the recipe's section `data`; columns of the default names are not in it."""
        source = self.source
        data: dict[str, Any] = {"kind": source.kind, "path": _path(source.path, recipe)}
        if source.images is not None:
            data["images"] = _path(source.images, recipe)
        if source.image_column != "image":
            data["image_column"] = source.image_column
        if source.label_column != "label":
            data["label_column"] = source.label_column
        if self.group is not None:
            data["group"] = self.group
        if source.box is not None:
            data["box"] = source.box
        if self.skip_broken:
            data["skip_broken"] = True
        if self.has_unnamed:
            data |= LabelWords().model_dump()
        return data


def make_draft(
    source: Source, tree: Taxonomy, *, word: str | None = None, skip_broken: bool = False
) -> Draft:
    """Returns the draft for images, which are read as a run reads them.

    Args:
        source: The labelled images.
        tree: The label tree.
        word: The word for what the images show that the user gave; None for that of the tree.
        skip_broken: Leave out images that cannot be used, and note how many and which.

    Raises:
        DataError: If labels are not on the tree (all are listed, with what may be meant), an image
            has two labels, or there are too few different images.
        ImageError: If images are missing or unreadable, and nothing else is wrong (all are
            listed).
    """
    boxes = None if source.box is None else Boxes(column=source.box)
    finder = LabelFinder(tree)
    classes = _classes(source, finder, tree)
    group = None if classes == set(source.labels) else FOLDER
    with tempfile.TemporaryDirectory(prefix="taxtune-crops-") as folder:
        examples = load_examples(
            source.path,
            tree,
            kind=source.kind,
            images=source.images,
            image_column=source.image_column,
            label_column=source.label_column,
            skip_broken=skip_broken,
            folder=folder,
            columns=source.groups,
            group=group,
            boxes=boxes,
        )
    labels = len({example.target for example in examples})
    if len(examples) < _FEWEST or labels == 1:
        are = "is" if len(examples) == 1 else "are"
        images = f"{len(examples):,} different image{'' if len(examples) == 1 else 's'}"
        raise DataError(
            f"There {are} {images} of {labels} label{'' if labels == 1 else 's'}: "
            "too few for a run.",
            file=source.path,
            remedy=f"Give at least {_FEWEST} images, better 150, of two labels or more.",
        )
    sites = len(Groups.of([example.group for example in examples]))
    if group is not None and sites < _FEWEST_GROUPS:
        raise DataError(
            f"The folders in those of the classes are {sites:,} groups of images: "
            f"too few to split, which takes {_FEWEST_GROUPS}.",
            file=source.path,
            remedy="List the images in a CSV file with the columns image and label.",
        )
    if group is None:
        likely, count = likely_group(examples)
        group = likely if count >= _FEWEST_GROUPS else None
    # What shows nothing is no part of what the images show.
    empty = finder.empty(classes)
    found = [finder.node(label_references(label)) for label in classes]
    targets = [example.target for example in examples if example.label not in empty]
    subject = find_subject(tree, targets)
    return Draft(
        source=source,
        examples=examples,
        tree=tree,
        subject=subject,
        word=word or subject.word or "object",
        group=group,
        has_unnamed=None in found,
        skip_broken=skip_broken,
    )


def _classes(source: Source, finder: LabelFinder, tree: Taxonomy) -> set[str]:
    """Returns the labels of a source, of folders without those of cameras or days in a class.

    These may lie in a leaf, or in "blank". In any other node, a folder that is no class may be a
    misspelt one: then all labels are as they are.
    """
    labels = set(source.labels)
    if source.kind != "folder":
        return labels
    classes = set()
    for label in labels:
        folder = class_of(label, finder)
        classes.add(folder)
        node = None if folder == label else finder.node(label_references(folder))
        if node is not None and node not in tree.leaves:
            return labels
    return classes


def _path(path: Path, recipe: Path) -> str:
    if str(path).startswith("builtin:"):
        return str(path)
    # Paths in a recipe are relative to it, so that a folder with recipe, tree and images can be
    # moved as a whole.
    base = recipe.resolve().parent
    full = path.resolve()
    if full.is_relative_to(base):
        return full.relative_to(base).as_posix()
    return str(full)


# -- what the images show --------------------------------------------------------------------------


def find_subject(tree: Taxonomy, targets: Sequence[int]) -> Subject:
    """Returns the subject of images.

    Args:
        tree: The tree.
        targets: The node of each image's label, at least one.
    """
    node = tree.common_ancestor(set(targets))
    word = _word(tree, node)
    return Subject(
        node=node,
        word=word,
        ranks=_ranks(tree, node, targets),
        examples=_examples(tree, node, word, targets),
    )


def _word(tree: Taxonomy, node: int) -> str | None:
    """Returns the singular of the name of the node, or of the lowest ancestor with an English one."""
    from lemminflect import getLemma

    for ancestor in tree.ancestors(node)[::-1].tolist():
        name = _name(tree, ancestor)
        if name.casefold() in _EMPTY:
            return None
        if name != tree.labels[ancestor] or not _is_latin(tree, ancestor):
            *first, last = name.lower().split()
            # No plural is known of a word that English lacks.
            singulars = getLemma(last, upos="NOUN", lemmatize_oov=False) or (last,)
            return " ".join([*first, singulars[0]])
    return None


def _is_latin(tree: Taxonomy, node: int) -> bool:
    return tree.ranks[node] is not None and not _BIOLOGICAL_RANKS.isdisjoint(tree.ranks)


def _name(tree: Taxonomy, node: int) -> str:
    """Returns the name of a node that people use.

    A Latin label without a rank has the English name that comes with taxtune, if there is one.
    """
    if _is_latin(tree, node):
        return tree.common_name(node)
    label = tree.labels[node]
    for row in read_english_names():
        if row.name.casefold() == label.casefold():
            return row.english[0]
    return label


def _ranks(tree: Taxonomy, node: int, targets: Sequence[int]) -> tuple[str, ...]:
    """Returns the ranks below a node on the paths to the targets, by their mean depth."""
    lineages = [tree.ancestors(target) for target in set(targets)]
    nodes = np.unique(np.concatenate(lineages))
    depths: dict[str, list[int]] = {}
    for ancestor in nodes.tolist():
        rank = tree.ranks[ancestor]
        depth = int(tree.depth[ancestor])
        if rank is not None and depth > tree.depth[node]:
            depths.setdefault(rank, []).append(depth)
    ranks = sorted(depths, key=lambda rank: (np.mean(depths[rank]), rank))
    return tuple(ranks[:_MOST_RANKS])


def _examples(
    tree: Taxonomy, node: int, word: str | None, targets: Sequence[int]
) -> tuple[str, ...]:
    """Returns names on the path to a leaf that no image shows, or else to the rarest label."""
    leaves = tree.leaves[tree.is_ancestor(node, tree.leaves)]
    labels = np.asarray(targets)
    images = np.bincount(labels, minlength=len(tree))
    deepest = tree.depth[labels].max()
    shallower = np.abs(tree.depth[leaves] - deepest)
    # Of leaves alike in both the first: which it is depends on the tree alone.
    order = np.lexsort((shallower, images[leaves]))
    ancestors = tree.ancestors(int(leaves[order[0]]))
    is_below = tree.depth[ancestors] > tree.depth[node]
    path = ancestors[is_below].tolist()
    if len(path) > 3:
        path = [path[0], path[(len(path) - 1) // 2], path[-1]]
    names = [word] if word else []
    names += [_name(tree, below) for below in path]
    different = tuple(dict.fromkeys(names))
    return different if len(different) > 1 else ()


# -- a tree for labels that have none --------------------------------------------------------------


class MadeTree(NamedTuple):
    """A tree that was made, to be reviewed.

    Attributes:
        tree: The tree.
        file: Where it is to be written.
        origin: What it was made of, in words.
        choices: The synset of each label, if it was made by WordNet.
    """

    tree: Taxonomy
    file: Path
    origin: str
    choices: Sequence[SenseChoice] = ()


def make_tree(source: Source, recipe: Path, *, force: bool) -> MadeTree:
    """Returns a tree of the labels, by their folders or by WordNet; nothing is written yet.

    Args:
        source: The images.
        recipe: The file of the recipe; the tree is to lie beside it.
        force: Whether a tree that is there may be overwritten.

    Raises:
        RecipeError: If there is a tree already.
        DataError: If WordNet is needed and not installed, or the labels cannot be read.
    """
    file = recipe.with_name(f"{recipe.stem}-tree.csv")
    if file.exists() and not force:
        raise RecipeError(
            "A tree that was made before lies beside the recipe.",
            file=file,
            remedy=f"Use it (--taxonomy {file}), or have it made anew with --force.",
        )
    # Of an unnamed kind the group has a name, outside of folders, where the folders are the groups.
    finder = LabelFinder(Taxonomy(["thing"], [-1]))
    named: dict[str, None] = {}
    for label in source.labels:
        kind, groups = finder.kind(label)
        if not kind or (kind == "unnamed" and "/" not in label):
            named[groups[0] if kind else label] = None
    written = list(named)
    nested = [label for label in written if "/" in label]
    if nested and (source.kind == "folder" or len(nested) == len(written)):
        # As images in folders are looked up: underscores may stand for spaces, and a number may
        # stand in front.
        paths = []
        for label in written:
            *_, reference = label_references(label)
            parts = ["thing", *reference.split("/")]
            paths.append([part.strip() for part in parts])
        tree = Taxonomy.from_paths(paths)
        return MadeTree(tree, file, origin="as the labels' folders lie in one another")
    labels = as_labels(written, folders=source.kind == "folder")
    choices, made = tree_by_wordnet(labels)
    origin = "from WordNet's hypernyms of the labels"
    return MadeTree(made.taxonomy, file, origin=origin, choices=choices)
