"""A run's folder: whether it may be used, what is written there, and how it is read back."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.atomic import write_json, write_text
from taxtune.errors import DataError, RecipeError, ResumeError
from taxtune.recipe import Recipe
from taxtune.recipe_file import load_yaml
from taxtune.tables import read_text
from taxtune.tuning.changes import contents_of
from taxtune.tuning.history import check_unused, is_begun, read_identity
from taxtune.tuning.records import RUN_FORMAT, ComparisonResult, Provenance, TuneResult
from taxtune.untrusted import redact

if TYPE_CHECKING:
    from taxtune.tuning.experiment import Experiment

__all__ = [
    "CLASSIFIER",
    "STAND_INS",
    "answers_of",
    "as_texts",
    "check_run_folder",
    "default_folder",
    "describe",
    "files_shown",
    "finished_run",
    "identity_of",
    "images_of",
    "next_folder",
    "note_answers",
    "read_result",
    "reads_alone",
    "recipe_of",
    "write_result",
]

#: The folder in a run's in which its winner is saved as a classifier.
CLASSIFIER = "classifier"
_RUN_FILES = ("history.jsonl", "result.json")  # a run has one of them after its first iteration
_ANSWERS = "answers.db"
_ANSWERS_NOTE = "answers.txt"  # where a run's answers are, if not beside its folder
_PACKAGES = ("taxtune", "torch", "transformers", "litellm", "optuna", "mlflow", "numpy", "pillow")

# Settings that a resumed run may change: they alter how the work is done, or how much of it, but not
# the result; and `max_missing`, `max_off_tree` and `proposer.max_tokens`, since a run that stops for
# one says to raise it.
_FREE = (
    "budget.",
    # What of these can change an image or its truth is in the contents; earlier runs lack them.
    *("data.least_confidence", "data.left_out", "data.margin", "data.nothing", "data.unnamed"),
    "description",
    "effort",
    "execution.",
    "iterations",
    "judge",  # what of it can change a rating is in the identity of a run that asks it
    "max_missing",
    "max_off_tree",
    "policy.",  # what of it can change a place is in the policy's identity and the model's
    # A comparison runs a recipe with several; each run's own kind is in the identity.
    "objective.kind",
    "proposer.max_tokens",
    "proposer.pictures",  # which the proposer's identity has where there are any
    "seed",  # the part that counts is added
    "tracking.",
    "vlm.batch_size",
    "vlm.concurrency",
    "vlm.max_retries",
)
# What a record says of the part of a tree, and of images, holds for those in their place, too, but
# for what they were.
_REPLACED = ("kind", "path", "frequencies")
#: Stand-ins for groups that a recipe has to have, and that objects replace or that are not needed.
STAND_INS: Mapping[str, Mapping[str, Any]] = {
    "taxonomy": {"path": "builtin:fieldguide"},
    "data": {"kind": "fieldguide"},
    "vlm": {"kind": "local", "model": "given in Python"},
}


def default_folder(name: str, kind: str) -> Path:
    """Returns the folder where none is given: "runs/birds", or "runs/birds-compare"."""
    return Path("runs") / (f"{name}-{kind}" if kind == "compare" else name)


def check_run_folder(folder: Path, objectives: Sequence[str] = (), *, resume: bool = False) -> None:
    """Raises a `ResumeError` if a run, or a comparison of objectives, would overwrite results.

    With `resume` it would if the folder holds results of another kind, or a comparison with
    objectives that are left out now.
    """
    kind, runs = _held_results(folder)
    others = [name for name in runs if name not in objectives]
    wanted, option = ("a comparison", "compare") if objectives else ("a tuning run", "tune")
    if kind not in (None, wanted):
        raise ResumeError(
            f"The folder {str(folder)!r} already holds {kind}, whose results would be overwritten.",
            remedy=f"Choose another folder: `--out {folder}-{option}`, in Python `out=`.",
        )
    if objectives and kind and others:
        raise ResumeError(
            f"The folder {str(folder)!r} already holds a comparison of {' and '.join(runs)}, whose "
            "results would be overwritten.",
            remedy=f"Name {' and '.join(others)} as well and continue it (`--resume`, in Python "
            "`resume=True`), or choose another folder (`--out`, `out=`).",
        )
    if not resume:
        for run in [folder / name for name in objectives] or [folder]:
            check_unused(run)


def _held_results(folder: Path) -> tuple[str | None, list[str]]:
    """Returns the kind of a folder's results, None for none, and the names of runs below it."""
    runs: set[str] = set()
    with suppress(OSError, ValueError):
        # What is wrong with the folder is told when it is written to.
        for name in _RUN_FILES:
            runs |= {file.parent.name for file in folder.glob(f"*/{name}")}
        # Runs that have nothing to do with each other have no note in common.
        if runs and (folder / _ANSWERS_NOTE).exists() and not is_begun(folder):
            return "a comparison", sorted(runs)
        if any((folder / name).exists() for name in _RUN_FILES):
            return "a tuning run", sorted(runs)
    return None, sorted(runs)


