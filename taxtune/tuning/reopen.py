"""A finished run as something to go on with: its result, and the recipe that it was made with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from taxtune.errors import DataError, RecipeError
from taxtune.recipe import Recipe
from taxtune.recipe_file import load_yaml
from taxtune.tuning.files import read_result
from taxtune.tuning.records import TuneResult

__all__ = ["STAND_INS", "answers_of", "finished_run", "recipe_of"]


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


def answers_of(folder: Path) -> Path:
    """Returns the file with a run's answers: its own, or that of the comparison it belongs to."""
    own, shared = folder / "answers.db", folder.parent / "answers.db"
    return shared if shared.exists() and not own.exists() else own


#: What stands for groups of a recipe that objects take the place of, or that are not needed: a recipe has to have them.
STAND_INS: Mapping[str, Mapping[str, Any]] = {
    "taxonomy": {"path": "builtin:fieldguide"},
    "data": {"kind": "fieldguide"},
    "vlm": {"kind": "local", "model": "given in Python"},
}
#: What messages call the groups that may have been given in Python.
_GIVEN = {"vlm": "asked a model", "taxonomy": "used a label tree", "mapper": "placed answers with a mapper"}


def recipe_of(result: TuneResult, *, given: Collection[str] = ()) -> Recipe:
    """Returns the recipe that a run was made with, as its record has it; nothing of it is to be proposed again.

    Args:
        result: The run.
        given: Groups of the recipe that an object takes the place of ("vlm", "taxonomy", "mapper"), or that are not
            needed ("data", ...).

    Raises:
        RecipeError: If the run does not know its recipe, or was made with an object given in Python and there is none.
    """
    import yaml
    from pydantic import ValidationError

    text, source, folder = result.provenance.recipe, result.provenance.source, Path(result.folder)
    if text is None or (source is None and "data" not in given):
        raise RecipeError(
            "The run does not tell which recipe it was made with.",
            file=folder,
            remedy="Give the recipe (recipe=, or --recipe), and a model of your own as vlm= in Python.",
        )
    try:
        data: dict[str, Any] = {**load_yaml(text), "source": None if source is None else Path(source)}
    except (yaml.YAMLError, RecursionError, TypeError) as error:
        raise RecipeError(
            "The run's record of its recipe cannot be read.",
            file=folder / "provenance.json",
            remedy="Give the recipe (recipe=, or --recipe).",
        ) from error
    if "confidence" in (objective := data.get("objective") or {}):  # what earlier versions called it
        objective["confidence_level"] = objective.pop("confidence")
    for group, did in _GIVEN.items():
        missing = group in STAND_INS and group not in data
        if (missing or data.get(group, {}).get("kind") == "python") and group not in given:
            raise RecipeError(
                f"The run {did} that was given in Python.", file=folder, remedy=f"Give the same {group} in Python."
            )
    for group in (*given, "proposer", "policy"):
        if group in data and data[group] is not None and data[group].get("kind", group) != "python":
            continue
        # What a recipe says of the part of a tree holds for a tree in its place, too.
        kept = {key: value for key, value in (data.pop(group, None) or {}).items() if key in ("root", "domain")}
        if group in STAND_INS:
            data[group] = {**STAND_INS[group], **kept}
    if source is None:  # made in Python: names and objectives are free there
        data = {key: value for key, value in data.items() if key != "objective"} | {"name": "run"}
    try:
        return Recipe.model_validate(data).from_file()
    except ValidationError as error:
        first = error.errors()[0]
        raise RecipeError(
            f"The run's record of its recipe cannot be used: {'.'.join(map(str, first['loc']))}: {first['msg']}",
            file=folder / "provenance.json",
            remedy="Give the recipe (recipe=, or --recipe).",
        ) from error
