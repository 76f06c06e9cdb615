"""`taxtune recipes`: the recipes that come with taxtune, and what each needs."""

from __future__ import annotations

import json
import textwrap
from typing import Annotated, Any

import typer

from taxtune.options import JsonOption

__all__ = ["recipes"]


def recipes(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Print this recipe, to start one of your own from.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the recipes that come with taxtune, with what each lacks on this machine, or print one of them.

    Nothing is downloaded. `taxtune recipes NAME > mine.yaml` is a recipe to change; it runs from any folder.
    """
    from taxtune.recipe import load_recipe, recipe_path
    from taxtune.recipe_needs import missing_for
    from taxtune.resources import recipes_dir
    from taxtune.shell import command

    if name is not None and not as_json:
        typer.echo(recipe_path(name).read_text(encoding="utf-8"), nl=False)
        return
    names = sorted(file.stem for file in recipes_dir().glob("*.yaml")) if name is None else [name]
    rows: list[dict[str, Any]] = []
    for recipe in map(load_recipe, names):
        facts = {"name": recipe.name, "description": recipe.description, "model": recipe.vlm.model}
        rows.append({**facts, "missing": missing_for(recipe)})
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=1))
        return
    for row in rows:
        typer.echo(textwrap.fill(f"{row['name']}: {row['description']}", 100, subsequent_indent=" " * 4))
        for key in ("model", "missing"):
            text = "; ".join(row[key]) or "nothing: ready to run" if key == "missing" else row[key]
            if text:
                typer.echo(f"  {key:<9}" + textwrap.fill(text, 89).replace("\n", "\n" + " " * 11))
        typer.echo()
    typer.echo(f"To start one of your own: {command('recipes', 'NAME')} > mine.yaml")
