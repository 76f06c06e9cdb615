"""What pairs, answers and images cost by the million: seconds, and the peak memory of a process of its own.

Run `python benchmarks/scale.py` for small sizes, `--full` for those in docs/performance.md (some minutes, 6 GB of disk
for the images), and `--only pairs`, `answers` or `images` for a part. Trees, answers and images are made.

- pairs: hP and hR of pairs of nodes, beside a comparison of the two lineages level by level, with the same values;
- answers: `taxtune place --json` of a file, in one process;
- images: `load_examples` and `split` of a folder with 100 labels, and the same again once the hashes are on the disk.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.data import load_examples, split
from taxtune.metrics import precision_recall
from taxtune.taxonomy import Taxonomy

IntArray = NDArray[np.int64]

SYLLABLES = (
    "ba",
    "co",
    "di",
    "fe",
    "gu",
    "la",
    "mo",
    "ni",
    "pe",
    "ra",
    "so",
    "tu",
    "va",
    "xi",
    "zo",
    "ker",
    "lin",
)
SAID = (
    "{}",
    "A: {}.",
    "It looks like a {}, I think.",
    "{} or {}",
    "The image shows a {} on a branch.",
    "- {}",
    "?",
)
LABELS = 100


def made_tree(nodes: int, seed: int, names: bool = False) -> Taxonomy:
    """A tree of random attachment, whose height is about e ln(nodes).

    With made words as labels, or with numbers.
    """
    rng = np.random.default_rng(seed)
    parents = np.full(nodes, -1, dtype=np.int64)
    parents[1:] = (rng.random(nodes - 1) * np.arange(1, nodes)).astype(np.int64)
    if not names:
        return Taxonomy([str(i) for i in range(nodes)], parents)
    drawn = rng.integers(0, len(SYLLABLES), (nodes, 4)).tolist()
    labels = ["".join(SYLLABLES[i] for i in some) for some in drawn]
    return Taxonomy([f"{label} {i:x}" if i else "life" for i, label in enumerate(labels)], parents)


# -- what is measured, each in a process of its own ------------------------------------------------


def pairs(nodes: int, n: int) -> dict[str, Any]:
    """HP and hR of n pairs on a tree, now and level by level."""
    tree = made_tree(nodes, seed=0)
    rng = np.random.default_rng(1)
    target = rng.choice(tree.leaves, n)
    # A third is right, a third a node above the target, a third elsewhere.
    above = tree.lineage[target, rng.integers(0, tree.depth[target] + 1)]
    kind = rng.integers(0, 3, n)
    predicted: IntArray = np.choose(kind, [target, above, rng.integers(0, nodes, n)]).astype(
        np.int64
    )
    first, _ = timed(
        lambda: precision_recall(tree, predicted[:100], target[:100]), time.process_time
    )
    before = peak()
    seconds, (hp, hr) = timed(lambda: precision_recall(tree, predicted, target), time.process_time)
    memory = peak() - before
    levels = np.ascontiguousarray(tree.lineage.T[1:], dtype=np.int32)
    by_level, (other_hp, other_hr) = timed(
        lambda: level_by_level(tree, levels, predicted, target), time.process_time
    )
    assert (hp == other_hp).all(), "hP differs"
    assert (hr == other_hr).all(), "hR differs"
    return {
        "nodes": nodes,
        "height": tree.height,
        "pairs": n,
        "first call, s": first,
        "hP and hR, s": seconds,
        "level by level, s": by_level,
        "more memory, MB": memory,
    }


def level_by_level(
    tree: Taxonomy, levels: NDArray[np.int32], predicted: IntArray, target: IntArray
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The comparison of lineages: two look-ups for each level of the tree."""
    shared = np.ones(len(predicted), dtype=np.int64)
    for level in levels:
        above = level[predicted]
        shared += (above == level[target]) & (above >= 0)
    return shared / (tree.depth[predicted] + 1), shared / (tree.depth[target] + 1)


def answers(folder: Path, n: int) -> dict[str, Any]:
    """`taxtune place` of a file of n answers."""
    from taxtune.cli import main

    tree = folder / "tree.csv"
    file = folder / f"{n}.txt"
    out = folder / f"{n}.jsonl"
    sys.argv = ["taxtune", "place", "-t", str(tree), str(file), "--json"]
    start = time.perf_counter(), time.process_time()
    with (
        out.open("w", encoding="utf-8") as written,
        redirect_stdout(written),
        redirect_stderr(io.StringIO()) as said,
    ):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(said.getvalue()) from end
    seconds = time.perf_counter() - start[0]
    cpu = time.process_time() - start[1]
    with out.open("rb") as placed:
        digest = hashlib.file_digest(placed, "sha256").hexdigest()
    out.unlink()
    with file.open(encoding="utf-8") as lines:
        distinct = len(set(lines))
    return {
        "answers": n,
        "distinct": distinct,
        "seconds": seconds,
        "CPU, s": cpu,
        "peak, MB": peak(),
        "digest": digest,
    }


