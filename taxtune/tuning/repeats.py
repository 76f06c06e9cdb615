"""The same tuning run several times with other seeds: how much of a result is the luck of one search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from taxtune.atomic import write_json, write_text
from taxtune.errors import TaxtuneError
from taxtune.progress import track_each
from taxtune.tracking import Group
from taxtune.tuning.account import Account, sum_accounts
from taxtune.tuning.callbacks import Callbacks
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.history import check_unused, group_identity
from taxtune.tuning.loop import Tuner
from taxtune.tuning.records import TemplateScores, TuneResult
from taxtune.tuning.run_folder import check_folder_is_for

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["RepeatsResult", "Spread", "check_repeats", "repeat_folder", "repeat_name", "repeat_tuning"]


@dataclass(frozen=True, slots=True)
class Spread:
    """A number in several runs.

    Attributes:
        runs: How many have it.
        mean: Its mean over them.
        sd: Standard deviation over them, with n - 1; None of a single run.
        lowest: The smallest.
        highest: The largest.
    """

    runs: int
    mean: float
    sd: float | None
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Returns the spread of at least one number."""
        return cls(len(values), fmean(values), stdev(values) if len(values) > 1 else None, min(values), max(values))


@dataclass(frozen=True)
class RepeatsResult:
    """A tuning run repeated with other seeds of proposer and model, on the same images.

    How far the winners' scores spread is the luck of the search. All were tuned on the same images and scored on the
    same others: what other images would change is in each run's own intervals, and not in the spread.

    Attributes:
        name: The recipe's name.
        objective: The objective's name.
        runs: The runs, in order.
        seeds: The seeds of each, by what they seed.
        folder: The folder, with a sub-folder a run.
        where: Where to look: commands and files, by what they show.
    """

    name: str
    objective: str
    runs: tuple[TuneResult, ...]
    seeds: tuple[dict[str, int], ...]
    folder: str
    where: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        hp = self.winners["hp"]
        return (
            f"RepeatsResult({self.name!r}, objective={self.objective!r}, runs={len(self.runs)}, "
            f"held-out hP: {hp.mean:.3f} ({hp.lowest:.3f} to {hp.highest:.3f}), folder={self.folder!r})"
        )

    @property
    def winners(self) -> dict[str, Spread]:
        """The held-out scores of the winners, by name."""
        return self._spreads(lambda run: _scores(run.heldout_winner.scores))

    @property
    def baselines(self) -> dict[str, Spread]:
        """The held-out scores of the baseline, by name: all alike, unless the model samples."""
        return self._spreads(lambda run: _scores(run.heldout[0].scores))

    @property
    def differences(self) -> dict[str, Spread]:
        """The differences winner minus baseline on the held-out images, by name."""
        return self._spreads(lambda run: {key: d.difference for key, d in run.differences[0].metrics.items()})

    @property
    def account(self) -> Account:
        """What was asked of whom in all runs, and what that cost."""
        return sum_accounts([run.account for run in self.runs])

    def _spreads(self, scores: Callable[[TuneResult], dict[str, float]]) -> dict[str, Spread]:
        found = [scores(run) for run in self.runs]
        return {key: Spread.of([each[key] for each in found if key in each]) for key in found[0]}

    def to_frame(self) -> DataFrame:
        """Returns a row a run: its seeds, its winner, the winner's scores on both splits and the differences."""
        import pandas as pd

        rows = []
        for number, (run, seeds) in enumerate(zip(self.runs, self.seeds, strict=True), 1):
            winner, tuned = run.heldout_winner, run.best.scores
            changes = run.differences[0].metrics
            rows.append(
                {
                    "repeat": number,
                    **{f"seed_{key}": value for key, value in seeds.items()},
                    "winner": run.winner,
                    "value": run.best.value,
                    **_scores(winner.scores),
                    **{f"tuning_{key}": value for key, value in ({} if tuned is None else _scores(tuned)).items()},
                    **{f"{key}_difference": found.difference for key, found in changes.items()},
                    **{f"{key}_p": found.p_value for key, found in changes.items()},
                    "template": winner.template,
                }
            )
        return pd.DataFrame(rows)

    def report(self, path: str | Path | None = None) -> Path:
        """Writes the report as one HTML file.

        Args:
            path: The file; `report.html` in the folder where left out.

        Raises:
            TaxtuneError: If it cannot be written.
        """
        from taxtune.report.repeats import render_repeats

        file = Path(self.folder) / "report.html" if path is None else Path(path)
        return write_text(file, render_repeats(self))

    def as_dict(self) -> dict[str, Any]:
        """Returns the summary as plain values, as `result.json` has it; each run's own is in its folder."""
        frame = self.to_frame()
        return {
            "name": self.name,
            "objective": self.objective,
            "repeats": [
                {key: None if value != value else value for key, value in row.items()}
                for row in frame.astype(object).to_dict("records")
            ],
            "winners": {key: asdict(value) for key, value in self.winners.items()},
            "baselines": {key: asdict(value) for key, value in self.baselines.items()},
            "differences": {key: asdict(value) for key, value in self.differences.items()},
            "account": self.account.as_dict(),
            "folder": self.folder,
            "where": self.where,
        }


