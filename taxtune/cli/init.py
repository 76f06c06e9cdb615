"""`taxtune init`: a first recipe for one's own images."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from taxtune.errors import RecipeError

__all__ = ["init"]

_RECIPE = """\
# Written by `taxtune init`. Check it with: taxtune tune {file} --dry-run
name: {name}
seed: 0

taxonomy:
  path: {taxonomy}

data:
  kind: {kind} # {kind_says}
  path: {data}
{splits}

prompt:
  question: {question}
  domain: {domain} # what the images show, for use in templates
  ranks: {ranks} # broadest first, below the root

vlm:
  kind: {vlm_kind} # local: a transformers checkpoint; api: any litellm model with image input
  model: {model}

mapper:
  similarity: lexical # offline; or sentence:MODEL, clip:MODEL

objective:
  kind: hr_at_hp # as specific as it can be while right; or hp, hf, f_beta, pareto, accuracy, ...
  hp_target: 0.98 # "right": of what is said, this share is true, in the mean over images
  confidence: 0.9 # how certain that must be; {confidence}

proposer:
  kind: fragments # no key needed; or llm, with `model: openai/gpt-4o` and OPENAI_API_KEY

iterations: 30
max_off_tree: 0.5 # if more of the baseline's answers are about nothing on the tree, the run ends and shows some
"""

_BLOCK = 20
_MANIFESTS = (".csv", ".tsv", ".jsonl", ".ndjson")


def init(
    file: Annotated[Path, typer.Argument(metavar="RECIPE.yaml", help="The recipe to write.")],
    data: Annotated[
        Path,
        typer.Option(
            "--data", help="A CSV or JSONL file (image, label), or a folder with one sub-folder for each label."
        ),
    ],
    taxonomy: Annotated[Path, typer.Option("--taxonomy", help="The label tree: paths, edges, or iNat21's files.")],
    domain: Annotated[str, typer.Option("--domain", help="What the images show: bird, dish, car.")] = "object",
    model: Annotated[
        str, typer.Option("--model", help="The vision-language model; 'api:NAME' for one behind an API.")
    ] = "meta-llama/Llama-3.2-11B-Vision-Instruct",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a recipe for your own images, with sane settings to start from."""
    from taxtune.atomic import write_text
    from taxtune.taxonomy import read_taxonomy

    if file.exists() and not force:
        raise RecipeError(
            "The file already exists.", file=file, remedy="Choose another name, or overwrite the file with --force."
        )
    for path, option in ((data, "--data"), (taxonomy, "--taxonomy")):
        if not path.exists():
            raise RecipeError(f"There is no such file or folder for {option}.", file=path, remedy="Check the path.")
    if data.is_file() and data.suffix.lower() not in _MANIFESTS:
        raise RecipeError(
            "This is not a manifest.",
            file=data,
            remedy=f"Give a folder, or a file that ends in {', '.join(_MANIFESTS)}.",
        )
    tree = read_taxonomy(taxonomy)
    # The ranks in the order of their mean depth, without the root's.
    depths: dict[str, list[int]] = {}
    for node in range(1, len(tree)):
        if (rank := tree.ranks[node]) is not None:
            depths.setdefault(rank, []).append(int(tree.depth[node]))
    ranks = sorted(depths, key=lambda rank: sum(depths[rank]) / len(depths[rank]))[:32]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem)[:100].strip("._-") or "mine"
    kind = "folder" if data.is_dir() else "manifest"
    images = _count(data, kind)
    # Half of the images at most for the final comparison, which is the one to quote.
    heldout = 200 if images is None else max(1, min(200, images // 2))
    tuning = 20 if images is None else max(1, min(200, images - heldout))
    shown = shlex.quote(str(file))
    text = _RECIPE.format(
        file=" ".join(shown.split()),
        name=json.dumps(name),
        taxonomy=_quoted(taxonomy, file),
        kind=kind,
        kind_says="one sub-folder for each label" if kind == "folder" else "a file with the columns image and label",
        data=_quoted(data, file),
        splits=_splits(tuning, heldout, images),
        confidence=_confidence(tuning),
        question=json.dumps(f"What {domain} is this?", ensure_ascii=False),
        domain=json.dumps(domain, ensure_ascii=False),
        ranks=json.dumps(ranks, ensure_ascii=False),
        vlm_kind="api" if model.startswith("api:") else "local",
        model=json.dumps(model.removeprefix("api:"), ensure_ascii=False),
    )
    write_text(file, text)
    typer.echo(f"Wrote {file}. Next: taxtune tune {shown} --dry-run", err=True)


def _count(data: Path, kind: str) -> int | None:
    """Returns the number of labelled images; None where the data cannot be read, which the dry run explains."""
    from taxtune.data.folder import read_folder
    from taxtune.data.rows import read_rows
    from taxtune.errors import DataError

    try:
        return sum(1 for _ in (read_folder(data) if kind == "folder" else read_rows(data)))
    except DataError:
        return None


def _splits(tuning: int, heldout: int, images: int | None) -> str:
    """Returns the sizes of the splits with what they mean."""
    from taxtune.tuning.outlook import ASSUMED_SHARE, ASSUMED_STEP, smallest_difference

    known = "" if images is None else f", of {images:,}"
    spread = math.sqrt(ASSUMED_SHARE) * ASSUMED_STEP
    seen = smallest_difference(tuning, spread)
    least = "too few to compare any" if seen is None else f"differences in hP below {seen:.2f} do not show"
    lines = [f"  tuning: {tuning} # images for comparing templates{known}; {least}"]
    if tuning >= 4 * _BLOCK:
        lines.append(f"  block: {_BLOCK} # every template is asked about so many, promising ones about more, up to all")
    lines.append(f"  heldout: {heldout} # images for the final comparison of baseline and winner")
    return "\n".join(lines)


def _confidence(tuning: int) -> str:
    from taxtune.tuning.objective import Aims
    from taxtune.tuning.outlook import images_needed

    needed = images_needed(Aims().hp_target, Aims().confidence)
    few = "" if tuning >= needed else ", more than there are"
    return f"that takes at least {needed} tuning images without an error{few}"


def _quoted(path: Path, recipe: Path) -> str:
    # Paths in a recipe are relative to it, so that a folder with recipe, tree and images can be moved as a whole.
    base = recipe.resolve().parent
    full = path.resolve()
    return json.dumps(str(full.relative_to(base) if full.is_relative_to(base) else full), ensure_ascii=False)
