"""Where Algorithm 1 as paper 1 lists it (`paper-listing`) and as it describes it (`paper-prose`) part, on real answers.

    python benchmarks/presets.py ../shared/data [--sentence MODEL]

For every set of answers and each similarity it prints what decides (a name in the answer, shared n-grams, votes, the
nearest node), on how many answers the presets differ, and hP, hR and hF of both where the answer's node or the photo's
label is known. `x10` and `x100` are the same with thresholds so many times the paper's. Each guess of a list is an
answer.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from taxtune.errors import TaxtuneError
from taxtune.mapping import Mapper, MapperConfig, Similarity, Stage, make_similarity
from taxtune.mapping.config import PAPER_PRESETS
from taxtune.mapping.paper import PaperAlgorithm, top_k
from taxtune.metrics.hierarchical import score
from taxtune.metrics.registry import make_measure
from taxtune.studies.mapping.scorers import MeasureSimilarity
from taxtune.taxonomy import Taxonomy, read_taxonomy

INAT, IMAGENET = "inat21/inat2021-categories.csv", "imagenet/simple_imagenet_hierarchy_with_labels.json"
#: The tree that the answers of a domain are placed on; those of other domains have none.
TREES = {
    "bird200": INAT,
    "flower102": INAT,
    "car196": "trees/vehicles.csv",
    "aircraft": "trees/vehicles.csv",
    "dog120": IMAGENET,
    "pet37": IMAGENET,
    "pets": IMAGENET,
}
FACTORS = (1, 10, 100)
_BATCH = 64


@dataclass(frozen=True)
class Answers:
    """Answers on one tree, with the node of each, as a name or a path; None where it is not known."""

    name: str
    tree: str
    texts: list[str]
    nodes: list[Any]


def real_answers(data: Path) -> Iterator[Answers]:
    """Yields the sets of answers in the folder, by file, domain and tree."""
    found: dict[tuple[str, str], list[tuple[str, Any]]] = {}
    for file in sorted((data / "answers").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if "tree" in row:
                name, tree = f"{file.stem} {row['tree']}", f"trees/{row['tree']}"
            elif "domain" in row:
                name, tree = f"{file.stem} {row['domain']}", TREES.get(row["domain"], "")
            else:
                name, tree = file.stem, INAT
            placed = row.get("node", row.get("label", row.get("gold_path") or row.get("gold")))
            texts = row["answer"] if isinstance(row["answer"], list) else [row["answer"]]
            if "node" in row and placed is None:
                placed = "ROOT"
            if tree:
                found.setdefault((name, tree), []).extend((str(text), placed) for text in texts)
    for (name, tree), rows in found.items():
        yield Answers(name, tree, [text for text, _ in rows], [node for _, node in rows])


def target(tree: Taxonomy, node: Any) -> int | None:
    """Returns a node by its name or path, or None where there is no such node, or several."""
    if node is None or node == "ROOT":
        return None if node is None else tree.root
    try:
        if isinstance(node, list):
            return tree.resolve(node[-1])
        return tree.resolve(node.split("/") if "/" in node else node.replace("_", " "))
    except TaxtuneError:
        return None


def similarities(sentence: str | None) -> dict[str, Similarity]:
    found: dict[str, Similarity] = {"lexical": make_similarity("lexical")}
    found["rouge-1"] = MeasureSimilarity(make_measure("rouge-1"))
    if sentence:
        found["sentence"] = make_similarity(f"sentence:{sentence}")
    return found


def parted(tree: Taxonomy, similarity: Similarity, answers: Sequence[Answers]) -> Iterator[tuple[str, int, str]]:
    """Yields a line for each set of answers and each factor."""
    config = MapperConfig(preset=PAPER_PRESETS[0])
    configs = [
        replace(config, preset=preset, thr_top2=config.thr_top2 * factor, thr_topk=config.thr_topk * factor)
        for factor in FACTORS
        for preset in PAPER_PRESETS
    ]
    mapper, algorithm = Mapper(tree, similarity, config), PaperAlgorithm(tree, config)
    texts = sorted({text for one in answers for text in one.texts if any(map(str.isalnum, text))})
    found: dict[str, list[tuple[int, Stage]]] = {text: [] for text in texts}
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        for text, row in zip(batch, mapper.node_scores(batch), strict=True):
            for algorithm.config in configs:
                found[text].append(algorithm.place(text, row, top_k(row, config.k)))
    for one in answers:
        targets = [target(tree, node) for node in one.nodes]
        kept = [(found[text], t) for text, t in zip(one.texts, targets, strict=True) if text in found]
        for i, factor in enumerate(FACTORS):
            pairs = [(places[2 * i], places[2 * i + 1]) for places, _ in kept]
            decided = Counter(stage for _, (_, stage) in pairs)
            known = [j for j, (_, t) in enumerate(kept) if t is not None]
            gold = np.array([kept[j][1] for j in known], dtype=np.int64)
            scores = [
                score(tree, np.array([pairs[j][k][0] for j in known], dtype=np.int64), gold) if known else None
                for k in (0, 1)
            ]
            cells = [
                f"{len(pairs):6}",
                *(f"{decided[stage]:6}" for stage in (Stage.VERBATIM, Stage.NGRAM, Stage.VOTE, Stage.SIMILARITY)),
                f"{sum(a[0] != b[0] for a, b in pairs):6}",
                f"{len(known):6}",
                *("     –     –     –" if s is None else f" {s.hp:.3f} {s.hr:.3f} {s.hf:.3f}" for s in scores),
            ]
            yield one.name, factor, " ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with answers, trees and taxonomies")
    parser.add_argument("--sentence", help="a sentence-transformers model by name or folder")
    arguments = parser.parse_args()
    sets = list(real_answers(arguments.data))
    heads = ("n", "name", "ngram", "vote", "near", "differ", "known")
    print(f"{'':44} {'':4} " + " ".join(f"{head:>6}" for head in heads) + "  listing hP hR hF    prose hP hR hF")
    for name, similarity in similarities(arguments.sentence).items():
        print(name)
        for tree in dict.fromkeys(one.tree for one in sets):
            taxonomy = read_taxonomy(arguments.data / tree)
            for what, factor, cells in parted(taxonomy, similarity, [one for one in sets if one.tree == tree]):
                print(f"  {what:42} x{factor:<3} {cells}", flush=True)


if __name__ == "__main__":
    main()
