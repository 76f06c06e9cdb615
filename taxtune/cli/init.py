"""`taxtune init`: a first recipe for one's own images."""

from __future__ import annotations

import json
import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taxtune.options import JsonOption, opt

if TYPE_CHECKING:
    from taxtune.init.draft import Draft

__all__ = ["init"]

_UNPROVEN = "the winner is a best estimate, not certified"


def init(
    file: Annotated[Path, typer.Argument(metavar="RECIPE.yaml", help="The recipe to write.")],
    data: Annotated[
        Path,
        opt(
            "A folder with one sub-folder for each label, or a CSV, XLSX or JSONL file with a column of images "
            "and one of labels."
        ),
    ],
    taxonomy: Annotated[
        Path | None,
        opt(
            "The label tree: paths, edges, any other format that taxtune reads, or one that comes with it "
            "(builtin:dishes).",
            shown="made from the labels, beside the recipe",
        ),
    ] = None,
    domain: Annotated[str | None, opt("What the images show: bird, dish, car.", shown="after the tree")] = None,
    model: Annotated[
        str | None,
        opt(
            "The vision-language model: PROVIDER/MODEL behind an API, local:MODEL on this machine.",
            shown="the smallest that suits this machine",
        ),
    ] = None,
    api_base: Annotated[str | None, opt("Address of an OpenAI-compatible server that has the model.")] = None,
    image_column: Annotated[str | None, opt("Column of the images.", shown="looked for")] = None,
    label_column: Annotated[str | None, opt("Column of the labels.", shown="looked for")] = None,
    skip_broken: Annotated[bool, opt("Leave out images that are missing or unreadable, and name them.")] = False,
    force: Annotated[bool, opt("Overwrite existing files.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Look at your own images and write a recipe for them that runs: splits, ranks, examples and a model that fits."""
    from taxtune.atomic import write_text
    from taxtune.errors import ModelError, RecipeError
    from taxtune.init.draft import make_draft
    from taxtune.init.label_tree import make_tree
    from taxtune.init.source import find_source
    from taxtune.models.checkpoint import check_reachable
    from taxtune.models.names import parse_model
    from taxtune.progress import note
    from taxtune.shell import command
    from taxtune.taxonomy import read_taxonomy

    asked = None if model is None else parse_model(model)
    if api_base is not None and (asked is None or asked.kind != "api"):
        raise RecipeError("--api-base needs --model PROVIDER/MODEL.", remedy="For example: --model openai/NAME")
    if file.exists() and not force:
        remedy = "Choose another name, or overwrite the file with --force."
        raise RecipeError("The file already exists.", file=file, remedy=remedy)
    if taxonomy is not None and not taxonomy.exists() and not str(taxonomy).startswith("builtin:"):
        raise RecipeError("There is no such file or folder for --taxonomy.", file=taxonomy, remedy="Check the path.")
    tree = None if taxonomy is None else read_taxonomy(taxonomy)
    source = find_source(data, tree, image_column=image_column, label_column=label_column)
    for said in source.notes:
        note(said)
    made = None
    if tree is None or taxonomy is None:
        made = make_tree(source, file, force=force)
        tree, taxonomy = made.tree, made.file
    draft = make_draft(source, tree, skip_broken=skip_broken)
    if model is None:
        asked = parse_model(model := _default_model())
    text = draft.text(file, taxonomy, model, domain, api_base=api_base)
    if made is not None:
        note(f"Made the tree {made.file} {made.how}. {made.write()}")
    write_text(file, text)
    if asked is not None and asked.kind == "local":
        try:
            check_reachable(asked.model)
        except ModelError as error:  # the recipe is right, and the dry run says so too
            note(str(error))
    following = command("tune", file, "--dry-run")
    if as_json:
        files = {"recipe": str(file), "taxonomy": str(taxonomy), "made_taxonomy": made is not None}
        facts = draft.facts() | files | {"model": model, "next": following}
        print(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    _show(draft, model)
    print(f"\nWrote {file}. Next: {following}")


def _default_model() -> str:
    """The smallest model that suits this machine, or one behind an API where it has room for none."""
    from taxtune.hardware import device_memory, find_device
    from taxtune.models.weights import smallest_that_suits

    device = find_device("auto")
    known = smallest_that_suits(device, device_memory(device) / 1e9)
    return "openai/gpt-4o-mini" if known is None else f"local:{known.name}"


def _show(draft: Draft, model: str) -> None:
    from taxtune.models.weights import KNOWN_MODELS

    facts = draft.facts()
    tuning, target, word = facts["tuning"], facts["hp_target"], facts["word"]
    rest = f", {facts['calibration']:,} left for `taxtune calibrate`" if facts["calibration"] else ""
    proven = f"{tuning:,} tuning images without a wrong answer prove {math.floor(1000 * facts['provable_hp']) / 1000}"
    sure = f"{100 * facts['confidence_level']:.0f} % confidence"
    to_prove, to_spare = facts["missing_to_prove"], facts["missing_to_calibrate"]
    known = KNOWN_MODELS.get(model.removeprefix("local:"))
    for name, text in (
        ("images", f"{facts['images']:,}" + (f" of {facts['listed']:,}" if facts["listed"] > facts["images"] else "")),
        ("labels", f"{facts['labels']:,}, all on the tree of {facts['nodes']:,} nodes"),
        ("domain", facts["domain"] + (f", in a word: {word}" if word not in (None, facts["domain"]) else "")),
        ("ranks", ", ".join(facts["ranks"]) or "the tree names none"),
        ("examples", ", ".join(facts["examples"])),
        ("splits", f"{tuning:,} for tuning, {facts['heldout']:,} held out for the final comparison{rest}"),
        ("goal", f"as specific as possible, with a precision (hP) of at least {target} ({sure}); {proven}"),
        ("missing", f"label {to_prove:,} more photos to prove {target}; until then {_UNPROVEN}" if to_prove else ""),
        (
            "missing",
            f"label {to_spare:,} more photos to leave a share for `taxtune calibrate`" if to_spare else "",
        ),
        ("model", model.removeprefix("local:") + (f", {known.download_gb:.1f} GB unless it is here" if known else "")),
    ):
        if text:
            start = f"{name:<10}"
            print(textwrap.fill(text, 80, initial_indent=start, subsequent_indent=" " * 10, break_on_hyphens=False))
