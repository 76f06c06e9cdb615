"""`taxtune taxonomy`: look at a label tree, write or make one, or add names to it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune.cli.help import Command
from taxtune.cli.printing import print_json, tell
from taxtune.errors import TaxtuneError
from taxtune.options import (
    EnglishNamesOption,
    FileFormatOption,
    ForceOption,
    JsonOption,
    RootLabelOption,
    TaxonomyArgument,
    opt,
)
from taxtune.progress import note
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from taxtune.taxonomy import Taxonomy, TaxonomyReport

__all__ = ["build", "check", "convert", "enrich", "from_labels", "show", "taxonomy_app"]

#: Counts of a kind, such as leaves that are lost, in a summary.
_MOST = 20

taxonomy_app = typer.Typer(help="Inspect, build or extend a label taxonomy.", no_args_is_help=True)


@taxonomy_app.command(cls=Command)
def enrich(
    file: TaxonomyArgument,
    out: Annotated[
        Path | None,
        opt(
            "File for the proposals (CSV) or, with --apply, for the tree.", shown="standard output"
        ),
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
    from taxtune.authoring.enrich import (
        apply_proposals,
        proposals_csv,
        propose_names,
        read_proposals,
    )
    from taxtune.mapping import Mapper
    from taxtune.taxonomy import read_taxonomy
    from taxtune.wordnet import INSTALL, find_wordnet

    if out is not None:
        _keep([Path(file), apply], out)
    if apply is not None:
        # Without the English names that come with taxtune: they are added when the new file is read.
        tree = read_taxonomy(file, format=format, names=False, root_label=root_label)
        more, counts = apply_proposals(tree, read_proposals(apply, tree))
        _write(more, out)
        left = f"{counts['marked']:,} marked, {counts['already there']:,} that the tree has"
        tell(f"{counts['added']:,} names added; not added: {left}")
        return
    tree = read_taxonomy(file, format=format, root_label=root_label)
    wordnet = find_wordnet()
    if wordnet is None:
        note(f"WordNet is not installed, so that no synonyms are proposed. {INSTALL}")
    proposals = propose_names(tree, Mapper(tree), wordnet)
    text = proposals_csv(tree, proposals)
    if out is None:
        print(text, end="")
    else:
        atomic.write_text(out, text)
    marked = sum(bool(row.mark) for row in proposals)
    where = "" if out is None else f" written to {out}"
    tell(f"{len(proposals):,} proposals to review{where}, {marked:,} of them ambiguous")


@taxonomy_app.command(cls=Command)
def from_labels(
    labels: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS",
            help="A text file with one label per line, a CSV with a column label, or a folder of "
            "images with one sub-folder per label.",
        ),
    ],
    out: Annotated[Path | None, opt("File for the tree, as CSV.", shown="standard output")] = None,
    max_depth: Annotated[
        int, opt("Maximum number of levels below the root; 0 for no limit.", min=0)
    ] = 6,
) -> None:
    """Make a tree for labels that have none, from what WordNet says they are kinds of.

    The sense of each label is written to FILE.synsets.csv for review, with its gloss and the alternatives; the tree is
    corrected by hand. A label that WordNet does not have stands below its head noun ("wedding cake": cake), or else
    below the root.
    """
    from taxtune import atomic
    from taxtune.authoring.label_tree import tree_by_wordnet
    from taxtune.authoring.senses import choices_csv, read_labels, unplaced

    if out is not None:
        _keep([labels], out)
    written = read_labels(labels)
    choices, tree = tree_by_wordnet(written, max_depth=max_depth or None)
    taxonomy = tree.taxonomy
    relations = Counter(choice.relation for choice in choices)
    groups = len(taxonomy) - 1 - len(written)
    lines = [
        f"labels   {len(written):,}: {relations['is']:,} in WordNet, "
        f"{relations['kind of']:,} by one of their words",
        f"tree     {len(taxonomy):,} nodes: {groups:,} groups, height {taxonomy.height}",
    ]
    below_root = unplaced(choices)
    if below_root:
        lines.append(below_root)
    # The tree may be what standard output is for.
    print(*lines, sep="\n", file=sys.stderr if out is None else sys.stdout)
    _write(taxonomy, out)
    if out is None:
        return
    note(f"wrote the tree to {out}")
    synsets = atomic.write_text(out.with_name(f"{out.stem}.synsets.csv"), choices_csv(choices))
    note(f"wrote the synset of each label to {synsets}, for review")


@taxonomy_app.command(cls=Command)
def build(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Files with edges, compressed or not.")
    ],
    out: Annotated[Path, opt("File to write the tree to, as CSV (an edge list).")],
    names: Annotated[
        list[Path] | None, opt("File with labels and aliases of the nodes; repeatable.")
    ] = None,
    root: Annotated[
        str | None, opt("Id or label of the root. Default: the node that reaches the most nodes.")
    ] = None,
    join_roots: Annotated[
        str | None, opt("Put all nodes without a parent under a new root.")
    ] = None,
    leaves: Annotated[
        Path | None,
        opt(
            "Keep only these nodes and their ancestors: a file with one id per line, or "
            "imagenet_class_index.json."
        ),
    ] = None,
    format: FileFormatOption = "auto",
    seed: Annotated[int, opt("Seed of the choice between paths of one length.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a rooted tree of a graph of "subclass of" edges.

    Edges that close a cycle are dropped; of several parents the one on the longest path from the root stays, one of
    several longest paths at random. Prints how much was dropped and why.
    """
    from taxtune.taxonomy.build import build_tree, read_graph, read_leaves, write_tree

    _keep([*files, *(names or ()), leaves], out)
    built = build_tree(
        read_graph(files, names=names or (), format=format),
        root=root,
        join_roots=join_roots,
        leaves=None if leaves is None else read_leaves(leaves),
        seed=seed,
    )
    write_tree(out, built)
    tell(f"wrote the tree to {out}")
    if as_json:
        print_json(built.counts)
    else:
        print(visible("\n".join(_summary(built.counts))))


