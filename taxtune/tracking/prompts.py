"""A run's templates as versions of a prompt in MLflow's registry.

A recipe has one prompt. Its baseline is the first version that a run registers, each template that became the best so
far is one after it, and an alias named after the objective is on the winner's; the runs of a comparison share versions
and differ in the alias.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from taxtune.report.wording import best_so_far, metric_name, number
from taxtune.tracking.values import TAG_LIMIT, cut, headline_metrics
from taxtune.tuning.records import IterationRecord, TuneResult

__all__ = ["Version", "prompt_name", "register", "versions_of"]

_RUN, _ITERATION = "taxtune.run", "taxtune.iteration"
BASELINE = "baseline"


@dataclass(frozen=True)
class Version:
    """A template that is to be a version of a prompt.

    Attributes:
        iteration: The iteration that it is from.
        template: The Jinja source, kept exactly.
        message: Why it was tried and what came of it.
        tags: Scores and the like.
        aliases: Names by which to find it.
    """

    iteration: int
    template: str
    message: str
    tags: dict[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


def prompt_name(name: str) -> str:
    """Returns a run's name as a prompt's; characters that MLflow does not take become dashes."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-") or "taxtune"


def versions_of(result: TuneResult) -> Iterator[Version]:
    """Yields the baseline, each template that became the best so far, and the winner, in the order of iterations."""
    held = {each.template: each.scores for each in result.heldout}
    before: IterationRecord | None = None
    for record, best in zip(result.iterations, best_so_far(result.iterations), strict=True):
        wins, became_best = record.iteration == result.winner, best is not before and best is record
        before = best
        if record.template is None or not (record.iteration == 0 or became_best or wins):
            continue
        scores = {
            f"heldout.{key}": f"{value:.4f}" for key, value in headline_metrics(held.get(record.template)).items()
        }
        aliases: tuple[str, ...] = (BASELINE,) if record.iteration == 0 else ()
        if wins:
            aliases += (re.sub(r"[^\w-]+", "-", result.objective),)
        tags = {"objective": result.objective, _ITERATION: str(record.iteration), **scores}
        yield Version(record.iteration, record.template, _message(record, result.objective), tags, aliases)


def _message(record: IterationRecord, objective: str) -> str:
    """Returns why a template was tried, as its proposer has it, and what came of it on the tuning images."""
    value = "" if record.value is None else f": {metric_name(objective)} {number(record.value)}"
    scored = f"{value} on {len(record.rows)} tuning images."
    if record.iteration == 0:
        return f"The baseline{scored}"
    why = "; ".join(f"{key}: {text}" for key, text in record.parameters.items())
    turns = [turn.tool or "text" for turn in record.trace]
    if not why and turns:
        why = f"proposed in {len(turns)} steps: {', '.join(turns)}"
    return cut(f"Iteration {record.iteration}{scored}{f' {why[0].upper()}{why[1:]}.' if why else ''}", 1_000)


def register(
    client: Any, name: str, versions: Iterator[Version], *, root: str, runs: Mapping[int, list[str]]
) -> dict[int, str]:
    """Registers versions of a prompt, each once however often this is called; the default store must be the client's.

    Args:
        client: An `mlflow.MlflowClient`.
        name: The prompt's name.
        versions: The versions.
        root: Id of the run that registers them: of a comparison the one above its runs, which share versions.
        runs: Ids of the runs to link each version to, by iteration.

    Returns:
        The versions' addresses, "prompts:/NAME/VERSION", by iteration.
    """
    known = {each.template: int(each.version) for each in _registered(client, name) if each.tags.get(_RUN) == root}
    addresses = {}
    for each in versions:
        if each.template not in known:
            made = client.register_prompt(name, each.template, commit_message=each.message, tags={_RUN: root})
            known[each.template] = int(made.version)
        number = known[each.template]
        for key, value in each.tags.items():  # not with the version: MLflow would give them to the prompt, too
            client.set_prompt_version_tag(name, number, key, cut(value, TAG_LIMIT))
        for alias in each.aliases:
            client.set_prompt_alias(name, alias, number)
        addresses[each.iteration] = f"prompts:/{name}/{number}"
        for run in runs.get(each.iteration, ()):
            client.link_prompt_version_to_run(run, addresses[each.iteration])
    return addresses


def _registered(client: Any, name: str) -> Iterator[Any]:
    if client.get_prompt(name) is None:
        return
    token = None
    while True:
        page = client.search_prompt_versions(name, page_token=token)
        yield from page
        token = page.token
        if not token:
            return
