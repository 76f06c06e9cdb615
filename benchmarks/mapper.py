"""How good and how fast the mapper is.

    python benchmarks/mapper.py --taxonomy inat2021-categories.csv --placed placed.jsonl --sentence MODEL
    python benchmarks/mapper.py --trees trees/ --placed placed_other_domains.jsonl --texts 0
    python benchmarks/mapper.py --taxonomy inat2021-categories.csv --answers answers.jsonl --texts 0

The first prints the time for one answer, once its similarity row is known, of the presets
`paper-listing` and `paper-prose` against plain transcriptions of the paper's listing and prose, and
whether both agree on 500 texts. `--placed` prints hF, exact and acceptable placements, wrong
abstentions and placements on another branch, of the default preset, of the paper's listing and of a
sentence encoder, in all and by tree or style; and for the default preset the risk at each coverage
and the calibration error of its confidence. `--answers` prints how long a process takes to its first
placement, how many follow, and the memory that 100,000 of them take.
Without `--taxonomy` it takes a made tree of iNat21's shape.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.mapping import Mapper, MapperConfig, Placement
from taxtune.mapping.normalize import plain
from taxtune.metrics.confidence import COVERAGES, calibration_error, risk_at_coverage
from taxtune.metrics.hierarchical import harmonic_mean
from taxtune.taxonomy import Taxonomy, read_taxonomy

# Nodes at each depth of iNat21, the root first.
LEVELS = (1, 3, 13, 51, 273, 1103, 4900, 10_000)


def made_tree(seed: int) -> Taxonomy:
    """Returns a tree with as many nodes per level as iNat21's, with made-up Latin and English names."""
    rng = random.Random(seed)

    def word(ending: str = "") -> str:
        return (
            "".join(
                rng.choice("bcdfglmnprstv") + rng.choice("aeiou") for _ in range(rng.randint(3, 5))
            )
            + ending
        )

    adjectives = [word("n") for _ in range(900)]
    labels = ["life"]
    parents = [-1]
    aliases = [["life"]]
    first = 0
    for depth, (above, level) in enumerate(itertools.pairwise(LEVELS), 1):
        for i in range(level):
            parent = first + (i if i < above else rng.randrange(above))
            if depth == len(LEVELS) - 1:  # a species is called after its genus
                labels.append(f"{labels[parent]} {word('us')}")
                aliases.append(
                    [f"{rng.choice(adjectives)} {rng.choice(adjectives)} {aliases[parent][0]}"]
                )
            else:
                labels.append(word("a").title())
                aliases.append([word("r")])
            parents.append(parent)
        first += above
    return Taxonomy(labels, parents, aliases=aliases)


class PlainPaper:
    """What the paper's listing and its prose need of a tree, with nothing indexed: the references to compare with."""

    def __init__(self, taxonomy: Taxonomy, config: MapperConfig) -> None:
        self.config = config
        self.parent = taxonomy.parents.tolist()
        self.names = [[plain(name) for name in taxonomy.names(v)] for v in range(len(taxonomy))]
        self.names = [[name for name in names if name] for names in self.names]

    def ancestors(self, node: int) -> list[int]:
        """Returns a node and its ancestors up to the root."""
        found = [node]
        while self.parent[node] >= 0:
            node = self.parent[node]
            found.append(node)
        return found

    @staticmethod
    def grams(text: str, n: int) -> list[str]:
        """Returns the word n-grams of a text."""
        words = text.split()
        return [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]

    def is_close(self, best: Sequence[float]) -> bool:
        """Tells whether the k best scores, as shares of their softmax, are below the thresholds apart."""
        top = np.array(best)
        top = np.exp(top - top.max())
        top /= top.sum()
        return bool(
            top[0] - top[1] < self.config.thr_top2 and top[0] - top[-1] < self.config.thr_topk
        )