def _scores(scores: TemplateScores) -> dict[str, float]:
    return {key: scores.get(key) for key in scores.keys()}  # noqa: SIM118 - not a mapping


def check_repeats(repeats: int) -> None:
    """Checks that there is something to repeat.

    Raises:
        TaxtuneError: If there are fewer than two repeats.
    """
    if repeats < 2:
        raise TaxtuneError("A run is repeated at least twice.", value=repeats, remedy="For example: --repeats 5")


def repeat_folder(folder: Path, k: int) -> Path:
    """Returns the folder of the k-th repeat, from 0."""
    return folder / f"repeat-{k + 1}"


def repeat_name(name: str, k: int) -> str:
    """Returns what the k-th repeat, from 0, is called in the history's database and in MLflow."""
    return f"{name}-repeat-{k + 1}"


def repeat_tuning(
    experiment: Experiment,
    folder: Path,
    repeats: int,
    *,
    callbacks: Sequence[Any] = (),
    resume: bool = False,
    command: str | None = None,
) -> RepeatsResult:
    """Runs an experiment several times, each with other seeds of proposer and model, on the same images.

    The first has the seeds of the experiment itself, each further one those of the one before plus one. They share the
    answer store `answers.db` in the folder, so that a template that several try, the baseline above all, is asked once,
    unless the model samples, when every repeat has samples of its own.

    Args:
        experiment: What is tuned.
        folder: Where the summary is kept; each run has a sub-folder.
        repeats: How many runs, at least 2. With `resume` there may be more than there were.
        callbacks: Told what happens in every run; see `Tuner`.
        resume: Go on with runs that are already in the folder.
        command: The command that runs it again, for the reports.

    Raises:
        TaxtuneError: If a run cannot start or go on.
    """
    check_repeats(repeats)
    check_folder_is_for("repeat", folder)
    if not resume:
        for k in range(repeats):
            check_unused(repeat_folder(folder, k))
    folders = [repeat_folder(folder, k) for k in range(repeats)]
    group = Group("repeats", experiment.name, group_identity(experiment.name, folder, folders))
    runs, seeds = [], []
    for k in track_each(range(repeats), "repeats"):
        # Made one after the other: by then the weights are loaded, and a repeat that samples otherwise shares them.
        made = experiment.repeated(k, repeat_name(experiment.name, k))
        seeds.append({"split": made.seeds.split, "proposer": made.seeds.proposer, "model": made.seeds.model})
        tuner = Tuner(
            made,
            repeat_folder(folder, k),
            answers=folder / "answers.db",
            callbacks=callbacks,
            resume=resume,
            group=group,
            command=command,
        )
        runs.append(tuner.run())
    result = RepeatsResult(
        name=experiment.name,
        objective=experiment.objective.name,
        runs=tuple(runs),
        seeds=tuple(seeds),
        folder=str(folder),
        where={"report": str(folder / "report.html"), "repeats": str(repeat_folder(folder, 0).with_name("repeat-*"))},
    )
    write_json(folder / "result.json", result.as_dict())
    result.report()
    Callbacks(callbacks).tell("on_repeats", result, group)
    return result
