"""What was run: the facts that somebody needs to judge a result or to run it again."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.report.wording import Result, redact, result_runs
from taxtune.tuning.records import ComparisonResult

if TYPE_CHECKING:
    from taxtune.tuning.session import Session

__all__ = ["Provenance", "describe"]

_PACKAGES = ("taxtune", "torch", "transformers", "litellm", "optuna", "mlflow", "numpy", "pillow")


@dataclass(frozen=True, slots=True)
class Provenance:
    """What was run.

    Attributes:
        facts: Groups of facts ("Model", "Data", ...), each by name.
        recipe: The recipe in full, with every default, as YAML; None where it is not known.
        command: The command that runs it again, given that recipe.
        images: Image files by example id.
    """

    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    recipe: str | None = None
    command: str | None = None
    images: Mapping[str, Path] = field(default_factory=dict)


def describe(result: Result, session: Session) -> Provenance:
    """Returns what a session ran."""
    import yaml

    recipe, splits = session.recipe, session.splits
    data = recipe.settings()["data"]
    usage = [record.usage for run in result_runs(result) for record in run.iterations]
    facts: dict[str, dict[str, str]] = {
        "Model": _texts(session.vlm.identity),
        "Mapper": _texts(session.mapper.identity()),
        "Proposer": _texts(session.proposer.identity()),
        "Data": _texts(
            {
                "source": data.get("path", data["kind"]),
                "images": f"{len(splits.tuning)} tuning, {len(splits.heldout)} held-out, disjoint by content",
                "taxonomy": f"{recipe.taxonomy.path}, {len(session.taxonomy):,} nodes"
                + ("" if session.part is None else f", restricted to {session.part.label}"),
                "domain": session.taxonomy.labels[session.domain],
                "seed": recipe.seed,
            }
        ),
        "Effort": _texts(
            {
                "answers asked": f"{sum(use.asked for use in usage):,} on the tuning split",
                "from the answer store": f"{sum(use.from_store for use in usage):,}",
                "tokens": f"{sum(u.vlm_prompt_tokens + u.vlm_completion_tokens for u in usage):,} model, "
                f"{sum(u.proposer_prompt_tokens + u.proposer_completion_tokens for u in usage):,} proposer",
                "cost": _cost([c for u in usage for c in (u.vlm_cost_usd, u.proposer_cost_usd) if c is not None]),
                "time": f"{sum(use.seconds for use in usage):,.0f} s in iterations",
            }
        ),
        "Software": {"Python": platform.python_version(), **_versions()},
    }
    text = yaml.safe_dump(recipe.settings(), sort_keys=False, allow_unicode=True)
    command = "taxtune tune recipe.yaml"
    if isinstance(result, ComparisonResult):
        command = "taxtune compare recipe.yaml" + "".join(f" --objective {run.objective}" for run in result.runs)
    images = {example.id: example.image for example in (*splits.tuning, *splits.heldout)}
    return Provenance(facts, redact(text), command, images)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key.replace("_", " "): redact(str(value)) for key, value in values.items() if value not in (None, "")}


def _cost(known: list[float]) -> str:
    return f"{sum(known):.4f} US dollars, as far as prices are known" if known else "no price is known"


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