def reads_alone(folder: Path) -> bool:
    """Tells whether the run in a folder, or a comparison's, was begun without a model that reads.

    Runs of earlier versions were, whatever models their recipes name.
    """
    kind, runs = _held_results(folder)
    folders = [folder / name for name in runs] if kind == "a comparison" else [folder]
    identities = [read_identity(each) for each in folders if is_begun(each)]
    return any(identity.get("recipe.mapper.arbiter") is None for identity in identities)


def answers_of(folder: Path, given: str | Path | None = None) -> Path:
    """Returns the file of a run's answers, which runs side by side share.

    Args:
        folder: The run's folder.
        given: The file that a user names. Where left out, it is the one that is noted in the folder
            (`note_answers`), or else `answers.db` beside the folder. A folder that has its own
            keeps it, as runs of earlier versions do.
    """
    if given is not None:
        return Path(given)
    note = folder / _ANSWERS_NOTE
    if note.exists():
        noted = read_text(note, error=DataError, what="note of the answers").strip()
        return Path(os.path.normpath(folder / noted))
    own = folder / _ANSWERS
    parent = folder.parent
    if folder.name in ("", ".."):  # whose parent is not in the path
        parent = folder.resolve().parent
    return own if own.exists() else parent / _ANSWERS


def note_answers(folder: Path, answers: str | Path) -> None:
    """Notes in a run's folder where its answers are; see `answers_of`.

    A file in a folder above the run's is noted by its relative path, so that both can be moved.
    """
    noted = os.path.abspath(answers)
    if Path(noted).parent in Path(os.path.abspath(folder)).parents:
        noted = os.path.relpath(answers, folder)
    write_text(folder / _ANSWERS_NOTE, f"{noted}\n")


