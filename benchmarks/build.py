"""How long a tree takes to be made of a random graph as untidy as real ones, and how much memory.

Run `python benchmarks/build.py`; `--nodes 1000000` makes the large one. A third of the nodes have several parents;
there are hundreds of roots, cycles of two to five nodes and a few longer ones that hang together, edges stated twice,
self loops, labels that hundreds of nodes share, and labels with quotes, tabs, slashes and line ends. Reading, building,
writing and reading the tree back are timed; the same graph in another order of lines has to give the same tree.
"""

from __future__ import annotations

import argparse
import csv
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from taxtune.taxonomy import read_taxonomy
from taxtune.taxonomy.building import BuildOptions, build_tree, name_nodes, summary, write_report, write_tree
from taxtune.taxonomy.sources import read_graph

T = TypeVar("T")

ODD = ('the "{}"', "{}\tsort", "{}/{}", "{}, {}", "{} 🦆", "‏{}", "l'{}", "{}\nof old", "{}|{}")


def made_edges(nodes: int, seed: int) -> list[tuple[str, str]]:
    """Edges (child, parent): most nodes below one of many roots, further parents, cycles, repeats and self loops."""
    rng = random.Random(seed)
    ids = [f"Q{number}" for number in rng.sample(range(1, 10 * nodes), nodes)]
    roots = min(400, max(2, nodes // 50))
    edges = []
    for i in range(roots, nodes):
        # Parents lie in the earlier third, so that some are wide and most nodes are leaves.
        earlier = (i - roots) // 3
        inner = earlier and rng.random() < 0.99
        edges.append(
            (ids[i], ids[roots + rng.randrange(earlier)] if inner else ids[rng.randrange(roots) if earlier else 0])
        )
        more = 0.36
        while rng.random() < more:
            edges.append((ids[i], ids[rng.randrange(i)]))
            more = 0.64
    for _ in range(max(3, nodes // 300)):
        start = rng.randrange(roots, nodes - 5)
        ring = [ids[start + step] for step in range(rng.randint(2, 5))]
        edges += list(zip(ring, ring[1:] + ring[:1], strict=True))
    above = dict(edges)
    for _ in range(max(3, nodes // 2500)):
        # The wrong way round: a wide class below a narrow one. Cycles of any length, which may hang together.
        narrow = wide = ids[rng.randrange(roots, nodes)]
        for _ in range(rng.randint(4, 9)):
            wide = above.get(wide, wide)
        edges.append((wide, narrow))
    edges += rng.choices(edges, k=nodes // 100)
    edges += [(key, key) for key in rng.choices(ids, k=max(1, nodes // 2000))]
    rng.shuffle(edges)
    return edges


def made_labels(edges: list[tuple[str, str]], seed: int) -> dict[str, str]:
    """Labels: most of their own, some shared by hundreds of nodes, some with odd characters, some missing."""
    rng = random.Random(seed)
    labels = {}
    for key in sorted({key for edge in edges for key in edge}):
        lot = rng.random()
        if lot < 0.01:
            continue
        if lot < 0.06:
            labels[key] = rng.choice(("village", "painting", "gene", "bridge", "song"))
        elif lot < 0.10:
            labels[key] = rng.choice(ODD).replace("{}", f"class {rng.randrange(10**6)}")
        else:
            labels[key] = f"class {key[1:]}"
    return labels


def write_files(folder: Path, edges: list[tuple[str, str]], labels: dict[str, str]) -> tuple[Path, Path]:
    """Writes the edges and the labels as KGTK files."""
    paths = folder / "edges.tsv", folder / "labels.tsv"
    with paths[0].open("w", encoding="utf-8") as file:
        file.write("node1\tlabel\tnode2\n")
        file.writelines(f"{child}\tP279\t{parent}\n" for child, parent in edges)
    escape = str.maketrans({"\\": "\\\\", "'": "\\'", '"': '\\"', "\t": "\\t", "\n": "\\n", "|": "\\|"})
    with paths[1].open("w", encoding="utf-8") as file:
        file.write("node1\tlabel\tnode2\n")
        file.writelines(f"{key}\tlabel\t'{label.translate(escape)}'@en\n" for key, label in labels.items())
    return paths


def timed(what: str, function: Callable[[], T]) -> T:
    """Runs a step and prints how long it took and the most memory so far."""
    start = time.perf_counter()
    result = function()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
    print(f"{what:28}{time.perf_counter() - start:8.1f} s   most memory so far {most:5.2f} GB", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=15_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--read-back", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        edges = made_edges(arguments.nodes, arguments.seed)
        labels = made_labels(edges, arguments.seed)
        edge_file, label_file = write_files(folder, edges, labels)
        print(f"{arguments.nodes:,} nodes, {len(edges):,} stated edges")
        random.Random(1).shuffle(edges)
        (folder / "other").mkdir()
        other, _ = write_files(folder / "other", edges, {})
        del edges, labels

        start = time.perf_counter()
        graph = timed("read edges and labels", lambda: read_graph([edge_file], names=[label_file]))
        built = timed("build", lambda: build_tree(graph, BuildOptions(seed=arguments.seed)))
        named = timed("names", lambda: name_nodes(built))
        facts = timed("summary", lambda: summary(built, named))
        timed("write the tree", lambda: write_tree(folder / "tree.csv", built, named))
        timed("write the report", lambda: write_report(folder / "report.jsonl", built, named))
        print(f"{'together':28}{time.perf_counter() - start:8.1f} s")
        shown = {key: facts[key] for key in ("graph", "root", "dropped", "cycles", "several_parents", "names")}
        for key, value in (shown | {"height": facts["tree"]["height"], "kept": facts["tree"]["nodes"]}).items():
            print(f"{key:17}{value}")
        again = build_tree(read_graph([other], names=[label_file]), BuildOptions(seed=arguments.seed))
        assert (again.order == built.order).all(), "another order of lines gave another tree"
        assert (again.edge_fate == built.edge_fate).all(), "another order of lines dropped other edges"
        print("the lines in another order: the same tree")
        if not arguments.read_back:
            return
        del again
        tree = timed("read the tree back", lambda: read_taxonomy(folder / "tree.csv", names=False))
        with (folder / "tree.csv").open(encoding="utf-8", newline="") as file:
            written = [row["label"] for row in csv.DictReader(file)]
        assert list(tree.ids) == [built.ids[node] for node in built.order.tolist()], "ids differ"
        assert list(tree.labels) == written == [named.labels[node] for node in built.order.tolist()], "labels differ"
        print(f"read back: identical, {tree!r}")


if __name__ == "__main__":
    main()
