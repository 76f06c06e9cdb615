"""A finished run as something to go on with: its result, and the recipe that it was made with."""

from __future__ import annotations

from pathlib import Path

from taxtune.errors import DataError, RecipeError
from taxtune.recipe import Recipe
from taxtune.tuning.files import read_result
from taxtune.tuning.records import TuneResult

__all__ = ["finished_run", "recipe_of"]


def finished_run(folder: Path) -> TuneResult:
    """Returns the run of a folder.

    Raises:
        DataError: If the folder holds no finished run, or several.
    """
    found = read_result(folder)
    if not isinstance(found, TuneResult):
        names = " or ".join(run.folder for run in found.runs) or "the folder of a tuning run"
        raise DataError("The folder does not hold one tuning run.", file=folder, remedy=f"Give {names}.")
    if not found.heldout:
        raise DataError("The run is not finished.", file=folder, remedy="Finish it with --resume first.")
    return found


def recipe_of(result: TuneResult, *, own_vlm: bool = False) -> Recipe:
    """Returns the recipe that a run was made with, as its record has it; nothing of it is to be proposed again.

    Args:
        result: The run.
        own_vlm: Whether a model takes the place of the recipe's.

    Raises:
        RecipeError: If the run does not know its recipe, or was made with a model given in Python and there is none.
    """
    import yaml
    from pydantic import ValidationError

    text, source, folder = result.provenance.recipe, result.provenance.source, Path(result.folder)
    if text is None or source is None:
        raise RecipeError(
            "The run does not tell which recipe it was made with.",
            file=folder,
            remedy="Give the recipe (recipe=, or --recipe), and a model of your own as vlm= in Python.",
        )
    data = {**yaml.safe_load(text), "source": Path(source)}
    if data["vlm"].get("kind") == "python":
        if not own_vlm:
            raise RecipeError(
                "The run asked a model that was given in Python.", file=folder, remedy="Give the same vlm in Python."
            )
        data["vlm"] = {"kind": "local", "model": "given in Python"}
    for group in ("proposer", "policy"):
        if data.get(group, {}).get("kind") == "python":
            del data[group]
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise RecipeError(
            f"The run's record of its recipe cannot be used: {'.'.join(map(str, first['loc']))}: {first['msg']}",
            file=folder / "provenance.json",
            remedy="Give the recipe (recipe=, or --recipe).",
        ) from error
