"""The history of a tuning run: an Optuna study in a database, one trial an iteration.

Optuna brings the storage, the Pareto front and a dashboard (`optuna-dashboard sqlite:///RUN/history.db`). What taxtune
adds is that nothing is done twice: a trial's number is the iteration's number, its template is stored before the first
question is asked, and a trial whose process died is taken up again, template and all. One process works on a run at a
time: it locks the run's folder, and the operating system drops that lock when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from taxtune.atomic import write_json
from taxtune.errors import ResumeError, TaxtuneError
from taxtune.record_lines import read_lines
from taxtune.tuning.proposers.base import Proposal
from taxtune.tuning.record_file import RecordFile
from taxtune.tuning.records import IterationRecord, upgraded

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from sqlalchemy import Table

__all__ = [
    "Claim",
    "History",
    "best",
    "check_unused",
    "database_problem",
    "group_identity",
    "is_begun",
    "read_attributes",
    "read_records",
]

_RECORD = TypeAdapter(IterationRecord)
_PROPOSAL = TypeAdapter(Proposal)
_HASH = re.compile(r"[0-9a-f]{16,64}")
_SHOWN = 5
# Of the identity of runs that were begun when it could not be raised.
_FREED = frozenset({"recipe.max_missing"})
# In the run's folder: what `read_attributes` returns, which so needs no database; and what a running process locks.
_ATTRIBUTES, _LOCK = "history.json", ".lock"


@cache
def _grown() -> Table:
    """The records that grew after their iteration was finished: Optuna closes trials for good."""
    from sqlalchemy import Column, Integer, MetaData, String, Table, Text

    return Table(
        "taxtune_grown",
        MetaData(),
        Column("run", String(250), primary_key=True),
        Column("iteration", Integer, primary_key=True),
        Column("images", Integer, nullable=False),
        Column("record", Text, nullable=False),
    )


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
    """Iterations of one tuning run, in a database that one process works on at a time.

    Args:
        folder: The run's folder; gets `history.db`, `history.jsonl` and `.lock`, locked while the run goes on.
        name: Name of the study.
        identity: Everything that must not change between the run's start and its resumption, by dotted key.
        resume: Whether to go on with what is there; otherwise an existing history is an error.
        details: What the hashes among the identity stand for, by the same key: a mapping from an item's name to what it
            is, so that a message can say which items changed.

    Raises:
        ResumeError: If there is a history and `resume` is false, its identity differs (the message says in what), or
            another process works on the run.
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
        self.folder, self.name = folder, name
        if not resume:
            check_unused(folder)
        self._made_folder = not folder.exists()
        # What was read: an iteration costs the same whatever came before it.
        self._records: dict[int, IterationRecord] = {}
        self._templates: dict[int, str] = {}
        self._ids: dict[int, int] = {}
        self._settled = 0  # trials from the first on of which nothing is left to read
        self._file = RecordFile(folder / "history.jsonl")
        self._lock = FileLock(folder / _LOCK, timeout=0, thread_local=False)
        url = f"sqlite:///{(folder / 'history.db').resolve()}"
        with _opened(folder):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire()
            except Timeout:
                raise ResumeError(
                    "Another process is working on the run in this folder.",
                    file=folder,
                    remedy="Wait for it to finish, or choose another folder (`--out`, in Python `out=`).",
                ) from None
            made = not is_begun(folder)
            try:
                self._storage = _open(url)
                if not made:
                    self._check_name(optuna.get_all_study_names(self._storage))
                self._study = optuna.create_study(
                    study_name=name, storage=self._storage, directions=["maximize"] * 2, load_if_exists=True
                )
                self._study_id = self._storage.get_study_id_from_name(name)
                self._check_identity(_plain(identity), _plain(details or {}))
            except BaseException:
                if made:
                    self._remove()
                self.close()
                raise

    def _check_name(self, known: Sequence[str]) -> None:
        if known and self.name not in known:
            raise _changed(self.folder, [f"  recipe.name: was {_show(known[0])}, is {_show(self.name)}"])

    def _check_identity(self, identity: dict[str, Any], details: dict[str, Any]) -> None:
        known = self._study.user_attrs.get("identity")
        if known is None:
            with warnings.catch_warnings():  # Optuna calls names of values experimental
                warnings.simplefilter("ignore")
                self._study.set_metric_names(["hP", "hR"])
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
        """Closes the database and lets other processes go on with the run."""
        if hasattr(self, "_storage"):
            self._storage.remove_session()
            self._storage.engine.dispose()
        self._lock.release()

    def discard(self) -> None:
        """Removes a history without a finished iteration, so that the same command can simply be given again."""
        # Whatever goes wrong here, what led here is to be told. A folder that was deleted is not made again.
        with contextlib.suppress(Exception):
            if (self.folder / "history.db").exists() and not self.records():
                self._remove()

    def claimed(self) -> bool:
        """Tells whether any iteration was begun."""
        return bool(self._study.get_trials(deepcopy=False))

    def _remove(self) -> None:
        self.close()
        for path in (self.folder / _ATTRIBUTES, self.folder / _LOCK, *self.folder.glob("history.db*")):
            path.unlink(missing_ok=True)
        if self._made_folder:
            with contextlib.suppress(OSError):  # it holds something else
                self.folder.rmdir()

    # -- notes of the run ----------------------------------------------------------------------------------------------

    def note(self, key: str) -> Any:
        """Returns what was stored under `key`, or None."""
        return self._study.user_attrs.get(f"note:{key}")

    def set_note(self, key: str, value: Any) -> None:
        """Stores a JSON value under `key`, as part of the run."""
        self._study.set_user_attr(f"note:{key}", value)
        stored = self._study.user_attrs
        notes = {key: value for key, value in stored.items() if key.startswith("note:")}
        write_json(self.folder / _ATTRIBUTES, {**stored["identity"], **notes})

    # -- iterations ----------------------------------------------------------------------------------------------------

    def claim(self, total: int, *, new: bool = True) -> Claim | None:
        """Returns an iteration to work on, or None where all of 0..`total` are done.

        An iteration that an earlier process left behind comes first, with whatever it had stored.

        Args:
            total: The last iteration.
            new: Whether to begin a new iteration where none was left behind.
        """
        trials = self._read()
        open_trial = next((trial for trial in trials[self._settled :] if not trial.state.is_finished()), None)
        if open_trial is None:
            if not new or len(trials) > total:
                return None
            self._storage.create_new_trial(self._study_id)  # not `Study.ask`, whose sampler looks at all trials before
            return Claim(len(trials))
        stored = open_trial.user_attrs
        return Claim(
            open_trial.number,
            _PROPOSAL.validate_python(stored["proposal"]) if "proposal" in stored else None,
            _RECORD.validate_python(upgraded(stored["record"])) if "record" in stored else None,
        )

    def propose(self, claim: Claim, proposal: Proposal) -> None:
        """Stores what is about to be asked, so that a crash does not lose it."""
        proposed = _PROPOSAL.dump_python(proposal, mode="json")
        self._set(claim.iteration, template=proposal.template, proposal=proposed)

    def finish(self, record: IterationRecord) -> None:
        """Stores a finished iteration and closes its trial.

        Raises:
            TaxtuneError: If the history was deleted, see `check_there`.
        """
        from optuna.trial import TrialState

        self.check_there()
        number, scores = record.iteration, record.scores
        shown: dict[str, Any] = {"state": record.state, "reason": record.reason}
        if scores is not None:
            shown = {"hP": scores.hp, "hR": scores.hr, "value": record.value, "feasible": record.feasible}
        self._set(number, **shown, record=_RECORD.dump_python(record, mode="json"))
        state, values = (TrialState.FAIL, None) if scores is None else (TrialState.COMPLETE, [scores.hp, scores.hr])
        self._storage.set_trial_state_values(self._id(number), state, values)
        with self._storage.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")  # to the disk
        self._file.append(self.records())

    def grow(self, record: IterationRecord) -> None:
        """Stores a finished iteration anew, with the rows of more images."""
        self.check_there()
        table, which = _grown(), {"run": self.name, "iteration": record.iteration}
        text = json.dumps(_RECORD.dump_python(record, mode="json"))
        with self._storage.engine.begin() as connection:
            connection.execute(table.delete().where(*(table.c[key] == value for key, value in which.items())))
            connection.execute(table.insert().values(**which, images=len(record.rows), record=text))
        self._file.append(self.records())

    def check_there(self) -> None:
        """Checks that the history is still in its folder: a database that is open can be written to after its deletion.

        Raises:
            TaxtuneError: If it is not.
        """
        if not (self.folder / "history.db").exists():
            raise TaxtuneError(
                "The run's folder was deleted or moved while the run was going on.",
                file=self.folder,
                remedy="If it was moved, continue with --resume and its new place as --out. Else start the run again.",
            )

    def write(self) -> None:
        """Puts `history.jsonl` in order, which a process that died may have left behind the database."""
        self._file.complete(self.records())

    def records(self) -> list[IterationRecord]:
        """Returns the finished iterations in their order; reads only what is new."""
        self._read()
        return self.known()

    def known(self) -> list[IterationRecord]:
        """Returns the finished iterations in their order, as they were last read."""
        return [self._records[number] for number in sorted(self._records)]

    def templates(self) -> tuple[str, ...]:
        """Returns every template that was proposed so far, that of an unfinished iteration included."""
        self._read()
        return tuple(self._templates[number] for number in sorted(self._templates))

    def _read(self) -> list[FrozenTrial]:
        """Reads what is not known yet; returns all trials, as Optuna keeps them in memory."""
        trials = self._study.get_trials(deepcopy=False)  # of the database it reads new and unfinished ones
        while self._settled < len(trials) and trials[self._settled].number in self._records:
            self._settled += 1
        for trial in trials[self._settled :]:
            number, stored = trial.number, trial.user_attrs
            if number not in self._templates and "proposal" in stored:
                self._templates[number] = _PROPOSAL.validate_python(stored["proposal"]).template
            if number not in self._records and trial.state.is_finished() and "record" in stored:
                self._records[number] = _RECORD.validate_python(upgraded(stored["record"]))
        from sqlalchemy import select

        grown, ours = _grown(), _grown().c.run == self.name
        with self._storage.engine.connect() as connection:
            for number, images in connection.execute(select(grown.c.iteration, grown.c.images).where(ours)).all():
                if len(self._records[number].rows) != images:
                    this = select(grown.c.record).where(ours, grown.c.iteration == number)
                    found = json.loads(connection.execute(this).scalar_one())
                    self._records[number] = _RECORD.validate_python(upgraded(found))
        return list(trials)

    def _id(self, number: int) -> int:
        if number not in self._ids:
            found = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
            self._ids[number] = int(found)
        return self._ids[number]

    def _set(self, number: int, **attributes: Any) -> None:
        for key, value in attributes.items():
            self._storage.set_trial_user_attr(self._id(number), key, value)


