"""`taxtune taxonomy build`: a tree from any graph."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from taxtune.errors import TaxtuneError
from taxtune.options import FileFormatOption, JsonOption, opt

__all__ = ["build", "keep"]


def build(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files with edges, compressed or not.")],
    out: Annotated[Path, opt("File to write the tree to, as CSV (an edge list).")],
    names: Annotated[list[Path] | None, opt("File with labels and aliases of the nodes; repeatable.")] = None,
    root: Annotated[str | None, opt("Id or label of the root. Default: the node that reaches the most nodes.")] = None,
    join_roots: Annotated[str | None, opt("Put all nodes without a parent under a new root.")] = None,
    parents: Annotated[
        str,
        opt(
            "Which parents a node keeps. longest-path: the one on the longest path from the root (a tree); all: "
            "every one (a graph, for `taxtune study granularity --graph`)."
        ),
    ] = "longest-path",
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
    from taxtune.taxonomy.build import build_tree, write_tree
    from taxtune.taxonomy.sources import read_graph, read_leaves

    keep([*files, *(names or ()), leaves], out)
    built = build_tree(
        read_graph(files, names=names or (), format=format),
        root=root,
        join_roots=join_roots,
        parents=parents,  # type: ignore[arg-type]
        leaves=None if leaves is None else read_leaves(leaves),
        seed=seed,
    )
    write_tree(out, built)
    print(f"taxtune: wrote the {'tree' if parents == 'longest-path' else 'graph'} to {out}", file=sys.stderr)
    print(json.dumps(built.counts, ensure_ascii=False, indent=2) if as_json else "\n".join(_summary(built.counts)))


def keep(read: Sequence[Path | None], out: Path) -> None:
    """Raises a TaxtuneError if the file that is to be written is one of those that are read."""
    if out.resolve() in {path.resolve() for path in read if path is not None}:
        raise TaxtuneError("The output file is also an input file.", file=out, remedy="Choose another.")


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
