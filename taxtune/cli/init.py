"""`taxtune init`: a first recipe for one's own images."""

from __future__ import annotations

import json
import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taxtune.options import JsonOption

if TYPE_CHECKING:
    from taxtune.drafting.draft import Draft
    from taxtune.drafting.offer import Offer
    from taxtune.models.names import ModelName

__all__ = ["init"]

_UNPROVEN = "the winner is a best estimate, not certified"


def init(
    file: Annotated[Path, typer.Argument(metavar="RECIPE.yaml", help="The recipe to write.")],
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            help="A folder with one sub-folder for each label, or a CSV, XLSX or JSONL file with a column of images "
            "and one of labels.",
        ),
    ],
    taxonomy: Annotated[
        Path | None,
        typer.Option(
            "--taxonomy",
            help="The label tree: paths, edges, any other format that taxtune reads, or one that comes with it "
            "(builtin:dishes).",
            show_default="made from the labels, beside the recipe",
        ),
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option("--domain", help="What the images show: bird, dish, car.", show_default="after the tree"),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="The vision-language model: PROVIDER/MODEL behind an API, local:MODEL on this machine.",
            show_default="the smallest that suits this machine",
        ),
    ] = None,
    api_base: Annotated[
        str | None,
        typer.Option("--api-base", metavar="URL", help="Address of an OpenAI-compatible server that has the model."),
    ] = None,
    image_column: Annotated[
        str | None,
        typer.Option("--image-column", metavar="NAME", help="Column of the images.", show_default="looked for"),
    ] = None,
    label_column: Annotated[
        str | None,
        typer.Option("--label-column", metavar="NAME", help="Column of the labels.", show_default="looked for"),
    ] = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave out images that are missing or unreadable, and name them.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Look at your own images and write a recipe for them that runs: splits, ranks, examples and a model that fits."""
    from taxtune.atomic import write_text
    from taxtune.drafting.draft import make_draft
    from taxtune.drafting.label_tree import make_tree
    from taxtune.drafting.source import find_source
    from taxtune.errors import RecipeError
    from taxtune.models.names import ModelName, parse_model
    from taxtune.progress import note
    from taxtune.shell import command
    from taxtune.taxonomy import read_taxonomy

    asked = None if model is None else parse_model(model)
    if api_base is not None and (asked is None or asked.kind != "api"):
        raise RecipeError("--api-base needs --model PROVIDER/MODEL.", remedy="For example: --model openai/NAME")
    if file.exists() and not force:
        raise RecipeError(
            "The file already exists.", file=file, remedy="Choose another name, or overwrite the file with --force."
        )
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
    offer = None if model is not None else _offer()
    text = draft.text(file, taxonomy, model, offer, domain, api_base=api_base)
    if made is not None:
        note(f"Made the tree {made.file} {made.how}. {made.write()}")
    write_text(file, text)
    named = asked or (None if offer is None or offer.first is None else ModelName("local", offer.first.name))
    _say_if_missing(named)
    following = command("tune", file, "--dry-run")
    if as_json:
        facts = draft.facts() | {
            "recipe": str(file),
            "taxonomy": str(taxonomy),
            "made_taxonomy": made is not None,
            "model": None if named is None else named.model,
            "next": following,
        }
        print(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    _show(draft, offer)
    print(f"\nWrote {file}. Next: {following}")


def _say_if_missing(model: ModelName | None) -> None:
    """Notes where the model is neither here nor within reach: the recipe is right, and the dry run says so too."""
    from taxtune.errors import ModelError
    from taxtune.models.checkpoint import check_reachable
    from taxtune.progress import note

    if model is not None and model.kind == "local":
        try:
            check_reachable(model.model)
        except ModelError as error:
            note(str(error))


def _offer() -> Offer:
    from taxtune.drafting.offer import find_machine, make_offer
    from taxtune.models.checkpoint import weights_here
    from taxtune.models.weights import KNOWN_MODELS

    return make_offer(find_machine(), frozenset(filter(weights_here, KNOWN_MODELS)))


def _show(draft: Draft, offer: Offer | None) -> None:
    facts = draft.facts()
    tuning, target, word = facts["tuning"], facts["hp_target"], facts["word"]

    def line(name: str, text: str) -> None:
        print(textwrap.fill(text, 80, initial_indent=f"{name:<10}", subsequent_indent=" " * 10, break_on_hyphens=False))

    line("images", f"{facts['images']:,}" + (f" of {facts['listed']:,}" if facts["listed"] > facts["images"] else ""))
    line("labels", f"{facts['labels']:,}, all on the tree of {facts['nodes']:,} nodes")
    line("domain", facts["domain"] + (f", in a word: {word}" if word not in (None, facts["domain"]) else ""))
    line("ranks", ", ".join(facts["ranks"]) or "the tree names none")
    if facts["examples"]:
        line("examples", ", ".join(facts["examples"]))
    rest = f", {facts['calibration']:,} left for `taxtune calibrate`" if facts["calibration"] else ""
    line("splits", f"{tuning:,} for tuning, {facts['heldout']:,} held out for the final comparison{rest}")
    proven = f"{tuning:,} tuning images without a wrong answer prove {math.floor(1000 * facts['provable_hp']) / 1000}"
    sure = f"{100 * facts['confidence_level']:.0f} % confidence"
    line("goal", f"as specific as possible, with a precision (hP) of at least {target} ({sure}); {proven}")
    missing = []
    if facts["missing_to_prove"]:
        missing.append(f"{facts['missing_to_prove']:,} more photos to prove {target}; until then {_UNPROVEN}")
    if facts["missing_to_calibrate"]:
        missing.append(f"{facts['missing_to_calibrate']:,} more photos to leave a share for `taxtune calibrate`")
    for number, text in enumerate(missing):
        line("" if number else "missing", f"label {text}")
    if offer is None:
        return
    if offer.first is None:
        line("model", f"this machine ({offer.machine}) has no room even for the smallest of the usual ones: use an API")
        return
    size = "on this machine already" if offer.here else f"{offer.first.download_gb:.1f} GB to download"
    line("model", f"{offer.first.name}, {size}; this machine has {offer.machine}")
    if offer.larger:
        others = [
            f"{each.name} ({each.download_gb:.1f} GB{', with a licence to accept' if each.gated else ''})"
            for each in offer.larger
        ]
        line("", f"and room for larger ones, which know more and are slower: {', '.join(others)}")
