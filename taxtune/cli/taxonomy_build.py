"""`taxtune taxonomy build` and `link`: a tree from any graph, and data sets that name its nodes by id."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune.errors import TaxonomyError, TaxtuneError
from taxtune.options import JsonOption

if TYPE_CHECKING:
    pass

__all__ = ["build", "keep", "link"]


def build(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files with edges, compressed or not.")],
    out: Annotated[Path, typer.Option(help="File to write the tree to, as CSV (an edge list).")],
    format: Annotated[
        str, typer.Option(metavar="FORMAT", help="auto, edges, synsets, wordnet, kgtk, wikidata-json, rdf or obo.")
    ] = "auto",
    names: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="File with labels and aliases of the nodes; repeatable.")
    ] = None,
    root: Annotated[
        str | None, typer.Option(help="Id or label of the root. Default: the node that reaches the most nodes.")
    ] = None,
    join_roots: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Put all nodes without a parent under a new root.")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(metavar="CLASS", help="Id or label of a class to exclude; repeatable.")
    ] = None,
    lift: Annotated[
        bool, typer.Option("--lift", help="Attach the children of excluded classes to the parents of those classes.")
    ] = False,
    cycles: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help="Which edges to drop to break cycles. lose-no-node: the fewest that keep every node reachable from "
            "the root; fewest-edges: the fewest, even if that cuts nodes off, and as few of these as possible.",
        ),
    ] = "lose-no-node",
    parents: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help="Which parents a node keeps. longest-path: the one on the longest path from the root (a tree); all: "
            "every one (a graph, for `taxtune study granularity --graph`).",
        ),
    ] = "longest-path",
    leaves: Annotated[
        Path | None,
        typer.Option(
            help="Keep only the ancestors of these nodes: a file with one id per line, imagenet_class_index.json or an "
            "OVEN file."
        ),
    ] = None,
    property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PID",
            help="For Wikidata, the property to use as edges; repeatable. Default: P279. With --leaves, P31 is used "
            "for the leaves only.",
        ),
    ] = None,
    language: Annotated[str, typer.Option(help="For Wikidata, the language of the names.")] = "en",
    direction: Annotated[
        str | None, typer.Option(help="child-parent or parent-child, for files without a header that says so.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="File for a record of everything that was dropped (.jsonl or .csv).")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="STEM", help="Plot levels and parents to STEM.png and STEM.svg.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the lots between paths of one length and sets of one size.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a rooted tree of a graph of "subclass of" edges.

    Cycles are broken by dropping the fewest edges; of several parents the one on the longest path from the root stays,
    one of several longest paths at random, unless all are to be kept. Prints what was dropped and why.
    """
    from taxtune.taxonomy.building import BuildOptions, build_tree, name_nodes, summary, write_report, write_tree
    from taxtune.taxonomy.sources import read_graph, read_leaves
    from taxtune.taxonomy.tree import MAX_LINEAGE

    rule = _one_of(cycles, ("lose-no-node", "fewest-edges"), "--cycles")
    kept = _one_of(parents, ("longest-path", "all"), "--parents")
    way = None if direction is None else _one_of(direction, ("child-parent", "parent-child"), "--direction")
    properties = tuple(property or ("P279",))
    if report is not None and report.suffix.lower() not in (".jsonl", ".ndjson", ".csv"):
        raise TaxtuneError("The report must be a .jsonl or .csv file.", file=report, remedy="Rename it.")
    keep([*files, *(names or ()), *([leaves] if leaves else ())], out, report)
    wanted = None if leaves is None else read_leaves(leaves)
    graph = read_graph(
        files,
        format=format,
        names=names or (),
        properties=properties,
        only={"P31": frozenset(wanted)} if wanted is not None and properties != ("P31",) else None,
        language=language,
        direction=way,  # type: ignore[arg-type]
    )
    options = BuildOptions(
        root=root,
        join_roots=join_roots,
        leave_out=tuple(leave_out or ()),
        lift=lift,
        cycles=rule,  # type: ignore[arg-type]
        parents=kept,  # type: ignore[arg-type]
        leaves=wanted,
        seed=seed,
    )
    built = build_tree(graph, options)
    named = name_nodes(built)
    facts = summary(built, named)
    write_tree(out, built, named)
    print(f"taxtune: wrote the {'tree' if kept == 'longest-path' else 'graph'} to {out}", file=sys.stderr)
    if facts["tree"]["nodes"] * (facts["tree"]["height"] + 1) > MAX_LINEAGE:
        print(
            f"taxtune: {facts['tree']['nodes']:,} nodes of height {facts['tree']['height']:,} are too deep for their "
            "number to be read by taxtune: look for the chains, or prune with --leaves",
            file=sys.stderr,
        )
    if report is not None:
        count = write_report(report, built, named)
        print(f"taxtune: {count:,} records of dropped nodes and edges written to {report}", file=sys.stderr)
    if figure is not None:
        from taxtune.report.built_tree import draw_built_tree
        from taxtune.report.drawing import save_figure

        paths = save_figure(lambda: draw_built_tree(built), figure)
        print(f"taxtune: the figure is in {' and '.join(map(str, paths))}", file=sys.stderr)
    if as_json:
        print(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        _print_summary(facts)


def link(
    tree: Annotated[str, typer.Argument(metavar="TREE", help="A taxonomy whose nodes have Wikidata ids.")],
    oven: Annotated[Path, typer.Option(metavar="FILE", help="An OVEN file (JSON lines).")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSONL file for the examples that are on the tree, with their targets."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Link OVEN's entities to the nodes of a tree: which are on it, which are not.

    A line of --out has the example's id, image_id, question, entity_id and entity_text, and as target the path of its
    node, which is read as the truth where a file of answers has no column truth.
    """
    from taxtune import atomic
    from taxtune.taxonomy import read_taxonomy
    from taxtune.taxonomy.sources import link_oven

    keep([Path(tree), oven], out)
    taxonomy = read_taxonomy(tree, names=False)
    linked = link_oven(oven, taxonomy)
    on = linked.on_tree()
    inner = sorted(key for key in on if len(taxonomy.children(taxonomy.by_id[key])))
    facts: dict[str, Any] = {
        "examples": linked.examples,
        "on_the_tree": len(linked.targets),
        "off_the_tree": sum(linked.off_tree.values()),
        "without_entity": linked.without_entity,
        "entities": {
            "on_the_tree": len(on),
            "of_them_inner_nodes": len(inner),
            "off_the_tree": [
                {"id": key, "text": linked.texts.get(key), "examples": count}
                for key, count in sorted(linked.off_tree.items(), key=lambda item: (-item[1], item[0]))
            ],
        },
    }
    if out is not None:
        lines = [
            json.dumps(
                {
                    "id": example.id,
                    "image_id": example.image_id,
                    "question": example.question,
                    "entity_id": example.entity,
                    "entity_text": example.text,
                    "data_split": example.split,
                    "target": list(taxonomy.path(node)),
                },
                ensure_ascii=False,
            )
            for example, node in linked.targets
        ]
        atomic.write_text(out, "".join(line + "\n" for line in lines))
        print(f"taxtune: wrote {len(lines):,} examples with their targets to {out}", file=sys.stderr)
    if as_json:
        print(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    off = facts["entities"]["off_the_tree"]
    print(f"examples  {linked.examples:,}: {len(linked.targets):,} on the tree, {facts['off_the_tree']:,} not, "
          f"{linked.without_entity:,} without an entity")  # fmt: skip
    print(f"entities  {len(on):,} on the tree ({len(inner):,} inner nodes), {len(off):,} not")
    for entity in off[:20]:
        print(f"  {entity['id']} {entity['text'] or ''}: {entity['examples']:,} examples")
    if len(off) > 20:
        print(f"  and {len(off) - 20:,} more: see --json")


def _one_of(value: str, choices: tuple[str, ...], option: str) -> str:
    if value not in choices:
        raise TaxonomyError(f"{option} takes {' or '.join(choices)}.", value=value)
    return value


def keep(read: list[Path], *written: Path | None) -> None:
    """Refuses to write over what is read, or twice into one file.

    Raises:
        TaxtuneError: If a file is to be written that is also read, or written already.
    """
    taken = {path.resolve() for path in read}
    for path in written:
        if path is None:
            continue
        if path.resolve() in taken:
            raise TaxtuneError("The output file is also an input file.", file=path, remedy="Choose another.")
        taken.add(path.resolve())


def _print_summary(facts: dict[str, Any]) -> None:
    for head, text in _summary_lines(facts):
        print(f"{head:9}{text}")


def _summary_lines(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    graph, tree, root, cycles = facts["graph"], facts["tree"], facts["root"], facts["cycles"]
    several, names, leaves = facts["several_parents"], facts["names"], facts["leaves"]
    yield "graph", f"{graph['nodes']:,} nodes, {graph['edges']:,} edges"
    yield "", f"{graph['nodes_without_parent']:,} nodes without a parent"
    yield "", f"{graph['nodes_with_several_parents']:,} nodes with several parents, at most {graph['most_parents']:,}"
    for what, count in facts["read"].items():
        yield "", f"{count:,} {what}"
    yield "root", f"{_shown(root)}: {root['how']}; it reaches {root['reaches']:,} nodes"
    if root["candidates"] not in (None, 1):
        yield "", f"the next best of {root['candidates']:,} candidates reaches {root['next_best_reaches']:,}"
    count = cycles["knots"]
    components = f"{count:,} strongly connected component{'' if count == 1 else 's'}"
    edges = f"{cycles['edges_dropped']:,} edge{'' if cycles['edges_dropped'] == 1 else 's'}"
    yield "cycles", f"{components} with cycles, broken by dropping {edges}"
    if count:
        yield "", f"proven minimal for {cycles['proven_minimal']:,} of them"
    for one in cycles["not_proven"]:
        size = f"{one['nodes']:,} nodes and {one['edges']:,} edges"
        yield "", f"not proven for one of {size}: {one['dropped']:,} dropped, at least {one['at_least']:,} needed"
    whole = facts["settings"]["parents"] == "all"
    if whole:
        yield "parents", f"{several['nodes']:,} nodes have several, and keep them"
    else:
        yield "parents", f"{several['nodes']:,} nodes of the tree had several"
        yield "", f"{several['decided_by_lot']:,} nodes had several parents on equally long paths: chosen at random"
    yield "dropped", "edges: " + _counts(facts["dropped"]["edges"])
    yield "", "nodes: " + _counts(facts["dropped"]["nodes"])
    if any(facts["added_edges"].values()):
        yield "added", "edges: " + _counts(facts["added_edges"])
    yield "names", f"{names['without_label']:,} nodes without a label: their ids are their labels"
    yield "", f"{names['label_with_id']:,} labels with the id added, because a sibling has the same label"
    yield "", f"{names['labels_of_several_nodes']:,} labels shared by several nodes"
    if names["aliases_too_long"]:
        yield "", f"{names['aliases_too_long']:,} aliases of more than 2,000 characters left out"
    if leaves is not None:
        missing, lost = len(leaves["not_in_the_graph"]), len(leaves["not_on_the_tree"])
        wanted = facts["settings"]["leaves"]
        yield "leaves", f"{wanted:,} wanted, {missing:,} not in the graph, {lost:,} in it and not on the tree"
    edges = f"{tree['edges']:,} edges, " if whole else ""
    size = f"{tree['nodes']:,} nodes, {edges}{tree['leaves']:,} leaves, height {tree['height']}"
    yield "result" if whole else "tree", size
    yield "", "nodes per level: " + ", ".join(f"{count:,}" for count in tree["levels"])


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "none"


def _shown(root: dict[str, Any]) -> str:
    return str(root["id"]) if root["id"] == root["label"] else f"{root['id']} ({root['label']})"