def next_folder(folder: Path) -> Path:
    """Returns the first folder of a series that is free: "runs/birds-2" after "runs/birds"."""
    number = 2
    while (free := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return free


def identity_of(experiment: Experiment) -> dict[str, Any]:
    """Returns the settings that must stay the same for a run to be resumed, by dotted key.

    Contents are hashes; lists of images and nodes beside them tell how they changed.
    """
    identity: dict[str, Any] = {}
    for group, values in _identities(experiment).items():
        for key, value in values.items():
            identity[f"{group}.{key}"] = value
    part = experiment.part
    if part is not None:
        identity["domain root"] = "/".join(part.full.path(part.root))
    identity["objective"] = experiment.objective.name
    identity |= experiment.objective.identity()
    for key, content in _contents(experiment).items():
        identity[key] = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    return identity | contents_of(experiment)


def _identities(experiment: Experiment) -> dict[str, Mapping[str, Any]]:
    """Returns the identity of each part of an experiment."""
    recipe = experiment.recipe
    fixed = {}
    for key, value in recipe.flat().items():
        group, _, _ = key.partition(".")
        if not key.startswith(_FREE) and group not in experiment.given:
            fixed[key] = value
    fixed["seed"] = recipe.seed
    identities: dict[str, Mapping[str, Any]] = {
        "recipe": fixed,
        "vlm": experiment.vlm.identity,
        "mapper": experiment.mapper.identity(),
        "proposer": experiment.proposer.identity(),
        "policy": experiment.policy.identity(),
    }
    for name, metric in experiment.metrics.items():
        # A judge is known by the name that recipes have for it.
        group = "judge" if name in experiment.objective.needs else f"metrics.{name}"
        identities[group] = metric.identity()
    return identities


def _contents(experiment: Experiment) -> dict[str, object]:
    """Returns the contents that an experiment is about, of which a hash is recorded."""
    tree = experiment.taxonomy
    splits = experiment.splits
    aliases = [tree.names(node)[1:] for node in range(len(tree))]
    contents: dict[str, object] = {"taxonomy": [tree.labels, tree.parents.tolist(), aliases]}
    for name, examples in {"tuning": splits.tuning, "held-out": splits.heldout}.items():
        images = []
        for example in examples:
            image: tuple[str | int, ...] = (example.sha256, example.target)
            if example.group:  # as runs of earlier versions have it where there is none
                image += (example.group,)
            images.append(image)
        contents[f"{name} images"] = images
    if experiment.context:
        variables = [asdict(variable) for variable in experiment.context]
        values = {}
        for example in (*splits.tuning, *splits.heldout):
            values[example.sha256] = example.context
        contents["context"] = [variables, values]
    if experiment.recipe.taxonomy.frequencies is not None:  # else they follow from the taxonomy
        contents["weights"] = experiment.weights.weight.tolist()
    if experiment.allowed is not None:
        contents["checklist"] = experiment.allowed.rows
    return contents


def files_shown(folder: Path) -> dict[str, str]:
    """Returns the files that people look at, by what they show."""
    return {"report": str(folder / "report.html"), "plot": str(folder / "hp_hr.png")}


def write_result(result: TuneResult | ComparisonResult) -> None:
    """Writes the winning prompts with their templates, `result.json` and `provenance.json`."""
    folder = Path(result.folder)
    for name, run in result.named_runs:
        stem = "winner" if isinstance(result, TuneResult) else f"winner-{name}"
        write_text(folder / f"{stem}.j2", run.best.template or "")
        write_text(folder / f"{stem}.txt", run.best.prompt or "")
    write_json(folder / "result.json", {"format": RUN_FORMAT, **result.as_dict()})
    write_json(folder / "provenance.json", asdict(result.provenance))


def describe(experiment: Experiment, command: str | None) -> Provenance:
    """Returns the provenance of an experiment, with the command that runs it again."""
    import yaml

    facts: dict[str, Mapping[str, Any]] = {
        "Model": experiment.vlm.identity,
        "Mapper": experiment.mapper.identity(),
        "Proposer": experiment.proposer.identity(),
        "Data": _data_facts(experiment),
        "Software": _versions(),
    }
    settings = yaml.safe_dump(experiment.settings, sort_keys=False, allow_unicode=True)
    images = {}
    photos = {}
    for example in (*experiment.splits.tuning, *experiment.splits.heldout):
        images[example.id] = str(example.image)
        if example.box is not None:
            photos[example.id] = (str(example.photo), example.box)
    source = experiment.recipe.source
    texts = {group: as_texts(values) for group, values in facts.items()}
    return Provenance(
        facts=texts,
        recipe=redact(settings),
        command=command,
        images=images,
        photos=photos,
        source=None if source is None else str(source),
    )


def _data_facts(experiment: Experiment) -> dict[str, Any]:
    """Returns facts about the images and the label tree."""
    settings = experiment.settings
    splits = experiment.splits
    data = settings.get("data", {})
    images = f"{len(splits.tuning)} tuning, {len(splits.heldout)} held-out, disjoint by content"
    tree = settings.get("taxonomy", {}).get("path", experiment.full_taxonomy.source)
    taxonomy = f"{tree}, {len(experiment.taxonomy):,} nodes"
    if experiment.part is not None:
        taxonomy += f", restricted to {experiment.part.label}"
    context = [f"{variable.name} ({variable.kind})" for variable in experiment.context]
    return {
        "source": data.get("path", data.get("kind")),
        "images": images,
        "taxonomy": taxonomy,
        "context": ", ".join(context),
        "domain": experiment.taxonomy.labels[experiment.domain],
        "seed": experiment.recipe.seed,
    }


def _versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that a run depends on."""
    versions = {"Python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns facts as a provenance has them: named in words, none empty, and without passwords."""
    texts = {}
    for key, value in values.items():
        if value not in (None, ""):
            texts[key.replace("_", " ")] = redact(str(value))
    return texts


def read_result(folder: str | Path) -> TuneResult | ComparisonResult:
    """Reads a run or a comparison back from its folder.

    Raises:
        DataError: If there is no finished run in the folder, or its files cannot be read.
    """
    folder = Path(folder)
    file = folder / "result.json"
    if not file.exists():
        if is_begun(folder):
            raise DataError(
                "The run is not finished.", file=folder, remedy="Finish it with --resume first."
            )
        remedy = "Give the folder used as --out for `taxtune tune` or `taxtune compare`."
        raise DataError("The folder does not contain a tuning run.", file=folder, remedy=remedy)
    data = _json(file)
    if data.pop("format", None) != RUN_FORMAT:
        raise DataError(
            "The file is not a result of a tuning run of this version of taxtune.",
            file=file,
            remedy="Give a folder written by this version, or tune again into another folder.",
        )
    try:
        return _result(data, folder)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"The file is not a result of a tuning run: {str(error).splitlines()[0]}.",
            file=file,
            remedy="Give a folder written by `taxtune tune` or `taxtune compare`.",
        ) from error


