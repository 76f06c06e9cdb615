"""What a large taxonomy costs: reading it, learning its names, starting again, and placing an answer.

    python benchmarks/taxonomy_scale.py --nodes 1e4 1e5 1e6

Two shapes are made in each size. `checklist`: kingdom to species, with binomials whose epithets are shared, English
names of one to four words that end in the nouns of their family, and synonyms. `things`: without ranks, names go on
with those above them. Each is used by two processes, of which the second finds the names that the first has learnt and
kept. All times are of the processor:

- read: seconds to make the tree of its file; learn: seconds to learn its names;
- peak: the most memory that the process held, in MiB; kept: the size of what it kept on disk;
- start: seconds from the second process' first line, imports included, to its first answer; mean: milliseconds per
  answer in the second process.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
#: Of 1,000 nodes, how many are of each rank, about as in the Catalogue of Life.
SHARES = (0.05, 0.2, 0.6, 3, 14, 130)
MODIFIERS = [
    "red", "blue", "black", "white", "green", "golden", "common", "lesser", "greater", "northern", "southern",
    "eastern", "western", "spotted", "striped", "dwarf", "giant", "crested", "horned", "painted", "hairy",
    "long-tailed", "short-eared", "red-bellied", "yellow-rumped", "broad-leaved", "sea", "mountain", "river",
    "forest", "desert", "marsh", "island", "false", "royal", "little", "pale", "dusky", "banded", "silver",
    "american", "african", "european", "asian",
]  # fmt: skip
FRAMES = (
    "{}", "{}", "a {}", "The {}.", "This is a {}.", "It looks like a {} sitting on a branch.",
    "The image shows a {} in its natural habitat, with a blurred background.", "I think it's a {}, or a young one.",
    '{{"answer": "{}"}}', "**{}**", "a photo of a {} next to a red car",
)  # fmt: skip
ELSEWHERE = (
    "a man riding a bicycle", "two people at a table", "an old church tower", "I cannot tell what this is.",
    "a bowl of noodle soup", "a parked car", "the sky at night", "unknown", "a piece of paper with handwriting on it",
    "It is hard to say from this picture, but it might be something made of plastic.",
)  # fmt: skip


@dataclass
class Made:
    """A made tree: for each node its parent, names and rank.

    The label comes first, synonyms last.
    """

    parents: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    ranks: list[str] = field(default_factory=list)
    common: list[list[str]] = field(default_factory=list)
    synonyms: list[list[str]] = field(default_factory=list)

    def add(self, parent: int, label: str, rank: str = "", common: list[str] | None = None) -> int:
        """Adds a node and returns its number."""
        self.parents.append(parent)
        self.labels.append(label)
        self.ranks.append(rank)
        self.common.append(common or [])
        self.synonyms.append([])
        return len(self.labels) - 1


class Words:
    """Draws made words, names and nouns.

    Pools grow more slowly than the tree, so that words are shared.
    """

    def __init__(self, rng: random.Random, nodes: int) -> None:
        self.rng = rng
        self._seen: set[str] = set()
        self.epithets = []
        for _ in range(int(9 * nodes**0.6)):
            self.epithets.append(self._word(2, ("us", "a", "is", "ensis", "ii", "ata", "oides")))
        self.nouns = [
            self._word(rng.choice((1, 2, 2)), ("", "er", "ling", "fish", "wort", "bird"))
            for _ in range(int(3 * nodes**0.5))
        ]

    def _word(self, syllables: int, endings: tuple[str, ...]) -> str:
        draw = self.rng.choice
        while True:
            stem = "".join(
                draw("bcdfglmnprstv") + draw("aeiou") + draw(("", "", "l", "n", "r", "s"))
                for _ in range(syllables)
            )
            word = stem + draw(endings)
            if word not in self._seen and len(word) > 3:
                self._seen.add(word)
                return word

    def latin(self, endings: tuple[str, ...] = ("us", "a", "ia", "is", "ops", "ella")) -> str:
        """Returns a new Latin name."""
        return self._word(3, endings).capitalize()

    def epithet(self) -> str:
        """Returns one of the epithets, some much more often than others."""
        return self.epithets[int(len(self.epithets) * self.rng.random() ** 2)]

    def common(self, noun: str) -> str:
        """Returns an English name that ends in a noun."""
        return " ".join(
            [*self.rng.sample(MODIFIERS, self.rng.choice((0, 1, 1, 1, 2, 2, 3))), noun]
        ).capitalize()


def checklist(nodes: int, rng: random.Random) -> Made:
    """Kingdom to species, siblings in numbers that differ as those of real genera do."""
    words = Words(rng, nodes)
    made = Made()
    level = [made.add(-1, "life")]
    for rank, share in zip(RANKS, SHARES, strict=False):
        count = max(1, round(share * nodes / 1000))
        weights = [rng.paretovariate(1.1) for _ in level]
        above = rng.choices(level, weights, k=count)
        level = [made.add(parent, words.latin(), rank) for parent in above]
        if rank == "family":
            families = {node: rng.sample(words.nouns, rng.choice((1, 1, 2, 3))) for node in level}
            for node, nouns in families.items():
                made.common[node] = [f"{nouns[0]}s"] if rng.random() < 0.5 else []
    used: set[tuple[int, str]] = set()
    while len(made.labels) < nodes:
        genus = level[int(len(level) * rng.random() ** 2)]
        epithet = words.epithet()
        if (genus, epithet) in used:
            continue
        used.add((genus, epithet))
        node = made.add(genus, f"{made.labels[genus]} {epithet}", "species")
        nouns = families[made.parents[genus]]
        if rng.random() < 0.4:
            made.common[node] = [
                words.common(rng.choice(nouns)) for _ in range(rng.choice((1, 1, 2)))
            ]
        if rng.random() < 0.3:
            made.synonyms[node] = [f"{made.labels[rng.choice(level)]} {epithet}"]
    return made


def things(nodes: int, rng: random.Random) -> Made:
    """Made things and their kinds: "golden lamp", below "lamp"; series and codes."""
    words = Words(rng, nodes)
    made = Made()
    made.add(-1, "thing")
    inner = [0]
    used: set[tuple[int, str]] = set()
    while len(made.labels) < nodes:
        parent = inner[int(len(inner) * rng.random())]
        noun = made.labels[parent].split()[-1]
        lot = rng.random()
        if parent == 0 or lot < 0.3:
            label = " ".join(
                [*rng.sample(MODIFIERS, rng.choice((0, 1, 1))), rng.choice(words.nouns)]
            )
        elif lot < 0.8:
            label = " ".join([*rng.sample(MODIFIERS, rng.choice((1, 1, 2))), noun])
        else:
            label = f"{noun} {rng.choice('ABCDEFGX')}{rng.randrange(1000)}"
        if (parent, label) in used:
            continue
        used.add((parent, label))
        node = made.add(parent, label)
        made.common[node] = [words.common(noun)] if rng.random() < 0.3 else []
        if rng.random() < 0.12:
            inner.append(node)
    return made


SHAPES = {"checklist": checklist, "things": things}


def write(made: Made, path: Path) -> None:
    """Writes a tree as an edge list."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("child", "parent", "label", "rank", "aliases"))
        for node, parent in enumerate(made.parents):
            names = ";".join((*made.common[node], *made.synonyms[node]))
            rows.writerow(
                (
                    f"t{node}",
                    f"t{parent}" if node else "",
                    made.labels[node],
                    made.ranks[node],
                    names,
                )
            )


