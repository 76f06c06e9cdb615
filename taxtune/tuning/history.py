"""The history of a tuning run: an Optuna study in a database, one trial an iteration.

Optuna brings the storage, the Pareto front and room for several workers. What taxtune adds is that nothing is done
twice: a trial's number is the iteration's number, its template is stored before the first question is asked, and a
trial whose worker died is taken over, template and all, by the next process that opens the history. Whether a worker
lives is told by a file lock that the operating system drops when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from taxtune.atomic import write_text
from taxtune.errors import ResumeError, TaxtuneError
from taxtune.tuning.databases import database_problem
from taxtune.tuning.proposers.base import Proposal
from taxtune.tuning.records import IterationRecord, upgraded

__all__ = ["Claim", "History", "best", "check_unused", "read_attributes", "read_records"]

_RECORD = TypeAdapter(IterationRecord)
_PROPOSAL = TypeAdapter(Proposal)
_HASH = re.compile(r"[0-9a-f]{16,64}")
_SHOWN = 5
# Of the identity of runs that were begun when it could not be raised.
_FREED = frozenset({"recipe.max_missing"})


@dataclass(frozen=True, slots=True)
class Claim:
    """An iteration that this process works on.

    Attributes:
        iteration: Its number; 0 is the baseline.
        proposal: What was proposed before the process that held it died; None where nothing was.
        record: The finished record, where the process died just before closing the iteration.
    """

    iteration: int
    proposal: Proposal | None = None
    record: IterationRecord | None = None


class History:
    """Iterations of one tuning run, on disk.

    Args:
        folder: The run's folder; holds `history.db`, `history.jsonl` and the locks.
        name: Name of the study.
        identity: Everything that must not change between the run's start and its resumption, by dotted key.
        resume: Whether to go on with what is there; otherwise an existing history is an error.
        details: What the hashes among the identity stand for, by the same key: a mapping from an item's name to what it
            is, so that a message can say which items changed.

    Raises:
        ResumeError: If there is a history and `resume` is false, or its identity differs (the message says in what).
        TaxtuneError: If the database cannot be opened.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        identity: Mapping[str, Any],
        *,
        resume: bool,
        details: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.folder = folder
        self._database = folder / "history.db"
        self._locks = folder / ".locks"
        self._worker = uuid.uuid4().hex
        self._made_folder = not folder.exists()
        if not resume:
            check_unused(folder)
        made = False
        try:
            self._locks.mkdir(parents=True, exist_ok=True)
            self._alive = FileLock(self._worker_lock(self._worker))
            with FileLock(self._locks / "create.lock"):
                made = not self._database.exists()
                storage = f"sqlite:///{self._database.resolve()}"
                if not made:
                    self._check_name(optuna.get_all_study_names(storage), name)
                self._study = optuna.create_study(
                    study_name=name, storage=storage, directions=["maximize", "maximize"], load_if_exists=True
                )
                self._check_identity(_plain(identity), _plain(details or {}))
                self._alive.acquire()
        except BaseException as error:
            if made:
                self._remove()
            if not isinstance(error, Exception):
                raise
            problem = error.strerror if isinstance(error, OSError) else database_problem(error)
            if problem is None:
                raise
            raise TaxtuneError(
                f"The history cannot be opened: {problem}.",
                file=self._database,
                remedy="Is the disk full or read-only, or the file no database? Choose another folder with --out.",
            ) from error

    def _check_name(self, known: Sequence[str], name: str) -> None:
        if known and name not in known:
            raise _changed(self.folder, [f"  recipe.name: was {_show(known[0])}, is {_show(name)}"])

    def _check_identity(self, identity: dict[str, Any], details: dict[str, Any]) -> None:
        known = self._study.user_attrs.get("identity")
        if known is None:
            self._study.set_user_attr("identity", identity)
            self._study.set_user_attr("details", details)
            return
        keys = [key for key in sorted(known.keys() | identity.keys()) if known.get(key) != identity.get(key)]
        keys = [key for key in keys if key not in _FREED]
        before = self._study.user_attrs.get("details", {})
        changed = []
        for key in keys:
            if f"recipe.{key}" in keys:
                continue  # the model's own word for what the recipe says
            if key in before and key in details:
                changed += [f"  {key}: {line}" for line in _differences(before[key], details[key])]
            elif _HASH.fullmatch(str(known.get(key))) and _HASH.fullmatch(str(identity.get(key))):
                changed.append(f"  {key}: the content has changed")
            else:
                changed.append(f"  {key}: was {_show(known.get(key))}, is {_show(identity.get(key))}")
        if changed:
            raise _changed(self.folder, changed)

    def close(self) -> None:
        """Gives up the iterations that this process holds; the next process to open the history takes them over."""
        self._alive.release()
        self._worker_lock(self._worker).unlink(missing_ok=True)

    def discard(self) -> None:
        """Removes a history that nothing was gained in, so that the same command can simply be given again.

        A history with a finished iteration stays, and so does one that another process is at work on.
        """
        # Whatever goes wrong here, what led here is to be told.
        with contextlib.suppress(Exception), FileLock(self._locks / "create.lock"):
            others = (path.stem.removeprefix("worker-") for path in self._locks.glob("worker-*.lock"))
            if self.records() or any(other != self._worker and self._lives(other) for other in others):
                return
            self._study._storage.remove_session()
            self._alive.release()
            self._remove()

    def claimed(self) -> bool:
        """Tells whether any iteration was begun."""
        return bool(self._study.get_trials(deepcopy=False))

    def _remove(self) -> None:
        files = [self._database, *self.folder.glob("history.db-*"), *self._locks.glob("*.lock")]
        for path in files:
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            self._locks.rmdir()
            if self._made_folder:
                self.folder.rmdir()

    # -- notes of the run ----------------------------------------------------------------------------------------------

    def note(self, key: str) -> Any:
        """Returns what was stored under `key`, or None."""
        return self._study.user_attrs.get(f"note:{key}")

    def set_note(self, key: str, value: Any) -> None:
        """Stores a JSON value under `key`, as part of the run."""
        self._study.set_user_attr(f"note:{key}", value)

    # -- iterations ----------------------------------------------------------------------------------------------------

    def claim(self, total: int) -> Claim | None:
        """Returns an iteration to work on, or None where all of 0..total are done or held by living workers.

        An iteration that a dead worker left behind comes first, with whatever it had stored.
        """
        from optuna.trial import TrialState

        with FileLock(self._locks / "claim.lock"):
            trials = self._study.get_trials(deepcopy=False)
            for trial in trials:
                if trial.state == TrialState.RUNNING and not self._lives(trial.user_attrs.get("worker")):
                    self._set(trial.number, "worker", self._worker)
                    attributes = trial.user_attrs
                    return Claim(
                        trial.number,
                        _PROPOSAL.validate_python(attributes["proposal"]) if "proposal" in attributes else None,
                        _RECORD.validate_python(upgraded(attributes["record"])) if "record" in attributes else None,
                    )
            if len(trials) > total:
                return None
            number = self._study.ask().number
            self._set(number, "worker", self._worker)
            return Claim(number)

    def propose(self, claim: Claim, proposal: Proposal) -> None:
        """Stores what is about to be asked, so that a crash does not lose it."""
        self._set(claim.iteration, "proposal", _PROPOSAL.dump_python(proposal, mode="json"))

    def finish(self, record: IterationRecord) -> None:
        """Stores a finished iteration and closes its trial."""
        from optuna.trial import TrialState

        self._set(record.iteration, "record", _RECORD.dump_python(record, mode="json"))
        if record.scores is None:
            self._study.tell(record.iteration, state=TrialState.FAIL)
        else:
            self._study.tell(record.iteration, [record.scores.hp, record.scores.hr])
        self.write()

    def write(self) -> None:
        """Writes `history.jsonl`, which a process that died may have left behind the database."""
        with FileLock(self._locks / "jsonl.lock"):
            lines = [json.dumps(_RECORD.dump_python(r, mode="json"), ensure_ascii=False) for r in self.records()]
            write_text(self.folder / "history.jsonl", "".join(line + "\n" for line in lines))

    def records(self) -> list[IterationRecord]:
        """Returns the finished iterations in their order."""
        trials = self._study.get_trials(deepcopy=False)
        return [
            _RECORD.validate_python(upgraded(trial.user_attrs["record"]))
            for trial in trials
            if trial.state.is_finished() and "record" in trial.user_attrs
        ]

    def templates(self) -> tuple[str, ...]:
        """Returns every template that was proposed so far, those that another process is just asking with included."""
        trials = self._study.get_trials(deepcopy=False)
        proposals = (trial.user_attrs["proposal"] for trial in trials if "proposal" in trial.user_attrs)
        return tuple(_PROPOSAL.validate_python(proposal).template for proposal in proposals)

    def others_at_work(self) -> bool:
        """Tells whether a living worker of another process holds an unfinished iteration."""
        from optuna.trial import TrialState

        running = (t for t in self._study.get_trials(deepcopy=False) if t.state == TrialState.RUNNING)
        return any(t.user_attrs.get("worker") != self._worker for t in running)

    def pareto(self) -> tuple[int, ...]:
        """Returns the iterations that no other beats in both hP and hR, ascending."""
        return tuple(sorted(trial.number for trial in self._study.best_trials))

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Holds off other processes of this run that want to do the same, until the block ends."""
        with FileLock(self._locks / f"{what}.lock"):
            yield

    def _set(self, number: int, key: str, value: Any) -> None:
        from optuna.trial import Trial as OptunaTrial

        trial_id = self._study._storage.get_trial_id_from_study_id_trial_number(self._study._study_id, number)
        OptunaTrial(self._study, trial_id).set_user_attr(key, value)

    def _worker_lock(self, worker: str) -> Path:
        return self._locks / f"worker-{worker}.lock"

    def _lives(self, worker: str | None) -> bool:
        if worker == self._worker:
            return True
        # A trial without a worker's name was asked for by a process that died while it held the claim lock.
        if worker is None or not self._worker_lock(worker).exists():
            return False
        try:
            with FileLock(self._worker_lock(worker), timeout=0):
                return False
        except Timeout:
            return True


def check_unused(folder: Path) -> None:
    """Checks that a folder holds no tuning run yet.

    Raises:
        ResumeError: If it does.
    """
    if (folder / "history.db").exists():
        raise ResumeError(
            f"The folder {str(folder)!r} already holds a tuning run.",
            remedy="Go on with it (--resume) or write elsewhere (--out DIR).",
        )


def read_attributes(folder: Path) -> dict[str, Any]:
    """Returns the identity of a run by dotted key, and beside it its notes as "note:KEY"; nothing is changed.

    Args:
        folder: The run's folder, which holds a history.

    Raises:
        TaxtuneError: If the history cannot be read.
    """
    import optuna

    try:
        storage = f"sqlite:///{(folder / 'history.db').resolve()}"
        attributes = dict(optuna.get_all_study_summaries(storage, include_best_trial=False)[0].user_attrs)
    except Exception as error:
        problem = database_problem(error) or ("it holds no run" if isinstance(error, IndexError) else None)
        if problem is None:
            raise
        raise TaxtuneError(f"The history cannot be read: {problem}.", file=folder / "history.db") from error
    return {**attributes.pop("identity", {}), **{k: v for k, v in attributes.items() if k.startswith("note:")}}


def best(records: Sequence[IterationRecord]) -> IterationRecord | None:
    """Returns the winner: the feasible iteration of the highest value, the earliest of equals.

    Where no iteration is feasible the one of the highest value, which for "hp" is the one nearest to the hR floor.
    """
    complete = [record for record in records if record.value is not None]
    return max(complete, key=lambda r: (r.feasible, r.value, -r.iteration), default=None)


def read_records(folder: Path) -> list[IterationRecord]:
    """Returns the finished iterations of a run in their order; nothing is changed.

    Args:
        folder: The run's folder, which holds a history.

    Raises:
        TaxtuneError: If the history cannot be read.
    """
    import optuna

    try:
        storage = f"sqlite:///{(folder / 'history.db').resolve()}"
        (name,) = optuna.get_all_study_names(storage)
        trials = optuna.load_study(study_name=name, storage=storage).get_trials(deepcopy=False)
    except Exception as error:
        problem = database_problem(error) or ("it holds no run" if isinstance(error, ValueError) else None)
        if problem is None:
            raise
        raise TaxtuneError(f"The history cannot be read: {problem}.", file=folder / "history.db") from error
    return [
        _RECORD.validate_python(upgraded(trial.user_attrs["record"]))
        for trial in trials
        if trial.state.is_finished() and "record" in trial.user_attrs
    ]


def _changed(folder: Path, lines: Sequence[str]) -> ResumeError:
    return ResumeError(
        "The run in this folder was made from another recipe or other data:\n"
        + "\n".join(lines)
        + "\nUndo the change, or write elsewhere with --out DIR.",
        file=folder,
    )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns what became of named items: which are gone, which are new, and which are not what they were."""
    gone, new = [key for key in before if key not in now], [key for key in now if key not in before]
    other = [key for key in now if key in before and before[key] != now[key]]
    lines = [f"{len(names)} {what}: {_some(names)}" for what, names in (("gone", gone), ("new", new)) if names]
    for key in other[:_SHOWN]:
        fields = [field for field in now[key] if before[key].get(field) != now[key][field]]
        told = [
            f"another {field}"
            if _HASH.fullmatch(str(now[key][field]))
            else f"{field} was {_show(before[key].get(field))}, is {_show(now[key][field])}"
            for field in fields
        ]
        lines.append(f"{key}: {', '.join(told)}")
    if len(other) > _SHOWN:
        lines.append(f"{len(other) - _SHOWN} more are not what they were")
    return lines or ["in another order"]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(value, default=str)))


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"