def _result(data: dict[str, Any], folder: Path) -> TuneResult | ComparisonResult:
    from pydantic import TypeAdapter

    data = {**data, "folder": str(folder)}
    data.pop("usage", None)
    runs = data.pop("runs", None)
    file = folder / "provenance.json"
    if file.exists():
        data["provenance"] = _json(file)
    if runs is None:
        return TypeAdapter(TuneResult).validate_python(data)
    made = [_result(run, folder / run["objective"]) for run in runs]
    comparison = TypeAdapter(ComparisonResult).validate_python({**data, "runs": ()})
    tuned = [run for run in made if isinstance(run, TuneResult)]
    return replace(comparison, runs=tuple(tuned))


def _json(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"The file cannot be read: {error}.", file=file) from error
    if not isinstance(data, dict):
        raise DataError("The file is not a JSON object.", file=file)
    return data


def finished_run(folder: Path) -> TuneResult:
    """Returns the run of a folder; a `DataError` if it holds no finished run, or several."""
    result = read_result(folder)
    if not isinstance(result, TuneResult):
        names = " or ".join(run.folder for run in result.runs) or "the folder of a tuning run"
        raise DataError(
            "The folder does not hold one tuning run.", file=folder, remedy=f"Give {names}."
        )
    return result


def images_of(result: TuneResult) -> Path | None:
    """Returns the folder or the table of images that a run was given in Python, while it is there."""
    settings = load_yaml(result.provenance.recipe or "")
    data = settings.get("data") if isinstance(settings, dict) else None
    if not isinstance(data, dict) or data.get("kind") != "python":
        return None
    path = Path(str(data.get("path")))
    return path if path.exists() else None


def recipe_of(result: TuneResult, *, given: Collection[str] = ()) -> Recipe:
    """Returns the recipe that a run was made with, as its record has it, without its proposer.

    Args:
        result: The run.
        given: Groups that an object replaces again ("vlm", "taxonomy", "mapper"), or that are not
            needed ("data").

    Raises:
        RecipeError: If the record cannot be read, or the run was made with an object given in
            Python and there is none.
    """
    from pydantic import ValidationError
    from yaml import YAMLError

    file = Path(result.folder) / "provenance.json"
    source = result.provenance.source
    try:
        data = dict(load_yaml(result.provenance.recipe or ""))
        # A record that does not know the key is of a run that read alone.
        data["mapper"] = {"arbiter": None, **(data.get("mapper") or {})}
        python = set()
        for group, settings in data.items():
            if isinstance(settings, dict) and settings.get("kind") == "python":
                python.add(group)
        for group in sorted(python & {"vlm", "taxonomy", "data", "mapper"} - set(given)):
            raise RecipeError(
                f"The run's {group} was given in Python.",
                file=file,
                remedy=f"Give the same {group} in Python, or the recipe (recipe=, or --recipe).",
            )
        for group in python | {"proposer", "objective"}:
            settings = data.pop(group, None) or {}
            if group in STAND_INS:
                kept = {key: settings[key] for key in settings if key not in _REPLACED}
                data[group] = {**STAND_INS[group], **kept}
        return Recipe.model_validate(data).from_file(None if source is None else Path(source))
    except (YAMLError, RecursionError, TypeError, ValueError) as error:
        problem = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"]))
            problem = f"{key}: {first['msg']}"
        raise RecipeError(
            f"The run's recipe cannot be used: {problem}",
            file=file,
            remedy="Give the recipe (recipe=, or --recipe).",
        ) from error
