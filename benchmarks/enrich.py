"""What the names of each source do for the mapper, on answers that were placed by hand.

    enrich.py TREES PLACED.jsonl... [--source NAME]... [--preset NAME]

TREES is a folder of trees; a PLACED file has the columns tree (a file of TREES), answer, node (a path or null: the
root) and also (other acceptable nodes). Every tree is enriched with all proposals of a source that are not marked, as
`taxtune taxonomy enrich --apply` does, without anybody's review; the answers are placed again. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from taxtune.authoring.enrich import DEFAULT_SOURCES, SOURCES, enrich
from taxtune.authoring.proposals import apply_proposals
from taxtune.mapping import Mapper, MapperConfig
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.wordnet import find_wordnet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", type=Path)
    parser.add_argument("placed", type=Path, nargs="+")
    parser.add_argument("--source", action="append", choices=[s for s in SOURCES if s != "llm"])
    parser.add_argument("--preset", default="default")
    parser.add_argument("--no-wordnet", action="store_true", help="place without WordNet, whatever the names came from")
    options = parser.parse_args()
    config = MapperConfig(preset=options.preset, wordnet=not options.no_wordnet)
    rows = [json.loads(line) for file in options.placed for line in file.read_text().splitlines() if line.strip()]
    trees = {name: read_taxonomy(options.trees / name) for name in sorted({row["tree"] for row in rows})}
    single = options.source or [source for source in SOURCES if source != "llm"]
    print("| names | added | acceptable | hF | wrong abstentions | another branch |")
    print("| --- | --- | --- | --- | --- | --- |")
    together = [list(DEFAULT_SOURCES), single] if options.source is None else [single] if len(single) > 1 else []
    for sources in [[], *([source] for source in single), *together]:
        added, total, shares = 0, Counter[str](), []
        for name, tree in trees.items():
            names, tree = _enriched(tree, sources, config)
            added += names
            mine = [row for row in rows if row["tree"] == name]
            placements = Mapper(tree, config=config).place([row["answer"] for row in mine])
            for row, placement in zip(mine, placements, strict=True):
                total.update(_judged(tree, row, placement.node, shares))
        n = len(rows)
        precision, recall = (sum(share[i] for share in shares) / n for i in (0, 1))
        what = " + ".join(sources) or "the trees' own"
        print(
            f"| {what} | {added:,} | {total['acceptable'] / n:.3f} | "
            f"{2 * precision * recall / (precision + recall):.3f} | {total['abstained']} | {total['astray']} |",
            flush=True,
        )


def _enriched(tree: Taxonomy, sources: Sequence[str], config: MapperConfig) -> tuple[int, Taxonomy]:
    if not sources:
        return 0, tree
    found = enrich(tree, Mapper(tree, config=replace(config, wordnet=False)), sources, wordnet=find_wordnet())
    more, counts = apply_proposals(tree, found.proposals)
    return counts["alias"] + counts["lead"], more


def _judged(tree: Taxonomy, row: dict[str, object], node: int, shares: list[tuple[float, float]]) -> list[str]:
    """Returns what is true of a placement, and appends its precision and recall against the node that was chosen."""
    also = row["also"]
    assert isinstance(also, list)
    right = [_node(tree, reference) for reference in (row["node"], *also)]
    shared = int(tree.shared(node, right[0]))
    shares.append((shared / (int(tree.depth[node]) + 1), shared / (int(tree.depth[right[0]]) + 1)))
    said = ["acceptable"] if node in right else []
    if node == tree.root and tree.root not in right:
        said.append("abstained")
    if node and not any(tree.is_ancestor(node, v) or tree.is_ancestor(v, node) for v in right):
        said.append("astray")
    return said


def _node(tree: Taxonomy, reference: object) -> int:
    return tree.root if reference is None else tree.resolve(reference)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
