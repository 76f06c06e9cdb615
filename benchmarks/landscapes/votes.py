"""Records votes: several answers at a temperature to each of some templates about the same images.

Run `python benchmarks/landscapes/votes.py --first 16 --out benchmarks/landscapes/votes.npz`; it
takes some minutes. The images are those of the landscape (`record.py`), drawn anew, and the
templates are its baseline and others of its templates, chosen at random. `--model local:FOLDER`
asks another model than the embedded one (`votes-long.npz`). `--shipped --templates 0 --samples 16
--out benchmarks/landscapes/votes-shipped.npz` asks the baseline about the images of the package;
`--temperature 0.5` and others went into files that are named after them.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from record import DEGRADED, IMAGES, SEED, _text

from fieldguide.draw import make_dataset
from taxtune.fieldguide import MANIFEST_FILE, TAXONOMY_FILE
from taxtune.images import content_hash
from taxtune.mapping import Mapper, MapperConfig, make_similarity
from taxtune.models import ModelSettings, Request, make_model
from taxtune.recipe import load_recipe
from taxtune.taxonomy import read_taxonomy
from taxtune.tuning.template import Template

LANDSCAPE = Path(__file__).resolve().parent / "fieldguide.npz"


def record(
    images: Path,
    *,
    templates: int,
    samples: int,
    first: int | None = None,
    temperature: float = 1.0,
    model: str = "builtin:fieldguide",
) -> dict[str, Any]:
    """Asks templates about every image, several times each.

    Args:
        images: A folder that `fieldguide.draw` wrote.
        templates: How many of the landscape's templates to ask, drawn at random, besides its
            baseline.
        samples: Answers per image and template.
        first: Answers per image of the baseline, which is the first template; as many as of the
            others if left out.
        temperature: The temperature at which they are drawn.
        model: The model, as a recipe names it.

    Returns:
        The arrays by name: `nodes`, shape (answers in all, images), the node of each answer, the
        root for one off the tree; `template` (its number in the landscape) and `sample`, which say
        what each row is an answer to; `targets`, `degraded`; `templates`, the sources in the order
        of their numbers; `temperature`.
    """
    recipe = load_recipe("fieldguide")
    variables = recipe.prompt.variables
    every = np.load(LANDSCAPE)["templates"]
    others = np.sort(
        np.random.default_rng(0).choice(np.arange(1, len(every)), templates, replace=False)
    )
    chosen = np.array([0, *others])
    sources = every[chosen].tolist()
    with (images / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    tree = read_taxonomy(TAXONOMY_FILE, names=False)
    mapper = Mapper(tree, make_similarity("lexical"), MapperConfig())
    settings = ModelSettings(
        max_tokens=recipe.vlm.max_tokens, temperature=temperature, batch_size=160, device="cpu"
    )
    asked = make_model(model, settings)
    files = [images / row["image"] for row in rows]
    contents = [content_hash(file) for file in files]
    placed: dict[str, int] = {}
    nodes = []
    which = []
    number = []
    for t, source in enumerate(sources):
        prompt = Template.parse(source).render(variables)
        for sample in range(first or samples if t == 0 else samples):
            each = [
                Request(prompt, file, content, sample)
                for file, content in zip(files, contents, strict=True)
            ]
            texts = [_text(reply) for reply in asked.answer(each)]
            new = [text for text in dict.fromkeys(texts) if text not in placed]
            for text, found in zip(new, mapper.place(new), strict=True):
                placed[text] = tree.root if found.off_tree else found.node
            nodes.append([placed[text] for text in texts])
            which.append(chosen[t])
            number.append(sample)
        print(
            f"{t + 1} of {len(sources)} templates, {len(placed):,} different answers",
            file=sys.stderr,
            flush=True,
        )
    return {
        "nodes": np.array(nodes, dtype=np.uint8),
        "template": np.array(which, dtype=np.int16),
        "sample": np.array(number, dtype=np.uint8),
        "targets": np.array([tree.resolve(row["label"]) for row in rows], dtype=np.uint8),
        "degraded": np.array([row["degraded"] == "yes" for row in rows]),
        "templates": np.array(sources),
        "temperature": np.array(temperature),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the file to write (.npz)")
    parser.add_argument(
        "--templates",
        type=int,
        default=11,
        help="templates to ask besides the baseline (default %(default)s)",
    )
    parser.add_argument(
        "--samples", type=int, default=8, help="answers per image (default %(default)s)"
    )
    parser.add_argument(
        "--first", type=int, help="answers per image of the baseline (default: --samples)"
    )
    parser.add_argument("--temperature", type=float, default=1.0, help="(default %(default)s)")
    parser.add_argument("--model", default="builtin:fieldguide", help="(default %(default)s)")
    parser.add_argument("--shipped", action="store_true", help="the images of the package")
    parser.add_argument("--drawn", type=Path, help="a folder with images that were drawn before")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        if given.shipped:
            folder = MANIFEST_FILE.parent
        else:
            folder = given.drawn or make_dataset(
                Path(name) / "images", n=IMAGES, seed=SEED, degraded=DEGRADED
            )
        arrays = record(
            folder,
            templates=given.templates,
            samples=given.samples,
            first=given.first,
            temperature=given.temperature,
            model=given.model,
        )
    np.savez_compressed(given.out, **arrays)
    print(f"{len(arrays['nodes'])} answers to each of {len(arrays['targets'])} images: {given.out}")


if __name__ == "__main__":
    main()
