"""The history of a tuning run: an Optuna study in a database, one trial an iteration.

Optuna brings the storage, the Pareto front and a dashboard (`optuna-dashboard sqlite:///RUN/history.db`). What taxtune
adds is that nothing is done twice: a trial's number is the iteration's number, its template is stored before the first
question is asked, and a trial whose worker died is taken over, template and all. `leases.py` tells who lives.

Optuna's own heartbeat is not used: `optuna.storages.fail_stale_trials` closes a trial for good, so that its iteration
would begin anew under another number, and the resumed run would not be the run that would have been.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sqlite3
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock
from pydantic import TypeAdapter

from taxtune.atomic import write_json
from taxtune.errors import MissingExtraError, ResumeError, TaxtuneError
from taxtune.record_lines import read_lines
from taxtune.store_server import shown
from taxtune.tuning.databases import database_problem
from taxtune.tuning.leases import Leases, make_table
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
    "group_identity",
    "is_begun",
    "read_attributes",
    "read_records",
    "study_name",
]

_RECORD = TypeAdapter(IterationRecord)
_PROPOSAL = TypeAdapter(Proposal)
_HASH = re.compile(r"[0-9a-f]{16,64}")
_SHOWN = 5
_POLL_SECONDS = 0.5
# Of the identity of runs that were begun when it could not be raised.
_FREED = frozenset({"recipe.max_missing"})
# In the run's folder: what `read_attributes` returns, which so needs no database.
_ATTRIBUTES = "history.json"


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
    """Iterations of one tuning run, in a database.

    Any number of processes can work on one run: in one folder, or on several machines, each with a folder of its own
    and a `storage` that all of them reach.

    Args:
        folder: The run's folder; gets `history.jsonl`, the workers' locks and, without a `storage`, `history.db`.
        name: Name of the study.
        identity: Everything that must not change between the run's start and its resumption, by dotted key.
        resume: Whether to go on with what is there; otherwise an existing history is an error.
        details: What the hashes among the identity stand for, by the same key: a mapping from an item's name to what it
            is, so that a message can say which items changed.
        storage: The database as SQLAlchemy writes it, such as "postgresql+psycopg://user@host/database"; `history.db`
            in the folder where left out.
        machine: What this machine is called, for the other workers; its network name where left out.
        patience: Seconds without a sign of life after which a worker of another machine counts as dead.

    Raises:
        ResumeError: If there is a history and `resume` is false, or its identity differs (the message says in what).
        TaxtuneError: If the database cannot be opened.
        MissingExtraError: If the database needs a package that is not installed.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        identity: Mapping[str, Any],
        *,
        resume: bool,
        details: Mapping[str, Mapping[str, Any]] | None = None,
        storage: str | None = None,
        machine: str | None = None,
        patience: float = 60.0,
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.folder, self.name = folder, name
        self._server = storage is not None
        self._locks = folder / ".locks"
        self._made_folder = not folder.exists()
        self._held: set[int] = set()
        # What was read: an iteration costs the same whatever came before it.
        self._records: dict[int, IterationRecord] = {}
        self._templates: dict[int, str] = {}
        self._ids: dict[int, int] = {}
        self._settled = 0  # trials from the first on of which nothing is left to read
        self._file = RecordFile(folder / "history.jsonl", self._locks / "history.lock")
        # Before anything is made: a database out of reach leaves no folder behind.
        (is_begun if resume else check_unused)(folder, name, storage)
        made = False
        with _opened(_url(folder, storage)):
            try:
                self._locks.mkdir(parents=True, exist_ok=True)
                with FileLock(self._locks / "create.lock"):
                    made = not is_begun(folder, name, storage)
                    self._storage = _open(_url(folder, storage))
                    if not (made or self._server):
                        self._check_name(optuna.get_all_study_names(self._storage))
                    self._leases = Leases(self._storage.engine, name, self._locks, machine=machine, patience=patience)
                    with self.alone("create"):
                        self._study = optuna.create_study(
                            study_name=name, storage=self._storage, directions=["maximize"] * 2, load_if_exists=True
                        )
                        self._study_id = self._storage.get_study_id_from_name(name)
                        self._check_identity(_plain(identity), _plain(details or {}))
            except BaseException:
                if hasattr(self, "_leases"):
                    self.close()
                if made:
                    self._remove()
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
        """Gives up the iterations that this process holds; the next process to open the history takes them over."""
        self._leases.close()
        self._storage.remove_session()
        self._storage.engine.dispose()

    def discard(self) -> None:
        """Removes a history that nothing was gained in, so that the same command can simply be given again.

        A history with a finished iteration stays, and so does one that another process is at work on.
        """
        if not self._locks.is_dir():  # deleted, and not to be made again
            return
        # Whatever goes wrong here, what led here is to be told.
        with contextlib.suppress(Exception), FileLock(self._locks / "create.lock"):
            if not self.records() and not self._leases.others():
                self._remove()

    def claimed(self) -> bool:
        """Tells whether any iteration was begun."""
        return bool(self._study.get_trials(deepcopy=False))

    def _remove(self) -> None:
        import optuna

        if self._server:
            with contextlib.suppress(Exception):
                self._leases.clear()
                optuna.delete_study(study_name=self.name, storage=self._storage)
        if hasattr(self, "_leases"):
            self.close()
        names = (_ATTRIBUTES, *(() if self._server else ("history.db", "history.db-*")))
        for path in (*(file for name in names for file in self.folder.glob(name)), *self._locks.glob("*.lock")):
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
        stored = self._study.user_attrs
        notes = {key: value for key, value in stored.items() if key.startswith("note:")}
        write_json(self.folder / _ATTRIBUTES, {**stored["identity"], **notes})

    # -- iterations ----------------------------------------------------------------------------------------------------

    def claim(self, total: int, *, new: bool = True) -> Claim | None:
        """Returns an iteration to work on, or None where all of 0..`total` are done.

        An iteration that a dead worker left behind comes first, with whatever it had stored. Where there is none left
        but those that living workers hold, this waits, since one of them may die.

        Args:
            total: The last iteration.
            new: Whether to begin new iterations, too.
        """
        while True:
            with self.alone("claim"):
                trials = self._read()
                running = [t.number for t in trials if not t.state.is_finished() and t.number not in self._held]
                found = next(filter(None, map(self._take, running)), None)
                if found is None and new and len(trials) <= total:
                    # Not `Study.ask`, whose sampler looks at all trials before.
                    self._storage.create_new_trial(self._study_id)
                    found = self._take(len(trials))
                    if found is None:
                        continue  # another worker, which had taken this one for dead, began it first
            if found is not None or not running:
                return found
            time.sleep(_POLL_SECONDS)

    def _take(self, number: int) -> Claim | None:
        if not self._leases.take(f"iteration {number}"):
            return None
        trial = self._storage.get_trial(self._id(number))
        if trial.state.is_finished():  # a moment ago
            self._leases.release(f"iteration {number}")
            return None
        self._held.add(number)
        if self._server:
            self._set(number, machine=self._leases.machine)
        stored = trial.user_attrs
        return Claim(
            number,
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
            TaxtuneError: If another worker took the iteration over, since this one gave no sign of life for so long; or
                the history was deleted, see `check_there`.
        """
        from optuna.trial import TrialState

        self.check_there()
        number, scores = record.iteration, record.scores
        if not self._leases.renew(f"iteration {number}"):
            raise TaxtuneError(
                f"Another worker has taken over iteration {number} because this one had not responded for a while.",
                file=self.folder,
                remedy="This machine may have been asleep, or the database out of reach. Continue with --resume.",
            )
        shown: dict[str, Any] = {"state": record.state, "reason": record.reason}
        if scores is not None:
            shown = {"hP": scores.hp, "hR": scores.hr, "value": record.value, "feasible": record.feasible}
        self._set(number, **shown, record=_RECORD.dump_python(record, mode="json"))
        state, values = (TrialState.FAIL, None) if scores is None else (TrialState.COMPLETE, [scores.hp, scores.hr])
        self._storage.set_trial_state_values(self._id(number), state, values)
        self._leases.release(f"iteration {number}")
        self._held.discard(number)
        if not self._server:
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
        if not (self._server or (self.folder / "history.db").exists()):
            raise TaxtuneError(
                "The run's folder was deleted or moved while the run was going on.",
                file=self.folder,
                remedy="If it was moved, continue with --resume and its new place as --out. Else start the run again.",
            )

    def write(self) -> None:
        """Puts `history.jsonl` in order, which a process that died may have left behind the database."""
        self._file.complete(self.records())

    def records(self) -> list[IterationRecord]:
        """Returns the finished iterations in their order, other workers' included; reads only what is new."""
        self._read()
        return self.known()

    def known(self) -> list[IterationRecord]:
        """Returns the finished iterations in their order, as they were last read."""
        return [self._records[number] for number in sorted(self._records)]

    def templates(self) -> tuple[str, ...]:
        """Returns every template that was proposed so far, those that another process is just asking with included."""
        self._read()
        return tuple(self._templates[number] for number in sorted(self._templates))

    def _read(self) -> list[FrozenTrial]:
        """Reads what this worker does not know yet; returns all trials, as Optuna keeps them in memory."""
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

    def alone(self, what: str) -> AbstractContextManager[None]:
        """Holds off other processes of this run that want to do the same, until the block ends."""
        return self._leases.held(what)

    @contextmanager
    def unless_busy(self, what: str) -> Iterator[bool]:
        """Holds off other processes as `alone` does, unless one is at it already; gives whether none was."""
        free = self._leases.take(what)
        try:
            yield free
        finally:
            if free:
                self._leases.release(what)

    def _id(self, number: int) -> int:
        if number not in self._ids:
            found = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
            self._ids[number] = int(found)
        return self._ids[number]

    def _set(self, number: int, **attributes: Any) -> None:
        for key, value in attributes.items():
            self._storage.set_trial_user_attr(self._id(number), key, value)


def is_begun(folder: Path, name: str, storage: str | None = None) -> bool:
    """Tells whether a run has a history already; arguments as for `History`.

    Raises:
        TaxtuneError: If the database of the storage cannot be opened.
    """
    import optuna

    if storage is None:
        return (folder / "history.db").exists()
    with _opened(storage):
        database = _open(storage)
        try:
            return name in optuna.get_all_study_names(database)
        finally:
            database.engine.dispose()


def check_unused(folder: Path, name: str, storage: str | None = None) -> None:
    """Checks that there is no such tuning run yet; arguments as for `History`.

    Raises:
        ResumeError: If there is.
        TaxtuneError: If the database of the storage cannot be opened.
    """
    if not is_begun(folder, name, storage):
        return
    if storage is None:
        raise ResumeError(
            f"The folder {str(folder)!r} already holds a tuning run.",
            remedy="Continue it (`--resume`, in Python `resume=True`) or choose another folder (`--out`, `out=`).",
        )
    raise ResumeError(
        f"The database {shown(storage)} already holds a tuning run called {name!r}.",
        remedy="Continue it (--resume) or give this run another name (--set name=NAME).",
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


def _url(folder: Path, storage: str | None = None) -> str:
    return storage or f"sqlite:///{(folder / 'history.db').resolve()}"


def _open(url: str) -> Any:
    """Returns Optuna's storage, with all tables made."""
    from optuna.storages import RDBStorage
    from sqlalchemy.engine import make_url

    local = make_url(url).get_backend_name() == "sqlite"
    # Another worker may be writing to the file; a connection to a server may have been idle for too long.
    options = {"connect_args": {"timeout": 60, "factory": _Connection}} if local else {"pool_pre_ping": True}
    for again in (True, True, False):
        try:
            storage = RDBStorage(url, engine_kwargs=options)
            make_table(storage.engine)
            _grown().create(storage.engine, checkfirst=True)
            return storage
        except Exception as error:
            # Where several workers make the tables in the same moment, all but one are told that they are there.
            if not again or database_problem(error) is None:
                raise
    return None


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
def _opened(url: str) -> Iterator[None]:
    """Tells what is wrong with a database in words for people."""
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    try:
        yield
    except TaxtuneError:
        raise
    except (ArgumentError, NoSuchModuleError) as error:
        raise TaxtuneError(
            f"SQLAlchemy cannot use the history's storage: {error}.",
            remedy="Write it as postgresql+psycopg://USER@HOST/DATABASE, or omit it to use a file in the run's folder.",
        ) from error
    except ImportError as error:
        if not url.startswith("postgresql"):
            raise
        raise MissingExtraError("psycopg", "postgresql", "A history in PostgreSQL") from error
    except Exception as error:
        problem = error.strerror if isinstance(error, OSError) else database_problem(error)
        if problem is None:
            raise
        if url.startswith("sqlite"):
            raise TaxtuneError(
                f"The history cannot be opened: {problem}.",
                file=url.removeprefix("sqlite:///"),
                remedy="The disk may be full or read-only, or the file is not an SQLite database. Choose another "
                "folder with --out.",
            ) from error
        raise TaxtuneError(
            f"The history in {shown(url)} cannot be opened: {problem}.",
            remedy="Check that the server is running and reachable, and that user, password and database are right.",
        ) from error


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


def study_name(name: str, objective: str, storage: str | None) -> str:
    """Returns the name of a run's study: a server's database holds many runs, those of a comparison among them."""
    return name if storage is None else f"{name}-{objective}"


def group_identity(name: str, folder: Path, runs: Sequence[Path], storage: str | None) -> str:
    """Returns what joins the runs of a comparison in a record: the same for all workers, and after a move.

    Args:
        name: What the comparison is called.
        folder: Its folder.
        runs: The folders of its runs; what is noted there counts, since the folder may have been moved.
        storage: The address of the histories' database, which its workers share in place of the folder.
    """
    for run in runs:
        if (known := read_attributes(run).get("note:group")) is not None:
            return str(known)
    place = str(folder.resolve()) if storage is None else shown(storage)
    return f"{name}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


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
