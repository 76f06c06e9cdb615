"""`taxtune recipes`: the recipes that come with taxtune, and what each needs."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from taxtune.options import JsonOption

if TYPE_CHECKING:
    from taxtune.recipe_needs import Needs

__all__ = ["recipes"]


def recipes(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Print this recipe, to start one of your own from.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the recipes that come with taxtune, with what each needs and whether it is here, or print one of them.

    Nothing is downloaded. `taxtune recipes NAME > mine.yaml` is a recipe to change; it runs from any folder.
    """
    from taxtune.drafting.offer import find_machine
    from taxtune.recipe import load_recipe, recipe_path
    from taxtune.recipe_needs import find_needs
    from taxtune.resources import recipes_dir
    from taxtune.shell import command

    if name is not None and not as_json:
        typer.echo(recipe_path(name).read_text(encoding="utf-8"), nl=False)
        return
    names = sorted(file.stem for file in recipes_dir().glob("*.yaml")) if name is None else [name]
    machine = find_machine()
    found = [find_needs(load_recipe(each), machine) for each in names]
    if as_json:
        values = {"machine": asdict(machine), "recipes": [needs.as_dict() for needs in found]}
        typer.echo(json.dumps(values, ensure_ascii=False, indent=1))
        return
    typer.echo("\n\n".join([f"This machine has {machine}.", *map(_shown, found)]))
    typer.echo(f"\nTo start one of your own: {command('recipes', 'NAME')} > mine.yaml")


def _shown(needs: Needs) -> str:
    model = [needs.model]
    if needs.local:
        size = "a" if needs.download_gb is None else f"{needs.download_gb:.3g} GB to"
        model.append("on this machine already" if needs.here else f"{size} download")
    if needs.gpu_gb is not None:
        room = "" if needs.fits else ", more than there is room for here"
        model.append(f"for a GPU with {needs.gpu_gb} GB{room}")
    rows = [
        ("images", needs.size),
        ("", needs.page),
        ("model", "; ".join(model)),
        ("mapper", "" if needs.similarity == "lexical" else f"{needs.similarity}, downloaded on first use"),
        ("missing", "; ".join(needs.missing)) if needs.missing else ("ready", "as soon as the model is downloaded"),
    ]
    if needs.here and not needs.missing:
        rows[-1] = ("ready", "now")
    lines = [
        textwrap.fill(text, 100, initial_indent=f"  {key:<9}", subsequent_indent=" " * 11, break_long_words=False)
        for key, text in rows
        if text
    ]
    return "\n".join([textwrap.fill(f"{needs.name}: {needs.description}", 100, subsequent_indent=" " * 4), *lines])