class PlainListing(PlainPaper):
    """Algorithm 1 as the listing prints it (§11), step by step over every node."""

    def place(self, answer: str, row: NDArray[np.float32]) -> int:
        """Returns the node of an answer."""
        prediction = plain(answer)
        k = self.config.k
        scored = sorted(
            ((float(s), v) for v, s in enumerate(row.tolist())), key=lambda pair: -pair[0]
        )
        order = [v for _, v in scored]

        def walk(matches) -> int | None:  # type: ignore[no-untyped-def]
            chosen = None
            for node in order:
                if matches(node) and (
                    chosen is None or len(self.ancestors(node)) > len(self.ancestors(chosen))
                ):
                    chosen = node
                if chosen is not None and order.index(node) == k - 1:
                    return chosen
            return chosen

        found = walk(lambda node: any(name in prediction for name in self.names[node]))
        if found is not None:
            return found
        for n in (4, 3, 2):
            own = set(self.grams(prediction, n))
            found = walk(
                lambda node, own=own, n=n: any(
                    own.intersection(self.grams(x, n)) for x in self.names[node]
                )
            )
            if found is not None:
                return found
        if self.is_close([score for score, _ in scored[:k]]):
            votes: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
            for node in order[:k]:
                for offset, ancestor in enumerate(self.ancestors(node)):
                    votes[offset][ancestor] += 1
            for _, counts in sorted(votes.items(), key=lambda item: -item[0]):
                elected, count = max(counts.items(), key=lambda item: item[1])
                if count > self.config.thr_vote:
                    return elected
        return order[0]


class PlainProse(PlainPaper):
    """Algorithm 1 as the prose describes it (§6), sentence by sentence.

    Where the prose leaves a choice (equally deep candidates, or common ancestors), the more votes
    and the higher score decide, then the smaller number.
    """

    def place(self, answer: str, row: NDArray[np.float32]) -> int:
        """Returns the node of an answer."""
        prediction = plain(answer)
        nodes = range(len(self.names))
        best = sorted(nodes, key=lambda v: (-row[v], v))[: self.config.k]

        def most_specific(candidates: list[int]) -> int:
            return min(candidates, key=lambda v: (-len(self.ancestors(v)), -row[v], v))

        # Full strings first among the top k, then among all labels; then the same checks by n-gram
        # overlap.
        for n in (None, 4, 3, 2):
            own = set(self.grams(prediction, n)) if n else set()
            for among in (best, nodes):
                if n is None:
                    candidates = [
                        v for v in among if any(name in prediction for name in self.names[v])
                    ]
                else:
                    candidates = [
                        v
                        for v in among
                        if any(own.intersection(self.grams(x, n)) for x in self.names[v])
                    ]
                if candidates:
                    return most_specific(candidates)
        # Ambiguous scores: of the nodes that are often enough in the ancestor sets of the top k,
        # the deepest.
        if self.is_close([float(row[v]) for v in best]):
            sets = [set(self.ancestors(v)) for v in best]
            votes = {node: sum(node in one for one in sets) for one in sets for node in one}
            common = [node for node, count in votes.items() if count >= self.config.thr_vote]
            if common:
                return min(common, key=lambda v: (-len(self.ancestors(v)), -votes[v], -row[v], v))
        return best[0]


TRANSCRIPTIONS = {"paper-listing": PlainListing, "paper-prose": PlainProse}


def texts_for(taxonomy: Taxonomy, placed: Path | None, count: int, seed: int) -> list[str]:
    """Returns `count` answers: real ones first, then names of the tree, whole, inside a sentence, cut or misspelt."""
    rng = random.Random(seed)
    texts: list[str] = [row["answer"] for row in read_rows(placed)] if placed else []
    while len(texts) < count:
        name = rng.choice(taxonomy.names(rng.randrange(len(taxonomy))))
        cut = rng.randrange(len(name))
        texts.append(
            rng.choice(
                (
                    name,
                    f"A photo of a {name.lower()} near the water.",
                    f"A: {name}",
                    name.split()[-1],
                    f"Striped {name.split()[-1]}",
                    name[:cut] + name[cut + 1 :],
                    f"zx{name[:3]}q",
                )
            )
        )
    return texts[:count]


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]


