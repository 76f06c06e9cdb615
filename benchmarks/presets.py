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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from taxtune.errors import TaxtuneError
from taxtune.mapping import Mapper, MapperConfig, Similarity, Stage, make_similarity
from taxtune.mapping.config import PAPER_PRESETS
from taxtune.mapping.paper import PaperAlgorithm, top_k
from taxtune.metrics.hierarchical import harmonic_mean, precision_recall
from taxtune.metrics.registry import make_measure
from taxtune.studies.scorers import MeasureSimilarity
from taxtune.taxonomy import Taxonomy, read_taxonomy

INAT = "inat21/inat2021-categories.csv"
IMAGENET = "imagenet/simple_imagenet_hierarchy_with_labels.json"
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
STAGES = (Stage.VERBATIM, Stage.NGRAM, Stage.VOTE, Stage.SIMILARITY)
_BATCH = 64


def read_tree(path: Path) -> Taxonomy:
    """Reads a tree; ImageNet's is a JSON of synsets with the ids of their parents."""
    if path.suffix != ".json":
        return read_taxonomy(path)
    synsets = json.loads(path.read_text("utf-8"))
    return Taxonomy.from_edges(
        [(key, synset.get("parent_id")) for key, synset in synsets.items()],
        labels={key: synset["name"] for key, synset in synsets.items()},
        aliases={
            key: [*synset.get("labels", ()), *synset.get("lemmas", ())]
            for key, synset in synsets.items()
        },
    )


@dataclass(frozen=True)
class Answer:
    """A text, the file and the tree that it belongs to, and its node as a name or a path, or None."""

    file: str
    tree: str
    text: str
    node: Any


@dataclass
class Tally:
    """What became of the answers of a file.

    Attributes:
        stages: How many answers each stage of the prose decided.
        differ: On how many the presets differ.
        scores: hP and hR under the listing, then under the prose, of each answer whose node is
            known.
    """

    stages: Counter[Stage] = field(default_factory=Counter)
    differ: int = 0
    scores: list[tuple[float, ...]] = field(default_factory=list)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.stages + other.stages, self.differ + other.differ, self.scores + other.scores
        )

    def __str__(self) -> str:
        counts = (
            self.stages.total(),
            *(self.stages[stage] for stage in STAGES),
            self.differ,
            len(self.scores),
        )
        hp, hr, prose_hp, prose_hr = (
            np.mean(self.scores, axis=0) if self.scores else (float("nan"),) * 4
        )
        shown = (
            hp,
            hr,
            harmonic_mean(hp, hr),
            prose_hp,
            prose_hr,
            harmonic_mean(prose_hp, prose_hr),
        )
        return " ".join(
            [*(f"{count:7,}" for count in counts), *(f"{value:6.3f}" for value in shown)]
        )


def real_answers(data: Path) -> Iterator[Answer]:
    """Yields the answers in the folder that a tree is there for."""
    for file in sorted((data / "answers").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            tree = (
                f"trees/{row['tree']}"
                if "tree" in row
                else TREES.get(row["domain"])
                if "domain" in row
                else INAT
            )
            node = row.get("node", row.get("label", row.get("gold_path") or row.get("gold")))
            node = (
                [] if "node" in row and node is None else node
            )  # placed by hand, on nothing: the root
            for text in row["answer"] if isinstance(row["answer"], list) else [row["answer"]]:
                if tree and any(map(str.isalnum, str(text))):
                    yield Answer(file.stem, tree, str(text), node)


def target(tree: Taxonomy, node: Any) -> int | None:
    """Returns a node by its name or path, or None where there is no such node, or several."""
    try:
        match node:
            case None:
                return None
            case []:
                return tree.root
            case [*_, last]:
                return tree.resolve(last)
        return tree.resolve(node.split("/") if "/" in node else node.replace("_", " "))
    except TaxtuneError:
        return None


def similarities(sentence: str | None) -> Iterator[tuple[str, Similarity]]:
    yield "lexical", make_similarity("lexical")
    yield "rouge-1", MeasureSimilarity(make_measure("rouge-1"))
    if sentence:
        yield "sentence", make_similarity(f"sentence:{sentence}")


def tally(
    tree: Taxonomy, similarity: Similarity, answers: Sequence[Answer]
) -> dict[tuple[str, int], Tally]:
    """Returns counts of placements on one tree, by file and factor."""
    config = MapperConfig(preset=PAPER_PRESETS[0])
    configs = [
        replace(
            config,
            preset=preset,
            thr_top2=config.thr_top2 * factor,
            thr_topk=config.thr_topk * factor,
        )
        for factor in FACTORS
        for preset in PAPER_PRESETS
    ]
    mapper = Mapper(tree, similarity, config)
    algorithm = PaperAlgorithm(tree, config)
    texts = sorted({answer.text for answer in answers})
    found: dict[str, list[tuple[int, Stage]]] = {text: [] for text in texts}
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        for text, row in zip(batch, mapper.node_scores(batch), strict=True):
            for algorithm.config in configs:
                found[text].append(algorithm.place(text, row, top_k(row, config.k)))
    tallies: dict[tuple[str, int], Tally] = {}
    golds = {}
    for node in {str(answer.node): answer.node for answer in answers}.values():
        golds[str(node)] = target(tree, node)
    for answer in answers:
        gold = golds[str(answer.node)]
        for i, factor in enumerate(FACTORS):
            (listing, _), (prose, stage) = found[answer.text][2 * i : 2 * i + 2]
            one = tallies.setdefault((answer.file, factor), Tally())
            one.stages[stage] += 1
            one.differ += listing != prose
            if gold is not None:
                hp, hr = precision_recall(tree, [listing, prose], [gold, gold])
                one.scores.append((hp[0], hr[0], hp[1], hr[1]))
    return tallies


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the folder with answers, trees and taxonomies")
    parser.add_argument("--sentence", help="a sentence-transformers model by name or folder")
    arguments = parser.parse_args()
    answers = list(real_answers(arguments.data))
    trees = {
        name: read_tree(arguments.data / name)
        for name in dict.fromkeys(answer.tree for answer in answers)
    }
    heads = ("n", "name", "n-gram", "vote", "nearest", "differ", "known")
    print(
        f"{'':32}"
        + " ".join(f"{head:>7}" for head in heads)
        + "  listing hP hR hF     prose hP hR hF"
    )
    for name, similarity in similarities(arguments.sentence):
        found: dict[tuple[str, int], Tally] = {}
        for file, tree in trees.items():
            here = tally(tree, similarity, [answer for answer in answers if answer.tree == file])
            for (what, factor), one in here.items():
                for key in ((what, factor), ("all", factor)):
                    found[key] = found.get(key, Tally()) + one
        print(name)
        for (what, factor), one in sorted(found.items()):
            print(f"  {what:24} x{factor:<4}{one}", flush=True)


if __name__ == "__main__":
    main()
