"""A tree for images whose labels have none: as their folders lie in one another, or as WordNet has the labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from taxtune.atomic import write_text
from taxtune.authoring.label_tree import tree_by_wordnet
from taxtune.authoring.labels import as_labels
from taxtune.authoring.senses import Choice, choices_csv
from taxtune.data.sources import label_references
from taxtune.errors import RecipeError, shortened
from taxtune.init.source import Source
from taxtune.shell import command
from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.rows import write_taxonomy

__all__ = ["MadeTree", "make_tree"]

_ROOT = "thing"


@dataclass(frozen=True, slots=True)
class MadeTree:
    """A tree that was made, to be reviewed.

    Attributes:
        tree: The tree.
        file: Where it is to be written.
        how: What it was made of, in a sentence.
        choices: The synset of each label, where it is by WordNet.
    """

    tree: Taxonomy
    file: Path
    how: str
    choices: tuple[Choice, ...] = ()

    def write(self) -> str:
        """Writes the tree, and the synsets beside it; returns what to do with them."""
        write_taxonomy(self.tree, self.file, force=True)
        look = f"Look at it ({command('taxonomy', 'show', self.file)}) and correct it by hand"
        if not self.choices:
            return f"{look}."
        synsets = self.file.with_suffix(".synsets.csv")
        write_text(synsets, choices_csv(self.choices))
        return f"{look}; {synsets} says which sense was taken of each label."


def make_tree(source: Source, recipe: Path, *, force: bool) -> MadeTree:
    """Makes a tree for the labels of images, beside a recipe; nothing is written yet.

    Args:
        source: The images.
        recipe: The file of the recipe.
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
    written = list(source.labels)
    nested = [label for label in written if "/" in label]
    if nested and (source.kind == "folder" or len(nested) == len(written)):
        # As images in folders are looked up: underscores may stand for spaces, and a number may stand in front.
        paths = [label_references(label)[-1].split("/") for label in written]
        tree = Taxonomy.from_paths([(_ROOT, *(part.strip() for part in path)) for path in paths])
        return MadeTree(tree, file, "as the labels' folders lie in one another")
    choices, made = tree_by_wordnet(as_labels(written, folders=source.kind == "folder"))
    how = "from WordNet's hypernyms of the labels"
    for what, names in (
        ("placed by one of their words", [c.label.name for c in choices if c.relation == "kind of"]),
        ("not in WordNet, so directly below the root", [c.label.name for c in choices if c.synset is None]),
    ):
        how += f"; {what}: {', '.join(shortened(names, 8))}" if names else ""
    return MadeTree(made.taxonomy, file, how, tuple(choices))
