"""`taxtune taxonomy from-labels` and `enrich`: a tree for a flat list of labels, and more names for a tree."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from taxtune.errors import TaxtuneError
from taxtune.options import FileFormatOption, RootLabelOption, TaxonomyArgument, opt
from taxtune.progress import note

__all__ = ["enrich", "from_labels", "keep"]


def from_labels(
    labels: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS",
            help="A text file with one label per line, a CSV with a column label, or a folder of images with one "
            "sub-folder per label.",
        ),
    ],
    out: Annotated[Path | None, opt("File for the tree, as CSV.", shown="standard output")] = None,
    max_depth: Annotated[int, opt("Maximum number of levels below the root; 0 for no limit.", min=0)] = 6,
) -> None:
    """Make a tree for labels that have none, from what WordNet says they are kinds of.

    The sense of each label is written to FILE.synsets.csv for review, with its gloss and the alternatives; the tree is
    corrected by hand. A label that WordNet does not have stands below its head noun ("wedding cake": cake), or else
    below the root.
    """
    from taxtune import atomic
    from taxtune.authoring.label_tree import tree_by_wordnet
    from taxtune.authoring.senses import choices_csv, read_labels
    from taxtune.taxonomy.convert import check_suffix, paths_csv, write_taxonomy

    if out is not None:
        check_suffix(out)
        keep([labels], out)
    written = read_labels(labels)
    choices, tree = tree_by_wordnet(written, max_depth=max_depth or None)
    taxonomy, relations = tree.taxonomy, Counter(choice.relation for choice in choices)
    below = ", ".join(choice.label.name for choice in choices if choice.synset is None)
    lines = [
        f"labels   {len(written):,}: {relations['is']:,} in WordNet, {relations['kind of']:,} by one of their words",
        f"tree     {len(taxonomy):,} nodes: {len(taxonomy) - 1 - len(written):,} groups, height {taxonomy.height}",
        *([f"below the root, since WordNet lacks them: {below}"] if below else []),
    ]
    # The tree may be what standard output is for.
    print(*lines, sep="\n", file=sys.stderr if out is None else sys.stdout)
    if out is None:
        print(paths_csv(taxonomy), end="")
        return
    write_taxonomy(taxonomy, out, force=True)
    note(f"wrote the tree to {out}")
    beside = atomic.write_text(out.with_name(f"{out.stem}.synsets.csv"), choices_csv(choices))
    note(f"wrote the synset of each label to {beside}, for review")


def enrich(
    file: TaxonomyArgument,
    out: Annotated[
        Path | None, opt("File for the proposals (CSV) or, with --apply, for the tree.", shown="standard output")
    ] = None,
    apply: Annotated[Path | None, opt("Add these reviewed proposals to the tree.")] = None,
    format: FileFormatOption = "auto",
    root_label: RootLabelOption = None,
) -> None:
    """Propose more names for the nodes of a tree (inflections, WordNet's synonyms), or add reviewed ones.

    Only names that the mapper does not place on their node already are proposed. A name that several nodes would have
    is marked as ambiguous and not added, unless its mark is removed from the file.
    """
    from taxtune import atomic
    from taxtune.authoring.enrich import apply_proposals, proposals_csv, propose_names, read_proposals
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.taxonomy import read_taxonomy
    from taxtune.taxonomy.convert import check_suffix, paths_csv, write_taxonomy
    from taxtune.wordnet import INSTALL, find_wordnet

    if out is not None:
        keep([Path(file), apply], out)
    if apply is not None:
        if out is not None:
            check_suffix(out)
        # Without the English names that come with taxtune: they are added when the new file is read.
        tree = read_taxonomy(file, format=format, names=False, root_label=root_label)
        more, counts = apply_proposals(tree, read_proposals(apply, tree))
        if out is None:
            print(paths_csv(more), end="")
        else:
            write_taxonomy(more, out, force=True)
        left = f"{counts['marked']:,} marked, {counts['already there']:,} that the tree has"
        print(f"taxtune: {counts['added']:,} names added; not added: {left}", file=sys.stderr)
        return
    tree = read_taxonomy(file, format=format, root_label=root_label)
    wordnet = find_wordnet()
    if wordnet is None:
        note(f"WordNet is not installed, so that no synonyms are proposed. {INSTALL}")
    # The mapper is asked without WordNet: names that only WordNet leads to are worth having on the tree.
    proposals = propose_names(tree, Mapper(tree, config=MapperConfig(wordnet=False)), wordnet)
    text = proposals_csv(tree, proposals)
    if out is None:
        print(text, end="")
    else:
        atomic.write_text(out, text)
    marked = sum(bool(row.mark) for row in proposals)
    where = "" if out is None else f" written to {out}"
    print(f"taxtune: {len(proposals):,} proposals to review{where}, {marked:,} of them ambiguous", file=sys.stderr)


def keep(read: Sequence[Path | None], out: Path) -> None:
    """Raises a TaxtuneError if the file that is to be written is one of those that are read."""
    if out.resolve() in {path.resolve() for path in read if path is not None}:
        raise TaxtuneError("The output file is also an input file.", file=out, remedy="Choose another.")