@taxonomy_app.command(cls=Command)
def check(
    file: TaxonomyArgument,
    format: FileFormatOption = "auto",
    root_label: RootLabelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print size, depth, ranks and every defect of a taxonomy file.

    Exits with 0 if the file is a tree, notes or no notes, and with 2 if a defect breaks it.
    """
    from taxtune.taxonomy import check_taxonomy

    report = check_taxonomy(file, format, root_label)
    if as_json:
        print_json(report.as_dict())
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(2)


@taxonomy_app.command(cls=Command)
def convert(
    file: TaxonomyArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write the tree to, as CSV.")],
    names: Annotated[
        bool, opt("Add taxtune's English names for Latin taxa, as leads.", "--english-names")
    ] = False,
    format: FileFormatOption = "auto",
    root_label: RootLabelOption = None,
    force: ForceOption = False,
) -> None:
    """Write a taxonomy as a CSV of paths.

    Labels, ranks, aliases, leads and ids go along: reading OUT gives the same tree.
    """
    from taxtune.taxonomy import read_taxonomy
    from taxtune.taxonomy.write import write_taxonomy

    _keep([Path(file)], out)
    taxonomy = read_taxonomy(file, format=format, names=names, root_label=root_label)
    write_taxonomy(taxonomy, out, force=force)
    tell(f"wrote {len(taxonomy):,} nodes to {out}")


@taxonomy_app.command(cls=Command)
def show(
    file: TaxonomyArgument,
    node: Annotated[
        str | None,
        typer.Argument(metavar="[NODE]", help="A label, an alias or a path. Default: the root."),
    ] = None,
    depth: Annotated[int, opt("Number of levels to print below the node.", min=0)] = 1,
    names: EnglishNamesOption = True,
    format: FileFormatOption = "auto",
    root_label: RootLabelOption = None,
) -> None:
    """Print a node: its path, rank and other names, and the nodes below it."""
    from taxtune.taxonomy import read_taxonomy

    taxonomy = read_taxonomy(file, format=format, names=names, root_label=root_label)
    top = taxonomy.root if node is None else taxonomy.resolve(node)
    below = len(taxonomy.descendants(top)) - 1
    rank = taxonomy.ranks[top] or "unknown"
    lines = [
        " / ".join(taxonomy.path(top)),
        f"rank {rank}, depth {taxonomy.depth[top]}, {below:,} nodes below",
    ]
    if taxonomy.aliases[top]:
        lines.append(f"also called {'; '.join(taxonomy.aliases[top])}")
    if taxonomy.leads[top]:
        lines.append(f"names that lead here: {'; '.join(taxonomy.leads[top])}")
    first = taxonomy.places[top] + 1
    for child in taxonomy.walk[first : first + below].tolist():
        level = int(taxonomy.depth[child] - taxonomy.depth[top])
        if level <= depth:
            others = taxonomy.names(child)[1:]
            more = f" ({'; '.join(others)})" if others else ""
            lines.append("  " * level + taxonomy.labels[child] + more)
    print(visible("\n".join(lines)))


def _write(tree: Taxonomy, out: Path | None) -> None:
    from taxtune.taxonomy.write import paths_csv, write_taxonomy

    if out is None:
        print(paths_csv(tree), end="")
    else:
        write_taxonomy(tree, out, force=True)


def _keep(read: Sequence[Path | None], out: Path) -> None:
    """Raises a TaxtuneError if the file that is to be written is one of those that are read."""
    if out.resolve() in {path.resolve() for path in read if path is not None}:
        message = "The output file is also an input file."
        raise TaxtuneError(message, file=out, remedy="Choose another.")


def _print_report(report: TaxonomyReport) -> None:
    breaking = sum(defect.breaks for defect in report.defects)
    lines = [
        f"{report.file}: {report.format}, {'a tree' if report.ok else 'not a tree'}",
        *_summary(report.counts),
        f"defects  {breaking:,} that break the tree, {len(report.defects) - breaking:,} notes",
    ]
    for defect in report.defects:
        where = defect.file if defect.row is None else f"{defect.file}:{defect.row}"
        text = f"{defect.kind}: {defect.message}"
        if defect.value is not None:
            text += f" (got {defect.value!r})"
        if defect.remedy and defect.breaks:
            text += f" {defect.remedy}"
        lines.append(f"{where}: {'error' if defect.breaks else 'note'}: {text}")
    print(visible("\n".join(lines)))


def _summary(counts: dict[str, Any]) -> Iterator[str]:
    for what, value in counts.items():
        if not isinstance(value, dict):
            yield f"{what:<9}{value:,}" if isinstance(value, int) else f"{what:<9}{value}"
            continue
        cells = []
        for name, count in value.items():
            if isinstance(count, int):
                cells.append(f"{name or 'none'} {count:,}")
            else:
                cells.append(f"{name} {count}")
        more = f" and {len(cells) - _MOST:,} more" if len(cells) > _MOST else ""
        yield f"{what:<9}{', '.join(cells[:_MOST]) or 'none'}{more}"
