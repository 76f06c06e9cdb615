"""The history of a tuning run: an Optuna study in a database, one trial an iteration.

Optuna brings the storage, the Pareto front and a dashboard (`optuna-dashboard
sqlite:///RUN/history.db`). taxtune adds that nothing is done twice: a trial's number is the
iteration's number, its template is stored before the first question is asked, and a trial whose
process died is taken up again, template and all. One process works on a run at a time: it locks the
run's folder, and the operating system drops that lock when the process ends, however it ends.

`history.jsonl` is an export of it: one line per finished iteration. While a run goes on, lines are
appended; of several lines of one iteration the last one counts, and one that does not end with a
newline counts for nothing. A run without a finished iteration has no such file, and is begun anew
when the recipe is another.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from taxtune.atomic import check_in_place, make_folder, output_error, write_text
from taxtune.errors import ResumeError, TaxtuneError
from taxtune.store import open_to_read
from taxtune.tuning.changes import changes_in_words
from taxtune.tuning.proposers.base import Proposal
from taxtune.tuning.records import RUN_FORMAT, IterationRecord

__all__ = [
    "Claim",
    "History",
    "check_resumable",
    "check_unused",
    "database_problem",
    "is_begun",
    "locked",
    "read_identity",
    "read_note",
]

_RECORD = TypeAdapter(IterationRecord)
_PROPOSAL = TypeAdapter(Proposal)
# Attributes of the study: notes, and the records, which later rungs change after Optuna has closed
# their trials for good.
_NOTE = "note:"
_IDENTITY = "identity"
_FINISHED = "record:"


class Claim(NamedTuple):
    """An iteration to work on.

    Attributes:
        iteration: Its number.
        proposal: What was proposed for it before the process that began it died.
    """

    iteration: int
    proposal: Proposal | None = None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[FileLock]:
    """Locks a run's folder, which is made if need be, for the block.

    Images may be read for minutes before the history is opened.

    Raises:
        ResumeError: If another process works on the run.
        TaxtuneError: If the folder cannot be made, or the file of the lock is a link.
    """
    lock = _acquired(folder)
    try:
        yield lock
    finally:
        lock.release()
        if not is_begun(folder):
            (folder / ".lock").unlink(missing_ok=True)


def _acquired(folder: Path) -> FileLock:
    file = make_folder(folder) / ".lock"
    check_in_place(file)
    lock = FileLock(file, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        message = "Another process is working on the run in this folder."
        remedy = "Wait for it to finish, or choose another folder (`--out`, in Python `out=`)."
        raise ResumeError(message, file=folder, remedy=remedy) from None
    return lock


class History:
    """Iterations of one tuning run, in a database that one process works on at a time.

    Args:
        folder: The run's folder. It gets `history.db`, `history.jsonl` and `.lock`, and is locked
            while the run goes on.
        name: Name of the study.
        identity: What the run is about (`identity_of`), noted when it begins and compared when it
            is resumed. None for a finished run that is only read and noted.
        anew: How a new run is begun, for the message of one that cannot be resumed.
        resume: Whether to go on with what is there; otherwise a finished iteration is an error.
        lock: The lock of the folder where the caller holds it; the history releases it.

    Raises:
        ResumeError: If `resume` is false and there is a history, its identity differs, or another
            process works on it.
        TaxtuneError: If the database cannot be opened, or is a link.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        identity: Mapping[str, Any] | None,
        *,
        resume: bool,
        anew: str = "choose another folder with --out DIR",
        lock: FileLock | None = None,
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.folder = folder
        self._file = folder / "history.jsonl"
        self._lock = lock or _acquired(folder)
        try:
            check_in_place(self._file, folder / "history.db")
            self._storage = optuna.storages.RDBStorage(
                f"sqlite:///{(folder / 'history.db').resolve()}",
                engine_kwargs={"connect_args": {"timeout": 60, "factory": _Connection}},
            )
            known = optuna.get_all_study_names(self._storage)
            self._study = optuna.create_study(
                study_name=known[0] if known else name,  # the identity has the name, too
                storage=self._storage,
                directions=["maximize", "maximize"],
                load_if_exists=True,
            )
            self._attributes: dict[str, Any] = self._study.user_attrs
            self._read()
            if not resume:
                check_unused(folder)
            if identity is not None:
                self._check_identity(_plain(identity), anew)
        except BaseException as error:
            self.close()
            problem = database_problem(error)
            if problem is None:
                raise
            raise _unreadable(folder, problem) from error

    def _read(self) -> None:
        """Reads what earlier processes stored, and writes `history.jsonl` anew.

        One that died may have left it behind.
        """
        trials = self._study.get_trials(deepcopy=False)
        self._trials = [trial._trial_id for trial in trials]
        self._proposals: dict[int, Proposal] = {}
        for trial in trials:
            proposal = trial.user_attrs.get("proposal")
            if proposal:
                self._proposals[trial.number] = _PROPOSAL.validate_python(proposal)
        stored = [value for key, value in self._attributes.items() if key.startswith(_FINISHED)]
        if stored:
            _check_format(self.folder, self._attributes.get("format"))
        records = [_RECORD.validate_python(value) for value in stored]
        records.sort(key=lambda record: record.iteration)
        self._records = {record.iteration: record for record in records}
        for trial in trials:
            is_closed = trial.state.is_finished()
            if trial.number in self._records and not is_closed:  # the process died in between
                self._close_trial(self._records[trial.number])
        if self._records:
            self.write()

    def _check_identity(self, identity: Mapping[str, Any], anew: str) -> None:
        """Notes what a run that begins is about; raises a `ResumeError` if it is another now."""
        known = self._attributes.get(_IDENTITY) or {}
        if self._records:
            _check_same(self.folder, known, identity, anew)
            return
        self._set_attribute("format", RUN_FORMAT)
        if known != identity:
            self._begin_anew(identity)

    def _begin_anew(self, identity: Mapping[str, Any]) -> None:
        """Forgets what another recipe has left, and stores the identity.

        The identity comes last: a process that dies in between must not leave what is another
        recipe's.
        """
        for key in list(self._attributes):
            if key.startswith(_NOTE):
                self._set_attribute(key, None)
        for number in self._proposals:
            self._set(number, proposal=None)
        self._proposals = {}
        self._set_attribute(_IDENTITY, identity)

    def close(self) -> None:
        """Closes the database and lets other processes go on with the run.

        A run without an iteration leaves nothing.
        """
        if hasattr(self, "_storage"):
            self._storage.remove_session()
            self._storage.engine.dispose()
        self._lock.release()
        if not getattr(self, "_records", True):
            for path in (self.folder / ".lock", *self.folder.glob("history.db*")):
                path.unlink(missing_ok=True)

    def note(self, key: str) -> Any:
        """Returns the value stored under `key`, or None."""
        return self._attributes.get(_NOTE + key)

    def set_note(self, key: str, value: Any) -> None:
        """Stores a JSON value under `key`, as part of the run."""
        self._set_attribute(_NOTE + key, _plain(value))

    def _set_attribute(self, key: str, value: Any) -> None:
        self._study.set_user_attr(key, value)
        self._attributes[key] = value

    def claim(self, total: int, *, new: bool = True) -> Claim | None:
        """Returns an iteration to work on, None if all of 0..`total` are done.

        One that an earlier process left unfinished comes first. If there is none, one is begun if
        `new`.
        """
        for number in range(len(self._trials)):
            if number not in self._records:
                return Claim(number, self._proposals.get(number))
        if not new or len(self._trials) > total:
            return None
        # Not `Study.ask`, whose sampler looks at all trials before.
        self._trials.append(self._storage.create_new_trial(self._study._study_id))
        return Claim(len(self._trials) - 1)

    def propose(self, claim: Claim, proposal: Proposal) -> None:
        """Stores what is about to be asked, so that a crash does not lose it."""
        proposed = _PROPOSAL.dump_python(proposal, mode="json")
        self._set(claim.iteration, template=proposal.template, proposal=proposed)
        self._proposals[claim.iteration] = proposal

    def finish(self, record: IterationRecord) -> None:
        """Stores a finished iteration, as `keep` does, and closes its trial."""
        self.keep(record)
        self._close_trial(record)
        with self._storage.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")  # to the disk

    def keep(self, record: IterationRecord) -> None:
        """Stores an iteration, anew where a further rung has added the rows of more images."""
        stored = _RECORD.dump_python(record, mode="json")
        self._study.set_user_attr(f"{_FINISHED}{record.iteration}", stored)
        self._records[record.iteration] = record
        try:
            with self._file.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(_line(record))
        except OSError as error:
            raise output_error(self._file, error) from error

    def _close_trial(self, record: IterationRecord) -> None:
        """Shows Optuna what came out."""
        from optuna.trial import TrialState

        number = record.iteration
        scores = record.scores
        if scores is None:
            self._set(number, state=record.state, reason=record.reason)
            self._storage.set_trial_state_values(self._trials[number], TrialState.FAIL)
            return
        self._set(number, hP=scores.hp, hR=scores.hr, value=record.value, feasible=record.feasible)
        means = [scores.hp, scores.hr]
        self._storage.set_trial_state_values(self._trials[number], TrialState.COMPLETE, means)

    def _set(self, number: int, **attributes: Any) -> None:
        for key, value in attributes.items():
            self._storage.set_trial_user_attr(self._trials[number], key, value)

    def write(self) -> None:
        """Writes `history.jsonl` anew, one line per iteration in order."""
        write_text(self._file, "".join(map(_line, self.records())))

    def records(self) -> list[IterationRecord]:
        """Returns the finished iterations in their order."""
        return list(self._records.values())

    def record(self, iteration: int) -> IterationRecord:
        """Returns a finished iteration."""
        return self._records[iteration]

    def templates(self) -> tuple[str, ...]:
        """Returns every template that was proposed so far, also of an unfinished iteration."""
        return tuple(self._proposals[number].template for number in sorted(self._proposals))


