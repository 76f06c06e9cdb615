"""The MLflow store of a run: where it is, whether it can be written, and how to look at it.

MLflow is loaded here, with its telemetry off, its chatter silenced and its patience with a server
that does not answer cut from minutes to seconds. Settings of the user's environment are kept.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shlex
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune import atomic
from taxtune.errors import TaxtuneError, command
from taxtune.progress import note
from taxtune.untrusted import redact

__all__ = [
    "DATABASE",
    "UI_ENVIRONMENT",
    "TrackingStore",
    "bring_along",
    "check_store",
    "in_force",
    "open_client",
    "open_store",
    "page_of",
    "record_folder",
    "short_reason",
    "store_uri",
    "unusable",
]

#: The database in a run's folder.
DATABASE = "mlflow.db"
#: The folder of artifacts beside it.
ARTIFACTS = "mlartifacts"
_OWN_DATABASE = re.compile(r"(sqlite|postgresql|mysql|mssql)\b")
#: The job runner of MLflow's pages is of no use here and loads litellm, which waits for a price list
#: without a network.
UI_ENVIRONMENT = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    # MLflow prints links on stdout, which belongs to results.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


@dataclass(frozen=True, slots=True)
class TrackingStore:
    """An open MLflow store and an experiment in it.

    Attributes:
        client: The `mlflow.MlflowClient`.
        uri: Tracking URI; it may hold a password, so show `redact(uri)` only.
        experiment: Id of the experiment, or "" before it is known.
        spans: Whether it takes the spans of traces; one in files does not.
    """

    client: Any
    uri: str
    experiment: str
    spans: bool = True

    def page(self, run: str | None = None) -> str:
        """Returns the address of a run's page on MLflow's server, or of the experiment's."""
        page = f"#/experiments/{self.experiment}"
        return page if run is None else f"{page}/runs/{run}"

    def where(self, run: str | None = None) -> str:
        """Returns the address of a tracking server, or the command that shows a local store."""
        if self.uri.startswith(("http://", "https://")):
            server = redact(self.uri).rstrip("/")
            return f"{server}/{self.page(run)}" if self.experiment else server
        database = _sqlite_path(self.uri)
        if database is None:
            return f"mlflow server --backend-store-uri {shlex.quote(redact(self.uri))}"
        file = database.relative_to(Path.cwd()) if database.is_relative_to(Path.cwd()) else database
        if file.name == DATABASE and file.parent != Path():
            file = file.parent
        return command("mlflow", file)


def store_uri(folder: str | Path, tracking_uri: str | None = None) -> str:
    """Returns the tracking URI: the argument, `MLFLOW_TRACKING_URI`, or a SQLite file in the folder."""
    chosen = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
    if chosen:
        return chosen
    database = Path(folder).resolve() / DATABASE
    atomic.check_in_place(database, database.with_name(ARTIFACTS))
    return f"sqlite:///{database.as_posix()}"


def _sqlite_path(uri: str) -> Path | None:
    if not uri.startswith("sqlite:///"):
        return None
    return Path(uri.removeprefix("sqlite:///").split("?")[0]).resolve()


def open_store(
    experiment: str, folder: str | Path, tracking_uri: str | None = None
) -> TrackingStore:
    """Opens the store and finds or makes the experiment.

    Args:
        experiment: Name of the experiment.
        folder: The run's folder; the artifacts of a store without a server lie in it, or beside its
            SQLite file.
        tracking_uri: See `store_uri`.

    Raises:
        TaxtuneError: If the store cannot be reached or written.
    """
    uri = store_uri(folder, tracking_uri)
    database = _sqlite_path(uri)
    if database is not None:
        _check_sqlite(database)
        bring_along(database)
    try:
        with _quiet():
            if database is not None and not database.exists():
                _make(database)
            client = open_client(uri)
            spans = takes_spans(uri)
            known = client.get_experiment_by_name(experiment)
            if known is None:
                artifacts = None
                if _OWN_DATABASE.match(uri):
                    # A server decides for itself; with a database MLflow would put them into the
                    # current folder.
                    beside = Path(folder).resolve() if database is None else database.parent
                    artifacts = (beside / ARTIFACTS).as_uri()
                made = client.create_experiment(experiment, artifact_location=artifacts)
                return TrackingStore(client, uri, str(made), spans)
            if database is not None and database == Path(folder).resolve() / DATABASE:
                _check_places(database, known.experiment_id)
            if known.lifecycle_stage == "deleted":
                client.restore_experiment(known.experiment_id)
    except TaxtuneError:
        raise
    except Exception as error:
        raise unusable(uri, error) from error
    return TrackingStore(client, uri, str(known.experiment_id), spans)


