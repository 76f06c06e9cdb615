"""`taxtune init`: a first recipe for one's own images."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taxtune.options import ForceOption, opt

if TYPE_CHECKING:
    from taxtune.init.draft import Draft, MadeTree

__all__ = ["init"]


DataOption = Annotated[
    Path,
    opt(
        "A folder with one sub-folder per label, or a CSV, XLSX or JSONL file with images and labels."
    ),
]
TreeOption = Annotated[
    Path | None,
    opt(
        "The label tree: a file in any format that taxtune reads, or builtin:NAME.",
        shown="made of the labels",
    ),
]
DomainOption = Annotated[
    str | None, opt("What the images show: bird, dish, car.", shown="after the tree")
]
ModelOption = Annotated[
    str, opt("The vision-language model: PROVIDER/MODEL (an API), local:MODEL (this machine).")
]
SkipBrokenOption = Annotated[
    bool, opt("Leave out images that are missing or unreadable, and name them.", "--skip-broken")
]


def init(
    file: Annotated[Path, typer.Argument(metavar="RECIPE.yaml", help="The recipe to write.")],
    data: DataOption,
    taxonomy: TreeOption = None,
    domain: DomainOption = None,
    model: ModelOption = "local:HuggingFaceTB/SmolVLM-500M-Instruct",
    image_column: Annotated[str | None, opt("Column of the images.", shown="looked for")] = None,
    label_column: Annotated[str | None, opt("Column of the labels.", shown="by its name")] = None,
    skip_broken: SkipBrokenOption = False,
    force: ForceOption = False,
) -> None:
    """Look at your own images and write a recipe for them that runs: splits, ranks, examples and a model."""
    from taxtune.atomic import write_text
    from taxtune.errors import ModelError, RecipeError, command
    from taxtune.init.draft import make_draft, make_tree
    from taxtune.init.source import find_source
    from taxtune.models.checkpoint import check_reachable
    from taxtune.models.names import parse_model
    from taxtune.progress import note
    from taxtune.taxonomy import read_taxonomy

    asked = parse_model(model)
    if file.exists() and not force:
        remedy = "Choose another name, or overwrite the file with --force."
        raise RecipeError("The file already exists.", file=file, remedy=remedy)
    tree = None if taxonomy is None else read_taxonomy(taxonomy)
    source = find_source(data, image_column=image_column, label_column=label_column)
    for text in source.notes:
        note(text)
    made = None
    if tree is None or taxonomy is None:
        made = make_tree(source, file, force=force)
        tree = made.tree
        taxonomy = made.file
    draft = make_draft(source, tree, word=domain, skip_broken=skip_broken)
    recipe = draft.text(file, taxonomy, model)
    if made is not None:
        _write_tree(made)
    write_text(file, recipe)
    if asked.kind == "local":
        try:
            check_reachable(asked.model)
        except ModelError as error:
            # The recipe is right, and the dry run says so too.
            note(str(error))
    _show(draft, model)
    print(f"\nWrote {file}. Next: {command('tune', file, '--dry-run')}")


def _write_tree(made: MadeTree) -> None:
    """Writes a tree that was made, and notes what to review of it."""
    from taxtune.atomic import write_text
    from taxtune.authoring.senses import choices_csv, unplaced
    from taxtune.errors import command
    from taxtune.progress import note
    from taxtune.taxonomy.write import write_taxonomy

    write_taxonomy(made.tree, made.file, force=True)
    look = command("taxonomy", "show", made.file)
    note(f"Made the tree {made.file} {made.origin}: look at it ({look}) and correct it by hand.")
    if made.choices:
        synsets = write_text(made.file.with_suffix(".synsets.csv"), choices_csv(made.choices))
        note(f"{synsets} says which sense was taken of each label.")
    below_root = unplaced(made.choices)
    if below_root:
        note(below_root)


def _show(draft: Draft, model: str) -> None:
    """Prints the draft, a line for each fact."""
    from taxtune.data.splits import CALIBRATION_FROM, split_sizes

    tree = draft.tree
    count = len(draft.examples)
    tuning, heldout = split_sizes(count)
    calibration = count - tuning - heldout
    listed = draft.source.labels.total()
    images = f"{count:,} of {listed:,}" if listed > count else f"{count:,}"
    labels = len({example.target for example in draft.examples})
    domain = "/".join(tree.path(draft.subject.node))
    if draft.word != domain:
        domain += f", in a word: {draft.word}"
    left = f"{calibration or 'none'} left for `taxtune calibrate`"
    if not calibration:
        left += f" (below {CALIBRATION_FROM} photos)"
    splits = f"{tuning:,} for tuning, {heldout:,} held out for the final comparison, {left}"
    facts = {
        "images": images,
        "labels": f"{labels:,}, all on the tree of {len(tree):,} nodes",
        "domain": domain,
        "ranks": ", ".join(draft.subject.ranks) or "the tree names none",
        "examples": ", ".join(draft.subject.examples),
        "splits": splits,
        "model": model.removeprefix("local:"),
    }
    for name, text in facts.items():
        if text:
            line = textwrap.fill(
                text,
                80,
                initial_indent=f"{name:<10}",
                subsequent_indent=" " * 10,
                break_on_hyphens=False,
            )
            print(line)