class _Connection(sqlite3.Connection):
    """A connection that waits for the disk once per iteration, in `finish`, not at every commit.

    What a power failure takes from the iteration under way is done again, with the answers of the
    store.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        with contextlib.suppress(sqlite3.OperationalError):  # another program reads the file
            self.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")


def database_problem(error: BaseException) -> str | None:
    """Returns SQLite's message without what wraps it, None if the error comes from no database."""
    link: BaseException | None = error
    while link is not None and not isinstance(link, sqlite3.Error):
        link = link.__cause__ or link.__context__
    return None if link is None else str(link)


def read_note(folder: Path, key: str) -> Any:
    """Returns a value that `History.set_note` stored for the run in a folder, or None."""
    return _read_attribute(folder, _NOTE + key)


def check_resumable(
    folder: Path, identity: Mapping[str, Any], anew: str, *, only: tuple[str, ...] = ("",)
) -> None:
    """Raises the error of a run that cannot go on, as a `History` does; writes nothing.

    `only` are beginnings of the keys that must be the same.
    """
    if is_begun(folder):
        _check_format(folder, _read_attribute(folder, "format"))
        known = read_identity(folder)
        now = _plain(identity)
        for key in [*known.keys(), *now.keys()]:
            if not key.startswith(only):
                known.pop(key, None)
                now.pop(key, None)
        _check_same(folder, known, now, anew)


