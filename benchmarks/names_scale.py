"""What it costs to weigh the names of a tree of 10,000 leaves: nodes of the prefix tree read per image, milliseconds.

Run `python benchmarks/names_scale.py`. The field guide's model weighs its own names beside invented ones, which are of
one to four words and of several tokens each; a model with random weights weighs the same ones, and spreads its
probability evenly, as no trained model does.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.random_vlms import write_checkpoint
from taxtune.data import content_hash
from taxtune.fieldguide import MANIFEST_FILE, TAXONOMY_FILE
from taxtune.models import Answer, ModelSettings, Reply, Request
from taxtune.models.base import OTHERWISE, Candidates
from taxtune.models.vision import LocalVLM
from taxtune.taxonomy import read_taxonomy

LEAVES = 10_000
IMAGES = 100
SAMPLES = 8
PROMPT = "What bird is this?"


def invented(count: int, seed: int = 0) -> list[str]:
    """Makes names such as "great spotted Vamoti shrike", each once."""
    rng = random.Random(seed)
    syllables = [c + v for c in "bcdfghklmnprstvz" for v in "aeiou"]
    first = [
        "grey",
        "great",
        "lesser",
        "white",
        "black",
        "common",
        "red",
        "eastern",
        "pied",
        "spotted",
        "blue",
        "tiny",
    ]
    kinds = [
        "owl",
        "heron",
        "tit",
        "finch",
        "duck",
        "tern",
        "gull",
        "shrike",
        "eagle",
        "wader",
        "lark",
        "warbler",
    ]
    names: dict[str, None] = {}
    while len(names) < count:
        own = "".join(rng.choices(syllables, k=rng.randint(2, 4))).capitalize()
        words = [*rng.sample(first, rng.randint(0, 2)), own, *rng.sample(kinds, rng.randint(0, 1))]
        names[" ".join(words)] = None
    return [*names]


def timed(model: LocalVLM, requests: Sequence[Request]) -> tuple[list[Reply], float]:
    """Returns replies, and milliseconds per image.

    Images are encoded and names are tokenized before.
    """
    model.answer(requests)
    started = time.perf_counter()
    replies = model.answer(requests)
    return replies, (time.perf_counter() - started) * 1000 / len(
        {request.image for request in requests}
    )


def measure(
    title: str, name: str, requests: Sequence[Request], names: Sequence[str], broader: Sequence[str]
) -> None:
    """Prints what answers, self-consistency and probabilities cost."""
    settings = ModelSettings(device="cpu", max_tokens=16)
    model = LocalVLM(name, settings)
    drawing = LocalVLM(name, replace(settings, temperature=1.0))
    plain, took = timed(model, requests)
    _, votes = timed(
        drawing, [replace(request, sample=i) for request in requests for i in range(SAMPLES)]
    )
    if title.startswith("random"):  # its answers hold no name: words of them become names
        found = [
            re.findall(r"[a-zA-Z]+", reply.text) for reply in plain if isinstance(reply, Answer)
        ]
        names = [*{min(words, key=len): None for words in found if words}, *names]
    candidates = Candidates(tuple(names), tuple(broader))
    reads: list[int] = []
    read = model._first_logits
    model._first_logits = lambda inputs: reads.append(len(inputs["input_ids"])) or read(inputs)  # type: ignore
    started = time.perf_counter()
    model.answer([replace(requests[0], candidates=candidates)])
    first = time.perf_counter() - started
    each = []
    for request in requests:
        reads.clear()
        model.answer([replace(request, candidates=candidates)])
        each.append(sum(reads))
    replies, scored = timed(
        model, [replace(request, candidates=candidates) for request in requests]
    )
    known = [reply.outcomes for reply in replies if isinstance(reply, Answer) and reply.outcomes]
    named = [outcomes for outcomes in known if set(outcomes) != {OTHERWISE}]
    print(
        f"{title}: {len(candidates.names):,} names, {len(named)} of {len(requests)} answers with one"
    )
    print(f"  nodes read per image: {statistics.mean(each):.1f} on average, {max(each)} at most")
    print(f"  outcomes per answer: {statistics.median(map(len, named or [{}])):.0f} in the middle")
    print(
        f"  ms per image: plain {took:.1f}, weighed {scored:.1f}, self-consistency of {SAMPLES} {votes:.1f}"
    )
    print(f"  names tokenized, with the first image, in {first:.1f} s", flush=True)


def main() -> None:
    """Measures both models."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    tree = read_taxonomy(TAXONOMY_FILE, names=False)
    leaves = {int(leaf) for leaf in tree.leaves}
    own, broader = (
        [
            name
            for node in range(len(tree.labels))
            if (node in leaves) == is_leaf
            for name in tree.names(node)
        ]
        for is_leaf in (True, False)
    )
    with MANIFEST_FILE.open(encoding="utf-8", newline="") as stream:
        files = [MANIFEST_FILE.parent / row["image"] for row in csv.DictReader(stream)][:IMAGES]
    requests = [Request(PROMPT, file, content_hash(file)) for file in files]
    names = [*dict.fromkeys([*own, *invented(LEAVES)])]
    measure("field guide", "builtin:fieldguide", requests, names, broader)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = write_checkpoint("llava", Path(folder) / "llava", only_words=True)
        measure("random, flat", str(checkpoint), requests[: IMAGES // 5], names, broader)


if __name__ == "__main__":
    main()