def compare_with_paper(taxonomy: Taxonomy, texts: Sequence[str], timed: int, preset: str) -> None:
    mapper = Mapper(taxonomy, "lexical", MapperConfig(preset=preset))
    reference = TRANSCRIPTIONS[preset](taxonomy, mapper.config)
    # Scores rounded to a few digits have ties, the case in which the order of equals matters.
    rows = np.concatenate([mapper.node_scores(texts[i : i + 50]) for i in range(0, len(texts), 50)])
    rows[::2] = np.round(rows[::2], 2)
    mapper.place_scored(texts[0], rows[0])  # the indexes are built once, outside the clock

    start = time.perf_counter()
    fast = [mapper.place_scored(text, row) for text, row in zip(texts, rows, strict=True)]
    fast_seconds = (time.perf_counter() - start) / len(texts)

    slow_seconds = 0.0
    agreed = 0
    for i, (text, row) in enumerate(zip(texts, rows, strict=True)):
        start = time.perf_counter()
        node = reference.place(text, row)
        slow_seconds += time.perf_counter() - start
        agreed += node == fast[i].node
        if node != fast[i].node:
            print(
                f"  differs: {text!r}: plain {taxonomy.labels[node]}, indexed {taxonomy.labels[fast[i].node]}"
            )
        if i + 1 == timed:
            break
    compared = min(timed, len(texts))
    slow_seconds /= compared
    print(f"{preset} on {len(taxonomy):,} nodes, {len(texts)} texts, similarity rows given:")
    print(f"  plain transcription {slow_seconds * 1e3:10.2f} ms per answer ({compared} texts)")
    print(f"  indexed             {fast_seconds * 1e3:10.3f} ms per answer ({len(texts)} texts)")
    print(
        f"  ratio {slow_seconds / fast_seconds:,.0f}; identical placements {agreed} of {compared}"
    )


def quality(
    trees: Mapping[str, Taxonomy], rows: Sequence[dict[str, Any]], sentence: str | None
) -> None:
    """Prints how the presets place answers that people have placed.

    Each row's `tree` names its tree.
    """
    settings: list[tuple[str, str, MapperConfig]] = [("default", "lexical", MapperConfig())]
    if sentence:
        settings += [("default, sentence", f"sentence:{sentence}", MapperConfig())]
    settings += [("paper-listing", "lexical", MapperConfig(preset="paper-listing"))]
    if sentence:
        settings += [
            (
                "paper-listing, sentence",
                f"sentence:{sentence}",
                MapperConfig(preset="paper-listing"),
            )
        ]
    results: dict[str, list[Placement]] = {}
    for title, similarity, config in settings:
        mappers = {name: Mapper(tree, similarity, config) for name, tree in trees.items()}
        results[title] = [mappers[row["tree"]].place_one(str(row["answer"])) for row in rows]
    header = "hF  exact  acceptable  abstains wrongly  other branch"
    print(f"\n{'':24} {'n':>5} " + " ".join(f"{title:>54}" for title in results))
    print(f"{'':24} {'':>5} " + " ".join(f"{header:>54}" for _ in results))
    for group, chosen in groups_of(rows):
        cells = []
        for p in results.values():
            cells.append(table_cell(trees, [rows[i] for i in chosen], [p[i] for i in chosen]))
        print(f"{group:24} {len(chosen):5} " + " ".join(f"{cell:>54}" for cell in cells))
    print(
        f"\n{'risk at coverage':24} {'n':>5} ",
        *(f"{coverage:5.0%}" for coverage in COVERAGES),
        "| calibration error",
    )
    judged = {title: placed for title, placed in results.items() if not title.startswith("paper")}
    for title, placed in judged.items():
        right = [p.node in wanted_nodes(trees, row) for row, p in zip(rows, placed, strict=True)]
        sure = [p.confidence for p in placed]
        risks = " ".join(f"{risk:.3f}" for risk in risk_at_coverage(sure, right))
        print(f"{title:24} {len(rows):5}  {risks} | {calibration_error(sure, right):.3f}")


