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
    for stem in sorted(file.stem for file in recipes_dir().glob("*.yaml")):
        recipe = load_recipe(stem)
        missing = "; ".join(missing_for(recipe)) or "nothing: ready to run"
        for text, hanging in (
            (f"{recipe.name}: {recipe.description}", 4),
            (f"  model    {recipe.vlm.model}", 11),
            (f"  missing  {missing}", 11),
        ):
            typer.echo(textwrap.fill(text, 100, subsequent_indent=" " * hanging))
        typer.echo()
    typer.echo("To start one of your own: taxtune recipes NAME > mine.yaml")


def missing_for(recipe: Recipe) -> Iterator[str]:
    """Yields the things that a recipe lacks here: variables, keys, files and the model's download.

    Nothing is fetched, loaded or asked.
    """
    from taxtune.models.checkpoint import weights_here
    from taxtune.recipe import flatten
    from taxtune.settings import LocalVLMSettings

    texts = [text for text in flatten(recipe.settings()).values() if isinstance(text, str)]
    needed = [name for text in texts for name in _variables(text)]
    needed += _keys(recipe)
    for name in dict.fromkeys(needed):
        if name not in os.environ:
            yield f"{name} is not set"
    images = [getattr(recipe.data, "path", None), getattr(recipe.data, "images", None)]
    for text in dict.fromkeys([recipe.taxonomy.path, *images]):
        if text is None or text.startswith("builtin:"):
            continue
        is_known = all(name in os.environ for name in _variables(text))
        if is_known and not recipe.path(text).exists():
            yield f"{recipe.path(text)} does not exist"
    vlm = recipe.vlm
    if isinstance(vlm, LocalVLMSettings):
        is_folder = recipe.path(vlm.model).is_dir()
        if not is_folder and not weights_here(vlm.model, vlm.revision):
            yield "the model is downloaded on first use"


def _variables(text: str) -> list[str]:
    return re.findall(r"\$\{(\w+)\}", text)


def _keys(recipe: Recipe) -> Iterator[str]:
    """Yields the variables of the keys that a recipe's models need, as litellm names them."""
    from taxtune.models.names import is_local, parse_model
    from taxtune.settings import AUTO, LocalVLMSettings

    for settings in (recipe.vlm, recipe.judge, recipe.proposer, recipe.mapper):
        model = getattr(settings, "model", getattr(settings, "arbiter", None))
        is_own = isinstance(settings, LocalVLMSettings) or getattr(settings, "api_base", None)
        if model not in (None, AUTO) and not is_own and not is_local(model):
            provider = parse_model(model).model.partition("/")[0]
            yield f"{provider.upper()}_API_KEY"
