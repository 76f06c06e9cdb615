"""A run's folder: what it may be used for, what is written there, and how that is read back and gone on with."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from taxtune.atomic import write_json, write_text
from taxtune.errors import DataError, RecipeError, ResumeError
from taxtune.recipe import Recipe
from taxtune.recipe_file import load_yaml
from taxtune.tuning.history import best, check_unused, read_attributes, read_records
from taxtune.tuning.objective import Constraint
from taxtune.tuning.records import ComparisonResult, Provenance, TuneResult
from taxtune.untrusted import redact

if TYPE_CHECKING:
    from taxtune.tuning.experiment import Experiment

__all__ = [
    "STAND_INS",
    "Kind",
    "answers_of",
    "as_texts",
    "check_folder_is_for",
    "check_unused",
    "default_folder",
    "describe",
    "files_shown",
    "finished_run",
    "group_identity",
    "read_result",
    "recipe_of",
    "write_result",
]

Kind = Literal["tune", "compare"]

_HISTORY = ("history.db", "history.json", "history.jsonl")
_KINDS = {"tune": "a tuning run", "compare": "a comparison"}
_PACKAGES = ("taxtune", "torch", "transformers", "litellm", "optuna", "mlflow", "numpy", "pillow")

#: Stand-ins for groups of a recipe that objects replace, or that are not needed: a recipe has to have them.
STAND_INS: Mapping[str, Mapping[str, Any]] = {
    "taxonomy": {"path": "builtin:fieldguide"},
    "data": {"kind": "fieldguide"},
    "vlm": {"kind": "local", "model": "given in Python"},
}
#: How messages call the groups that may have been given in Python.
_GIVEN = {"vlm": "asked a model", "taxonomy": "used a label tree", "mapper": "placed answers with a mapper"}


# -- one folder, one run -----------------------------------------------------------------------------------------------


def default_folder(name: str, kind: str) -> Path:
    """Returns the folder for a recipe where none is given: "runs/birds", or "runs/birds-compare" for a comparison.

    Evaluations of templates share the folder of a tuning run, since they are in its sub-folder `evaluated`.
    """
    return Path("runs") / (f"{name}-{kind}" if kind == "compare" else name)


def check_folder_is_for(kind: Kind, folder: Path, objectives: Sequence[str] = ()) -> None:
    """Checks that a folder holds nothing of another kind, and of a comparison no objectives that are left out now.

    Args:
        kind: What is to be written there.
        folder: The folder, which need not exist.
        objectives: Those of a comparison.

    Raises:
        ResumeError: If it does; its results would be overwritten.
    """
    held, runs = _held(folder)
    others = [name for name in runs if name not in objectives]
    if held not in (None, kind):
        raise ResumeError(
            f"The folder {str(folder)!r} already holds {_KINDS[str(held)]}, whose results would be overwritten.",
            remedy=f"Choose another folder: `--out {folder}-{kind}`, in Python `out=`.",
        )
    if held == "compare" and others:
        raise ResumeError(
            f"The folder {str(folder)!r} already holds a comparison of {' and '.join(runs)}, whose results would be "
            "overwritten.",
            remedy=f"Name {' and '.join(others)} as well and continue it (`--resume`, in Python `resume=True`), or "
            "choose another folder (`--out`, `out=`).",
        )


def _held(folder: Path) -> tuple[Kind | None, list[str]]:
    """Returns the kind of a folder, and the names of the runs in it."""
    with suppress(OSError, ValueError):  # what is wrong with the folder is told when it is written to
        if any((folder / name).exists() for name in _HISTORY):
            return "tune", []
        runs = sorted({file.parent.name for name in _HISTORY for file in folder.glob(f"*/{name}")})
        keys: set[str] = set()
        with suppress(OSError, ValueError, TypeError):
            keys = set(json.loads((folder / "result.json").read_text(encoding="utf-8")))
        # A folder of runs that have nothing to do with each other has no answers of its own.
        if "runs" in keys or (runs and (folder / "answers.db").exists()):
            return "compare", runs
        if keys:
            return "tune", []
    return None, []


def answers_of(folder: Path) -> Path:
    """Returns the file with a run's answers: its own, or that of the comparison it belongs to."""
    own, shared = folder / "answers.db", folder.parent / "answers.db"
    return shared if shared.exists() and not own.exists() else own


def group_identity(name: str, folder: Path, runs: Sequence[Path]) -> str:
    """Returns the identity of a comparison in a record, the same after its folder was moved.

    Args:
        name: Name of the comparison.
        folder: Its folder.
        runs: The folders of its runs; what is noted there counts.
    """
    for run in runs:
        if (known := read_attributes(run).get("note:group")) is not None:
            return str(known)
    return f"{name}-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]}"


# -- written -----------------------------------------------------------------------------------------------------------


def files_shown(folder: Path) -> dict[str, str]:
    """Returns the files that people look at, by what they show."""
    return {"report": str(folder / "report.html"), "plot": str(folder / "hp_hr.png")}


