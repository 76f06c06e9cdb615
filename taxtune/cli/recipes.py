"""`taxtune recipes`: the recipes that come with taxtune, and what each needs."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from taxtune.recipe import Recipe

__all__ = ["missing_for", "recipes"]


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Print this recipe, to start one of your own from."),
    ] = None,
) -> None:
    """List the recipes that come with taxtune, with what each lacks on this machine, or print one of them.

    Nothing is downloaded. `taxtune recipes NAME > mine.yaml` is a recipe to change; it runs from any folder.
    """
    from taxtune.recipe import load_recipe, recipe_path
    from taxtune.resources import recipes_dir

    if name is not None:
        typer.echo(recipe_path(name).read_text(encoding="utf-8"), nl=False)
        return
    for recipe in map(load_recipe, sorted(file.stem for file in recipes_dir().glob("*.yaml"))):
        typer.echo(
            textwrap.fill(f"{recipe.name}: {recipe.description}", 100, subsequent_indent=" " * 4)
        )
        missing = "; ".join(missing_for(recipe)) or "nothing: ready to run"
        for key, text in (("model", recipe.vlm.model), ("missing", missing)):
            typer.echo(textwrap.fill(f"  {key:<9}{text}", 100, subsequent_indent=" " * 11))
        typer.echo()
    typer.echo("To start one of your own: taxtune recipes NAME > mine.yaml")


def missing_for(recipe: Recipe) -> Iterator[str]:
    """Yields what is missing to run a recipe, in words: variables, keys, files and the model's download.

    Nothing is fetched, loaded or asked.
    """
    from taxtune.models.checkpoint import weights_here
    from taxtune.models.names import is_local, parse_model
    from taxtune.recipe import flatten
    from taxtune.settings import LocalVLMSettings

    texts = [text for text in flatten(recipe.settings()).values() if isinstance(text, str)]
    variables = [name for text in texts for name in re.findall(r"\$\{(\w+)\}", text)]
    for settings in (recipe.vlm, recipe.judge, recipe.proposer, recipe.mapper):
        model = getattr(settings, "model", getattr(settings, "arbiter", None))
        own = isinstance(settings, LocalVLMSettings) or getattr(settings, "api_base", None)
        if model is not None and not own and not is_local(model):
            variables.append(
                f"{parse_model(model).model.partition('/')[0].upper()}_API_KEY"
            )  # as litellm has it
    yield from (f"{name} is not set" for name in dict.fromkeys(variables) if name not in os.environ)
    named = [
        recipe.taxonomy.path,
        getattr(recipe.data, "path", None),
        getattr(recipe.data, "images", None),
    ]
    for text in dict.fromkeys(
        text for text in named if text is not None and not text.startswith("builtin:")
    ):
        if (
            all(name in os.environ for name in re.findall(r"\$\{(\w+)\}", text))
            and not recipe.path(text).exists()
        ):
            yield f"{recipe.path(text)} does not exist"
    vlm = recipe.vlm
    if isinstance(vlm, LocalVLMSettings) and not (
        recipe.path(vlm.model).is_dir() or weights_here(vlm.model, vlm.revision)
    ):
        yield "the model is downloaded on first use"
