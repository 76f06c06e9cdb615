"""A finished run in its folder: what is written there for people, and how Python reads it back."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.atomic import write_json, write_text
from taxtune.errors import DataError
from taxtune.report.account import account_lines
from taxtune.tuning.account import Account
from taxtune.tuning.objective import Constraint
from taxtune.tuning.records import ComparisonResult, Provenance, TuneResult, upgraded
from taxtune.untrusted import redact

if TYPE_CHECKING:
    from taxtune.tuning.experiment import Experiment
    from taxtune.tuning.repeats import RepeatsResult

__all__ = ["as_texts", "describe", "places", "read_result", "write_result"]

# What `result.json` has for its readers and a result computes of its records.
_COMPUTED = ("account", "faults", "verdict")
_PACKAGES = ("taxtune", "torch", "transformers", "litellm", "optuna", "mlflow", "numpy", "pillow")


def places(folder: Path) -> dict[str, str]:
    """Returns the files that people look at, by what they show."""
    return {"report": str(folder / "report.html"), "plot": str(folder / "hp_hr.png")}


def write_result(result: TuneResult | ComparisonResult) -> None:
    """Writes the winning prompts with their templates, `result.json`, `provenance.json`, the figures and `report.html`.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    from taxtune.report.html import write_report

    folder = Path(result.folder)
    for name, run in result.named_runs:
        stem = "winner" if isinstance(result, TuneResult) else f"winner-{name}"
        write_text(folder / f"{stem}.j2", run.best.template or "")
        write_text(folder / f"{stem}.txt", run.best.prompt or "")
    write_json(folder / "result.json", result.as_dict())
    write_json(folder / "provenance.json", asdict(result.provenance))
    write_report(result, folder)


def read_result(folder: str | Path) -> TuneResult | ComparisonResult | RepeatsResult:
    """Reads a run, a comparison or a repeated run back from its folder.

    Args:
        folder: The folder of a tuning run, finished or not, of a comparison or of a repeated run.

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
        data = _json(file)
        return _repeats(data, folder) if "repeats" in data else _result(data, folder)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"The file is not a result of a tuning run: {str(error).splitlines()[0]}.",
            file=file,
            remedy="Give a folder written by `taxtune tune` or `taxtune compare`.",
        ) from error


def _said(error: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{error} is missing" if isinstance(error, KeyError) else str(error).splitlines()[0]


def _result(data: dict[str, Any], folder: Path) -> TuneResult | ComparisonResult:
    from pydantic import TypeAdapter

    pairs, full = data.pop("differences"), data.pop("full_differences", {})
    data = {key: value for key, value in upgraded(data).items() if key not in _COMPUTED} | {"folder": str(folder)}
    if (file := folder / "provenance.json").exists():
        data["provenance"] = _json(file)
    if "runs" in data:
        runs = [_result(run, folder / run["objective"]) for run in data.pop("runs")]
        data["differences"] = [
            {"name": key.split(" - ")[0], "other": key.split(" - ")[1], "metrics": found, "full": full.get(key, {})}
            for key, found in pairs.items()
        ]
        return replace(TypeAdapter(ComparisonResult).validate_python({**data, "runs": ()}), runs=tuple(runs))  # type: ignore[arg-type]
    data["differences"] = [{"name": "winner", "other": "baseline", "metrics": pairs, "full": full}] if pairs else []
    return TypeAdapter(TuneResult).validate_python(data)


def _repeats(data: dict[str, Any], folder: Path) -> RepeatsResult:
    from taxtune.tuning.repeats import RepeatsResult, repeat_folder

    rows = data["repeats"]
    folders = [repeat_folder(folder, k) for k in range(len(rows))]
    runs = [_result(_json(place / "result.json"), place) for place in folders]
    return RepeatsResult(
        name=data["name"],
        objective=data["objective"],
        runs=tuple(run for run in runs if isinstance(run, TuneResult)),
        seeds=tuple({key: int(row[f"seed_{key}"]) for key in ("split", "proposer", "model")} for row in rows),
        folder=str(folder),
        where=data["where"],
    )


def _unfinished(folder: Path) -> TuneResult:
    from taxtune.tuning.history import best, read_attributes, read_records

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
        constraints=tuple(Constraint(**each) for each in known.get("note:constraints", ())),
        trivial_hp=float("nan"),
        trivial_hr=float("nan"),
        winner=0 if winner is None else winner.iteration,
        iterations=tuple(records),
        pareto=(),
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


def describe(experiment: Experiment, account: Account, command: str | None) -> Provenance:
    """Returns what an experiment ran.

    Args:
        experiment: What was tuned.
        account: What was asked.
        command: The command that runs it again.
    """
    import yaml

    splits = experiment.splits
    data = experiment.settings.get("data", {})
    tree = experiment.settings.get("taxonomy", {}).get("path", experiment.full_taxonomy.source)
    facts: dict[str, dict[str, str]] = {
        "Model": as_texts(experiment.vlm.identity),
        "Mapper": as_texts(experiment.mapper.identity()),
        "Proposer": as_texts(experiment.proposer.identity()),
        "Data": as_texts(
            {
                "source": data.get("path", data.get("kind")),
                "images": f"{len(splits.tuning)} tuning, {len(splits.heldout)} held-out, disjoint by content",
                "taxonomy": f"{tree}, {len(experiment.taxonomy):,} nodes"
                + ("" if experiment.part is None else f", restricted to {experiment.part.label}"),
                "domain": experiment.taxonomy.labels[experiment.domain],
                "seed": experiment.seeds.model_dump(),
            }
        ),
        "Effort": dict(account_lines(account)),
        "Software": {"Python": platform.python_version(), **_versions()},
    }
    text = yaml.safe_dump(dict(experiment.settings), sort_keys=False, allow_unicode=True)
    images = {example.id: str(example.image) for example in (*splits.tuning, *splits.heldout)}
    source = None if experiment.source is None else str(experiment.source)
    return Provenance(facts, redact(text), command, images, source)


def as_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns facts as a run's provenance has them: named in words, without what is empty, and without passwords."""
    return {key.replace("_", " "): redact(str(value)) for key, value in values.items() if value not in (None, "")}


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
