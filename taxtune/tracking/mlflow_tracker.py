"""Records a run in MLflow.

A tuning run is a parent run, an iteration a run nested in it, and the winner a version in the prompt registry.
Recording never decides over a run: an iteration that could not be recorded is kept and tried again, with one note to
the user, and the run goes on. What is recorded already is not recorded twice when a run is resumed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from taxtune.errors import TaxtuneError
from taxtune.progress import note
from taxtune.report.wording import best_so_far, headline, redact
from taxtune.tracking import values
from taxtune.tracking.store import Store, hushed, open_store, short_reason, store_uri
from taxtune.tuning.records import ComparisonResult, IterationRecord, TuneResult

__all__ = ["MLflowTracker"]

_PARENT, _NOTE = "mlflow.parentRunId", "mlflow.note.content"
_ITERATION, _RECORDED, _COMPARISON = "taxtune.iteration", "taxtune.recorded", "taxtune.comparison"
_PARAMETERS_A_CALL, _METRICS_A_CALL = 100, 1000
#: What the parent run shows as curves over the iterations, besides the run's own metrics.
_CURVES = frozenset(
    {"hp", "hr", "hf", "ihp", "ihr", "ihf", "accuracy", "depth", "value", "missing", "cost_usd", "seconds"}
)
T = TypeVar("T")


class MLflowTracker:
    """Records a run in MLflow.

    Args:
        experiment: Name of the MLflow experiment.
        folder: The run's folder; by default the store is `mlflow.db` with `mlartifacts/` in it.
        tracking_uri: Another store; without it `MLFLOW_TRACKING_URI` counts.
    """

    def __init__(
        self,
        experiment: str,
        folder: str | Path,
        tracking_uri: str | None = None,
    ) -> None:
        self._experiment = experiment
        self._folder = Path(folder)
        self._uri = store_uri(folder, tracking_uri)
        self._opened: Store | None = None
        self._run: str | None = None
        self._recorded: set[int] = set()
        self._pending: dict[int, tuple[IterationRecord, IterationRecord | None]] = {}
        self._complained = self._failed = False

    @property
    def whole(self) -> bool:
        """Whether all that was told is recorded."""
        return not (self._pending or self._failed)

    @property
    def unrecorded(self) -> tuple[int, ...]:
        """Numbers of the iterations that could not be recorded yet."""
        return tuple(sorted(self._pending))

    def start(
        self, name: str, parameters: Mapping[str, Any], tags: Mapping[str, str], run_id: str | None = None
    ) -> str:
        """Starts the parent run, or goes on with an earlier one.

        Args:
            name: Name of the run.
            parameters: The recipe, nested or flat; nested keys are joined with dots, and the whole of it is kept as
                `parameters.json` too, since MLflow cuts long values.
            tags: Tags of the run.
            run_id: The run to go on with; where the store does not know it, a new one is started.

        Returns:
            The run's id.

        Raises:
            TaxtuneError: If the store cannot be reached or written.
        """
        self._store()
        try:
            return self._start(name, parameters, tags, run_id)
        except Exception as error:
            raise TaxtuneError(
                f"MLflow cannot record the run at {redact(self._uri)}: {short_reason(error).rstrip('.')}.",
                remedy="Check the tracking server or its disk, or unset MLFLOW_TRACKING_URI to record in the run's "
                "folder.",
            ) from error

    def iteration(self, record: IterationRecord, best: IterationRecord | None = None) -> None:
        """Records an iteration as a nested run, unless it is recorded already.

        Args:
            record: The iteration.
            best: The best iteration so far, for the parent run's curves.
        """
        if record.iteration not in self._recorded:
            self._pending[record.iteration] = (record, best)
        self._flush()

    def finish(self, result: TuneResult) -> None:
        """Records the held-out scores with their intervals, and every iteration that is not recorded yet."""
        for record, best in zip(result.iterations, best_so_far(result.iterations), strict=True):
            if record.iteration not in self._recorded:
                self._pending.setdefault(record.iteration, (record, best))
        self._flush()
        if self._pending:
            note(
                f"MLflow has no record of iterations {', '.join(map(str, self.unrecorded))}; the run's folder has one."
            )
        self._try("the result", lambda: self._finish(result))

    def figure(self, path: str | Path) -> None:
        """Keeps a figure in the parent run's folder `figures`."""
        self._try(Path(path).name, lambda: self._store().client.log_artifact(self._parent(), str(path), "figures"))

    def artifact(self, path: str | Path) -> None:
        """Keeps a file with the parent run."""
        self._try(Path(path).name, lambda: self._store().client.log_artifact(self._parent(), str(path)))

    def register(self, name: str, template: str, tags: Mapping[str, str], alias: str | None = None) -> str | None:
        """Puts a template into the prompt registry as a new version; a run registers the same template once.

        Args:
            name: Name of the prompt; characters that MLflow does not take become dashes.
            template: The Jinja source, kept exactly.
            tags: Tags of the version, such as its scores.
            alias: A name by which to find this version, such as the objective.

        Returns:
            The prompt's address, "prompts:/name/version", or None where it could not be registered.
        """
        return self._try("the winning template", lambda: self._register(name, template, tags, alias))

    def comparison(self, result: ComparisonResult, figures: Sequence[Path], identity: str) -> str | None:
        """Records a comparison as a run of its own, in place of an earlier record of the same comparison.

        Args:
            result: The comparison.
            figures: Figures to keep with it.
            identity: Joins it to its tuning runs, which carry it as the tag `taxtune.comparison`.

        Returns:
            The id of the run, or None where it could not be recorded.

        Raises:
            TaxtuneError: If the store cannot be reached at all.
        """
        self._store()
        return self._try("the comparison", lambda: self._comparison(result, figures, identity))

    def close(self, status: str = "FINISHED") -> None:
        """Ends the parent run as "FINISHED", "FAILED" or "KILLED"; without a started run it does nothing."""
        if self._run is not None:
            self._try("the end of the run", lambda: self._close(status))

    def where(self) -> str:
        """Returns the command or the address that shows what is recorded."""
        store = self._opened or Store(None, self._uri, "")
        return store.where(self._run)

    # Inner workings

    def _close(self, status: str) -> None:
        client, run = self._store().client, self._parent()
        client.set_terminated(run, status)
        if status != "FINISHED":
            # What interrupted the run may have come in the middle of recording an iteration.
            for child in self._search(f"tags.`{_PARENT}` = '{run}'"):
                if child.info.status == "RUNNING":
                    client.set_terminated(child.info.run_id, status)

    def _store(self) -> Store:
        if self._opened is None:
            self._opened = open_store(self._experiment, self._folder, self._uri)
        return self._opened

    def _parent(self) -> str:
        if self._run is None:
            raise RuntimeError("start() comes first")
        return self._run

    def _start(self, name: str, parameters: Mapping[str, Any], tags: Mapping[str, str], run_id: str | None) -> str:
        store = self._store()
        run = self._known(run_id)
        if run is None:
            texts = {key: values.cut(str(value), values.TAG_LIMIT) for key, value in tags.items()}
            run = store.client.create_run(
                store.experiment, tags={"mlflow.source.name": "taxtune", **texts}, run_name=name
            )
            self._run = str(run.info.run_id)  # from here on `close` has a run to end, whatever happens
            if run_id is not None:
                note(f"MLflow does not know the run {run_id}; its iterations will be recorded again.")
        else:
            self._run = str(run.info.run_id)
            store.client.update_run(run.info.run_id, status="RUNNING")
        parent = str(run.info.run_id)
        # MLflow refuses to change a parameter, and a resumed run has them.
        known = run.data.params
        self._log(parent, parameters={key: v for key, v in values.flatten(parameters) if key not in known})
        store.client.log_dict(parent, values.plain(parameters), "parameters.json")
        self._recorded = self._children()
        return parent

    def _known(self, run_id: str | None) -> Any:
        if run_id is None:
            return None
        from mlflow.exceptions import MlflowException

        try:
            run = self._store().client.get_run(run_id)
        except MlflowException as error:
            # Another store, or its file was deleted: no reason not to go on.
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None

    def _children(self) -> set[int]:
        """Returns the iterations that have a whole record, and deletes those that a crash left half-recorded."""
        store, found = self._store(), set()
        for run in self._search(f"tags.`{_PARENT}` = '{self._parent()}'"):
            number = run.data.tags.get(_ITERATION, "")
            if number.isdecimal() and run.data.tags.get(_RECORDED) == "true":
                found.add(int(number))
            elif number:
                store.client.delete_run(run.info.run_id)
        return found

    def _search(self, condition: str) -> list[Any]:
        store, runs, token = self._store(), [], None
        while True:
            page = store.client.search_runs([store.experiment], condition, max_results=500, page_token=token)
            runs += list(page)
            token = page.token
            if not token:
                return runs

    def _flush(self) -> None:
        for number in sorted(self._pending):
            try:
                self._record(*self._pending[number])
            except Exception as error:
                # One note is enough: the next iterations, and `finish`, try again.
                if not self._complained:
                    note(f"MLflow could not record iteration {number}; the run continues: {short_reason(error)}")
                self._complained = True
                return
            del self._pending[number]
            self._recorded.add(number)
            self._complained = False

    def _record(self, record: IterationRecord, best: IterationRecord | None) -> None:
        client, number = self._store().client, record.iteration
        tags = {_PARENT: self._parent(), _ITERATION: str(number), "taxtune.state": record.state}
        tags["taxtune.feasible"] = str(record.feasible).lower()
        if record.reason is not None:
            tags["taxtune.reason"] = values.cut(record.reason, values.TAG_LIMIT)
        note = record.template if record.reason is None else f"{record.state}: {record.reason}"
        tags[_NOTE] = values.cut(values.indented(note or ""), values.TAG_LIMIT)
        name = "baseline" if number == 0 else f"iteration {number:02d}"
        # What an attempt before this one left half-recorded would be there twice.
        for there in self._search(f"tags.`{_PARENT}` = '{self._parent()}' and tags.`{_ITERATION}` = '{number}'"):
            if there.data.tags.get(_RECORDED) == "true":
                return
            client.delete_run(there.info.run_id)
        run = str(client.create_run(self._store().experiment, tags=tags, run_name=name).info.run_id)
        self._log(
            run,
            parameters=dict(values.flatten({"iteration": number, **record.parameters})),
            metrics=values.iteration_metrics(record),
            step=number,
        )
        if record.template is not None:
            client.log_text(run, record.template, "template.j2")
        if record.rejected:
            refused = [{"template": template, "reason": reason} for template, reason in record.rejected]
            client.log_dict(run, {"rejected": refused}, "rejected.json")
        if record.trace:
            client.log_dict(run, {"trace": [asdict(turn) for turn in record.trace]}, "trace.json")
        if record.rows:
            client.log_table(run, values.example_table(record.rows), "examples.json")
        own = set() if record.scores is None else {values.metric_key(key) for key in record.scores.measures}
        curves = {key: v for key, v in values.iteration_metrics(record).items() if key in _CURVES | own}
        self._log(self._parent(), metrics=curves | values.best_metrics(best), step=number)
        client.set_tag(run, _RECORDED, "true")
        client.set_terminated(run, "FINISHED" if record.state == "complete" else "FAILED")

    def _finish(self, result: TuneResult) -> None:
        client, run = self._store().client, self._parent()
        self._log(run, metrics=values.result_metrics(result))
        there = {file.path for file in client.list_artifacts(run)}
        winner = next((record for record in result.iterations if record.iteration == result.winner), None)
        if winner is not None and winner.template is not None:
            client.log_text(run, winner.template, "winner.j2")
            note = f"{headline(result)}\n\nIteration {winner.iteration} won:\n\n{values.indented(winner.template)}"
            client.set_tag(run, _NOTE, values.cut(note, values.TAG_LIMIT))
        for held in result.heldout:
            # `log_table` appends to a table that is there already.
            if held.rows and (name := f"heldout_{held.name}.json") not in there:
                client.log_table(run, values.example_table(held.rows), name)
        if result.heldout and "heldout.json" not in there:
            client.log_table(run, values.heldout_table(result.heldout), "heldout.json")

    def _register(self, name: str, template: str, tags: Mapping[str, str], alias: str | None) -> str:
        client, run = self._store().client, self._parent()
        known = client.get_run(run).data.tags.get("taxtune.prompt")
        if known is not None and client.load_prompt(known).template == template:
            return str(known)
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-") or "taxtune"
        texts = {key: values.cut(str(value), values.TAG_LIMIT) for key, value in tags.items()}
        with self._as_default_store():
            prompt = client.register_prompt(name, template, tags={"taxtune.run": run, **texts})
        address = f"prompts:/{name}/{prompt.version}"
        client.set_tag(run, "taxtune.prompt", address)
        if alias is not None:
            client.set_prompt_alias(name, alias, int(prompt.version))
        if hasattr(client, "link_prompt_version_to_run"):
            self._try("the run that the prompt is from", lambda: self._link(run, address))
        return address

    def _link(self, run: str, address: str) -> None:
        with self._as_default_store():
            self._store().client.link_prompt_version_to_run(run, address)

    def _comparison(self, result: ComparisonResult, figures: Sequence[Path], identity: str) -> str:
        store = self._store()
        client = store.client
        earlier = self._search(f"tags.`{_COMPARISON}` = '{identity}' and tags.`taxtune.kind` = 'comparison'")
        note = headline(result)
        tags = {"mlflow.source.name": "taxtune", _COMPARISON: identity, "taxtune.kind": "comparison", _NOTE: note}
        run = str(client.create_run(store.experiment, tags=tags, run_name=f"compare: {result.name}").info.run_id)
        metrics: dict[str, float] = {}
        for held in result.heldout:
            metrics |= values.heldout_metrics(held)
        for found in result.differences:
            pair = f"{found.name}-{found.other}"
            metrics |= values.difference_metrics(f"heldout.difference.{pair}", found.metrics)
            metrics |= values.difference_metrics(f"heldout.difference.full.{pair}", found.full)
        self._log(run, parameters={"objectives": ", ".join(r.objective for r in result.runs)}, metrics=metrics)
        client.log_table(run, values.heldout_table(result.heldout), "heldout.json")
        for held in result.heldout:
            client.log_text(run, held.template, f"template_{held.name}.j2")
        for figure in figures:
            client.log_artifact(run, str(figure), "figures")
        client.set_terminated(run, "FINISHED")
        for old in earlier:
            client.delete_run(old.info.run_id)
        return run

    def _log(
        self,
        run: str,
        *,
        parameters: Mapping[str, str] | None = None,
        metrics: Mapping[str, float] | None = None,
        step: int = 0,
    ) -> None:
        from mlflow.entities import Metric, Param

        client, now = self._store().client, int(time.time() * 1000)
        params = [Param(key, value) for key, value in (parameters or {}).items()]
        numbers = [Metric(key, value, now, step) for key, value in (metrics or {}).items()]
        for begin in range(0, len(params), _PARAMETERS_A_CALL):
            client.log_batch(run, params=params[begin : begin + _PARAMETERS_A_CALL])
        for begin in range(0, len(numbers), _METRICS_A_CALL):
            client.log_batch(run, metrics=numbers[begin : begin + _METRICS_A_CALL])

    @contextmanager
    def _as_default_store(self) -> Iterator[None]:
        # What a client does with prompts looks for runs and the current experiment in the *default* store, and would
        # make an `mlflow.db` in the current folder; these variables are the public way of naming the one that is meant.
        store = self._store()
        meant = {"MLFLOW_TRACKING_URI": store.uri, "MLFLOW_EXPERIMENT_ID": store.experiment}
        before = {name: os.environ.pop(name, None) for name in (*meant, "MLFLOW_EXPERIMENT_NAME")}
        os.environ.update(meant)
        try:
            with hushed():
                yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value

    def _try(self, what: str, action: Callable[[], T]) -> T | None:
        try:
            return action()
        except Exception as error:
            note(f"MLflow could not record {what}: {short_reason(error)}")
            self._failed = True
            return None