def record_folder(run: Path) -> Path:
    """Returns the folder with the record of a run; a comparison's run has it beside the others'."""
    is_above = (run.parent / DATABASE).exists() and not (run / DATABASE).exists()
    return run.parent if is_above else run


def page_of(database: Path, run: str | None) -> str:
    """Returns the path of a run's page on a server of MLflow's, of the first run's without an id.

    It is empty if the database has no such run.
    """
    query = (
        "SELECT experiment_id, run_uuid FROM runs WHERE run_uuid = :run OR :run IS NULL "
        "ORDER BY start_time"
    )
    with contextlib.closing(sqlite3.connect(database, timeout=10)) as connection:
        try:
            found = connection.execute(query, {"run": run}).fetchone()
        except sqlite3.Error:  # MLflow itself makes the tables where there are none
            found = None
    return "" if found is None else "/#/experiments/{}/runs/{}".format(*found)


def check_store(folder: str | Path, tracking_uri: str | None = None) -> None:
    """Raises a TaxtuneError if the store can be neither reached nor made; nothing is made.

    A note says if it takes no spans.
    """
    uri = store_uri(folder, tracking_uri)
    database = _sqlite_path(uri)
    if database is not None:
        # First: a name that is too long cannot even be looked up.
        atomic.check_folder(database.parent)
        if database.exists():
            _check_sqlite(database)
        return
    try:
        with _quiet():
            open_client(uri).search_experiments(max_results=1)
            if not takes_spans(uri):
                note(
                    f"MLflow at {redact(uri)} takes no spans, so images have no traces there. "
                    "A store in a database (sqlite:///mlflow.db) takes them."
                )
    except Exception as error:
        raise unusable(uri, error) from error


def takes_spans(uri: str) -> bool:
    """Tells whether a store takes spans; it is given one for an experiment that it cannot have."""
    if _OWN_DATABASE.match(uri) or uri.startswith("databricks"):
        return True
    from mlflow.entities import Span
    from mlflow.tracing.client import TracingClient

    trace = f"tr-{0:032}"
    probe = {
        "trace_id": trace,
        "span_id": f"{0:016}",
        "parent_span_id": None,
        "name": "probe",
        "start_time_unix_nano": 0,
        "end_time_unix_nano": 0,
        "status": {"code": "OK", "message": ""},
        "attributes": {"mlflow.traceRequestId": json.dumps(trace)},
    }
    try:
        TracingClient(uri).log_spans("-1", [Span.from_dict(probe)])
    except NotImplementedError:
        return False
    except Exception as error:
        # A store with spans lacks the experiment; a server passes on what its store says.
        return "not supported" not in str(error)
    return True


@contextlib.contextmanager
def in_force(store: TrackingStore) -> Iterator[None]:
    """Makes a store and its experiment those of MLflow's fluent API for the block."""
    import mlflow
    from mlflow.tracking import fluent

    names = (
        "MLFLOW_TRACKING_URI",
        "MLFLOW_EXPERIMENT_ID",
        "MLFLOW_EXPERIMENT_NAME",
        "MLFLOW_RUN_ID",
    )
    before = {name: os.environ.pop(name, None) for name in names}
    # What `mlflow.set_experiment` of the caller has set comes before the variable, and is of another
    # store.
    chosen = fluent._active_experiment_id
    fluent._active_experiment_id = None
    try:
        with _quiet():
            mlflow.set_tracking_uri(store.uri)
            os.environ["MLFLOW_EXPERIMENT_ID"] = store.experiment
            yield
    finally:
        fluent._active_experiment_id = chosen
        mlflow.set_tracking_uri(before["MLFLOW_TRACKING_URI"])
        for name in names[1:]:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def unusable(uri: str, error: Exception) -> TaxtuneError:
    """Returns the error of a store that cannot be reached or written."""
    if _sqlite_path(uri) is not None:
        remedy = (
            "Free some space or repair the database, or turn recording off: "
            "--set tracking.mlflow=false"
        )
    else:
        remedy = (
            "Start the tracking server, correct MLFLOW_TRACKING_URI, or unset it to record in the "
            "run's folder."
        )
    reason = short_reason(error).rstrip(".")
    if "Connection refused" in str(error):
        reason = "nothing is listening there"
    return TaxtuneError(f"MLflow cannot record at {redact(uri)}: {reason}.", remedy=remedy)