def is_begun(folder: Path) -> bool:
    """Tells whether the run in a folder has a history already."""
    return (folder / "history.db").exists()


def check_unused(folder: Path) -> None:
    """Checks that a folder holds no tuning run yet.

    Raises:
        ResumeError: If it does.
    """
    if is_begun(folder):
        raise ResumeError(
            f"The folder {str(folder)!r} already holds a tuning run.",
            remedy="Continue it (`--resume`, in Python `resume=True`) or choose another folder (`--out`, `out=`).",
        )


def read_attributes(folder: Path) -> dict[str, Any]:
    """Returns the identity of a run by dotted key, and beside it its notes as "note:KEY"; nothing is changed.

    Args:
        folder: The run's folder. Empty where it holds nothing of a history.

    Raises:
        TaxtuneError: If the history cannot be read.
    """
    file = folder / _ATTRIBUTES
    if not file.exists():
        return {}
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise TaxtuneError(f"What the run was made from cannot be read: {error}.", file=file) from error


def _open(url: str) -> Any:
    """Returns Optuna's storage, with all tables made."""
    from optuna.storages import RDBStorage

    storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": 60, "factory": _Connection}})
    _grown().create(storage.engine, checkfirst=True)
    return storage


class _Connection(sqlite3.Connection):
    """A connection that waits for the disk once an iteration, in `finish`, and not at every commit.

    A process that is killed loses nothing. What a power failure takes from the iteration under way is done again, with
    the answers of the store, which does wait.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        with contextlib.suppress(sqlite3.OperationalError):  # a file from before that somebody is reading
            if self.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",):
                self.execute("PRAGMA synchronous = NORMAL")


@contextmanager
def _opened(folder: Path) -> Iterator[None]:
    """Says in one message why a history cannot be opened."""
    try:
        yield
    except TaxtuneError:
        raise
    except Exception as error:
        problem = error.strerror if isinstance(error, OSError) else database_problem(error)
        if problem is None:
            raise
        raise TaxtuneError(
            f"The history cannot be opened: {problem}.",
            file=folder / "history.db",
            remedy="The disk may be full or read-only, or the file is not an SQLite database. Choose another folder "
            "with --out.",
        ) from error


def database_problem(error: BaseException) -> str | None:
    """Returns what SQLite said, without the SQL around it; None where the error comes from no database.

    Optuna and SQLAlchemy each wrap the error of the database below them; only the innermost says what happened.
    """
    from sqlalchemy.exc import SQLAlchemyError

    problem: str | None = None
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, sqlite3.Error):
            return str(link)
        if isinstance(link, SQLAlchemyError):
            problem = str(getattr(link, "orig", None) or link).split("\n", 1)[0]
        link = link.__cause__ or link.__context__
    return problem


def best(records: Sequence[IterationRecord]) -> IterationRecord | None:
    """Returns the winner: the feasible iteration of the highest value, the earliest of equals.

    Where no iteration is feasible the one of the highest value, which for "hp" is the one nearest to the hR floor.
    """
    complete = [record for record in records if record.value is not None]
    return max(complete, key=lambda r: (r.feasible, r.value, -r.iteration), default=None)


def read_records(folder: Path) -> list[IterationRecord]:
    """Returns the finished iterations of a run as `history.jsonl` has them; nothing is changed.

    Args:
        folder: The run's folder.

    Raises:
        TaxtuneError: If there is no such file, or it cannot be read.
    """
    file = folder / "history.jsonl"
    try:
        return [_RECORD.validate_python(upgraded(line)) for line in read_lines(file).values()]
    except (OSError, ValueError) as error:
        raise TaxtuneError(f"The history cannot be read: {str(error).splitlines()[0]}.", file=file) from error


def group_identity(name: str, folder: Path, runs: Sequence[Path]) -> str:
    """Returns what joins the runs of a comparison in a record, also after their folder was moved.

    Args:
        name: What the comparison is called.
        folder: Its folder.
        runs: The folders of its runs; what is noted there counts.
    """
    for run in runs:
        if (known := read_attributes(run).get("note:group")) is not None:
            return str(known)
    return f"{name}-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]}"


def _changed(folder: Path, lines: Sequence[str]) -> ResumeError:
    return ResumeError(
        "The run in this folder was made with a different recipe or different data:\n"
        + "\n".join(lines)
        + "\nUndo the change, or choose another folder with --out DIR.",
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
            f"a different {field}"
            if _HASH.fullmatch(str(now[key][field]))
            else f"{field} was {_show(before[key].get(field))}, is {_show(now[key][field])}"
            for field in fields
        ]
        lines.append(f"{key}: {', '.join(told)}")
    if len(other) > _SHOWN:
        lines.append(f"{len(other) - _SHOWN} more have changed")
    return lines or ["in a different order"]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(value, default=str)))


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"