def read_identity(folder: Path) -> dict[str, Any]:
    """Returns the identity of the run in a folder (`identity_of`), empty if it is not begun."""
    known: dict[str, Any] | None = _read_attribute(folder, _IDENTITY)
    return known or {}


def _read_attribute(folder: Path, key: str) -> Any:
    file = folder / "history.db"
    if not file.exists():
        return None
    query = "SELECT value_json FROM study_user_attributes WHERE key = ?"
    try:
        with contextlib.closing(open_to_read(file)) as connection:
            row = connection.execute(query, [key]).fetchone()
    except sqlite3.Error as error:
        raise _unreadable(folder, str(error)) from error
    return None if row is None else json.loads(row[0])


def _unreadable(folder: Path, problem: str) -> TaxtuneError:
    return TaxtuneError(
        f"The history cannot be opened: {problem}.",
        file=folder / "history.db",
        remedy="The disk may be full or read-only, or the file is not an SQLite database. Choose "
        "another folder with --out.",
    )


def _check_format(folder: Path, form: Any) -> None:
    if form != RUN_FORMAT:
        raise ResumeError(
            "The run in this folder was written by another version of taxtune.",
            file=folder,
            remedy="Choose another folder with --out DIR.",
        )


def _check_same(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any], anew: str) -> None:
    """Raises a `ResumeError` that names the changes, if a run is about something else now."""
    changes = changes_in_words(before, now)
    if changes:
        listed = "".join(f"\n  {line}" for line in changes)
        raise ResumeError(
            f"The run in this folder was made with other data or another recipe:{listed}\n"
            f"Begin a new run, which keeps the answers and asks only what is new:\n  {anew}\n"
            "Or undo the change.",
            file=folder,
        )


def is_begun(folder: Path) -> bool:
    """Tells whether the run in a folder has a finished iteration."""
    return (folder / "history.jsonl").exists()


def check_unused(folder: Path) -> None:
    """Raises a `ResumeError` if a folder holds a tuning run already."""
    if is_begun(folder):
        raise ResumeError(
            f"The folder {str(folder)!r} already holds a tuning run.",
            remedy="Continue it (`--resume`, in Python `resume=True`) or choose another folder "
            "(`--out`, `out=`).",
        )


def _line(record: IterationRecord) -> str:
    return json.dumps(_RECORD.dump_python(record, mode="json"), ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))
