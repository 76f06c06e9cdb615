"""Records a landscape: what the field guide's model answers to every composition of a fragment file, on many images.

Run `python benchmarks/landscapes/record.py --out benchmarks/landscapes/fieldguide.npz`; it takes a quarter of an hour.
The images are drawn anew (`python -m fieldguide.draw`), with a seed that neither the model nor the images of the
package were made with. At the end some of the questions are asked again one by one, with the pixels, and compared.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fieldguide.draw import make_dataset
from taxtune.fieldguide import TAXONOMY_FILE
from taxtune.images import content_hash
from taxtune.mapping import Mapper, MapperConfig, Placement, make_similarity
from taxtune.models.base import Answer, ModelSettings, Reply, Request
from taxtune.models.vision import LocalVLM
from taxtune.recipe import load_recipe
from taxtune.taxonomy import read_taxonomy
from taxtune.tuning.proposers.fragments import Fragments, read_fragments
from taxtune.tuning.template import Template

FRAGMENTS = Path(__file__).resolve().parent / "fragments.yaml"
#: 1,280 images hold 601 degraded ones: enough for 800 images of which three quarters are.
IMAGES = 1280
SEED = 4242
DEGRADED = 0.5
_BATCH = 160


def compositions(fragments: Fragments) -> list[dict[str, str]]:
    """Returns the choice by slot of every composition."""
    return [fragments.parameters(number) for number in range(fragments.compositions)]


def record(
    images: Path, fragments: Fragments, *, templates: int | None = None, check: int = 40
) -> dict[str, Any]:
    """Asks every composition about every image.

    Args:
        images: A folder that `fieldguide.draw` wrote.
        fragments: What the templates are composed of; the field guide's baseline comes before them.
        templates: How many of the compositions, the first of them; all where left out.
        check: How many answers are asked again the ordinary way.

    Returns:
        The arrays of a landscape, by name (README.md).

    Raises:
        SystemExit: If an answer differs from the ordinary one.
    """
    recipe = load_recipe("fieldguide")
    variables = recipe.prompt.variables
    chosen = compositions(fragments)[:templates]
    sources = [recipe.prompt.baseline, *map(fragments.compose, chosen)]
    with (images / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    files = [images / row["image"] for row in rows]
    tree = read_taxonomy(TAXONOMY_FILE, names=False)
    mapper = Mapper(tree, make_similarity("lexical"), MapperConfig())
    model = LocalVLM(
        "builtin:fieldguide",
        ModelSettings(max_tokens=recipe.vlm.max_tokens, batch_size=_BATCH, device="cpu"),
    )
    contents = [content_hash(file) for file in files]
    placed: dict[str, Placement] = {}
    said: list[list[str]] = []
    for number, source in enumerate(sources):
        prompt = Template.parse(source).render(variables)
        replies = model.answer(
            [Request(prompt, file, content) for file, content in zip(files, contents, strict=True)]
        )
        said.append([_text(reply) for reply in replies])
        new = [text for text in dict.fromkeys(said[-1]) if text not in placed]
        placed.update(zip(new, mapper.place(new), strict=True))
        if number % 20 == 0:
            print(f"{number + 1} of {len(sources)} templates", file=sys.stderr, flush=True)
    _compare(
        model, files, [Template.parse(source).render(variables) for source in sources], said, check
    )
    return {
        "nodes": np.array(
            [[placed[text].node for text in texts] for texts in said], dtype=np.uint8
        ),
        "off_tree": np.array([[placed[text].off_tree for text in texts] for texts in said]),
        "targets": np.array([tree.resolve(row["label"]) for row in rows], dtype=np.uint8),
        "degraded": np.array([row["degraded"] == "yes" for row in rows]),
        "templates": np.array(sources),
        "parameters": np.array([json.dumps(each) for each in ({}, *chosen)]),
        "labels": np.array(tree.labels),
        "parents": tree.parents.astype(np.int16),
    }


def _text(reply: Reply) -> str:
    if not isinstance(reply, Answer):
        raise SystemExit(reply.reason)
    return reply.text


def _compare(
    model: LocalVLM,
    files: Sequence[Path],
    prompts: Sequence[str],
    said: Sequence[Sequence[str]],
    check: int,
) -> None:
    """Asks some of the prompts about some of the images one by one, with the pixels."""
    rng = np.random.default_rng(0)
    pairs = list(
        zip(
            rng.integers(len(prompts), size=check),
            rng.integers(len(files), size=check),
            strict=True,
        )
    )
    plain = LocalVLM(model.model, replace(model.settings, batch_size=1, image_memory_gib=0.0))
    replies = plain.answer([Request(prompts[t], files[i]) for t, i in pairs])
    for (t, i), reply in zip(pairs, replies, strict=True):
        if not isinstance(reply, Answer) or reply.text != said[t][i]:
            raise SystemExit(
                f"{files[i]}, {prompts[t]!r}: {said[t][i]!r}, but the ordinary way {reply}"
            )
    print(f"{check} answers are the same when asked the ordinary way", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the file to write (.npz)")
    parser.add_argument("--fragments", default=str(FRAGMENTS), help="the fragment file")
    parser.add_argument(
        "--images", type=int, default=IMAGES, help="images to draw (default %(default)s)"
    )
    parser.add_argument(
        "--templates", type=int, help="compositions to ask, the first of them (default: all)"
    )
    parser.add_argument("--drawn", type=Path, help="a folder with images that were drawn before")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = given.drawn or make_dataset(
            Path(name) / "images", n=given.images, seed=SEED, degraded=DEGRADED
        )
        arrays = record(folder, read_fragments(given.fragments), templates=given.templates)
    np.savez_compressed(given.out, **arrays)
    print(f"{arrays['nodes'].shape[0]} templates × {arrays['nodes'].shape[1]} images: {given.out}")


if __name__ == "__main__":
    main()
