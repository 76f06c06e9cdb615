"""Measures the embedded model on freshly drawn birds: `python -m fieldguide.measure`.

Asks every image with prompts of different carefulness, through the same path as any other run (data
set, local VLM, mapper, hP and hR), and prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fieldguide.phrasing import BASELINE, held_out_prompts
from taxtune.errors import TaxtuneError

__all__ = ["PROMPTS", "Row", "main", "measure"]

#: Prompts of different carefulness, as a user might write them.
PROMPTS: dict[str, str] = {
    "specific": (
        "Which species of bird is this? Always name the exact species, even if you have to guess. "
        "Answer in the format 'A: <answer>.'"
    ),
    "baseline": BASELINE,
    "somewhat careful": "What bird is this? Be careful. Answer in the format 'A: <answer>.'",
    "cautious": (
        "What bird is this? If you are not sure of the species, name the broader group it belongs to. "
        "A wrong name is worse than a general one. Answer in the format 'A: <answer>.'"
    ),
    "very cautious": (
        "What bird is this? Name the species only if you are absolutely sure, otherwise give the family. "
        "Be very careful and do not guess. Answer in the format 'A: <answer>.'"
    ),
    "family": "What bird is this? Give only the family. Answer in the format 'A: <answer>.'",
    "order": "What bird is this? Give only the order. Answer in the format 'A: <answer>.'",
}


@dataclass(frozen=True, slots=True)
class Row:
    """The scores of one prompt.

    Attributes:
        kind: What the prompt asks for.
        prompt: Its text.
        hp: Hierarchical precision.
        hr: Hierarchical recall.
        accuracy: Share of answers placed on the very species.
        depth: Mean depth of the placements: 0 for "bird", 3 for a species.
        hp_clear: hP on the clear images alone.
        hp_degraded: hP on the degraded images alone.
        accuracy_clear: Accuracy on the clear images alone.
        accuracy_degraded: Accuracy on the degraded images alone.
        depth_clear: Mean depth on the clear images alone.
        depth_degraded: Mean depth on the degraded images alone.
        seconds: Seconds that the answers took.
        answers: The answers, in the order of the manifest.
    """

    kind: str
    prompt: str
    hp: float
    hr: float
    accuracy: float
    depth: float
    hp_clear: float
    hp_degraded: float
    accuracy_clear: float
    accuracy_degraded: float
    depth_clear: float
    depth_degraded: float
    seconds: float
    answers: tuple[str, ...]


def measure(
    dataset: Path,
    prompts: Mapping[str, str],
    *,
    model: str = "builtin:fieldguide",
    batch_size: int = 20,
) -> list[Row]:
    """Asks every image of a field guide with every prompt and scores the answers.

    Args:
        dataset: A folder that `make_dataset` wrote.
        prompts: The prompts by what they ask for.
        model: The model, as `LocalVLM` takes it.
        batch_size: Images asked at a time.

    Returns:
        One row a prompt.

    Raises:
        TaxtuneError: If the data set or the model cannot be read, or a question is left unanswered.
    """
    import csv

    from taxtune.data import load_examples
    from taxtune.mapping import Mapper, Placement
    from taxtune.metrics import score
    from taxtune.models import Answer, ModelSettings, Request, make_model
    from taxtune.taxonomy import read_taxonomy

    taxonomy = read_taxonomy(dataset / "taxonomy.csv")
    examples = load_examples(dataset / "manifest.csv", taxonomy)
    with (dataset / "manifest.csv").open(newline="", encoding="utf-8") as stream:
        degraded_by_image = {
            row["image"]: row["degraded"] == "yes" for row in csv.DictReader(stream)
        }
    degraded = np.array([degraded_by_image[example.id] for example in examples])
    target = np.array([example.target for example in examples])
    mapper = Mapper(taxonomy)
    vlm = make_model(f"local:{model}", ModelSettings(batch_size=batch_size, max_tokens=24))
    placed: dict[str, Placement] = {}
    rows = []
    for kind, prompt in prompts.items():
        started = time.perf_counter()
        replies = vlm.answer(
            [Request(prompt, example.image, example.sha256) for example in examples]
        )
        seconds = time.perf_counter() - started
        answers = [reply.text if isinstance(reply, Answer) else "" for reply in replies]
        failures = [reply for reply in replies if not isinstance(reply, Answer)]
        if failures:
            raise TaxtuneError(f"{len(failures)} questions were not answered: {failures[0].reason}")
        new = sorted(set(answers) - placed.keys())
        placed |= dict(zip(new, mapper.place(new), strict=True))
        nodes = np.array([placed[answer].node for answer in answers])
        off = np.array([placed[answer].off_tree for answer in answers])
        depth = np.where(off, 1, taxonomy.depth[nodes])
        exact = (nodes == target) & ~off
        every = score(taxonomy, nodes, target, off_tree=off)
        parts = []
        for part in (~degraded, degraded):
            some = (
                score(taxonomy, nodes[part], target[part], off_tree=off[part])
                if part.any()
                else None
            )
            hp = float("nan") if some is None else some.hp
            parts.append((hp, _mean(exact[part]), _mean(depth[part])))
        (hp_clear, right_clear, depth_clear), (hp_bad, right_bad, depth_bad) = parts
        rows.append(
            Row(
                kind=kind,
                prompt=prompt,
                hp=every.hp,
                hr=every.hr,
                accuracy=every.accuracy,
                depth=float(depth.mean()),
                hp_clear=hp_clear,
                hp_degraded=hp_bad,
                accuracy_clear=right_clear,
                accuracy_degraded=right_bad,
                depth_clear=depth_clear,
                depth_degraded=depth_bad,
                seconds=seconds,
                answers=tuple(answers),
            )
        )
    return rows


def _mean(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _table(rows: Sequence[Row]) -> str:
    lines = [
        "| prompt | hP | hR | accuracy | depth | hP clear | hP degraded | accuracy clear | accuracy degraded | s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = [row.hp, row.hr, row.accuracy, row.depth, row.hp_clear, row.hp_degraded]
        cells += [row.accuracy_clear, row.accuracy_degraded]
        lines.append(
            f"| {row.kind} | "
            + " | ".join(f"{cell:.3f}" for cell in cells)
            + f" | {row.seconds:.1f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fieldguide.measure", description=__doc__)
    parser.add_argument(
        "--model", default="builtin:fieldguide", help="a model folder (default: the embedded one)"
    )
    parser.add_argument("--images", type=int, default=400, help="images to draw (default 400)")
    parser.add_argument("--seed", type=int, default=4711, help="seed of the images (default 4711)")
    parser.add_argument(
        "--held-out",
        action="store_true",
        help="also ask the phrasings that were kept out of training",
    )
    given = parser.parse_args(arguments)
    from fieldguide.draw import make_dataset

    prompts = dict(PROMPTS)
    if given.held_out:
        for kind, texts in held_out_prompts().items():
            prompts |= {f"held out: {kind} {i + 1}": text for i, text in enumerate(texts)}
    try:
        with tempfile.TemporaryDirectory() as folder:
            data = make_dataset(Path(folder) / "birds", n=given.images, seed=given.seed)
            print(_table(measure(data, prompts, model=given.model)))
    except TaxtuneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