def write_answers(folder: Path, nodes: int, sizes: Sequence[int]) -> None:
    """Writes the tree, and files of answers in which some names are far more common than others."""
    tree = made_tree(nodes, seed=0, names=True)
    paths = ("/".join(tree.path(i)) for i in range(len(tree)))
    (folder / "tree.csv").write_text("path\n" + "\n".join(paths) + "\n", encoding="utf-8")
    rng = np.random.default_rng(1)
    for n in sizes:
        said = rng.integers(0, len(SAID), n)
        named = np.stack([rng.zipf(1.3, n) % nodes, rng.integers(0, nodes, n)], axis=1)
        with (folder / f"{n}.txt").open("w", encoding="utf-8") as file:
            for form, (first, second) in zip(said.tolist(), named.tolist(), strict=True):
                file.write(SAID[form].format(tree.labels[first], tree.labels[second]) + "\n")


def images(folder: Path, n: int) -> dict[str, Any]:
    """`load_examples` and `split` of n images."""
    from PIL import Image  # what an image is read with is no part of what a million of them takes

    assert Image
    tree = Taxonomy(["root", *(f"label {i}" for i in range(LABELS))], [-1, *[0] * LABELS])
    before = peak()
    loading, found = timed(lambda: load_examples(folder / str(n), tree))
    splitting, drawn = timed(lambda: split(found, tuning=20, heldout=200, seed=0))
    said = repr([(example.id, example.sha256) for example in (*drawn.tuning, *drawn.heldout)])
    return {
        "images": n,
        "load, s": loading,
        "split, s": splitting,
        "peak, MB": peak(),
        "bytes per image": (peak() - before) * 2**20 / n,
        "digest": hashlib.sha256(said.encode()).hexdigest(),
    }


def write_images(folder: Path, n: int) -> None:
    """Writes n PNG files of 12 x 8 pixels and some 80 bytes, each of its own content."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    for i in range(LABELS):
        (folder / str(n) / f"label {i}").mkdir(parents=True)
    header = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 12, 8, 8, 0, 0, 0, 0))
    for i in range(n):
        row = b"\0" + struct.pack(">Q", i) + bytes(4)
        data = header + chunk(b"IDAT", zlib.compress(row * 8, 1)) + chunk(b"IEND", b"")
        (folder / str(n) / f"label {i % LABELS}" / f"{i:07}.png").write_bytes(data)


def timed(
    function: Callable[[], Any], clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Any]:
    """Returns the seconds that a function takes, and what it returns."""
    start = clock()
    result = function()
    return clock() - start, result


def peak() -> float:
    """The most memory that this process has taken so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 if sys.platform != "darwin" else 2**20
    )


# -- tables ----------------------------------------------------------------------------------------


def measured(part: str, *arguments: object, cache: Path | None = None) -> dict[str, Any]:
    """Returns the measurements of a part in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} | (
        {} if cache is None else {"XDG_CACHE_HOME": str(cache)}
    )
    command = [sys.executable, __file__, "--measure", part, *map(str, arguments)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Prints rows as a Markdown table."""
    names = [name for name in rows[0] if name != "digest"]
    print(f"\n{title}\n\n| {' | '.join(names)} |\n|{'---:|' * len(names)}")
    for row in rows:
        print("| " + " | ".join(_cell(row[name]) for name in names) + " |")


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:,.2f}"
        if value < 10
        else f"{value:,.0f}"
    )  # type: ignore[operator]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--full", action="store_true", help="up to ten million pairs, a million answers and images"
    )
    parser.add_argument("--only", choices=("pairs", "answers", "images"))
    parser.add_argument("--tiny", action="store_true", help="sizes for a test")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        part, *given = arguments.measure
        if part == "pairs":
            found = pairs(*map(int, given))
        elif part == "answers":
            found = answers(Path(given[0]), int(given[1]))
        else:
            found = images(Path(given[0]), int(given[1]))
        print(json.dumps(found))
        return
    size = "tiny" if arguments.tiny else "full" if arguments.full else "small"
    if arguments.only in (None, "pairs"):
        made = {
            "tiny": [(1_000, 10_000)],
            "small": [(10_000, 10**6), (10**6, 10**6), (10**6, 10**7)],
            "full": [
                (10_000, 10**6),
                (10_000, 10**7),
                (10**5, 10**7),
                (10**6, 10**6),
                (10**6, 10**7),
            ],
        }
        show(
            "hP and hR of pairs, in seconds of one processor; identical values",
            [measured("pairs", *each) for each in made[size]],
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.only in (None, "answers"):
            sizes = {"tiny": [2_000], "small": [10_000, 50_000], "full": [10**4, 10**5, 10**6]}[
                size
            ]
            write_answers(folder, {"tiny": 200}.get(size, 10_000), sizes)
            show("taxtune place", [measured("answers", folder, n, cache=folder) for n in sizes])
        if arguments.only in (None, "images"):
            for n in {"tiny": [1_200], "small": [2_000, 20_000], "full": [10**4, 10**5, 10**6]}[
                size
            ]:
                write_images(folder, n)
                show("A folder of images", [measured("images", folder, n, cache=folder)])


if __name__ == "__main__":
    main()