def short_reason(error: BaseException, limit: int = 300) -> str:
    """Returns the first lines of an error's message, without passwords."""
    text = " ".join(redact(str(error)).split()).split(" [SQL: ")[0] or type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps log records below warnings off the terminal.

    MLflow's migrations set up loggers of their own.
    """
    before = logging.root.manager.disable
    if os.environ.get("MLFLOW_LOGGING_LEVEL", "WARNING") == "WARNING":
        logging.disable(max(before, logging.INFO))
    try:
        yield
    finally:
        logging.disable(before)


def bring_along(database: Path) -> None:
    """Corrects the paths in a database that was moved together with its artifacts.

    MLflow writes down where artifacts lie by their full path: with experiments and runs, models and
    traces. If a run's folder was moved, renamed or copied, every text that begins with the old path
    begins with the new one after.
    """
    artifacts = database.resolve().parent / ARTIFACTS
    if not (database.exists() and artifacts.is_dir()):
        return
    here = artifacts.as_uri()
    with contextlib.closing(sqlite3.connect(database, timeout=10)) as connection, connection:
        columns = connection.execute(
            "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c "
            "WHERE m.type = 'table' AND (c.type LIKE '%CHAR%' OR c.type LIKE '%TEXT%')"
        ).fetchall()
        if ("experiments", "artifact_location") not in columns:
            return
        query = "SELECT DISTINCT artifact_location FROM experiments"
        for (old,) in connection.execute(query).fetchall():
            # Others belong to experiments that were made in this database without taxtune.
            is_own = old and old.startswith("file:") and old.endswith(f"/{ARTIFACTS}")
            if not is_own or old == here:
                continue
            inside = (here, len(old) + 1, old, len(old) + 1, f"{old}/")
            for table, column in columns:
                connection.execute(
                    f'UPDATE "{table}" SET "{column}" = ? || substr("{column}", ?) '
                    f'WHERE "{column}" = ? OR substr("{column}", 1, ?) = ?',
                    inside,
                )


def _check_places(database: Path, experiment: str) -> None:
    """Raises a `TaxtuneError` if a run's own database has artifacts sent elsewhere.

    The database may be a stranger's.
    """
    here = (database.parent / ARTIFACTS).as_uri()
    query = (
        "SELECT artifact_location FROM experiments WHERE experiment_id = :it UNION "
        "SELECT artifact_uri FROM runs WHERE experiment_id = :it"
    )
    with contextlib.closing(sqlite3.connect(database, timeout=10)) as connection:
        places = [str(place) for (place,) in connection.execute(query, {"it": experiment})]
    for place in places:
        climbs = re.search(r"/(\.|%2e){2}", place, re.IGNORECASE)
        if climbs or not f"{place}/".startswith(f"{here}/"):
            raise TaxtuneError(
                "The database has what is recorded kept elsewhere than beside it.",
                file=database,
                value=redact(place),
                remedy="Move it away to begin another.",
            )


def open_client(uri: str) -> Any:
    """Imports MLflow, which takes seconds, and returns its client."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient
    from mlflow.tracking._tracking_service import utils

    if os.environ["MLFLOW_LOGGING_LEVEL"] == "WARNING":
        # The variable counts only if MLflow has not been imported before.
        logger = logging.getLogger("mlflow")
        logger.setLevel(max(logging.WARNING, logger.getEffectiveLevel()))
        # It writes a traceback of every error of a database, which is raised as well.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    # MLflow keeps for good where runs' artifacts lie, and a folder may have been moved.
    getattr(utils, "_artifact_repos_cache", {}).clear()
    return MlflowClient(tracking_uri=uri)


def _make(database: Path) -> None:
    """Makes a database beside its place, and moves it there.

    A database without all of its tables cannot be opened again.
    """
    unfinished = database.with_name(f".{database.name}-{os.getpid()}")
    try:
        open_client(f"sqlite:///{unfinished.as_posix()}").search_experiments(max_results=1)
        os.replace(unfinished, database)
    finally:
        unfinished.unlink(missing_ok=True)


def _check_sqlite(path: Path) -> None:
    """Checks within milliseconds what MLflow would try ten times over for minutes."""
    atomic.make_folder(path.parent)
    if not path.exists():
        return
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
            connection.execute("PRAGMA schema_version")
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
    except sqlite3.Error as error:
        raise TaxtuneError(
            f"MLflow's database cannot be written: {error}.",
            file=path,
            remedy="Fix its permissions, or move it away to start a new one.",
        ) from error
