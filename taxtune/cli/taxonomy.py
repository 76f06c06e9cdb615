"""`taxtune taxonomy`: look at a label tree, write it in another format, or make one of a graph."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune.cli.taxonomy_names import enrich, from_labels, keep
from taxtune.options import EnglishNamesOption, FileFormatOption, JsonOption, RootLabelOption, TaxonomyArgument, opt
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from taxtune.taxonomy import TaxonomyReport

__all__ = ["build", "check", "convert", "show", "taxonomy_app"]

taxonomy_app = typer.Typer(help="Inspect, build or extend a label taxonomy.", no_args_is_help=True)
taxonomy_app.command()(enrich)
taxonomy_app.command()(from_labels)


@taxonomy_app.command()
def build(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files with edges, compressed or not.")],
    out: Annotated[Path, opt("File to write the tree to, as CSV (an edge list).")],
    names: Annotated[list[Path] | None, opt("File with labels and aliases of the nodes; repeatable.")] = None,
    root: Annotated[str | None, opt("Id or label of the root. Default: the node that reaches the most nodes.")] = None,
    join_roots: Annotated[str | None, opt("Put all nodes without a parent under a new root.")] = None,
    leaves: Annotated[
        Path | None,
        opt("Keep only these nodes and their ancestors: a file with one id per line, or imagenet_class_index.json."),
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

    keep([*files, *(names or ()), leaves], out)
    built = build_tree(
        read_graph(files, names=names or (), format=format),
        root=root,
        join_roots=join_roots,
        leaves=None if leaves is None else read_leaves(leaves),
        seed=seed,
    )
    write_tree(out, built)
    print(f"taxtune: wrote the tree to {out}", file=sys.stderr)
    print(json.dumps(built.counts, ensure_ascii=False, indent=2) if as_json else "\n".join(_summary(built.counts)))


@taxonomy_app.command()
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
        print(json.dumps(report.as_dict(), ensure_ascii=False, indent=2))
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(2)


@taxonomy_app.command()
def convert(
    file: TaxonomyArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write the tree to: .csv or .json.")],
    names: Annotated[bool, opt("Add taxtune's English names for Latin taxa, as leads.", "--english-names")] = False,
    format: FileFormatOption = "auto",
    root_label: RootLabelOption = None,
    force: Annotated[bool, opt("Overwrite an existing file.")] = False,
) -> None:
    """Write a taxonomy in another format: paths (CSV) or nested JSON.

    Labels, ranks, aliases, leads and ids go along: reading OUT gives the same tree.
    """
    from taxtune.taxonomy import read_taxonomy
    from taxtune.taxonomy.convert import check_suffix, write_taxonomy

    check_suffix(out)
    keep([Path(file)], out)
    taxonomy = read_taxonomy(file, format=format, names=names, root_label=root_label)
    write_taxonomy(taxonomy, out, force=force)
    print(f"taxtune: wrote {len(taxonomy):,} nodes to {out}", file=sys.stderr)


@taxonomy_app.command()
def show(
    file: TaxonomyArgument,
    node: Annotated[
        str | None, typer.Argument(metavar="[NODE]", help="A label, an alias or a path. Default: the root.")
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
    below, rank = len(taxonomy.descendants(top)) - 1, taxonomy.ranks[top] or "unknown"
    lines = [" / ".join(taxonomy.path(top)), f"rank {rank}, depth {taxonomy.depth[top]}, {below:,} nodes below"]
    lines += [f"also called {'; '.join(taxonomy.aliases[top])}"] if taxonomy.aliases[top] else []
    lines += [f"names that lead here: {'; '.join(taxonomy.leads[top])}"] if taxonomy.leads[top] else []
    for child in taxonomy.walk[taxonomy.places[top] + 1 :][:below].tolist():
        level = int(taxonomy.depth[child] - taxonomy.depth[top])
        if level <= depth:
            others = taxonomy.names(child)[1:]
            lines.append("  " * level + taxonomy.labels[child] + (f" ({'; '.join(others)})" if others else ""))
    print(visible("\n".join(lines)))


def _print_report(report: TaxonomyReport) -> None:
    notes = len(report.defects) - len(report.breaking)
    ranks = ", ".join(f"{count:,} {rank or 'without rank'}" for rank, count in report.ranks.items())
    lines = [
        f"{report.file}: {report.format}, {'a tree' if report.ok else 'not a tree'}",
        f"nodes    {report.nodes:,}" + ("" if report.leaves is None else f", of them {report.leaves:,} leaves"),
        f"ranks    {ranks}",
        f"aliases  {report.aliases:,}",
        f"defects  {len(report.breaking):,} that break the tree, {notes:,} notes",
    ]
    if report.height is not None:
        levels = ", ".join(f"{n:,}" for n in report.levels)
        lines.insert(2, f"depth    {report.height} edges; nodes per level: {levels}")
    for defect in report.defects:
        where = defect.file if defect.row is None else f"{defect.file}:{defect.row}"
        value = "" if defect.value is None else f" (got {defect.value!r})"
        remedy = f" {defect.remedy}" if defect.remedy and defect.breaks else ""
        lines.append(f"{where}: {'error' if defect.breaks else 'note'}: {defect.kind}: {defect.message}{value}{remedy}")
    print(visible("\n".join(lines)))


def _summary(counts: dict[str, Any]) -> Iterator[str]:
    graph, tree, root, lost = counts["graph"], counts["tree"], counts["root"], counts["lost_leaves"]
    yield f"graph    {graph['nodes']:,} nodes, {graph['edges']:,} edges"
    none, several = graph["nodes_without_parent"], graph["nodes_with_several_parents"]
    yield f"         {none:,} nodes without a parent, {several:,} with several"
    for what, count in graph["left_out"].items():
        yield f"         {count:,} left out: {what}"
    yield f"root     {root['label']}" + (f", new, above {root['joins']:,} nodes" if root["joins"] else "")
    yield "dropped  " + (", ".join(f"{count:,} {what}" for what, count in counts["dropped"].items()) or "nothing")
    if lost:
        yield f"         {len(lost):,} leaves: {', '.join(f'{key} ({why})' for key, why in [*lost.items()][:10])}"
    several, chosen = counts["several_parents"], counts["decided_by_lot"]
    yield f"parents  {several:,} nodes below the root have several; of {chosen:,} the parent is chosen at random"
    yield f"names    {counts['without_label']:,} nodes without a label: their ids are their labels"
    yield f"         {counts['label_with_id']:,} labels with the id added, because a sibling has the same label"
    size = f"{tree['nodes']:,} nodes, {tree['edges']:,} edges, {tree['leaves']:,} leaves, height {tree['height']}"
    yield f"result   {size}; nodes per level: {', '.join(f'{count:,}' for count in tree['levels'])}"