def made_answers(made: Made, count: int, rng: random.Random) -> Iterator[str]:
    """What a model might say of the tree's nodes, right, wrong, vague, misspelt and beside the point."""
    while count > 0:
        node = rng.randrange(1, len(made.labels))
        names = [made.labels[node], *made.common[node]]
        name = rng.choice(names)
        lot = rng.random()
        if lot < 0.1:
            count -= 1
            yield rng.choice(ELSEWHERE)
            continue
        if lot < 0.2:  # another kind of the same noun
            name = f"{rng.choice(MODIFIERS)} {names[-1].split()[-1]}"
        elif lot < 0.3 and len(name) > 6:  # a slip of the pen
            place = rng.randrange(2, len(name) - 2)
            name = name[:place] + name[place + 1] + name[place] + name[place + 2 :]
        elif lot < 0.35:
            name = f"{names[0]} ({names[-1]})"
        elif lot < 0.4:
            other = rng.randrange(1, len(made.labels))
            name = f"{name} or a {made.labels[other]}"
        elif lot < 0.5:
            name = made.labels[made.parents[node]]
        elif lot < 0.55:
            name = f"{name.split()[0]} {rng.choice(made.labels).split()[-1]} of some kind"
        count -= 1
        yield rng.choice(FRAMES).format(name)