def write_result(result: TuneResult | ComparisonResult) -> None:
    """Writes the winning prompts with their templates, `result.json` and `provenance.json`.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    folder = Path(result.folder)
    for name, run in result.named_runs:
        stem = "winner" if isinstance(result, TuneResult) else f"winner-{name}"
        write_text(folder / f"{stem}.j2", run.best.template or "")
        write_text(folder / f"{stem}.txt", run.best.prompt or "")
    write_json(folder / "result.json", result.as_dict())
    write_json(folder / "provenance.json", asdict(result.provenance))


def describe(experiment: Experiment, command: str | None) -> Provenance:
    """Returns the provenance of an experiment.

    Args:
        experiment: What was tuned.
        command: The command that runs it again.
    """
    import yaml

    splits, settings = experiment.splits, experiment.settings
    data = settings.get("data", {})
    tree = settings.get("taxonomy", {}).get("path", experiment.full_taxonomy.source)
    part = "" if experiment.part is None else f", restricted to {experiment.part.label}"
    versions = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    facts: dict[str, dict[str, str]] = {
        "Model": as_texts(experiment.vlm.identity),
        "Mapper": as_texts(experiment.mapper.identity()),
        "Proposer": as_texts(experiment.proposer.identity()),
        "Data": as_texts(
            {
                "source": data.get("path", data.get("kind")),
                "images": f"{len(splits.tuning)} tuning, {len(splits.heldout)} held-out, disjoint by content",
                "taxonomy": f"{tree}, {len(experiment.taxonomy):,} nodes{part}",
                "domain": experiment.taxonomy.labels[experiment.domain],
                "seed": experiment.seed,
            }
        ),
        "Software": {"Python": platform.python_version(), **versions},
    }
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    images = {example.id: str(example.image) for example in (*splits.tuning, *splits.heldout)}
    source = None if experiment.source is None else str(experiment.source)
    return Provenance(facts, redact(text), command, images, source)


def as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns facts as a run's provenance has them: named in words, without what is empty, and without passwords."""
    return {key.replace("_", " "): redact(str(value)) for key, value in values.items() if value not in (None, "")}


# -- read back ---------------------------------------------------------------------------------------------------------


def read_result(folder: str | Path) -> TuneResult | ComparisonResult:
    """Reads a run or a comparison back from its folder.

    Args:
        folder: The folder of a tuning run, finished or not, or of a comparison.

    Returns:
        The result. A run that is not finished has the iterations that are done and no held-out results.

    Raises:
        DataError: If there is no run in the folder, or its files cannot be read.
    """
    folder = Path(folder)
    file = folder / "result.json"
    if not file.exists():
        return _unfinished(folder)
    try:
        return _result(_json(file), folder)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"The file is not a result of a tuning run: {str(error).splitlines()[0]}.",
            file=file,
            remedy="Give a folder written by `taxtune tune` or `taxtune compare`.",
        ) from error


def _result(data: dict[str, Any], folder: Path) -> TuneResult | ComparisonResult:
    from pydantic import TypeAdapter

    runs = data.pop("runs", None)
    data = {key: value for key, value in data.items() if key != "usage"} | {"folder": str(folder)}
    if (file := folder / "provenance.json").exists():
        data["provenance"] = _json(file)
    if runs is None:
        return TypeAdapter(TuneResult).validate_python(data)
    made = [_result(run, folder / run["objective"]) for run in runs]
    comparison = TypeAdapter(ComparisonResult).validate_python({**data, "runs": ()})
    return replace(comparison, runs=tuple(run for run in made if isinstance(run, TuneResult)))


def _unfinished(folder: Path) -> TuneResult:
    if not (folder / "history.jsonl").exists():
        raise DataError(
            "The folder does not contain a tuning run.",
            file=folder,
            remedy="Give the folder used as --out for `taxtune tune` or `taxtune compare`.",
        )
    known, records = read_attributes(folder), read_records(folder)
    winner = best(records)
    return TuneResult(
        name=str(known.get("recipe.name", folder.name)),
        objective=str(known.get("objective", "hp")),
        constraints=tuple(Constraint(**held) for held in known.get("note:constraints", ())),
        trivial_hp=float("nan"),
        trivial_hr=float("nan"),
        winner=0 if winner is None else winner.iteration,
        iterations=tuple(records),
        heldout=(),
        differences=(),
        folder=str(folder),
    )


def _json(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"The file cannot be read: {error}.", file=file) from error
    if not isinstance(data, dict):
        raise DataError("The file is not a JSON object.", file=file)
    return data


def finished_run(folder: Path) -> TuneResult:
    """Returns the run of a folder.

    Raises:
        DataError: If the folder holds no finished run, or several.
    """
    result = read_result(folder)
    if not isinstance(result, TuneResult):
        names = " or ".join(run.folder for run in result.runs) or "the folder of a tuning run"
        raise DataError("The folder does not hold one tuning run.", file=folder, remedy=f"Give {names}.")
    if not result.heldout:
        raise DataError("The run is not finished.", file=folder, remedy="Finish it with --resume first.")
    return result


def recipe_of(result: TuneResult, *, given: Collection[str] = ()) -> Recipe:
    """Returns the recipe that a run was made with, as its record has it; nothing of it is to be proposed again.

    Args:
        result: The run.
        given: Groups of the recipe that an object replaces ("vlm", "taxonomy", "mapper"), or that are not needed
            ("data", ...).

    Raises:
        RecipeError: If the run does not know its recipe, or was made with an object given in Python and there is none.
    """
    import yaml
    from pydantic import ValidationError

    text, source, folder = result.provenance.recipe, result.provenance.source, Path(result.folder)
    remedy = "Give the recipe (recipe=, or --recipe)."
    if text is None or (source is None and "data" not in given):
        raise RecipeError(
            "The run does not tell which recipe it was made with.",
            file=folder,
            remedy="Give the recipe (recipe=, or --recipe), and a model of your own as vlm= in Python.",
        )
    record = folder / "provenance.json"
    try:
        data: dict[str, Any] = {**load_yaml(text)}
    except (yaml.YAMLError, RecursionError, TypeError) as error:
        raise RecipeError(f"The run's recipe cannot be read: {error}", file=record, remedy=remedy) from error
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
        return Recipe.model_validate(data).from_file(None if source is None else Path(source))
    except ValidationError as error:
        first = error.errors()[0]
        what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise RecipeError(f"The run's recipe cannot be used: {what}.", file=record, remedy=remedy) from error
