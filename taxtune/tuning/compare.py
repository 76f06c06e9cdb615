"""Runs with different objectives from the same baseline, splits, seed and answers, and templates side by side."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from taxtune.atomic import make_folder
from taxtune.errors import TaxtuneError
from taxtune.models import AnswerStore
from taxtune.progress import track_each
from taxtune.tuning.evaluation import compare_templates
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.loop import Callbacks, Group, Tuner
from taxtune.tuning.records import ComparisonResult, TuneResult
from taxtune.tuning.run_folder import describe, files_shown, write_result

__all__ = ["check_objectives", "compare_objectives", "evaluate_templates"]


def check_objectives(names: Sequence[str]) -> None:
    """Raises a `TaxtuneError` if fewer than two different objectives are given."""
    if len(set(names)) != len(names) or len(names) < 2:
        raise TaxtuneError(
            "A comparison needs at least two different objectives.",
            value=" ".join(names) or None,
            remedy="For example: --objective hp --objective accuracy",
        )


def compare_objectives(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    callbacks: Sequence[Any] = (),
    resume: bool = False,
    command: str | None = None,
) -> ComparisonResult:
    """Runs one tuning run an experiment and compares the winners on the same held-out images.

    The runs share the answer store `answers.db` in the folder, so that a template that several try, the baseline above
    all, is asked once.

    Args:
        experiments: The same experiment with two or more different objectives.
        folder: Where the comparison is kept; each run has a sub-folder that is named after its objective.
        callbacks: As in `Tuner`, like what follows.
        resume: Go on with runs that are already in the folder.
        command: The command that runs it again.
    """
    told, first, name = Callbacks(callbacks), experiments[0], experiments[0].recipe.name
    group: Group | None = Group(
        name, f"{name}-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]}"
    )
    answers, runs = folder / "answers.db", list[TuneResult]()
    for experiment in track_each(experiments, "objectives"):
        how: dict[str, Any] = {
            "callbacks": callbacks,
            "resume": resume,
            "group": group,
            "command": command,
        }
        tuner = Tuner(experiment, folder / experiment.objective.name, answers=answers, **how)
        runs.append(tuner.run())
        group = tuner.group
    start = time.monotonic()
    sources = {"baseline": runs[0].heldout[0].template}
    sources |= {run.objective: run.heldout_winner.template for run in runs}
    templates = {name: first.rules.parse(source) for name, source in sources.items()}
    metrics = {
        name: metric for experiment in experiments for name, metric in experiment.metrics.items()
    }
    with AnswerStore(answers) as store:
        evaluator = replace(
            first.evaluator(store),
            metrics=tuple(metrics.values()),
            needs=tuple(
                dict.fromkeys(need for each in experiments for need in each.objective.needs)
            ),
        )
        heldout, differences = compare_templates(
            first, evaluator, templates, partial(told.tell, "on_heldout")
        )
    result = ComparisonResult(
        name=name,
        runs=tuple(runs),
        heldout=heldout,
        differences=differences,
        folder=str(folder),
        where=files_shown(folder) | told.where(),
        provenance=describe(first, command),
        seconds=sum(run.usage.seconds for run in runs) + time.monotonic() - start,
    )
    write_result(result)
    told.tell("on_result", result)
    told.tell("on_comparison", result, group)
    return result


def evaluate_templates(
    experiment: Experiment,
    templates: Mapping[str, str],
    folder: Path,
    *,
    split: Literal["heldout", "tuning"] = "heldout",
    called: str | None = None,
    callbacks: Sequence[Any] = (),
) -> ComparisonResult:
    """Scores templates on the same images and compares each later one with each earlier one.

    The result is written to a folder of its own in `evaluated`; what was evaluated under the same name before is
    replaced.

    Args:
        experiment: The tree, the images and the model.
        templates: Jinja sources by name, the baseline first.
        folder: Where `answers.db` is kept.
        split: The images to ask about.
        called: Name of the folder in `evaluated`; the templates' names where left out.
        callbacks: Told which template is asked, and the result.
    """
    answers, told, start = folder / "answers.db", Callbacks(callbacks), time.monotonic()
    with AnswerStore(answers) as store:
        tell = partial(told.tell, "on_heldout")
        heldout, differences = compare_templates(
            experiment,
            experiment.evaluator(store),
            {name: experiment.rules.parse(source) for name, source in templates.items()},
            tell,
            split=split,
        )
    name = re.sub(r"[^\w.-]+", "-", called or "-".join(list(templates)[1:]))[:100]
    kept = make_folder(
        folder / "evaluated" / (name if split == "heldout" else f"{name}-on-{split}-images")
    )
    result = ComparisonResult(
        name=experiment.recipe.name,
        runs=(),
        heldout=heldout,
        differences=differences,
        folder=str(kept),
        where={"report": str(kept / "report.html"), "answers": str(answers)},
        provenance=describe(experiment, None),
        seconds=time.monotonic() - start,
    )
    write_result(result)
    told.tell("on_result", result)
    return result