_USE = """
import time
import json, resource, sys
from taxtune.mapping import Mapper
from taxtune.taxonomy import read_taxonomy
clock = time.process_time
imported = clock()
tree = read_taxonomy(sys.argv[1])
read = clock()
mapper = Mapper(tree)
mapper.place_one(tree.labels[-1])
learnt = clock()
texts = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
placed = mapper.place(texts)
mean = 1e3 * (clock() - learnt) / len(texts)
if len(sys.argv) > 3:
    with open(sys.argv[3], "w") as file:
        json.dump([[p.node, str(p.stage), p.evidence] for p in placed], file)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"height": tree.height, "read": read - imported, "learn": learnt - read, "start": learnt,
                  "peak": peak, "mean": mean}))
"""


def use(path: Path, answers: Path, cache: Path, placed: Path | None = None) -> dict[str, Any]:
    """Reads a tree and places answers in a process of its own, and returns what that measures."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-c",
        _USE,
        str(path),
        str(answers),
        *([] if placed is None else [str(placed)]),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--nodes", type=float, nargs="+", default=[1e4, 1e5, 1e6], help="sizes of the trees"
    )
    parser.add_argument(
        "--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), help="shapes of the trees"
    )
    parser.add_argument("--answers", type=int, default=5000, help="answers that are placed")
    parser.add_argument(
        "--placed", type=Path, help="folder for the placements, for comparison of two versions"
    )
    arguments = parser.parse_args()
    print("| shape | nodes | levels | read | learn | peak | kept | start | peak | mean |")
    print("| --- |" + " ---: |" * 9)
    for shape in arguments.shapes:
        for nodes in map(int, arguments.nodes):
            with tempfile.TemporaryDirectory() as name:
                measure(shape, nodes, Path(name), arguments)


def measure(shape: str, nodes: int, folder: Path, arguments: argparse.Namespace) -> None:
    """Makes a tree and answers, has two processes use them, and prints a line of the table."""
    cache = folder / "cache"
    answers = folder / "answers.jsonl"
    tree = folder / "tree.csv"
    rng = random.Random(f"0 {shape} {nodes}")
    made = SHAPES[shape](nodes, rng)
    write(made, tree)
    texts = made_answers(made, arguments.answers, rng)
    answers.write_text("".join(f"{json.dumps(text)}\n" for text in texts), encoding="utf-8")
    del made
    first = use(
        tree, answers, cache, arguments.placed and arguments.placed / f"{shape}-{nodes}.json"
    )
    kept = sum(file.stat().st_size for file in cache.rglob("*") if file.is_file()) / 2**20
    again = use(tree, answers, cache)
    columns = [
        shape,
        f"{nodes:,}",
        str(first["height"]),
        f"{first['read']:.1f}",
        f"{first['learn']:.1f}",
    ]
    columns += [
        f"{first['peak']:,.0f}",
        f"{kept:,.0f}",
        f"{again['start']:.1f}",
    ]
    columns += [f"{again['peak']:,.0f}", f"{again['mean']:.2f}"]
    print(f"| {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