def groups_of(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[int]]]:
    yield "all", list(range(len(rows)))
    groups: dict[str, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        groups[str(row.get("style") or row["tree"])].append(i)
    yield from sorted(groups.items(), key=lambda item: -len(item[1]))


def table_cell(
    trees: Mapping[str, Taxonomy], rows: Sequence[dict[str, Any]], placements: Sequence[Placement]
) -> str:
    pairs = []
    acceptable = abstained = elsewhere = 0
    for row, placement in zip(rows, placements, strict=True):
        tree = trees[row["tree"]]
        wanted = wanted_nodes(trees, row)
        node = placement.node
        acceptable += node in wanted
        abstained += node == tree.root not in wanted
        elsewhere += node != tree.root and not any(
            tree.is_ancestor(v, node) or tree.is_ancestor(node, v) for v in wanted
        )
        shared = int(tree.shared(node, wanted[0]))
        pairs.append(
            (
                shared / (tree.depth[node] + 1),
                shared / (tree.depth[wanted[0]] + 1),
                node == wanted[0],
            )
        )
    hp, hr, exact = np.mean(np.array(pairs), axis=0)
    return f"{harmonic_mean(hp, hr):.3f}  {exact:5.1%}  {acceptable / len(rows):10.1%}  {abstained:16}  {elsewhere:12}"


def wanted_nodes(trees: Mapping[str, Taxonomy], row: dict[str, Any]) -> list[int]:
    """Returns the acceptable nodes of an answer, the best first."""
    tree = trees[row["tree"]]
    return [
        tree.root if path is None else tree.resolve(as_path(path))
        for path in (row["node"], *row["also"])
    ]


def as_path(path: str | Sequence[str]) -> list[str]:
    return path.split("/") if isinstance(path, str) else list(path)


def speed(taxonomy: str, answers: Path) -> None:
    """Prints what the placement of many answers takes, in a process of its own each."""
    script = """
import json, resource, sys, time
from taxtune.mapping import Mapper
from taxtune.taxonomy import read_taxonomy
tree, texts = read_taxonomy(sys.argv[1]), [json.loads(line)["answer"] for line in open(sys.argv[2], encoding="utf-8")]
start = time.perf_counter()
mapper = Mapper(tree)
mapper.place_one(texts[0])
first = time.perf_counter() - start
start = time.perf_counter()
mapper.place(texts)
once = time.perf_counter() - start
start = time.perf_counter()
mapper.place(texts)
again = time.perf_counter() - start
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
many = [f"{text} {i}" if i % 2 else text for i, text in zip(range(100_000), texts * (100_000 // len(texts) + 1))]
mapper.place(many)
print(json.dumps([first, len(texts), once, again, len(set(many)), time.perf_counter() - start, before / 1024,
                  resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
    for title in ("first process", "second process"):
        out = subprocess.run(
            [sys.executable, "-c", script, taxonomy, str(answers)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        first, n, once, again, distinct, many, before, after = json.loads(out)
        print(
            f"{title}: first placement {first:.2f} s; {n:,} answers {once:.2f} s, again {again:.2f} s"
        )
        print(
            f"  100,000 answers, {distinct:,} distinct: {many:.1f} s; peak memory {before:,.0f} -> {after:,.0f} MiB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--taxonomy", help="the taxonomy file; iNat21 for the figures in docs/explanation/mapper.md"
    )
    parser.add_argument(
        "--trees", type=Path, help="the folder of the trees that the column tree of --placed names"
    )
    parser.add_argument(
        "--placed",
        type=Path,
        help="JSONL of answers placed by hand (answer, node, also, style or tree)",
    )
    parser.add_argument("--answers", type=Path, help="JSONL of answers to time on --taxonomy")
    parser.add_argument("--sentence", help="a sentence-transformers model by name or folder")
    parser.add_argument(
        "--texts", type=int, default=500, help="texts for the comparison with the transcriptions"
    )
    parser.add_argument(
        "--timed", type=int, default=500, help="texts that the plain transcription places too"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if (arguments.placed and not (arguments.taxonomy or arguments.trees)) or (
        arguments.answers and not arguments.taxonomy
    ):
        parser.error("--placed needs --taxonomy or --trees, --answers needs --taxonomy")
    taxonomy = (
        read_taxonomy(arguments.taxonomy) if arguments.taxonomy else made_tree(arguments.seed)
    )
    if arguments.texts:
        texts = texts_for(taxonomy, arguments.placed, arguments.texts, arguments.seed)
        for preset in TRANSCRIPTIONS:
            compare_with_paper(taxonomy, texts, arguments.timed, preset)
    if arguments.placed:
        rows = [{"tree": "", **row} for row in read_rows(arguments.placed)]
        trees = {"": taxonomy} | {
            name: read_taxonomy(arguments.trees / name)
            for name in {row["tree"] for row in rows}
            if name
        }
        quality(trees, rows, arguments.sentence)
    if arguments.answers:
        speed(arguments.taxonomy, arguments.answers)


if __name__ == "__main__":
    main()
