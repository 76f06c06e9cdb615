"""Prompts, recipes and their trees: at the top of a checkout, and inside an installed wheel."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from taxtune.errors import TaxtuneError, TemplateError

__all__ = ["builtin_trees", "prompts_dir", "recipes_dir", "template_path", "version"]

_PACKAGE = Path(__file__).resolve().parent


def prompts_dir() -> Path:
    """Returns the folder of the prompts that taxtune sends."""
    return _find("prompts")


def recipes_dir() -> Path:
    """Returns the folder of the recipes that come with taxtune."""
    return _find("recipes")


def builtin_trees() -> dict[str, Path]:
    """Returns the label trees that come with taxtune, by name: "dishes" for builtin:dishes."""
    of_recipes = {file.stem: file for file in sorted(recipes_dir().glob("trees/*.csv"))}
    return {"fieldguide": _PACKAGE / "fieldguide" / "taxonomy.csv"} | of_recipes


def template_path(reference: str | Path) -> Path:
    """Returns the file of a template.

    Args:
        reference: Its path, or "builtin:NAME" for one of `prompts/seeds/`.

    Raises:
        TemplateError: If no template of this name comes with taxtune.
    """
    kind, _, name = str(reference).partition(":")
    if kind != "builtin":
        return Path(reference)
    seeds = {file.stem: file for file in sorted((prompts_dir() / "seeds").glob("*.j2"))}
    if name not in seeds:
        raise TemplateError(
            "Unknown built-in template.",
            value=str(reference),
            remedy=f"Built-in templates: {', '.join(seeds)}.",
        )
    return seeds[name]


def version() -> str:
    """Returns the version of taxtune."""
    try:
        return metadata.version("taxtune")
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return "0+unknown"


def _find(name: str) -> Path:
    # A wheel carries the folder inside the package; an editable install has it beside the package.
    for candidate in (_PACKAGE / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise TaxtuneError(
        f"The folder {name!r} that belongs to taxtune is missing.", remedy="Reinstall taxtune."
    )
